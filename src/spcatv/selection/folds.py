"""Folds: training and held-out samples, and a warning about their order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data import Data

# Folds where nothing is said.
DEFAULT_FOLDS = 5
# Samples in a random order are taken for sorted ones once in so many selections.
FALSE_ALARM = 1e-3


class SampleOrderWarning(UserWarning):
    """Folds are consecutive parts of samples that are in an order which matters: sorted, or a time series.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.selection import SampleOrderWarning
    >>> warnings.filterwarnings("error", category=SampleOrderWarning)
    """


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of the samples."""

    number: int  # from 0
    train: IntArray  # samples to fit
    test: IntArray  # samples held out


def make_folds(cv: Any, X: Any, y: Any = None, groups: Any = None) -> list[Fold]:
    """Split the samples as `cv` says, and make sure that no group is torn apart.

    A number of folds (None: 5) means `GroupKFold` if there are groups, otherwise `KFold` without shuffling.
    `y` is passed to the splitter, for instance classes to stratify by.
    """
    # imported here: scikit-learn's model selection costs more to import than all of this package
    from sklearn.model_selection import GroupKFold, KFold, check_cv
    from sklearn.utils.validation import check_consistent_length

    if isinstance(X, Data):
        X = np.zeros((X.shape[0], 1))  # splitters only count its samples
    check_consistent_length(X, y, groups)
    n_folds = DEFAULT_FOLDS if cv is None else cv
    if isinstance(n_folds, (int, np.integer)):
        _check_number(int(n_folds), X.shape[0], groups)
        splitter = KFold(int(n_folds)) if groups is None else GroupKFold(int(n_folds))
    else:
        splitter = check_cv(n_folds)
    if y is None and "Stratified" in type(splitter).__name__:
        raise ValueError(f"{type(splitter).__name__} needs y, the classes to stratify by")
    folds = [
        Fold(number, *(_indices(part, X.shape[0], number) for part in split))
        for number, split in enumerate(splitter.split(X, y, groups))
    ]
    if not folds:
        raise ValueError("cv has no folds; give at least two pairs of (train, test), or a number of folds")
    for fold in folds:
        _check_samples(fold)
        if groups is not None:
            _check_groups(fold, np.asarray(groups), splitter)
    return folds


def are_consecutive(cv: Any, groups: Any) -> bool:
    """Return whether `make_folds` cuts the samples into consecutive parts by default."""
    return groups is None and (cv is None or isinstance(cv, (int, np.integer)))


def warn_of_order(scores: FloatArray, folds: list[Fold]) -> None:
    """Warn if leading scores (K, N) differ between folds by more than chance: then the order matters.

    The test is that of Kruskal and Wallis, on ranks: one strange sample does not decide.
    """
    from scipy.stats import kruskal

    found = [kruskal(*(own[fold.test] for fold in folds)).pvalue for own in scores if np.ptp(own) > 0]
    if not found or min(found) * len(found) >= FALSE_ALARM:
        return
    n_folds = len(folds)
    warn_user(
        f"the samples are in an order that matters: the scores of principal component {np.argmin(found) + 1} "
        f"differ between the {n_folds} folds, which are consecutive parts of the samples (p = "
        f"{min(found):.0e}). If the samples are sorted, such as by age or site, no fold is like the others: "
        f"shuffle them with cv=KFold({n_folds}, shuffle=True, random_state=0). If they are a "
        f"time series, this is right, and cv=KFold({n_folds}) says so.",
        SampleOrderWarning,
    )


def _check_number(n_folds: int, n_samples: int, groups: Any) -> None:
    """Raise a ValueError for folds of which some would hold out nothing."""
    most, what = (n_samples, "samples") if groups is None else (len(np.unique(groups)), "groups")
    if not 2 <= n_folds <= most:
        raise ValueError(
            f"cv={n_folds} folds of {most} {what}: "
            + (f"give a number from 2 to {most}" if most >= 2 else f"at least two {what} are needed")
        )


def _indices(samples: Any, n_samples: int, number: int) -> IntArray:
    """Return one side of a split as numbers of samples."""
    indices = np.asarray(samples)
    if indices.dtype == bool and indices.shape == (n_samples,):
        return np.flatnonzero(indices)
    if indices.size == 0:
        return np.zeros(0, dtype=np.intp)
    are_numbers = indices.ndim == 1 and indices.dtype.kind in "iu"
    if not are_numbers or indices.min() < 0 or indices.max() >= n_samples:
        raise ValueError(
            f"fold {number + 1} must name its samples by numbers from 0 to {n_samples - 1}, or by one True "
            f"or False per sample; got {samples!r}"
        )
    return indices


def _check_samples(fold: Fold) -> None:
    if len(fold.train) < 2 or len(fold.test) < 1:
        raise ValueError(
            f"fold {fold.number + 1} has {len(fold.train)} training samples and {len(fold.test)} held out; "
            "it needs at least two and one"
        )
    if np.intersect1d(fold.train, fold.test).size:
        raise ValueError(f"fold {fold.number + 1} holds out samples that it also trains on")


def _check_groups(fold: Fold, groups: Array, splitter: Any) -> None:
    torn = np.intersect1d(groups[fold.train], groups[fold.test])
    if torn.size:
        raise ValueError(
            f"{type(splitter).__name__} puts samples of group {torn.tolist()[0]!r} on both sides of fold "
            f"{fold.number + 1}; take a splitter that keeps groups together, such as GroupKFold or "
            "LeaveOneGroupOut, or give cv as a number"
        )
