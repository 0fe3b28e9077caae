"""Vectors inside kernels compute what NumPy computes."""

import numpy as np
import pytest
from numba import njit

from spcatv.kernels import simd


@njit
def _everything(x, y, flags, out, k):
    total = 0.0
    n_busy = 0
    for i in range(0, len(x), simd.LANE_BYTES // x.itemsize):
        a, b = simd.load(x, i), simd.load(y, i)
        clipped = simd.smaller(simd.larger(a * b + simd.splat(k), a), b)
        roots = simd.inverse_root(simd.magnitude(a)) - simd.square_root(simd.magnitude(b))
        result = simd.keep_where(clipped - roots, flags, i, 2)
        simd.store(out, i, result)
        total += simd.lane_sum(result)
        if simd.any_nonzero(result):
            n_busy += 1
    return total, n_busy


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_operation(dtype):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(64).astype(dtype) for _ in range(2))
    flags = rng.integers(0, 4, 64).astype(np.uint8)
    flags[:16] = 1
    flags[16::5] |= 2
    out = np.full(64, np.nan, dtype=dtype)
    k = np.dtype(dtype).type(0.3)
    total, n_busy = _everything(x, y, flags, out, k)
    roots = 1 / np.sqrt(np.abs(x)) - np.sqrt(np.abs(y))
    expected = (np.minimum(np.maximum(x * y + k, x), y) - roots) * ((flags & 2) > 0)
    tolerance = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)
    assert total == pytest.approx(expected.sum(dtype=np.float64), rel=tolerance)
    assert n_busy == (64 - 16) * x.itemsize // simd.LANE_BYTES
