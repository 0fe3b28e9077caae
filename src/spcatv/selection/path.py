"""Settings, and warm-started paths of many settings of the same data (docs/method.md section 4.3)."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from spcatv._util.parameters import FIT, TARGET_PARAMETERS
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import Data
from spcatv.decomposition import Decomposition, JointStart, WarmStart
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data, checked_data, fit_data, store_fit, with_parameters
from spcatv.estimator._validation import check_parameters
from spcatv.estimator._warnings import warn_about, warn_of_weights
from spcatv.progress import SILENT, Listener, current_listener
from spcatv.structure import Structure, as_structure

# Longest step that is extrapolated, as a multiple of the last step, and its largest relative deviation from a
# straight line.
LONGEST_STRIDE = 2.0
STRAIGHT = 1e-6
# The parameters of SPCATV that make a setting of the penalised model; otherwise TARGET_PARAMETERS.
WEIGHTS = ("alpha", "l1_ratio", "tv_ratio")
# values of either, by name; sparsity and alpha may be a tuple of one value per component
Setting = Mapping[str, Any]
# settings of a grid that differ in sparsity alone, or in alpha alone
Row = tuple[Setting, ...]


@dataclass(frozen=True)
class Path:
    """Models fitted along a path.

    Attributes
    ----------
    settings : tuple of mapping
        ``sparsity`` and ``smoothness`` of every model, or ``alpha``, ``l1_ratio`` and ``tv_ratio``.
    models : tuple of SPCATV
        The fitted models, in the order in which the settings were given.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import path
    >>> fitted = path(SPCATV(1), [[1.0, 2.0, 0.0], [3.0, 5.0, 1.0], [2.0, 1.0, 7.0]], [0.3, 0.6])
    >>> [dict(setting) for setting in fitted.settings], len(fitted.models)
    ([{'sparsity': 0.3, 'smoothness': 1.0}, {'sparsity': 0.6, 'smoothness': 1.0}], 2)
    """

    settings: tuple[Setting, ...]
    models: tuple[SPCATV, ...]


def path(estimator: SPCATV, X: Any, settings: Iterable[float | Mapping[str, float]]) -> Path:
    """Fit many settings to the same data, each from the one before.

    One pass over the data serves all settings. Each model is certified like a fit of its own.

    Parameters
    ----------
    estimator : SPCATV
        Everything but the settings; it is not changed.
    X : array-like or Data of shape (n_samples, n_features)
        Training data.
    settings : iterable of float or mapping
        Mappings with any of ``sparsity`` and ``smoothness``, or with any of ``alpha``, ``l1_ratio`` and
        ``tv_ratio`` (the penalised model). A number is a sparsity if the estimator has ``alpha=None``, and
        an alpha otherwise. Values that a setting lacks are the estimator's. The order does not matter: fits
        begin with the densest components, and successive fits have similar settings.

    Returns
    -------
    Path
        Settings and models. Where several components are as good as each other, a path may follow another
        one than a cold fit finds.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import path
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> fitted = path(SPCATV(1), X, [0.9, 0.5])
    >>> [int(np.sum(model.components_ == 0)) for model in fitted.models]
    [27, 15]
    """
    chosen = [complete_setting(estimator, setting) for setting in settings]
    if not chosen:
        raise ValueError("a path needs at least one setting")
    for setting in chosen:
        check_parameters(with_setting(estimator, setting))
    template, data, structure = checked_template(estimator, X)
    strongest = max(chosen, key=lambda setting: setting.get("smoothness", 0.0))
    warn_of_weights(with_setting(template, strongest), structure)
    fitter = PathFitter(template, data, structure, current_listener())
    by_number = {k: fitter.model(fitter.fit(chosen[k])) for k in path_order(chosen)}
    models = tuple(by_number[k] for k in range(len(chosen)))
    warn_about(*models)
    return Path(settings=tuple(chosen), models=models)


def checked_template(estimator: SPCATV, X: Any) -> tuple[SPCATV, Data, Structure]:
    """Return an unfitted copy of an estimator with the features of X, X as data, and its structure."""
    template: SPCATV = clone(estimator)
    check_parameters(template)
    data = checked_data(template, X, reset=True, min_samples=2)
    return template, data, as_structure(template.structure, n_features=data.shape[1])


@dataclass(frozen=True, eq=False)
class PathFit:
    """One setting of a path, fitted."""

    setting: Setting  # sparsity and smoothness, or alpha and the ratios
    decomposition: Decomposition  # with warm starts for others, in the unit of the data
    seconds: float  # wall-clock time of the fit


class PathFitter:
    """Fits settings to the same data, with the other parameters of a template, which is not changed."""

    def __init__(
        self, template: SPCATV, data: Data, structure: Structure, listener: Listener = SILENT
    ) -> None:
        self.template, self.structure = template, structure
        self.data = centred_data(template, data)
        self._listener = listener
        self._last: tuple[PathFit, ...] = ()  # the last two fits of the path
        self._start: JointStart | None = None  # of every joint fit to a wanted sparsity

    def fit(self, setting: Setting, *, alone: bool = False) -> PathFit:
        """Fit the next setting of the path, from the last two; or `alone`, as `SPCATV.fit` does."""
        estimator = with_setting(self.template, setting)
        check_parameters(estimator)
        rng = check_random_state(deepcopy(estimator.random_state))
        started = time.perf_counter()
        with one_blas_thread():
            found = fit_data(
                estimator,
                self.data,
                self.structure,
                rng=rng,
                keep_warm_start=True,
                warm_start=_warm_start(setting, () if alone else self._last)
                or WarmStart((), start=self._start),
                listener=self._listener,
            )
        if "sparsity" in setting:
            self._start = found.start
        fitted = PathFit(setting, found, time.perf_counter() - started)
        if not alone:
            self._last = (*self._last[-1:], fitted)
        return fitted

    def model(self, fitted: PathFit) -> SPCATV:
        """Return a fit of this path as a fitted estimator."""
        model = with_setting(self.template, fitted.setting)
        model.random_state = deepcopy(model.random_state)
        store_fit(model, self.data, self.structure, fitted.decomposition)
        return model


def path_order(settings: Sequence[Setting]) -> list[int]:
    """Order settings so that successive ones are alike, row by row.

    Values of alpha go up in one row and down in the next. Sparsity always goes up.
    """
    order: list[int] = []
    for number, row in enumerate(sorted({row_key(setting) for setting in settings})):
        members = [k for k, setting in enumerate(settings) if row_key(setting) == row]
        down = number % 2 == 1 and "alpha" in settings[members[0]]
        order += sorted(members, key=lambda k: _strength(settings[k]), reverse=down)
    return order


def way_to(setting: Setting, settings: Sequence[Setting]) -> list[Setting]:
    """Return the settings to fit, each from the one before, to reach `setting`, which is the last.

    A fit that starts at a strong penalty may miss what a path finds, so that smaller values of alpha with the
    same ratios come first. Components of a wanted sparsity are fitted alone.
    """
    if "sparsity" in setting:
        return [setting]
    row = [other for other in settings if row_key(other) == row_key(setting)]
    return [row[k] for k in path_order(row) if _strength(row[k]) <= _strength(setting)]


def row_key(setting: Setting) -> tuple[float, ...]:
    """Return the values of a setting that its row shares: the smoothness, or the pair of ratios."""
    return (setting["smoothness"],) if "sparsity" in setting else (setting["tv_ratio"], setting["l1_ratio"])


def _strength(setting: Setting) -> float:
    """Return the logarithm of alpha, or of one over the share of features that are not zero."""
    value = 1 / (1 - np.asarray(setting["sparsity"])) if "sparsity" in setting else setting["alpha"]
    return float(np.log(np.mean(value)))


def _warm_start(setting: Setting, near: Sequence[PathFit]) -> WarmStart | None:
    """Return a start from one or two fits, extrapolated through two if the settings lie on a line."""
    if not near:
        return None
    last, older = near[-1], near[-2] if len(near) > 1 else None
    # a sparse component may lack a region of a denser one: start only from denser ones
    if "sparsity" in setting and _strength(setting) < _strength(last.setting):
        return None
    before = last.decomposition
    alone = WarmStart(before.fitted, start=before.start)
    if older is None or not set(setting) == set(last.setting) == set(older.setting):
        return alone  # two models have no straight line in common
    last_move = _place(last.setting) - _place(older.setting)
    move = _place(setting) - _place(last.setting)
    ahead = float(move @ last_move) / (float(last_move @ last_move) or 1.0)
    straight = np.linalg.norm(move - ahead * last_move) <= STRAIGHT * np.linalg.norm(move)
    # a straight line through two points that are close together leads anywhere
    if not straight or not 0 < ahead <= LONGEST_STRIDE:
        return alone
    return WarmStart(before.fitted, older.decomposition.fitted, ahead, before.start)


def _place(setting: Setting) -> FloatArray:
    """Return a setting as a point: the logarithm of its strength, and the other values."""
    return np.array([_strength(setting), *row_key(setting)])


def complete_setting(estimator: SPCATV, setting: float | Mapping[str, Any]) -> Setting:
    """Return all values of a setting; those left out are taken from the estimator."""
    names = (TARGET_PARAMETERS, WEIGHTS) if estimator.alpha is None else (WEIGHTS, TARGET_PARAMETERS)
    given = dict(setting) if isinstance(setting, Mapping) else {names[0][0]: setting}
    for own in names:
        if set(given) <= set(own):
            complete = {name: given.get(name, getattr(estimator, name)) for name in own}
            if own == WEIGHTS and complete["alpha"] is None:
                raise ValueError(f"a setting with {', '.join(sorted(given))} needs alpha as well")
            return complete
    raise ValueError(
        "a setting of a path may hold sparsity and smoothness, or alpha, l1_ratio and tv_ratio; got "
        f"{', '.join(map(repr, sorted(given)))}"
    )


def with_setting(estimator: SPCATV, setting: Setting) -> SPCATV:
    """Return a copy of an estimator with the parameters of a setting, and defaults for the other model."""
    others = {name: getattr(FIT, name) for name in ("alpha", *TARGET_PARAMETERS)}
    copied: SPCATV = with_parameters(estimator, {**others, **setting})
    return copied


def setting_text(setting: Setting) -> str:
    """Describe a setting."""
    values = {name: ", ".join(f"{value:.4g}" for value in np.atleast_1d(setting[name])) for name in setting}
    return ", ".join(f"{name}={value}" for name, value in values.items())
