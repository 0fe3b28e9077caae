"""X less a matrix of low rank, without making that matrix: adjusted, scaled, centred and deflated data.

`CorrectedData` is ``(X - left right) diag(factor)`` as data, where X is read through
`spcatv.data.protocol.Data`, never copied or changed. The confounds of an adjustment, the global signal
(docs/method.md section 1.4) and the components of a deflation (section 5.1) are such corrections.
`CentredData` adds what a fit uses: means, decompositions, and a sketch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from spcatv._util.devices import as_vector, beside, frozen, gpu_module, to_host
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.data.array import ArrayData
from spcatv.data.blocks import moments
from spcatv.data.protocol import BLOCK_ENTRIES, BlockWork, ColumnStatistics, Data, FirstLook, Found, Positions
from spcatv.data.sketch import CompressedData, compress
from spcatv.kernels.vectors import add_multiple, inner_products

# Entries of X that are corrected together.
CORRECTED_ENTRIES = 1 << 20
# Compute the Gram matrix of the shorter side up to the order SMALL_GRAM, and up to the order LARGEST_GRAM
# where that is at most a GRAM_SHARE of the longer side.
SMALL_GRAM = 64
LARGEST_GRAM = 3000
GRAM_SHARE = 0.05
# On a GPU products are cheap, and eigenvectors, which the CPU computes, are not.
LARGEST_GPU_GRAM = 512
# Row means below this many roundings of an entry of X are rounding, not a signal. A few would do for X
# itself, but data whose row means were removed before carry the roundings of the larger numbers they had.
ROUNDINGS = 100.0
# Count data with less than this share of their squared norm as rounding.
NOTHING_LEFT = 1e-13
# Largest norms of columns between which a precision has room for squares of squares, and for penalties.
ORDINARY = {np.dtype(np.float32): (1e-10, 1e10), np.dtype(np.float64): (1e-60, 1e60)}
# Sums of squares of a column below this lose digits, and then vanish.
SMALLEST_SQUARES = 1e-302


@dataclass(frozen=True, eq=False)
class CorrectedData(Data):
    """``(X - left right) diag(factor)`` as data."""

    data: Data  # X, N samples by P features
    left: FloatArray  # a NumPy array of shape (N, r); r may be 0
    right: FloatArray  # shape (r, P), where vectors of the data lie
    factor: FloatArray | None = None  # multiplies the features, shape (P,), beside `right`; None: ones

    def __post_init__(self) -> None:
        of_data = "shape", "dtype", "on_gpu", "is_distributed"
        vars(self).update({name: getattr(self.data, name) for name in of_data})

    def _scaled(self, vectors: FloatArray) -> FloatArray:
        vectors = beside(vectors, self.right)
        return vectors if self.factor is None else vectors * self.factor

    def _removed(self, vectors: FloatArray) -> FloatArray:
        """Return ``left right V'`` for the rows of V (K, P), shape (N, K)."""
        if len(vectors) == 1:  # the same in one pass through memory
            return (self.left @ inner_products(self.right, vectors[0]))[:, np.newaxis]
        return self.left @ to_host(self.right @ vectors.T)

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``M V'`` of the corrected data M for the rows of V."""
        vectors = self._scaled(vectors)
        return self.data.dot_many(vectors) - self._removed(vectors)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``M'u``."""
        return self._back(self.data.transpose_dot(u)[np.newaxis], u[:, np.newaxis])[0]

    def _back(self, back: FloatArray, scores: FloatArray) -> FloatArray:
        """Return ``U'M`` from ``U'X`` (K, P) for scores U (N, K), in place."""
        for own, coefficients in zip(back, scores.T @ self.left, strict=True):
            for row, coefficient in zip(self.right, coefficients, strict=True):
                add_multiple(own, -float(coefficient), row)
        if self.factor is not None:
            back *= self.factor
        return back

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``S = C V' - shift`` and ``S'C`` for ``C = M - 1 mean'``."""
        vectors = self._scaled(vectors)
        scores, back = self.data.there_and_back_many(
            vectors, self._raw_mean(mean), shift + self._removed(vectors)
        )
        return scores, self._back(back, scores)

    def _raw_mean(self, mean: FloatArray) -> FloatArray:
        """Return means of the corrected features in units of X; 0 where the factor is."""
        return mean if self.factor is None else quotient(mean, self.factor, self.factor != 0)

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means and squared norms of the corrected columns."""
        if self.factor is None or len(self.right):
            return self._exact_statistics(center)
        raw = self.data.column_statistics(center)
        mean, squares = raw.mean * self.factor, raw.squared_norms * np.square(self.factor)
        return ColumnStatistics(raw.n_samples, mean, squares)

    def _exact_statistics(self, center: bool) -> ColumnStatistics:
        """Return statistics of the corrected samples themselves."""
        found = self.each_block(lambda _, block: moments(ArrayData(block), center), CORRECTED_ENTRIES)[1]
        mean, squares = (beside(values, self.right) for values in (found.mean, found.squared_norms))
        return ColumnStatistics(found.n_samples, mean, squares)

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """Return ``C C'`` for ``C = (M - 1 mean') diag(factor)``."""
        both = factor if self.factor is None else self.factor if factor is None else self.factor * factor
        raw_mean = self._raw_mean(mean)
        gram = self.data.gram(raw_mean, both)
        if self.factor is not None:
            # where the factor is 0, so is the corrected feature, and only its mean is left
            left_out = np.where(self.factor == 0, mean if factor is None else mean * factor, 0.0)
            gram += float(left_out @ left_out)
        if len(self.right) == 0:
            return gram
        right = self.right if both is None else self.right * both
        twice = right if both is None else right * both
        cross = self.data.dot_many(twice) - to_host(twice @ raw_mean)
        mixed = (cross - 0.5 * self.left @ to_host(right @ right.T)) @ self.left.T
        return gram - mixed - mixed.T

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all corrected samples in order, in blocks of about `entries` entries."""
        rows = self._rows
        for samples, block in self.data.blocks(entries):
            yield samples, rows(samples, block)

    def each_block(self, work: BlockWork, entries: int = BLOCK_ENTRIES) -> Found:
        """Visit all corrected samples in blocks."""
        rows = self._rows  # what travels to workers holds no data
        return self.data.each_block(lambda samples, block: work(samples, rows(samples, block)), entries)

    @property
    def _rows(self) -> Callable[[Positions, FloatArray], FloatArray]:
        """Corrects samples, given their numbers and X there."""
        left, right = self.left, to_host(self.right)
        factor = 1.0 if self.factor is None else to_host(self.factor)
        return lambda samples, block: (block - left[samples] @ right) * factor

    def take(self, samples: IntArray) -> Self:
        """Return the given samples of these, corrected as they are."""
        return replace(self, data=self.data.take(samples), left=self.left[samples])


