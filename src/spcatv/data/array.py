"""X as a NumPy array or a memory map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.data.base import BLOCK_ENTRIES, ColumnStatistics, Data, row_blocks
from spcatv.kernels.products import column_moments, rows_times, rows_weighted, there_and_back

# Columns that enter a Gram matrix together: wide enough for a fast product, and for a memory map to be
# read in long pieces.
GRAM_COLUMNS = 512
# Entries of X that enter products with several vectors together.
PRODUCT_ENTRIES = 1 << 22
# Entries up to which inner products of float32 data may be taken in float32.
LARGEST_SINGLE = 1e15


class ArrayData:
    """Samples of a NumPy array of shape (n, P), which is read where it lies.

    The array may have any memory order and dtype, writable or not. What is not float32 or float64 in C order
    is copied to it, once. `samples` (N,) tells which rows are the samples, in order; all of them by default.
    """

    def __init__(self, array: Array, samples: IntArray | None = None) -> None:
        # a memory map is used as a plain array: NumPy keeps subclasses alive through every slice
        plain = np.asarray(array)
        if plain.ndim != 2:
            raise ValueError(f"X must have two dimensions, samples and features; got shape {plain.shape}")
        dtype = np.dtype(np.float32 if plain.dtype.kind == "f" and plain.dtype.itemsize == 4 else np.float64)
        serves = plain.dtype == dtype and plain.flags.c_contiguous
        self.array: FloatArray = plain if serves else np.ascontiguousarray(plain, dtype=dtype)
        self.samples: IntArray = np.arange(len(plain)) if samples is None else np.asarray(samples, np.intp)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""
        return len(self.samples), self.array.shape[1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of the array."""
        return self.array.dtype

    def dot(self, v: FloatArray) -> FloatArray:
        """``X v``."""
        out = np.zeros(self.shape[0])
        rows_times(self.array, self.samples, v, out)
        return out

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """``X'u``."""
        out = np.zeros(self.shape[1])
        rows_weighted(self.array, self.samples, u, out)
        return out

    def there_and_back(self, v: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``s = X v - shift`` and ``X's``."""
        scores, back = np.empty(self.shape[0]), np.zeros(self.shape[1])
        there_and_back(self.array, self.samples, v, shift, scores, back)
        return scores, back

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """``X V'`` for the rows of V."""
        out = np.empty((self.shape[0], len(vectors)))
        transposed = vectors.T
        for samples, block in self.blocks():
            out[samples] = block @ transposed
        return out

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, sums of blocks in float64."""
        scores, back = np.empty(shift.shape), np.zeros(vectors.shape)
        thin, middle = vectors.astype(self.dtype), mean.astype(self.dtype)
        thin_columns = np.ascontiguousarray(thin.T)
        height = min(max(1, PRODUCT_ENTRIES // self.shape[1]), self.shape[0])
        centred = np.empty((height, self.shape[1]), self.dtype)
        for first, last in row_blocks(self.shape, PRODUCT_ENTRIES):
            block = np.subtract(self._rows(first, last), middle, out=centred[: last - first])
            part = block @ thin_columns - shift[first:last]
            scores[first:last] = part
            back += part.T.astype(self.dtype) @ block
        return scores, back

    def _rows(self, first: int, last: int) -> FloatArray:
        """Some of the samples: a view of the array where they lie one after the other, otherwise a copy."""
        samples = self.samples[first:last]
        begin = int(samples[0])
        if int(samples[-1]) - begin == last - first - 1 and (np.diff(samples) == 1).all():
            return self.array[begin : begin + last - first]
        return self.array[samples]

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Means and squared norms of the columns."""
        mean, squared_norms = np.zeros(self.shape[1]), np.zeros(self.shape[1])
        column_moments(self.array, self.samples, center, mean, squared_norms)
        return ColumnStatistics(mean, squared_norms)

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """``M M'`` for ``M = (X - 1 mean') diag(factor)``, in the precision of X, sums in float64."""
        n_samples, n_features = self.shape
        total = np.zeros((n_samples, n_samples))
        for first in range(0, n_features, GRAM_COLUMNS):
            columns = slice(first, first + GRAM_COLUMNS)
            panel = self.array[:, columns][self.samples] - mean[columns]
            if factor is not None:
                panel *= factor[columns]
            if self.dtype == np.float32 and np.abs(panel).max(initial=0.0) < np.sqrt(
                LARGEST_SINGLE / n_samples
            ):
                panel = panel.astype(np.float32)
            total += panel @ panel.T
        return total

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """All samples in order, in blocks of about `entries` entries."""
        for first, last in row_blocks(self.shape, entries):
            yield slice(first, last), self.array[self.samples[first:last]].astype(np.float64, copy=False)

    def take(self, samples: IntArray) -> Data:
        """The given samples of these."""
        return ArrayData(self.array, self.samples[samples])
