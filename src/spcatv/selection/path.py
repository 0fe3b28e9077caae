"""Many settings of the same data: a warm-started path.

One pass over the data serves all settings, the memory layout of the structure is made once, and every fit
starts from the loadings, the scores and the dual variables of the fits before it (docs/method.md section
4.3). Each model is certified like a fit of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, Data
from spcatv.decomposition import Decomposition, WarmStart
from spcatv.estimator import SPCATV
from spcatv.estimator.fitting import Fit, checked_data, fit_data, store_fit, warn_about, with_parameters
from spcatv.estimator.parameters import check_parameters
from spcatv.progress import SILENT, Listener, listeners, together
from spcatv.structure import Structure, as_structure

# How much longer than the last step one may still go straight on, and how far aside of it that leads.
LONGEST_STRIDE = 2.0
STRAIGHT = 1e-6
# The parameters of SPCATV that make a setting.
WEIGHTS = ("tv_ratio", "l1_ratio", "alpha")
# alpha (one number, or a tuple of one per component), l1_ratio and tv_ratio
Setting = Mapping[str, Any]


@dataclass(frozen=True)
class Path:
    """Models fitted along a path.

    Attributes
    ----------
    settings : tuple of mapping
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
    X : array-like or Data of shape (n_samples, n_features)
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
    for setting in chosen:
        check_parameters(with_parameters(estimator, setting))
    template, data, structure = checked_template(estimator, X)
    fitter = PathFitter(template, data, structure, listener=together(*listeners()))
    models: dict[int, SPCATV] = {}
    for k in path_order(chosen):
        models[k] = fitter.model(fitter.fit(chosen[k]))
        warn_about(models[k])
    return Path(settings=tuple(chosen), models=tuple(models[k] for k in range(len(chosen))))


def checked_template(estimator: SPCATV, X: Any) -> tuple[SPCATV, Data, Structure]:
    """An unfitted copy of an estimator that has seen the features of X, X as data, and its structure."""
    template: SPCATV = clone(estimator)
    check_parameters(template)
    data = checked_data(template, X, reset=True, min_samples=2)
    return template, data, as_structure(template.structure, n_features=data.shape[1])


@dataclass(frozen=True, eq=False)
class PathFit:
    """One setting of a path, fitted.

    Attributes
    ----------
    setting : mapping
        ``alpha``, ``l1_ratio`` and ``tv_ratio``.
    fit : Fit
        Its fit, with warm starts for others.
    """

    setting: Setting
    fit: Fit

    @property
    def alpha(self) -> float:
        """The alpha of the setting, in the estimator's units."""
        return float(self.setting["alpha"])


class PathFitter:
    """Fits settings of the weights to the same data, each from others that it has fitted.

    Parameters
    ----------
    template : SPCATV
        Everything but the weights, valid; it is not changed.
    data : Data
        Training data.
    structure : Structure
        On the features.
    listener : Listener
        Told of the components and alternations of every fit.
    """

    def __init__(
        self, template: SPCATV, data: Data, structure: Structure, *, listener: Listener = SILENT
    ) -> None:
        self._template = template
        self.structure = structure
        self.data = CentredData(data, bool(template.center))
        self._listener = listener
        self._last: tuple[PathFit, ...] = ()

    def fit(self, setting: Setting) -> PathFit:
        """Fit the next setting of the path: from the last two fits, or from the estimator's `init`."""
        fitted = self.fit_from(setting, self._last)
        self._last = (*self._last[-1:], fitted)
        return fitted

    def fit_from(
        self, setting: Setting, near: Sequence[PathFit], found: Decomposition | None = None
    ) -> PathFit:
        """Fit a setting apart from the path, from one or two given fits.

        Parameters
        ----------
        setting : mapping
            ``alpha``, ``l1_ratio`` and ``tv_ratio``.
        near : sequence of PathFit
            Fits to start from, the nearer one last; from the estimator's `init` without any.
        found : Decomposition, default=None
            Components that come first and stay as they are.
        """
        estimator = with_parameters(self._template, setting)
        check_parameters(estimator)
        rng = check_random_state(deepcopy(estimator.random_state))
        with one_blas_thread():
            fit = fit_data(
                estimator,
                self.data,
                self.structure,
                rng=rng,
                keep_warm_start=True,
                warm_start=_warm_start(setting, near),
                found=found,
                listener=self._listener,
            )
        return PathFit(setting, fit)

    def model(self, fitted: PathFit) -> SPCATV:
        """A fit of this path as a fitted estimator."""
        model: SPCATV = with_parameters(self._template, fitted.setting)
        model.random_state = deepcopy(model.random_state)
        store_fit(model, fitted.fit)
        return model


def path_order(settings: Sequence[Setting]) -> list[int]:
    """An order in which neighbours are alike: up and down in alpha, from one pair of ratios to the next."""
    ratios = sorted({(setting["tv_ratio"], setting["l1_ratio"]) for setting in settings})
    order: list[int] = []
    for number, pair in enumerate(ratios):
        members = [k for k, s in enumerate(settings) if (s["tv_ratio"], s["l1_ratio"]) == pair]
        order += sorted(members, key=lambda k: settings[k]["alpha"], reverse=number % 2 == 1)
    return order


def _warm_start(setting: Setting, near: Sequence[PathFit]) -> WarmStart | None:
    """Where to start from, given one or two fits; straight on through two where they lie on a line."""
    if not near:
        return None
    last = near[-1]
    alone = WarmStart(last.fit.decomposition.fitted)
    if len(near) == 1:
        return alone
    older = near[-2]
    last_move = _place(last.setting) - _place(older.setting)
    move = _place(setting) - _place(last.setting)
    ahead = float(move @ last_move) / (float(last_move @ last_move) or 1.0)
    straight = np.linalg.norm(move - ahead * last_move) <= STRAIGHT * np.linalg.norm(move)
    # a straight line through two points that are close together leads anywhere
    if not straight or not 0 < ahead <= LONGEST_STRIDE:
        return alone
    return WarmStart(last.fit.decomposition.fitted, older.fit.decomposition.fitted, ahead)


def _place(setting: Setting) -> FloatArray:
    """Where a setting is, for its way to be straight: strengths differ by factors, ratios by amounts."""
    return np.append(np.log(setting["alpha"]), [setting["l1_ratio"], setting["tv_ratio"]])


def complete_setting(estimator: SPCATV, setting: float | Mapping[str, Any]) -> Setting:
    """The three weights of a setting, those left out taken from the estimator."""
    given = dict(setting) if isinstance(setting, Mapping) else {"alpha": setting}
    unknown = sorted(set(given) - set(WEIGHTS))
    if unknown:
        raise ValueError(
            f"a setting of a path may hold alpha, l1_ratio and tv_ratio, got {', '.join(map(repr, unknown))}"
        )
    return {name: given.get(name, getattr(estimator, name)) for name in WEIGHTS}


def setting_text(setting: Setting) -> str:
    """A setting in words."""
    values = ", ".join(f"{value:.4g}" for value in np.atleast_1d(setting["alpha"]))
    return f"alpha={values}, l1_ratio={setting['l1_ratio']:g}, tv_ratio={setting['tv_ratio']:g}"
