"""The kernel for meshes and graphs: two passes over blocks of vertices an iteration.

Between two looks at the gap the passes run over the blocks that are not zero, and the blocks next to
them, alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.kernels.balls import into_ball, row_share, surely_into_ball
from spcatv.kernels.base import (
    ANISOTROPIC,
    GRAPHNET,
    ISOTROPIC,
    WORTH_LEAVING_OUT,
    ExactShares,
    GapShares,
    Setting,
    Steps,
    conjugate,
    feasible_factor,
    kind_of_dual,
    no_lower_bound,
    picked,
    put,
    remembered,
)
from spcatv.kernels.compiled import kernel
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
    store_narrow,
    weighed,
    weighed_at,
)
from spcatv.structure import EdgeStructure


@kernel
def _residual(arrays: Any, incidence: Any, tv: float, block: int, lane: int) -> Any:
    """``y - c A'alpha`` on the lanes of a block that begin at `lane`."""
    y, _v, _bar, _alpha, _moved, flow = arrays
    out_ptr, _head, in_ptr, incoming, _weight = incidence
    total = splat(tv - tv)
    for e in range(in_ptr[block] + lane, in_ptr[block + 1], BLOCK):
        total = total + gather(flow, incoming, e)
    for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
        total = total - load(flow, e)
    return load(y, block * BLOCK + lane) - splat(tv) * total


