"""Real data sets by name, with the structure of their columns, and the folds they are cut into."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import KFold

from benchmarks import cases
from benchmarks.data import standardised, volume_cohort
from spcatv.structure import Structure, grid

N_FOLDS = 5
# The fold of all rows; the components of the other folds are matched to its components.
ALL_ROWS = "all"


@dataclass(frozen=True, eq=False)
class RealData:
    """A matrix with standardised columns, their structure, and a title."""

    title: str
    X: np.ndarray
    structure: Structure


@dataclass(frozen=True, eq=False)
class Fold:
    """Rows to fit and rows held out (none for the fold of all rows)."""

    name: str
    train: np.ndarray
    test: np.ndarray


def folds(n_rows: int) -> list[Fold]:
    """Five folds of neighbouring rows, and that of all rows."""
    everything = np.arange(n_rows)
    pairs = enumerate(KFold(N_FOLDS).split(everything))
    split = [Fold(f"fold{number}", train, test) for number, (train, test) in pairs]
    return [*split, Fold(ALL_ROWS, everything, everything[:0])]


def n_regions(loading: np.ndarray, structure: Structure) -> int:
    """Connected pieces of the support of a loading (P,): features that share a row of A are neighbours."""
    support = np.flatnonzero(loading)
    if len(support) == 0:
        return 0
    columns = abs(structure.matrix[:, support])
    return int(connected_components(columns.T @ columns, directed=False)[0])


def _load(recipe: cases.Recipe) -> RealData:
    title, X, structure, _ = recipe(False)
    return RealData(title.removeprefix("real "), np.ascontiguousarray(X), structure)


def _tiny_volume() -> RealData:
    """A simulated stand-in, to try the code."""
    mask = np.ones((6, 6, 5), dtype=bool)
    return RealData("tiny volume", standardised(volume_cohort(20, mask)), grid(mask))


# Each raises FileNotFoundError if there is no such file.
DATA: dict[str, Callable[[], RealData]] = {
    "vbm": partial(_load, cases.vbm),
    "thickness": partial(_load, cases.thickness),
    "fmri": partial(_load, cases.fmri),
    "sst": partial(_load, cases.sst),
}
QUICK_DATA: dict[str, Callable[[], RealData]] = {"tiny": _tiny_volume}
