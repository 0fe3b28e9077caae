"""The primal-dual iteration on a GPU: workspaces whose state and vectors are CuPy arrays.

A grid without periodic axes lies in the padded box of the CPU's kernel; every other structure is its sparse
operator. An iteration on a box is one kernel, which reads one copy of the state and writes another; for other
structures it is two, one per feature and one per group. The iterations between two looks at the gap are
recorded once as a CUDA graph, so that all of them are one launch. Gaps are evaluated where the state lies, in
float64.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import gpu_module
from spcatv._util.types import FloatArray
from spcatv.kernels.compiled_workspace import CompiledWorkspace
from spcatv.kernels.cuda.launch import BLOCK, SMALL_BLOCK, Sums, gpu_kernel, launch, pieces_of
from spcatv.kernels.cuda.structures import MANY_WALKS, MOST_AXES, box_on_gpu, operator_on_gpu
from spcatv.kernels.grid_layout import fits_a_box, lay_out
from spcatv.kernels.workspace import (
    ConcatWorkspace,
    ExactShares,
    LoadingTerms,
    ReferenceWorkspace,
    StepSizes,
    Workspace,
)
from spcatv.structure import ConcatStructure, GridStructure, Structure
from spcatv.structure.penalty import StructuredPenalty

# Sums of all kernels that look at the gap.
N_SUMS = 7


def workspace_on_gpu(structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike) -> Workspace:
    """Return the fastest workspace on a GPU; a penalty without a kernel is computed on the CPU."""
    if terms.penalty.ball is None:
        return ReferenceWorkspace(structure, terms, asarray=gpu_module().asarray)
    if _fits(structure):
        return GridGPUWorkspace(structure, terms, dtype)
    if isinstance(structure, ConcatStructure) and all(_fits(part) for part in structure.parts):
        return ConcatWorkspace(structure, terms, dtype, workspace_on_gpu)
    return SparseGPUWorkspace(structure, terms, dtype)


def _fits(structure: Structure) -> TypeGuard[GridStructure]:
    """Return whether the kernels for boxes can compute a structure."""
    return fits_a_box(structure) and len(structure.cached(lay_out).strides) <= MOST_AXES


class GPUWorkspace(CompiledWorkspace):
    """Base class of GPU workspaces: scalars in a table that recorded iterations read, and sums.

    A subclass launches the kernels for its layout of v, bar, w and the dual variable.
    """

    def __init__(
        self, structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike, source: str, n_axes: int = 0
    ) -> None:
        super().__init__(structure, terms, dtype)
        self._cupy = gpu_module()
        self._source = source, self.dtype.name, n_axes
        self._kernel("set_scalars")  # nothing can be compiled while a graph is recorded
        self._scalars = self._cupy.zeros(10, self.dtype)
        self._in_table: tuple[float, ...] = ()
        self._graphs: dict[tuple[int, int, float], Any] = {}  # iterations, by side, number and relaxation
        self._looks: dict[int, Any] = {}  # looks at the gap, by side
        self._side = 0  # of two copies of the state, the present one
        self._penalty = tuple(np.float64(factor) for factor in self._ball.value_factors())
        self._n = structure.n_features
        self._sums = Sums(N_SUMS, pieces_of(self._n))
        self._pieces = self._sums.pieces()

    @abstractmethod
    def _iterate(self, rho: Any) -> None:
        """One primal and one dual step with the relaxation rho."""

    @abstractmethod
    def _launch_look(self, n_threads: int, sums: Any) -> None:
        """Compute w, and 7 sums of every thread.

        They are the smooth share of v, ``||w||^2``, the slacks of v and w, the squares of the dual variable,
        and ``h(Av)`` and ``h(Aw)``.
        """

    @abstractmethod
    def _launch_project(self, radius: np.float64) -> None:
        """Pull groups of the dual variable back into balls of a radius."""

    @abstractmethod
    def _launch_pull(self, coupling: np.float64, pull: Any) -> None:
        """``c A'dual`` in float64."""

    def _kernel(self, name: str) -> Any:
        return gpu_kernel(name, *self._source)

    def _set_scalars(self, tau: float, sigma: float) -> None:
        """Put weights and step sizes into the table, unless they are there."""
        coupling, threshold = self._terms.coupling, self._terms.threshold
        if (coupling, threshold, tau, sigma) == self._in_table:
            return
        bounds = self._lower_bound(tau * threshold), tau * threshold, 1 / (1 + 2 * tau)
        values = coupling, threshold, self._lower_bound(threshold), tau, *bounds, sigma
        numbers = self._typed(*values, *self._ball.step_factors(sigma))
        self._kernel("set_scalars")((1,), (1,), (self._scalars, *numbers))
        self._in_table = coupling, threshold, tau, sigma

    def _write(self, name: str, values: FloatArray) -> None:
        super()._write(name, self._cupy.asarray(values))

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations, as one graph."""
        tau, sigma, rho = steps
        self._set_scalars(tau, sigma)
        key = self._side, n_iter, rho
        if key not in self._graphs:
            self._graphs[key] = self._recorded(n_iter, partial(self._iterate, *self._typed(rho)))
        elif n_iter % 2:
            self._turn()
        self._graphs[key].launch()

    def _turn(self) -> None:
        """Make the other copy of the state the present one, where there are two."""

    def _recorded(self, n_times: int, run: Callable[[], None]) -> Any:
        """Kernels as a CUDA graph; recording needs a stream of its own, and launches nothing."""
        stream = self._cupy.cuda.Stream(non_blocking=True)
        with stream:
            stream.begin_capture()
            for _ in range(n_times):
                run()
            return stream.end_capture()

    def _read_sums(self) -> list[float]:
        """Look at the gap, and return the 7 sums."""
        if self._in_table[:2] != (self._terms.coupling, self._terms.threshold):
            self._set_scalars(0.0, 0.0)
        if self._side not in self._looks:
            self._looks[self._side] = self._recorded(1, self._take_sums)
        self._looks[self._side].launch()
        return self._sums.read().tolist()

    def _take_sums(self) -> None:
        self._launch_look(self._pieces.shape[1], self._pieces)
        self._sums.add_up(self._pieces)

    def _look(self) -> tuple[float, ...]:
        *shares, squares, _, _ = self._read_sums()
        return (*shares, 0.5 * self._ball.curvature * squares)

    def _exact(self, use_minimizer: bool) -> tuple[FloatArray, float, float, float]:
        if self._ball.is_bounded:
            self._launch_project(np.float64(self._feasible_radius()))
        _, _, *slacks, squares, value_v, value_w = self._read_sums()
        pull = self._cupy.empty(self._n)
        self._launch_pull(np.float64(self._terms.coupling), pull)
        value = value_w if use_minimizer else value_v
        return pull, value, slacks[use_minimizer], 0.5 * self._ball.curvature * squares


class GridGPUWorkspace(GPUWorkspace):
    """Workspace on the padded box of a grid without periodic axes; w lies where bar did."""

    def __init__(self, structure: GridStructure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        self._layout = layout = structure.cached(box_on_gpu)
        n_axes, n_cells = len(layout.box.strides), layout.box.n_cells
        super().__init__(structure, terms, dtype, "grid", n_axes)
        self._box = layout.arguments
        self._typed_isotropic = np.int32(structure.isotropic)
        zeros = self._cupy.zeros
        self._y, self._v, self._new_v, self._w = (zeros(n_cells, self.dtype) for _ in range(4))
        self._dual, self._new_dual = (zeros(n_axes * n_cells, self.dtype) for _ in range(2))

    def _write(self, name: str, values: FloatArray) -> None:
        if name == "_dual":
            self._dual[self._layout.slot] = self._cupy.asarray(values).astype(self.dtype)
            return
        vector = self._cupy.asarray(values, dtype=np.float64)
        launch(self._kernel("put"), self._n, *self._box[:2], vector, getattr(self, name))

    def _read(self, name: str, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        if name == "_dual":
            dual: FloatArray = self._dual[self._layout.slot]
            return dual
        vector: FloatArray = self._cupy.empty(self._n)
        launch(self._kernel("pick"), self._n, *self._box[:2], getattr(self, name), vector)
        return vector

    def _iterate(self, rho: Any) -> None:
        walks = self._layout.walks
        state = self._y, self._v, self._dual, self._new_v, self._new_dual
        edges = self._layout.edges, self._typed_isotropic
        n_walks = np.int32(len(walks[0]))
        # back and forth: what the last iteration has written last is still in the cache
        arguments = (*self._box, n_walks, np.int32(self._side), *walks, *edges, *state, self._scalars, rho)
        block = BLOCK if n_walks >= MANY_WALKS else SMALL_BLOCK
        launch(self._kernel("iterate"), int(n_walks), *arguments, block=block)
        self._turn()

    def _turn(self) -> None:
        self._v, self._new_v = self._new_v, self._v
        self._dual, self._new_dual = self._new_dual, self._dual
        self._side = 1 - self._side

    def _launch_look(self, n_threads: int, sums: Any) -> None:
        state = self._y, self._v, self._w, self._dual
        launch(self._kernel("look"), n_threads, *self._box, *state, self._scalars, sums[:2])
        edges = self._layout.edges, self._typed_isotropic, *self._penalty
        launch(self._kernel("shares"), n_threads, *self._box, *edges, *state[1:], sums[2:])

    def _launch_project(self, radius: np.float64) -> None:
        launch(self._kernel("project"), self._n, *self._box, self._typed_isotropic, self._dual, radius)

    def _launch_pull(self, coupling: np.float64, pull: Any) -> None:
        launch(self._kernel("pull"), self._n, *self._box, self._dual, coupling, pull)


class SparseGPUWorkspace(GPUWorkspace):
    """Workspace over the sparse operator itself; works for every structure."""

    def __init__(self, structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(structure, terms, dtype, "sparse")
        zeros = self._cupy.zeros
        self._groups, self._rows, self._columns = structure.cached(operator_on_gpu)
        self._work_rows = (*self._rows[:2], self._rows[2].astype(self.dtype))
        self._work_columns = (*self._columns[:2], self._columns[2].astype(self.dtype))
        self._y, self._v, self._w, self._bar = (zeros(self._n, self.dtype) for _ in range(4))
        self._dual, self._moved = (zeros(structure.n_rows, self.dtype) for _ in range(2))

    def _iterate(self, rho: Any) -> None:
        state = self._y, self._v, self._bar, self._dual, self._scalars, rho
        launch(self._kernel("primal"), self._n, np.int32(self._n), *self._work_columns, *state)
        moved = self._bar, self._dual, self._moved, self._scalars, rho
        launch(self._kernel("dual"), self._structure.n_groups, *self._groups, *self._work_rows, *moved)

    def _launch_look(self, n_threads: int, sums: Any) -> None:
        state = self._y, self._v, self._w, self._dual
        columns = (np.int32(self._n), *self._work_columns)
        launch(self._kernel("look"), n_threads, *columns, *state, self._scalars, sums[:2])
        rows = (*self._groups, *self._rows, *self._penalty)
        launch(self._kernel("shares"), n_threads, *rows, *state[1:], sums[2:])

    def _launch_project(self, radius: np.float64) -> None:
        launch(self._kernel("project"), self._structure.n_groups, *self._groups, self._dual, radius)

    def _launch_pull(self, coupling: np.float64, pull: Any) -> None:
        columns = (np.int32(self._n), *self._columns)
        launch(self._kernel("pull"), self._n, *columns, self._dual, coupling, pull)


def exact_shares_on_gpu(
    structure: Structure, penalty: StructuredPenalty, *, v: Any = None, dual: Any = None
) -> ExactShares:
    """Return shares of the gap, in float64, of v or of a dual variable on the GPU; the other one is zero."""
    workspace = workspace_on_gpu(structure, LoadingTerms(1.0, 0.0, False, penalty), np.float64)
    for name, values in (("_v", v), ("_dual", dual)):
        if values is not None:
            workspace._write(name, values)
    return workspace.exact_shares(use_minimizer=False)
