"""Factors that bring groups of the dual variable into their unit balls, lane by lane."""

from __future__ import annotations

from typing import Any

from spcatv.kernels.compiled import kernel
from spcatv.kernels.lanes import inverse_root, larger, smaller, splat


@kernel
def into_ball(squares: Any, one: float) -> Any:
    """``1 / max(1, norm)`` for squared norms in the working precision."""
    return inverse_root(larger(squares, splat(one)))


@kernel
def surely_into_ball(squares: Any, below_one: float) -> Any:
    """The same in float64, aiming at a radius below 1 that rounding cannot lift above it."""
    return smaller(splat(below_one) * inverse_root(larger(squares, splat(0.5))), splat(1.0))
