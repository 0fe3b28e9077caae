"""Kernel for meshes and graphs: two passes over blocks of vertices per iteration.

Between two looks at the gap the passes visit only the blocks that are not zero and the blocks next to them.

Several threads work on some of the blocks each, and meet after every pass. Every vertex is computed as on one
thread, and sums are sums of `SUMMED` blocks each: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.threads import threads_for
from spcatv._util.types import FloatArray, IntArray
from spcatv.kernels.compiled import inlined_kernel
from spcatv.kernels.compiled_workspace import (
    WORTH_SKIPPING,
    PlacedWorkspace,
    add_group,
    aligned_zeros,
    into_ball,
    look_at,
    primal_step,
    surely_into_ball,
    with_rows,
)
from spcatv.kernels.edge_layout import BLOCK, arrange, spread_blocks
from spcatv.kernels.simd import LANE_BYTES, WIDE, gather_as, load, load_as, load_wide, splat, store
from spcatv.kernels.thread_pool import make_marks, meet, own_parts, run_shares, shared_kernel
from spcatv.kernels.workspace import LoadingTerms, StepSizes
from spcatv.structure import EdgeStructure

# Blocks that are worth a thread, and blocks that are added up before they are added to the rest.
THREAD_BLOCKS, SUMMED = 1 << 11, 1 << 8


@inlined_kernel
def _weighed(values: Any, weights: Any, e: int) -> Any:
    """Multiply values of consecutive slots by their weights, unless all weights are 1."""
    return values if weights is None else values * load_as(weights, e, values)


@inlined_kernel
def _residual(y: Any, flow: Any, incidence: Any, coupling: float, block: int, lane: int) -> Any:
    """``y - c A'dual`` on the lanes of a block that begin at `lane`."""
    out_ptr, _head, in_ptr, incoming, _weight, _isotropic = incidence
    total = splat(coupling - coupling)
    for e in range(in_ptr[block] + lane, in_ptr[block + 1], BLOCK):
        total = total + gather_as(flow, incoming, e, flow)
    for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
        total = total - load(flow, e)
    return load(y, block * BLOCK + lane) - splat(coupling) * total


