"""Groups of the dual variable and their balls, lane by lane: the dual step and the shares of the gap."""

from __future__ import annotations

from typing import Any

from spcatv.kernels.compiled import inlined_kernel
from spcatv.kernels.lanes import inverse_root, larger, smaller, splat


@inlined_kernel
def into_ball(squares: Any, reach: float, one: float) -> Any:
    """``1 / max(1, norm)`` for squared norms, times `reach`, in the working precision."""
    return inverse_root(larger(splat(reach) * squares, splat(one)))


@inlined_kernel
def surely_into_ball(squares: Any, radius: float) -> Any:
    """Factor that brings groups into a ball, in float64; `radius` is smaller by more than rounding."""
    return smaller(splat(radius) * inverse_root(larger(squares, splat(0.5 * radius * radius))), splat(1.0))


@inlined_kernel
def penalty_of(norm: Any, numbers: Any) -> Any:
    """``h`` of groups of operator rows, by their norms and `DualBall.value_factors`."""
    slope, corner, curve = numbers[0], numbers[1], numbers[2]
    inner = smaller(norm, splat(corner))
    return splat(slope) * (norm - inner) + splat(curve) * inner * inner


@inlined_kernel
def row_share(row: Any, dual: Any, numbers: Any) -> Any:
    """Share of an operator row in ``h* - dual'z``, by `DualBall.value_factors`."""
    return (splat(numbers[3]) * dual - row) * dual
