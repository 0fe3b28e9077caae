"""Kernel for masked grids: one sweep over the padded box per iteration.

A slab's loadings are updated first, then the dual variable of the slab before it, whose forward
neighbours are known by then: so every array passes through the cache once per iteration. Between two
looks at the gap the sweep visits only the chunks that are not zero and their neighbours.

Several threads sweep through a part of the slabs each, and wait for their neighbours where the parts meet.
Every cell is computed as on one thread, and sums are sums of slabs: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba.cpython.unsafe.tuple import tuple_setitem

from spcatv._util.threads import threads_for
from spcatv._util.types import FloatArray
from spcatv.kernels.compiled import inlined_kernel
from spcatv.kernels.compiled_workspace import (
    WORTH_SKIPPING,
    PlacedWorkspace,
    add_group,
    into_ball,
    look_at,
    primal_step,
    surely_into_ball,
    with_rows,
)
from spcatv.kernels.grid_layout import CHUNK, Spans, lay_out, spread
from spcatv.kernels.simd import (
    LANE_BYTES,
    WIDE,
    keep_where,
    load,
    load_as,
    load_wide,
    one_per_axis,
    splat,
    store,
)
from spcatv.kernels.thread_pool import (
    arrive,
    make_marks,
    meet,
    own_parts,
    run_shares,
    shared_kernel,
    wait_for,
)
from spcatv.kernels.workspace import LoadingTerms, StepSizes
from spcatv.structure import GridStructure

# Cells that are worth a thread.
THREAD_CELLS = 1 << 16


@inlined_kernel
def _residual(y: Any, dual: Any, weights: Any, strides: Any, i: int) -> Any:
    """``y - c A'dual`` on the lanes at cell i."""
    z = load(y, i)
    for axis in range(len(strides)):
        row = dual[axis]
        z = z - splat(weights[axis]) * (load(row, i - strides[axis]) - load(row, i))
    return z


@inlined_kernel
def _as_tuple(weights: Any, strides: Any) -> Any:
    """Return weights as a tuple: from an array they would be read again after every store."""
    values = one_per_axis(weights[0], strides)
    for axis in range(1, len(strides)):
        values = tuple_setitem(values, axis, weights[axis])
    return values


