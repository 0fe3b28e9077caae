"""The loading problem: its value, its dual, its exact gap. The only judge of every solver.

This is docs/method.md section 3. With the scores u fixed, and after division by l2, a loading
vector minimises

    F(v) = 1/2 ||v - y||^2 + 1/2 ||v||^2 + c h(A v) + k ||v||_1          (v >= 0 if `positive`)

where ``h(z) = sum_g ||z_g||_2`` (penalty "tv") or ``h(z) = ||z||_2^2`` (penalty "graphnet").
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import ddot

from spcatv._util.types import FloatArray
from spcatv.kernels.base import conjugate
from spcatv.kernels.judge import project_groups, smooth_shares, structured_shares
from spcatv.problem.composite import GapKind
from spcatv.structure import Structure, as_structure

Penalty = Literal["tv", "graphnet"]
PENALTIES: tuple[Penalty, ...] = ("tv", "graphnet")


@dataclass(frozen=True, eq=False)
class Certificate:
    """What the gap of a loading vector and a dual variable needs, but for y.

    Problems that differ in y alone share it: `LoadingProblem.judge` adds the rest.

    Attributes
    ----------
    v : ndarray of shape (n_features,)
        Loading vector.
    pull : ndarray of shape (n_features,)
        ``c A'alpha`` for the dual variable alpha, which is feasible.
    penalty : float
        ``c h(Av) + k ||v||_1``; infinite where `positive` forbids v.
    structured_gap : float
        ``c ( h(Av) + h*(alpha) - alpha'Av )``.
    conjugate : float
        ``c h*(alpha)``: zero but for the penalty "graphnet".
    """

    v: FloatArray
    pull: FloatArray
    penalty: float
    structured_gap: float
    conjugate: float


@dataclass(frozen=True)
class Judgement:
    """Objective ``F(v)`` and exact gap ``F(v) - D(alpha)`` of a certificate for one y."""

    value: float
    gap: float


@dataclass(frozen=True, eq=False)
class LoadingProblem:
    """``min_v 1/2 ||v - y||^2 + 1/2 ||v||^2 + tv * s(v) + l1 * ||v||_1``, strongly convex with modulus 2.

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
    penalty : {"tv", "graphnet"}, default="tv"
        ``s(v) = sum_g ||A_g v||_2`` or ``s(v) = ||A v||_2^2``.
    """

    y: FloatArray
    structure: Structure
    l1: float = 0.0
    tv: float = 0.0
    positive: bool = False
    penalty: Penalty = "tv"

    def __post_init__(self) -> None:
        y = np.asarray(self.y, dtype=np.float64)
        if y.flags.writeable:
            y = y.copy()
        if y.ndim != 1:
            raise ValueError(f"y must be a vector, one entry a feature; got shape {y.shape}")
        # a square is quicker than a look at every entry; where it overflows they may still be finite
        bad = 0 if np.isfinite(ddot(y, y)) else int((~np.isfinite(y)).sum())
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
        if self.penalty not in PENALTIES:
            raise ValueError(f"unknown penalty {self.penalty!r}; choose one of {', '.join(PENALTIES)}")
        y.flags.writeable = False
        object.__setattr__(self, "y", y)
        object.__setattr__(self, "structure", structure)

    def _loading(self, v: npt.ArrayLike) -> FloatArray:
        """V as a float64 vector of the right length: compiled loops do not look twice."""
        vector = np.asarray(v, dtype=np.float64)
        if vector.shape != self.y.shape:
            raise ValueError(f"v must have shape {self.y.shape}, one entry a feature; got {vector.shape}")
        return vector

    def _dual(self, alpha: npt.ArrayLike) -> FloatArray:
        """Alpha as a float64 vector of the right length."""
        vector = np.asarray(alpha, dtype=np.float64)
        if vector.shape != (self.structure.n_rows,):
            raise ValueError(
                f"alpha must have shape ({self.structure.n_rows},), one entry a row of the operator; got "
                f"{vector.shape}"
            )
        return vector

    @property
    def has_structure(self) -> bool:
        """Whether the structured penalty is there at all; without it the answer is a closed form."""
        return self.tv > 0 and self.structure.norm_squared() > 0

    def scale(self) -> float:
        """``1/2 ||y||^2 = F(0)``: what a relative gap is relative to."""
        return 0.5 * float(self.y @ self.y)

    def structured_value(self, rows: FloatArray) -> float:
        """``h(z)`` for ``z = A v``."""
        if self.penalty == "graphnet":
            return float(rows @ rows)
        return float(self.structure.group_norms(rows).sum())

    def value(self, v: npt.ArrayLike) -> float:
        """``F(v)``; infinite where `positive` forbids v."""
        v = self._loading(v)
        if self.positive and (v < 0).any():
            return float("inf")
        residual = v - self.y
        smooth = 0.5 * float(residual @ residual) + 0.5 * float(v @ v)
        structured = self.tv * self.structured_value(self.structure.forward(v)) if self.has_structure else 0.0
        return smooth + structured + self.l1 * float(np.abs(v).sum())

    def dual_pull(self, alpha: npt.ArrayLike) -> FloatArray:
        """``c A'alpha``, what the dual variable takes away from y; shape (n_features,)."""
        if not self.has_structure:
            return np.zeros_like(self.y)
        return self.tv * self.structure.adjoint(np.asarray(alpha, dtype=np.float64))

    def _split(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Cut z into the minimiser ``w`` for the dual point and the l1 subgradient ``b``: z = 2 w + b."""
        b = np.minimum(z, self.l1) if self.positive else np.clip(z, -self.l1, self.l1)
        return 0.5 * (z - b), b

    def minimizer(self, alpha: npt.ArrayLike) -> FloatArray:
        """``v(alpha) = S(y - c A'alpha, k) / 2``: the best v for a fixed dual variable."""
        return self._split(self.y - self.dual_pull(self._dual(alpha)))[0]

    def feasible(self, alpha: npt.ArrayLike) -> FloatArray:
        """Return the closest allowed dual variable: a projection for "tv", anything for "graphnet"."""
        alpha = self._dual(alpha).copy()
        if self.penalty == "tv":
            project_groups(self.structure.group_ptr, 1.0, alpha)
        return alpha

    def _check_feasible(self, largest: float) -> None:
        if self.penalty == "tv" and not largest <= 1 + 1e-9:
            raise ValueError(
                f"alpha is not dual feasible: a group has norm {largest:.6g} > 1; project it first "
                "(LoadingProblem.feasible)"
            )

    def certificate(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> Certificate:
        """Work out what the gap of (v, alpha) needs, for any y; alpha must be feasible."""
        v, alpha = self._loading(v), self._dual(alpha)
        matrix, group_ptr = self.structure.matrix, self.structure.group_ptr
        graphnet = self.penalty == "graphnet"
        value, slack, largest = structured_shares(
            group_ptr, matrix.indptr, matrix.indices, matrix.data, v, alpha, graphnet
        )
        self._check_feasible(largest)
        forbidden = self.positive and bool((v < 0).any())
        return Certificate(
            v=v,
            pull=self.dual_pull(alpha),
            penalty=np.inf if forbidden else self.tv * value + self.l1 * float(np.abs(v).sum()),
            structured_gap=np.inf if forbidden else self.tv * slack,
            conjugate=self.conjugate(alpha),
        )

    def conjugate(self, alpha: FloatArray) -> float:
        """``c h*(alpha)`` of a feasible alpha: 0 for "tv", ``c/4 ||alpha||^2`` for "graphnet"."""
        return conjugate(self.tv, self.penalty == "graphnet", alpha)

    def zero_certificate(self, certificate: Certificate) -> Certificate:
        """What the same dual variable certifies for ``v = 0``."""
        nothing = np.zeros_like(certificate.v)
        return replace(certificate, v=nothing, penalty=0.0, structured_gap=certificate.conjugate)

    def judge(self, certificate: Certificate) -> Judgement:
        """Objective and exact gap of a certificate, which may come from a problem with another y.

        The gap is a sum of terms that are each >= 0 (docs/method.md section 3.3), so that it stays
        accurate where ``value(v) - dual(alpha)`` would lose its digits.
        """
        share, smooth = smooth_shares(self.y, certificate.pull, certificate.v, self.l1, self.positive)
        total = share + certificate.structured_gap
        # rounding may leave -1e-20 where the truth is 0; NaN must stay NaN
        gap = total if np.isnan(total) else max(total, 0.0)
        return Judgement(value=smooth + certificate.penalty, gap=gap)

    def dual(self, alpha: npt.ArrayLike) -> float:
        """``D(alpha) = 1/2 ||y||^2 - 1/4 ||S(y - c A'alpha, k)||^2 [- c/4 ||alpha||^2]``, at most min F."""
        alpha = self._dual(alpha)
        if alpha.size:
            self._check_feasible(float(self.structure.group_norms(alpha).max()))
        w = self.minimizer(alpha)
        return self.scale() - float(w @ w) - self.conjugate(alpha)

    def smooth_gap(self, v: FloatArray, pull: FloatArray, kind: GapKind = "tight") -> float:
        """Primal share of the gap, q: how far v is from the minimiser for the dual pull ``c A'alpha``.

        "tight" is the best that a dual variable alpha allows, ``||v - w||^2 + k ||v||_1 - b'v`` with
        ``z = y - c A'alpha = 2 w + b``. "paper" fixes the dual variable of the loss as well, to
        ``v - y``: ``1/2 ||v - 2 w||^2 + k ||v||_1 - b'v`` with ``z = y - v - c A'alpha = 2 w + b``; it is
        never smaller, and drives CONESTA in the paper (docs/method.md section 3.5).
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

    def structured_gap(self, v: FloatArray, alpha: FloatArray) -> float:
        """Dual share of the gap, ``s = c ( h(Av) + h*(alpha) - alpha'Av )``."""
        if not self.has_structure:
            return 0.0
        rows = self.structure.forward(v)
        if self.penalty == "graphnet":
            mismatch = rows - 0.5 * alpha
            return self.tv * float(mismatch @ mismatch)
        slack = self.structure.group_norms(rows) - np.add.reduceat(
            alpha * rows, self.structure.group_ptr[:-1]
        )
        return self.tv * float(slack.sum())

    def gap(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """Exact duality gap ``F(v) - D(alpha) >= F(v) - min F >= ||v - v*||^2``."""
        return self.judge(self.certificate(v, alpha)).gap

    def error_bound(self, v: npt.ArrayLike, alpha: npt.ArrayLike) -> float:
        """``sqrt(gap) >= ||v - v*||_2``."""
        return float(np.sqrt(self.gap(v, alpha)))

    def gradient(self, v: FloatArray) -> FloatArray:
        """``2v - y``, the gradient of the two quadratic terms; shape (n_features,)."""
        return 2.0 * v - self.y

    def lipschitz(self) -> float:
        """Lipschitz constant of `gradient`: 2."""
        return 2.0

    def prox(self, v: FloatArray, step: float) -> FloatArray:
        """``S(v, step * k)``, the proximal operator of the l1 norm (and of ``v >= 0``)."""
        threshold = step * self.l1
        b = np.minimum(v, threshold) if self.positive else np.clip(v, -threshold, threshold)
        return np.asarray(v - b)

    def dual_point(self, rows: FloatArray, mu: float) -> FloatArray:
        """``alpha_mu = proj_K(z / mu)`` at ``z = A v``; ``2 z`` for "graphnet", which is smooth as it is."""
        return 2.0 * rows if self.penalty == "graphnet" else self.structure.project(rows / mu)

    def structured_lipschitz(self, mu: float) -> float:
        """Lipschitz constant of ``v -> c A'alpha_mu(v)``: ``c ||A||^2 / mu``, or ``2 c ||A||^2``."""
        if not self.has_structure:
            return 0.0
        curvature = 2.0 if self.penalty == "graphnet" else 1.0 / mu
        return self.tv * self.structure.norm_squared() * curvature

    def smoothing_error(self, mu: float) -> float:
        """``c mu M`` with ``M = n_groups / 2``; 0 for "graphnet" and without structure."""
        if not self.has_structure or self.penalty == "graphnet":
            return 0.0
        return 0.5 * self.tv * mu * self.structure.n_groups
