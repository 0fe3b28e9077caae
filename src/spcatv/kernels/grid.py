"""The kernel for masked grids: one sweep over the padded box an iteration.

A slab's loadings are updated first, then the dual variable of the slab before it, whose forward
neighbours are by then known: so every array passes through the cache once an iteration. Between two
looks at the gap the sweep runs over the chunks that are not zero, and their neighbours, alone.
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
from spcatv.kernels.box import CHUNK, Spans, lay_out, spread
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
    store_narrow,
)
from spcatv.structure import GridStructure


@kernel
def _residual_3d(y: Any, alpha: Any, weights: Any, strides: Any, i: int) -> Any:
    """``y - c A'alpha`` on the lanes at cell i of a volume."""
    a, b, c = alpha[0], alpha[1], alpha[2]
    return (
        load(y, i)
        - splat(weights[0]) * (load(a, i - strides[0]) - load(a, i))
        - splat(weights[1]) * (load(b, i - strides[1]) - load(b, i))
        - splat(weights[2]) * (load(c, i - 1) - load(c, i))
    )


@kernel
def _residual(y: Any, alpha: Any, weights: Any, strides: Any, i: int) -> Any:
    """``y - c A'alpha`` on the lanes at cell i."""
    z = load(y, i)
    for axis in range(len(strides)):
        row = alpha[axis]
        z = z - splat(weights[axis]) * (load(row, i - strides[axis]) - load(row, i))
    return z


