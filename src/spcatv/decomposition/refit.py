"""Unshrunk loadings on a support that is known (docs/method.md section 5.5)."""

from __future__ import annotations

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import DataOperator
from spcatv.decomposition.starts import leading_eigenvectors_of

# Power iterations for non-negative loadings end when the unit loading moves by less than this.
POWER_TOL = 1e-7
MOST_POWER_STEPS = 500


def refit_on_support(data: DataOperator, loading: FloatArray, *, positive: bool) -> FloatArray:
    """The unit loading that explains most of the data among those with the zeros of a given one, shape (P,).

    It is the leading right singular vector of the data (centred and deflated) restricted to the support, up
    to its sign. Non-negative loadings are found by power iterations from the given one, each of which
    explains more than the one before; some of them may become zero.
    """
    support = loading != 0
    if positive:
        return _non_negative(data, loading, support)
    scores = data.dot(loading)
    _, vectors = leading_eigenvectors_of(
        lambda u: data.dot(support * data.transpose_dot(u)), data.shape[0], 1, start=scores
    )
    found = support * data.transpose_dot(vectors[0])
    length = float(np.linalg.norm(found))
    return found / length if length > 0 else loading / np.linalg.norm(loading)


def _non_negative(data: DataOperator, loading: FloatArray, support: FloatArray) -> FloatArray:
    """Maximise ``||X v||`` over unit ``v >= 0`` on the support, from the given loading."""
    v = loading / np.linalg.norm(loading)
    for _ in range(MOST_POWER_STEPS):
        # the best v for a linear function that touches ||X v||^2 from below
        back = support * np.maximum(data.there_and_back(v)[1], 0.0)
        length = float(np.linalg.norm(back))
        if length == 0:
            break
        before, v = v, back / length
        if np.linalg.norm(v - before) <= POWER_TOL:
            break
    return v
