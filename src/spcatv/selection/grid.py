"""Grids of settings, and values of alpha that suit the data: below the one that empties all components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.parameters import FIT
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import Adjustment, as_data
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import alpha_unit
from spcatv.estimator._validation import check_parameters, checked_count
from spcatv.problem import Penalty, as_penalty
from spcatv.selection.path import (
    PathFit,
    PathFitter,
    Row,
    Setting,
    checked_template,
    complete_setting,
    with_setting,
)
from spcatv.structure import Structure

Pair = tuple[float, float]
# The first alpha tried, as a share of the one that surely kills everything.
FIRST_SHARE = 0.05
# Below this share of it, a penalty has no effect that could be seen.
SMALLEST_SHARE = 1e-9
# Relative precision of the alpha from which on the component is empty.
ALPHA_PRECISION = 0.02
# A grid begins here, so that its first value leaves something on a part of the samples as well.
JUST_BELOW = 0.95
MOST_FITS = 60
# The first alternation decides whether a component is empty; a few more show which way it goes.
ALTERNATIONS = 5


@dataclass(frozen=True)
class AllZero:
    """Values of alpha between which the first component becomes empty (docs/method.md section 6.3).

    Attributes
    ----------
    nonempty : float
        The largest alpha, up to 2 %, at which a fit from the leading singular vectors of X finds a first
        component that is not zero.
    witness : float
        ``||Xv|| / (N (l1_ratio ||v||_1 + tv_ratio s(v)))`` for the best loading v that was found by going on
        from there: at every smaller alpha, v beats zero; proven. Between `nonempty` and `witness` a component
        exists, but only a path that comes from weaker penalties finds it.
    empty : float
        ``max_j ||X_j|| / N / l1_ratio``: from here on every component is zero; proven.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import all_zero_alpha
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> limits = all_zero_alpha(SPCATV(1, structure=(30,), alpha=1.0), X)
    >>> limits.nonempty < limits.empty, limits.witness <= limits.empty
    (True, True)
    """

    nonempty: float
    witness: float
    empty: float


def alpha_grid(
    X: Any,
    structure: Any = None,
    *,
    l1_ratio: float = 0.25,
    tv_ratio: float = 0.5,
    n_alphas: int = 10,
    smallest: float = 0.02,
    center: bool = True,
    penalty: Penalty = "tv",
    positive: bool = False,
) -> FloatArray:
    """Return values of alpha worth trying, from just below the one that empties all components down.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data.
    structure : Structure, shape, mask, ... or None, default=None
        As in `SPCATV`.
    l1_ratio, tv_ratio : float
        Shares of alpha, as in `SPCATV`; without an l1 penalty no alpha sets loadings to zero, so that
        ``l1_ratio`` must be above 0.
    n_alphas : int, default=10
        How many.
    smallest : float, default=0.02
        The last value as a share of the first.
    center, penalty, positive
        As in `SPCATV`.

    Returns
    -------
    ndarray of shape (n_alphas,)
        Falling geometrically, in the units of ``penalty_units="relative"``. The first value is 5 % below
        the largest at which a fit finds a component that is not zero (`all_zero_alpha`).

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.selection import alpha_grid
    >>> X = np.zeros((4, 3))
    >>> X[:, 0] = [1, -1, 1, -1]  # one feature that varies: the l1 norm alone kills it at 1 / l1_ratio
    >>> alpha_grid(X, l1_ratio=0.5, tv_ratio=0.0, n_alphas=3, smallest=0.01).round(1)
    array([1.9, 0.2, 0. ])
    """
    estimator = SPCATV(
        1,
        structure=structure,
        alpha=1.0,
        l1_ratio=l1_ratio,
        tv_ratio=tv_ratio,
        center=center,
        penalty=penalty,
        positive=positive,
    )
    return grid_below(all_zero_alpha(estimator, X), n_alphas, smallest)


def grid_below(all_zero: AllZero, n_alphas: int, smallest: float) -> FloatArray:
    """Return `n_alphas` values, from just below the largest that leaves a component down to a share of it."""
    n_values = checked_count(n_alphas, "n_alphas")
    if not 0 < smallest < 1:
        raise ValueError(f"smallest is a share of the largest alpha, between 0 and 1; got {smallest!r}")
    return JUST_BELOW * all_zero.nonempty * np.geomspace(1.0, smallest, n_values)


def check_largest_alpha(l1_ratio: float) -> None:
    """Refuse a ratio of 0, at which no alpha makes every loading zero."""
    if l1_ratio <= 0:
        raise ValueError(
            "l1_ratio is 0: without an l1 penalty no alpha sets every loading to zero, and there is no "
            "largest one; give l1_ratio > 0, or the values of alpha"
        )


def all_zero_alpha(estimator: SPCATV, X: Any) -> AllZero:
    """Find the alpha from which on the first component is empty.

    For given scores u the loading is zero from some alpha on, and a component whose first loading is not
    zero never becomes so, because its objective only falls: fits from the same starts die at one alpha,
    which bisection finds. By (1.3d) of docs/method.md a loading v beats zero exactly if alpha is below its
    `AllZero.witness`; each fit at the witness of the last one finds a higher one, until none does.

    Parameters
    ----------
    estimator : SPCATV
        Everything but alpha, which is ignored; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Data.

    Returns
    -------
    AllZero
        In the estimator's own units of alpha.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import all_zero_alpha
    >>> X = np.zeros((4, 3))
    >>> X[:, 0] = [1, -1, 1, -1]  # one feature that varies: the l1 norm alone kills it at 1 / l1_ratio
    >>> limits = all_zero_alpha(SPCATV(1, alpha=1.0, l1_ratio=0.5, tv_ratio=0.0), X)
    >>> round(limits.empty, 6)
    2.0
    """
    single = clone(estimator).set_params(
        n_components=1,
        sparsity=FIT.sparsity,
        smoothness=FIT.smoothness,
        alpha=1.0,
        method="deflation",
        init="svd",
        max_iter=min(int(estimator.max_iter), ALTERNATIONS),
    )
    setting = complete_setting(single, {})
    check_largest_alpha(setting["l1_ratio"])
    single, data, structure = checked_template(single, X)
    fitter = PathFitter(single, data, structure)
    empty = empty_alpha(single, fitter)
    if empty == 0:
        raise ValueError("X has no variance: every component is zero whatever alpha is")
    last = _last_nonempty(fitter, setting, empty)
    return AllZero(nonempty=last.alpha, witness=_climb(single, fitter, last), empty=empty)


def empty_alpha(estimator: SPCATV, fitter: PathFitter) -> float:
    """``max_j ||X_j|| / N / l1_ratio`` in the estimator's units; 0 for data without variance."""
    data = fitter.data
    with one_blas_thread():
        return data.largest_column_norm / data.shape[0] / estimator.l1_ratio / alpha_unit(estimator, data)


