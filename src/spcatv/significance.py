"""Tests of whether two methods differ by more than chance (docs/method.md section 6.4).

Both tests are paired: the two methods are compared on the same folds or data sets, and only the differences
count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray

Alternative = Literal["two-sided", "less", "greater"]
ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "less", "greater")

_BLOCK_ENTRIES = 1 << 20  # signs drawn at once
# A permuted mean that differs from the observed one only by rounding counts as equal.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class PairedTest:
    """Result of a test on paired differences ``first - second``.

    Attributes
    ----------
    statistic : float
        t for the t-test; the mean difference for the sign-flip test.
    p_value : float
        Probability of a statistic at least as extreme if the two methods do not differ.
    mean_difference : float
        Mean of ``first - second``.
    n_pairs : int
        Number of pairs.
    n_permutations : int
        Number of sign patterns evaluated; 0 for the t-test.

    Examples
    --------
    >>> from spcatv.significance import sign_flip_test
    >>> result = sign_flip_test([1, 2, 3], [0, 0, 0])
    >>> result.mean_difference, result.p_value, result.n_pairs, result.n_permutations
    (2.0, 0.25, 3, 8)
    """

    statistic: float
    p_value: float
    mean_difference: float
    n_pairs: int
    n_permutations: int


def paired_t_test(
    first: npt.ArrayLike, second: npt.ArrayLike, *, alternative: Alternative = "two-sided"
) -> PairedTest:
    """Student's t-test of paired values, such as two methods' reconstruction errors on the same data sets.

    ``t = mean(d) / (std(d) / sqrt(n))`` for the differences d, with n - 1 degrees of freedom.

    Parameters
    ----------
    first, second : array-like of shape (n,)
        Values of the two methods, in the same order; at least two pairs.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        What counts as extreme: any difference, `first` below `second`, or `first` above `second`.

    Returns
    -------
    PairedTest
        If all differences are equal, t is infinite and p is 0 (or 1 for the opposite alternative). If
        all differences are zero, ``t = 0`` and ``p = 1``.

    Examples
    --------
    >>> from spcatv.significance import paired_t_test
    >>> errors_of_one, errors_of_other = [1.0, 1.2, 0.9, 1.1], [1.5, 1.6, 1.6, 1.5]
    >>> result = paired_t_test(errors_of_one, errors_of_other)
    >>> round(result.statistic, 2), round(result.p_value, 4)
    (-7.07, 0.0058)
    """
    # imported here because nothing else in the package needs it
    from scipy.special import stdtr

    _check_alternative(alternative)
    difference = _differences(first, second)
    n = len(difference)
    if n < 2:
        raise ValueError(f"a paired t-test needs at least two pairs, got {n}")
    mean = float(difference.mean())
    error = float(difference.std(ddof=1) / np.sqrt(n))
    if error <= _ROUNDING * abs(mean):
        statistic = 0.0 if mean == 0 else float(np.copysign(np.inf, mean))
    else:
        statistic = mean / error
    below = float(stdtr(n - 1, statistic))
    above = float(stdtr(n - 1, -statistic))
    p_value = {"less": below, "greater": above, "two-sided": min(1.0, 2 * min(below, above))}[alternative]
    return PairedTest(statistic, p_value, mean, n, 0)


def sign_flip_test(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    n_permutations: int = 1000,
    alternative: Alternative = "two-sided",
    random_state: int | None = 0,
) -> PairedTest:
    """Permutation test of paired values, such as two methods' Dice indices of the same pairs of folds.

    If the methods do not differ, the sign of every difference is random: the mean difference is compared
    with the means under random signs. If there are at most `n_permutations` sign patterns, each is evaluated
    once and p is exact. Otherwise ``p = (1 + #{as extreme}) / (1 + n_permutations)``, which is never 0 and
    keeps its level for any number of permutations (Phipson and Smyth, 2010).

    Parameters
    ----------
    first, second : array-like of shape (n,)
        Values of the two methods, in the same order.
    n_permutations : int, default=1000
        Number of random sign patterns; the paper uses 1000.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        What counts as extreme: any difference, `first` below `second`, or `first` above `second`.
    random_state : int or None, default=0
        Seed of the patterns.

    Returns
    -------
    PairedTest
        The statistic is the mean difference.

    Notes
    -----
    Dice indices of pairs of folds that share a fold are not independent, and p is then too small. The test
    is offered because the paper uses it; with several data sets, prefer one value per data set.

    Examples
    --------
    >>> from spcatv.significance import sign_flip_test
    >>> dice_of_one, dice_of_other = [0.9, 0.8, 0.85, 0.7], [0.6, 0.7, 0.5, 0.65]
    >>> result = sign_flip_test(dice_of_one, dice_of_other)
    >>> result.p_value, result.n_permutations  # all 2^4 sign patterns
    (0.125, 16)
    """
    _check_alternative(alternative)
    if isinstance(n_permutations, bool) or int(n_permutations) != n_permutations or n_permutations < 1:
        raise ValueError(f"n_permutations must be an integer of at least 1, got {n_permutations!r}")
    difference = _differences(first, second)
    n = len(difference)
    observed = _extremeness(difference.mean(keepdims=True), alternative)[0]
    slack = _ROUNDING * float(np.abs(difference).mean())
    # compare exponents: 2**n has hundreds of digits for many pairs
    exact = n <= int(np.log2(n_permutations))
    n_patterns = 1 << n if exact else int(n_permutations)
    rng = np.random.default_rng(random_state)
    height = max(1, _BLOCK_ENTRIES // n)
    as_extreme = 0
    for begin in range(0, n_patterns, height):
        numbers = np.arange(begin, min(begin + height, n_patterns))
        flips = (
            numbers[:, None] >> np.arange(n) & 1 if exact else rng.integers(0, 2, size=(len(numbers), n))
        ).astype(np.float64)
        means = difference.mean() - 2.0 * (flips @ difference) / n
        as_extreme += int((_extremeness(means, alternative) >= observed - slack).sum())
    p_value = as_extreme / n_patterns if exact else (1 + as_extreme) / (1 + n_patterns)
    mean = float(difference.mean())
    return PairedTest(mean, p_value, mean, n, n_patterns)


def _extremeness(means: FloatArray, alternative: Alternative) -> FloatArray:
    """The means, such that larger values are more extreme."""
    return {"two-sided": np.abs(means), "less": -means, "greater": means}[alternative]


def _check_alternative(alternative: Any) -> None:
    if alternative not in ALTERNATIVES:
        raise ValueError(
            f"unknown alternative {alternative!r}; choose one of {', '.join(map(repr, ALTERNATIVES))}"
        )


def _differences(first: npt.ArrayLike, second: npt.ArrayLike) -> FloatArray:
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim != 1 or one.shape != other.shape or one.size == 0:
        raise ValueError(
            f"paired values must be two vectors of the same length, got shapes {one.shape} and {other.shape}"
        )
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError("paired values must be finite; leave out pairs with a missing value")
    return one - other
