"""Weighted graphs: differences along edges, each of which belongs to one end (docs/method.md section 2.3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from spcatv._util.types import FloatArray, IntArray
from spcatv.structure.base import Structure, boundaries_from_counts, difference_matrix, immutable, index_dtype
from spcatv.structure.bounds import EXACT_DIMENSION, bound_from_products, round_up


@dataclass(frozen=True, eq=False, repr=False)
class EdgeStructure(Structure):
    """Differences along the edges of a graph; made by `graph`, `mesh` and `concat`.

    Row r of the operator is ``weight[r] * (v[head[r]] - v[tail[r]])``.

    Examples
    --------
    >>> from spcatv.structure import graph
    >>> triangle = graph([[0, 1, 1], [1, 0, 1], [1, 1, 0]])
    >>> triangle.n_features, triangle.n_rows
    (3, 3)
    >>> list(zip(triangle.tail.tolist(), triangle.head.tolist()))
    [(0, 1), (0, 2), (1, 2)]
    """

    feature_count: int  # number of features (vertices)
    # ends of every edge, ``tail < head``, sorted by tail and then by head; every pair occurs once
    tail: IntArray  # shape (n_edges,)
    head: IntArray  # shape (n_edges,)
    weight: FloatArray  # positive weights, shape (n_edges,)
    # whether the edges with the same tail form one group, or every edge a group of its own
    isotropic: bool = True

    def __post_init__(self) -> None:
        dtype = index_dtype(self.feature_count)
        for name, kind in (("tail", dtype), ("head", dtype), ("weight", np.float64)):
            array = np.asarray(getattr(self, name), dtype=kind)
            object.__setattr__(self, name, immutable(array))
        tail, head, weight = self.tail, self.head, self.weight
        if not tail.shape == head.shape == weight.shape == (len(tail),):
            shapes = f"{tail.shape}, {head.shape} and {weight.shape}"
            raise ValueError(f"tail, head and weight must be vectors of one length, got shapes {shapes}")
        if (tail < 0).any() or (head >= self.feature_count).any() or not (tail < head).all():
            raise ValueError(f"edges need 0 <= tail < head < {self.feature_count}, the number of features")
        same_tail = tail[1:] == tail[:-1]
        if not np.where(same_tail, head[1:] > head[:-1], tail[1:] > tail[:-1]).all():
            raise ValueError("edges must be sorted by tail, then by head, and every pair may occur only once")
        if not (np.isfinite(weight).all() and (weight > 0).all()):
            raise ValueError("the weights of edges must be positive and finite")

    @property
    def n_features(self) -> int:
        """Number of features P."""
        return self.feature_count

    @property
    def n_rows(self) -> int:
        """Number of edges."""
        return len(self.tail)

    @cached_property
    def _norm_squared(self) -> float:
        if self.n_features <= EXACT_DIMENSION or self.n_rows == 0:
            return super()._norm_squared
        # A'A is the Laplacian D - W of the squared weights, |A|'|A| is D + W: half of W serves both
        largest = float(self.weight.max())
        squares = (self.weight / largest) ** 2
        shape = (self.n_features, self.n_features)
        half = sp.csr_array((squares, (self.tail, self.head)), shape=shape)
        other_half = half.T
        degree = np.bincount(self.tail, squares, self.n_features)
        degree += np.bincount(self.head, squares, self.n_features)
        bound = bound_from_products(
            lambda x: degree * x + half @ x + other_half @ x,
            lambda: lambda x: degree * x - half @ x - other_half @ x,
            self.n_features,
            upper=np.inf,
            bipartite=False,
        )
        return round_up(bound) * largest**2

    def _build(self) -> tuple[sp.csr_array, IntArray]:
        matrix = difference_matrix(self.tail, self.head, self.weight, self.feature_count)
        if self.isotropic:
            counts = np.bincount(self.tail, minlength=1)
        else:
            counts = np.ones(len(self.tail), dtype=np.int64)
        return matrix, boundaries_from_counts(counts)


def graph(adjacency: Any, *, isotropic: bool = True) -> EdgeStructure:
    """Total variation on a weighted graph (docs/method.md section 2.3).

    ``s(v) = sum_i sqrt( sum_{j > i} (w_ij (v_j - v_i))^2 )``: every edge belongs to its end of lower
    index. If not `isotropic`, ``s(v) = sum_{i < j} w_ij |v_j - v_i|``, which does not depend on the order
    of the vertices.

    Parameters
    ----------
    adjacency : sparse matrix or array-like of shape (n_features, n_features)
        Symmetric weights ``w_ij >= 0``, 0 where there is no edge; the diagonal is ignored.
    isotropic : bool, default=True
        Whether the edges of a vertex form one group, or every edge a group of its own.

    Returns
    -------
    EdgeStructure

    Examples
    --------
    >>> from spcatv.structure import graph
    >>> graph([[0, 2], [2, 0]]).value([1, 4])
    6.0
    """
    weights = _symmetric_weights(adjacency)
    upper = sp.triu(weights, k=1, format="csr")
    upper.eliminate_zeros()
    upper.sort_indices()
    tail = np.repeat(np.arange(upper.shape[0]), np.diff(upper.indptr))
    return EdgeStructure(
        feature_count=int(upper.shape[0]),
        tail=tail,
        head=upper.indices,
        weight=upper.data,
        isotropic=bool(isotropic),
    )


def _symmetric_weights(adjacency: Any) -> sp.csr_array:
    """Return the adjacency matrix as a checked float64 copy."""
    if not sp.issparse(adjacency):
        adjacency = np.asarray(adjacency)
    if adjacency.ndim != 2 or adjacency.shape[0] != adjacency.shape[1] or adjacency.shape[0] == 0:
        raise ValueError(f"the adjacency matrix must be square and not empty, got shape {adjacency.shape}")
    if adjacency.dtype.kind not in "biuf":
        raise TypeError(f"the adjacency matrix must hold real numbers, got dtype {adjacency.dtype}")
    weights = sp.csr_array(adjacency, copy=True)
    weights.sum_duplicates()
    weights = weights.astype(np.float64)
    wrong = np.flatnonzero(~(np.isfinite(weights.data) & (weights.data >= 0)))
    if len(wrong):
        entries = weights.tocoo()
        i, j, value = entries.row[wrong[0]], entries.col[wrong[0]], entries.data[wrong[0]]
        raise ValueError(
            f"the adjacency matrix must hold finite weights >= 0; entry ({i}, {j}) is {value} "
            f"({len(wrong)} such entries)"
        )
    largest = float(weights.data.max(initial=0.0))
    difference = abs(weights - weights.T).tocoo()
    # small differences may be rounding, in a product such as B B'
    wrong = np.flatnonzero(difference.data > 1e-10 * largest)
    if len(wrong):
        i, j = int(difference.row[wrong[0]]), int(difference.col[wrong[0]])
        raise ValueError(
            f"the adjacency matrix must be symmetric, but entry ({i}, {j}) is {weights[i, j]} and entry "
            f"({j}, {i}) is {weights[j, i]}; for an undirected graph give W + W.T or W.maximum(W.T)"
        )
    return weights
