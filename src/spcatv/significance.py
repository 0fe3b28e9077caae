"""Tests of whether two methods differ by more than chance (docs/method.md section 6.4).

Both tests are paired: the two methods are compared on the same data sets or folds, and only the differences
count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray

Alternative = Literal["two-sided", "less", "greater"]
ALTERNATIVES: tuple[Alternative, ...] = get_args(Alternative)

_BLOCK_ENTRIES = 1 << 20  # signs drawn at once
# Treat a standard error below this share of the mean difference as rounding.
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
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    held_out: float = 0.0,
) -> PairedTest:
    """Compare paired values, such as two methods' errors on the same data sets, by Student's t.

    ``t = mean(d) / sqrt(var(d) (1 / n + h / (1 - h)))`` for the differences d, with n - 1 degrees of freedom
    and h the share `held_out`: 0 for independent data sets. Folds of one data set share most of their
    training samples, and a test that ignores this finds a difference where there is none in a third of all
    cases; the term in h corrects for it (Nadeau and Bengio, 2003).

    Parameters
    ----------
    first, second : array-like of shape (n,)
        Values of the two methods, in the same order; at least two pairs.
    alternative : {"two-sided", "less", "greater"}, default="two-sided"
        What counts as extreme: any difference, `first` below `second`, or `first` above `second`.
    held_out : float, default=0
        Share of the samples that each fold holds out, if the values are those of folds of *one* data set:
        1/5 for five folds.

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
    # imported here because SciPy's statistics are slow to import
    from scipy.stats import t as student

    difference = _differences(first, second, alternative)
    n = len(difference)
    if not 0 <= held_out < 1:
        raise ValueError(f"held_out must be at least 0 and less than 1, got {held_out!r}")
    mean = float(difference.mean())
    error = float(difference.std(ddof=1) * np.sqrt(1 / n + held_out / (1 - held_out)))
    if error <= _ROUNDING * abs(mean):
        statistic = 0.0 if mean == 0 else float(np.copysign(np.inf, mean))
    else:
        statistic = mean / error
    extreme = {"two-sided": -abs(statistic), "less": statistic, "greater": -statistic}[alternative]
    p_value = float(student.cdf(extreme, n - 1)) * (2 if alternative == "two-sided" else 1)
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
        Values of the two methods, in the same order; at least two pairs.
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
    The test takes the pairs as independent. Dice indices of pairs of folds that share a fold are not, nor are
    folds of one data set, and p is then too small. The test is offered because the paper uses it; with
    several data sets, give one value per data set.

    Examples
    --------
    >>> from spcatv.significance import sign_flip_test
    >>> dice_of_one, dice_of_other = [0.9, 0.8, 0.85, 0.7], [0.6, 0.7, 0.5, 0.65]
    >>> result = sign_flip_test(dice_of_one, dice_of_other)
    >>> result.p_value, result.n_permutations  # all 2^4 sign patterns
    (0.125, 16)
    """
    # imported here because SciPy's statistics are slow to import
    from scipy.stats import permutation_test

    if isinstance(n_permutations, bool) or int(n_permutations) != n_permutations or n_permutations < 1:
        raise ValueError(f"n_permutations must be an integer of at least 1, got {n_permutations!r}")
    difference = _differences(first, second, alternative)
    extremeness = {"two-sided": np.abs, "less": np.negative, "greater": np.positive}[alternative]
    result = permutation_test(
        (difference,),
        lambda values, axis: extremeness(values.mean(axis=axis)),
        permutation_type="samples",
        vectorized=True,
        n_resamples=int(n_permutations),
        batch=max(1, _BLOCK_ENTRIES // len(difference)),
        alternative="greater",
        rng=np.random.default_rng(random_state),
    )
    mean = float(difference.mean())
    return PairedTest(mean, float(result.pvalue), mean, len(difference), len(result.null_distribution))


def _differences(first: npt.ArrayLike, second: npt.ArrayLike, alternative: str) -> FloatArray:
    """Return the differences of checked pairs; refuse an unknown alternative."""
    if alternative not in ALTERNATIVES:
        raise ValueError(
            f"unknown alternative {alternative!r}; choose one of {', '.join(map(repr, ALTERNATIVES))}"
        )
    one, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if one.ndim != 1 or one.shape != other.shape:
        raise ValueError(
            f"paired values must be two vectors of the same length, got shapes {one.shape} and {other.shape}"
        )
    if one.size < 2:
        raise ValueError(f"a paired test needs at least two pairs, got {one.size}")
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ValueError("paired values must be finite; leave out pairs with a missing value")
    return one - other
