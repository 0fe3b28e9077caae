"""Base class of the structures: a sparse operator whose rows are divided into groups.

The structured penalty of docs/method.md section 2 is ``s(v) = sum_g ||A_g v||_2``. A `Structure`
holds the stacked operator ``A`` and the boundaries of its groups; solvers see nothing else of it.
Subclasses are small recipes (a mask, a list of edges, ...) that can build their operator. It is built
once, when it is first needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.structure.bounds import spectral_norm_squared

Made = TypeVar("Made")
# Largest sum of a row of differences, as a share of the sum of its magnitudes.
SUM_ROUNDING = 1e-12


def immutable(array: Array) -> Array:
    """Return `array`, or a copy if others may write to it, as a read-only array."""
    # a read-only view can still change through the array that it views
    if array.flags.writeable or not array.flags.owndata:
        array = array.copy()
        array.flags.writeable = False
    return array


def index_dtype(largest: int) -> type[np.int32] | type[np.int64]:
    """Choose int32 if it can hold `largest`, else int64."""
    return np.int32 if largest <= np.iinfo(np.int32).max else np.int64


@dataclass(frozen=True, eq=False, repr=False)
class Structure:
    """A penalty ``s(v) = sum_g ||A_g v||_2`` on `n_features` features.

    Structures are immutable, hashable and compared by content (the operator and its groups, however
    they were built). They are cheap to pickle: only the recipe is stored, not the operator.

    Subclasses are frozen dataclasses whose fields are the recipe, and implement `n_features` and
    `_build`.

    Examples
    --------
    >>> from spcatv.structure import grid
    >>> chain = grid(4)
    >>> chain.n_features, chain.n_rows, chain.n_groups
    (4, 3, 3)
    >>> chain.matrix.toarray()
    array([[-1.,  1.,  0.,  0.],
           [ 0., -1.,  1.,  0.],
           [ 0.,  0., -1.,  1.]])
    >>> chain.group_ptr
    array([0, 1, 2, 3])
    >>> chain.is_difference
    array([ True,  True,  True])
    >>> chain == grid((4,)), chain.digest == grid((2, 2)).digest
    (True, False)
    >>> chain.forward([0, 0, 2, 1]), chain.value([0, 0, 2, 1])
    (array([ 0.,  2., -1.]), 3.0)
    >>> chain.adjoint([1, 0, 0]), chain.project([0.5, -3, 1])
    (array([-1.,  1.,  0.,  0.]), array([ 0.5, -1. ,  1. ]))
    >>> square = grid((2, 2))  # the two differences of the first pixel form a group
    >>> square.group_norms(square.forward([0, 3, 4, 4]))
    array([5., 1., 0.])
    >>> round(grid(2).norm_squared(), 6)  # the operator [-1, 1]
    2.0
    >>> square.cached(repr)
    'GridStructure(shape=(2, 2), n_features=4)'
    """

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # an immutable object need not be copied: scikit-learn's clone keeps an operator that is built
        return self

    @property
    def n_features(self) -> int:
        """Number of features P, the length of v."""
        raise TypeError(f"{type(self).__name__} must define n_features")

    def _build(self) -> tuple[sp.csr_array, IntArray]:
        """Build the operator: A (n_rows x P) and group_ptr (n_groups + 1)."""
        raise TypeError(f"{type(self).__name__} must define _build")

    @cached_property
    def _operator(self) -> tuple[sp.csr_array, IntArray]:
        matrix, group_ptr = self._build()
        for array in (matrix.data, matrix.indices, matrix.indptr, group_ptr):
            array.flags.writeable = False
        return matrix, group_ptr

    @property
    def matrix(self) -> sp.csr_array:
        """The operator A, float64 CSR of shape (n_rows, n_features), rows in group order.

        The arrays are shared and read-only. The object around them is new at every call, because
        assigning to an entry of a scipy matrix replaces its arrays.
        """
        matrix = self._operator[0]
        view = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape)
        view.has_canonical_format = True
        return view

    @property
    def group_ptr(self) -> IntArray:
        """Group boundaries (int64): rows ``group_ptr[g]:group_ptr[g + 1]`` of `matrix` are A_g."""
        return self._operator[1]

    @cached_property
    def _transpose(self) -> sp.csr_array:
        # CSR of A', so that the adjoint is a row-wise (fast, deterministic) product too
        return self._operator[0].T.tocsr()

    @property
    def n_groups(self) -> int:
        """Number of groups G, each with at least one row."""
        return len(self.group_ptr) - 1

    @property
    def n_rows(self) -> int:
        """Number of rows of A, the length of a dual variable alpha."""
        return int(self._operator[0].shape[0])

    @cached_property
    def is_difference(self) -> BoolArray:
        """Whether a row of A sums to zero, up to rounding, so that constant features do not pay for it."""
        matrix = self._operator[0]
        return np.asarray(np.abs(matrix.sum(axis=1)) <= SUM_ROUNDING * abs(matrix).sum(axis=1))

    def forward(self, v: npt.ArrayLike) -> FloatArray:
        """Return ``A v`` for v of shape (n_features,): mostly differences of neighbours, shape (n_rows,)."""
        return np.asarray(self._operator[0] @ np.asarray(v))

    def adjoint(self, alpha: npt.ArrayLike) -> FloatArray:
        """Return ``A' alpha`` for a dual variable of shape (n_rows,): its pull on v, shape (n_features,)."""
        return np.asarray(self._transpose @ np.asarray(alpha))

    def group_norms(self, rows: npt.ArrayLike) -> FloatArray:
        """``||rows_g||_2`` of every group, shape (n_groups,), for rows such as ``forward(v)``."""
        rows = np.asarray(rows)
        if self.n_groups == 0:
            return np.zeros(0, dtype=rows.dtype)
        return np.sqrt(np.add.reduceat(rows * rows, self.group_ptr[:-1]))

    def value(self, v: npt.ArrayLike) -> float:
        """``s(v) = sum_g ||A_g v||_2``, the structured penalty; 0 if all neighbours are equal."""
        return float(self.group_norms(self.forward(v)).sum(dtype=np.float64))

    def project(self, alpha: npt.ArrayLike) -> FloatArray:
        """Closest point of ``K = {alpha: ||alpha_g||_2 <= 1 for every g}``, shape (n_rows,).

        Groups of norm above 1 are divided by their norm; other groups stay as they are.
        """
        alpha = np.asarray(alpha)
        shrink = 1.0 / np.maximum(self.group_norms(alpha), 1.0)
        return np.asarray(alpha * np.repeat(shrink, np.diff(self.group_ptr)))

    @cached_property
    def _norm_squared(self) -> float:
        return spectral_norm_squared(self.matrix)

    def norm_squared(self) -> float:
        """Upper bound on ``||A||_2^2``, tight to a few percent (docs/method.md section 2.5).

        It is never below ``||A||_2^2``, so that step sizes that depend on it are safe.
        """
        return self._norm_squared

    def cached(self, make: Callable[[Any], Made]) -> Made:
        """Return ``make(structure)``, such as a memory layout; it is computed once and not pickled."""
        name = f"_cached_{make.__module__}.{make.__qualname__}"
        if name not in self.__dict__:
            self.__dict__[name] = make(self)
        made: Made = self.__dict__[name]
        return made

    @cached_property
    def digest(self) -> str:
        """Hexadecimal digest of the content (operator and groups)."""
        hasher = hashlib.blake2b(digest_size=20)
        hasher.update(f"{self.n_features} features, {self.n_groups} groups".encode())
        matrix = self._operator[0]
        for array in (self.group_ptr, matrix.indptr, matrix.indices):
            hasher.update(np.ascontiguousarray(array, dtype=np.int64).data)
        hasher.update(np.ascontiguousarray(matrix.data, dtype=np.float64).data)
        return hasher.hexdigest()

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structure):
            return NotImplemented
        return self is other or (self.n_features == other.n_features and self.digest == other.digest)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(n_features={self.n_features})"


