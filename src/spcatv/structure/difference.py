"""Differences between pairs of features, the operator of grids, meshes and graphs."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from spcatv._util.types import FloatArray, IntArray
from spcatv.structure.base import index_dtype


def difference_matrix(tail: IntArray, head: IntArray, weight: FloatArray, n_features: int) -> sp.csr_array:
    """Return the operator whose row r is ``weight[r] * (v[head[r]] - v[tail[r]])``.

    `tail` and `head` differ in every row, and weights are positive. Column indices are sorted.
    """
    n_rows = len(tail)
    dtype = index_dtype(max(n_features, 2 * n_rows))
    indices = np.empty((n_rows, 2), dtype=dtype)
    np.minimum(tail, head, out=indices[:, 0], casting="same_kind")
    np.maximum(tail, head, out=indices[:, 1], casting="same_kind")
    data = np.empty((n_rows, 2))
    np.copyto(data[:, 1], np.where(tail < head, weight, -weight))
    np.negative(data[:, 1], out=data[:, 0])
    indptr = np.arange(0, 2 * n_rows + 1, 2, dtype=dtype)
    return sp.csr_array((data.ravel(), indices.ravel(), indptr), shape=(n_rows, n_features))


def boundaries_from_counts(counts: IntArray) -> IntArray:
    """Return group boundaries (int64, from 0) for groups of so many rows; empty groups are dropped."""
    kept = counts[counts > 0]
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(kept, dtype=np.int64)])
