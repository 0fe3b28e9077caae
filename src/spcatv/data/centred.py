"""X as an operator: products with the centred and deflated data, without ever making it.

`CentredMatrix` is ``X - 1 mean'``, and `ResidualMatrix` and `DeflatedMatrix` subtract rank-one terms from
it (docs/method.md sections 5.3 and 5.1): X itself is read, never copied or changed. Products accumulate in
float64, whatever the dtype of X.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy.linalg.blas import daxpy

from spcatv._util.types import FloatArray
from spcatv.kernels.products import rows_times, rows_weighted, there_and_back

# Entries of X that are turned to float64 at a time: small enough to stay in the cache.
BLOCK_ENTRIES = 1 << 16
# A Gram matrix pays, in time and in memory, if it is small, or small beside the data: of order at most
# SMALL_GRAM, or at most LARGEST_GRAM and a GRAM_SHARE of the longer side.
SMALL_GRAM = 64
LARGEST_GRAM = 3000
GRAM_SHARE = 0.05
# Squared norms of columns up to which inner products may be taken in float32.
LARGEST_SINGLE = 1e30


def _times(matrix: FloatArray, vector: FloatArray) -> FloatArray:
    """``matrix @ vector`` in float64 without a float64 copy of the matrix."""
    if matrix.dtype == np.float64:
        return matrix @ vector
    out = np.zeros(matrix.shape[0])
    if matrix.flags.c_contiguous:
        rows_times(matrix, vector, out)
    elif matrix.flags.f_contiguous:
        rows_weighted(matrix.T, vector, out)
    else:
        for first, last in row_blocks(matrix.shape):
            out[first:last] = matrix[first:last].astype(np.float64) @ vector
    return out


def row_blocks(shape: tuple[int, int], entries: int = BLOCK_ENTRIES) -> Iterator[tuple[int, int]]:
    """Bounds of blocks of rows with at most about `entries` entries each."""
    height = max(1, entries // shape[1])
    for first in range(0, shape[0], height):
        yield first, min(first + height, shape[0])


def gram_pays(shape: tuple[int, int]) -> bool:
    """Whether to decompose the Gram matrix of the shorter side rather than to iterate with products."""
    short, long = min(shape), max(shape)
    return short <= SMALL_GRAM or short <= min(LARGEST_GRAM, GRAM_SHARE * long)


class Matrix(Protocol):
    """What the alternation needs of the data: an N x P operator and its size."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows N and columns P."""

    def dot(self, v: FloatArray) -> FloatArray:
        """``X v``, shape (N,), float64."""

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """``X'u``, shape (P,), float64."""

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``X v`` and ``X'X v``, in one pass over the data."""

    def add_taken_away(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """``out += factor (X_0 - X)'u`` for the data X_0 before deflation, without a product with them."""

    def rows(self, first: int, last: int) -> FloatArray:
        """Rows ``first:last`` written out in float64, shape (last - first, P)."""

    def squared_norm(self) -> float:
        """``||X||_F^2``."""

    def gram(self) -> FloatArray:
        """``X X'`` if N <= P, else ``X'X``; float64."""


@dataclass(frozen=True, eq=False)
class CentredMatrix:
    """``X - 1 mean'`` as an operator.

    Parameters
    ----------
    data : ndarray of shape (N, P), float32 or float64
        X; an array or a view of a memory map.
    center : bool
        Whether the columns' means are subtracted.
    """

    data: FloatArray
    center: bool = True

    @property
    def shape(self) -> tuple[int, int]:
        """Rows N and columns P."""
        n_rows, n_columns = self.data.shape
        return n_rows, n_columns

    @cached_property
    def _column_statistics(self) -> tuple[FloatArray, float, float, FloatArray | None]:
        """Means of the columns, sum and maximum of their squared norms and, where it pays, the Gram matrix.

        All in one pass over the data.
        """
        n_rows, n_columns = self.shape
        mean, total, largest = np.zeros(n_columns), 0.0, 0.0
        with_gram = n_rows <= n_columns and gram_pays(self.shape)
        gram = np.zeros((n_rows, n_rows)) if with_gram else None
        width = max(1, BLOCK_ENTRIES // n_rows)
        for first in range(0, n_columns, width):
            columns = slice(first, first + width)
            block = self.data[:, columns].astype(np.float64)
            if self.center:
                # twice: the second pass removes what the first one lost where means are large
                for _ in range(2):
                    shift = block.mean(axis=0)
                    mean[columns] += shift
                    block -= shift
            squares = np.einsum("ij,ij->j", block, block)
            total += float(squares.sum())
            largest = max(largest, float(squares.max()))
            if gram is not None:
                # starts need no more digits than the data have; sums over blocks are in float64
                single = self.data.dtype == np.float32 and largest < LARGEST_SINGLE
                product = block.astype(np.float32) if single else block
                gram += product @ product.T
        return mean, total, largest, gram

    @property
    def mean(self) -> FloatArray:
        """Means of the columns, float64, shape (P,); zeros if not centred."""
        return self._column_statistics[0]

    @property
    def largest_column_norm(self) -> float:
        """``max_j ||X_j||_2`` over the centred columns."""
        return float(np.sqrt(self._column_statistics[2]))

    def squared_norm(self) -> float:
        """``||X - 1 mean'||_F^2``."""
        return self._column_statistics[1]

    @cached_property
    def _gram(self) -> FloatArray:
        gram = self._column_statistics[3]
        if gram is None:
            n_rows, n_columns = self.shape
            gram = np.zeros((min(n_rows, n_columns),) * 2)
            for first, last in row_blocks(self.shape):
                block = self.rows(first, last)
                if n_rows <= n_columns:
                    gram[:, first:last] = np.stack([self.dot(row) for row in block], axis=1)
                else:
                    gram += block.T @ block
        gram.flags.writeable = False
        return gram

    def gram(self) -> FloatArray:
        """``X X'`` if N <= P, else ``X'X``, of the centred data; computed once."""
        return self._gram

    def dot(self, v: FloatArray) -> FloatArray:
        """``(X - 1 mean') v``."""
        return _times(self.data, v) - self.mean @ v

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """``(X - 1 mean')' u``."""
        return _times(self.data.T, u) - self.mean * u.sum()

    def shifted_there_and_back(self, v: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``s = (X - 1 mean') v - shift`` (shift of shape (N,)) and ``(X - 1 mean')' s``."""
        if self.data.flags.c_contiguous:
            scores, back = np.empty(self.shape[0]), np.zeros(self.shape[1])
            there_and_back(self.data, v, shift + self.mean @ v, scores, back)
            daxpy(self.mean, back, a=-scores.sum())
            return scores, back
        scores = self.dot(v) - shift
        return scores, self.transpose_dot(scores)

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``X v`` and ``X'X v`` of the centred data."""
        return self.shifted_there_and_back(v, np.zeros(self.shape[0]))

    def add_taken_away(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """Nothing was taken away."""

    def rows(self, first: int, last: int) -> FloatArray:
        """Rows ``first:last`` of the centred data."""
        return self.data[first:last] - self.mean


@dataclass(frozen=True, eq=False)
class ResidualMatrix:
    """``base - scores' loadings`` as an operator.

    Parameters
    ----------
    base : CentredMatrix
        The N x P data.
    scores : ndarray of shape (K, N)
        One row a rank-one term.
    loadings : ndarray of shape (K, P)
        Likewise.
    """

    base: CentredMatrix
    scores: FloatArray
    loadings: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """Rows N and columns P."""
        return self.base.shape

    def dot(self, v: FloatArray) -> FloatArray:
        """``(base - scores' loadings) v``."""
        return self.base.dot(v) - self.scores.T @ (self.loadings @ v)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """``(base - scores' loadings)' u``."""
        back = self.base.transpose_dot(u)
        self.add_taken_away(u, -1.0, back)
        return back

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``R v`` and ``R'R v`` of the residual R."""
        scores, back = self.base.shifted_there_and_back(v, self.scores.T @ (self.loadings @ v))
        self.add_taken_away(scores, -1.0, back)
        return scores, back

    def add_taken_away(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """``out += factor loadings' (scores u)``, in place (float64, shape (P,))."""
        for loading, coefficient in zip(self.loadings, self.scores @ u, strict=True):
            daxpy(loading, out, a=factor * coefficient)

    def rows(self, first: int, last: int) -> FloatArray:
        """Rows ``first:last`` of the residual."""
        return self.base.rows(first, last) - self.scores[:, first:last].T @ self.loadings

    @cached_property
    def _cross(self) -> tuple[FloatArray, FloatArray]:
        """``base @ loadings'`` (N, K) and ``loadings @ loadings'`` (K, K)."""
        products = [self.base.dot(loading) for loading in self.loadings]
        base = np.stack(products, axis=1) if products else np.zeros((self.shape[0], 0))
        return base, self.loadings @ self.loadings.T

    def squared_norm(self) -> float:
        """``||base - scores' loadings||_F^2``."""
        base, loadings = self._cross
        explained = 2 * float((base * self.scores.T).sum()) - float(
            (loadings * (self.scores @ self.scores.T)).sum()
        )
        return max(self.base.squared_norm() - explained, 0.0)

    def gram(self) -> FloatArray:
        """``R R'`` if N <= P, else ``R'R``, of the residual R."""
        gram = self.base.gram()
        if len(self.scores) == 0:
            return gram
        if self.shape[0] <= self.shape[1]:
            base, loadings = self._cross
            mixed = base @ self.scores
            return gram - mixed - mixed.T + self.scores.T @ loadings @ self.scores
        base_scores = np.stack([self.base.transpose_dot(score) for score in self.scores])
        mixed = self.loadings.T @ base_scores
        return gram - mixed - mixed.T + self.loadings.T @ (self.scores @ self.scores.T) @ self.loadings


class DeflatedMatrix(ResidualMatrix):
    """The residual of a deflation: unit `loadings`, and `scores` of what was left before each of them.

    Every step is a projection (docs/method.md section 5.1), ``X_{k+1} = X_k (I - v v')`` with
    ``t = X_k v``, so that its size and its Gram matrix need no product with the data.
    """

    def squared_norm(self) -> float:
        """``||X||_F^2 - sum_k ||t_k||^2``."""
        return max(self.base.squared_norm() - float(np.square(self.scores).sum()), 0.0)

    def gram(self) -> FloatArray:
        """``X X' - sum_k t_k t_k'`` if N <= P, else ``R'R``."""
        if self.shape[0] > self.shape[1]:
            return super().gram()
        return self.base.gram() - self.scores.T @ self.scores
