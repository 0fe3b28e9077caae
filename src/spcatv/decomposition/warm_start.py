"""Warm starts from fits with other weights (docs/method.md section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import CentredData
from spcatv.decomposition.component import Component
from spcatv.decomposition.starts import JointStart
from spcatv.kernels.vectors import weighted_sum


@dataclass(frozen=True, eq=False)
class ComponentStart:
    """Starting point of the alternation of one component."""

    # ``X'u / (N l2)``, shape (P,), for the scores of another setting, or for those that two of them point to
    y: FloatArray
    v: FloatArray  # loading vector, likewise, in the length that the present l2 gives it, shape (P,)
    dual: FloatArray  # dual variable, likewise; not always feasible, shape (n_rows,)
    loss: float  # `Component.first_loss` of the other setting


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Components of the same data, fitted with other weights."""

    last: Sequence[Component]  # components of the setting before the present one
    older: Sequence[Component] = ()  # those of the setting before that, if the path runs straight; else empty
    ahead: float = 0.0  # the step to the present setting over the last step
    start: JointStart | None = None  # what the last joint fit started from

    def component_start(self, number: int, residual: CentredData, l2: float) -> ComponentStart | None:
        """Return the start of component `number` on a residual with another l2; None if it is empty.

        Straight on through two settings: u and with it X'u, v in the length that l2 gives it, and the dual
        variable all change smoothly along a path.
        """
        if number >= len(self.last) or self.last[number].is_empty:
            return None
        last = self.last[number]
        older, far = self._older(number)
        near = 1.0 - far
        u = weighted_sum(near, last.u, far, older.u)
        unit = 1.0 / (u.size * l2 * float(np.linalg.norm(u)))
        y = weighted_sum(near * unit, last.back, far * unit, older.back)
        residual.add_removed(u, -unit, y)
        return ComponentStart(
            y=y,
            v=weighted_sum(near * last.weights.l2 / l2, last.v, far * older.weights.l2 / l2, older.v),
            dual=weighted_sum(near, last.dual, far, older.dual),
            loss=last.first_loss,
        )

    def _older(self, number: int) -> tuple[Component, float]:
        """Return the other end of the straight line to component `number`, and its weight there."""
        if number < len(self.older):
            older = self.older[number]
            if not older.is_empty and older.u @ self.last[number].u >= 0:
                return older, -self.ahead
        return self.last[number], 0.0
