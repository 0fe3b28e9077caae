"""How much of X is copied at a time."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from spcatv.data.array import ArrayData

X = np.random.default_rng(0).standard_normal((1000, 600), dtype=np.float32)
WORK = {
    "there_and_back_many": lambda: ArrayData(X).there_and_back_many(
        np.ones((2, 600)), np.zeros(600), np.zeros((1000, 2))
    ),
    "dot_many": lambda: ArrayData(X).dot_many(np.ones((2, 600))),
    "gram": lambda: ArrayData(X.reshape(40, 15_000)).gram(np.zeros(15_000)),
}


@pytest.mark.parametrize("name", WORK)
def test_small_data_are_copied_in_small_parts(name):
    with threadpool_limits(limits=1):
        WORK[name]()  # loads what is compiled
        tracemalloc.start()
        try:
            WORK[name]()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < X.nbytes / 8
