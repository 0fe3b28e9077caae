"""Total variation, Huber-TV and GraphNet (docs/method.md sections 3.2, 3.7 and 3.10)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util import parameters
from spcatv._util.devices import on_gpu
from spcatv._util.types import FloatArray
from spcatv.kernels.cuda.workspaces import exact_shares_on_gpu
from spcatv.kernels.duality_gap import project_groups, structured_shares
from spcatv.structure import Structure
from spcatv.structure.penalty import FEASIBILITY_SLACK, DualBall, StructuredPenalty


class BallPenalty(StructuredPenalty):
    """A penalty with the conjugate ``d/2 ||dual||^2`` on groups of norm at most r.

    A subclass only defines the two numbers, its `ball`: everything else follows, and the compiled kernels
    compute it. A group of norm t costs ``t^2 / (2 d)`` up to ``t = d r``, and ``r t - d r^2 / 2`` beyond.

    Examples
    --------
    >>> from spcatv.problem import DualBall, TotalVariation
    >>> TotalVariation().ball == DualBall(curvature=0.0, radius=1.0)
    True
    """

    @property
    @abstractmethod
    def ball(self) -> DualBall:
        """The two numbers."""

    @property
    def quadratic(self) -> bool:
        """Return whether the dual variable is unbounded."""
        return not self.ball.is_bounded

    def value(self, structure: Structure, rows: FloatArray) -> float:
        """Sum of the costs of the groups."""
        slope, corner, curve, _ = self.ball.value_factors()
        norms = structure.group_norms(rows)
        inner = np.minimum(norms, corner)
        return float((slope * (norms - inner) + curve * inner * inner).sum(dtype=np.float64))

    def conjugate(self, structure: Structure, dual: FloatArray) -> float:
        """``d/2 ||dual||^2``."""
        curvature = self.ball.curvature
        return 0.5 * curvature * float(dual @ dual) if curvature > 0 else 0.0

    def project(self, structure: Structure, dual: FloatArray) -> FloatArray:
        """Scale every group of norm above r to this norm."""
        projected = np.array(dual, dtype=np.float64)
        if self.ball.is_bounded:
            project_groups(structure.group_ptr, self.ball.radius, projected)
        return projected

    def check_feasible(self, structure: Structure, dual: FloatArray) -> None:
        """Raise a ValueError if a group has a norm above r."""
        if self.ball.is_bounded:
            self._check_largest(float(structure.group_norms(dual).max(initial=0.0)))

    def _check_largest(self, norm: float) -> None:
        radius = self.ball.radius
        if not norm <= radius * (1 + FEASIBILITY_SLACK):
            raise ValueError(
                f"alpha is not dual feasible: a group has norm {norm:.6g} > {radius:g}; project it first "
                "(LoadingProblem.feasible)"
            )

    def dual_step(self, structure: Structure, dual: FloatArray, sigma: float) -> FloatArray:
        """Projection of ``dual / (1 + sigma d)``."""
        return self.project(structure, dual / (1 + sigma * self.ball.curvature))

    def smoothing_constant(self, structure: Structure) -> float:
        """``r^2 / 2`` for every group; 0 if the dual variable is unbounded, because h is smooth then."""
        return 0.5 * self.ball.radius**2 * structure.n_groups if self.ball.is_bounded else 0.0

    def slope_at_zero(self, structure: Structure, rows: FloatArray) -> float:
        """``h(z)`` if h is homogeneous, 0 if it is quadratic near zero."""
        return self.value(structure, rows) if self.ball.curvature == 0 else 0.0

    def slack(self, structure: Structure, rows: FloatArray, dual: FloatArray) -> float:
        """``d/2 ||p - dual||^2 + (p - dual)'(z - d p)`` for the maximiser p; both terms are >= 0."""
        curvature, radius = self.ball
        norms = structure.group_norms(rows)
        length = np.maximum(norms / radius, curvature)
        shrink = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
        best = rows * np.repeat(shrink, np.diff(structure.group_ptr))
        off = best - dual
        return 0.5 * curvature * float(off @ off) + float(off @ (rows - curvature * best))

    def dual_point(self, structure: Structure, rows: FloatArray, mu: float) -> FloatArray:
        """Projection of ``z / (d + mu)``; a penalty with unbounded dual variable is not smoothed."""
        return self.project(structure, rows / (self.ball.curvature + self._smoothing(mu)))

    def smoothed_lipschitz(self, mu: float) -> float:
        """``1 / (d + mu)``."""
        return 1.0 / (self.ball.curvature + self._smoothing(mu))

    def _smoothing(self, mu: float) -> float:
        return mu if self.ball.is_bounded else 0.0

    def in_units(self, unit: float) -> StructuredPenalty:
        """Return the penalty with the curvature ``unit * d``, unless it is quadratic or homogeneous."""
        curvature, radius = self.ball
        if self.quadratic or curvature == 0:
            return self
        return _Ball(DualBall(unit * curvature, radius))

    def value_at(self, structure: Structure, v: FloatArray) -> float:
        """``h(Av)``, in one compiled pass."""
        if on_gpu(v):
            return exact_shares_on_gpu(structure, self, v=v).structured_value
        return structured_shares(structure, v, None, self.ball)[0]

    def value_and_slack(self, structure: Structure, v: FloatArray, dual: FloatArray) -> tuple[float, float]:
        """``h(Av)`` and the slack, in one compiled pass."""
        value, slack, largest = structured_shares(structure, v, dual, self.ball)
        self._check_largest(largest)
        return value, slack


