"""Grids of settings, and values of alpha that suit the data: below the one that empties all components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import Adjustment, as_data
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import alpha_unit
from spcatv.estimator._validation import check_parameters, checked_count
from spcatv.problem import Penalty
from spcatv.selection.path import PathFitter, Row, Setting, checked_template, with_setting
from spcatv.structure import Structure

# First alpha to try, as a share of the one that is proven to empty all components.
FIRST_SHARE = 0.05
# Smallest alpha to try, as a share of the same.
SMALLEST_SHARE = 1e-9
# Relative precision of the alpha at which the component becomes empty.
ALPHA_PRECISION = 0.02
# First value of a grid as a share of that alpha, so that fits of some of the samples are not empty, either.
JUST_BELOW = 0.95
# Most alternations of a fit: the first few decide whether the component is empty.
ALTERNATIONS = 5


@dataclass(frozen=True)
class AllZero:
    """Values of alpha between which the first component becomes empty (docs/method.md section 6.3).

    Attributes
    ----------
    nonempty : float
        The largest alpha, up to 2 %, at which a fit from the leading singular vectors of X finds a first
        component that is not zero.
    empty : float
        ``max_j ||X_j|| / N / l1_ratio``: from here on every component is zero; proven. In between, a path
        that comes from weaker penalties may find a component.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import all_zero_alpha
    >>> limits = all_zero_alpha(SPCATV(1), [[1.0, 2.0, 0.0], [3.0, 5.0, 1.0], [2.0, 1.0, 7.0]])
    >>> limits.nonempty <= limits.empty
    True
    """

    nonempty: float
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
    """Return falling values of alpha, from just below the one that empties all components.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data.
    structure, l1_ratio, tv_ratio
        As in `SPCATV`. ``l1_ratio`` must be above 0: without an l1 penalty no alpha sets loadings to zero.
    n_alphas : int, default=10
        Number of values.
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
    weights: dict[str, Any] = {"l1_ratio": l1_ratio, "tv_ratio": tv_ratio, "penalty": penalty}
    estimator = SPCATV(1, structure=structure, center=center, positive=positive, **weights)
    return _grid_below_all_zero(estimator, X, n_alphas, smallest)


def _grid_below_all_zero(estimator: SPCATV, X: Any, n_alphas: int, smallest: float) -> FloatArray:
    """Return `n_alphas` values, from just below the largest that leaves a component down to a share of it."""
    n_values = checked_count(n_alphas, "n_alphas")
    if not 0 < smallest < 1:
        raise ValueError(f"smallest is a share of the largest alpha, between 0 and 1; got {smallest!r}")
    return JUST_BELOW * all_zero_alpha(estimator, X).nonempty * np.geomspace(1.0, smallest, n_values)


def check_largest_alpha(estimator: SPCATV) -> None:
    """Refuse a ratio of 0, at which no alpha makes every loading zero."""
    if estimator.l1_ratio <= 0:
        raise ValueError(
            "l1_ratio is 0: without an l1 penalty no alpha sets every loading to zero, and there is no "
            "largest one; give l1_ratio > 0, or the values of alpha"
        )


def all_zero_alpha(estimator: SPCATV, X: Any) -> AllZero:
    """Find the alpha from which on the first component is empty.

    Fits from the same starts become empty at one alpha, which bisection finds: a component whose first
    loading is not zero never becomes empty, because its objective only falls.

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
    setting = {"alpha": 1.0, "l1_ratio": estimator.l1_ratio, "tv_ratio": estimator.tv_ratio}
    max_iter = min(int(estimator.max_iter), ALTERNATIONS)
    single = with_setting(estimator, setting)
    single = clone(single).set_params(n_components=1, method="deflation", init="svd", max_iter=max_iter)
    check_largest_alpha(single)
    fitter = PathFitter(*checked_template(single, X))
    data = fitter.data
    with one_blas_thread():
        norm = data.largest_column_norm
        empty = norm / data.shape[0] / single.l1_ratio / alpha_unit(single, data)
    if empty == 0:
        raise ValueError("X has no variance: every component is zero whatever alpha is")
    alpha, nonempty, smallest_empty = FIRST_SHARE * empty, 0.0, empty
    while smallest_empty > nonempty * (1 + ALPHA_PRECISION):
        if fitter.fit({**setting, "alpha": alpha}, alone=True).decomposition.components.any():
            nonempty = alpha
        else:
            smallest_empty = alpha
        alpha = float(np.sqrt(smallest_empty * nonempty)) or smallest_empty / 4
        if alpha < SMALLEST_SHARE * empty:
            raise ValueError(
                f"no alpha down to {alpha:.3g} leaves a component that is not empty; check X and the ratios "
                f"(l1_ratio={single.l1_ratio}, tv_ratio={single.tv_ratio})"
            )
    return AllZero(nonempty, empty)


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
    """Return every sparsity with every smoothness, one row per smoothness."""
    fixed = [{"smoothness": value} for value in values("smoothness", smoothness)]
    return _checked_rows(template, "sparsity", values("sparsity", sparsity), fixed)


def alpha_rows(template: SPCATV, alpha: Any, l1_ratio: Any, tv_ratio: Any) -> list[Row]:
    """Return every alpha with every pair of ratios that leaves something for the l2 norm, one row per pair.

    With ``alpha="grid"`` a row has one setting, of which `row_below_all_zero` makes a row.
    """
    is_grid = isinstance(alpha, str) and alpha == "grid"
    pairs = list(product(values("l1_ratio", l1_ratio), values("tv_ratio", tv_ratio)))
    pairs = [pair for pair in pairs if sum(pair) < 1] or pairs[:1]
    fixed = [{"l1_ratio": l1, "tv_ratio": tv} for l1, tv in pairs]
    rows = _checked_rows(template, "alpha", (1.0,) if is_grid else values("alpha", alpha), fixed)
    for setting, *_ in rows if is_grid else ():
        check_largest_alpha(with_setting(template, setting))
    return rows


def _checked_rows(
    template: SPCATV, name: str, varied: Sequence[float], fixed: Sequence[Setting]
) -> list[Row]:
    rows: list[Row] = [tuple({name: value, **others} for value in varied) for others in fixed]
    for setting in (setting for row in rows for setting in row):
        check_parameters(with_setting(template, setting))
    return rows


def row_below_all_zero(
    template: SPCATV,
    X: Any,
    structure: Structure,
    adjustment: Adjustment,
    setting: Setting,
    n_alphas: int,
    smallest: float,
) -> Row:
    """Return the row with the ratios of a setting, and values of alpha that suit all samples."""
    estimator = with_setting(template, setting).set_params(structure=structure)
    grid = _grid_below_all_zero(estimator, adjustment.whole(as_data(X)), n_alphas, smallest)
    return tuple({**setting, "alpha": alpha} for alpha in grid.tolist())