@kernel
def _primal_span(arrays: Any, weights: Any, strides: Any, first: int, last: int, scalars: Any) -> None:
    y, v, bar, alpha = arrays
    tau, low, high, shrink, rho = scalars
    is_volume = len(strides) == 3
    for i in range(first, last, LANE_BYTES // y.itemsize):
        z = (
            _residual_3d(y, alpha, weights, strides, i)
            if is_volume
            else _residual(y, alpha, weights, strides, i)
        )
        old = load(v, i)
        moved = old + splat(tau) * z
        candidate = (moved - smaller(larger(moved, splat(low)), splat(high))) * splat(shrink)
        store(bar, i, candidate + candidate - old)
        store(v, i, old + splat(rho) * (candidate - old))


@kernel
def _moved(bar: Any, row: Any, edge_bits: Any, weight: float, stride: int, bit: int, i: int) -> Any:
    """``alpha + sigma A bar`` along one axis, zero where there is no edge."""
    return keep_where(
        load(row, i) + splat(weight) * (load(bar, i + stride) - load(bar, i)), edge_bits, i, bit
    )


@kernel
def _dual_span_3d(
    arrays: Any, edge_bits: Any, weights: Any, strides: Any, first: int, last: int, scalars: Any
) -> None:
    """The isotropic dual step on a volume."""
    _y, _v, bar, alpha = arrays
    one, rho, _damping = scalars
    a, b, c = alpha[0], alpha[1], alpha[2]
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
    _y, _v, bar, alpha = arrays
    one, rho, damping = scalars
    for i in range(first, last, LANE_BYTES // bar.itemsize):
        factor = splat(damping)
        if kind == ISOTROPIC:
            squares = splat(one - one)
            for axis in range(len(strides)):
                moved = _moved(bar, alpha[axis], edge_bits, weights[axis], strides[axis], 1 << axis, i)
                squares = squares + moved * moved
            factor = into_ball(squares, one)
        for axis in range(len(strides)):
            row = alpha[axis]
            moved = _moved(bar, row, edge_bits, weights[axis], strides[axis], 1 << axis, i)
            if kind == ANISOTROPIC:
                factor = into_ball(moved * moved, one)
            store(row, i, splat(one - rho) * load(row, i) + splat(rho) * factor * moved)


@kernel
def _sweep(
    arrays: Any, layout: Any, spans: Any, weights: Any, primal: Any, dual: Any, kind: int, n_iter: int
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
                    _primal_span(arrays, pull_weights, strides, start[s], stop[s], primal)
            if slab > 0:
                for s in range(slab_ptr[slab - 1], slab_ptr[slab]):
                    if plain_volume:
                        _dual_span_3d(arrays, edge_bits, step_weights, strides, start[s], stop[s], dual)
                    else:
                        _dual_span(arrays, edge_bits, step_weights, strides, start[s], stop[s], dual, kind)


@kernel
def _smooth_shares(arrays: Any, strides: Any, spans: Any, weights: Any, scalars: Any, busy: Any) -> Any:
    """Write w into `bar`, mark the chunks where v or w is not zero, return q for v and ``||w||^2``."""
    y, v, bar, alpha = arrays
    start, stop, _slab_ptr = spans
    half, low, high = scalars
    smooth = 0.0
    squares = 0.0
    busy[:] = False
    for s in range(len(start)):
        for i in range(start[s], stop[s], LANE_BYTES // y.itemsize):
            z = _residual(y, alpha, weights, strides, i)
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
    """``s(x) - alpha'Ax`` (or its GraphNet counterpart) for x = v and x = w, without the factor c."""
    _y, v, w, alpha = arrays
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
                dual = load(alpha[axis], i)
                share_v = share_v + row_share(row_v, dual, half, kind)
                share_w = share_w + row_share(row_w, dual, half, kind)
                if kind == ISOTROPIC:
                    squares_v = squares_v + row_v * row_v
                    squares_w = squares_w + row_w * row_w
            total_v += lane_sum(share_v + square_root(squares_v))
            total_w += lane_sum(share_w + square_root(squares_w))
    return total_v, total_w


@kernel
def _make_feasible(alpha: Any, spans: Any, below_one: float, kind: int) -> None:
    """Pull groups back whose norm, in float64, is above 1."""
    start, stop, _slab_ptr = spans
    for s in range(len(start)):
        for i in range(start[s], stop[s], WIDE):
            squares = splat(0.0)
            for axis in range(len(alpha)):
                dual = load_wide(alpha[axis], i)
                squares = squares + dual * dual
            factor = surely_into_ball(squares, below_one)
            for axis in range(len(alpha)):
                row = alpha[axis]
                dual = load_wide(row, i)
                if kind == ANISOTROPIC:
                    factor = surely_into_ball(dual * dual, below_one)
                store_narrow(row, i, factor * dual)


@kernel
def _exact_structured(
    x: Any, alpha: Any, edge_bits: Any, strides: Any, spans: Any, weights: Any, kind: int
) -> tuple[float, float]:
    """``h(Ax)`` and ``h(Ax) + h*(alpha) - alpha'Ax`` in float64."""
    start, stop, _slab_ptr = spans
    value = 0.0
    slack = 0.0
    for s in range(len(start)):
        for i in range(start[s], stop[s], WIDE):
            squares = splat(0.0)
            length = splat(0.0)
            inner = splat(0.0)
            for axis in range(len(strides)):
                step = splat(weights[axis]) * (load_wide(x, i + strides[axis]) - load_wide(x, i))
                row = keep_where(step, edge_bits, i, 1 << axis)
                dual = load_wide(alpha[axis], i)
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
def _exact_pull(alpha: Any, position: Any, strides: Any, spans: Any, weights: Any, out: Any) -> None:
    """``c A'alpha`` in float64 on the features, for weights that have c in them."""
    start, stop, _slab_ptr = spans
    cells = np.empty(WIDE)
    j = 0
    for s in range(len(start)):
        for i in range(start[s], stop[s], WIDE):
            total = splat(0.0)
            for axis in range(len(strides)):
                row = alpha[axis]
                step = load_wide(row, i - strides[axis]) - load_wide(row, i)
                total = total + splat(weights[axis]) * step
            store(cells, 0, total)
            # features are in the order of their cells
            while j < len(position) and position[j] < i + WIDE:
                out[j] = cells[position[j] - i]
                j += 1


class GridWorkspace:
    """Workspace on the padded box of a grid without periodic axes."""

    def __init__(self, structure: GridStructure, setting: Setting, dtype: npt.DTypeLike) -> None:
        self._dtype: np.dtype[Any] = np.dtype(dtype)
        self._scalar: Any = self._dtype.type
        self._setting = setting
        self._box = box = remembered(structure, lay_out)
        self._exact_weights = box.axis_weights
        self._weights = self._exact_weights.astype(self._dtype)
        self._pull_weights = (setting.tv * self._exact_weights).astype(self._dtype)
        self._kind = kind_of_dual(setting, structure.isotropic)
        self._y, self._v, self._bar = (np.zeros(box.n_cells, dtype=self._dtype) for _ in range(3))
        self._alpha = np.zeros((len(box.strides), box.n_cells), dtype=self._dtype)
        self._arrays = (self._y, self._v, self._bar, self._alpha)
        self._busy = np.zeros_like(box.occupied)
        self._all = self._active = _triple(box.spans(box.occupied))

    def _typed(self, *scalars: float) -> tuple[Any, ...]:
        return tuple(self._scalar(scalar) for scalar in scalars)

    def set_target(self, y: FloatArray) -> None:
        """Take a new y."""
        put(y, self._box.position, self._y)
        self._active = self._all

    def set_state(self, v: FloatArray, alpha: FloatArray) -> None:
        """Take v and a feasible dual variable."""
        put(v, self._box.position, self._v)
        put(alpha, self._box.row_position, self._alpha.reshape(-1))
        self._active = self._all

    def clear(self) -> None:
        """Set v and the dual variable to zero."""
        self._v[:] = 0
        self._alpha[:] = 0
        self._active = self._all

    def advance(self, n_iter: int, steps: Steps) -> None:
        """Do `n_iter` primal-dual iterations where the last look found anything."""
        tau, sigma, rho = steps
        threshold = tau * self._setting.l1
        low = no_lower_bound(self._dtype) if self._setting.positive else -threshold
        _sweep(
            self._arrays,
            (self._box.edge_bits, self._box.strides),
            self._active,
            (self._pull_weights, (sigma * self._weights).astype(self._dtype)),
            self._typed(tau, low, threshold, 1 / (1 + 2 * tau), rho),
            self._typed(1, rho, 1 / (1 + 0.5 * sigma)),
            self._kind,
            n_iter,
        )

    def gap_shares(self) -> GapShares:
        """Look at the gap of v and of w; afterwards `bar` holds w, and the active chunks are known."""
        tv, l1 = self._setting.tv, self._setting.l1
        box, strides = self._box, self._box.strides
        low = no_lower_bound(self._dtype) if self._setting.positive else -l1
        scalars = self._typed(0.5, low, l1)
        smooth, squares = _smooth_shares(
            self._arrays, strides, self._all, self._pull_weights, scalars, self._busy
        )
        self._activate()
        # where v and w are zero there are no differences; only GraphNet counts the dual variable by itself
        spans = self._all if self._setting.graphnet else self._active
        constants = self._typed(0, 0.5)
        share_v, share_w = _structured_shares(
            self._arrays, box.edge_bits, strides, spans, self._weights, constants, self._kind
        )
        return GapShares(tv * share_v, smooth, tv * share_w, squares, self._conjugate())

    def _conjugate(self) -> float:
        return conjugate(self._setting.tv, self._setting.graphnet, self._alpha)

    def _activate(self) -> None:
        active = spread(self._busy, self._box.occupied, self._box.strides, self._v, self._bar)
        few = np.count_nonzero(active) < WORTH_LEAVING_OUT * np.count_nonzero(self._box.occupied)
        self._active = _triple(self._box.spans(active)) if few else self._all

    def exact_shares(self, use_minimizer: bool) -> ExactShares:
        """The exact gap's shares in float64."""
        box, tv = self._box, self._setting.tv
        if self._kind != GRAPHNET:
            _make_feasible(self._alpha, self._all, feasible_factor(self._dtype), self._kind)
        x = self._bar if use_minimizer else self._v
        # as in a look: no differences where v and w are zero
        spans = self._all if self._setting.graphnet else self._active
        value, slack = _exact_structured(
            x, self._alpha, box.edge_bits, box.strides, spans, self._exact_weights, self._kind
        )
        pull = np.empty(len(box.position))
        _exact_pull(self._alpha, box.position, box.strides, self._all, tv * self._exact_weights, pull)
        return ExactShares(pull, tv * value, tv * slack, self._conjugate())

    def get_v(self) -> FloatArray:
        """The iterate v."""
        return picked(self._v, self._box.position)

    def get_w(self) -> FloatArray:
        """The minimiser w of the last look."""
        return picked(self._bar, self._box.position)

    def get_alpha(self) -> FloatArray:
        """The dual variable."""
        return picked(self._alpha.reshape(-1), self._box.row_position, self._dtype)


def _triple(spans: Spans) -> tuple[Any, Any, Any]:
    return spans.start, spans.stop, spans.slab_ptr
