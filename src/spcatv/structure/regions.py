"""Connected regions of a loading, and pairs of neighbouring features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from spcatv._util.types import IntArray
from spcatv.structure.base import Structure
from spcatv.structure.compose import ConcatStructure
from spcatv.structure.graph import EdgeStructure
from spcatv.structure.grid import GridStructure


def connected_regions(structure: Structure, loading: npt.ArrayLike) -> list[IntArray]:
    """Divide the support of a loading, of shape (n_features,), into connected regions of one sign.

    Two features are neighbours if an operator row involves both (a difference, an edge, a gradient), or if
    they belong to a group whose rows involve one feature each (a group lasso). A feature without neighbours
    in the support is a region of its own. The features of a region ascend; regions come by decreasing sum of
    squares, then by index.
    """
    vector = np.asarray(loading, dtype=np.float64)
    if vector.shape != (structure.n_features,):
        raise ValueError(f"the loading must have shape ({structure.n_features},), got {vector.shape}")
    links = structure.cached(_links)
    regions: list[IntArray] = []
    for sign in (1, -1):
        features = np.flatnonzero(sign * vector > 0)
        if len(features):
            labels = _labels(links, features)
            order = np.argsort(labels, kind="stable")
            regions += np.split(features[order], np.flatnonzero(np.diff(labels[order])) + 1)
    return sorted(regions, key=lambda region: (-float(np.square(vector[region]).sum()), int(region[0])))


def _links(structure: Structure) -> sp.csc_array:
    """Return a matrix with one row per link; the features of a link are neighbours of each other."""
    matrix = structure.matrix
    per_row = np.diff(matrix.indptr)
    sizes = np.diff(structure.group_ptr)
    # a row links its features; the rows of a group are one link if each of them involves a single feature
    group_of_row = np.repeat(np.arange(structure.n_groups), sizes)
    widest = np.zeros(structure.n_groups, dtype=np.int64)
    np.maximum.at(widest, group_of_row, per_row)
    single = widest[group_of_row] <= 1
    link_of_row = np.where(single, matrix.shape[0] + group_of_row, np.arange(matrix.shape[0]))
    links = sp.csr_array(
        (np.ones(matrix.nnz, dtype=np.int8), (np.repeat(link_of_row, per_row), matrix.indices)),
        shape=(matrix.shape[0] + structure.n_groups, structure.n_features),
    )
    return links.tocsc()


def _labels(links: sp.csc_array, features: IntArray) -> IntArray:
    """Return the number of the connected component of every feature, in the graph of these features."""
    inside = links[:, features].tocoo()
    n_links, n_inside = links.shape[0], len(features)
    # features and links are the two sides of one graph
    graph = sp.coo_array(
        (np.ones(inside.nnz, dtype=np.int8), (inside.col, n_inside + inside.row)),
        shape=(n_inside + n_links, n_inside + n_links),
    )
    return np.asarray(connected_components(graph, directed=False)[1][:n_inside], dtype=np.intp)


def neighbour_pairs(structure: Structure, most: int, rng: np.random.Generator) -> dict[str, IntArray]:
    """Choose pairs of neighbours, at most `most` of a kind: from the name of the kind to pairs of features.

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
    """Return pairs of all parts, in proportion to their features."""
    found: list[IntArray] = [np.empty((0, 2), dtype=np.intp)]
    first = 0
    for part in structure.parts:
        share = -(-most * part.n_features // structure.n_features)
        kinds = neighbour_pairs(part, share, rng).values()
        found.append(first + _some(np.concatenate(list(kinds)), share, rng))
        first += part.n_features
    return np.concatenate(found)


def _some(items: IntArray, most: int, rng: np.random.Generator) -> IntArray:
    """Return all items, or a random choice of `most` of them, in order."""
    if len(items) <= most:
        return items
    return items[np.sort(rng.choice(len(items), most, replace=False))]
