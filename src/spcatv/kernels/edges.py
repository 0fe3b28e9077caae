"""The kernel for meshes and graphs: two passes over blocks of vertices per iteration.

Between two looks at the gap the passes visit only the blocks that are not zero and the blocks next to them.

Several threads work on some of the blocks each, and meet after every pass. Every vertex is computed as on one
thread, and sums are sums of so many blocks each: the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.threads import threads_for
from spcatv._util.types import IntArray
from spcatv.kernels.balls import into_ball, penalty_of, row_share, surely_into_ball
from spcatv.kernels.base import ExactShares, GapShares, LoadingTerms, StepSizes
from spcatv.kernels.compiled import inlined_kernel, kernel
from spcatv.kernels.incidence import BLOCK, arrange, spread_blocks
from spcatv.kernels.lanes import (
    LANE_BYTES,
    WIDE,
    any_nonzero,
    gather,
    gather_wide,
    lane_sum,
    larger,
    load,
    load_wide,
    magnitude,
    smaller,
    splat,
    square_root,
    store,
    weighed,
    weighed_at,
)
from spcatv.kernels.meeting import make_marks, meet
from spcatv.kernels.team import ALL, on_team, own_parts, run_shares, this_kernel
from spcatv.kernels.workspaces import (
    WORTH_SKIPPING,
    PlacedWorkspace,
    aligned_zeros,
    cached_layout,
)
from spcatv.structure import EdgeStructure

# Blocks that are worth a thread, and blocks that are added up before they are added to the rest.
THREAD_BLOCKS, SUMMED = 1 << 11, 1 << 8


@inlined_kernel
def _residual(arrays: Any, incidence: Any, coupling: float, block: int, lane: int) -> Any:
    """``y - c A'dual`` on the lanes of a block that begin at `lane`."""
    y, _v, _bar, _dual, flow = arrays
    out_ptr, _head, in_ptr, incoming, _weight = incidence
    total = splat(coupling - coupling)
    for e in range(in_ptr[block] + lane, in_ptr[block + 1], BLOCK):
        total = total + gather(flow, incoming, e)
    for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
        total = total - load(flow, e)
    return load(y, block * BLOCK + lane) - splat(coupling) * total


