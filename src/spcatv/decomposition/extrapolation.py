"""Extrapolation of scores along their last change, by a secant step."""

from __future__ import annotations

import numpy as np

from spcatv._util.devices import beside
from spcatv._util.types import FloatArray
from spcatv.kernels.vectors import weighted_sum

# Multiple of the last change of the scores at first, its growth from step to step, and its bounds.
FIRST_PUSH, PUSH_GROWTH, LONGEST_PUSH, FURTHEST_BACK = 1.0, 2.0, 10.0, -0.5
# Skip the extrapolation if the scores nearly cancel: their smallest singular value is below this.
SHORTEST_SCORES = 0.1
# A relative gap that grows by this factor is a setback, after which this share of the push is left.
SETBACK, PUSH_LEFT = 1.2, 0.3


class Extrapolation:
    """Scores pushed on along their last change, or pulled back where they oscillate.

    An alternation leads from orthonormal scores x to u, (N, K) each. As in the secant method, its last two
    moves ``f = u - x`` give the step at which the moves would vanish if they changed linearly: far ahead
    where they shrink slowly, and back where they turn around.
    """

    def __init__(self, scores: FloatArray | None = None, tol: float = 0.0) -> None:
        self._from = scores  # x of the next alternation; None if only its maps are known
        self._tol = tol  # relative gap to reach
        # the last move, the scores that it led to, their maps and their relative gap
        self._last: tuple[FloatArray, FloatArray, FloatArray, float] | None = None
        self._push = 0.0

    def next_maps(self, u: FloatArray, maps: FloatArray, relative_gap: float) -> FloatArray:
        """Return the maps (K, P) to start the next alternation from; they are linear in u (N, K)."""
        start = self._from
        move = None if start is None or start.shape != u.shape else u - start
        last, self._last = self._last, None if move is None else (move, u, maps, relative_gap)
        self._from = u
        if move is None or last is None:
            return maps
        last_move, before, maps_before, gap_before = last
        self._push = self._next_push(move, last_move, grew=relative_gap > SETBACK * gap_before)
        # at the pace of the last alternation, the next one ends anyway
        if self._push == 0.0 or relative_gap**2 <= self._tol * gap_before:
            return maps
        push, pushed = self._push, u + self._push * (u - before)
        left, lengths, right = np.linalg.svd(pushed, full_matrices=False)
        if lengths[-1] < SHORTEST_SCORES:
            return maps
        self._from = left @ right
        if len(maps) == 1:  # the same in one pass through memory
            new, old = (1 + push) / lengths[0], -push / lengths[0]
            return weighted_sum(new, maps[0], old, maps_before[0])[np.newaxis]
        turn = beside((right.T / lengths) @ right, maps)
        return turn @ ((1 + push) * maps - push * maps_before)

    def _next_push(self, move: FloatArray, last: FloatArray, *, grew: bool) -> float:
        """Return the multiple of the last change of u to extrapolate by; `grew` means that the gap rose."""
        change = move - last
        secant = -float(np.vdot(change, move)) / (float(np.vdot(change, change)) or 1.0)
        if float(np.vdot(move, last)) < 0:
            return max(secant, FURTHEST_BACK)
        if grew:
            return PUSH_LEFT * max(self._push, 0.0)
        # several scores also turn among each other, where a long push goes too far
        most = min(max(PUSH_GROWTH * self._push, FIRST_PUSH), LONGEST_PUSH / move.shape[1])
        return min(secant, most) if secant > 0 else most  # growing moves do not predict their end
