"""Loading problem: its value, its dual, and its exact gap, the only judge of every solver.

This is docs/method.md section 3. With the scores u fixed, and after division by l2, a loading
vector minimises

    F(v) = 1/2 ||v - y||^2 + 1/2 ||v||^2 + c h(A v) + k ||v||_1          (v >= 0 if `positive`)

and h is a structured penalty: "tv", ``h(z) = sum_g ||z_g||_2``, "graphnet", ``h(z) = ||z||_2^2``, or another.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import as_vector, beside, frozen, on_gpu, to_host
from spcatv._util.types import FloatArray
from spcatv.kernels.cuda.workspaces import exact_shares_on_gpu
from spcatv.kernels.duality_gap import smooth_shares
from spcatv.kernels.vectors import clipped, squared_length
from spcatv.problem.composite import CompositeProblem, ElasticNet, GapKind
from spcatv.problem.penalties import GraphNet, Penalty, as_penalty
from spcatv.structure import Structure
from spcatv.structure.penalty import StructuredPenalty


@dataclass(frozen=True, eq=False)
class Certificate:
    """Everything that the gap of a loading vector and a dual variable needs, except y.

    Problems that differ in y alone share it: `LoadingProblem.judge` adds the rest.

    Attributes
    ----------
    v : ndarray of shape (n_features,)
        Loading vector.
    pull : ndarray of shape (n_features,)
        ``c A'alpha`` for the feasible dual variable alpha.
    penalty : float
        ``c h(Av) + k ||v||_1``; infinite where `positive` forbids v.
    structured_gap : float
        ``c ( h(Av) + h*(alpha) - alpha'Av )``.
    conjugate : float
        ``c h*(alpha)``; 0 for the penalty "tv".

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
    >>> certificate = problem.certificate([1.0, 1.0], [0.0])
    >>> certificate.penalty, certificate.structured_gap
    (2.0, 0.0)
    """

    v: FloatArray
    pull: FloatArray
    penalty: float
    structured_gap: float
    conjugate: float


@dataclass(frozen=True)
class Judgement:
    """Objective ``F(v)`` and exact gap ``F(v) - D(alpha)`` of a certificate for one y.

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
    >>> problem.judge(problem.certificate([1.25, 0.75], [-1.0]))  # the best point
    Judgement(value=7.875, gap=0.0)
    """

    value: float
    gap: float


@dataclass(frozen=True, eq=False)
class LoadingProblem(CompositeProblem):
    """``min_v 1/2 ||v - y||^2 + 1/2 ||v||^2 + tv * h(A v) + l1 * ||v||_1``, strongly convex with modulus 2.

    Parameters
    ----------
    y : array-like of shape (n_features,)
        ``X'u / (N l2)``.
    structure : Structure or anything `as_structure` takes
        What "neighbour" means; ``None`` for no structured penalty.
    l1 : float, default=0
        ``k = l1 / l2``.
    tv : float, default=0
        ``c = ltv / l2``.
    positive : bool, default=False
        Whether v is kept non-negative.
    penalty : {"tv", "graphnet"} or StructuredPenalty, default="tv"
        ``h(z) = sum_g ||z_g||_2``, ``h(z) = ||z||_2^2``, or a penalty of one's own.

    Examples
    --------
    >>> from spcatv.problem import LoadingProblem
    >>> from spcatv.solvers import solve
    >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
    >>> problem.structured_penalty, problem.scale(), problem.modulus
    (TotalVariation(), 10.0, 2.0)
    >>> solve(problem, tol=1e-10).v.round(4)
    array([1.25, 0.75])

    The dual variable -1 certifies this answer, and any other loading vector:

    >>> problem.value([1.25, 0.75]), problem.dual([0.0]), problem.dual([-1.0])
    (7.875, 7.5, 7.875)
    >>> problem.minimizer([-1.0]), problem.gap([1.25, 0.75], [-1.0]), problem.gap([1.0, 1.0], [-1.0])
    (array([1.25, 0.75]), 0.0, 0.125)
    >>> round(problem.error_bound([1.0, 1.0], [-1.0]), 4)  # the distance is 0.3536
    0.3536

    Problems that differ in y alone share certificates:

    >>> certificate = problem.certificate([1.25, 0.75], [-1.0])
    >>> certificate.pull, problem.judge(certificate)
    (array([ 0.5, -0.5]), Judgement(value=7.875, gap=0.0))
    >>> problem.judge(problem.zero_certificate(certificate)).gap
    2.125

    FISTA and CONESTA use these members, and `on_host` where y may lie on a GPU:

    >>> v = problem.on_host().minimizer([-1.0])
    >>> problem.gradient(v), problem.lipschitz(), problem.prox(v, 0.5)
    (array([-1.5, -0.5]), 2.0, array([0.75, 0.25]))
    >>> problem.smooth_gap(v, certificate.pull), problem.conjugate([-1.0])
    (0.0, 0.0)
    """

    y: FloatArray
    structure: Structure
    l1: float = 0.0
    tv: float = 0.0
    positive: bool = False
    penalty: Penalty = "tv"
    _squared_length: float = field(init=False, repr=False)  # of y

    def __post_init__(self) -> None:
        y = as_vector(self.y)
        if not on_gpu(y) and y.flags.writeable:
            y = y.copy()
        if y.ndim != 1:
            raise ValueError(f"y must be a vector with one entry per feature; got shape {y.shape}")
        # a sum of squares is quicker than a test of every entry; where it overflows, all may still be finite
        squares = squared_length(y)
        bad = 0 if np.isfinite(squares) else int((~np.isfinite(y)).sum())
        if bad:
            raise ValueError(f"y has {bad} NaN or infinite entries of {y.size}; all must be finite")
        self._check_structure(y.size, "y has {} entries")
        if not (np.isfinite(self.l1) and self.l1 >= 0):
            raise ValueError(f"l1 must be a finite number >= 0, got {self.l1}")
        as_penalty(self.penalty)  # raises if there is no such penalty
        for name, value in (("y", frozen(y)), ("l1", float(self.l1)), ("_squared_length", squares)):
            object.__setattr__(self, name, value)

    @property
    def structured_penalty(self) -> StructuredPenalty:
        """The function h."""
        return as_penalty(self.penalty)

    @property
    def modulus(self) -> float:
        """Strong convexity of F: 2."""
        return 2.0

    def _loading(self, v: npt.ArrayLike) -> FloatArray:
        """Return v as a float64 vector; compiled loops do not check its length."""
        vector = beside(as_vector(v), self.y)
        if vector.shape != self.y.shape:
            raise ValueError(f"v must have shape {self.y.shape}, one entry per feature; got {vector.shape}")
        return vector

    def on_host(self) -> LoadingProblem:
        """Return the problem with y in the memory of the machine: itself, if y is there already."""
        return replace(self, y=to_host(self.y)) if on_gpu(self.y) else self

    def scale(self) -> float:
        """``1/2 ||y||^2 = F(0)``, the unit of a relative gap."""
        return 0.5 * self._squared_length

    def value(self, v: npt.ArrayLike) -> float:
        """``F(v)`` for v of shape (n_features,); infinite where `positive` forbids v."""
        v = self._loading(v)
        if self.positive and (v < 0).any():
            return float("inf")
        residual = v - self.y
        smooth = 0.5 * float(residual @ residual) + 0.5 * float(v @ v)
        return smooth + self.structured_value(v) + self.l1 * float(np.abs(v).sum())

    def minimizer(self, alpha: npt.ArrayLike) -> FloatArray:
        """``v(alpha) = S(y - c A'alpha, k) / 2``: the best v (n_features,) for a dual variable (n_rows,)."""
        z = self.y - self._pull_at(alpha)
        return 0.5 * (z - clipped(z, self.l1, self.positive))

    def _pull_at(self, alpha: npt.ArrayLike) -> FloatArray:
        """``c A'alpha`` where y lies."""
        if on_gpu(alpha) and self.has_structure:
            # without a bound: the dual variable is not projected
            return self.tv * exact_shares_on_gpu(self.structure, GraphNet(), dual=alpha).pull
        return beside(self.dual_pull(self._checked_dual(alpha)), self.y)

    def certificate(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> Certificate:
        """Compute everything that the gap of v and a feasible dual variable (n_rows,) needs except y."""
        v, dual = self._loading(v), self._checked_dual(alpha)
        value, slack = self.structured_penalty.value_and_slack(self.structure, to_host(v), dual)
        forbidden = self.positive and bool((v < 0).any())
        return Certificate(
            v=v,
            pull=self._pull_at(dual),
            penalty=np.inf if forbidden else self.tv * value + self.l1 * float(np.abs(v).sum()),
            structured_gap=np.inf if forbidden else self.tv * slack,
            conjugate=self.conjugate(dual),
        )

    def conjugate(self, alpha: npt.ArrayLike) -> float:
        """``c h*(alpha)`` of a feasible dual variable; 0 for the penalty "tv"."""
        return self.tv * self.structured_penalty.conjugate(self.structure, self._checked_dual(alpha))

    def zero_certificate(self, certificate: Certificate) -> Certificate:
        """Return what the dual variable of any certificate certifies for ``v = 0``."""
        nothing = np.zeros_like(certificate.v)
        return replace(certificate, v=nothing, penalty=0.0, structured_gap=certificate.conjugate)

    def judge(self, certificate: Certificate) -> Judgement:
        """Return the objective and the exact gap of a certificate, which may come from another y.

        The gap is a sum of terms that are each >= 0 (docs/method.md section 3.3), so it stays accurate where
        ``value(v) - dual(alpha)`` would lose its digits.
        """
        share, smooth = smooth_shares(self.y, certificate.pull, certificate.v, self.l1, self.positive)
        total = share + certificate.structured_gap
        # rounding may leave -1e-20 where the truth is 0; NaN must stay NaN
        gap = total if np.isnan(total) else max(total, 0.0)
        return Judgement(value=smooth + certificate.penalty, gap=gap)

    def dual(self, alpha: npt.ArrayLike) -> float:
        """``D(alpha) = 1/2 ||y||^2 - 1/4 ||S(y - c A'alpha, k)||^2 - c h*(alpha)``, at most min F."""
        dual = self._checked_dual(alpha)
        self.structured_penalty.check_feasible(self.structure, dual)
        w = self.minimizer(dual)
        return self.scale() - float(w @ w) - self.conjugate(dual)

    def smooth_gap(self, v: FloatArray, pull: FloatArray, kind: GapKind = "tight") -> float:
        """Primal share q of the gap: how far v is from the minimiser for the pull ``c A'alpha``.

        "tight" is the smallest for a dual variable alpha. "paper" fixes the dual variable of the loss as
        well, to ``v - y``; it is never smaller, and it is the gap that drives CONESTA in the paper
        (docs/method.md section 3.5).
        """
        if kind == "tight":
            return ElasticNet(self.l1, 2.0, self.positive).fenchel_gap(v, self.y - pull)
        return ElasticNet(self.l1, 1.0, self.positive).fenchel_gap(v, self.y - v - pull)

    def gap(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """Exact gap ``F(v) - D(alpha) >= F(v) - min F >= ||v - v*||^2`` of a feasible dual variable."""
        return self.judge(self.certificate(v, alpha)).gap

    def gradient(self, v: FloatArray) -> FloatArray:
        """``2v - y``, the gradient of the two quadratic terms; shape (n_features,)."""
        return 2.0 * v - self.y

    def lipschitz(self) -> float:
        """Lipschitz constant of `gradient`: 2."""
        return 2.0

    def prox(self, v: FloatArray, step: float) -> FloatArray:
        """``S(v, step * k)``, the proximal operator of the l1 norm (and of ``v >= 0``)."""
        return v - clipped(v, step * self.l1, self.positive)
