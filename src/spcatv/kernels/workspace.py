"""Workspaces: the state of the primal-dual iteration in a memory layout.

A `Workspace` holds v, the dual variable and y as arrays laid out for one kind of structure. It iterates, and
computes the shares of the exact gap (docs/method.md sections 3.3 and 3.6). The solver chooses step sizes and
when to stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.structure import ConcatStructure
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
    """Shares of the exact gap of a candidate, in float64, whatever the precision of the state."""

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


class CPUWorkspace(ABC):
    """Shares of the gap from passes over the state; a subclass has the passes for its memory layout."""

    _terms: LoadingTerms

    @property
    @abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Precision of the state."""

    @abstractmethod
    def _look(self) -> tuple[float, ...]:
        """Compute w, and return the smooth share of the gap of v, and ``||w||^2``."""

    @abstractmethod
    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        """Return ``h(Ax) + h*(dual) - dual'Ax`` for x = v and x = w, and ``h(Ax)`` of both if `n_sums` is 4.

        They are computed in a precision that is not lower than that of the state.
        """

    @abstractmethod
    def _project(self) -> None:
        """Pull groups of the dual variable back into their balls."""

    @abstractmethod
    def _pull(self) -> FloatArray:
        """Return ``c A'dual`` in float64, shape (n_features,)."""

    @abstractmethod
    def _conjugate(self) -> float:
        """Return ``h*(dual)`` of a feasible dual variable."""

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w."""
        coupling = self._terms.coupling
        smooth, squares = self._look()
        of_v, of_w = self._structured(self.dtype, 2)
        return GapShares(coupling * of_v, smooth, coupling * of_w, squares, coupling * self._conjugate())

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the exact gap in float64, after a projection of the dual variable."""
        coupling = self._terms.coupling
        self._project()
        sums = self._structured(np.dtype(np.float64), 4)
        slack, value = sums[int(use_minimizer)], sums[2 + int(use_minimizer)]
        return ExactShares(self._pull(), coupling * value, coupling * slack, coupling * self._conjugate())


class PlainState:
    """State in plain vectors, in the order of the structure."""

    _y: FloatArray
    _v: FloatArray
    _w: FloatArray
    _dual: FloatArray

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        self._y[:] = y

    def set_state(self, v: FloatArray, dual: FloatArray) -> None:
        """Take v and a dual variable."""
        self._v[:] = v
        self._dual[:] = dual

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        self._v[:] = 0
        self._dual[:] = 0

    def get_v(self) -> FloatArray:
        """Return the iterate v."""
        return self._v.astype(np.float64)

    def get_w(self) -> FloatArray:
        """Return the minimiser w of the last `gap_shares`."""
        return self._w.astype(np.float64)

    def get_dual(self) -> FloatArray:
        """Return the dual variable."""
        return self._dual.copy()


class ConcatWorkspace:
    """Workspaces of the parts of a `ConcatStructure`, which are independent: the operator is block diagonal.

    `make` makes the workspace of a part.
    """

    def __init__(
        self,
        structure: ConcatStructure,
        terms: LoadingTerms,
        dtype: npt.DTypeLike,
        make: Callable[[Any, LoadingTerms, npt.DTypeLike], Workspace],
    ) -> None:
        parts = structure.parts
        self._parts = [make(part, terms, dtype) for part in parts]
        self._features = np.cumsum([part.n_features for part in parts])[:-1].tolist()
        self._rows = np.cumsum([part.n_rows for part in parts])[:-1].tolist()

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the state."""
        return self._parts[0].dtype

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        for part, piece in zip(self._parts, np.split(y, self._features), strict=True):
            part.set_target(piece)

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k."""
        for part in self._parts:
            part.set_weights(coupling, threshold)

    def set_state(self, v: FloatArray, dual: FloatArray) -> None:
        """Take v and a dual variable."""
        pieces = zip(self._parts, np.split(v, self._features), np.split(dual, self._rows), strict=True)
        for part, v_piece, dual_piece in pieces:
            part.set_state(v_piece, dual_piece)

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        for part in self._parts:
            part.clear()

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on every part."""
        for part in self._parts:
            part.advance(n_iter, steps)

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w: the shares of the parts add up."""
        shares = np.array([part.gap_shares() for part in self._parts])
        return GapShares(*(float(total) for total in shares.sum(axis=0)))

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the exact gap in float64."""
        shares = [part.exact_shares(use_minimizer) for part in self._parts]
        return ExactShares(
            np.concatenate([share.pull for share in shares]),
            sum(share.structured_value for share in shares),
            sum(share.structured_gap for share in shares),
            sum(share.conjugate for share in shares),
        )

    def get_v(self) -> FloatArray:
        """Return the iterate v."""
        return np.concatenate([part.get_v() for part in self._parts])

    def get_w(self) -> FloatArray:
        """Return the minimiser w of the last look."""
        return np.concatenate([part.get_w() for part in self._parts])

    def get_dual(self) -> FloatArray:
        """Return the dual variable."""
        return np.concatenate([part.get_dual() for part in self._parts])
