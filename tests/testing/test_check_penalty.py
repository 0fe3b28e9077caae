"""A check that cannot fail checks nothing: every promise of a penalty is broken once."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from own_penalty import Squares

from spcatv.problem import BallPenalty, DualBall, GraphNet, HuberTV, TotalVariation
from spcatv.structure import graph, icosphere, mesh, stack
from spcatv.structure.grid import grid
from spcatv.testing import check_penalty


@dataclass(frozen=True)
class TwoNumbers(BallPenalty):
    """A penalty that defines nothing but its two numbers."""

    ball: ClassVar = DualBall(curvature=0.5, radius=2.0)


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "penalty",
    ["tv", "graphnet", HuberTV(1e-3), HuberTV(0.3), HuberTV(100.0), TwoNumbers(), Squares()],
    ids=str,
)
def test_the_penalties_of_the_package_pass(penalty):
    check_penalty(penalty)
    for structure in (
        mesh(*icosphere(1)),
        graph(np.ones((5, 5))),
        stack([grid((2, 3)), grid(6, periodic=True)], [0.3, 2]),
    ):
        check_penalty(penalty, structure=structure, random_state=1)


class OffAtZero(TotalVariation):
    def value(self, structure, rows):
        return super().value(structure, rows) + 1.0


class Concave(TotalVariation):
    def value(self, structure, rows):
        return np.sqrt(super().value(structure, rows))


class Negative(TotalVariation):
    def value(self, structure, rows):
        return -super().value(structure, rows)


class NoSlope(TotalVariation):
    def slope_at_zero(self, structure, rows):
        return 0.0


class Slope(GraphNet):
    def slope_at_zero(self, structure, rows):
        return self.value(structure, rows)


class ProjectsInPlace(TotalVariation):
    def project(self, structure, dual):
        dual[:] = super().project(structure, dual)
        return dual.copy()


class ProjectsNothing(HuberTV):
    def project(self, structure, dual):
        return dual.copy()


class ReturnsItsArgument(GraphNet):
    def project(self, structure, dual):
        return dual


class TooShort(HuberTV):
    def project(self, structure, dual):
        return 0.5 * super().project(structure, dual)


class OtherSide(TotalVariation):
    """Feasible and idempotent, but what is outside of its ball goes to the far side of it."""

    def project(self, structure, dual):
        outside = structure.group_norms(dual) > 1 + 1e-9
        point = super().project(structure, dual)
        return np.where(np.repeat(outside, np.diff(structure.group_ptr)), -point, point)


class NegativeConjugate(TotalVariation):
    def conjugate(self, structure, dual):
        return -5.0


class LargeConjugate(GraphNet):
    """A multiple of the conjugate, with a slack and a dual step that agree with it."""

    factor: ClassVar[float] = 2.0

    def conjugate(self, structure, dual):
        return self.factor * super().conjugate(structure, dual)

    def slack(self, structure, rows, dual):
        return self.value(structure, rows) + self.conjugate(structure, dual) - float(dual @ rows)

    def dual_step(self, structure, dual, sigma):
        return dual / (1 + 0.5 * self.factor * sigma)


class SmallConjugate(LargeConjugate):
    factor = 0.5


class NoUnits(HuberTV):
    def in_units(self, unit):
        return self


class WrongSlack(HuberTV):
    def slack(self, structure, rows, dual):
        return 1.001 * super().slack(structure, rows, dual)


class LongStep(HuberTV):
    def dual_step(self, structure, dual, sigma):
        return super().dual_step(structure, dual, 0.9 * sigma)


class InfeasibleStep(HuberTV):
    def dual_step(self, structure, dual, sigma):
        return dual / (1 + sigma * self.delta)


class WrongShape(HuberTV):
    def dual_step(self, structure, dual, sigma):
        return super().dual_step(structure, dual, sigma)[:, None]


class TooLittleSmoothing(HuberTV):
    def smoothing_constant(self, structure):
        return 0.1 * super().smoothing_constant(structure)


class TooSmooth(HuberTV):
    def smoothed_lipschitz(self, mu):
        return 0.5 * super().smoothed_lipschitz(mu)


class WrongDualPoint(HuberTV):
    def dual_point(self, structure, rows, mu):
        return super().dual_point(structure, rows, 2 * mu)


class NegativeConstant(HuberTV):
    def smoothing_constant(self, structure):
        return -1.0


class AcceptsEverything(HuberTV):
    def check_feasible(self, structure, dual):
        pass


class WrongPass(TotalVariation):
    def value_and_slack(self, structure, v, dual):
        value, slack = super().value_and_slack(structure, v, dual)
        return value, 0.999 * slack


class WrongKernel(Squares):
    """A kernel for another weight than that of the methods."""

    ball = DualBall(0.4, np.inf)


class NotComparable(HuberTV):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (OffAtZero(), r"h\(0\) must be 0, it is 1\.0"),
        (Concave(), "h is not convex"),
        (Negative(), "h must not be negative"),
        (NoSlope(), r"slope_at_zero is 0\.0, but h\(t z\) / t is "),
        (Slope(), "slope_at_zero is "),
        (NoUnits(0.3), r"in_units\(0\.25\) has the value "),
        (ProjectsInPlace(), "project changes its argument"),
        (ProjectsNothing(0.3), "project returns a dual variable that is not feasible: .* a group has norm"),
        (ReturnsItsArgument(), "project must return a new array"),
        (TooShort(0.3), "project is not idempotent"),
        (OtherSide(), "project does not return the closest point"),
        (NegativeConjugate(), r"Fenchel-Young fails: .* < 0 for a feasible dual"),
        (LargeConjugate(), r"h\* is not the supremum: slack is \d"),
        (SmallConjugate(), r"h\* is not the supremum: slack is -\d"),
        (WrongSlack(0.3), r"slack is .*, but h\(z\) \+ h\*\(dual\) - dual'z = "),
        (LongStep(0.3), r"dual_step is not the proximal operator of h\*: its objective is "),
        (InfeasibleStep(0.3), "dual_step returns a dual variable that is not feasible"),
        (WrongShape(0.3), r"dual_step returns an array of shape \(31, 1\), not \(31,\)"),
        (TooLittleSmoothing(0.3), r"h - h_mu is .*, not between 0 and mu M"),
        (NegativeConstant(0.3), r"smoothing_constant is -1\.0 < 0"),
        (TooSmooth(0.3), r"smoothed_lipschitz\(.*\) is .*, but dual_point moves by"),
        (WrongDualPoint(0.3), "dual_point is not the maximiser"),
        (AcceptsEverything(0.3), "check_feasible accepts a dual variable that project moves by"),
        (WrongPass(), "value_and_slack returns .*, but value and slack are"),
        (WrongKernel(), "the compiled kernel for DualBall.* computes another penalty: .* is off by"),
        (NotComparable(0.3), r"does not equal its pickle: make it a frozen dataclass"),
    ],
    ids=lambda x: type(x).__name__ if not isinstance(x, str) else "",
)
def test_a_broken_promise_is_found(penalty, message):
    with pytest.raises(AssertionError, match=message):
        check_penalty(penalty)


def test_the_structure_is_named_in_the_complaint():
    with pytest.raises(AssertionError, match=r"NoSlope\(\) on GridStructure\(shape=\(7,\), n_features=7\): "):
        check_penalty(NoSlope(), structure=grid(7))
