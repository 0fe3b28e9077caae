"""What a kernel is: the state of the primal-dual iteration in a memory layout of its own.

A `Workspace` holds v, the dual variable and y as arrays laid out for one kind of structure, and
does two things with them: it iterates, and it computes the shares of the exact gap (docs/method.md
sections 3.3 and 3.6). Every decision (step sizes, stopping) stays in the solver.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.structure.penalty import StructuredPenalty


class LoadingTerms(NamedTuple):
    """The terms of a loading problem besides its quadratic ones: ``c h(Av) + k ||v||_1``."""

    coupling: float  # c, the weight of the structured penalty divided by l2
    threshold: float  # k, the weight of the l1 norm divided by l2
    positive: bool  # whether v is kept non-negative
    penalty: StructuredPenalty  # h


class StepSizes(NamedTuple):
    """Primal step tau, dual step sigma, relaxation rho of the primal-dual iteration."""

    tau: float
    sigma: float
    rho: float


class GapShares(NamedTuple):
    """Pieces of the exact gap for the two candidates: the iterate v and the minimiser w of its dual.

    ``gap(v) = structured_v + smooth_v``, ``gap(w) = structured_w``, and the dual objective is
    ``scale - w_squared - conjugate`` with ``conjugate = c h*(dual)``.
    """

    structured_v: float
    smooth_v: float
    structured_w: float
    w_squared: float
    conjugate: float

    @property
    def gap_v(self) -> float:
        """Exact gap of the iterate v."""
        return self.structured_v + self.smooth_v

    @property
    def gap_w(self) -> float:
        """Exact gap of the minimiser w of the dual point."""
        return self.structured_w


class ExactShares(NamedTuple):
    """What the exact gap of a candidate needs, in float64, whatever the precision of the state."""

    pull: FloatArray  # ``c A'dual``, shape (n_features,)
    structured_value: float  # ``c h(Ax)``
    structured_gap: float  # ``c ( h(Ax) + h*(dual) - dual'Ax )``
    conjugate: float  # ``c h*(dual)``


class Workspace(Protocol):
    """State and moves of the primal-dual iteration for one structure, one precision and one penalty."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the state."""

    def set_target(self, y: FloatArray) -> None:
        """Take a new y (shape (n_features,)); v and the dual variable stay."""

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k of the terms; v and the dual variable stay."""

    def set_state(self, v: FloatArray, dual: FloatArray) -> None:
        """Take v (n_features,) and a dual variable (n_rows,)."""

    def clear(self) -> None:
        """Set v and the dual variable to zero."""

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations."""

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w for the present dual variable, which must be feasible."""

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the gap of v, or of the w of the last `gap_shares`, in float64.

        Groups of the dual variable that rounding has left outside of their balls are pulled back, so
        that `get_dual` returns a variable that is feasible to the last digit.
        """

    def get_v(self) -> FloatArray:
        """Return the iterate v, shape (n_features,), as float64."""

    def get_w(self) -> FloatArray:
        """Return the minimiser w of the last `gap_shares`, shape (n_features,), as float64."""

    def get_dual(self) -> FloatArray:
        """Return the dual variable in the order of ``structure.matrix``, shape (n_rows,), in `dtype`."""
