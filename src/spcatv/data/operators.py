"""X as the alternation sees it: centred and deflated, without ever making that matrix.

`CentredData` is ``X - 1 mean'``; `ResidualData` and `DeflatedData` subtract rank-one terms from it
(docs/method.md section 5.1). X itself is read through `spcatv.data.base.Data`, never copied or
changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, Self

import numpy as np

from spcatv._util.devices import as_vector, beside, gpu_module, to_host
from spcatv._util.types import Array, FloatArray
from spcatv.data.base import BLOCK_ENTRIES, ColumnStatistics, Data, FirstLook, is_on_gpu
from spcatv.data.blocked import each_block
from spcatv.data.scale import ScaledData, ordinary_unit, scaled
from spcatv.data.sketch import CompressedData, compress
from spcatv.kernels.vectors import add_multiple, inner_product, inner_products

# A Gram matrix pays, in time and in memory, if it is small, or small beside the data: of order at most
# SMALL_GRAM, or at most LARGEST_GRAM and a GRAM_SHARE of the longer side.
SMALL_GRAM = 64
LARGEST_GRAM = 3000
GRAM_SHARE = 0.05
# On a GPU products are cheap, and eigenvectors, which the CPU computes, are not.
LARGEST_GPU_GRAM = 512
# Row means below this many roundings of an entry of X are rounding, not a signal. A few would do for X
# itself, but data whose row means were removed before carry the roundings of the larger numbers they had.
ROUNDINGS = 100.0


class Products(Protocol):
    """N x P operator with the products that an alternation uses."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``X v``, shape (N,), float64."""

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u``, shape (P,), float64."""

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``X v`` and ``X'X v``, in one pass over the data."""

    def add_removed(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """``out += factor (X_0 - X)'u`` for the data X_0 before deflation, without a product with them."""


class DataOperator(Products, Protocol):
    """N x P operator with the products, statistics and decompositions that a fit uses."""

    @property
    def gram_pays(self) -> bool:
        """Whether to decompose the Gram matrix of the shorter side rather than to iterate with products."""

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` for the rows of V (K, P), in one pass over the data; shape (N, K)."""

    def compressed(self, n_directions: int) -> CompressedData:
        """Return the data compressed to their leading directions."""

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in blocks of about `entries` entries: which ones, and X there in float64."""

    def squared_norm(self) -> float:
        """Return ``||X||_F^2``."""

    def gram(self) -> FloatArray:
        """Return ``X X'`` if N <= P, else ``X'X``; float64."""


@dataclass(frozen=True, eq=False)
class Centring:
    """Means and global-signal coefficients that are subtracted from training and new samples."""

    mean: FloatArray  # means of the columns of the training samples, shape (P,)
    # coefficients of the columns on the global signal (docs/method.md section 1.4), shape (P,); None: kept
    global_loading: FloatArray | None = None

    def in_units(self, unit: float) -> Centring:
        """Return the same for samples that are `unit` times larger; a global loading has no unit."""
        return self if unit == 1.0 else Centring(unit * self.mean, self.global_loading)

    def apply(self, samples: FloatArray) -> FloatArray:
        """Return ``x - mean - g(x) global_loading`` of samples (n, P).

        ``g(x)`` is the mean over features of ``x - mean``.
        """
        centred = samples - self.mean
        if self.global_loading is not None:
            centred -= centred.mean(axis=1, keepdims=True) * self.global_loading
        return centred


@dataclass(frozen=True, eq=False)
class CentredData:
    """``X - 1 mean'`` as an operator."""

    data: Data  # X, N samples by P features
    center: bool = True  # whether the columns' means are subtracted

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""
        return self.data.shape

    @property
    def gram_pays(self) -> bool:
        """Whether the Gram matrix of the shorter side is cheap: never where only vectors should travel."""
        short, long = min(self.shape), max(self.shape)
        largest = LARGEST_GPU_GRAM if is_on_gpu(self.data) else LARGEST_GRAM
        small = short <= SMALL_GRAM or short <= min(largest, GRAM_SHARE * long)
        return small and not getattr(self.data, "is_distributed", False)

    def vectors(self, values: Array) -> Array:
        """Return NumPy vectors of length P where those of the data lie."""
        return gpu_module().asarray(values) if is_on_gpu(self.data) else values

    @cached_property
    def _statistics(self) -> ColumnStatistics:
        look = getattr(self.data, "first_look", None)
        if look is None:
            return self.data.column_statistics(self.center)
        return self._keep(look(self.vectors(np.zeros((0, self.shape[1]))), self.center))

    def _keep(self, found: FirstLook) -> ColumnStatistics:
        vars(self).update(_statistics=found.statistics, _row_means=found.row_means)
        return found.statistics

    @cached_property
    def _row_means(self) -> FloatArray:
        n_features = self.shape[1]
        return self.data.dot(self.vectors(np.full(n_features, 1.0 / n_features)))

    @property
    def unit(self) -> float:
        """Unit of the numbers of this operator; 1 at an ordinary scale."""
        return self.data.unit if isinstance(self.data, ScaledData) else 1.0

    def at_ordinary_scale(self) -> Self:
        """Return the operator for X scaled by a power of two, where its fourth powers would overflow.

        Raises a ValueError if float64 has no room for the variances of X.
        """
        unit = ordinary_unit(self.data, self._statistics)
        return self if unit == 1.0 else type(self)(scaled(self.data, unit, self.mean), self.center)

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
        """Centring that turns other samples into rows of this operator."""
        return Centring(to_host(self.mean))

    @property
    def column_squared_norms(self) -> FloatArray:
        """``||X_j||^2`` of the centred columns, shape (P,)."""
        return self._statistics.squared_norms

    @cached_property
    def largest_column_norm(self) -> float:
        """``max_j ||X_j||_2`` over the centred columns."""
        return float(np.sqrt(float(self.column_squared_norms.max())))

    @cached_property
    def _squared_norm(self) -> float:
        return float(self.column_squared_norms.sum())

    def squared_norm(self) -> float:
        """Return ``||X - 1 mean'||_F^2``."""
        return self._squared_norm

    @cached_property
    def _gram(self) -> FloatArray:
        gram = self._fresh_gram()
        gram.flags.writeable = False
        return gram

    def _fresh_gram(self) -> FloatArray:
        n_samples, n_features = self.shape
        if n_samples <= n_features:
            return self.data.gram(self.mean)
        return each_block(self.data, partial(_feature_gram, self.centring))[1]

    def gram(self) -> FloatArray:
        """Return ``X X'`` if N <= P, else ``X'X``, of the centred data; computed once."""
        return self._gram

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean') v``."""
        v = as_vector(beside(v, self.mean))
        return self.data.dot(v) - inner_product(self.mean, v)

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean') V'``."""
        vectors = beside(vectors, self.mean)
        return self.data.dot_many(vectors) - to_host(vectors @ self.mean)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean')' u``."""
        back = self.data.transpose_dot(u)
        add_multiple(back, -float(u.sum()), self.mean)
        return back

    def shifted_there_and_back(self, v: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``s = (X - 1 mean') v - shift`` (shift of shape (N,)) and ``(X - 1 mean')' s``."""
        scores, back = self.data.there_and_back(v, shift + inner_product(self.mean, v))
        add_multiple(back, -float(scores.sum()), self.mean)
        return scores, back

    def there_and_back_many(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V'`` (N, K) and ``S'M`` (K, P) for the rows of V (K, P) and ``M = X - 1 mean'``."""
        return self.shifted_many(vectors, np.zeros((self.shape[0], len(vectors))))

    def maps(self, scores: FloatArray) -> FloatArray:
        """Return ``U'(X - 1 mean')`` for scores U (N, K), shape (K, P)."""
        nothing = np.zeros_like(self.mean, shape=(scores.shape[1], self.shape[1]))
        return self.shifted_many(nothing, -scores)[1]

    def shifted_many(self, vectors: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean'``, V (K, P) and a shift (N, K)."""
        if not self._has_small_means:
            return self.data.there_and_back_many(vectors, self.mean, shift)
        scores, back = self.data.there_and_back_many(
            vectors, np.zeros_like(self.mean), shift + to_host(vectors @ self.mean)
        )
        return scores, back - np.outer(beside(scores.sum(axis=0), back), self.mean)

    @cached_property
    def _has_small_means(self) -> bool:
        """Whether no column has a mean above its standard deviation: centring may then follow products."""
        return bool((self.shape[0] * np.square(self.mean) <= self._statistics.squared_norms).all())

    def first_products(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `there_and_back_many`. Data in blocks of which nothing is known tell their statistics, too."""
        look = getattr(self.data, "first_look", None)
        if look is None or "_statistics" in vars(self):
            return self.there_and_back_many(vectors)
        found = look(vectors, self.center)
        self._keep(found)
        return found.scores, found.back

    @cached_property
    def _sketches(self) -> list[tuple[int, CompressedData]]:
        return []

    def compressed(self, n_directions: int) -> CompressedData:
        """Return the data compressed to their leading directions; kept for later, and for fewer of them."""
        if not self._sketches or self._sketches[-1][0] < n_directions:
            self._sketches[:] = [(n_directions, compress(self, n_directions))]
        return self._sketches[-1][1]

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``X v`` and ``X'X v`` of the centred data."""
        return self.shifted_there_and_back(v, np.zeros(self.shape[0]))

    def add_removed(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """Nothing was removed."""

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return the centred samples in blocks."""
        centring = self.centring
        for samples, block in self.data.blocks(entries):
            yield samples, centring.apply(block)


def _feature_gram(centring: Centring, _: slice, block: FloatArray) -> tuple[None, FloatArray]:
    """Return ``X'X`` of some samples."""
    centred = centring.apply(block)
    return None, centred.T @ centred


@dataclass(frozen=True, eq=False)
class ResidualData:
    """``base - scores' loadings`` as an operator."""

    base: CentredData  # the N x P data
    scores: FloatArray  # one row per rank-one term, shape (K, N)
    loadings: FloatArray  # likewise, shape (K, P)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""
        return self.base.shape

    @property
    def gram_pays(self) -> bool:
        """As for the data before deflation."""
        return self.base.gram_pays

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``(base - scores' loadings) v``."""
        v = beside(v, self.loadings)
        return self.base.dot(v) - self.scores.T @ inner_products(self.loadings, v)

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``(base - scores' loadings) V'``."""
        vectors = beside(vectors, self.loadings)
        return self.base.dot_many(vectors) - self.scores.T @ to_host(self.loadings @ vectors.T)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``(base - scores' loadings)' u``."""
        back = self.base.transpose_dot(u)
        self.add_removed(u, -1.0, back)
        return back

    def there_and_back(self, v: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``R v`` and ``R'R v`` of the residual R."""
        scores, back = self.base.shifted_there_and_back(v, self.scores.T @ inner_products(self.loadings, v))
        self.add_removed(scores, -1.0, back)
        return scores, back

    def add_removed(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """Return ``out += factor loadings' (scores u)``, in place (float64, shape (P,))."""
        for loading, coefficient in zip(self.loadings, self.scores @ u, strict=True):
            add_multiple(out, factor * float(coefficient), loading)

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return the samples of the residual in blocks."""
        loadings = to_host(self.loadings)
        for samples, block in self.base.blocks(entries):
            yield samples, block - self.scores[:, samples].T @ loadings

    def compressed(self, n_directions: int) -> CompressedData:
        """Return the residual of the compressed data."""
        found = self.base.compressed(n_directions + len(self.loadings))
        return found.without(self.scores, self.loadings)

    @cached_property
    def _cross(self) -> tuple[FloatArray, FloatArray]:
        """``base @ loadings'`` (N, K) and ``loadings @ loadings'`` (K, K)."""
        return self.base.dot_many(self.loadings), to_host(self.loadings @ self.loadings.T)

    def squared_norm(self) -> float:
        """Return ``||base - scores' loadings||_F^2``."""
        base, loadings = self._cross
        explained = 2 * float((base * self.scores.T).sum()) - float(
            (loadings * (self.scores @ self.scores.T)).sum()
        )
        return max(self.base.squared_norm() - explained, 0.0)

    def gram(self) -> FloatArray:
        """Return ``R R'`` if N <= P, else ``R'R``, of the residual R."""
        gram = self.base.gram()
        if len(self.scores) == 0:
            return gram
        if self.shape[0] <= self.shape[1]:
            base, loadings = self._cross
            mixed = base @ self.scores
            return gram - mixed - mixed.T + self.scores.T @ loadings @ self.scores
        base_scores = np.stack([to_host(self.base.transpose_dot(score)) for score in self.scores])
        loadings = to_host(self.loadings)
        mixed = loadings.T @ base_scores
        return gram - mixed - mixed.T + loadings.T @ (self.scores @ self.scores.T) @ loadings


class DeflatedData(ResidualData):
    """The residual of a deflation: unit `loadings`, and `scores` of what was left before each of them.

    Every step is a projection (docs/method.md section 5.1), ``X_{k+1} = X_k (I - v v')`` with
    ``t = X_k v``, so that its size and its Gram matrix need no product with the data.
    """

    def squared_norm(self) -> float:
        """Return ``||X||_F^2 - sum_k ||t_k||^2``."""
        return max(self.base.squared_norm() - float(np.square(self.scores).sum()), 0.0)

    def gram(self) -> FloatArray:
        """Return ``X X' - sum_k t_k t_k'`` if N <= P, else ``R'R``."""
        if self.shape[0] > self.shape[1]:
            return super().gram()
        return self.base.gram() - self.scores.T @ self.scores
