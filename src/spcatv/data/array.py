"""Data in a NumPy array."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TypeVar

import numpy as np

from spcatv._util.threads import in_order, one_blas_thread, threads_for
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.data.protocol import BLOCK_ENTRIES, ColumnStatistics, Data, float_dtype, row_blocks
from spcatv.kernels import matvec
from spcatv.kernels.matvec import centred_panel, column_moments, transpose_dot

T = TypeVar("T")

# Columns that enter a Gram matrix together: wide enough for a fast product, and for a memory map to be
# read in long pieces. Narrower data have fewer, but at least `LEAST_GRAM_COLUMNS`.
GRAM_COLUMNS, LEAST_GRAM_COLUMNS = 2048, 256
# Runs of panels at most, whose Gram matrices are summed at the same time, and entries of such matrices that
# are there at a time.
GRAM_RUNS, GRAM_ENTRIES = 128, 1 << 26
# Entries of X that enter products with several vectors together, in at least so many rows, and in so many
# columns at a time: in the precision of X, and in float64.
PRODUCT_ENTRIES, PRODUCT_ROWS = 1 << 20, 32
PRODUCT_COLUMNS, WIDENED_COLUMNS = 1 << 15, 1 << 12
# What enters together is copied, by every thread: of small data it is at most one of so many parts.
PARTS = 32
# Entries that are worth a thread.
THREAD_ENTRIES = 1 << 20
# Vectors up to which a kernel that reads X once is faster than matrix products.
FEW_VECTORS = 6
# Magnitudes up to which float32 has room for inner products over `GRAM_COLUMNS` columns.
LARGEST_SINGLE = 1e17


class ArrayData(Data):
    """Samples of a NumPy array of shape (n, P), which is read where it lies.

    The array may have any memory order and dtype, writable or not. What is not float32 or float64 in C order
    is copied to it, once. `samples` (N,) are the numbers of the rows that
    are the samples, in order; all rows by default.
    """

    def __init__(self, array: Array, samples: IntArray | None = None) -> None:
        # a memory map is used as a plain array: NumPy keeps subclasses alive through every slice
        plain = np.asarray(array)
        if plain.ndim != 2:
            raise ValueError(f"X must have two dimensions, samples and features; got shape {plain.shape}")
        dtype = float_dtype(plain.dtype)
        serves = plain.dtype == dtype and plain.flags.c_contiguous
        self.array: FloatArray = plain if serves else np.ascontiguousarray(plain, dtype=dtype)
        self.samples: IntArray = (
            np.arange(len(plain)) if samples is None else np.ascontiguousarray(samples, np.intp)
        )
        self.shape, self.dtype = (len(self.samples), plain.shape[1]), dtype

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u``."""
        return transpose_dot(self.array, self.samples, u)

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` for the rows of V."""
        if len(vectors) == 1:
            return matvec.dot(self.array, self.samples, np.ascontiguousarray(vectors[0], np.float64))[:, None]
        out = np.zeros((self.shape[0], len(vectors)))

        def product(samples: slice) -> None:
            rows = self._rows(samples)
            for columns in self._panels(WIDENED_COLUMNS):
                out[samples] += rows[:, columns].astype(np.float64, copy=False) @ vectors[:, columns].T

        self._in_blocks(product, lambda _: None)
        return out

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, sums of blocks in float64."""
        if len(vectors) == 1 and not mean.any():
            v, one = (np.ascontiguousarray(values, np.float64) for values in (vectors[0], shift[:, 0]))
            scores, back = matvec.there_and_back(self.array, self.samples, v, one)
            return scores[:, None], back[None]
        if len(vectors) <= FEW_VECTORS:
            return matvec.there_and_back_many(self.array, self.samples, mean, vectors, shift)
        scores, back = -shift.astype(np.float64), np.zeros(vectors.shape)
        add = partial(np.add, back, out=back)
        thin, middle = vectors.astype(self.dtype), mean.astype(self.dtype)
        panels, is_centred = self._panels(PRODUCT_COLUMNS), not middle.any()

        def product(samples: slice) -> FloatArray:
            rows = self._rows(samples)
            for columns in panels:
                tile = rows[:, columns] if is_centred else rows[:, columns] - middle[columns]
                scores[samples] += tile @ thin[:, columns].T
            weights = scores[samples].T.astype(self.dtype)
            part = np.empty(vectors.shape, self.dtype)
            for columns in panels:
                if len(panels) > 1:
                    tile = rows[:, columns] if is_centred else rows[:, columns] - middle[columns]
                np.matmul(weights, tile, out=part[:, columns])
            return part

        self._in_blocks(product, add)
        return scores, back

    def _panels(self, width: int) -> list[slice]:
        """Return all columns, in panels of some width."""
        return [slice(left, left + width) for left in range(0, self.shape[1], width)]

    def _rows(self, which: slice) -> FloatArray:
        """Return some of the samples: a view where they are consecutive rows, otherwise a copy."""
        samples = self.samples[which]
        begin = int(samples[0])
        if int(samples[-1]) - begin == len(samples) - 1 and (np.diff(samples) == 1).all():
            return self.array[begin : begin + len(samples)]
        return self.array[samples]

    def _in_blocks(self, product: Callable[[slice], T], take: Callable[[T], None]) -> None:
        """Take products of blocks of samples, in order; they are made on several threads."""
        n_samples, n_features = self.shape
        height = max(PRODUCT_ROWS, min(PRODUCT_ENTRIES // n_features, n_samples // PARTS))
        blocks = [slice(*bounds) for bounds in row_blocks(self.shape, height * n_features)]
        n_threads = min(threads_for(n_samples * n_features, THREAD_ENTRIES), len(blocks))
        with one_blas_thread():
            in_order(lambda number: product(blocks[number]), take, len(blocks), n_threads)

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means and squared norms of the columns."""
        return ColumnStatistics(self.shape[0], *column_moments(self.array, self.samples, center))

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """Return ``M M'`` for ``M = (X - 1 mean') diag(factor)``, in the precision of X, sums in float64."""
        n_samples, n_features = self.shape
        total = np.zeros((n_samples, n_samples))

        def of_panel(columns: slice) -> FloatArray:
            panel = np.empty((n_samples, len(mean[columns])), self.dtype)
            largest = centred_panel(self.array, self.samples, mean, factor, columns.start, panel)
            if self.dtype == np.float32 and not largest < LARGEST_SINGLE:
                panel = panel.astype(np.float64)
                centred_panel(self.array, self.samples, mean, factor, columns.start, panel)
            return np.asarray(panel @ panel.T)

        def of_run(number: int) -> FloatArray:
            if n_together == 1:
                return of_panel(panels[number])
            run = np.zeros((n_samples, n_samples))
            for columns in panels[number * n_together : (number + 1) * n_together]:
                run += of_panel(columns)
            return run

        panels = self._panels(min(GRAM_COLUMNS, max(LEAST_GRAM_COLUMNS, n_features // PARTS)))
        n_together = -(-len(panels) // GRAM_RUNS)
        n_runs = -(-len(panels) // n_together)
        n_threads = threads_for(n_samples * n_features, THREAD_ENTRIES)
        room = max(1, GRAM_ENTRIES // (2 * n_samples**2))
        with one_blas_thread():
            in_order(of_run, partial(np.add, total, out=total), n_runs, min(n_threads, n_runs, room))
        return total

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in order, in blocks of about `entries` entries."""
        for first, last in row_blocks(self.shape, entries):
            yield slice(first, last), self.array[self.samples[first:last]].astype(np.float64, copy=False)
