"""Confounds removed and features scaled, with coefficients of some samples, without a copy of X.

Samples x with confounds c become ``(x - (c - mean) slopes) * factor``: the least-squares fit of every feature
by the confounds is removed, and what is left is divided by its standard deviation. All coefficients are those
of the samples of one fit. Samples that are held out are adjusted with them, and have no influence on them.

An adjustment absorbs earlier ones: its result is the same for samples from which the same confounds were
removed before, or whose features were scaled before, whatever the coefficients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.devices import beside, gpu_module, to_host
from spcatv._util.types import FloatArray, IntArray
from spcatv.data.array import ArrayData
from spcatv.data.base import BLOCK_ENTRIES, ColumnStatistics, Data, is_on_gpu
from spcatv.data.blocked import BlockWork, Found, each_block, moments

# Entries of X that are adjusted or enter a product together.
PRODUCT_ENTRIES = 1 << 20
# What is left of a feature counts as rounding error below this many units in the last place of its values.
ROUNDING = 8


@dataclass(frozen=True, eq=False)
class FittedAdjustment:
    """Coefficients of an adjustment."""

    mean: FloatArray  # means of the confounds, shape (C,)
    slopes: FloatArray  # least-squares coefficients of the features on the confounds, shape (C, P)
    # one over the standard deviations of what is left, 0 for features of which nothing is left; ones without
    # standardisation; shape (P,)
    factor: FloatArray

    def apply(self, data: Data, confounds: FloatArray | None = None) -> Data:
        """Return the given samples, adjusted; `confounds` has shape (N, C)."""
        table = np.zeros((data.shape[0], 0)) if confounds is None else np.asarray(confounds, np.float64)
        if table.ndim != 2 or table.shape != (data.shape[0], len(self.mean)):
            raise ValueError(
                f"confounds must have one row per sample and the {len(self.mean)} columns of the fit, shape "
                f"({data.shape[0]}, {len(self.mean)}); got {table.shape}"
            )
        slopes, factor = self.slopes, self.factor
        if is_on_gpu(data):
            slopes, factor = (gpu_module().asarray(values) for values in (slopes, factor))
        return AdjustedData(data, table - self.mean, slopes, factor)


@dataclass(frozen=True, eq=False)
class Adjustment:
    """Removal of confounds and scaling of samples, with coefficients from the training samples."""

    standardize: bool = False  # whether every feature is divided by its standard deviation
    # confounds of all samples, removed first, shape (n_samples, n_confounds); finite numbers
    confounds: FloatArray | None = None

    def of(self, samples: IntArray) -> FloatArray | None:
        """Return the confounds of some samples."""
        return None if self.confounds is None else self.confounds[samples]

    def fit(self, data: Data, samples: IntArray) -> FittedAdjustment | None:
        """Return the coefficients of some samples of `data`; None if there is nothing to do."""
        if not self.standardize and self.confounds is None:
            return None
        part = data.take(samples)
        mean, slopes = confound_fit(part, self.of(samples))
        fitted = FittedAdjustment(mean, slopes, np.ones(part.shape[1]))
        if not self.standardize:
            return fitted
        raw = part.column_statistics(True)
        left = fitted.apply(part, self.of(samples)).column_statistics(True)
        spread = np.sqrt(to_host(left.squared_norms) / part.shape[0])
        size = np.abs(to_host(raw.mean)) + np.sqrt(to_host(raw.squared_norms) / part.shape[0])
        varies = spread > ROUNDING * np.finfo(part.dtype).eps * size
        return FittedAdjustment(mean, slopes, _quotient(1.0, spread, varies))

    def adjusted(self, data: Data, samples: IntArray, *others: IntArray) -> tuple[Data, ...]:
        """Return some samples of `data` and then others, all adjusted with the coefficients of the first."""
        fitted = self.fit(data, samples)
        parts = ((data.take(each), self.of(each)) for each in (samples, *others))
        return tuple(part if fitted is None else fitted.apply(part, table) for part, table in parts)

    def whole(self, data: Data) -> Data:
        """Return all samples of `data`, adjusted with their own coefficients."""
        fitted = self.fit(data, np.arange(data.shape[0]))
        return data if fitted is None else fitted.apply(data, self.confounds)


def checked_adjustment(standardize: Any, confounds: Any, n_samples: int) -> Adjustment:
    """Return an adjustment from what a user gives: a switch, and a table with one row per sample or None."""
    if not isinstance(standardize, (bool, np.bool_)):
        raise TypeError(f"standardize must be True or False, got {standardize!r}")
    if confounds is None:
        return Adjustment(bool(standardize))
    table = np.asarray(confounds, dtype=np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != n_samples or not np.isfinite(table).all():
        raise ValueError(
            f"confounds must be finite numbers, one row per sample, of shape ({n_samples}, n_confounds); got "
            f"an array of shape {table.shape}"
        )
    return Adjustment(bool(standardize), table)


def confound_fit(data: Data, confounds: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return least squares of every feature on the confounds (N, C), which may be None, and an intercept.

    Returns the means of the confounds, shape (C,), and the coefficients, shape (C, P).
    """
    n_samples, n_features = data.shape
    if confounds is None:
        return np.zeros(0), np.zeros((0, n_features))
    mean = confounds.mean(axis=0)
    centred = confounds - mean
    # scale the columns, so that a column in tiny units does not lower the rank
    spread = np.sqrt(np.square(centred).mean(axis=0))
    units = np.where(spread > 0, spread, 1.0)
    rank = int(np.linalg.matrix_rank(centred / units))
    if rank >= n_samples - 1:
        raise ValueError(
            f"confounds: {rank} independent columns and an intercept explain {n_samples} samples fully; "
            "nothing is left to analyse"
        )
    # the rows of the pseudo-inverse sum to zero, so the means of X do not matter
    solver = np.linalg.pinv(centred / units) / units[:, None]
    if is_on_gpu(data):
        return mean, np.stack([to_host(data.transpose_dot(row)) for row in solver])

    def product(samples: slice, block: FloatArray) -> Found:
        return None, solver[:, samples] @ block

    return mean, each_block(data, product, PRODUCT_ENTRIES)[1]


