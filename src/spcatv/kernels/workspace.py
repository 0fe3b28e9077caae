"""Workspaces: the state of the primal-dual iteration in a memory layout.

A `Workspace` holds v, the dual variable and y as arrays laid out for one kind of structure. It iterates, and
computes the shares of the exact gap (docs/method.md sections 3.3 and 3.6). The solver chooses step sizes and
when to stop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.kernels.vectors import clipped
from spcatv.structure import ConcatStructure, Structure
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

    ``gap_v = structured_v + smooth_v``, and the dual objective is ``scale - w_squared - conjugate`` with
    ``conjugate = c h*(dual)``.
    """

    structured_v: float
    smooth_v: float
    gap_w: float
    w_squared: float
    conjugate: float

    @property
    def gap_v(self) -> float:
        """Exact gap of the iterate v."""
        return self.structured_v + self.smooth_v


class ExactShares(NamedTuple):
    """Shares of the exact gap of a candidate, in float64, whatever the precision of the state."""

    pull: FloatArray  # ``c A'dual``, shape (n_features,)
    structured_value: float  # ``c h(Ax)``
    structured_gap: float  # ``c ( h(Ax) + h*(dual) - dual'Ax )``
    conjugate: float  # ``c h*(dual)``


class Workspace(ABC):
    """State and moves of the primal-dual iteration for one structure, one precision and one penalty.

    `dtype` is the precision of the state. A subclass has `_y`, `_v`, `_w` (the minimiser of the last look)
    and `_dual` in its memory layout.
    """

    _y: Any
    _v: Any
    _w: Any
    _dual: Any

    def __init__(self, structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        self._structure, self._terms = structure, terms
        self.dtype: np.dtype[Any] = np.dtype(dtype)

    @abstractmethod
    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations."""

    @abstractmethod
    def _look(self) -> tuple[float, ...]:
        """Compute w; return the smooth share of v, ``||w||^2``, the slacks of v and w, and ``h*(dual)``."""

    @abstractmethod
    def _exact(self, use_minimizer: bool) -> tuple[FloatArray, float, float, float]:
        """Project the dual variable; return ``c A'dual``, ``h(Ax)``, its slack and ``h*(dual)``."""

    def _write(self, name: str, values: FloatArray) -> None:
        """Fill `_y`, `_v` or `_dual` from a vector in the order of the structure."""
        getattr(self, name)[...] = values

    def _read(self, name: str, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        """Return a copy of `_v`, `_w` or `_dual` in the order of the structure."""
        values: FloatArray = getattr(self, name).astype(dtype)
        return values

    def set_target(self, y: FloatArray) -> None:
        """Take a new y (shape (n_features,)); v and the dual variable stay."""
        self._write("_y", y)

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k of the terms; v and the dual variable stay."""
        self._terms = self._terms._replace(coupling=coupling, threshold=threshold)

    def set_state(self, v: FloatArray, dual: FloatArray) -> None:
        """Take v (n_features,) and a dual variable (n_rows,)."""
        self._write("_v", v)
        self._write("_dual", dual)

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        self.set_state(np.zeros(self._structure.n_features), np.zeros(self._structure.n_rows))

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w for the present dual variable, which must be feasible."""
        coupling = self._terms.coupling
        smooth, squares, slack_v, slack_w, conjugate = self._look()
        return GapShares(coupling * slack_v, smooth, coupling * slack_w, squares, coupling * conjugate)

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the gap of v, or of the w of the last `gap_shares`, in float64.

        Groups of the dual variable that rounding has left outside of their balls are pulled back, so
        that `get_dual` returns a variable that is feasible to the last digit.
        """
        coupling = self._terms.coupling
        pull, value, slack, conjugate = self._exact(use_minimizer)
        return ExactShares(pull, coupling * value, coupling * slack, coupling * conjugate)

    def get_v(self) -> FloatArray:
        """Return the iterate v, shape (n_features,), as float64."""
        return self._read("_v")

    def get_w(self) -> FloatArray:
        """Return the minimiser w of the last `gap_shares`, shape (n_features,), as float64."""
        return self._read("_w")

    def get_dual(self) -> FloatArray:
        """Return the dual variable in the order of ``structure.matrix``, shape (n_rows,), in `dtype`."""
        return self._read("_dual", self.dtype)


class CPUWorkspace(Workspace):
    """Shares of the gap from passes over the state; a subclass has the passes for its memory layout."""

    @abstractmethod
    def _smooth(self) -> tuple[float, ...]:
        """Compute w; return the smooth share of the gap of v, and ``||w||^2``."""

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

    def _look(self) -> tuple[float, ...]:
        smooth = self._smooth()
        return (*smooth, *self._structured(self.dtype, 2), self._conjugate())

    def _exact(self, use_minimizer: bool) -> tuple[FloatArray, float, float, float]:
        self._project()
        sums = self._structured(np.dtype(np.float64), 4)
        return self._pull(), sums[2 + use_minimizer], sums[use_minimizer], self._conjugate()


class ReferenceWorkspace(CPUWorkspace):
    """Workspace over the methods of any structure and any penalty, by NumPy in float64 throughout.

    It serves penalties without a compiled kernel, and tests of the compiled ones.

    Vectors may lie on a GPU; those returned are made by `asarray`.
    """

    def __init__(
        self, structure: Structure, terms: LoadingTerms, *, asarray: Callable[[Any], Any] = np.asarray
    ) -> None:
        super().__init__(structure, terms, np.float64)
        self._asarray = asarray
        self._y, self._v, self._w = np.zeros((3, structure.n_features))
        self._dual = np.zeros(structure.n_rows)

    def _write(self, name: str, values: FloatArray) -> None:
        super()._write(name, to_host(values))

    def _read(self, name: str, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        values: FloatArray = self._asarray(super()._read(name))
        return values

    def _removed(self, z: FloatArray, step: float) -> FloatArray:
        return clipped(z, step * self._terms.threshold, self._terms.positive)

    def _host_pull(self) -> FloatArray:
        return self._terms.coupling * self._structure.adjoint(self._dual)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations."""
        tau, sigma, rho = steps
        for _ in range(n_iter):
            moved = self._v + tau * (self._y - self._host_pull())
            candidate = (moved - self._removed(moved, tau)) / (1 + 2 * tau)
            extrapolated = 2 * candidate - self._v
            self._v = self._v + rho * (candidate - self._v)
            moved_dual = self._dual + sigma * self._structure.forward(extrapolated)
            target = self._terms.penalty.dual_step(self._structure, moved_dual, sigma)
            self._dual = self._dual + rho * (target - self._dual)

    def _smooth(self) -> tuple[float, ...]:
        z = self._y - self._host_pull()
        b = self._removed(z, 1.0)
        self._w = 0.5 * (z - b)
        smooth = ((self._v - self._w) ** 2 + self._terms.threshold * np.abs(self._v) - b * self._v).sum()
        return float(smooth), float(self._w @ self._w)

    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        structure, penalty = self._structure, self._terms.penalty
        rows = [structure.forward(x) for x in (self._v, self._w)]
        slacks = [penalty.slack(structure, one, self._dual) for one in rows]
        return (*slacks, *(penalty.value(structure, one) for one in rows))[:n_sums]

    def _project(self) -> None:
        self._dual = self._terms.penalty.project(self._structure, self._dual)

    def _pull(self) -> FloatArray:
        pull: FloatArray = self._asarray(self._host_pull())
        return pull

    def _conjugate(self) -> float:
        return self._terms.penalty.conjugate(self._structure, self._dual)


class ConcatWorkspace(Workspace):
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
        super().__init__(structure, terms, dtype)
        self._parts = [make(part, terms, dtype) for part in structure.parts]
        self._features = np.cumsum([part.n_features for part in structure.parts])[:-1].tolist()
        self._rows = np.cumsum([part.n_rows for part in structure.parts])[:-1].tolist()

    def _write(self, name: str, values: FloatArray) -> None:
        pieces = np.split(values, self._rows if name == "_dual" else self._features)
        for part, piece in zip(self._parts, pieces, strict=True):
            part._write(name, piece)

    def _read(self, name: str, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        return np.concatenate([part._read(name, dtype) for part in self._parts])

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k."""
        super().set_weights(coupling, threshold)
        for part in self._parts:
            part.set_weights(coupling, threshold)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on every part."""
        for part in self._parts:
            part.advance(n_iter, steps)

    def _look(self) -> tuple[float, ...]:
        return tuple(np.sum([part._look() for part in self._parts], axis=0).tolist())

    def _exact(self, use_minimizer: bool) -> tuple[FloatArray, float, float, float]:
        pulls, values, slacks, conjugates = zip(*(p._exact(use_minimizer) for p in self._parts), strict=True)
        return np.concatenate(pulls), sum(values), sum(slacks), sum(conjugates)