@inlined_kernel
def _primal_span(arrays: Any, weights: Any, strides: Any, first: int, last: int, steps: Any) -> None:
    y, v, bar, dual = arrays
    scalars = steps[1], steps[2], steps[3], steps[4], steps[5]
    own_weights = _as_tuple(weights, strides)
    for i in range(first, last, LANE_BYTES // y.itemsize):
        primal_step(v, bar, i, _residual(y, dual, own_weights, strides, i), scalars)


@inlined_kernel
def _dual_span(
    arrays: Any,
    edge_bits: Any,
    weights: Any,
    strides: Any,
    first: int,
    last: int,
    steps: Any,
    isotropic: bool,
) -> None:
    _y, _v, bar, dual = arrays
    one, rho, pace, reach = steps[0], steps[1], steps[2], steps[3]
    own_weights = _as_tuple(weights, strides)
    for i in range(first, last, LANE_BYTES // bar.itemsize):
        squares = splat(one - one)
        moved = one_per_axis(squares, strides)
        for axis in range(len(strides)):
            step = splat(own_weights[axis]) * (load(bar, i + strides[axis]) - load(bar, i))
            # zero where there is no edge
            target = keep_where(load(dual[axis], i) + step, edge_bits, i, 1 << axis)
            moved = tuple_setitem(moved, axis, target)
            squares = squares + target * target
        factor = splat(pace) * into_ball(squares, reach, one)
        for axis in range(len(strides)):
            if not isotropic:
                factor = splat(pace) * into_ball(moved[axis] * moved[axis], reach, one)
            row = dual[axis]
            store(row, i, splat(one - rho) * load(row, i) + factor * moved[axis])


@shared_kernel
def _sweep(
    number: int, n_threads: int, work: Any, strides: Any, weights: Any, steps: Any, n_iter: int
) -> None:
    """Do `n_iter` primal-dual iterations on the slabs of a thread.

    Its first mark counts the primal steps of its first slab, its second mark the dual steps of its last one.
    The primal step of the first slab needs the dual variable of the slab before, and changes what the dual
    step of that slab reads; the dual step of the last slab stands to the slab behind it in the same way.
    """
    state, (edge_bits, _, isotropic), (start, stop, slab_ptr), bounds, marks = work
    first, last = bounds[number], bounds[number + 1]
    pull_weights, step_weights = weights
    primal_steps, dual_steps = steps
    for iteration in range(1, n_iter + 1):
        if number > 0:
            wait_for(marks, 2 * number - 1, iteration - 1)
        for slab in range(first, last + 1):
            if slab < last:
                for s in range(slab_ptr[slab], slab_ptr[slab + 1]):
                    _primal_span(state, pull_weights, strides, start[s], stop[s], primal_steps)
            if slab == first:
                arrive(marks, 2 * number, iteration)
                continue
            if slab == last and number + 1 < n_threads:
                wait_for(marks, 2 * number + 2, iteration)
            for s in range(slab_ptr[slab - 1], slab_ptr[slab]):
                begin, end = start[s], stop[s]
                # with a constant, a loop does not check it at every cell
                if isotropic:
                    _dual_span(state, edge_bits, step_weights, strides, begin, end, dual_steps, True)
                else:
                    _dual_span(state, edge_bits, step_weights, strides, begin, end, dual_steps, False)
        arrive(marks, 2 * number + 1, iteration)


@shared_kernel
def _smooth_shares(
    number: int, n_threads: int, work: Any, weights: Any, scalars: Any, chunks: Any, sums: Any
) -> None:
    """Write w into `bar`, and find the chunks where v or w is not zero, and their neighbours.

    The sums are q of v and ``||w||^2`` of every slab.
    """
    (y, v, bar, dual), (_, strides, _), (start, stop, slab_ptr), bounds, marks = work
    occupied, busy, active = chunks
    for slab in range(bounds[number], bounds[number + 1]):
        smooth = 0.0
        squares = 0.0
        for s in range(slab_ptr[slab], slab_ptr[slab + 1]):
            busy[start[s] // CHUNK : stop[s] // CHUNK] = False
            for i in range(start[s], stop[s], LANE_BYTES // y.itemsize):
                z = _residual(y, dual, weights, strides, i)
                shares = look_at(v, bar, i, z, scalars)
                smooth += shares[0]
                squares += shares[1]
                if shares[2]:
                    busy[i // CHUNK] = True
        sums[slab, 0], sums[slab, 1] = smooth, squares
    meet(marks, number, n_threads, 1)
    first, last = own_parts(number, n_threads, len(busy))
    spread(busy, occupied, strides, v, bar, active, first, last)


@shared_kernel
def _structured_shares(number: int, n_threads: int, work: Any, weights: Any, numbers: Any, sums: Any) -> None:
    """Sum ``h(Ax) + h*(dual) - dual'Ax`` of every slab for x = v and x = w, and ``h(Ax)`` if there is room.

    `weights` and `numbers` have the precision of the computation, which is not lower than that of the state.
    """
    (_, v, w, dual), (edge_bits, strides, isotropic), (start, stop, slab_ptr), bounds, _ = work
    zero = splat(numbers[0] - numbers[0])
    for slab in range(bounds[number], bounds[number + 1]):
        own_sums = sums[slab]
        for s in range(slab_ptr[slab], slab_ptr[slab + 1]):
            for i in range(start[s], stop[s], LANE_BYTES // numbers.itemsize):
                group = (zero, zero, zero, zero)
                own_v, own_w = load_as(v, i, numbers), load_as(w, i, numbers)
                for axis in range(len(strides)):
                    weight, ahead = splat(weights[axis]), i + strides[axis]
                    step_v = weight * (load_as(v, ahead, numbers) - own_v)
                    step_w = weight * (load_as(w, ahead, numbers) - own_w)
                    row_v = keep_where(step_v, edge_bits, i, 1 << axis)
                    row_w = keep_where(step_w, edge_bits, i, 1 << axis)
                    group = with_rows(
                        group, row_v, row_w, load_as(dual[axis], i, numbers), numbers, isotropic
                    )
                add_group(own_sums, group, numbers, isotropic)


@shared_kernel
def _make_feasible(number: int, n_threads: int, work: Any, radius: float) -> None:
    """Pull groups back whose norm, in float64, is above 1."""
    (_, _, _, dual), (_, _, isotropic), (start, stop, slab_ptr), bounds, _ = work
    for s in range(slab_ptr[bounds[number]], slab_ptr[bounds[number + 1]]):
        for i in range(start[s], stop[s], WIDE):
            squares = splat(0.0)
            for axis in range(len(dual)):
                entry = load_wide(dual[axis], i)
                squares = squares + entry * entry
            factor = surely_into_ball(squares, radius)
            for axis in range(len(dual)):
                row = dual[axis]
                entry = load_wide(row, i)
                if not isotropic:
                    factor = surely_into_ball(entry * entry, radius)
                store(row, i, factor * entry)


@shared_kernel
def _exact_pull(number: int, n_threads: int, work: Any, weights: Any, position: Any, out: Any) -> None:
    """``c A'dual`` in float64, one entry per feature; the weights include c."""
    (_, _, _, dual), (_, strides, _), (start, stop, slab_ptr), bounds, _ = work
    cells = np.empty(WIDE)
    begin, end = slab_ptr[bounds[number]], slab_ptr[bounds[number + 1]]
    if begin == end:
        return
    # features are in the order of their cells
    j = np.searchsorted(position, start[begin])
    for s in range(begin, end):
        for i in range(start[s], stop[s], WIDE):
            total = splat(0.0)
            for axis in range(len(strides)):
                row = dual[axis]
                step = load_wide(row, i - strides[axis]) - load_wide(row, i)
                total = total + splat(weights[axis]) * step
            store(cells, 0, total)
            while j < len(position) and position[j] < i + WIDE:
                out[j] = cells[position[j] - i]
                j += 1


class GridWorkspace(PlacedWorkspace):
    """Workspace on the padded box of a grid without periodic axes."""

    def __init__(self, structure: GridStructure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(structure, terms, dtype)
        self._layout = box = structure.cached(lay_out)
        self._allocate(box.n_cells, (len(box.strides), box.n_cells))
        self._arrays = (self._y, self._v, self._w, self._dual)
        self._box = (box.edge_bits, box.strides, structure.isotropic)
        self._busy = np.zeros_like(box.occupied)
        self._n_occupied = np.count_nonzero(box.occupied)
        self._all = self._active = box.spans(box.occupied)

    def _on_slabs(self, spans: Spans, function: Callable[..., None], *arguments: Any) -> None:
        """Call a kernel with what all kernels need, and its own arguments."""
        bounds = spans.cut(threads_for(spans.cells[-1], THREAD_CELLS))
        n_threads = len(bounds) - 1
        work = self._arrays, self._box, tuple(spans[:3]), bounds, make_marks(n_threads)
        run_shares(function, (work, *arguments), n_threads)

    def _sums(
        self, n_sums: int, spans: Spans, function: Callable[..., None], *arguments: Any
    ) -> tuple[float, ...]:
        """Sum the numbers that a kernel computes for every slab."""
        sums = np.zeros((len(spans.slab_ptr) - 1, n_sums))
        self._on_slabs(spans, function, *arguments, sums)
        return tuple(sums.sum(axis=0).tolist())

    def _pull_weights(self, dtype: npt.DTypeLike) -> FloatArray:
        return (self._terms.coupling * self._layout.axis_weights).astype(dtype)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on the active chunks."""
        step_weights = (steps.sigma * self._layout.axis_weights).astype(self.dtype)
        weights = self._pull_weights(self.dtype), step_weights
        # a tuple, so that the compiler unrolls the loops over the axes
        strides = tuple(self._layout.strides.tolist())
        self._on_slabs(self._active, _sweep, strides, weights, self._step_scalars(steps), n_iter)

    def _smooth(self) -> tuple[float, ...]:
        """Compute w and its shares, and find the active chunks."""
        box, threshold = self._layout, self._terms.threshold
        scalars = self._typed(0.5, self._lower_bound(threshold), threshold)
        active = np.empty_like(self._busy)
        chunks = box.occupied, self._busy, active
        look = self._pull_weights(self.dtype), scalars, chunks
        shares = self._sums(2, self._all, _smooth_shares, *look)
        few = np.count_nonzero(active) < WORTH_SKIPPING * self._n_occupied
        self._active = box.spans(active) if few else self._all
        return shares

    def _structured(self, dtype: np.dtype[Any], n_sums: int) -> tuple[float, ...]:
        weights, spans = self._layout.axis_weights.astype(dtype), self._parts_with_slack()
        return self._sums(n_sums, spans, _structured_shares, weights, self._numbers(dtype))

    def _project(self) -> None:
        if self._ball.is_bounded:
            self._on_slabs(self._all, _make_feasible, self._feasible_radius())

    def _pull(self) -> FloatArray:
        place = self._layout.place
        pull = np.empty(len(place))
        self._on_slabs(self._all, _exact_pull, self._pull_weights(np.float64), place, pull)
        return pull
