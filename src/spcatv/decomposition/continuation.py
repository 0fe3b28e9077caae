"""Warm starts: a fit that begins where fits with other weights ended (docs/method.md section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import DataOperator
from spcatv.decomposition.component import Component
from spcatv.decomposition.penalty import LoadingPenalty
from spcatv.kernels.vectors import weighted_sum


@dataclass(frozen=True, eq=False)
class Fitted:
    """A component that keeps its warm start, and the l2 weight that sets its length."""

    component: Component
    l2: float


@dataclass(frozen=True, eq=False)
class ComponentStart:
    """Where the alternation of one component begins.

    Attributes
    ----------
    y : ndarray of shape (P,)
        ``X'u / (N l2)`` for the scores of another setting, or for those that two of them point to.
    v : ndarray of shape (P,)
        Loading vector, likewise, in the length that the present l2 gives it.
    dual : ndarray of shape (n_rows,)
        Dual variable, likewise; not always feasible.
    loss : float
        `Component.first_loss` of the other setting.
    """

    y: FloatArray
    v: FloatArray
    dual: FloatArray
    loss: float


@dataclass(frozen=True, eq=False)
class WarmStart:
    """Components of the same data, fitted with other weights.

    Attributes
    ----------
    last : sequence of Fitted
        Components of the setting before the present one.
    older : sequence of Fitted
        Those of the setting before that, if the path runs straight; else empty.
    ahead : float
        The step to the present setting over the last step.
    """

    last: Sequence[Fitted]
    older: Sequence[Fitted] = ()
    ahead: float = 0.0

    def start(self, number: int, residual: DataOperator, penalty: LoadingPenalty) -> ComponentStart | None:
        """Where component `number` starts on a residual with other weights; None if it has vanished.

        Straight on through two settings: u and with it X'u, v in the length that l2 gives it, and the dual
        variable all change smoothly along a path.
        """
        if number >= len(self.last) or self.last[number].component.is_null:
            return None
        l2 = penalty.weights.l2
        last, last_l2 = self.last[number].component, self.last[number].l2
        before, far = self._before(number)
        older, near = before.component, 1.0 - far
        u = weighted_sum(near, last.u, far, older.u)
        unit = 1.0 / (penalty.back_scale(u.size) * float(np.linalg.norm(u)))
        y = weighted_sum(near * unit, last.back, far * unit, older.back)
        residual.add_removed(u, -unit, y)
        return ComponentStart(
            y=y,
            v=weighted_sum(near * last_l2 / l2, last.v, far * before.l2 / l2, older.v),
            dual=weighted_sum(near, last.dual, far, older.dual),
            loss=last.first_loss,
        )

    def _before(self, number: int) -> tuple[Fitted, float]:
        """The other end of the straight line to component `number`, and its weight there."""
        if number < len(self.older):
            older = self.older[number]
            if not older.component.is_null and older.component.u @ self.last[number].component.u >= 0:
                return older, -self.ahead
        return self.last[number], 0.0
