"""Leading singular vectors of the data, and how much variance they span."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import eigh

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, Data, as_data, in_blocks
from spcatv.data.sketch import compress

# Relative precision of the variance that principal components of large data span.
CEILING_TOL = 1e-5


def singular_scores(data: CentredData, n_starts: int) -> FloatArray:
    """Return leading left singular vectors of the data, shape (n, N), n <= n_starts.

    Directions without variance beyond rounding are left out.
    """
    values, vectors = leading_squares(data, n_starts)
    vectors = vectors[values > 0]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[lengths[:, 0] > 0] / lengths[lengths[:, 0] > 0]


def leading_squares(data: CentredData, n_vectors: int) -> tuple[FloatArray, FloatArray]:
    """Largest squared singular values of the data, descending, and left singular vectors of any length.

    Shapes (n,) and (n, N), with n at most `n_vectors` and the shorter side of the data. Large data are
    compressed first: their values are a little too small. Otherwise both are exact.
    """
    if not data.gram_pays:
        return data.compressed(n_vectors).leading_squares(n_vectors)
    values, vectors = leading_eigenvectors(data.gram(), n_vectors)
    if data.shape[0] > data.shape[1]:
        vectors = data.dot_many(vectors).T
    return values, vectors


def leading_eigenvectors(gram: FloatArray, n_vectors: int) -> tuple[FloatArray, FloatArray]:
    """Return largest eigenvalues (descending) and eigenvectors (as rows) of a symmetric matrix."""
    size = len(gram)
    first = max(size - n_vectors, 0)
    # LAPACK's thresholds are absolute: in a unit of its own, data in any unit give the same bits
    unit = np.ldexp(1.0, np.frexp(max(gram.max(), -gram.min()))[1])
    # in LAPACK's own order, and to be overwritten: otherwise there would be further copies
    scaled = np.divide(gram, unit, order="F")
    values, vectors = eigh(scaled, subset_by_index=(first, size - 1), overwrite_a=True)
    return unit * values[::-1], vectors.T[::-1]


def pca_cumulative_variance(
    X: Any, n_components: int, *, center: bool = True, global_signal: str | None = None
) -> FloatArray:
    """Share of the data's sum of squares that the first 1, ..., K principal components span, shape (K,).

    No other K directions span more (Eckart and Young, 1936), so that this is the ceiling of any sparse PCA.
    Zeros for data without variance. The columns are centred first, and after that the global signal is
    regressed out, where asked for.
    """
    known = isinstance(X, (Data, np.ndarray)) or in_blocks(X) is not None
    data = CentredData(as_data(X if known else np.asarray(X)), center).at_ordinary_scale()
    if global_signal is not None:
        data = data.without_global_signal()
    with one_blas_thread():
        n_vectors = min(n_components, *data.shape)
        if data.gram_pays:
            largest, _ = leading_squares(data, n_vectors)
        else:
            largest, _ = compress(data, n_vectors, CEILING_TOL).leading_squares(n_vectors)
        total = data.squared_norm()
    squares = np.zeros(n_components)
    squares[: len(largest)] = np.maximum(largest, 0.0)
    return np.minimum(np.cumsum(squares) / total, 1.0) if total > 0 else squares
