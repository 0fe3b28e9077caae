"""What a component is asked for: a share of zeros and a smoothness, instead of weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.decomposition.penalty import LoadingPenalty, Weights
from spcatv.problem import Penalty, as_penalty
from spcatv.structure import Structure

# l2 only sets the length of a loading (docs/method.md section 1.3). With this one the loading problem is
# 1/2 ||v - r||^2 + tv s(v) + l1 ||v||_1 up to a factor, for the map r = X'u / N.
TARGET_L2 = 0.5


@dataclass(frozen=True, eq=False)
class SparsityTarget:
    """A component of a wanted sparsity (docs/method.md section 7).

    Parameters
    ----------
    structure : Structure
        On the P features.
    sparsity : float
        Share of the loadings that shall be exactly zero, 0 <= sparsity < 1.
    smoothness : float
        Weight of the structured penalty, in units of the contrast of the component's map ``r = X'u / N``,
        which is the standard deviation of its entries.
    penalty : {"tv", "graphnet"} or StructuredPenalty
        Form of the structured penalty.
    positive : bool
        Whether loadings are kept non-negative.
    """

    structure: Structure
    sparsity: float
    smoothness: float
    penalty: Penalty = "tv"
    positive: bool = False

    @property
    def n_zeros(self) -> int:
        """Wanted number of zeros; at least one loading is not zero."""
        n_features = self.structure.n_features
        return min(round(self.sparsity * n_features), n_features - 1)

    def structured_weight(self, r: FloatArray, smoothness: float) -> float:
        """Weight tv of the structured penalty for the map r.

        Penalties that grow like a norm count in units of the contrast of r; a quadratic one has no unit.
        """
        if as_penalty(self.penalty).quadratic:
            return smoothness
        return smoothness * float(np.std(r))

    def with_weights(self, l1: float, tv: float) -> LoadingPenalty:
        """The penalty with given weights."""
        return LoadingPenalty(self.structure, Weights(l1, TARGET_L2, tv), self.penalty, self.positive)
