"""The variance that components explain, from their scores alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.metrics import adjusted_explained_variance, orthonormal_basis


@dataclass(frozen=True, eq=False)
class Variance:
    """Shares of the total variance, one value per component.

    Attributes
    ----------
    own : ndarray of shape (K,)
        What each component removes from the data when its turn comes.
    adjusted : ndarray of shape (K,) or None
        What its scores add to those of the components before it.
    cumulative : ndarray of shape (K,) or None
        What the first 1, ..., K components explain together.
    ceiling : ndarray of shape (K,) or None
        The most that any 1, ..., K components can explain: that of PCA.
    """

    own: FloatArray
    adjusted: FloatArray | None = None
    cumulative: FloatArray | None = None
    ceiling: FloatArray | None = None


def variance_of(model: Any, scores: FloatArray | None, ceiling: FloatArray | None) -> Variance:
    """Collect what is known about the variance that a model explains.

    Parameters
    ----------
    model : SPCATV or ImageSPCATV
        Fitted.
    scores : ndarray of shape (n_samples, K) or None
        Scores of the training samples.
    ceiling : ndarray of shape (K,) or None
        From `spcatv.decomposition.ceiling.pca_cumulative_variance`.
    """
    own = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    if scores is None or len(scores) < 2 or not own.any():
        return Variance(own, ceiling=ceiling)
    largest = int(np.argmax(own))
    total = float(model.explained_variance_[largest]) / own[largest]
    adjusted = adjusted_explained_variance(scores) / total
    components = np.asarray(model.components_, dtype=np.float64)
    products = products_from_scores(scores, components, method=model.transform_method)
    spanned = _spanned(products, components) / (total * (len(scores) - 1))
    return Variance(own, adjusted, np.cumsum(spanned), ceiling)


def products_from_scores(
    scores: npt.ArrayLike, components: npt.ArrayLike, *, method: str = "deflation"
) -> FloatArray:
    """Products of the samples with every loading, ``x v_k``, from their scores.

    Deflation gives the scores ``t_k = x v_k - sum_{i < k} t_i (v_i'v_k)`` (docs/method.md section 5.2), so
    ``x v_k = t_k + sum_{i < k} t_i (v_i'v_k)``. Projection gives scores with ``T V V' = X V'``.

    Parameters
    ----------
    scores : array-like of shape (n, K)
    components : array-like of shape (K, P)
        Unit loadings.
    method : {"deflation", "projection"}, default="deflation"
        How the scores were computed.

    Returns
    -------
    ndarray of shape (n, K)
    """
    loadings = np.asarray(components, dtype=np.float64)
    overlap = loadings @ loadings.T
    if method == "deflation":
        overlap = np.triu(overlap, 1) + np.eye(len(loadings))
    return np.asarray(scores, dtype=np.float64) @ overlap


def _spanned(products: FloatArray, components: FloatArray) -> FloatArray:
    """Sums of squares along an orthonormal basis that is extended by one loading after the other."""
    basis = orthonormal_basis(components)
    # every basis vector is a combination of loadings, so the data are not needed
    weights = np.linalg.lstsq(components.T, basis.T, rcond=None)[0]
    return np.asarray(np.square(products @ weights).sum(axis=0))