def _last_nonempty(fitter: PathFitter, setting: Setting, empty: float) -> PathFit:
    """Return the fit with the largest alpha that has a component, by bisection."""
    nonempty: PathFit | None = None
    alpha, smallest_empty = FIRST_SHARE * empty, empty
    while nonempty is None or smallest_empty > nonempty.alpha * (1 + ALPHA_PRECISION):
        fitted = fitter.fit_from({**setting, "alpha": alpha}, near=())
        if fitted.fit.components.any():
            nonempty = fitted
        else:
            smallest_empty = alpha
        alpha = smallest_empty / 4 if nonempty is None else float(np.sqrt(smallest_empty * nonempty.alpha))
        if alpha < SMALLEST_SHARE * empty:
            raise ValueError(
                f"no alpha down to {alpha:.3g} leaves a component that is not empty; check X and the ratios "
                f"(l1_ratio={setting['l1_ratio']}, tv_ratio={setting['tv_ratio']})"
            )
    return nonempty


def _climb(estimator: SPCATV, fitter: PathFitter, fitted: PathFit) -> float:
    """Return the largest witness that is found by following the component upwards."""
    witness = _witness(estimator, fitter, fitted)
    for _ in range(MOST_FITS):
        # the witness itself is out of reach of a fit of finite precision: aim a little below
        aim = witness * (1 - 0.5 * ALPHA_PRECISION)
        if aim <= fitted.alpha * (1 + 0.5 * ALPHA_PRECISION):
            break
        fitted = fitter.fit_from({**fitted.setting, "alpha": aim}, near=[fitted])
        if not fitted.fit.components.any():
            break
        witness = max(witness, _witness(estimator, fitter, fitted))
    return witness


