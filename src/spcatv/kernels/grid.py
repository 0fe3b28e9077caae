"""The kernel for masked grids: one sweep over the padded box per iteration.

A slab's loadings are updated first, then the dual variable of the slab before it, whose forward
neighbours are known by then: so every array passes through the cache once per iteration. Between two
looks at the gap the sweep visits only the chunks that are not zero and their neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv.kernels.balls import into_ball, row_share, surely_into_ball
from spcatv.kernels.base import ExactShares, GapShares, LoadingTerms, StepSizes
from spcatv.kernels.box import CHUNK, lay_out, spread
from spcatv.kernels.compiled import kernel
from spcatv.kernels.lanes import (
    LANE_BYTES,
    WIDE,
    any_nonzero,
    keep_where,
    lane_sum,
    larger,
    load,
    load_wide,
    magnitude,
    smaller,
    splat,
    square_root,
    store,
)
from spcatv.kernels.workspaces import (
    ANISOTROPIC,
    GRAPHNET,
    ISOTROPIC,
    WORTH_SKIPPING,
    PlacedWorkspace,
    cached_layout,
)
from spcatv.structure import GridStructure


@kernel
def _residual_3d(y: Any, dual: Any, weights: Any, strides: Any, i: int) -> Any:
    """``y - c A'dual`` on the lanes at cell i of a volume."""
    a, b, c = dual[0], dual[1], dual[2]
    return (
        load(y, i)
        - splat(weights[0]) * (load(a, i - strides[0]) - load(a, i))
        - splat(weights[1]) * (load(b, i - strides[1]) - load(b, i))
        - splat(weights[2]) * (load(c, i - 1) - load(c, i))
    )


@kernel
def _residual(y: Any, dual: Any, weights: Any, strides: Any, i: int) -> Any:
    """``y - c A'dual`` on the lanes at cell i."""
    z = load(y, i)
    for axis in range(len(strides)):
        row = dual[axis]
        z = z - splat(weights[axis]) * (load(row, i - strides[axis]) - load(row, i))
    return z


