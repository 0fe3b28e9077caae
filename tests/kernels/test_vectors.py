"""Operations in one pass agree with NumPy."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from spcatv.kernels.vectors import count_above, weighted_sum

SMALL = st.floats(-1e3, 1e3)


@given(arrays(np.float64, st.shared(st.integers(0, 40), key="n"), elements=SMALL), SMALL, SMALL, st.data())
def test_weighted_sum_is_the_sum(x, a, b, data):
    y = data.draw(arrays(np.float64, x.shape, elements=SMALL))
    np.testing.assert_allclose(weighted_sum(a, x, b, y), a * x + b * y, atol=1e-8)
    single = weighted_sum(a, x.astype(np.float32), b, y)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, a * x.astype(np.float32) + b * y, rtol=1e-6, atol=1e-1)


@given(arrays(np.float64, st.integers(0, 40), elements=st.sampled_from([-2.0, -0.0, 0.0, 1e-300, 0.5, 3.0])))
def test_counts_are_those_of_numpy(x):
    assert count_above(x, 0.5) == (np.abs(x) > 0.5).sum()
