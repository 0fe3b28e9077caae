"""Base classes of the compiled workspaces, and what their kernels do on a vector of lanes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.kernels.compiled import inlined_kernel, read_only
from spcatv.kernels.simd import (
    LANE_BYTES,
    any_nonzero,
    inverse_root,
    lane_sum,
    larger,
    load,
    magnitude,
    smaller,
    splat,
    square_root,
    store,
)
from spcatv.kernels.thread_pool import own_range, run_on_ranges, shared_kernel
from spcatv.kernels.workspace import CPUWorkspace, LoadingTerms, StepSizes, Workspace
from spcatv.structure import Structure

# Below this share of active chunks or blocks an iteration skips the inactive ones.
WORTH_SKIPPING = 0.8


def aligned_zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> Array:
    """Zeros that begin where a cache line does.

    A vector of `LANE_BYTES` that lies across two lines costs two accesses, and where NumPy's own arrays begin
    is chance: iterations took up to a fifth longer.
    """
    n_bytes = math.prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(n_bytes + LANE_BYTES, dtype=np.uint8)
    begin = -memory.ctypes.data % LANE_BYTES
    return memory[begin : begin + n_bytes].view(dtype).reshape(shape)


@shared_kernel
def _pick(number: int, n_threads: int, source: Any, index: Any, out: Any) -> None:
    first, last = own_range(number, n_threads, len(index), 1)
    own_index, own_out = index[first:last], out[first:last]
    for j in range(len(own_index)):
        own_out[j] = source[own_index[j]]


@shared_kernel
def _put(number: int, n_threads: int, source: Any, index: Any, out: Any) -> None:
    first, last = own_range(number, n_threads, len(index), 1)
    own_index, own_source = index[first:last], source[first:last]
    for j in range(len(own_index)):
        out[own_index[j]] = own_source[j]


@inlined_kernel
def into_ball(squares: Any, reach: float, one: float) -> Any:
    """``1 / max(1, norm)`` for squared norms, times `reach`, in the working precision."""
    return inverse_root(larger(splat(reach) * squares, splat(one)))


@inlined_kernel
def surely_into_ball(squares: Any, radius: float) -> Any:
    """Factor that brings groups into a ball, in float64; `radius` is smaller by more than rounding."""
    return smaller(splat(radius) * inverse_root(larger(squares, splat(0.5 * radius * radius))), splat(1.0))


@inlined_kernel
def _penalty_of(norm: Any, numbers: Any) -> Any:
    """``h`` of groups of operator rows, by their norms and `DualBall.value_factors`."""
    slope, corner, curve = numbers[0], numbers[1], numbers[2]
    inner = smaller(norm, splat(corner))
    return splat(slope) * (norm - inner) + splat(curve) * inner * inner


@inlined_kernel
def with_rows(group: Any, row_v: Any, row_w: Any, dual: Any, numbers: Any, isotropic: bool) -> Any:
    """Add the operator rows of v and of w, which share a dual variable, to the sums of their groups.

    The sums are squared norms (or penalties, of groups of one row) and shares of ``h* - dual'z``, of both.
    """
    size_v, share_v, size_w, share_w = group
    half = splat(numbers[3]) * dual
    size_v = size_v + (row_v * row_v if isotropic else _penalty_of(magnitude(row_v), numbers))
    size_w = size_w + (row_w * row_w if isotropic else _penalty_of(magnitude(row_w), numbers))
    return size_v, share_v + (half - row_v) * dual, size_w, share_w + (half - row_w) * dual


@inlined_kernel
def add_group(sums: Any, group: Any, numbers: Any, isotropic: bool) -> None:
    """Add groups to sums of ``h(z) + h* - dual'z`` for v and w, and of ``h(z)`` for both if there is room."""
    size_v, share_v, size_w, share_w = group
    cost_v = _penalty_of(square_root(size_v), numbers) if isotropic else size_v
    cost_w = _penalty_of(square_root(size_w), numbers) if isotropic else size_w
    sums[0] += lane_sum(share_v + cost_v)
    sums[1] += lane_sum(share_w + cost_w)
    if len(sums) > 2:
        sums[2] += lane_sum(cost_v)
        sums[3] += lane_sum(cost_w)


@inlined_kernel
def primal_step(v: Any, bar: Any, i: int, z: Any, steps: Any) -> None:
    """Do the primal step on the lanes at i, given ``z = y - c A'dual``."""
    tau, low, high, shrink, rho = steps
    old = load(v, i)
    moved = old + splat(tau) * z
    candidate = (moved - smaller(larger(moved, splat(low)), splat(high))) * splat(shrink)
    store(bar, i, candidate + candidate - old)
    store(v, i, old + splat(rho) * (candidate - old))