def _quotient(a: Any, b: FloatArray, where: Any) -> FloatArray:
    """Return ``a / b`` where a condition holds, and 0 elsewhere."""
    return np.where(where, a / np.where(where, b, 1.0), 0.0)


@dataclass(frozen=True, eq=False)
class AdjustedData:
    """``(X - confounds slopes) diag(factor)`` as data."""

    data: Data  # X, N samples by P features
    confounds: FloatArray  # centred confounds, shape (N, C)
    slopes: FloatArray  # coefficients, shape (C, P)
    factor: FloatArray  # what the features are multiplied by, shape (P,)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The precision of X."""
        return self.data.dtype

    @property
    def on_gpu(self) -> bool:
        """Whether X is on a GPU."""
        return is_on_gpu(self.data)

    @property
    def is_distributed(self) -> bool:
        """Whether the blocks of X are on other machines."""
        return bool(getattr(self.data, "is_distributed", False))

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``X v`` of the adjusted X."""
        scaled = self.factor * v
        return self.data.dot(scaled) - self.confounds @ to_host(self.slopes @ scaled)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u`` of the adjusted X."""
        return self._back(self.data.transpose_dot(u), u)

    def there_and_back(self, v: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``s = X v - shift`` and ``X's`` of the adjusted X."""
        scaled = self.factor * v
        removed = self.confounds @ to_host(self.slopes @ scaled)
        scores, back = self.data.there_and_back(scaled, shift + removed)
        return scores, self._back(back, scores)

    def _back(self, back: FloatArray, u: FloatArray) -> FloatArray:
        """Return ``X'u`` of the adjusted X from that of X, in place."""
        if len(self.slopes):
            back -= beside(u @ self.confounds, self.slopes) @ self.slopes
        back *= self.factor
        return back

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` of the adjusted X, for the rows of V."""
        scaled = vectors * self.factor
        return self.data.dot_many(scaled) - self.confounds @ to_host(self.slopes @ scaled.T)

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for the adjusted X less its means, M."""
        scaled = vectors * self.factor
        raw_mean = self._raw_mean(mean)
        removed = self.confounds @ to_host(self.slopes @ scaled.T)
        scores, back = self.data.there_and_back_many(scaled, raw_mean, shift + removed)
        if len(self.slopes):
            back -= beside(scores.T @ self.confounds, self.slopes) @ self.slopes
        return scores, back * self.factor

    def _raw_mean(self, mean: FloatArray) -> FloatArray:
        """Return means of the adjusted features in units of X; 0 where the factor is."""
        return _quotient(mean, self.factor, self.factor != 0)

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means and squared norms of the adjusted columns."""
        if len(self.slopes) == 0:
            raw = self.data.column_statistics(center)
            return ColumnStatistics(raw.mean * self.factor, raw.squared_norms * np.square(self.factor))
        return self._exact_statistics(center)

    def _exact_statistics(self, center: bool) -> ColumnStatistics:
        """Return statistics of the adjusted samples themselves."""
        found = self.each_block(lambda _, block: moments(ArrayData(block), center), PRODUCT_ENTRIES)[1]
        return ColumnStatistics(beside(found.mean, self.factor), beside(found.squared_norms, self.factor))

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """Return ``(X - 1 mean')(X - 1 mean')'`` of the adjusted X, its features multiplied by `factor`."""
        both = self.factor if factor is None else self.factor * factor
        # the mean in units of X; where the factor is 0, so is the adjusted feature, and only its mean is left
        raw_mean = self._raw_mean(mean)
        gram = self.data.gram(raw_mean, both)
        left_out = np.where(self.factor == 0, mean if factor is None else mean * factor, 0.0)
        gram += float(left_out @ left_out)
        if len(self.slopes) == 0:
            return gram
        slopes = self.slopes * both
        cross = self.data.dot_many(slopes * both) - to_host(slopes @ (raw_mean * both))
        mixed = (cross - 0.5 * self.confounds @ to_host(slopes @ slopes.T)) @ self.confounds.T
        return gram - mixed - mixed.T

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all adjusted samples in order, in blocks of about `entries` entries."""
        rows = self._rows
        for samples, block in self.data.blocks(entries):
            yield samples, rows(samples, block)

    def each_block(self, work: BlockWork, entries: int = BLOCK_ENTRIES) -> Found:
        """As `spcatv.data.each_block`."""
        rows = self._rows  # what travels to workers holds no data
        return each_block(self.data, lambda samples, block: work(samples, rows(samples, block)), entries)

    @property
    def _rows(self) -> Callable[[slice, FloatArray], FloatArray]:
        """Adjusts samples, given their numbers and X there."""
        confounds, slopes, factor = self.confounds, to_host(self.slopes), to_host(self.factor)
        return lambda samples, block: (block - confounds[samples] @ slopes) * factor

    def take(self, samples: IntArray) -> Data:
        """Return the given samples of these, adjusted as they are."""
        return AdjustedData(self.data.take(samples), self.confounds[samples], self.slopes, self.factor)
