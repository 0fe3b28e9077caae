"""What a fitted model makes of rows that it has not seen, after each of its components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.data.centred import row_blocks
from spcatv.decomposition import deflation_scores
from spcatv.estimator import SPCATV
from spcatv.metrics import orthonormal_basis


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Sums of squares of held-out rows.

    Attributes
    ----------
    total : float
        ``||X - mean||_F^2`` with the training mean.
    explained : ndarray of shape (K,)
        How much of it the first 1, ..., K components explain.
    """

    total: float
    explained: FloatArray

    @property
    def errors(self) -> FloatArray:
        """Reconstruction errors ``||X - X_hat||_F`` with 1, ..., K components, shape (K,)."""
        return np.sqrt(np.maximum(self.total - self.explained, 0.0))

    @property
    def shares(self) -> FloatArray:
        """Explained shares of the sum of squares with 1, ..., K components, shape (K,)."""
        return self.explained / self.total if self.total > 0 else np.zeros_like(self.explained)


def held_out(model: SPCATV, X: FloatArray, rows: IntArray) -> HeldOut:
    """Score some rows of X, for every number of components at once.

    Deflation is greedy, so that the first k components of a model are the model of k components, and every
    step of it is a projection (docs/method.md section 5.1): what component k explains of a row is its score
    squared, and no reconstruction needs to be made. With ``transform_method="projection"`` it is what the
    span of the first k loadings adds.

    Parameters
    ----------
    model : SPCATV
        Fitted.
    X : ndarray of shape (n_samples, n_features)
        Data.
    rows : ndarray of int
        Rows to score; they are read in blocks.

    Returns
    -------
    HeldOut
    """
    mean = model.mean_.astype(np.float64)
    components = model.components_.astype(np.float64)
    projects = model.transform_method == "projection"
    basis = orthonormal_basis(components) if projects else components
    total, explained = 0.0, np.zeros(len(components))
    for first, last in row_blocks((len(rows), X.shape[1])):
        # take: the same layout in memory, and the same rounding, whatever that of X
        block = np.take(X, rows[first:last], axis=0) - mean
        total += float(np.einsum("ij,ij->", block, block))
        products = block @ basis.T
        scores = products if projects else deflation_scores(products, components)
        explained += np.square(scores).sum(axis=0)
    return HeldOut(total, np.cumsum(explained))
