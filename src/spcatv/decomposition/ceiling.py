"""The most that any K components can explain: what PCA does."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, Data, GlobalSignalRemoved, as_data, in_blocks
from spcatv.data.sketch import compress
from spcatv.decomposition.starts import leading_squares

# Relative precision of the variance that principal components of large data span.
CEILING_TOL = 1e-5


def pca_cumulative_variance(
    X: Any, n_components: int, *, center: bool = True, global_signal: str | None = None
) -> FloatArray:
    """Share of the data's sum of squares that the first 1, ..., K principal components span.

    No other K directions span more (Eckart and Young, 1936), so that this is the ceiling of any sparse PCA.

    Parameters
    ----------
    X : array-like or Data of shape (n_samples, n_features)
        Data; float32 and float64 in C order are not copied.
    n_components : int
        K.
    center : bool, default=True
        Whether the columns' means are subtracted first.
    global_signal : {None, "regress"}, default=None
        Whether the mean over features of every sample is regressed out after that.

    Returns
    -------
    ndarray of shape (K,)
        Never decreasing, at most 1; zeros for data without variance.
    """
    kind = CentredData if global_signal is None else GlobalSignalRemoved
    known = isinstance(X, (Data, np.ndarray)) or in_blocks(X) is not None
    data = kind(as_data(X if known else np.asarray(X)), center)
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
