"""Check of a kind of data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.data import Data, as_data
from spcatv.testing.require import require

# Largest error of a product, relative to the sum of the magnitudes of its terms.
TOLERANCE = 1e-12


def check_data(make: Callable[[FloatArray], Any], *, random_state: int = 0) -> None:
    """Check that a kind of array follows the data protocol (`spcatv.data.Data`).

    Parameters
    ----------
    make : callable
        Returns the array, given a NumPy array of shape (n_samples, n_features), float32 or float64, such as
        ``lambda X: X`` or ``dask.array.from_array``. `spcatv.data.as_data` must accept it.
    random_state : int, default=0
        Seed of the examples.

    Raises
    ------
    AssertionError
        Names the method and the example that fail.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.testing import check_data
    >>> check_data(np.asfortranarray)
    """
    rng = np.random.default_rng(random_state)
    for dtype in (np.float64, np.float32):
        for shape in ((9, 40), (40, 9), (1, 5), (6, 1)):
            X: FloatArray = (rng.standard_normal(shape) * rng.uniform(0.5, 2.0, shape[1]) + 3.0).astype(dtype)
            _check_all(as_data(make(X)), X, rng, f"{shape[0]} x {shape[1]} {np.dtype(dtype)}")


def _check_all(data: Data, X: FloatArray, rng: np.random.Generator, example: str) -> None:
    _check_example(data, X, rng, example)
    for what, samples in {
        "the odd samples": np.arange(1, len(X), 2),
        "samples drawn with replacement": rng.integers(0, len(X), len(X)),
    }.items():
        if len(samples):
            part = data.take(samples)
            _check_example(part, X[samples], rng, f"{example}, {what}")
            again = rng.permutation(len(samples))
            _check_example(part.take(again), X[samples][again], rng, f"{example}, {what}, permuted")


def _check_example(data: Data, X: FloatArray, rng: np.random.Generator, example: str) -> None:
    exact = X.astype(np.float64)
    n_samples, n_features = X.shape
    require(isinstance(data, Data), f"{example}: {type(data).__name__} lacks methods of spcatv.data.Data")
    require(tuple(data.shape) == X.shape, f"{example}: shape is {data.shape}")
    require(data.dtype == X.dtype, f"{example}: dtype is {data.dtype}")
    u, shift = rng.standard_normal((2, n_samples))
    v, *vectors = rng.standard_normal((4, n_features))

    def same(name: str, found: Any, expected: FloatArray, tolerance: float = TOLERANCE) -> None:
        where = f"{example}: {name}"
        found = to_host(found)
        require(isinstance(found, np.ndarray), f"{where} is a {type(found).__name__}, not a NumPy array")
        require(found.dtype == np.float64, f"{where} has dtype {found.dtype}, not float64")
        require(found.shape == expected.shape, f"{where} has shape {found.shape}, not {expected.shape}")
        scale = 1.0 + np.abs(exact).sum() * max(1.0, np.abs(expected).max(initial=0.0))
        off = float(np.abs(found - expected).max(initial=0.0))
        require(off <= tolerance * scale, f"{where} is off by {off:.3g}")

    same("dot", data.dot(v), exact @ v)
    same("dot of zeros", data.dot(np.zeros(n_features)), np.zeros(n_samples))
    same("transpose_dot", data.transpose_dot(u), exact.T @ u)
    same("dot_many", data.dot_many(np.stack(vectors)), exact @ np.stack(vectors).T)
    scores, back = data.there_and_back_many(v[np.newaxis], np.zeros(n_features), shift[:, np.newaxis])
    same("scores of there_and_back_many with one vector", scores[:, 0], exact @ v - shift)
    same("there_and_back_many with one vector", back[0], exact.T @ (exact @ v - shift))
    for center in (True, False):
        mean = exact.mean(axis=0) if center else np.zeros(n_features)
        found = data.column_statistics(center)
        same(f"mean (center={center})", found.mean, mean)
        same(f"squared_norms (center={center})", found.squared_norms, ((exact - mean) ** 2).sum(axis=0))
    mean = exact.mean(axis=0)
    # a Gram matrix is as exact as the data
    precision = 1e-6 if X.dtype == np.float32 else TOLERANCE
    same("gram", data.gram(mean), (exact - mean) @ (exact - mean).T, precision)
    many = np.stack(vectors)
    offset = np.outer(shift, np.arange(len(many)))
    scores, back = data.there_and_back_many(many, mean, offset)
    expected = (exact - mean) @ many.T - offset
    same("scores of there_and_back_many", scores, expected, precision)
    same("there_and_back_many", back, expected.T @ (exact - mean), precision)
    scaled = (exact - mean) * np.abs(v)
    same("gram with a factor", data.gram(mean, np.abs(v)), scaled @ scaled.T, precision)
    _check_blocks(data, exact, same)


def _check_blocks(data: Data, exact: FloatArray, same: Callable[..., None]) -> None:
    for entries in (1, 3 * exact.shape[1], exact.size):
        found = np.full(exact.shape, np.nan)
        for samples, block in data.blocks(entries):
            found[samples] = block
            block[...] = 0.0  # callers may change a block
        same(f"blocks of {entries} entries", found, exact, 0.0)
    same(
        "blocks, after the first ones were changed", np.concatenate([b for _, b in data.blocks()]), exact, 0.0
    )