@kernel
def _primal_pass(arrays: Any, incidence: Any, blocks: Any, scalars: Any) -> None:
    y, v, bar, _alpha, _moved, _flow = arrays
    tv, tau, low, high, shrink, rho = scalars
    for b in range(len(blocks)):
        for lane in range(0, BLOCK, LANE_BYTES // y.itemsize):
            z = _residual(arrays, incidence, tv, blocks[b], lane)
            i = blocks[b] * BLOCK + lane
            old = load(v, i)
            moved = old + splat(tau) * z
            candidate = (moved - smaller(larger(moved, splat(low)), splat(high))) * splat(shrink)
            store(bar, i, candidate + candidate - old)
            store(v, i, old + splat(rho) * (candidate - old))


@kernel
def _dual_pass(arrays: Any, incidence: Any, blocks: Any, scalars: Any, kind: int) -> None:
    _y, _v, bar, alpha, moved, flow = arrays
    out_ptr, head, _in_ptr, _incoming, weight = incidence
    one, sigma, rho, damping = scalars
    for b in range(len(blocks)):
        first, last = out_ptr[blocks[b]], out_ptr[blocks[b] + 1]
        for lane in range(0, BLOCK, LANE_BYTES // bar.itemsize):
            own = load(bar, blocks[b] * BLOCK + lane)
            squares = splat(one - one)
            for e in range(first + lane, last, BLOCK):
                step = weighed(gather(bar, head, e) - own, weight, e)
                target = load(alpha, e) + splat(sigma) * step
                store(moved, e - first, target)
                squares = squares + target * target
            factor = splat(damping) if kind == GRAPHNET else into_ball(squares, one)
            for e in range(first + lane, last, BLOCK):
                target = load(moved, e - first)
                if kind == ANISOTROPIC:
                    factor = into_ball(target * target, one)
                dual = splat(one - rho) * load(alpha, e) + splat(rho) * factor * target
                store(alpha, e, dual)
                store(flow, e, weighed(dual, weight, e))


@kernel
def _iterate(
    arrays: Any, incidence: Any, blocks: Any, primal: Any, dual: Any, kind: int, n_iter: int
) -> None:
    """Do `n_iter` primal-dual iterations on the given blocks."""
    for _ in range(n_iter):
        _primal_pass(arrays, incidence, blocks, primal)
        _dual_pass(arrays, incidence, blocks, dual, kind)


@kernel
def _smooth_shares(arrays: Any, incidence: Any, scalars: Any, busy: Any) -> Any:
    """Write w into `bar`, mark the blocks where v or w is not zero, return q for v and ``||w||^2``."""
    y, v, bar, _alpha, _moved, _flow = arrays
    tv, half, low, high = scalars
    smooth = 0.0
    squares = 0.0
    for block in range(len(busy)):
        busy[block] = False
        for lane in range(0, BLOCK, LANE_BYTES // y.itemsize):
            i = block * BLOCK + lane
            z = _residual(arrays, incidence, tv, block, lane)
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
def _structured_shares(
    arrays: Any, incidence: Any, blocks: Any, scalars: Any, kind: int
) -> tuple[float, float]:
    """``s(x) - alpha'Ax`` (or its GraphNet counterpart) for x = v and x = w, without the factor c."""
    _y, v, w, alpha, _moved, _flow = arrays
    out_ptr, head, _in_ptr, _incoming, weight = incidence
    zero, half = scalars
    total_v = 0.0
    total_w = 0.0
    for block in blocks:
        for lane in range(0, BLOCK, LANE_BYTES // v.itemsize):
            own_v, own_w = load(v, block * BLOCK + lane), load(w, block * BLOCK + lane)
            squares_v, squares_w = splat(zero), splat(zero)
            share_v, share_w = splat(zero), splat(zero)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                row_v = weighed(gather(v, head, e) - own_v, weight, e)
                row_w = weighed(gather(w, head, e) - own_w, weight, e)
                dual = load(alpha, e)
                share_v = share_v + row_share(row_v, dual, half, kind)
                share_w = share_w + row_share(row_w, dual, half, kind)
                if kind == ISOTROPIC:
                    squares_v = squares_v + row_v * row_v
                    squares_w = squares_w + row_w * row_w
            total_v += lane_sum(share_v + square_root(squares_v))
            total_w += lane_sum(share_w + square_root(squares_w))
    return total_v, total_w


@kernel
def _make_feasible(arrays: Any, incidence: Any, below_one: float, kind: int) -> None:
    """Pull groups back whose norm, in float64, is above 1."""
    _y, _v, _bar, alpha, _moved, flow = arrays
    out_ptr, _head, _in_ptr, _incoming, weight = incidence
    for block in range(len(out_ptr) - 1):
        for lane in range(0, BLOCK, WIDE):
            squares = splat(0.0)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                dual = load_wide(alpha, e)
                squares = squares + dual * dual
            factor = surely_into_ball(squares, below_one)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                dual = load_wide(alpha, e)
                if kind == ANISOTROPIC:
                    factor = surely_into_ball(dual * dual, below_one)
                store_narrow(alpha, e, factor * dual)
                store_narrow(flow, e, weighed(load_wide(alpha, e), weight, e))


@kernel
def _exact_structured(
    x: Any, arrays: Any, incidence: Any, blocks: Any, weight: Any, kind: int
) -> tuple[float, float]:
    """``h(Ax)`` and ``h(Ax) + h*(alpha) - alpha'Ax`` in float64."""
    _y, _v, _bar, alpha, _moved, _flow = arrays
    out_ptr, head, _in_ptr, _incoming, _rounded = incidence
    value = 0.0
    slack = 0.0
    for block in blocks:
        for lane in range(0, BLOCK, WIDE):
            own = load_wide(x, block * BLOCK + lane)
            squares = splat(0.0)
            length = splat(0.0)
            inner = splat(0.0)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                row = weighed(gather_wide(x, head, e) - own, weight, e)
                dual = load_wide(alpha, e)
                squares = squares + row * row
                if kind == GRAPHNET:
                    mismatch = row - splat(0.5) * dual
                    inner = inner + row * row - mismatch * mismatch
                else:
                    inner = inner + row * dual
                if kind == ANISOTROPIC:
                    length = length + magnitude(row)
            if kind == ISOTROPIC:
                length = square_root(squares)
            elif kind == GRAPHNET:
                length = squares
            value += lane_sum(length)
            slack += lane_sum(length - inner)
    return value, slack


@kernel
def _exact_pull(arrays: Any, incidence: Any, weight: Any, out: Any) -> None:
    """``A'alpha`` in float64 on the places."""
    _y, _v, _bar, alpha, _moved, _flow = arrays
    out_ptr, _head, in_ptr, incoming, _rounded = incidence
    for block in range(len(out_ptr) - 1):
        for lane in range(0, BLOCK, WIDE):
            total = splat(0.0)
            for e in range(in_ptr[block] + lane, in_ptr[block + 1], BLOCK):
                total = total + weighed_at(gather_wide(alpha, incoming, e), weight, incoming, e)
            for e in range(out_ptr[block] + lane, out_ptr[block + 1], BLOCK):
                total = total - weighed(load_wide(alpha, e), weight, e)
            store(out, block * BLOCK + lane, total)


class EdgeWorkspace:
    """Workspace on the blocks of an `EdgeStructure`."""

    def __init__(self, structure: EdgeStructure, setting: Setting, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._scalar: Any = self._dtype.type
        self._setting = setting
        self._layout = layout = remembered(structure, arrange)
        self._kind = kind_of_dual(setting, structure.isotropic)
        self._y, self._v, self._bar = (np.zeros(layout.n_places, dtype=self._dtype) for _ in range(3))
        self._alpha = np.zeros(layout.n_slots, dtype=self._dtype)
        self._weight = None if layout.weight is None else layout.weight.astype(self._dtype, copy=False)
        # what flows through an edge is its dual variable times its weight: the same where that is one
        self._flow = self._alpha if self._weight is None else np.zeros_like(self._alpha)
        moved = np.zeros(int(np.diff(layout.out_ptr).max(initial=0)), dtype=self._dtype)
        self._arrays = (self._y, self._v, self._bar, self._alpha, moved, self._flow)
        self._incidence = (layout.out_ptr, layout.head, layout.in_ptr, layout.incoming, self._weight)
        self._busy = np.zeros(layout.n_blocks, dtype=bool)
        self._all = self._active = np.arange(layout.n_blocks)

    def _typed(self, *scalars: float) -> tuple[Any, ...]:
        return tuple(self._scalar(scalar) for scalar in scalars)

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        put(y, self._layout.place, self._y)
        self._active = self._all

    def set_state(self, v: FloatArray, alpha: FloatArray) -> None:
        """Take v and a feasible dual variable."""
        put(v, self._layout.place, self._v)
        put(alpha, self._layout.slot, self._alpha)
        if self._weight is not None:
            np.multiply(self._alpha, self._weight, out=self._flow)
        self._active = self._all

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        for array in (self._v, self._alpha, self._flow):
            array[:] = 0
        self._active = self._all

    def advance(self, n_iter: int, steps: Steps) -> None:
        """Do `n_iter` primal-dual iterations where the last look found anything."""
        tau, sigma, rho = steps
        tv, threshold = self._setting.tv, tau * self._setting.l1
        low = no_lower_bound(self._dtype) if self._setting.positive else -threshold
        _iterate(
            self._arrays,
            self._incidence,
            self._active,
            self._typed(tv, tau, low, threshold, 1 / (1 + 2 * tau), rho),
            self._typed(1, sigma, rho, 1 / (1 + 0.5 * sigma)),
            self._kind,
            n_iter,
        )

    def gap_shares(self) -> GapShares:
        """Look at the gap of v and of w; afterwards `bar` holds w, and the active blocks are known."""
        tv, l1 = self._setting.tv, self._setting.l1
        low = no_lower_bound(self._dtype) if self._setting.positive else -l1
        scalars = self._typed(tv, 0.5, low, l1)
        smooth, squares = _smooth_shares(self._arrays, self._incidence, scalars, self._busy)
        active = spread_blocks(self._busy, self._layout.near_ptr, self._layout.near)
        self._active = active if len(active) < WORTH_LEAVING_OUT * len(self._all) else self._all
        # where v and w are zero there are no differences; only GraphNet counts the dual variable by itself
        blocks = self._all if self._setting.graphnet else self._active
        constants = self._typed(0, 0.5)
        share_v, share_w = _structured_shares(self._arrays, self._incidence, blocks, constants, self._kind)
        return GapShares(tv * share_v, smooth, tv * share_w, squares, self._conjugate())

    def _conjugate(self) -> float:
        return conjugate(self._setting.tv, self._setting.graphnet, self._alpha)

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """The exact gap's shares in float64."""
        layout, tv = self._layout, self._setting.tv
        if self._kind != GRAPHNET:
            _make_feasible(self._arrays, self._incidence, feasible_factor(self._dtype), self._kind)
        x = self._bar if use_minimizer else self._v
        # as in a look: no differences where v and w are zero
        blocks = self._all if self._setting.graphnet else self._active
        value, slack = _exact_structured(x, self._arrays, self._incidence, blocks, layout.weight, self._kind)
        pull = np.empty(layout.n_places)
        _exact_pull(self._arrays, self._incidence, layout.weight, pull)
        pull *= tv
        return ExactShares(pull[layout.place], tv * value, tv * slack, self._conjugate())

    def get_v(self) -> FloatArray:
        """The iterate v."""
        return picked(self._v, self._layout.place)

    def get_w(self) -> FloatArray:
        """The minimiser w of the last look."""
        return picked(self._bar, self._layout.place)

    def get_alpha(self) -> FloatArray:
        """The dual variable."""
        return picked(self._alpha, self._layout.slot, self._dtype)