@kernel
def _primal_span(arrays: Any, weights: Any, strides: Any, first: int, last: int, scalars: Any) -> None:
    y, v, bar, dual = arrays
    tau, low, high, shrink, rho = scalars
    is_volume = len(strides) == 3
    for i in range(first, last, LANE_BYTES // y.itemsize):
        z = (
            _residual_3d(y, dual, weights, strides, i)
            if is_volume
            else _residual(y, dual, weights, strides, i)
        )
        old = load(v, i)
        moved = old + splat(tau) * z
        candidate = (moved - smaller(larger(moved, splat(low)), splat(high))) * splat(shrink)
        store(bar, i, candidate + candidate - old)
        store(v, i, old + splat(rho) * (candidate - old))


@kernel
def _moved(bar: Any, row: Any, edge_bits: Any, weight: float, stride: int, bit: int, i: int) -> Any:
    """``dual + sigma A bar`` along one axis, zero where there is no edge."""
    return keep_where(
        load(row, i) + splat(weight) * (load(bar, i + stride) - load(bar, i)), edge_bits, i, bit
    )


@kernel
def _dual_span_3d(
    arrays: Any, edge_bits: Any, weights: Any, strides: Any, first: int, last: int, scalars: Any
) -> None:
    """The isotropic dual step on a volume."""
    _y, _v, bar, dual = arrays
    one, rho, _damping = scalars
    a, b, c = dual[0], dual[1], dual[2]
    for i in range(first, last, LANE_BYTES // bar.itemsize):
        p = _moved(bar, a, edge_bits, weights[0], strides[0], 1, i)
        q = _moved(bar, b, edge_bits, weights[1], strides[1], 2, i)
        r = _moved(bar, c, edge_bits, weights[2], 1, 4, i)
        factor = splat(rho) * into_ball(p * p + q * q + r * r, one)
        keep = splat(one - rho)
        store(a, i, keep * load(a, i) + factor * p)
        store(b, i, keep * load(b, i) + factor * q)
        store(c, i, keep * load(c, i) + factor * r)


@kernel
def _dual_span(
    arrays: Any, edge_bits: Any, weights: Any, strides: Any, first: int, last: int, scalars: Any, kind: int
) -> None:
    """The dual step of any kind, on any number of axes."""
    _y, _v, bar, dual = arrays
    one, rho, damping = scalars
    for i in range(first, last, LANE_BYTES // bar.itemsize):
        factor = splat(damping)
        if kind == ISOTROPIC:
            squares = splat(one - one)
            for axis in range(len(strides)):
                moved = _moved(bar, dual[axis], edge_bits, weights[axis], strides[axis], 1 << axis, i)
                squares = squares + moved * moved
            factor = into_ball(squares, one)
        for axis in range(len(strides)):
            row = dual[axis]
            moved = _moved(bar, row, edge_bits, weights[axis], strides[axis], 1 << axis, i)
            if kind == ANISOTROPIC:
                factor = into_ball(moved * moved, one)
            store(row, i, splat(one - rho) * load(row, i) + splat(rho) * factor * moved)


@kernel
def _sweep(
    arrays: Any,
    layout: Any,
    spans: Any,
    weights: Any,
    primal_steps: Any,
    dual_steps: Any,
    kind: int,
    n_iter: int,
) -> None:
    """Do `n_iter` primal-dual iterations."""
    edge_bits, strides = layout
    start, stop, slab_ptr = spans
    pull_weights, step_weights = weights
    n_slabs = len(slab_ptr) - 1
    plain_volume = kind == ISOTROPIC and len(strides) == 3
    for _ in range(n_iter):
        for slab in range(n_slabs + 1):
            if slab < n_slabs:
                for s in range(slab_ptr[slab], slab_ptr[slab + 1]):
                    _primal_span(arrays, pull_weights, strides, start[s], stop[s], primal_steps)
            if slab > 0:
                for s in range(slab_ptr[slab - 1], slab_ptr[slab]):
                    if plain_volume:
                        _dual_span_3d(arrays, edge_bits, step_weights, strides, start[s], stop[s], dual_steps)
                    else:
                        _dual_span(
                            arrays, edge_bits, step_weights, strides, start[s], stop[s], dual_steps, kind
                        )


@kernel
def _smooth_shares(arrays: Any, strides: Any, spans: Any, weights: Any, scalars: Any, busy: Any) -> Any:
    """Write w into `bar`, mark the chunks where v or w is not zero, and return q of v and ``||w||^2``."""
    y, v, bar, dual = arrays
    start, stop, _slab_ptr = spans
    half, low, high = scalars
    smooth = 0.0
    squares = 0.0
    busy[:] = False
    for s in range(len(start)):
        for i in range(start[s], stop[s], LANE_BYTES // y.itemsize):
            z = _residual(y, dual, weights, strides, i)
            b = smaller(larger(z, splat(low)), splat(high))
            w = (z - b) * splat(half)
            x = load(v, i)
            store(bar, i, w)
            smooth += lane_sum((x - w) * (x - w) + (splat(high) * magnitude(x) - b * x))
            squares += lane_sum(w * w)
            if any_nonzero(w) or any_nonzero(x):
                busy[i // CHUNK] = True
    return smooth, squares


@kernel
def _structured_shares(
    arrays: Any, edge_bits: Any, strides: Any, spans: Any, weights: Any, scalars: Any, kind: int
) -> tuple[float, float]:
    """``h(Ax) + h*(dual) - dual'Ax`` for x = v and x = w."""
    _y, v, w, dual = arrays
    start, stop, _slab_ptr = spans
    zero, half = scalars
    total_v = 0.0
    total_w = 0.0
    for s in range(len(start)):
        for i in range(start[s], stop[s], LANE_BYTES // v.itemsize):
            squares_v, squares_w = splat(zero), splat(zero)
            share_v, share_w = splat(zero), splat(zero)
            own_v, own_w = load(v, i), load(w, i)
            for axis in range(len(strides)):
                weight, ahead = splat(weights[axis]), i + strides[axis]
                row_v = keep_where(weight * (load(v, ahead) - own_v), edge_bits, i, 1 << axis)
                row_w = keep_where(weight * (load(w, ahead) - own_w), edge_bits, i, 1 << axis)
                own_dual = load(dual[axis], i)
                share_v = share_v + row_share(row_v, own_dual, half, kind)
                share_w = share_w + row_share(row_w, own_dual, half, kind)
                if kind == ISOTROPIC:
                    squares_v = squares_v + row_v * row_v
                    squares_w = squares_w + row_w * row_w
            total_v += lane_sum(share_v + square_root(squares_v))
            total_w += lane_sum(share_w + square_root(squares_w))
    return total_v, total_w


@kernel
def _make_feasible(dual: Any, spans: Any, radius: float, kind: int) -> None:
    """Pull groups back whose norm, in float64, is above 1."""
    start, stop, _slab_ptr = spans
    for s in range(len(start)):
        for i in range(start[s], stop[s], WIDE):
            squares = splat(0.0)
            for axis in range(len(dual)):
                entry = load_wide(dual[axis], i)
                squares = squares + entry * entry
            factor = surely_into_ball(squares, radius)
            for axis in range(len(dual)):
                row = dual[axis]
                entry = load_wide(row, i)
                if kind == ANISOTROPIC:
                    factor = surely_into_ball(entry * entry, radius)
                store(row, i, factor * entry)


@kernel
def _exact_structured(
    x: Any, dual: Any, edge_bits: Any, strides: Any, spans: Any, weights: Any, kind: int
) -> tuple[float, float]:
    """``h(Ax)`` and ``h(Ax) + h*(dual) - dual'Ax`` in float64."""
    start, stop, _slab_ptr = spans
    value = 0.0
    slack = 0.0
    for s in range(len(start)):
        for i in range(start[s], stop[s], WIDE):
            length = splat(0.0)
            share = splat(0.0)
            for axis in range(len(strides)):
                step = splat(weights[axis]) * (load_wide(x, i + strides[axis]) - load_wide(x, i))
                row = keep_where(step, edge_bits, i, 1 << axis)
                entry = load_wide(dual[axis], i)
                share = share + row_share(row, entry, 0.5, kind)
                length = length + (magnitude(row) if kind == ANISOTROPIC else row * row)
            if kind == ISOTROPIC:
                length = square_root(length)
                share = share + length
            value += lane_sum(length)
            slack += lane_sum(share)
    return value, slack


@kernel
def _exact_pull(dual: Any, position: Any, strides: Any, spans: Any, weights: Any, out: Any) -> None:
    """``c A'dual`` in float64, one entry per feature; the weights include c."""
    start, stop, _slab_ptr = spans
    cells = np.empty(WIDE)
    j = 0
    for s in range(len(start)):
        for i in range(start[s], stop[s], WIDE):
            total = splat(0.0)
            for axis in range(len(strides)):
                row = dual[axis]
                step = load_wide(row, i - strides[axis]) - load_wide(row, i)
                total = total + splat(weights[axis]) * step
            store(cells, 0, total)
            # features are in the order of their cells
            while j < len(position) and position[j] < i + WIDE:
                out[j] = cells[position[j] - i]
                j += 1


class GridWorkspace(PlacedWorkspace):
    """Workspace on the padded box of a grid without periodic axes."""

    def __init__(self, structure: GridStructure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(terms, dtype, structure.isotropic)
        self._box = box = cached_layout(structure, lay_out)
        self._allocate(box, box.n_cells, (len(box.strides), box.n_cells))
        self._weights = box.axis_weights.astype(self._dtype)
        self._exact_pull_weights = terms.coupling * box.axis_weights
        self._pull_weights = self._exact_pull_weights.astype(self._dtype)
        self._arrays = (self._y, self._v, self._bar, self._dual)
        self._busy = np.zeros_like(box.occupied)
        self._all = self._active = box.spans(box.occupied)

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k."""
        super().set_weights(coupling, threshold)
        self._exact_pull_weights = coupling * self._box.axis_weights
        self._pull_weights = self._exact_pull_weights.astype(self._dtype)

    def advance(self, n_iter: int, steps: StepSizes) -> None:
        """Do `n_iter` primal-dual iterations on the active chunks."""
        tau, sigma, rho = steps
        threshold = tau * self._terms.threshold
        _sweep(
            self._arrays,
            (self._box.edge_bits, self._box.strides),
            self._active,
            (self._pull_weights, (sigma * self._weights).astype(self._dtype)),
            self._typed(tau, self._lower_bound(threshold), threshold, 1 / (1 + 2 * tau), rho),
            self._typed(1, rho, 1 / (1 + 0.5 * sigma)),
            self._kind,
            n_iter,
        )

    def gap_shares(self) -> GapShares:
        """Compute the gap of v and of w, and find the active chunks."""
        coupling, threshold, box = self._terms.coupling, self._terms.threshold, self._box
        scalars = self._typed(0.5, self._lower_bound(threshold), threshold)
        smooth, squares = _smooth_shares(
            self._arrays, box.strides, self._all, self._pull_weights, scalars, self._busy
        )
        active = spread(self._busy, box.occupied, box.strides, self._v, self._bar)
        few = np.count_nonzero(active) < WORTH_SKIPPING * np.count_nonzero(box.occupied)
        self._active = box.spans(active) if few else self._all
        spans, constants = self._parts_with_slack(), self._typed(0, 0.5)
        share_v, share_w = _structured_shares(
            self._arrays, box.edge_bits, box.strides, spans, self._weights, constants, self._kind
        )
        return GapShares(coupling * share_v, smooth, coupling * share_w, squares, self._conjugate(self._dual))

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """Shares of the exact gap in float64."""
        box, coupling, spans = self._box, self._terms.coupling, self._parts_with_slack()
        if self._kind != GRAPHNET:
            _make_feasible(self._dual, self._all, self._feasible_radius(), self._kind)
        x = self._bar if use_minimizer else self._v
        value, slack = _exact_structured(
            x, self._dual, box.edge_bits, box.strides, spans, box.axis_weights, self._kind
        )
        pull = np.empty(len(box.place))
        _exact_pull(self._dual, box.place, box.strides, self._all, self._exact_pull_weights, pull)
        return ExactShares(pull, coupling * value, coupling * slack, self._conjugate(self._dual))
