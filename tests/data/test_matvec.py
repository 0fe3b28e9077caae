"""Products with X give the same bits whatever the number of threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spcatv._util import threads
from spcatv.data import array as array_module
from spcatv.data import as_data
from spcatv.kernels import matvec, thread_pool

SHAPES = {"rows": (263, 4500), "panels": (37, 21_001), "few of both": (3, 5)}


@pytest.fixture
def many_parts(monkeypatch):
    """Cut small data as finely as large ones."""
    monkeypatch.setattr(matvec, "WIDE_MATRIX", 1 << 14)
    monkeypatch.setattr(matvec, "BLOCK_ENTRIES", 1 << 18)
    monkeypatch.setattr(matvec, "THREAD_ENTRIES", 1)
    monkeypatch.setattr(array_module, "THREAD_ENTRIES", 1)
    monkeypatch.setattr(array_module, "PRODUCT_ENTRIES", 1 << 14)
    monkeypatch.setattr(array_module, "PRODUCT_ROWS", 8)
    monkeypatch.setattr(array_module, "GRAM_COLUMNS", 512)


OPERATIONS = {
    "dot": lambda data, v, u, many: data.dot(v),
    "transpose_dot": lambda data, v, u, many: data.transpose_dot(u),
    "there_and_back": lambda data, v, u, many: data.there_and_back_many(v[None], 0 * v, u[:, None]),
    "dot_many": lambda data, v, u, many: data.dot_many(many),
    "there_and_back_many": lambda data, v, u, many: data.there_and_back_many(
        many, v, np.outer(u, np.ones(3))
    ),
    "column_statistics": lambda data, v, u, many: tuple(vars(data.column_statistics(True)).values()),
    "gram": lambda data, v, u, many: data.gram(v, v),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_bits_do_not_depend_on_the_number_of_threads(monkeypatch, many_parts, name, shape, dtype):
    rng = np.random.default_rng(0)
    n, p = SHAPES[shape]
    X = rng.standard_normal((n + 4, p)).astype(dtype)
    samples = rng.permutation(n + 4)[:n]
    data = as_data(X).take(samples)
    v, u, many = rng.standard_normal(p), rng.standard_normal(n), rng.standard_normal((3, p))
    results, used = {}, []

    def counted(make, take, n_items, n_threads):
        used.append(n_threads)
        threads.in_order(make, take, n_items, n_threads)

    def counted_shares(driver, arguments, n_threads):
        used.append(n_threads)
        thread_pool.run_shares(driver, arguments, n_threads)

    for module in (matvec, array_module):
        monkeypatch.setattr(module, "in_order", counted)
    monkeypatch.setattr(matvec, "run_shares", counted_shares)
    for n_threads in (1, 2, 4):
        monkeypatch.setattr(threads, "most_threads", lambda n_threads=n_threads: n_threads)
        found = OPERATIONS[name](data, v, u, many)
        results[n_threads] = found if isinstance(found, tuple) else (found,)
    for n_threads in (2, 4):
        for one, other in zip(results[1], results[n_threads], strict=True):
            assert_array_equal(one, other)
    if shape != "few of both":
        assert used == [1, 2, 4]
    precise = OPERATIONS[name](as_data(X[samples].astype(np.float64)), v, u, many)
    rounding = 1e-4 if dtype == "float32" else 1e-12
    for one, other in zip(results[4], precise if isinstance(precise, tuple) else (precise,), strict=True):
        assert_allclose(one, other, rtol=0, atol=rounding * np.abs(other).max())
