"""How long a stage of the work will still take, judged by its pace so far."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

# Where work is not cut into steps, half of what is left counts as the next step.
NEXT_SHARE = 0.5


class TimeLeft:
    """The time left of one stage after the other; it counts down between the steps.

    With a share s of the work done after t seconds, the whole takes t / s. If the next step takes longer
    than that pace allows, the estimate grows: were the next step done now, after t seconds and with a share
    n of the work, then t (1 - n) / n would be left. Before the first step, this is all that is known: a lower
    bound, if all steps are alike.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.begin(None)

    def begin(self, n_steps: int | None, at_once: int = 1) -> None:
        """A stage begins; `at_once` of its steps run, and end, at about the same time."""
        self._n_steps, self._n_done, self._at_once = n_steps, 0, max(1, at_once)
        self._started = self._clock()
        self._share, self._reached = 0.0, 0.0
        self._next = 0.0 if n_steps is None else min(1.0, self._at_once / n_steps)

    def steps_done(self, number: int | None = None, n_steps: int | None = None) -> None:
        """`number` steps of the stage are done, or one more; `n_steps` is their total, if it has changed."""
        self._n_done = self._n_done + 1 if number is None else number
        self._n_steps = n_steps or self._n_steps
        if self._n_steps is not None:
            rounds = math.ceil(self._n_done / self._at_once)
            share, following = (min(1.0, n * self._at_once / self._n_steps) for n in (rounds, rounds + 1))
            self._advance(1.0 if self._n_done >= self._n_steps else share, following)

    def share_done(self, share: float) -> None:
        """A share of the stage is done, which is not cut into equal steps."""
        if share > 0:
            self._advance(share, share + NEXT_SHARE * (1 - share))

    def _advance(self, share: float, following: float) -> None:
        if share > self._share:
            self._share, self._reached = share, self._clock() - self._started
        self._next = following

    def seconds(self) -> float | None:
        """Seconds left; None if nothing is known yet."""
        if self._share >= 1:
            return 0.0
        if self._next <= 0:
            return None
        elapsed = self._clock() - self._started
        bound = elapsed * (1 - self._next) / self._next
        return max(self._reached / self._share - elapsed, bound) if self._share > 0 else bound

    def __str__(self) -> str:
        """In words: empty while nothing is known, and when the stage is done."""
        seconds = self.seconds()
        if not seconds:
            return ""
        return f"{'about' if self._share > 0 else 'at least'} {duration(seconds)} left"


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
