"""Unshrunk loadings on a support that is known (docs/method.md section 5.5)."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

from spcatv._util.devices import beside, to_host
from spcatv._util.types import BoolArray, FloatArray
from spcatv.data import CentredData
from spcatv.decomposition.starts import leading_eigenvectors_of

# Power iterations for non-negative loadings end when the unit loading moves by less than this.
POWER_TOL = 1e-7
MOST_POWER_STEPS = 500
# Lanczos steps with large data end when the residual of the loading is below this share of its eigenvalue.
LANCZOS_TOL = 1e-6
MOST_LANCZOS_STEPS = 40


def refit_on_support(data: CentredData, loading: FloatArray, *, positive: bool) -> FloatArray:
    """Return the unit loading (P,) that explains most of the data among those with the same zeros.

    It is the leading right singular vector of the data (centred and deflated) restricted to the support, up
    to its sign. Non-negative loadings are found by power iterations from the given one, each of which
    explains more than the one before; some of them may become zero.
    """
    support = loading != 0
    if positive:
        return _non_negative(data, loading, support)
    if not data.gram_pays:
        return _by_passes(data, loading, support)
    scores = data.dot(loading)
    _, vectors = leading_eigenvectors_of(
        lambda u: data.dot(support * data.transpose_dot(u)), data.shape[0], 1, start=scores
    )
    found = support * data.transpose_dot(vectors[0])
    length = float(np.linalg.norm(found))
    return found / length if length > 0 else loading / np.linalg.norm(loading)


def _by_passes(data: CentredData, loading: FloatArray, support: BoolArray) -> FloatArray:
    """Return the same for large data: Lanczos from what their sketch says, one pass over them per step."""
    rows = data.compressed(1).rows[:, support]
    v = loading[support]
    if bool(rows.any()):
        v = beside(eigh(to_host(rows @ rows.T))[1][:, -1], rows) @ rows
    whole = np.zeros_like(loading)
    basis: FloatArray = v[None][:0]
    images, found, left = basis, v, float(np.linalg.norm(v))
    for _ in range(MOST_LANCZOS_STEPS):
        whole[support] = v / left
        basis = np.concatenate([basis, whole[support][None]])
        images = np.concatenate([images, data.there_and_back(whole)[1][support][None]])
        inner = to_host(images @ basis.T)
        values, turns = eigh(0.5 * (inner + inner.T))
        found = beside(turns[:, -1], basis) @ basis
        v = images[-1] - (images[-1] @ basis.T) @ basis
        v -= (v @ basis.T) @ basis  # once is not enough in floating point
        left = float(np.linalg.norm(v))
        # the residual of the loading is what the last image adds to the basis
        if left * abs(turns[-1, -1]) <= LANCZOS_TOL * values[-1]:
            break
    whole[support] = found / np.linalg.norm(found)
    return whole


def _non_negative(data: CentredData, loading: FloatArray, support: FloatArray) -> FloatArray:
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
