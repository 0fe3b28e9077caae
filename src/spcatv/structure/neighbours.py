"""Pairs of neighbours: features that a structured penalty pulls together."""

from __future__ import annotations

import numpy as np

from spcatv._util.types import IntArray
from spcatv.structure.base import Structure
from spcatv.structure.compose import ConcatStructure
from spcatv.structure.graph import EdgeStructure
from spcatv.structure.grid import GridStructure


def neighbour_pairs(structure: Structure, most: int, rng: np.random.Generator) -> dict[str, IntArray]:
    """Some pairs of neighbours, at most `most` of a kind: from the name of the kind to pairs of features.

    The kinds of a grid are its axes, because one of them may be right and another one wrong; other structures
    have one, without a name. A pair is a row of the operator that subtracts one feature from another. Rows
    without such a pair, those of a group lasso, have none. Shapes are (n_pairs, 2).
    """
    if isinstance(structure, GridStructure):
        axes = range(structure.labels.ndim)
        return {f"along axis {axis}": _along(structure, axis, most, rng) for axis in axes}
    return {"": _pairs(structure, most, rng)}


def _along(structure: GridStructure, axis: int, most: int, rng: np.random.Generator) -> IntArray:
    shape = structure.labels.shape
    tails = _some(np.flatnonzero(structure.edges_along(axis)), most, rng)
    place = list(np.unravel_index(tails, shape))
    place[axis] = (place[axis] + 1) % shape[axis]
    index = structure.feature_index().ravel()
    return np.stack([index[tails], index[np.ravel_multi_index(place, shape)]], axis=1).astype(np.intp)


def _pairs(structure: Structure, most: int, rng: np.random.Generator) -> IntArray:
    if isinstance(structure, EdgeStructure):
        rows = _some(np.arange(structure.n_rows), most, rng)
        return np.stack([structure.tail[rows], structure.head[rows]], axis=1).astype(np.intp)
    if isinstance(structure, ConcatStructure):
        return _of_parts(structure, most, rng)
    matrix = structure.matrix
    wide = np.flatnonzero(np.diff(matrix.indptr) > 1)
    found = []
    for row in _some(wide, most, rng):
        entries = slice(matrix.indptr[row], matrix.indptr[row + 1])
        values, features = matrix.data[entries], matrix.indices[entries]
        if values.min() < 0 < values.max():
            found.append((features[values.argmin()], features[values.argmax()]))
    return np.array(found, dtype=np.intp).reshape(-1, 2)


def _of_parts(structure: ConcatStructure, most: int, rng: np.random.Generator) -> IntArray:
    """Pairs of all parts, as many as their features ask for."""
    found: list[IntArray] = [np.empty((0, 2), dtype=np.intp)]
    first = 0
    for part in structure.parts:
        share = -(-most * part.n_features // structure.n_features)
        kinds = neighbour_pairs(part, share, rng).values()
        found.append(first + _some(np.concatenate(list(kinds)), share, rng))
        first += part.n_features
    return np.concatenate(found)


def _some(items: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """All items, or a random choice of them; in order."""
    if len(items) <= most:
        return items
    return items[np.sort(rng.choice(len(items), most, replace=False))]