@dataclass(frozen=True)
class _Ball(BallPenalty):
    """The penalty of two given numbers."""

    numbers: DualBall

    @property
    def ball(self) -> DualBall:
        """The two numbers."""
        return self.numbers


@dataclass(frozen=True)
class TotalVariation(BallPenalty):
    """``h(z) = sum_g ||z_g||_2``, whose conjugate is 0 on the unit balls (docs/method.md section 3.2).

    Examples
    --------
    >>> from spcatv.problem import TotalVariation
    >>> from spcatv.structure import grid
    >>> chain = grid(3)
    >>> TotalVariation().value(chain, chain.forward([0.0, 1.0, 3.0]))
    3.0
    """

    @property
    def ball(self) -> DualBall:
        """Unit balls, without curvature."""
        return DualBall(0.0, 1.0)


@dataclass(frozen=True)
class GraphNet(BallPenalty):
    """``h(z) = ||z||_2^2``, smooth, with the conjugate ``1/4 ||dual||^2`` (docs/method.md section 3.7).

    Examples
    --------
    >>> from spcatv.problem import GraphNet
    >>> from spcatv.structure import grid
    >>> chain = grid(3)
    >>> GraphNet().value(chain, chain.forward([0.0, 1.0, 3.0]))
    5.0
    """

    @property
    def ball(self) -> DualBall:
        """Curvature 1/2, without bound."""
        return DualBall(0.5, np.inf)


# docs: begin
@dataclass(frozen=True)
class HuberTV(BallPenalty):
    """``h(z) = sum_g huber(||z_g||_2)``, ``huber(t) = t^2 / (2 delta)`` up to delta, then ``t - delta/2``.

    Its conjugate is ``delta/2 ||dual||^2`` on the unit balls. With a small delta it is nearly total
    variation, with a large one nearly quadratic (docs/method.md section 3.10).

    Parameters
    ----------
    delta : float
        > 0: differences below it are smoothed, those above it may jump. In a `LoadingProblem`, and in
        `SPCATV` with `alpha`, in the unit of the operator rows. In `SPCATV` with a `sparsity`, the default,
        in units of the contrast of each component's own map, as `smoothness` is.

    Examples
    --------
    >>> from spcatv.problem import HuberTV
    >>> from spcatv.structure import grid
    >>> chain = grid(3)
    >>> HuberTV(delta=2.0).value(chain, chain.forward([0.0, 1.0, 4.0]))  # 1/4 + 2
    2.25
    """

    delta: float

    def __post_init__(self) -> None:
        if not (np.isfinite(self.delta) and self.delta > 0):
            raise ValueError(f"delta must be a finite number > 0, got {self.delta}")

    @property
    def ball(self) -> DualBall:
        """Unit balls with curvature delta."""
        return DualBall(self.delta, 1.0)


# docs: end


# A value of the parameter `penalty`: a name from the table below, or a penalty of your own.
Penalty = str | StructuredPenalty

# Dataclasses whose fields are numbers, by name: penalties that a model folder can keep.
PENALTY_CLASSES: dict[str, type[Any]] = {
    penalty.__name__: penalty for penalty in (TotalVariation, GraphNet, HuberTV)
}
_BY_NAME: dict[str, StructuredPenalty] = {
    name: PENALTY_CLASSES[kind]() for name, (kind, _) in parameters.PENALTIES.items()
}
PENALTIES: tuple[str, ...] = tuple(_BY_NAME)


def as_penalty(penalty: Penalty) -> StructuredPenalty:
    """Return the penalty of a name, or the penalty itself.

    Parameters
    ----------
    penalty : {"tv", "graphnet"} or StructuredPenalty
        A name, or a penalty.

    Returns
    -------
    StructuredPenalty
        The penalty.

    Examples
    --------
    >>> from spcatv.problem import HuberTV, as_penalty
    >>> as_penalty("tv"), as_penalty(HuberTV(delta=0.1))
    (TotalVariation(), HuberTV(delta=0.1))
    """
    if isinstance(penalty, StructuredPenalty):
        return penalty
    if not (isinstance(penalty, str) and penalty in _BY_NAME):
        raise ValueError(
            f"unknown penalty {penalty!r}; choose one of {', '.join(PENALTIES)}, or give a StructuredPenalty"
        )
    return _BY_NAME[penalty]
