"""Structured penalties: convex functions h of the operator rows ``z = A v``.

A structure defines the differences and their groups; a penalty defines what they cost. The base class is
here, beside `Structure`, because the kernels iterate with a penalty. The penalties themselves are in
`spcatv.problem.penalties`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.structure.base import Structure

# Accept dual variables this far outside of their set as feasible.
FEASIBILITY_SLACK = 1e-9


class DualBall(NamedTuple):
    """Conjugate ``h*(dual) = curvature/2 ||dual||^2`` on groups of norm at most `radius`.

    The compiled kernels compute every penalty with such a conjugate: total variation has (0, 1), Huber-TV
    (delta, 1) and GraphNet (1/2, infinity).

    Parameters
    ----------
    curvature : float
        >= 0.
    radius : float
        > 0; infinite only with a curvature > 0.

    Examples
    --------
    >>> from spcatv.problem import DualBall
    >>> ball = DualBall(curvature=1.0, radius=2.0)
    >>> ball.is_bounded, ball.step_factors(sigma=1.0)
    (True, (0.5, 0.0625))
    >>> ball.value_factors()
    (2.0, 2.0, 0.5, 0.5)
    """

    curvature: float
    radius: float

    @property
    def is_bounded(self) -> bool:
        """Whether the radius is finite."""
        return math.isfinite(self.radius)

    def step_factors(self, sigma: float) -> tuple[float, float]:
        """Return f and r such that a dual step multiplies a group by ``f / max(1, sqrt(r) * norm)``."""
        damping = 1.0 / (1.0 + sigma * self.curvature)
        return damping, (damping / self.radius) ** 2

    def value_factors(self) -> tuple[float, float, float, float]:
        """Return slope, corner, curve and ``curvature/2``.

        A group of norm t costs ``slope * (t - u) + curve * u^2`` with ``u = min(t, corner)``.
        """
        curvature, radius = self
        corner = curvature * radius if curvature > 0 else 0.0
        curve = 0.5 / curvature if curvature > 0 else 0.0
        return radius if self.is_bounded else 0.0, corner, curve, 0.5 * curvature


class StructuredPenalty(ABC):
    """A convex penalty ``h(z) >= 0 = h(0)`` on operator rows ``z = A v`` (docs/method.md section 3.10).

    Its conjugate is ``h*(dual) = max_z dual'z - h(z)``; a dual variable is called feasible if that is finite.
    Write a subclass as a frozen dataclass, so that it can be compared, copied and pickled, and test it with
    `spcatv.testing.check_penalty`.

    Every method takes the `Structure` whose rows are meant, because h may depend on the groups. `rows` and
    `dual` are float64 vectors of shape (n_rows,), which a method must not change.

    Attributes
    ----------
    ball : DualBall or None
        The conjugate, if it has this form: the compiled kernels then compute the penalty. ``None``: the
        NumPy kernel calls the methods below.
    quadratic : bool
        Whether h is homogeneous of degree 2, so that its weight needs no unit.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem import HuberTV, StructuredPenalty
    >>> from spcatv.structure import grid
    >>> penalty, chain = HuberTV(delta=0.5), grid(4)
    >>> isinstance(penalty, StructuredPenalty)
    True
    >>> rows = chain.forward([0.0, 0.0, 1.0, 1.0])
    >>> penalty.value(chain, rows), penalty.dual_point(chain, rows, mu=0.5)
    (0.75, array([0., 1., 0.]))
    """

    @property
    def ball(self) -> DualBall | None:
        """None: the conjugate has no such form."""
        return None

    @property
    def quadratic(self) -> bool:
        """False: h is not homogeneous of degree 2."""
        return False

    @abstractmethod
    def value(self, structure: Structure, rows: FloatArray) -> float:
        """``h(z)``."""

    @abstractmethod
    def conjugate(self, structure: Structure, dual: FloatArray) -> float:
        """``h*(dual)`` of a feasible dual variable."""

    @abstractmethod
    def project(self, structure: Structure, dual: FloatArray) -> FloatArray:
        """Closest feasible dual variable, as a new array of shape (n_rows,)."""

    @abstractmethod
    def dual_step(self, structure: Structure, dual: FloatArray, sigma: float) -> FloatArray:
        """Proximal operator of the conjugate, ``argmin_d 1/2 ||d - dual||^2 + sigma h*(d)``."""

    @abstractmethod
    def smoothing_constant(self, structure: Structure) -> float:
        """M such that ``h_mu <= h <= h_mu + mu M``: the largest ``1/2 ||dual||^2`` of the feasible ones.

        0 where h is smooth already, and `dual_point` and `smoothed_lipschitz` ignore mu.
        """

    @abstractmethod
    def slope_at_zero(self, structure: Structure, rows: FloatArray) -> float:
        """``h(t z) / t`` as t falls to 0: h(z) itself if h is homogeneous, 0 if h is differentiable at 0."""

    def in_units(self, unit: float) -> StructuredPenalty:
        """Return the penalty ``unit * h(z / unit)``, or h itself if it is quadratic.

        `SPCATV` smooths maps in units of their own contrast. This default is right for homogeneous penalties.
        """
        return self

    def slack(self, structure: Structure, rows: FloatArray, dual: FloatArray) -> float:
        """``h(z) + h*(dual) - dual'z >= 0``; a subclass should write it without cancellation."""
        return self.value(structure, rows) + self.conjugate(structure, dual) - float(dual @ rows)

    def dual_point(self, structure: Structure, rows: FloatArray, mu: float) -> FloatArray:
        """Maximiser of ``dual'z - h*(dual) - mu/2 ||dual||^2``, whose maximum is the smoothed ``h_mu(z)``."""
        return self.dual_step(structure, rows / mu, 1.0 / mu)

    def smoothed_lipschitz(self, mu: float) -> float:
        """Lipschitz constant of ``z -> dual_point(z)``, the gradient of ``h_mu``."""
        return 1.0 / mu

    def check_feasible(self, structure: Structure, dual: FloatArray) -> None:
        """Raise a ValueError if the dual variable is not feasible."""
        distance = float(np.abs(self.project(structure, dual) - dual).max(initial=0.0))
        if distance > FEASIBILITY_SLACK:
            raise ValueError(
                f"alpha is not dual feasible: it is {distance:.6g} away from its projection; project it first"
            )

    def value_at(self, structure: Structure, v: FloatArray) -> float:
        """``h(Av)`` of a loading vector, which may lie on a GPU."""
        return self.value(structure, structure.forward(to_host(v)))

    def value_and_slack(self, structure: Structure, v: FloatArray, dual: FloatArray) -> tuple[float, float]:
        """``h(Av)`` and ``h(Av) + h*(dual) - dual'Av`` of a dual variable that is checked to be feasible."""
        self.check_feasible(structure, dual)
        rows = structure.forward(v)
        return self.value(structure, rows), self.slack(structure, rows, dual)
