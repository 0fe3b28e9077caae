"""The loading problem: its value, its dual, its exact gap. The only judge of every solver.

This is docs/method.md section 3. With the scores u fixed, and after division by l2, a loading
vector minimises

    F(v) = 1/2 ||v - y||^2 + 1/2 ||v||^2 + c h(A v) + k ||v||_1          (v >= 0 if `positive`)

and h is a structured penalty: "tv", ``h(z) = sum_g ||z_g||_2``, "graphnet", ``h(z) = ||z||_2^2``, or another.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import as_vector, beside, frozen, on_gpu, to_host
from spcatv._util.types import FloatArray
from spcatv.kernels.cuda.workspaces import adjoint
from spcatv.kernels.duality_gap import smooth_shares
from spcatv.kernels.vectors import squared_length
from spcatv.problem.composite import CompositeProblem, GapKind
from spcatv.problem.penalties import Penalty, as_penalty
from spcatv.structure import Structure, as_structure
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
    >>> problem = LoadingProblem([4.0, 2.0, 0.0], structure=3, l1=1.0, tv=0.5)
    >>> problem.structured_penalty
    TotalVariation()
    >>> solution = solve(problem, tol=1e-10)
    >>> solution.v.round(4)
    array([1.25, 0.5 , 0.  ])
    >>> problem.gap(solution.v, solution.alpha) <= 1e-10 * problem.scale()
    True
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
        structure: Any = self.structure  # whatever as_structure takes
        if not isinstance(structure, Structure):
            structure = as_structure(structure, n_features=y.size)
        if structure.n_features != y.size:
            raise ValueError(f"the structure has {structure.n_features} features but y has {y.size} entries")
        for name in ("l1", "tv"):
            weight = float(getattr(self, name))
            if not (np.isfinite(weight) and weight >= 0):
                raise ValueError(f"{name} must be a finite number >= 0, got {weight}")
            object.__setattr__(self, name, weight)
        as_penalty(self.penalty)  # raises if there is no such penalty
        object.__setattr__(self, "y", frozen(y))
        object.__setattr__(self, "_squared_length", squares)
        object.__setattr__(self, "structure", structure)

    @property
    def structured_penalty(self) -> StructuredPenalty:
        """The function h."""
        return as_penalty(self.penalty)

    def _loading(self, v: npt.ArrayLike) -> FloatArray:
        """Return v as a float64 vector; compiled loops do not check its length."""
        vector = beside(as_vector(v), self.y)
        if vector.shape != self.y.shape:
            raise ValueError(f"v must have shape {self.y.shape}, one entry per feature; got {vector.shape}")
        return vector

    def on_host(self) -> LoadingProblem:
        """Return the problem with y in the memory of the machine.

        Returns
        -------
        LoadingProblem
            The problem itself, if y is there already.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2)
        >>> problem.on_host() is problem
        True
        """
        return replace(self, y=to_host(self.y)) if on_gpu(self.y) else self

    def scale(self) -> float:
        """``1/2 ||y||^2 = F(0)``, the unit of a relative gap.

        Returns
        -------
        float
            The objective of the zero vector.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([3.0, 4.0], structure=None).scale()
        12.5
        """
        return 0.5 * self._squared_length

    def value(self, v: npt.ArrayLike) -> float:
        """``F(v)``; infinite where `positive` forbids v.

        Parameters
        ----------
        v : array-like of shape (n_features,)
            Loading vector.

        Returns
        -------
        float
            The objective.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5).value([1.25, 0.75])
        7.875
        """
        v = self._loading(v)
        if self.positive and (v < 0).any():
            return float("inf")
        residual = v - self.y
        smooth = 0.5 * float(residual @ residual) + 0.5 * float(v @ v)
        return smooth + self.structured_value(v) + self.l1 * float(np.abs(v).sum())

    def _split(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Split z into the minimiser ``w`` for a dual variable and the l1 subgradient ``b``: z = 2 w + b."""
        b = np.minimum(z, self.l1) if self.positive else np.clip(z, -self.l1, self.l1)
        return 0.5 * (z - b), b

    def minimizer(self, alpha: npt.ArrayLike) -> FloatArray:
        """``v(alpha) = S(y - c A'alpha, k) / 2``: the best v for a fixed dual variable.

        Parameters
        ----------
        alpha : array-like of shape (n_rows,)
            Feasible dual variable.

        Returns
        -------
        ndarray of shape (n_features,)
            The loading vector; the solution of the problem if `alpha` is optimal.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5).minimizer([-1.0])
        array([1.25, 0.75])
        """
        return self._split(self.y - self._pull_at(alpha))[0]

    def _pull_at(self, alpha: npt.ArrayLike) -> FloatArray:
        """``c A'alpha`` where y lies."""
        if on_gpu(alpha) and self.has_structure:
            return self.tv * adjoint(self.structure, cast(Any, alpha))
        return beside(self.dual_pull(self._checked_dual(alpha)), self.y)

    def certificate(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> Certificate:
        """Compute everything that the gap of (v, alpha) needs except y; alpha must be feasible.

        Parameters
        ----------
        v : array-like of shape (n_features,)
            Loading vector.
        alpha : array-like of shape (n_rows,)
            Feasible dual variable.

        Returns
        -------
        Certificate
            To be judged by this problem, or by one that differs in y alone.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
        >>> problem.certificate([1.25, 0.75], [-1.0]).pull
        array([ 0.5, -0.5])
        """
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

    def conjugate(self, alpha: FloatArray) -> float:
        """``c h*(alpha)`` of a feasible dual variable.

        Parameters
        ----------
        alpha : ndarray of shape (n_rows,)
            Feasible dual variable.

        Returns
        -------
        float
            0 for the penalty "tv".

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([4.0, 2.0], structure=2, tv=0.5, penalty="graphnet").conjugate(np.array([-2.0]))
        0.5
        """
        return self.tv * self.structured_penalty.conjugate(self.structure, alpha)

    def zero_certificate(self, certificate: Certificate) -> Certificate:
        """Return what the same dual variable certifies for ``v = 0``.

        Parameters
        ----------
        certificate : Certificate
            Of any loading vector.

        Returns
        -------
        Certificate
            Whether zero is the solution is then a matter of `judge`.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=5.0, tv=0.5)
        >>> certificate = problem.certificate([1.0, 1.0], [0.0])
        >>> problem.judge(problem.zero_certificate(certificate))  # l1 is so large that zero is best
        Judgement(value=10.0, gap=0.0)
        """
        nothing = np.zeros_like(certificate.v)
        return replace(certificate, v=nothing, penalty=0.0, structured_gap=certificate.conjugate)

    def judge(self, certificate: Certificate) -> Judgement:
        """Objective and exact gap of a certificate, which may come from a problem with another y.

        The gap is a sum of terms that are each >= 0 (docs/method.md section 3.3), so it stays
        accurate where ``value(v) - dual(alpha)`` would lose its digits.

        Parameters
        ----------
        certificate : Certificate
            From `certificate`.

        Returns
        -------
        Judgement
            The objective and the gap.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
        >>> certificate = problem.certificate([1.25, 0.75], [-1.0])
        >>> problem.judge(certificate).gap
        0.0
        >>> LoadingProblem([4.0, 3.0], structure=2, l1=1.0, tv=0.5).judge(certificate).gap
        0.25
        """
        share, smooth = smooth_shares(self.y, certificate.pull, certificate.v, self.l1, self.positive)
        total = share + certificate.structured_gap
        # rounding may leave -1e-20 where the truth is 0; NaN must stay NaN
        gap = total if np.isnan(total) else max(total, 0.0)
        return Judgement(value=smooth + certificate.penalty, gap=gap)

    def dual(self, alpha: npt.ArrayLike) -> float:
        """``D(alpha) = 1/2 ||y||^2 - 1/4 ||S(y - c A'alpha, k)||^2 - c h*(alpha)``, at most min F.

        Parameters
        ----------
        alpha : array-like of shape (n_rows,)
            Feasible dual variable.

        Returns
        -------
        float
            A lower bound on the objective of every loading vector.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
        >>> problem.dual([0.0]), problem.dual([-1.0])
        (7.5, 7.875)
        """
        dual = self._checked_dual(alpha)
        self.structured_penalty.check_feasible(self.structure, dual)
        w = self.minimizer(dual)
        return self.scale() - float(w @ w) - self.conjugate(dual)

    def smooth_gap(self, v: FloatArray, pull: FloatArray, kind: GapKind = "tight") -> float:
        """Primal share q of the gap: how far v is from the minimiser for the pull ``c A'alpha``.

        "tight" is the smallest for a dual variable alpha, ``||v - w||^2 + k ||v||_1 - b'v`` with
        ``z = y - c A'alpha = 2 w + b``. "paper" fixes the dual variable of the loss as well, to
        ``v - y``: ``1/2 ||v - 2 w||^2 + k ||v||_1 - b'v`` with ``z = y - v - c A'alpha = 2 w + b``; it is
        never smaller, and it is the gap that drives CONESTA in the paper (docs/method.md section 3.5).

        Parameters
        ----------
        v : ndarray of shape (n_features,)
            Loading vector.
        pull : ndarray of shape (n_features,)
            ``c A'alpha``.
        kind : {"tight", "paper"}, default="tight"
            Which gap.

        Returns
        -------
        float
            At least 0.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
        >>> problem.smooth_gap(np.array([1.25, 0.75]), np.array([0.5, -0.5]))
        0.0
        """
        if kind == "tight":
            w, b = self._split(self.y - pull)
            distance = v - w
            quadratic = float(distance @ distance)
        else:
            w, b = self._split(self.y - v - pull)
            distance = v - 2.0 * w
            quadratic = 0.5 * float(distance @ distance)
        return quadratic + float((self.l1 * np.abs(v) - b * v).sum())

    def gap(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """Exact duality gap ``F(v) - D(alpha) >= F(v) - min F >= ||v - v*||^2``.

        Parameters
        ----------
        v : array-like of shape (n_features,)
            Loading vector.
        alpha : array-like of shape (n_rows,)
            Feasible dual variable.

        Returns
        -------
        float
            0 only for a solution and its dual variable.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
        >>> problem.gap([1.25, 0.75], [-1.0]), problem.gap([1.0, 1.0], [-1.0])
        (0.0, 0.125)
        """
        return self.judge(self.certificate(v, alpha)).gap

    def error_bound(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """``sqrt(gap) >= ||v - v*||_2``.

        Parameters
        ----------
        v : array-like of shape (n_features,)
            Loading vector.
        alpha : array-like of shape (n_rows,)
            Feasible dual variable.

        Returns
        -------
        float
            How far v is from the solution v* at most.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> problem = LoadingProblem([4.0, 2.0], structure=2, l1=1.0, tv=0.5)
        >>> round(problem.error_bound([1.0, 1.0], [-1.0]), 4)  # the distance is 0.3536
        0.3536
        """
        return float(np.sqrt(self.gap(v, alpha)))

    def gradient(self, v: FloatArray) -> FloatArray:
        """``2v - y``, the gradient of the two quadratic terms; shape (n_features,).

        Parameters
        ----------
        v : ndarray of shape (n_features,)
            Loading vector.

        Returns
        -------
        ndarray of shape (n_features,)
            The gradient.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([4.0, 2.0], structure=2).gradient(np.array([1.0, 1.0]))
        array([-2.,  0.])
        """
        return 2.0 * v - self.y

    def lipschitz(self) -> float:
        """Lipschitz constant of `gradient`: 2.

        Returns
        -------
        float
            The constant.

        Examples
        --------
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([4.0, 2.0], structure=2).lipschitz()
        2.0
        """
        return 2.0

    def prox(self, v: FloatArray, step: float) -> FloatArray:
        """``S(v, step * k)``, the proximal operator of the l1 norm (and of ``v >= 0``).

        Parameters
        ----------
        v : ndarray of shape (n_features,)
            Any vector.
        step : float
            Step size.

        Returns
        -------
        ndarray of shape (n_features,)
            `v`, soft-thresholded.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv.problem import LoadingProblem
        >>> LoadingProblem([4.0, 2.0], structure=2, l1=1.0).prox(np.array([2.0, -0.3]), 0.5)
        array([1.5, 0. ])
        """
        threshold = step * self.l1
        b = np.minimum(v, threshold) if self.positive else np.clip(v, -threshold, threshold)
        return np.asarray(v - b)
