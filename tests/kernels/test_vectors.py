"""Operations in one pass agree with NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spcatv._util import threads
from spcatv.kernels import thread_pool, vectors
from spcatv.kernels.vectors import (
    absolute_sum,
    add_multiple,
    all_finite,
    counts,
    inner_product,
    lengths,
    order_statistic,
    squared_length,
    standard_deviation,
    weighted_sum,
)

SMALL = st.floats(-1e3, 1e3)


@given(arrays(np.float64, st.shared(st.integers(0, 40), key="n"), elements=SMALL), SMALL, SMALL, st.data())
def test_weighted_sum_is_the_sum(x, a, b, data):
    y = data.draw(arrays(np.float64, x.shape, elements=SMALL))
    np.testing.assert_allclose(weighted_sum(a, x, b, y), a * x + b * y, atol=1e-8)
    np.testing.assert_allclose(inner_product(x, y), (x * y).sum(), atol=1e-8)
    single = weighted_sum(a, x.astype(np.float32), b, y)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, a * x.astype(np.float32) + b * y, rtol=1e-6, atol=1e-1)


@given(arrays(np.float64, st.integers(0, 40), elements=st.sampled_from([-2.0, -0.0, 0.0, 1e-300, 0.5, 3.0])))
def test_counts_are_those_of_numpy(x):
    assert counts(x, 0.5, 0.0) == [(np.abs(x) <= 0.5).sum(), (x == 0).sum()]
    if len(x):
        k = len(x) // 3
        assert order_statistic(x, k) == (np.sort(x)[k], x.max())


def _everything(x, y):
    out = y.copy()
    add_multiple(out, 0.3, x)
    sums = squared_length(x), absolute_sum(x), standard_deviation(x), *lengths(x), *counts(x, 0.1, 1.0)
    return (*sums, weighted_sum(0.1, x, -2.0, y).tobytes(), out.tobytes())


@pytest.mark.parametrize("n", [1, 5, 3 * vectors.SUMMED, 5 * vectors.SUMMED + 11])
def test_same_bits_on_any_number_of_threads(monkeypatch, n):
    monkeypatch.setattr(thread_pool, "THREAD_ENTRIES", 1)
    x, y = np.random.default_rng(0).standard_normal((2, n)) + 3.0
    found = []
    for n_threads in (1, 2, 4):
        monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
        found.append(_everything(x, y))
    assert found[0] == found[1] == found[2]
    np.testing.assert_allclose(found[0][:3], [x @ x, np.abs(x).sum(), x.std()], rtol=1e-12)
    np.testing.assert_allclose(np.frombuffer(found[0][-1]), y + 0.3 * x, rtol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("where", [(0, 0), (3, 7000), (4, 9999)])
def test_what_is_not_finite_is_seen(bad, dtype, where):
    X = np.random.default_rng(0).standard_normal((5, 10_000)).astype(dtype)
    X[0, 1], X[0, 2] = np.finfo(dtype).max, np.finfo(dtype).tiny
    assert all_finite(X)
    assert all_finite(X[:, :0])
    X[where] = bad
    assert not all_finite(X)
