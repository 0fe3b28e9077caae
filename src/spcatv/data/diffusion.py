"""Diffusion of maps and data on a structure, by its heat kernel ``exp(-t A'A / ||A||^2)``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.special import ive

from spcatv._util.devices import beside, to_host
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, row_blocks
from spcatv.structure import Structure

# Entries that are diffused together: few enough for the cache.
DIFFUSED_ENTRIES = 1 << 21
# Leave out terms of the Chebyshev series of the heat kernel below this.
SERIES_CUTOFF = 1e-4


def step_matrix(structure: Structure, dtype: npt.DTypeLike = np.float64) -> sp.csr_array:
    """Return ``2 x`` for ``x = 2 A'A / ||A||^2 - 1``, whose eigenvalues lie in [-1, 1].

    A holds the differences of the structure alone: other rows, as of a group lasso, would take maps to zero.
    """
    differences = structure.matrix[structure.is_difference]
    squares = (differences.T @ differences).tocsr() * (4.0 / structure.norm_squared())
    return (squares - 2.0 * sp.eye_array(structure.n_features, format="csr")).astype(dtype)


def diffuse(twice: sp.csr_array, columns: FloatArray, time: float) -> FloatArray:
    """Return ``exp(-time * A'A / ||A||^2)`` times columns (P, n), by its Chebyshev series.

    `twice` is `step_matrix`. With z = time / 2, ``exp(-z (1 + x)) = sum_k c_k T_k(x)`` where
    c_k = (-1)^k (2 - [k = 0]) I_k(z) exp(-z).
    """
    z = 0.5 * time
    orders = np.arange(int(z) + 50)
    coefficients = (-1.0) ** orders * np.where(orders == 0, 1.0, 2.0) * ive(orders, z)
    coefficients = coefficients[: np.flatnonzero(np.abs(coefficients) > SERIES_CUTOFF)[-1] + 1]
    coefficients = coefficients.astype(columns.dtype)
    out = np.empty_like(columns)
    for first, last in row_blocks(columns.shape[::-1], DIFFUSED_ENTRIES):
        before = np.ascontiguousarray(columns[:, first:last])
        current = 0.5 * (twice @ before)
        total = coefficients[0] * before + coefficients[1] * current
        for coefficient in coefficients[2:]:
            after = twice @ current
            after -= before
            before, current = current, after
            total += coefficient * current
        out[:, first:last] = total
    return out


def diffusion_on(structure: Structure) -> Callable[[FloatArray, float], FloatArray]:
    """Return the function that diffuses maps (K, P) on a structure for a time in units of ``1 / ||A||^2``."""
    if structure.norm_squared() == 0 or not structure.is_difference.any():
        return lambda maps, _: maps
    twice = step_matrix(structure, np.float32)

    def spread(maps: FloatArray, time: float) -> FloatArray:
        columns = to_host(maps).T
        unit = binary_unit(columns)  # maps in any unit fit into float32
        diffused = diffuse(twice, (columns / unit).astype(np.float32), time)
        return beside(np.ascontiguousarray(diffused.T, dtype=np.float64) * unit, maps)

    return spread


def diffused_gram(data: CentredData, structure: Structure, time: float) -> FloatArray:
    """Return ``X W X'`` (N, N) for the diffusion W of this time, in units of ``1 / ||A||^2``."""
    spread = structure.cached(diffusion_on)
    gram = np.zeros((data.shape[0], data.shape[0]))
    for samples, block in data.blocks(DIFFUSED_ENTRIES):
        diffused = beside(spread(block, 2 * time), data.mean)
        # the matrix is symmetric: products with these samples and later ones are enough
        later = data.data.take(np.arange(samples.start, data.shape[0]))
        gram[samples.start :, samples] = later.dot_many(diffused) - to_host(diffused @ data.mean)
    return np.asarray(np.tril(gram) + np.tril(gram, -1).T)


def binary_unit(array: FloatArray) -> float:
    """Return the power of two above the entries of an array: LAPACK's thresholds are absolute."""
    return float(np.ldexp(1.0, np.frexp(np.abs(array).max(initial=0.0))[1]))
