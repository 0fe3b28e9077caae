"""Groups of the dual variable and their unit balls, lane by lane: scaling into a ball, shares of the gap."""

from __future__ import annotations

from typing import Any

from spcatv.kernels.compiled import inlined_kernel
from spcatv.kernels.lanes import inverse_root, larger, magnitude, smaller, splat
from spcatv.kernels.workspaces import ANISOTROPIC, GRAPHNET


@inlined_kernel
def into_ball(squares: Any, one: float) -> Any:
    """``1 / max(1, norm)`` for squared norms in the working precision."""
    return inverse_root(larger(squares, splat(one)))


@inlined_kernel
def surely_into_ball(squares: Any, radius: float) -> Any:
    """The same in float64, with a radius so far below 1 that rounding cannot lift the norm above 1."""
    return smaller(splat(radius) * inverse_root(larger(squares, splat(0.5))), splat(1.0))


@inlined_kernel
def row_share(row: Any, dual: Any, half: float, kind: int) -> Any:
    """What an operator row and its dual variable add to the slack, except the norm of an isotropic group."""
    if kind == GRAPHNET:
        mismatch = row - splat(half) * dual
        return mismatch * mismatch
    if kind == ANISOTROPIC:
        return magnitude(row) - row * dual
    return splat(half - half) - row * dual
