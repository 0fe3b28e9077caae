"""Two methods on the same data sets or folds: differences, and whether they exceed chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spcatv.significance import PairedTest, paired_t_test, sign_flip_test

N_PERMUTATIONS = 1000


@dataclass(frozen=True, eq=False)
class Scores:
    """One method on all data sets or folds.

    Attributes
    ----------
    label : str
        The method.
    errors : ndarray of shape (n,)
        Reconstruction errors of held-out rows.
    dice : ndarray of shape (n (n - 1) / 2, K)
        Dice indices of matched supports, one row per pair.
    mses : ndarray of shape (n, K), or None
        Loading errors, where the truth is known.
    """

    label: str
    errors: np.ndarray
    dice: np.ndarray
    mses: np.ndarray | None = None


@dataclass(frozen=True)
class Comparison:
    """Tests of one method against another, all two-sided; differences are first minus second."""

    first: str
    second: str
    error: PairedTest
    dice: PairedTest | None  # None for a single pair
    mse: PairedTest | None


def compare(first: Scores, second: Scores) -> Comparison:
    """Paired t-tests of errors and loading errors, sign-flip test of Dice indices (means over components)."""
    mse = None
    if first.mses is not None and second.mses is not None:
        mse = paired_t_test(first.mses.mean(axis=1), second.mses.mean(axis=1))
    dice = None
    if len(first.dice) > 1:
        dice = sign_flip_test(
            first.dice.mean(axis=1), second.dice.mean(axis=1), n_permutations=N_PERMUTATIONS
        )
    return Comparison(
        first.label,
        second.label,
        error=paired_t_test(first.errors, second.errors),
        dice=dice,
        mse=mse,
    )


def difference_text(test: PairedTest | None, digits: int = 3) -> str | None:
    """Format a difference and its p-value, such as "-0.412 (p < 0.001)"."""
    if test is None:
        return None
    p_text = "p < 0.001" if test.p_value < 0.001 else f"p = {test.p_value:.3f}"
    return f"{test.mean_difference:+.{digits}f} ({p_text})"