@dataclass(frozen=True, eq=False, repr=False)
class MatrixStructure(Structure):
    """A structure given by its operator; use `from_matrix`, which checks its input, to make one.

    Examples
    --------
    >>> from spcatv.structure import from_matrix
    >>> structure = from_matrix([[-1, 1, 0], [0, -1, 1]])
    >>> structure
    MatrixStructure(n_features=3)
    >>> structure.n_features, structure.n_groups
    (3, 2)
    """

    # CSR arrays of A
    data: FloatArray
    indices: IntArray
    indptr: IntArray
    # strictly increasing row boundaries of the groups, from 0 to n_rows, shape (n_groups + 1,)
    group_boundaries: IntArray
    feature_count: int  # number of columns of A

    @property
    def n_features(self) -> int:
        """Number of features P."""
        return self.feature_count

    def _build(self) -> tuple[sp.csr_array, IntArray]:
        shape = (len(self.indptr) - 1, self.feature_count)
        return sp.csr_array((self.data, self.indices, self.indptr), shape=shape), self.group_boundaries


def from_matrix(A: Any, group_ptr: npt.ArrayLike | None = None) -> MatrixStructure:
    """Make a structure from any sparse (or dense) matrix and its group boundaries.

    Parameters
    ----------
    A : sparse matrix or array of shape (n_rows, n_features)
        The operator; rows of one group must follow each other.
    group_ptr : array-like of shape (n_groups + 1,), default=None
        Rows ``group_ptr[g]:group_ptr[g + 1]`` form group g; the array starts at 0, ends at n_rows and
        never decreases. Empty groups are dropped. ``None``: every row is a group of its own, so that
        the penalty is ``||A v||_1``.

    Returns
    -------
    MatrixStructure
        With the entries of `A` in float64.

    Examples
    --------
    >>> from spcatv.structure import from_matrix
    >>> second_difference = from_matrix([[1, -2, 1, 0], [0, 1, -2, 1]])
    >>> second_difference.value([0, 1, 2, 3])  # a straight line
    0.0
    >>> second_difference.value([0, 1, 1, 0])
    2.0
    """
    # a copy: the next two lines work in place
    matrix = sp.csr_array(A, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if matrix.ndim != 2:
        raise ValueError(f"the operator must be a matrix, got shape {matrix.shape}")
    if not np.isfinite(matrix.data).all():
        raise ValueError(f"the operator of shape {matrix.shape} holds NaN or infinite entries")
    n_rows, n_features = matrix.shape
    if n_features == 0:
        raise ValueError("the operator has no columns; a structure needs at least one feature")
    dtype = index_dtype(max(n_features, matrix.nnz))
    boundaries = np.arange(n_rows + 1) if group_ptr is None else np.asarray(group_ptr)
    return MatrixStructure(
        data=immutable(matrix.data),
        indices=immutable(matrix.indices.astype(dtype)),
        indptr=immutable(matrix.indptr.astype(dtype)),
        group_boundaries=immutable(_checked_boundaries(boundaries, n_rows)),
        feature_count=int(n_features),
    )


def _checked_boundaries(boundaries: Array, n_rows: int) -> IntArray:
    """Return the boundaries of the groups that have rows, as int64."""
    if boundaries.ndim != 1 or not np.issubdtype(boundaries.dtype, np.integer) or len(boundaries) == 0:
        raise ValueError(
            "group_ptr must be a one-dimensional array of integers of length n_groups + 1, got "
            f"dtype {boundaries.dtype} and shape {boundaries.shape}"
        )
    # signed, because differences of unsigned numbers are never negative
    boundaries = boundaries.astype(np.int64)
    if boundaries[0] != 0 or boundaries[-1] != n_rows or (np.diff(boundaries) < 0).any():
        raise ValueError(
            f"group_ptr must start at 0, never decrease and end at the number of rows ({n_rows}); "
            f"it starts at {boundaries[0]} and ends at {boundaries[-1]}"
        )
    return boundaries[np.diff(boundaries, prepend=-1) > 0]


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
    """Return group boundaries (int64, from 0) from the numbers of rows; empty groups are dropped."""
    kept = counts[counts > 0]
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(kept, dtype=np.int64)])


def checked_weights(weights: npt.ArrayLike | None, default: FloatArray, what: str) -> FloatArray:
    """Return weights >= 0 of groups or structures (`what`), or the default ones."""
    array = default if weights is None else np.asarray(weights, dtype=np.float64)
    if array.shape != default.shape:
        raise ValueError(f"weights must hold one number per {what} ({len(default)}), got shape {array.shape}")
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise ValueError(f"weights must be finite and >= 0; {what} {wrong[0]} has {array[wrong[0]]}")
    return array
