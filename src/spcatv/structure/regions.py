"""The regions of a loading: connected sets of features."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from spcatv._util.types import IntArray
from spcatv.structure import Structure


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
    links = structure.__dict__.get("_links")
    if links is None:  # made once, as a cached property would be: a structure never changes
        links = structure.__dict__["_links"] = _links(structure)
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
