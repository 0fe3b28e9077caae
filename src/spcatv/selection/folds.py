"""Which samples train and which are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import Array, IntArray
from spcatv.data import Data


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
    n_folds = 5 if cv is None else cv
    if isinstance(n_folds, (int, np.integer)):
        splitter = KFold(int(n_folds)) if groups is None else GroupKFold(int(n_folds))
    else:
        splitter = check_cv(n_folds)
    splits = splitter.split(X, y, groups)
    folds = [Fold(number, np.asarray(train), np.asarray(test)) for number, (train, test) in enumerate(splits)]
    for fold in folds:
        _check_samples(fold)
        if groups is not None:
            _check_groups(fold, np.asarray(groups), splitter)
    return folds


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
            f"{type(splitter).__name__} puts samples of group {torn[0]!r} on both sides of fold "
            f"{fold.number + 1}; take a splitter that keeps groups together, such as GroupKFold or "
            "LeaveOneGroupOut, or give cv as a number"
        )
