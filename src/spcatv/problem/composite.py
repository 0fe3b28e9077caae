"""Smooth loss + penalty with a known proximal operator + structured penalty: what FISTA and CONESTA need.

This is docs/method.md sections 3.4 and 3.8. A problem of the form

    F(v) = L(v) + g(v) + c s(v),      s(v) = sum_g ||A_g v||_2

is passed to the generic solvers as a `CompositeProblem`: a smooth part with its gradient and Lipschitz
constant, a proximal operator for the rest, and the two shares of a duality gap. The loading problem
(`spcatv.problem.LoadingProblem`) is one; `RegularizedLoss` combines any loss with any such penalty.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.kernels.vectors import clipped
from spcatv.problem.penalties import TotalVariation
from spcatv.structure import Structure, as_structure
from spcatv.structure.penalty import StructuredPenalty

GapKind = Literal["tight", "paper"]
GAP_KINDS: tuple[GapKind, ...] = ("tight", "paper")


class CompositeProblem(ABC):
    """Base class of problems that `fista` and `conesta` solve and certify.

    The structured penalty is ``c h(Av)``; ``alpha`` (n_rows,) is its dual variable and
    ``pull = c A'alpha`` (n_features,) is its pull on v. A subclass defines `structure`, `tv` and the abstract
    methods.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem import LoadingProblem
    >>> from spcatv.problem.composite import CompositeProblem
    >>> problem: CompositeProblem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
    >>> v, alpha = np.array([1.25, 0.75]), problem.feasible([-3.0])
    >>> problem.has_structure, alpha, problem.dual_pull(alpha)
    (True, array([-1.]), array([ 0.5, -0.5]))
    >>> problem.structured_value(v), problem.structured_gap(v, alpha)
    (0.25, 0.0)
    >>> problem.dual_point(problem.structure.forward(v), mu=1.0), round(problem.structured_lipschitz(1.0), 6)
    (array([-0.5]), 1.0)
    >>> problem.smoothing_constant(), problem.smoothing_error(mu=1.0)
    (0.5, 0.25)
    """

    structure: Structure  # the operator A and its groups
    tv: float  # the weight c

    @property
    @abstractmethod
    def structured_penalty(self) -> StructuredPenalty:
        """The function h."""

    @property
    def modulus(self) -> float:
        """Strong convexity m of F: ``F - m/2 ||.||^2`` is convex; 0 if there is none."""
        return 0.0

    def _check_structure(self, n_features: int, other: str) -> None:
        """Convert `structure` to one of so many features, and `tv` to a weight; `other` has the features."""
        structure: Any = self.structure  # whatever as_structure takes
        if not isinstance(structure, Structure):
            structure = as_structure(structure, n_features=n_features)
        if structure.n_features != n_features:
            raise ValueError(
                f"the structure has {structure.n_features} features but {other.format(n_features)}"
            )
        if not (np.isfinite(self.tv) and self.tv >= 0):
            raise ValueError(f"tv must be a finite number >= 0, got {self.tv}")
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "tv", float(self.tv))

    @property
    def has_structure(self) -> bool:
        """Return whether ``c h(Av)`` can differ from 0; if not, a loading problem has a closed form."""
        return self.tv > 0 and self.structure.norm_squared() > 0

    def structured_value(self, v: FloatArray) -> float:
        """``c h(A v)``."""
        if not self.has_structure:
            return 0.0
        return self.tv * self.structured_penalty.value_at(self.structure, v)

    def structured_gap(self, v: FloatArray, alpha: FloatArray) -> float:
        """Dual share of the gap, ``s = c ( h(Av) + h*(alpha) - alpha'Av )``."""
        if not self.has_structure:
            return 0.0
        return self.tv * self.structured_penalty.slack(self.structure, self.structure.forward(v), alpha)

    def _checked_dual(self, alpha: npt.ArrayLike) -> FloatArray:
        """Return a dual variable as a float64 vector; compiled loops do not check its length."""
        dual = np.asarray(to_host(alpha), dtype=np.float64)
        if dual.shape != (self.structure.n_rows,):
            raise ValueError(
                f"alpha must have shape ({self.structure.n_rows},), one entry per row of the operator; got "
                f"{dual.shape}"
            )
        return dual

    def feasible(self, alpha: npt.ArrayLike) -> FloatArray:
        """Return the closest feasible dual variable, shape (n_rows,)."""
        return self.structured_penalty.project(self.structure, self._checked_dual(alpha))

    def dual_pull(self, alpha: npt.ArrayLike) -> FloatArray:
        """``c A'alpha``, how the dual variable pulls on v; shape (n_features,)."""
        if not self.has_structure:
            return np.zeros(self.structure.n_features)
        return self.tv * self.structure.adjoint(np.asarray(alpha, dtype=np.float64))

    def dual_point(self, rows: FloatArray, mu: float) -> FloatArray:
        """``alpha_mu``, the maximiser of ``alpha'z - h*(alpha) - mu/2 ||alpha||^2`` at ``z = A v``."""
        return self.structured_penalty.dual_point(self.structure, rows, mu)

    def structured_lipschitz(self, mu: float) -> float:
        """Lipschitz constant of ``v -> c A'alpha_mu(v)``, such as ``c ||A||^2 / mu``."""
        if not self.has_structure:
            return 0.0
        return self.tv * self.structure.norm_squared() * self.structured_penalty.smoothed_lipschitz(mu)

    def smoothing_constant(self) -> float:
        """M of the penalty: smoothing with mu changes h by at most ``mu M``; 0 where nothing is smoothed."""
        return self.structured_penalty.smoothing_constant(self.structure) if self.has_structure else 0.0

    def smoothing_error(self, mu: float) -> float:
        """``c mu M``: by how much F and its smoothed version may differ."""
        return self.tv * mu * self.smoothing_constant()

    @abstractmethod
    def value(self, v: npt.ArrayLike) -> float:
        """``F(v)``, exact (not smoothed)."""

    def scale(self) -> float:
        """``F(0)``, the unit of a relative gap."""
        return self.value(np.zeros(self.structure.n_features))

    @abstractmethod
    def gradient(self, v: FloatArray) -> FloatArray:
        """Gradient of the smooth part, without the structured penalty; shape (n_features,)."""

    @abstractmethod
    def lipschitz(self) -> float:
        """Lipschitz constant of `gradient`."""

    @abstractmethod
    def prox(self, v: FloatArray, step: float) -> FloatArray:
        """``argmin_x 1/2 ||x - v||^2 + step * (the part with a proximal operator)(x)``."""

    @abstractmethod
    def smooth_gap(self, v: FloatArray, pull: FloatArray, kind: GapKind = "tight") -> float:
        """Share q of the gap: Fenchel-Young gap of everything but the structured penalty at ``-pull``."""

    def gap(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """``q + s >= F(v) - min F``: the exact gap, the judge of every solver; infinite where F is."""
        v, dual = np.asarray(v, dtype=np.float64), self._checked_dual(alpha)
        self.structured_penalty.check_feasible(self.structure, dual)
        if self.value(v) == np.inf:
            return float("inf")
        total = self.smooth_gap(v, self.dual_pull(dual)) + self.structured_gap(v, dual)
        return total if np.isnan(total) else max(total, 0.0)

    def error_bound(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """``sqrt(2 gap / m) >= ||v - v*||_2``, m the strong convexity of F; infinite if m = 0."""
        return float(np.sqrt(2.0 * self.gap(v, alpha) / self.modulus)) if self.modulus > 0 else float("inf")


class SmoothLoss(Protocol):
    """A convex loss ``L(v) = l(Bv)`` with a Lipschitz gradient.

    That is all: the conjugate cancels out of the gap, because
    ``L(v) + l*(grad l(Bv)) = v'grad L(v)`` (docs/method.md section 3.8).

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem.composite import LeastSquares, SmoothLoss
    >>> loss: SmoothLoss = LeastSquares([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    >>> loss.n_features, loss.value(np.zeros(2)), loss.lipschitz()
    (2, 1.25, 2.0)
    """

    @property
    def n_features(self) -> int:
        """Length of v."""

    def value(self, v: FloatArray, /) -> float:
        """``L(v)``."""

    def gradient(self, v: FloatArray, /) -> FloatArray:
        """``grad L(v)``, shape (n_features,)."""

    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient."""


class ProxPenalty(Protocol):
    """A convex penalty g with a proximal operator and a conjugate that is finite everywhere.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem.composite import ElasticNet, ProxPenalty
    >>> penalty: ProxPenalty = ElasticNet(l1=1.0, l2=0.5)
    >>> penalty.modulus, penalty.fenchel_gap(np.array([2.0]), np.array([2.0]))
    (0.5, 0.0)
    """

    @property
    def modulus(self) -> float:
        """Strong convexity m of g: ``g - m/2 ||.||^2`` is convex; 0 if there is none."""

    def value(self, v: FloatArray, /) -> float:
        """``g(v)``."""

    def prox(self, v: FloatArray, step: float, /) -> FloatArray:
        """``argmin_x 1/2 ||x - v||^2 + step * g(x)``."""

    def conjugate(self, z: FloatArray, /) -> float:
        """``g*(z) = max_v v'z - g(v)``."""

    def fenchel_gap(self, v: FloatArray, z: FloatArray, /) -> float:
        """``g(v) + g*(z) - v'z >= 0``; a penalty that subclasses this may write it without cancellation."""
        return self.value(v) + self.conjugate(z) - float(v @ z)


class LeastSquares:
    """``L(v) = ||Bv - b||^2 / (2 n)``.

    Parameters
    ----------
    B : array-like of shape (n_samples, n_features)
        One row per sample.
    b : array-like of shape (n_samples,)
        What ``Bv`` should be close to.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem.composite import LeastSquares
    >>> loss = LeastSquares([[1.0, 0.0], [0.0, 2.0]], [1.0, 2.0])
    >>> loss.n_features, loss.value(np.zeros(2)), loss.gradient(np.zeros(2)), loss.lipschitz()
    (2, 1.25, array([-0.5, -2. ]), 2.0)
    """

    def __init__(self, B: npt.ArrayLike, b: npt.ArrayLike) -> None:
        self.B = np.array(B, dtype=np.float64)
        self.b = np.array(b, dtype=np.float64)
        if self.B.ndim != 2 or self.b.shape != self.B.shape[:1]:
            raise ValueError(
                "B must be a matrix with one row per sample and b a vector with one entry per sample; got "
                f"shapes {self.B.shape} and {self.b.shape}"
            )
        if not (np.isfinite(self.B).all() and np.isfinite(self.b).all()):
            raise ValueError("B and b must be finite, but hold NaN or infinite entries")
        self._lipschitz = float(np.linalg.norm(self.B, 2)) ** 2 / len(self.B)

    @property
    def n_features(self) -> int:
        """Number of columns of B."""
        return int(self.B.shape[1])

    def value(self, v: FloatArray) -> float:
        """``||Bv - b||^2 / (2 n)``."""
        residual = self.B @ v - self.b
        return float(residual @ residual) / (2 * len(self.B))

    def gradient(self, v: FloatArray) -> FloatArray:
        """``B'(Bv - b) / n``, shape (n_features,)."""
        return np.asarray(self.B.T @ (self.B @ v - self.b)) / len(self.B)

    def lipschitz(self) -> float:
        """``||B||^2 / n``."""
        return self._lipschitz


@dataclass(frozen=True)
class ElasticNet(ProxPenalty):
    """``g(v) = l1 ||v||_1 + l2/2 ||v||^2`` (and ``v >= 0`` if `positive`).

    Parameters
    ----------
    l1 : float
        >= 0.
    l2 : float
        > 0: without it g* is infinite almost everywhere, and so is every gap.
    positive : bool, default=False
        Whether v is kept non-negative.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem.composite import ElasticNet
    >>> penalty = ElasticNet(l1=1.0, l2=0.5)
    >>> penalty.value(np.array([2.0, -1.0])), penalty.modulus
    (4.25, 0.5)
    >>> penalty.prox(np.array([2.5, -1.0]), 1.0), penalty.conjugate(np.array([2.0, 0.0]))
    (array([1., 0.]), 1.0)
    >>> penalty.fenchel_gap(np.array([2.0]), np.array([2.0]))
    0.0
    """

    l1: float
    l2: float
    positive: bool = False

    def __post_init__(self) -> None:
        if not (np.isfinite(self.l1) and self.l1 >= 0):
            raise ValueError(f"l1 must be a finite number >= 0, got {self.l1}")
        if not (np.isfinite(self.l2) and self.l2 > 0):
            raise ValueError(
                f"l2 must be a finite number > 0, got {self.l2}: with l2 = 0 the duality gap is infinite and "
                "certifies nothing; a small l2 such as 1e-3 is enough"
            )

    @property
    def modulus(self) -> float:
        """Strong convexity: l2."""
        return self.l2

    def value(self, v: FloatArray) -> float:
        """``g(v)``; infinite where `positive` forbids v."""
        if self.positive and (v < 0).any():
            return float("inf")
        return self.l1 * float(np.abs(v).sum()) + 0.5 * self.l2 * float(v @ v)

    def prox(self, v: FloatArray, step: float) -> FloatArray:
        """``S(v, step l1) / (1 + step l2)``."""
        return (v - clipped(v, step * self.l1, self.positive)) / (1.0 + step * self.l2)

    def conjugate(self, z: FloatArray) -> float:
        """``||S(z, l1)||^2 / (2 l2)``."""
        kept = z - clipped(z, self.l1, self.positive)
        return float(kept @ kept) / (2 * self.l2)

    def fenchel_gap(self, v: FloatArray, z: FloatArray) -> float:
        """``l2/2 ||v - S(z, l1)/l2||^2 + l1 ||v||_1 - b'v`` with ``b = z - S(z, l1)``: no cancellation."""
        b = clipped(z, self.l1, self.positive)
        distance = v - (z - b) / self.l2
        return 0.5 * self.l2 * float(distance @ distance) + float((self.l1 * np.abs(v) - b * v).sum())


@dataclass(frozen=True, eq=False)
class RegularizedLoss(CompositeProblem):
    """``F(v) = loss(v) + penalty(v) + tv * s(v)`` as a `CompositeProblem`.

    Parameters
    ----------
    loss : SmoothLoss
        Such as `LeastSquares`, or a loss of your own.
    penalty : ProxPenalty
        Such as `ElasticNet`.
    structure : Structure or anything `as_structure` takes
        What "neighbour" means; ``None`` for no structured penalty.
    tv : float, default=0
        Weight of ``s(v) = sum_g ||A_g v||_2``.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.problem.composite import ElasticNet, LeastSquares, RegularizedLoss
    >>> from spcatv.solvers import solve
    >>> B = np.random.default_rng(0).standard_normal((50, 20))
    >>> truth = np.repeat([0.0, 1.0, 0.0], [5, 10, 5])
    >>> loss, penalty = LeastSquares(B, B @ truth), ElasticNet(l1=0.05, l2=0.01)
    >>> problem = RegularizedLoss(loss, penalty, structure=20, tv=0.1)
    >>> np.flatnonzero(solve(problem).v.round(2))
    array([ 5,  6,  7,  8,  9, 10, 11, 12, 13, 14])
    """

    loss: SmoothLoss
    penalty: ProxPenalty
    structure: Structure
    tv: float = 0.0

    def __post_init__(self) -> None:
        self._check_structure(self.loss.n_features, "the loss has {}")

    @property
    def modulus(self) -> float:
        """Strong convexity of the penalty."""
        return self.penalty.modulus

    @property
    def structured_penalty(self) -> StructuredPenalty:
        """``h(z) = sum_g ||z_g||_2``."""
        return TotalVariation()

    def value(self, v: npt.ArrayLike) -> float:
        """``F(v)``."""
        v = np.asarray(v, dtype=np.float64)
        return self.loss.value(v) + self.penalty.value(v) + self.structured_value(v)

    def gradient(self, v: FloatArray) -> FloatArray:
        """Gradient of the loss, shape (n_features,)."""
        return self.loss.gradient(v)

    def lipschitz(self) -> float:
        """Lipschitz constant of `gradient`."""
        return self.loss.lipschitz()

    def prox(self, v: FloatArray, step: float) -> FloatArray:
        """Proximal operator of the penalty."""
        return self.penalty.prox(v, step)

    def smooth_gap(self, v: FloatArray, pull: FloatArray, kind: GapKind = "tight") -> float:
        """``g(v) + g*(z) - v'z`` at ``z = -grad L(v) - c A'alpha``.

        The loss enters only by its gradient, to which its own dual variable is fixed (the paper's
        choice). A tighter gap would need the conjugate of the loss, so both kinds are the same here.
        """
        return self.penalty.fenchel_gap(v, -self.loss.gradient(v) - pull)
