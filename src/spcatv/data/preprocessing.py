"""Confounds removed and features scaled, with coefficients of some samples, without a copy of X.

Samples x with confounds c become ``(x - (c - mean) slopes) * factor``: the least-squares fit of every feature
by the confounds is removed, and the residual is divided by its standard deviation. All coefficients come from
the samples of one fit. Samples that are held out are adjusted with them, and have no influence on them.

An adjustment absorbs earlier ones: its result is the same for samples from which the same confounds were
removed before, or whose features were scaled before, whatever the coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.devices import gpu_module, to_host
from spcatv._util.types import FloatArray, IntArray
from spcatv.data.operator import CORRECTED_ENTRIES, CorrectedData, quotient
from spcatv.data.protocol import BlockWork, Data

# What is left of a feature counts as rounding error below this many units in the last place of its values.
ROUNDING = 8


@dataclass(frozen=True, eq=False)
class FittedAdjustment:
    """Coefficients of an adjustment."""

    mean: FloatArray  # means of the confounds, shape (C,)
    slopes: FloatArray  # least-squares coefficients of the features on the confounds, shape (C, P)
    # one over the standard deviations of the residuals, 0 where nothing is left of a feature; ones without
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
        if data.on_gpu:
            slopes, factor = (gpu_module().asarray(values) for values in (slopes, factor))
        return CorrectedData(data, table - self.mean, slopes, factor)


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
        return FittedAdjustment(mean, slopes, quotient(1.0, spread, varies))

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
    if data.on_gpu:
        return mean, np.stack([to_host(data.transpose_dot(row)) for row in solver])

    work: BlockWork = lambda samples, block: (None, solver[:, samples] @ block)  # noqa: E731
    return mean, data.each_block(work, CORRECTED_ENTRIES)[1]
