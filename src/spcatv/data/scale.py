"""X of any magnitude: scaled by a power of two where squares of its entries would leave the range of floats.

Results of X at an ordinary scale do not change by a bit: it is read as it is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.devices import beside, to_host
from spcatv._util.types import FloatArray, IntArray
from spcatv.data.adjustment import AdjustedData
from spcatv.data.base import ColumnStatistics, Data
from spcatv.data.blocked import each_block

# Largest norms of columns between which a precision has room for squares of squares, and for penalties.
ORDINARY = {np.dtype(np.float32): (1e-10, 1e10), np.dtype(np.float64): (1e-60, 1e60)}
# Sums of squares of a column below this lose digits, and then vanish.
SMALLEST_SQUARES = 1e-302


@dataclass(frozen=True, eq=False)
class ScaledData(AdjustedData):
    """``X / unit`` as data, exactly: the unit is a power of two. Made by `scaled`."""

    @property
    def unit(self) -> float:
        """Unit of the stored numbers."""
        return 1.0 / float(self.factor[0])

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

    def take(self, samples: IntArray) -> Data:
        """Return the given samples of these, in the same unit."""
        return scaled(self.data.take(samples), self.unit, self.factor)


def scaled(data: Data, unit: float, like: FloatArray) -> ScaledData:
    """``X / unit`` for a power of two; `like` (P,) is a vector that lies where those of the data do."""
    n_samples, n_features = data.shape
    nothing = np.zeros_like(like, shape=(0, n_features))
    return ScaledData(data, np.zeros((n_samples, 0)), nothing, np.full_like(like, 1.0 / unit))


def ordinary_unit(data: Data, statistics: ColumnStatistics) -> float:
    """Return the power of two that brings X to an ordinary scale; 1 if it is there.

    `statistics` are those of its columns. Raises a ValueError if float64 has no room for the variances of X.
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
        if _varies(data):
            raise ValueError(
                "X is too small: its entries vary, but by so little that float64 holds no squares of it, and "
                "there are no variances. Multiply X by a constant"
            )
        return 1.0
    smallest_norm, largest_norm = ORDINARY[data.dtype]
    if smallest_norm < math.sqrt(largest) < largest_norm:
        return 1.0
    return math.ldexp(1.0, math.frexp(math.sqrt(largest))[1])


def _varies(data: Data) -> bool:
    """Whether any two samples differ."""
    first = next(iter(data.take(np.zeros(1, np.intp)).blocks()))[1][0]

    def off(_: slice, block: FloatArray) -> tuple[None, Any]:
        return None, int((block != first).any())

    return bool(each_block(data, off)[1])
