"""Protocol of raw data X, whatever their storage.

A kind of array is one class with the methods of `Data`. Corrections, centring and deflation are written once
on top of it (`spcatv.data.operator`). Vectors of length N and P are NumPy arrays in float64 on this side of
the seam, and all sums are in float64 whatever the dtype of X.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from spcatv._util.types import Array, FloatArray, IntArray

# Entries of X that are turned to float64 at a time: small enough to stay in the cache.
BLOCK_ENTRIES = 1 << 16

# Result of work on some samples: one row per sample or None, and something to add up or None.
Found = tuple[Any, Any]
# Numbers of some samples.
Positions = slice | IntArray
# Work on some samples: their numbers, and X there in float64.
BlockWork = Callable[[Positions, FloatArray], Found]


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """Means and sums of squares of the columns, from one pass; statistics of disjoint samples add up."""

    n_samples: int
    mean: FloatArray  # means of the columns; zeros without centring, shape (P,)
    squared_norms: FloatArray  # ``||X_j - mean_j||^2`` of every column, shape (P,)
    sums: FloatArray | float = 0.0  # any other sums over the samples

    def __add__(self, other: ColumnStatistics) -> ColumnStatistics:
        """Return the statistics of both (Chan, Golub and LeVeque, 1983)."""
        n_samples = self.n_samples + other.n_samples
        off = other.mean - self.mean
        mean = self.mean + off * (other.n_samples / n_samples)
        np.square(off, out=off)
        off *= self.n_samples * other.n_samples / n_samples
        off += self.squared_norms
        off += other.squared_norms
        return ColumnStatistics(n_samples, mean, off, self.sums + other.sums)


@dataclass(frozen=True, eq=False)
class FirstLook:
    """Results of a first pass over data in blocks, with ``M = X - 1 mean'`` and vectors V (K, P)."""

    statistics: ColumnStatistics  # of the columns
    row_means: FloatArray  # means over features of every sample of X, shape (N,)
    scores: FloatArray  # ``S = M V'``, shape (N, K)
    back: FloatArray  # ``S'M``, shape (K, P)


class Data(ABC):
    """Raw data X: N samples by P features.

    A subclass sets `shape`, `dtype` and `samples`, and defines the abstract methods; the other ones have
    defaults.

    Attributes
    ----------
    shape : tuple of int
        Number of samples N and of features P.
    dtype : dtype
        float32 or float64: the precision that X is stored in.
    samples : ndarray of shape (N,)
        Numbers of the stored rows that are the samples, in order. Only `take` by its default asks for it.
    on_gpu : bool
        Whether products are taken on a GPU, and vectors of length P lie there.
    is_distributed : bool
        Whether blocks of X are on other machines, so that only vectors should travel.

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

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    samples: IntArray
    on_gpu: bool = False
    is_distributed: bool = False

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``X v`` for v of shape (P,); shape (N,)."""
        return self.dot_many(v[np.newaxis])[:, 0]

    @abstractmethod
    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u`` for u of shape (N,); shape (P,)."""

    @abstractmethod
    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` for K vectors as the rows of V (K, P), in one pass; shape (N, K)."""

    @abstractmethod
    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, in one pass.

        Many vectors are multiplied in the precision of X.

        V has shape (K, P), `shift` and S (N, K), and ``S'M`` (K, P).
        """

    @abstractmethod
    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means (zeros unless `center`) and squared norms of the columns, in one pass."""

    @abstractmethod
    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """``M M'`` for ``M = (X - 1 mean') diag(factor)``, shape (N, N), to about the precision of X."""

    @abstractmethod
    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in order, in blocks of about `entries` entries: numbers, and X in float64."""

    def take(self, samples: IntArray) -> Self:
        """Return the given samples, in the given order and as often as given, without a copy of X."""
        part = copy(self)
        part.samples = self.samples[samples]
        part.shape = len(part.samples), self.shape[1]
        return part

    def each_block(self, work: BlockWork, entries: int = BLOCK_ENTRIES) -> Found:
        """Visit all samples in blocks, where they are: on the workers of a cluster if these hold the data.

        ``work(samples, block)`` gets the numbers of some samples, as a slice or an array, and X there in
        float64, which it may change. It returns one row per sample of the block or None, and something new
        to add up or None. A block has about `entries` entries. Returns the rows of all samples, in order, and
        the sum over blocks; None for either if there are none.
        """
        return gathered(self.shape[0], ((samples, work(samples, x)) for samples, x in self.blocks(entries)))

    def first_look(self, vectors: FloatArray, center: bool) -> FirstLook | None:
        """Return statistics and products with vectors (K, P) from one pass; None if that saves nothing."""
        return None


def gathered(n_samples: int, found: Iterable[tuple[Any, Found]]) -> Found:
    """Put rows in their places, and add up the rest in the order in which it comes, in place."""
    rows: Array | None = None
    total: Any = None
    for positions, (own, part) in found:
        if own is not None:
            if rows is None:
                rows = np.empty((n_samples, *own.shape[1:]), own.dtype)
            rows[positions] = own
        if total is None:
            total = part
        elif part is not None:
            total += part
    return rows, total


def float_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """float32 for float32 in any byte order, otherwise float64."""
    return np.dtype(np.float32 if dtype.kind == "f" and dtype.itemsize == 4 else np.float64)


def row_blocks(shape: tuple[int, int], entries: int = BLOCK_ENTRIES) -> Iterator[tuple[int, int]]:
    """Return bounds of blocks of rows with at most about `entries` entries each."""
    height = max(1, entries // shape[1])
    for first in range(0, shape[0], height):
        yield first, min(first + height, shape[0])
