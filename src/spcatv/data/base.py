"""Protocol of raw data X, whatever their storage.

A kind of array is one class with the methods of `Data`. Centring, deflation and residuals are written once
on top of it (`spcatv.data.operators`). Vectors of length N and P are NumPy arrays in float64 on this side
of the seam, and all sums are in float64 whatever the dtype of X.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from spcatv._util.types import FloatArray, IntArray

# Entries of X that are turned to float64 at a time: small enough to stay in the cache.
BLOCK_ENTRIES = 1 << 16


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Means and sums of squares of the columns, from one pass."""

    mean: FloatArray  # means of the columns; zeros if they were not asked for, shape (P,)
    squared_norms: FloatArray  # ``||X_j - mean_j||^2`` of every column, shape (P,)


@dataclass(frozen=True, eq=False)
class FirstLook:
    """Results of a first pass over data in blocks, with ``M = X - 1 mean'`` and vectors V (K, P)."""

    statistics: ColumnStatistics  # of the columns
    row_means: FloatArray  # means over features of every sample of X, shape (N,)
    scores: FloatArray  # ``S = M V'``, shape (N, K)
    back: FloatArray  # ``S'M``, shape (K, P)


@runtime_checkable
class Data(Protocol):
    """Raw data X: N samples by P features.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.data import Data, as_data
    >>> data: Data = as_data(np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> data.shape, data.dot(np.array([1.0, 1.0])), data.transpose_dot(np.array([1.0, 0.0, 0.0]))
    ((3, 2), array([ 3.,  7., 11.]), array([1., 2.]))
    >>> data.column_statistics(center=True).mean
    array([3., 4.])
    >>> [block.tolist() for _, block in data.take(np.array([2, 0])).blocks()]
    [[[5.0, 6.0], [1.0, 2.0]]]
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64: the precision that X is stored in."""

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``X v`` for v of shape (P,); shape (N,)."""

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u`` for u of shape (N,); shape (P,)."""

    def there_and_back(self, v: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``s = X v - shift`` (shift of shape (N,)) and ``X's``, in one pass; shapes (N,) and (P,)."""

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` for K vectors as the rows of V (K, P), in one pass; shape (N, K)."""

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, in one pass, to the precision of X.

        V has shape (K, P), `shift` and S (N, K), and ``S'M`` (K, P).
        """

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Means and squared norms of the columns in one pass along the samples; no means unless `center`."""

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """``M M'`` for ``M = (X - 1 mean') diag(factor)``, shape (N, N), to about the precision of X."""

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """All samples in order, in blocks of about `entries` entries: which ones, and X there in float64."""

    def take(self, samples: IntArray) -> Data:
        """Return the given samples, in the given order and as often as given, without a copy of X."""


def is_on_gpu(data: Any) -> bool:
    """Whether products with the data are taken on a GPU, and vectors of length P lie there."""
    return bool(getattr(data, "on_gpu", False))


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for float32 in any byte order, otherwise float64."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def row_blocks(shape: tuple[int, int], entries: int = BLOCK_ENTRIES) -> Iterator[tuple[int, int]]:
    """Return bounds of blocks of rows with at most about `entries` entries each."""
    height = max(1, entries // shape[1])
    for first in range(0, shape[0], height):
        yield first, min(first + height, shape[0])
