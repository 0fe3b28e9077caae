"""Products of a float32 matrix with float64 vectors, summed in float64, without a copy of the matrix."""

from __future__ import annotations

from typing import Any

from spcatv.kernels.compiled import kernel


@kernel
def rows_times(matrix: Any, vector: Any, out: Any) -> None:
    """``out = matrix @ vector``."""
    for i in range(matrix.shape[0]):
        total = 0.0
        for j in range(matrix.shape[1]):
            total += matrix[i, j] * vector[j]
        out[i] = total


@kernel
def rows_weighted(matrix: Any, weights: Any, out: Any) -> None:
    """``out += matrix.T @ weights``."""
    for i in range(matrix.shape[0]):
        weight = weights[i]
        for j in range(matrix.shape[1]):
            out[j] += weight * matrix[i, j]
