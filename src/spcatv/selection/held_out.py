"""What a fit makes of samples that it has not seen, after each of its components."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spcatv._util.devices import beside
from spcatv._util.types import FloatArray
from spcatv.data import Centring, Data
from spcatv.decomposition import deflation_scores
from spcatv.metrics import orthonormal_basis
from spcatv.model import recordable


@recordable
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Sums of squares of held-out samples."""

    total: float  # ``||X||_F^2`` of the samples, centred as those of the fit
    explained: FloatArray  # how much of it the first 1, ..., K components explain, shape (K,)

    @property
    def errors(self) -> FloatArray:
        """Reconstruction errors ``||X - X_hat||_F`` with 1, ..., K components, shape (K,)."""
        return np.sqrt(np.maximum(self.total - self.explained, 0.0))

    @property
    def shares(self) -> FloatArray:
        """Explained shares of the sum of squares with 1, ..., K components, shape (K,)."""
        return self.explained / self.total if self.total > 0 else np.zeros_like(self.explained)


def held_out(components: FloatArray, centring: Centring, data: Data, *, projects: bool = False) -> HeldOut:
    """Score samples for the first 1, ..., K components at once.

    The components are unit loadings (K, P), the centring is that of the training samples. Every step of a
    deflation is a projection (docs/method.md section 5.1), so component k explains the squares of its scores.
    If scores come from a projection or a joint fit (`projects`), component k explains the squares that the
    span of the first k loadings adds.
    """
    basis = orthonormal_basis(components) if projects else components
    if data.on_gpu:
        total, products = _by_products(basis, centring, data)
        scores = products if projects else deflation_scores(products, components)
        return HeldOut(total, np.cumsum(np.square(scores).sum(axis=0)))

    def sums(_: slice, block: FloatArray) -> tuple[None, FloatArray]:
        """The sum of squares of some samples, and what every component explains of it."""
        centred = centring.apply(block)
        products = centred @ basis.T
        scores = products if projects else deflation_scores(products, components)
        return None, np.r_[np.einsum("ij,ij->", centred, centred), np.square(scores).sum(axis=0)]

    total, *explained = data.each_block(sums)[1]
    return HeldOut(float(total), np.cumsum(explained))


def _by_products(basis: FloatArray, centring: Centring, data: Data) -> tuple[float, FloatArray]:
    """Sum of squares of the centred samples, and their products with a basis, by products with X alone."""
    n_samples, n_features = data.shape
    own = data.column_statistics(True)
    mean = beside(centring.mean, own.mean)
    off = own.mean - mean
    total = float(own.squared_norms.sum()) + n_samples * float(off @ off)
    products = data.dot_many(beside(basis, mean)) - basis @ centring.mean
    loading = centring.global_loading
    if loading is not None:
        sides = np.stack([np.full(n_features, 1.0 / n_features), loading])
        signal, along = (data.dot_many(beside(sides, mean)) - sides @ centring.mean).T
        total += float(loading @ loading) * float(signal @ signal) - 2.0 * float(signal @ along)
        products -= np.outer(signal, basis @ loading)
    return total, products