@inlined_kernel
def _primal_pass(arrays: Any, incidence: Any, blocks: Any, steps: Any, part: Any) -> None:
    y, v, bar, _dual, _flow = arrays
    coupling, tau, low, high, shrink, rho = steps[0], steps[1], steps[2], steps[3], steps[4], steps[5]
    for b in range(part[0], part[1]):
        for lane in range(0, BLOCK, LANE_BYTES // y.itemsize):
            z = _residual(arrays, incidence, coupling, blocks[b], lane)
            i = blocks[b] * BLOCK + lane
            old = load(v, i)
            moved = old + splat(tau) * z
            candidate = (moved - smaller(larger(moved, splat(low)), splat(high))) * splat(shrink)
            store(bar, i, candidate + candidate - old)
            store(v, i, old + splat(rho) * (candidate - old))


@inlined_kernel
def _dual_pass(
    arrays: Any, incidence: Any, blocks: Any, steps: Any, isotropic: bool, moved: Any, part: Any
) -> None:
    _y, _v, bar, dual, flow = arrays
    out_ptr, head, _in_ptr, _incoming, weight = incidence
    one, rho, pace, reach, sigma = steps[0], steps[1], steps[2], steps[3], steps[4]
    for b in range(part[0], part[1]):
        first, last = out_ptr[blocks[b]], out_ptr[blocks[b] + 1]
        for lane in range(0, BLOCK, LANE_BYTES // bar.itemsize):
            own = load(bar, blocks[b] * BLOCK + lane)
            squares = splat(one - one)
            for e in range(first + lane, last, BLOCK):
                step = weighed(gather(bar, head, e) - own, weight, e)
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
                store(flow, e, weighed(updated, weight, e))


@kernel
def _iterate(
    number: int,
    n_threads: int,
    board: Any,
    arrays: Any,
    incidence: Any,
    blocks: Any,
    primal_steps: Any,
    dual_steps: Any,
    isotropic: bool,
    n_iter: int,
    widest: int,
    marks: Any,
) -> None:
    """Do `n_iter` primal-dual iterations on a thread's part of the blocks, of at most `widest` slots."""
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    part = own_parts(number, n_threads, len(blocks))
    moved = np.empty(widest, dtype=arrays[0].dtype)
    for iteration in range(n_iter):
        _primal_pass(arrays, incidence, blocks, primal_steps, part)
        meet(marks, number, n_threads, 2 * iteration + 1)
        _dual_pass(arrays, incidence, blocks, dual_steps, isotropic, moved, part)
        meet(marks, number, n_threads, 2 * iteration + 2)


@inlined_kernel
def _summed(k: int, together: int, n_blocks: int) -> tuple[int, int]:
    """The blocks that are added up to sum k, so many together."""
    return k * together, min((k + 1) * together, n_blocks)


@inlined_kernel
def _smooth_shares(arrays: Any, incidence: Any, scalars: Any, busy: Any, part: Any) -> tuple[float, float]:
    """Write w into `bar`, mark the blocks where v or w is not zero, and return q of v and ``||w||^2``."""
    y, v, bar, _dual, _flow = arrays
    coupling, half, low, high = scalars
    smooth = 0.0
    squares = 0.0
    for block in range(part[0], part[1]):
        busy[block] = False
        for lane in range(0, BLOCK, LANE_BYTES // y.itemsize):
            i = block * BLOCK + lane
            z = _residual(arrays, incidence, coupling, block, lane)
            b = smaller(larger(z, splat(low)), splat(high))
            w = (z - b) * splat(half)
            x = load(v, i)
            store(bar, i, w)
            smooth += lane_sum((x - w) * (x - w) + (splat(high) * magnitude(x) - b * x))
            squares += lane_sum(w * w)
            if any_nonzero(w) or any_nonzero(x):
                busy[block] = True
    return smooth, squares


@kernel
def _smooth_sums(
    number: int,
    n_threads: int,
    board: Any,
    arrays: Any,
    incidence: Any,
    scalars: Any,
    busy: Any,
    together: int,
    sums: Any,
) -> None:
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    first, last = own_parts(number, n_threads, len(sums))
    for k in range(first, last):
        part = _summed(k, together, len(busy))
        sums[k, 0], sums[k, 1] = _smooth_shares(arrays, incidence, scalars, busy, part)


@inlined_kernel
def _structured_shares(
    arrays: Any, incidence: Any, blocks: Any, scalars: Any, isotropic: bool, part: Any
) -> tuple[float, float]:
    """``h(Ax) + h*(dual) - dual'Ax`` for x = v and x = w."""
    _y, v, w, dual, _flow = arrays
    out_ptr, head, _in_ptr, _incoming, weight = incidence
    zero, numbers = scalars
    total_v = 0.0
    total_w = 0.0
    for b in range(part[0], part[1]):
        block = blocks[b]
        for lane in range(0, BLOCK, LANE_BYTES // v.itemsize):
            own_v, own_w = load(v, block * BLOCK + lane), load(w, block * BLOCK + lane)
            squares_v, squares_w = splat(zero), splat(zero)
            share_v, share_w = splat(zero), splat(zero)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                row_v = weighed(gather(v, head, e) - own_v, weight, e)
                row_w = weighed(gather(w, head, e) - own_w, weight, e)
                own_dual = load(dual, e)
                share_v = share_v + row_share(row_v, own_dual, numbers)
                share_w = share_w + row_share(row_w, own_dual, numbers)
                if isotropic:
                    squares_v = squares_v + row_v * row_v
                    squares_w = squares_w + row_w * row_w
                else:
                    share_v = share_v + penalty_of(magnitude(row_v), numbers)
                    share_w = share_w + penalty_of(magnitude(row_w), numbers)
            total_v += lane_sum(share_v + penalty_of(square_root(squares_v), numbers))
            total_w += lane_sum(share_w + penalty_of(square_root(squares_w), numbers))
    return total_v, total_w


@kernel
def _structured_sums(
    number: int,
    n_threads: int,
    board: Any,
    arrays: Any,
    incidence: Any,
    blocks: Any,
    scalars: Any,
    isotropic: bool,
    together: int,
    sums: Any,
) -> None:
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    first, last = own_parts(number, n_threads, len(sums))
    for k in range(first, last):
        part = _summed(k, together, len(blocks))
        sums[k, 0], sums[k, 1] = _structured_shares(arrays, incidence, blocks, scalars, isotropic, part)


@kernel
def _make_feasible(
    number: int, n_threads: int, board: Any, arrays: Any, incidence: Any, radius: float, isotropic: bool
) -> None:
    """Pull groups back whose norm, in float64, is above 1."""
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    part = own_parts(number, n_threads, len(incidence[0]) - 1)
    _y, _v, _bar, dual, flow = arrays
    out_ptr, _head, _in_ptr, _incoming, weight = incidence
    for block in range(part[0], part[1]):
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
                store(flow, e, weighed(load_wide(dual, e), weight, e))


@inlined_kernel
def _exact_structured(
    x: Any, arrays: Any, incidence: Any, blocks: Any, weight: Any, numbers: Any, isotropic: bool, part: Any
) -> tuple[float, float]:
    """``h(Ax)`` and ``h(Ax) + h*(dual) - dual'Ax`` in float64."""
    _y, _v, _bar, dual, _flow = arrays
    out_ptr, head, _in_ptr, _incoming, _rounded = incidence
    value = 0.0
    slack = 0.0
    for b in range(part[0], part[1]):
        block = blocks[b]
        for lane in range(0, BLOCK, WIDE):
            own = load_wide(x, block * BLOCK + lane)
            squares = splat(0.0)
            length = splat(0.0)
            share = splat(0.0)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                row = weighed(gather_wide(x, head, e) - own, weight, e)
                entry = load_wide(dual, e)
                share = share + row_share(row, entry, numbers)
                if isotropic:
                    squares = squares + row * row
                else:
                    length = length + penalty_of(magnitude(row), numbers)
            length = length + penalty_of(square_root(squares), numbers)
            value += lane_sum(length)
            slack += lane_sum(share + length)
    return value, slack


@kernel
def _exact_sums(
    number: int,
    n_threads: int,
    board: Any,
    x: Any,
    arrays: Any,
    incidence: Any,
    blocks: Any,
    weight: Any,
    numbers: Any,
    isotropic: bool,
    together: int,
    sums: Any,
) -> None:
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    first, last = own_parts(number, n_threads, len(sums))
    for k in range(first, last):
        part = _summed(k, together, len(blocks))
        sums[k, 0], sums[k, 1] = _exact_structured(
            x, arrays, incidence, blocks, weight, numbers, isotropic, part
        )


@kernel
def _exact_pull(
    number: int, n_threads: int, board: Any, arrays: Any, incidence: Any, weight: Any, out: Any
) -> None:
    """``A'dual`` in float64 at the places."""
    if number == ALL:
        run_shares(this_kernel(), n_threads, board)
        return
    part = own_parts(number, n_threads, len(incidence[0]) - 1)
    _y, _v, _bar, dual, _flow = arrays
    out_ptr, _head, in_ptr, incoming, _rounded = incidence
    for block in range(part[0], part[1]):
        for lane in range(0, BLOCK, WIDE):
            total = splat(0.0)
            for e in range(in_ptr[block] + lane, in_ptr[block + 1], BLOCK):
                total = total + weighed_at(gather_wide(dual, incoming, e), weight, incoming, e)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                total = total - weighed(load_wide(dual, e), weight, e)
            store(out, block * BLOCK + lane, total)


def _n_threads(blocks: IntArray) -> int:
    """How many threads share so many blocks."""
    return threads_for(len(blocks), THREAD_BLOCKS)


class EdgeWorkspace(PlacedWorkspace):
    """Workspace on the blocks of an `EdgeStructure`."""

    def __init__(self, structure: EdgeStructure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(terms, dtype, structure.isotropic)
        self._layout = layout = cached_layout(structure, arrange)
        self._allocate(layout, layout.n_places, (layout.n_slots,))
        self._weight = None if layout.weight is None else layout.weight.astype(self._dtype, copy=False)
        # the flow through an edge is its dual variable times its weight: one array where all weights are 1
        self._flow = self._dual if self._weight is None else aligned_zeros(self._dual.shape, self._dtype)
        self._widest = int(np.diff(layout.out_ptr).max(initial=0))
        self._arrays = (self._y, self._v, self._bar, self._dual, self._flow)
        self._incidence = (layout.out_ptr, layout.head, layout.in_ptr, layout.incoming, self._weight)
        self._busy = np.zeros(layout.n_blocks, dtype=bool)
        self._all = self._active = np.arange(layout.n_blocks)

    def _dual_was_set(self) -> None:
        if self._weight is not None:
            np.multiply(self._dual, self._weight, out=self._flow)

    def _sums(self, blocks: IntArray, function: Callable[..., None], *arguments: Any) -> tuple[float, float]:
        """Sums of the two numbers that a kernel finds for every `SUMMED` blocks."""
        sums = np.zeros((-(-len(blocks) // SUMMED), 2))
        on_team(function, (*arguments, SUMMED, sums), _n_threads(blocks))
        first, second = sums.sum(axis=0)
        return float(first), float(second)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on the active blocks."""
        tau, sigma, rho = steps
        threshold = tau * self._terms.threshold
        low = self._lower_bound(threshold)
        primal = self._steps(self._terms.coupling, tau, low, threshold, 1 / (1 + 2 * tau), rho)
        dual = self._dual_steps(sigma, rho)
        blocks, n_threads = self._active, _n_threads(self._active)
        what = self._arrays, self._incidence, blocks, primal, dual, self._isotropic
        on_team(_iterate, (*what, n_iter, self._widest, make_marks(n_threads)), n_threads)

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w, and find the active blocks."""
        coupling, threshold = self._terms.coupling, self._terms.threshold
        arrays, incidence = self._arrays, self._incidence
        scalars = self._typed(coupling, 0.5, self._lower_bound(threshold), threshold)
        smooth, squares = self._sums(self._all, _smooth_sums, arrays, incidence, scalars, self._busy)
        active = spread_blocks(self._busy, self._layout.near_ptr, self._layout.near)
        self._active = active if len(active) < WORTH_SKIPPING * len(self._all) else self._all
        blocks = self._parts_with_slack()
        constants = *self._typed(0), self._numbers(self._dtype)
        slack = (arrays, incidence, blocks, constants, self._isotropic)
        share_v, share_w = self._sums(blocks, _structured_sums, *slack)
        return GapShares(coupling * share_v, smooth, coupling * share_w, squares, self._conjugate(self._dual))

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the exact gap in float64."""
        layout, coupling, isotropic = self._layout, self._terms.coupling, self._isotropic
        arrays, incidence, radius = self._arrays, self._incidence, self._feasible_radius()
        if self._ball.is_bounded:
            on_team(_make_feasible, (arrays, incidence, radius, isotropic), _n_threads(self._all))
        x = self._bar if use_minimizer else self._v
        blocks = self._parts_with_slack()
        exact = (x, arrays, incidence, blocks, layout.weight, self._numbers(np.float64), isotropic)
        value, slack = self._sums(blocks, _exact_sums, *exact)
        pull = np.empty(layout.n_places)
        on_team(_exact_pull, (arrays, incidence, layout.weight, pull), _n_threads(self._all))
        pull *= coupling
        return ExactShares(
            pull[layout.place], coupling * value, coupling * slack, self._conjugate(self._dual)
        )