@inlined_kernel
def _primal_pass(state: Any, incidence: Any, blocks: Any, steps: Any, part: Any) -> None:
    y, v, bar, _dual, flow = state
    coupling = steps[0]
    scalars = steps[1], steps[2], steps[3], steps[4], steps[5]
    for b in range(part[0], part[1]):
        for lane in range(0, BLOCK, LANE_BYTES // y.itemsize):
            z = _residual(y, flow, incidence, coupling, blocks[b], lane)
            primal_step(v, bar, blocks[b] * BLOCK + lane, z, scalars)


@inlined_kernel
def _dual_pass(state: Any, incidence: Any, blocks: Any, steps: Any, moved: Any, part: Any) -> None:
    _y, _v, bar, dual, flow = state
    out_ptr, head, _in_ptr, _incoming, weight, isotropic = incidence
    one, rho, pace, reach, sigma = steps[0], steps[1], steps[2], steps[3], steps[4]
    for b in range(part[0], part[1]):
        first, last = out_ptr[blocks[b]], out_ptr[blocks[b] + 1]
        for lane in range(0, BLOCK, LANE_BYTES // bar.itemsize):
            own = load(bar, blocks[b] * BLOCK + lane)
            squares = splat(one - one)
            for e in range(first + lane, last, BLOCK):
                step = _weighed(gather_as(bar, head, e, bar) - own, weight, e)
                target = load(dual, e) + splat(sigma) * step
                store(moved, e - first, target)
                squares = squares + target * target
            factor = into_ball(squares, reach, one)
            for e in range(first + lane, last, BLOCK):
                target = load(moved, e - first)
                if not isotropic:
                    factor = into_ball(target * target, reach, one)
                updated = splat(one - rho) * load(dual, e) + splat(pace) * factor * target
                store(dual, e, updated)
                store(flow, e, _weighed(updated, weight, e))


@shared_kernel
def _iterate(number: int, n_threads: int, work: Any, steps: Any, n_iter: int, widest: int) -> None:
    """Do `n_iter` primal-dual iterations on a thread's part of the blocks, of at most `widest` slots."""
    state, incidence, blocks, marks = work
    primal_steps, dual_steps = steps
    part = own_parts(number, n_threads, len(blocks))
    moved = np.empty(widest, dtype=state[0].dtype)
    for iteration in range(n_iter):
        _primal_pass(state, incidence, blocks, primal_steps, part)
        meet(marks, number, n_threads, 2 * iteration + 1)
        _dual_pass(state, incidence, blocks, dual_steps, moved, part)
        meet(marks, number, n_threads, 2 * iteration + 2)


@shared_kernel
def _smooth_shares(
    number: int, n_threads: int, work: Any, scalars: Any, busy: Any, together: int, sums: Any
) -> None:
    """Write w into `bar`, and mark the blocks where v or w is not zero.

    The sums are q of v and ``||w||^2`` of `together` blocks each.
    """
    (y, v, bar, _, flow), incidence, blocks, _ = work
    coupling, look = scalars
    first, last = own_parts(number, n_threads, len(sums))
    for k in range(first, last):
        smooth = 0.0
        squares = 0.0
        for block in range(k * together, min((k + 1) * together, len(blocks))):
            busy[block] = False
            for lane in range(0, BLOCK, LANE_BYTES // y.itemsize):
                z = _residual(y, flow, incidence, coupling, block, lane)
                shares = look_at(v, bar, block * BLOCK + lane, z, look)
                smooth += shares[0]
                squares += shares[1]
                if shares[2]:
                    busy[block] = True
        sums[k, 0], sums[k, 1] = smooth, squares


@shared_kernel
def _structured_shares(
    number: int, n_threads: int, work: Any, weight: Any, numbers: Any, together: int, sums: Any
) -> None:
    """Sum ``h(Ax) + h*(dual) - dual'Ax`` for x = v and x = w, and ``h(Ax)`` if there is room.

    `numbers` has the precision of the computation, which is not lower than that of the state.
    """
    (_, v, w, dual, _), (out_ptr, head, _, _, _, isotropic), blocks, _ = work
    zero = splat(numbers[0] - numbers[0])
    first, last = own_parts(number, n_threads, len(sums))
    for k in range(first, last):
        own_sums = sums[k]
        for b in range(k * together, min((k + 1) * together, len(blocks))):
            block = blocks[b]
            for lane in range(0, BLOCK, LANE_BYTES // numbers.itemsize):
                own_v = load_as(v, block * BLOCK + lane, numbers)
                own_w = load_as(w, block * BLOCK + lane, numbers)
                group = (zero, zero, zero, zero)
                for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                    row_v = _weighed(gather_as(v, head, e, numbers) - own_v, weight, e)
                    row_w = _weighed(gather_as(w, head, e, numbers) - own_w, weight, e)
                    group = with_rows(group, row_v, row_w, load_as(dual, e, numbers), numbers, isotropic)
                add_group(own_sums, group, numbers, isotropic)


@shared_kernel
def _make_feasible(number: int, n_threads: int, work: Any, radius: float) -> None:
    """Pull groups back whose norm, in float64, is above 1."""
    (_, _, _, dual, flow), (out_ptr, _, _, _, weight, isotropic), blocks, _ = work
    first, last = own_parts(number, n_threads, len(blocks))
    for block in range(first, last):
        for lane in range(0, BLOCK, WIDE):
            squares = splat(0.0)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                entry = load_wide(dual, e)
                squares = squares + entry * entry
            factor = surely_into_ball(squares, radius)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                entry = load_wide(dual, e)
                if not isotropic:
                    factor = surely_into_ball(entry * entry, radius)
                store(dual, e, factor * entry)
                store(flow, e, _weighed(load_wide(dual, e), weight, e))


@shared_kernel
def _exact_pull(number: int, n_threads: int, work: Any, weight: Any, out: Any) -> None:
    """``A'dual`` in float64 at the places."""
    (_, _, _, dual, _), (out_ptr, _, in_ptr, incoming, _, _), blocks, _ = work
    first, last = own_parts(number, n_threads, len(blocks))
    for block in range(first, last):
        for lane in range(0, BLOCK, WIDE):
            total = splat(0.0)
            for e in range(in_ptr[block] + lane, in_ptr[block + 1], BLOCK):
                entry = gather_as(dual, incoming, e, out)
                total = total + (entry if weight is None else entry * gather_as(weight, incoming, e, out))
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                total = total - _weighed(load_wide(dual, e), weight, e)
            store(out, block * BLOCK + lane, total)


class EdgeWorkspace(PlacedWorkspace):
    """Workspace on the blocks of an `EdgeStructure`."""

    def __init__(self, structure: EdgeStructure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(structure, terms, dtype)
        self._layout = layout = structure.cached(arrange)
        self._allocate(layout.n_places, (layout.n_slots,))
        self._weight = None if layout.weight is None else layout.weight.astype(self.dtype, copy=False)
        # the flow through an edge is its dual variable times its weight: one array where all weights are 1
        self._flow = self._dual if self._weight is None else aligned_zeros(self._dual.shape, self.dtype)
        self._widest = int(np.diff(layout.out_ptr).max(initial=0))
        self._arrays = (self._y, self._v, self._w, self._dual, self._flow)
        ends = layout.out_ptr, layout.head, layout.in_ptr, layout.incoming
        self._incidence = (*ends, self._weight, structure.isotropic)
        self._busy = np.zeros(layout.n_blocks, dtype=bool)
        self._all = self._active = np.arange(layout.n_blocks)

    def _write(self, name: str, values: FloatArray) -> None:
        super()._write(name, values)
        if name == "_dual" and self._weight is not None:
            np.multiply(self._dual, self._weight, out=self._flow)

    def _on_blocks(self, blocks: IntArray, function: Callable[..., None], *arguments: Any) -> None:
        """Call a kernel with what all kernels need, and its own arguments."""
        n_threads = threads_for(len(blocks), THREAD_BLOCKS)
        work = self._arrays, self._incidence, blocks, make_marks(n_threads)
        run_shares(function, (work, *arguments), n_threads)

    def _sums(
        self, n_sums: int, blocks: IntArray, function: Callable[..., None], *arguments: Any
    ) -> tuple[float, ...]:
        """Sum the numbers that a kernel computes for every `SUMMED` blocks."""
        sums = np.zeros((-(-len(blocks) // SUMMED), n_sums))
        self._on_blocks(blocks, function, *arguments, SUMMED, sums)
        return tuple(sums.sum(axis=0).tolist())

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on the active blocks."""
        scalars = self._step_scalars(steps)
        self._on_blocks(self._active, _iterate, scalars, n_iter, self._widest)

    def _smooth(self) -> tuple[float, ...]:
        """Compute w and its shares, and find the active blocks."""
        threshold = self._terms.threshold
        coupling, *look = self._typed(self._terms.coupling, 0.5, self._lower_bound(threshold), threshold)
        shares = self._sums(2, self._all, _smooth_shares, (coupling, tuple(look)), self._busy)
        active = spread_blocks(self._busy, self._layout.near_ptr, self._layout.near)
        self._active = active if len(active) < WORTH_SKIPPING * len(self._all) else self._all
        return shares

    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        weight = self._weight if dtype == self.dtype else self._layout.weight
        numbers = self._numbers(dtype)
        return self._sums(n_sums, self._parts_with_slack(), _structured_shares, weight, numbers)

    def _project(self) -> None:
        if self._ball.is_bounded:
            self._on_blocks(self._all, _make_feasible, self._feasible_radius())

    def _pull(self) -> FloatArray:
        pull = np.empty(self._layout.n_places)
        self._on_blocks(self._all, _exact_pull, self._layout.weight, pull)
        return self._terms.coupling * pull[self._layout.place]
