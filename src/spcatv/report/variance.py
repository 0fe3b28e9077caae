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
    """Shares of the total variance, one value per component."""

    own: FloatArray  # explained by each component, shape (K,)
    # explained by its scores beyond those of the components before it, if they are correlated, shape (K,)
    adjusted: FloatArray | None = None
    cumulative: FloatArray | None = None  # what the first 1, ..., K components explain together, shape (K,)
    # the most that any 1, ..., K components can explain: that of PCA, shape (K,)
    ceiling: FloatArray | None = None


def is_joint(model: Any) -> bool:
    """Whether all components were fitted at once, with uncorrelated scores."""
    return model.mixing_ is not None


def variance_of(model: Any, scores: FloatArray | None, ceiling: FloatArray | None) -> Variance:
    """Collect what is known about the variance that a model explains.

    The scores of the training samples have shape (n_samples, K); the ceiling, of shape (K,), comes from
    `spcatv.decomposition.pca_bound.pca_cumulative_variance`.
    """
    own = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    if is_joint(model):  # explained variances add up
        return Variance(own, cumulative=np.cumsum(own), ceiling=ceiling)
    if scores is None or len(scores) < 2 or not own.any():
        return Variance(own, ceiling=ceiling)
    largest = int(np.argmax(own))
    total = float(model.explained_variance_[largest]) / own[largest]
    adjusted = adjusted_explained_variance(scores) / total
    components = np.asarray(model.components_, dtype=np.float64)
    products = _products(model, scores, components)
    spanned = _spanned(products, components) / (total * (len(scores) - 1))
    return Variance(own, adjusted, np.cumsum(spanned), ceiling)


def _products(model: Any, scores: npt.ArrayLike, components: FloatArray) -> FloatArray:
    """Return the products of samples with every unit loading, ``x v_k``, from their scores, both (n, K).

    Deflation gives ``t_k = x v_k - sum_{i < k} t_i (v_i'v_k)`` (docs/method.md section 5.2). Projection gives
    scores with ``T V V' = X V'``.
    """
    overlap = components @ components.T
    if model.transform_method != "projection":
        overlap = np.triu(overlap, 1) + np.eye(len(components))
    return np.asarray(scores, dtype=np.float64) @ overlap


def _spanned(products: FloatArray, components: FloatArray) -> FloatArray:
    """Sums of squares along an orthonormal basis that is extended by one loading after the other."""
    basis = orthonormal_basis(components)
    # every basis vector is a combination of loadings, so the data are not needed
    weights = np.linalg.lstsq(components.T, basis.T, rcond=None)[0]
    return np.asarray(np.square(products @ weights).sum(axis=0))
