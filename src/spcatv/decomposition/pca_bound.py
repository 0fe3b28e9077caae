"""Upper bound on the variance that K components explain: that of PCA."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, Data, as_data, in_blocks
from spcatv.data.sketch import compress
from spcatv.decomposition.starts import leading_squares

# Relative precision of the variance that principal components of large data span.
CEILING_TOL = 1e-5


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
