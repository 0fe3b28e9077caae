"""Many settings on the same data: a warm-started path.

One pass over the data serves all settings, the memory layout of the structure is made once, and every fit
starts from the loadings, the scores and the dual variables of the one before it (docs/method.md section
4.3). Each model is certified like a fit of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data.centred import CentredMatrix
from spcatv.decomposition import Decomposition, Trail
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters
from spcatv.structure import as_structure

# How much longer than the last step one may still go straight on, and how far aside of it that leads.
LONGEST_STRIDE = 2.0
STRAIGHT = 1e-6
WEIGHTS = ("tv_ratio", "l1_ratio", "alpha")
Setting = dict[str, float]


@dataclass(frozen=True)
class Path:
    """Models fitted along a path.

    Attributes
    ----------
    settings : tuple of dict
        ``alpha``, ``l1_ratio`` and ``tv_ratio`` of every model, in the order they were given.
    models : tuple of SPCATV
        The fitted models, in the same order.
    """

    settings: tuple[Setting, ...]
    models: tuple[SPCATV, ...]


def path(estimator: SPCATV, X: Any, settings: Iterable[float | Mapping[str, float]]) -> Path:
    """Fit many settings of the weights to the same data, each from the one before.

    Parameters
    ----------
    estimator : SPCATV
        Everything but the weights; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Training data.
    settings : iterable of float or mapping
        Values of alpha, or mappings with any of ``alpha``, ``l1_ratio`` and ``tv_ratio``; what a setting
        leaves out is the estimator's. Whatever the order given, fits begin with the weakest penalty,
        which starts where PCA ends, and go on so that each is like the one before.

    Returns
    -------
    Path

    Notes
    -----
    `init` and `n_init` count for the first fit, and for components that the one before has lost. Where the
    problem has several local minima a path may follow another one than a cold fit would find.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import path
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> fitted = path(SPCATV(1, structure=(30,)), X, [0.4, 0.1])
    >>> [model.alpha for model in fitted.models]
    [0.4, 0.1]
    """
    chosen = [complete_setting(estimator, setting) for setting in settings]
    if not chosen:
        raise ValueError("a path needs at least one setting")
    trial = clone(estimator)
    for setting in chosen:
        vars(trial).update(setting)  # set_params would read the signature each time
        check_parameters(trial)
    walker = PathWalker(estimator, X)
    models: dict[int, SPCATV] = {}
    walked: list[Step] = []
    for k in path_order(chosen):
        step = walker.fit(chosen[k], walked)
        models[k] = step.model
        walked = [*walked[-1:], step]
    return Path(settings=tuple(chosen), models=tuple(models[k] for k in range(len(chosen))))


@dataclass(frozen=True, eq=False)
class Step:
    """One setting of a path, fitted.

    Attributes
    ----------
    setting : dict
        ``alpha``, ``l1_ratio`` and ``tv_ratio``.
    model : SPCATV
        The fitted model.
    decomposition : Decomposition
        What a neighbouring setting starts from.
    """

    setting: Setting
    model: SPCATV
    decomposition: Decomposition


class PathWalker:
    """Fits settings of the weights to the same data, each from others that it has fitted.

    Parameters
    ----------
    estimator : SPCATV
        Everything but the weights; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Training data, checked here once.
    """

    def __init__(self, estimator: SPCATV, X: Any) -> None:
        self._template = clone(estimator)
        check_parameters(self._template)
        data = self._template._validated(X, reset=True, min_samples=2)
        self.structure = as_structure(self._template.structure, n_features=data.shape[1])
        self._matrix = CentredMatrix(data, center=bool(self._template.center))

    @property
    def n_rows(self) -> int:
        """Number of rows N of the data."""
        return self._matrix.shape[0]

    def unit(self) -> float:
        """``max_j ||X_j||_2 / N``, the unit of a relative alpha; 0 for data without variance."""
        with one_blas_thread():
            return self._matrix.largest_column_norm / self.n_rows

    def alpha_unit(self) -> float:
        """What alpha = 1 stands for in the objective: `unit`, or 1 if the penalty is absolute."""
        return self.unit() if self._template.penalty_units == "relative" else 1.0

    def _copy(self) -> SPCATV:
        """The estimator once more, with the features that it has seen."""
        # a clone would read the signature and copy every parameter; only this one can change in a fit
        model: SPCATV = copy(self._template)
        model.random_state = deepcopy(self._template.random_state)
        return model

    def fit(self, setting: Setting, walked: Sequence[Step] = ()) -> Step:
        """Fit a setting, from the last one or two steps given; from the estimator's `init` without any."""
        model = self._copy()
        model.__dict__.update(setting)
        check_parameters(model)
        with one_blas_thread():
            result = model._fit_matrix(
                self._matrix, self.structure, on_path=True, trail=_trail(setting, walked[-2:])
            )
        return Step(setting, model, result)


