"""Overlapping groups of features: the group lasso (docs/method.md section 2.4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spcatv._util.types import IntArray
from spcatv.structure.base import MatrixStructure, boundaries_from_counts, checked_weights, from_matrix


def groups(
    index_arrays: Sequence[npt.ArrayLike], n_features: int, *, weights: npt.ArrayLike | None = None
) -> MatrixStructure:
    """Group lasso with groups that may overlap: ``s(v) = sum_g w_g ||v_g||_2`` (docs/method.md section 2.4).

    Parameters
    ----------
    index_arrays : sequence of array-like of int
        The features of every group, from 0 to ``n_features - 1``, each at most once per group, in any
        order. Features in no group are not penalised.
    n_features : int
        Number of features P.
    weights : array-like of shape (n_groups,), default=None
        ``w_g >= 0``; by default the square root of the size of the group, so that large and small
        groups count alike. A group of weight 0 is left out.

    Returns
    -------
    MatrixStructure

    Examples
    --------
    >>> from spcatv.structure import groups
    >>> groups([[0, 1], [1, 2]], 3, weights=[1, 1]).value([3, 4, 0])
    9.0
    """
    if n_features < 1:
        raise ValueError(f"n_features must be at least 1, got {n_features}")
    arrays = [_indices(number, indices) for number, indices in enumerate(index_arrays)]
    sizes = np.array([len(array) for array in arrays], dtype=np.int64)
    group_weights = checked_weights(weights, np.sqrt(sizes.astype(np.float64)), "group")
    members = np.concatenate([np.zeros(0, dtype=np.int64), *arrays])
    group_of = np.repeat(np.arange(len(arrays)), sizes)
    wrong = np.flatnonzero((members < 0) | (members >= n_features))
    if len(wrong):
        raise ValueError(
            f"group {group_of[wrong[0]]} holds the index {members[wrong[0]]}, but indices go from 0 to "
            f"{n_features - 1} (n_features={n_features})"
        )
    members = members[np.lexsort((members, group_of))]
    twice = np.flatnonzero((members[1:] == members[:-1]) & (group_of[1:] == group_of[:-1]))
    if len(twice):
        raise ValueError(f"group {group_of[twice[0]]} holds the index {members[twice[0]]} more than once")
    entries = group_weights[group_of]
    kept = entries > 0
    n_rows = int(kept.sum())
    matrix = sp.csr_array((entries[kept], members[kept], np.arange(n_rows + 1)), shape=(n_rows, n_features))
    return from_matrix(matrix, boundaries_from_counts(sizes * (group_weights > 0)))


def _indices(number: int, indices: npt.ArrayLike) -> IntArray:
    array = np.asarray(indices)
    if array.ndim != 1:
        raise ValueError(
            f"group {number} must be a list of feature indices, got an array of shape {array.shape}"
        )
    if len(array) == 0:
        raise ValueError(f"group {number} is empty; every group needs at least one feature")
    if array.dtype.kind not in "iu":
        raise TypeError(
            f"group {number} must hold integer feature indices, got dtype {array.dtype}"
            + ("; use np.flatnonzero on a mask" if array.dtype.kind == "b" else "")
        )
    return array.astype(np.int64)