def _witness(estimator: SPCATV, fitter: PathFitter, fitted: PathFit) -> float:
    """Return the alpha up to which this component's loading has a positive margin."""
    loading = fitted.fit.components[0]
    weighted = fitted.setting["l1_ratio"] * float(np.abs(loading).sum())
    # a penalty that is quadratic near zero vanishes faster than the loading does
    rows = fitter.structure.forward(loading)
    slope = as_penalty(estimator.penalty).slope_at_zero(fitter.structure, rows)
    weighted += fitted.setting["tv_ratio"] * slope
    explained = float(fitted.fit.decomposition.singular_values[0]) / fitter.data.shape[0]
    return explained / weighted / alpha_unit(estimator, fitter.data)


def values(name: str, given: Any) -> tuple[float, ...]:
    """Return a parameter that may be one number or several, as a tuple of different numbers."""
    numbers = (given,) if isinstance(given, Real) else tuple(given) if np.ndim(given) == 1 else ()
    if not numbers or any(isinstance(value, bool) or not isinstance(value, Real) for value in numbers):
        remedy = "leave it out for the default values"
        if name == "alpha":
            remedy = "take 'grid' for values that suit the data"
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {given!r}; {remedy}")
    return tuple(dict.fromkeys(float(value) for value in numbers))


def target_rows(template: SPCATV, sparsity: Any, smoothness: Any) -> list[Row]:
    """Return every sparsity with every smoothness, one row per smoothness, all checked."""
    shares = values("sparsity", sparsity)
    rows: list[Row] = [
        tuple({"sparsity": share, "smoothness": value} for share in shares)
        for value in values("smoothness", smoothness)
    ]
    for setting in (setting for row in rows for setting in row):
        check_parameters(with_setting(template, setting))
    return rows


def ratio_pairs(template: SPCATV, l1_ratio: Any, tv_ratio: Any) -> list[Pair]:
    """Return all pairs (l1_ratio, tv_ratio) that leave something for the l2 norm."""
    every = list(product(values("l1_ratio", l1_ratio), values("tv_ratio", tv_ratio)))
    pairs = [(l1, tv) for l1, tv in every if l1 + tv < 1] or every[:1]
    for l1, tv in pairs:
        check_parameters(clone(template).set_params(l1_ratio=l1, tv_ratio=tv))
    return pairs


def alpha_rows(pairs: Sequence[Pair], alphas: Sequence[float]) -> list[Row]:
    """Return every alpha with every pair of ratios, one row per pair."""
    return [tuple({"alpha": alpha, "l1_ratio": l1, "tv_ratio": tv} for alpha in alphas) for l1, tv in pairs]


def row_below_all_zero(
    template: SPCATV,
    X: Any,
    structure: Structure,
    pair: Pair,
    adjustment: Adjustment,
    n_alphas: int,
    smallest: float,
) -> Row:
    """Return the row of a pair of ratios, with values of alpha that suit all samples."""
    estimator = clone(template).set_params(structure=structure, l1_ratio=pair[0], tv_ratio=pair[1])
    grid = grid_below(all_zero_alpha(estimator, adjustment.whole(as_data(X))), n_alphas, smallest)
    return alpha_rows([pair], grid.tolist())[0]