def quotient(a: Any, b: FloatArray, where: Any) -> FloatArray:
    """Return ``a / b`` where a condition holds, and 0 elsewhere."""
    return np.where(where, a / np.where(where, b, 1.0), 0.0)


class ScaledData(CorrectedData):
    """``X / unit`` as data, exactly, where squares of X would leave the range of floats. Made by `scaled`."""

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for ``M = X / unit - 1 mean'``, in float64."""
        scores = self.dot_many(vectors) - to_host(vectors @ mean) - shift
        back = np.stack([self.transpose_dot(np.ascontiguousarray(own)) for own in scores.T])
        return scores, back - np.outer(beside(scores.sum(axis=0), mean), mean)

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means and squared norms of the scaled columns; squares of X itself may have lost digits."""
        return self._exact_statistics(center)


def scaled(data: Data, unit: float, like: FloatArray) -> ScaledData:
    """Return ``X / unit`` for a power of two; `like` (P,) is a vector on the device of the data."""
    n_samples, n_features = data.shape
    nothing = np.zeros_like(like, shape=(0, n_features))
    return ScaledData(data, np.zeros((n_samples, 0)), nothing, np.full_like(like, 1.0 / unit))


def ordinary_unit(data: Data, statistics: ColumnStatistics) -> float:
    """Return the power of two that brings X to an ordinary scale; 1 if it is there.

    `statistics` are column statistics of X. A ValueError is raised if float64 has no room for its variances.
    """
    squares = statistics.squared_norms
    largest = float(squares.max())
    if not np.isfinite(float(squares.sum())):
        feature = int(np.argmax(np.where(np.isfinite(squares), squares, np.inf)))
        raise ValueError(
            f"X is too large: the sum of squares is beyond float64 (first at feature {feature}), so there "
            "are no variances. Divide X by a constant, and look for damaged samples first"
        )
    if largest < SMALLEST_SQUARES:
        first = next(data.take(np.zeros(1, np.intp)).blocks())[1][0]
        if data.each_block(lambda _, block: (None, int((block != first).any())))[1]:
            raise ValueError(
                "X is too small: its entries vary, but by so little that float64 holds no squares of it, and "
                "there are no variances. Multiply X by a constant"
            )
        return 1.0
    smallest_norm, largest_norm = ORDINARY[data.dtype]
    if smallest_norm < math.sqrt(largest) < largest_norm:
        return 1.0
    return math.ldexp(1.0, math.frexp(math.sqrt(largest))[1])


@dataclass(frozen=True, eq=False)
class Centring:
    """Means and global-signal coefficients that are subtracted from training and new samples."""

    mean: FloatArray  # means of the columns of the training samples, shape (P,)
    # coefficients of the columns on the global signal (docs/method.md section 1.4), shape (P,); None: kept
    global_loading: FloatArray | None = None

    def apply(self, samples: FloatArray) -> FloatArray:
        """Return ``x - mean - g(x) global_loading`` of samples (n, P).

        ``g(x)`` is the mean over features of ``x - mean``.
        """
        centred = samples - self.mean
        if self.global_loading is not None:
            centred -= centred.mean(axis=1, keepdims=True) * self.global_loading
        return centred


@dataclass(eq=False)
class CentredData:
    """``X - 1 mean'`` as an operator.

    The data X may be corrected: `without_global_signal` and `DeflatedData` are made like this.
    """

    data: Data  # X, N samples by P features
    center: bool = True  # whether the columns' means are subtracted
    unit: float = 1.0  # unit of the numbers of this operator; 1 at an ordinary scale
    global_loading: FloatArray | None = None  # coefficients of the columns on a removed global signal
    # whether a removed global signal was all that the data held
    is_empty: bool = field(default=False, init=False)
    # number of leading directions that were asked for, and the sketch of them
    _sketch: tuple[int, CompressedData] | None = field(default=None, init=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""
        return self.data.shape

    @property
    def gram_pays(self) -> bool:
        """Return whether a decomposed Gram matrix of the shorter side takes less than products."""
        short, long = min(self.shape), max(self.shape)
        largest = LARGEST_GPU_GRAM if self.data.on_gpu else LARGEST_GRAM
        small = short <= SMALL_GRAM or short <= min(largest, GRAM_SHARE * long)
        return small and not self.data.is_distributed

    def vectors(self, values: Array) -> Array:
        """Return NumPy vectors of length P on the device of the data."""
        return gpu_module().asarray(values) if self.data.on_gpu else values

    @cached_property
    def _statistics(self) -> ColumnStatistics:
        look = self.data.first_look(self.vectors(np.zeros((0, self.shape[1]))), self.center)
        return self.data.column_statistics(self.center) if look is None else self._keep(look)

    def _keep(self, found: FirstLook) -> ColumnStatistics:
        self._statistics, self._row_means = found.statistics, found.row_means
        return found.statistics

    @cached_property
    def _row_means(self) -> FloatArray:
        n_features = self.shape[1]
        return self.data.dot(self.vectors(np.full(n_features, 1.0 / n_features)))

    def at_ordinary_scale(self) -> CentredData:
        """Return the operator for X scaled by a power of two, where its fourth powers would overflow.

        Raises a ValueError if float64 has no room for the variances of X.
        """
        unit = ordinary_unit(self.data, self._statistics)
        return self if unit == 1.0 else CentredData(scaled(self.data, unit, self.mean), self.center, unit)

    def without_global_signal(self) -> CentredData:
        """Return the operator ``X - 1 mean' - g b'`` for the global signal g (docs/method.md section 1.4).

        ``b = (X - 1 mean')'g / g'g`` holds the least-squares coefficients of the columns on g. Every row of
        the result has mean zero.
        """
        signal = self.global_signal
        squares = float(signal @ signal)
        loading = self.transpose_dot(signal) / (squares or 1.0)
        data = CorrectedData(self.data, signal[:, None], loading[None])
        result = replace(self, data=data, global_loading=loading)
        left = np.maximum(self.column_squared_norms - squares * np.square(loading), 0.0)
        result._statistics = replace(self._statistics, squared_norms=left)
        result.is_empty = 0 < self.squared_norm() * NOTHING_LEFT >= result.squared_norm()
        return result

    @property
    def mean(self) -> FloatArray:
        """Means of the columns, float64, shape (P,); zeros if not centred."""
        return self._statistics.mean

    @cached_property
    def global_signal(self) -> FloatArray:
        """``g = X 1 / P``: the mean over features of each centred sample, shape (N,); zeros if rounding."""
        n_samples, n_features = self.shape
        mean = self.mean
        signal = self._row_means - float(mean.mean())
        squares = float(self._statistics.squared_norms.sum()) + n_samples * float(mean @ mean)
        rounding = ROUNDINGS * np.finfo(self.data.dtype).eps * np.sqrt(squares / n_features)
        return signal if np.linalg.norm(signal) > rounding else np.zeros(n_samples)

    @property
    def centring(self) -> Centring:
        """Centring of samples in the unit that X had at first."""
        loading = self.global_loading
        return Centring(self.unit * to_host(self.mean), None if loading is None else to_host(loading))

    @property
    def column_squared_norms(self) -> FloatArray:
        """``||X_j||^2`` of the centred columns, shape (P,)."""
        return self._statistics.squared_norms

    @cached_property
    def largest_column_norm(self) -> float:
        """``max_j ||X_j||_2`` over the centred columns."""
        return float(np.sqrt(float(self.column_squared_norms.max())))

    def squared_norm(self) -> float:
        """Return ``||X - 1 mean'||_F^2``."""
        return float(self.column_squared_norms.sum())

    @cached_property
    def _gram(self) -> FloatArray:
        if self.shape[0] <= self.shape[1]:
            return frozen(self.data.gram(self.mean))
        mean = to_host(self.mean)

        def product(_: Positions, block: FloatArray) -> Found:
            centred = block - mean
            return None, centred.T @ centred

        return frozen(self.data.each_block(product)[1])

    def gram(self) -> FloatArray:
        """Return ``X X'`` if N <= P, else ``X'X``, of the centred data; computed once."""
        return self._gram

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean') v``."""
        return self.dot_many(as_vector(v)[np.newaxis])[:, 0]

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean') V'``."""
        vectors = beside(vectors, self.mean)
        return self.data.dot_many(vectors) - to_host(vectors @ self.mean)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean')' u``."""
        back = self.data.transpose_dot(u)
        add_multiple(back, -float(u.sum()), self.mean)
        return back

    def there_and_back_many(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V'`` (N, K) and ``S'M`` (K, P) for the rows of V (K, P) and ``M = X - 1 mean'``."""
        return self._there_and_back(vectors, np.zeros((self.shape[0], len(vectors))))

    def maps(self, scores: FloatArray) -> FloatArray:
        """Return ``U'(X - 1 mean')`` for scores U (N, K), shape (K, P)."""
        nothing = np.zeros_like(self.mean, shape=(scores.shape[1], self.shape[1]))
        return self._there_and_back(nothing, -scores)[1]

    def _there_and_back(self, vectors: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, V (K, P) and a shift (N, K)."""
        if not self._has_small_means:
            return self.data.there_and_back_many(vectors, self.mean, shift)
        scores, back = self.data.there_and_back_many(
            vectors, np.zeros_like(self.mean), shift + to_host(vectors @ self.mean)
        )
        for own, total in zip(back, scores.sum(axis=0), strict=True):
            add_multiple(own, -float(total), self.mean)
        return scores, back

    @cached_property
    def _has_small_means(self) -> bool:
        """Return whether no column has a mean above its deviation, so that centring may follow products."""
        return bool((self.shape[0] * np.square(self.mean) <= self._statistics.squared_norms).all())

    def first_products(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Do `there_and_back_many`, and keep the statistics that the same pass gives, if they are unknown."""
        look = None if "_statistics" in vars(self) else self.data.first_look(vectors, self.center)
        if look is None:
            return self.there_and_back_many(vectors)
        self._keep(look)
        return look.scores, look.back

    def compressed(self, n_directions: int) -> CompressedData:
        """Return the data compressed to their leading directions; kept for later, and for fewer of them."""
        if self._sketch is None or self._sketch[0] < n_directions:
            self._sketch = n_directions, compress(self, n_directions)
        return self._sketch[1]

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``X v`` and ``X'X v`` of the centred data."""
        scores, back = self.there_and_back_many(v[np.newaxis])
        return scores[:, 0], back[0]

    def add_removed(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """Do ``out += factor (X_0 - X)'u`` for the data X_0 before deflation: nothing was removed here."""

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return the centred samples in blocks."""
        mean = to_host(self.mean)
        for samples, block in self.data.blocks(entries):
            yield samples, block - mean


class DeflatedData(CentredData):
    """The residual of a deflation: unit `loadings`, and the `scores` of the residual before each of them.

    Every step is a projection (docs/method.md section 5.1), ``X_{k+1} = X_k (I - v v')`` with
    ``t = X_k v``, so that its size and its Gram matrix need no product with the data.
    """

    def __init__(self, base: CentredData, scores: FloatArray, loadings: FloatArray) -> None:
        """Subtract ``scores' loadings``, shapes (K, N) and (K, P), from the data of a base."""
        super().__init__(CorrectedData(base.data, scores.T, loadings), base.center, base.unit)
        self.base, self.scores, self.loadings = base, scores, loadings
        # the norms of the columns are not known
        self._statistics = ColumnStatistics(base.shape[0], base.mean, np.full_like(base.mean, np.nan))

    def add_removed(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """Do ``out += factor loadings' (scores u)``, in place (float64, shape (P,))."""
        for loading, coefficient in zip(self.loadings, self.scores @ u, strict=True):
            add_multiple(out, factor * float(coefficient), loading)

    def compressed(self, n_directions: int) -> CompressedData:
        """Return the residual of the compressed data."""
        found = self.base.compressed(n_directions + len(self.loadings))
        return found.without(self.scores, self.loadings)

    def squared_norm(self) -> float:
        """Return ``||X||_F^2 - sum_k ||t_k||^2``."""
        return max(self.base.squared_norm() - float(np.square(self.scores).sum()), 0.0)

    def gram(self) -> FloatArray:
        """Return ``X X' - sum_k t_k t_k'`` if N <= P, else ``R'R`` of the residual R."""
        gram = self.base.gram()
        if self.shape[0] <= self.shape[1]:
            return gram - self.scores.T @ self.scores
        base_scores = np.stack([to_host(self.base.transpose_dot(score)) for score in self.scores])
        loadings = to_host(self.loadings)
        mixed = loadings.T @ base_scores
        return gram - mixed - mixed.T + loadings.T @ (self.scores @ self.scores.T) @ loadings


# N x P operators that an alternation takes products with.
Products = CentredData | CompressedData
