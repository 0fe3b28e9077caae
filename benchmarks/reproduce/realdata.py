"""Real data sets, by name or from a file, with the structure of their columns, and their folds and halves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import GroupKFold, KFold

from benchmarks import cases
from benchmarks.data import volume_cohort
from spcatv.structure import Structure, graph, grid, mesh

N_FOLDS, N_SPLITS = 5, 10
# All rows; the components of folds and halves are matched to their components.
ALL_ROWS = "all"


@dataclass(frozen=True, eq=False)
class RealData:
    """A matrix in its own unit, the structure of its columns, a title, and groups of rows if any."""

    title: str
    X: np.ndarray
    structure: Structure
    groups: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to fit and rows held out; none are held out for halves and for all rows."""

    name: str
    train: np.ndarray
    test: np.ndarray

    def standardised(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows to fit and rows held out, columns scaled to mean 0 and deviation 1 over those to fit."""
        train = X[self.train]
        mean, deviation = train.mean(axis=0, dtype=np.float64), train.std(axis=0, dtype=np.float64)
        scale = np.where(deviation > 0, deviation, np.inf)  # constant columns become 0
        fitted, held_out = (((rows - mean) / scale).astype(np.float32) for rows in (train, X[self.test]))
        return fitted, held_out


def all_rows(n_rows: int) -> Rows:
    """All rows to fit."""
    return Rows(ALL_ROWS, np.arange(n_rows), np.arange(0))


def folds(n_rows: int, groups: np.ndarray | None = None) -> list[Rows]:
    """Five shuffled folds; rows of one group are in one fold."""
    splitter = (KFold if groups is None else GroupKFold)(N_FOLDS, shuffle=True, random_state=0)
    cut = splitter.split(np.arange(n_rows), groups=groups)
    return [Rows(f"fold{number}", train, test) for number, (train, test) in enumerate(cut)]


def halves(n_rows: int) -> list[Rows]:
    """Ten random splits into halves, one after the other: two neighbours in the list share no row."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(N_SPLITS):
        order = rng.permutation(n_rows)
        for side, half in zip("ab", (order[: n_rows // 2], order[n_rows // 2 :]), strict=True):
            found.append(Rows(f"half{number}{side}", np.sort(half), np.arange(0)))
    return found


def n_regions(loading: np.ndarray, structure: Structure) -> int:
    """Count connected pieces of the support of a loading (P,); neighbours share a row of A."""
    support = np.flatnonzero(loading)
    if len(support) == 0:
        return 0
    columns = abs(structure.matrix[:, support])
    return int(connected_components(columns.T @ columns, directed=False)[0])


def read(file: Path) -> RealData:
    """Read an .npz file of X and what the neighbours of its columns are (see `benchmarks.study.others`)."""
    with np.load(file, allow_pickle=False) as archive:
        arrays = dict(archive)
    X = np.ascontiguousarray(arrays["X"], np.float32)
    return RealData(file.stem, X, _structure(arrays), arrays.get("groups"))


def _structure(arrays: dict[str, np.ndarray]) -> Structure:
    """Return the structure that the arrays of a file describe."""
    if "mask" in arrays or "labels" in arrays:
        return grid(arrays["mask"] if "mask" in arrays else arrays["labels"])
    if "edges" in arrays:
        size = arrays["X"].shape[1]
        edges = sp.coo_array((np.ones(len(arrays["edges"])), arrays["edges"].T), shape=(size, size)).tocsr()
        return graph(edges + edges.T)
    return mesh(arrays["coords"], arrays["triangles"])


def _load(recipe: Callable[[], tuple[str, np.ndarray, Structure, Any]]) -> RealData:
    title, X, structure, _ = recipe()
    return RealData(title.removeprefix("real "), np.ascontiguousarray(X, dtype=np.float32), structure)


def _tiny_volume() -> RealData:
    """Simulate a tiny data set, to try the code."""
    mask = np.ones((6, 6, 5), dtype=bool)
    return RealData("tiny volume", volume_cohort(20, mask), grid(mask))


# Each raises FileNotFoundError if there is no such file.
DATA: dict[str, Callable[[], RealData]] = {
    "sst": partial(_load, cases.raw_sst),
    "fmri": partial(_load, cases.raw_fmri),
    "thickness": partial(_load, cases.raw_thickness),
    "vbm": partial(_load, cases.raw_vbm),
}
QUICK_DATA: dict[str, Callable[[], RealData]] = {"tiny": _tiny_volume}
