"""Total variation and group lasso: the sum of the group norms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.kernels.judge import project_groups, structured_shares
from spcatv.structure import Structure
from spcatv.structure.penalty import FEASIBILITY_SLACK, CompiledKernel, StructuredPenalty


class UnitBallPenalty(StructuredPenalty):
    """A penalty whose feasible dual variables have groups of norm at most 1."""

    def project(self, structure: Structure, dual: FloatArray) -> FloatArray:
        """Divide every group of norm above 1 by its norm."""
        projected = np.array(dual, dtype=np.float64)
        project_groups(structure.group_ptr, 1.0, projected)
        return projected

    def check_feasible(self, structure: Structure, dual: FloatArray) -> None:
        """Raise a ValueError if a group has a norm above 1."""
        self._check_largest(float(structure.group_norms(dual).max(initial=0.0)))

    def _check_largest(self, norm: float) -> None:
        if not norm <= 1 + FEASIBILITY_SLACK:
            raise ValueError(
                f"alpha is not dual feasible: a group has norm {norm:.6g} > 1; project it first "
                "(LoadingProblem.feasible)"
            )

    def smoothing_constant(self, structure: Structure) -> float:
        """``n_groups / 2``."""
        return 0.5 * structure.n_groups


@dataclass(frozen=True)
class TotalVariation(UnitBallPenalty):
    """``h(z) = sum_g ||z_g||_2``, whose conjugate is 0 on the unit balls (docs/method.md section 3.2).

    Examples
    --------
    >>> from spcatv.problem import TotalVariation
    >>> from spcatv.structure import grid
    >>> chain = grid(3)
    >>> TotalVariation().value(chain, chain.forward([0.0, 1.0, 3.0]))
    3.0
    """

    compiled_kernel: ClassVar[CompiledKernel | None] = "tv"

    def value(self, structure: Structure, rows: FloatArray) -> float:
        """``sum_g ||z_g||_2``."""
        return float(structure.group_norms(rows).sum(dtype=np.float64))

    def conjugate(self, structure: Structure, dual: FloatArray) -> float:
        """0."""
        return 0.0

    def dual_step(self, structure: Structure, dual: FloatArray, sigma: float) -> FloatArray:
        """Projection onto the unit balls."""
        return self.project(structure, dual)

    def slope_at_zero(self, structure: Structure, rows: FloatArray) -> float:
        """``h(z)``: the penalty is homogeneous."""
        return self.value(structure, rows)

    def slack(self, structure: Structure, rows: FloatArray, dual: FloatArray) -> float:
        """``sum_g ( ||z_g|| - dual_g'z_g )``, every term of which is >= 0."""
        if structure.n_groups == 0:
            return 0.0
        inner = np.add.reduceat(dual * rows, structure.group_ptr[:-1])
        return float((structure.group_norms(rows) - inner).sum())

    def dual_point(self, structure: Structure, rows: FloatArray, mu: float) -> FloatArray:
        """Projection of ``z / mu`` onto the unit balls."""
        return structure.project(rows / mu)

    def value_and_slack(self, structure: Structure, v: FloatArray, dual: FloatArray) -> tuple[float, float]:
        """``h(Av)`` and the slack, in one compiled pass."""
        value, slack, largest = structured_shares(structure, v, dual, False)
        self._check_largest(largest)
        return value, slack
