"""GraphNet: the sum of squares of the operator rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spcatv._util.types import FloatArray
from spcatv.kernels.judge import structured_shares
from spcatv.structure import Structure
from spcatv.structure.penalty import CompiledKernel, StructuredPenalty


@dataclass(frozen=True)
class GraphNet(StructuredPenalty):
    """``h(z) = ||z||_2^2``, smooth, with the conjugate ``1/4 ||dual||^2`` (docs/method.md section 3.7).

    Examples
    --------
    >>> from spcatv.problem import GraphNet
    >>> from spcatv.structure import grid
    >>> chain = grid(3)
    >>> GraphNet().value(chain, chain.forward([0.0, 1.0, 3.0]))
    5.0
    """

    compiled_kernel: ClassVar[CompiledKernel | None] = "graphnet"
    quadratic: ClassVar[bool] = True

    def value(self, structure: Structure, rows: FloatArray) -> float:
        """``||z||^2``."""
        return float(rows @ rows)

    def conjugate(self, structure: Structure, dual: FloatArray) -> float:
        """``1/4 ||dual||^2``."""
        return 0.25 * float((dual * dual).sum())

    def project(self, structure: Structure, dual: FloatArray) -> FloatArray:
        """A copy: every dual variable is feasible."""
        return dual.copy()

    def dual_step(self, structure: Structure, dual: FloatArray, sigma: float) -> FloatArray:
        """``dual / (1 + sigma/2)``."""
        return dual / (1 + 0.5 * sigma)

    def smoothing_constant(self, structure: Structure) -> float:
        """0: the penalty is smooth as it is."""
        return 0.0

    def slope_at_zero(self, structure: Structure, rows: FloatArray) -> float:
        """0: close to zero a square vanishes faster than its argument."""
        return 0.0

    def slack(self, structure: Structure, rows: FloatArray, dual: FloatArray) -> float:
        """``||z - dual/2||^2``."""
        mismatch = rows - 0.5 * dual
        return float(mismatch @ mismatch)

    def dual_point(self, structure: Structure, rows: FloatArray, mu: float) -> FloatArray:
        """``2 z``, the gradient."""
        return 2.0 * rows

    def smoothed_lipschitz(self, mu: float) -> float:
        """2."""
        return 2.0

    def value_and_slack(self, structure: Structure, v: FloatArray, dual: FloatArray) -> tuple[float, float]:
        """``h(Av)`` and the slack, in one compiled pass."""
        return structured_shares(structure, v, dual, True)[:2]