@inlined_kernel
def look_at(v: Any, w: Any, i: int, z: Any, scalars: Any) -> tuple[float, float, bool]:
    """Write w on the lanes at i; return shares of q of v and of ``||w||^2``, and whether v or w is not 0."""
    half, low, high = scalars
    b = smaller(larger(z, splat(low)), splat(high))
    own = (z - b) * splat(half)
    x = load(v, i)
    store(w, i, own)
    smooth = lane_sum((x - own) * (x - own) + (splat(high) * magnitude(x) - b * x))
    return smooth, lane_sum(own * own), any_nonzero(own) or any_nonzero(x)


class CompiledWorkspace(Workspace):
    """Precision and numbers of a compiled workspace."""

    def __init__(self, structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike) -> None:
        super().__init__(structure, terms, dtype)
        if terms.penalty.ball is None:
            raise TypeError(f"no compiled kernel computes {terms.penalty}; use ReferenceWorkspace")
        self._ball = terms.penalty.ball

    def _typed(self, *scalars: float) -> tuple[Any, ...]:
        """Scalars in the working precision."""
        return tuple(self.dtype.type(scalar) for scalar in scalars)

    def _step_scalars(self, steps: StepSizes) -> tuple[FloatArray, FloatArray]:
        """Scalars in the working precision for iterations in which threads wait for each other.

        A wait calls the system, which saves no vector registers: vectors made of plain scalars would be kept
        on the stack all along. Those of an array are made anew after every wait.

        Returns scalars of the primal step (coupling, tau, bounds of the soft threshold, shrinkage, rho), and
        scalars of the dual step (1, rho, rho times the damping, the reach, sigma).
        """
        tau, sigma, rho = steps
        threshold = tau * self._terms.threshold
        low, shrink = self._lower_bound(threshold), 1 / (1 + 2 * tau)
        damping, reach = self._ball.step_factors(sigma)
        primal = self._terms.coupling, tau, low, threshold, shrink, rho
        return np.array(primal, self.dtype), np.array((1, rho, rho * damping, reach, sigma), self.dtype)

    def _numbers(self, dtype: npt.DTypeLike) -> FloatArray:
        """Return `DualBall.value_factors` as finite numbers of a precision."""
        largest = 0.25 * float(np.finfo(dtype).max)
        return np.minimum(self._ball.value_factors(), largest).astype(dtype)

    def _lower_bound(self, threshold: float) -> float:
        """Lower clip bound of soft thresholding; below all entries, and so one-sided, for loadings >= 0."""
        return -0.25 * float(np.finfo(self.dtype).max) if self._terms.positive else -threshold

    def _feasible_radius(self) -> float:
        """Return the radius to aim at so that rounding to the working precision stays in the ball."""
        return self._ball.radius * (1.0 - 4.0 * float(np.finfo(self.dtype).eps))

    def _conjugate(self) -> float:
        """``h*`` of the dual variable in any layout that has zeros where there is no row."""
        curvature = self._ball.curvature
        return 0.5 * curvature * float(np.square(self._dual, dtype=np.float64).sum()) if curvature else 0.0


class PlacedWorkspace(CompiledWorkspace, CPUWorkspace):
    """A workspace whose features and operator rows have places of their own in memory.

    Between two looks at the gap it iterates only where v or w is not zero, and next to it.
    """

    _layout: Any  # place of every feature, and slot of every operator row in the flattened dual variable
    _all: Any  # the parts of the layout that hold features
    _active: Any  # the parts that iterations visit

    def _allocate(self, n_places: int, dual_shape: tuple[int, ...]) -> None:
        # w is the extrapolated v of an iteration, and the minimiser after a look at the gap
        self._y, self._v, self._w = (aligned_zeros((n_places,), self.dtype) for _ in range(3))
        self._dual = aligned_zeros(dual_shape, self.dtype)

    def _index(self, name: str) -> IntArray:
        return read_only(self._layout.slot if name == "_dual" else self._layout.place)

    def _write(self, name: str, values: FloatArray) -> None:
        index = self._index(name)
        run_on_ranges(_put, (read_only(values), index, getattr(self, name).reshape(-1)), len(index))
        self._active = self._all

    def _read(self, name: str, dtype: npt.DTypeLike = np.float64) -> FloatArray:
        index = self._index(name)
        out = np.empty(len(index), dtype=dtype)
        run_on_ranges(_pick, (read_only(getattr(self, name).reshape(-1)), index, out), len(index))
        return out

    def set_weights(self, coupling: float, threshold: float) -> None:
        """Take other weights c and k."""
        super().set_weights(coupling, threshold)
        self._active = self._all

    def _parts_with_slack(self) -> Any:
        """Parts that add to the slack: where v or w is not 0, or all if the conjugate is not 0."""
        return self._all if self._ball.curvature > 0 else self._active