class QuietSPCATV(SPCATV):
    """SPCATV without warnings: for many fits whose troubles are told together."""

    def _warn(self, result: Decomposition) -> None:
        """Say nothing: `diagnostics_` and `components_` hold what there is to say."""


def quiet(estimator: SPCATV) -> QuietSPCATV:
    """An unfitted copy of an estimator that does not warn."""
    return QuietSPCATV(**clone(estimator).get_params(deep=False))


def plain(model: SPCATV) -> SPCATV:
    """A fitted model, quiet or not, as a plain `SPCATV`."""
    copy = SPCATV(**model.get_params(deep=False))
    for name, value in vars(model).items():
        setattr(copy, name, value)
    return copy


def path_order(settings: Sequence[Setting]) -> list[int]:
    """An order in which neighbours are alike: up and down in alpha, from one pair of ratios to the next."""
    ratios = sorted({(setting["tv_ratio"], setting["l1_ratio"]) for setting in settings})
    order: list[int] = []
    for number, (tv_ratio, l1_ratio) in enumerate(ratios):
        members = [
            k
            for k, setting in enumerate(settings)
            if (setting["tv_ratio"], setting["l1_ratio"]) == (tv_ratio, l1_ratio)
        ]
        order += sorted(members, key=lambda k: settings[k]["alpha"], reverse=number % 2 == 1)
    return order


def _trail(setting: Setting, walked: Sequence[Step]) -> Trail | None:
    """Where to start from, given the last one or two steps."""
    if not walked:
        return None
    last = walked[-1]
    if len(walked) == 1:
        return Trail(last.decomposition)
    older = walked[0]
    last_move = _place(last.setting) - _place(older.setting)
    move = _place(setting) - _place(last.setting)
    ahead = float(move @ last_move) / (float(last_move @ last_move) or 1.0)
    straight = np.linalg.norm(move - ahead * last_move) <= STRAIGHT * np.linalg.norm(move)
    # a straight line through two points that are close together leads anywhere
    if not straight or not 0 < ahead <= LONGEST_STRIDE:
        return Trail(last.decomposition)
    return Trail(last.decomposition, older.decomposition, ahead)


def _place(setting: Setting) -> FloatArray:
    """Where a setting is, for its way to be straight: strengths differ by factors, ratios by amounts."""
    return np.array([np.log(setting["alpha"]), setting["l1_ratio"], setting["tv_ratio"]])


def complete_setting(estimator: SPCATV, setting: float | Mapping[str, float]) -> Setting:
    """The three weights of a setting, those left out taken from the estimator."""
    given = dict(setting) if isinstance(setting, Mapping) else {"alpha": setting}
    unknown = sorted(set(given) - set(WEIGHTS))
    if unknown:
        raise ValueError(
            f"a setting of a path may hold alpha, l1_ratio and tv_ratio, got {', '.join(map(repr, unknown))}"
        )
    return {name: given.get(name, getattr(estimator, name)) for name in WEIGHTS}


def take_features(model: SPCATV, other: Any) -> None:
    """Give a model the number and the names of the features that another estimator has seen."""
    model.n_features_in_ = other.n_features_in_
    if hasattr(other, "feature_names_in_"):
        model.feature_names_in_ = other.feature_names_in_
