"""A penalty that is written from scratch, as a user would: the NumPy kernel computes it."""

from dataclasses import dataclass

from spcatv.problem import StructuredPenalty


@dataclass(frozen=True)
class Squares(StructuredPenalty):
    """``||z||^2`` by methods of its own; `GraphNet` is the same in compiled code."""

    quadratic = True

    def value(self, structure, rows):
        return float(rows @ rows)

    def conjugate(self, structure, dual):
        return 0.25 * float(dual @ dual)

    def project(self, structure, dual):
        return dual.copy()

    def dual_step(self, structure, dual, sigma):
        return dual / (1 + 0.5 * sigma)

    def smoothing_constant(self, structure):
        return 0.0

    def slope_at_zero(self, structure, rows):
        return 0.0

    def dual_point(self, structure, rows, mu):
        return 2 * rows

    def smoothed_lipschitz(self, mu):
        return 2.0
