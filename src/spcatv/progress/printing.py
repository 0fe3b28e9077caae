"""Listeners that print: what ``verbose`` shows, and plain messages.

Lines are flushed, so that they show while the work goes on, also through a pipe.
"""

from __future__ import annotations

import time

from spcatv.progress.events import (
    AlternationEnded,
    ComponentEnded,
    ComponentStarted,
    Event,
    Message,
    StageAdvanced,
)


class FitPrinter:
    """Prints messages, one line per component, and one per alternation if `verbose` is above 1."""

    def __init__(self, verbose: int) -> None:
        self._verbose = verbose
        self._component = ""
        self._started = 0.0

    def hear(self, event: Event, /) -> bool:
        """Print a message, or the figures of an alternation or a component."""
        match event:
            case Message(text):
                print(f"[SPCATV] {text}", flush=True)
            case ComponentStarted():
                self._component = f"[SPCATV] component {event.number}/{event.n_components}"
                self._started = time.perf_counter()
            case AlternationEnded() if self._verbose > 1:
                print(
                    f"{self._component}, alternation {event.number}: objective {event.objective:.8g}, "
                    f"relative gap {event.relative_gap:.2e}, {time.perf_counter() - self._started:.2f} s",
                    flush=True,
                )
            case ComponentEnded(diagnostics=found) if found.is_dead:
                print(f"{self._component} is dead: its loading is zero, {found.seconds:.2f} s", flush=True)
            case ComponentEnded(diagnostics=found):
                print(
                    f"{self._component} {'converged' if found.converged else 'NOT converged'}: "
                    f"objective {found.objective:.8g}, relative gap {found.relative_gap:.2e}, "
                    f"{found.n_alternations} alternations, {100 * found.sparsity:.1f} % zeros, "
                    f"{found.seconds:.2f} s",
                    flush=True,
                )
                if remark := found.global_remark(event.number):
                    print(f"[SPCATV] {remark}", flush=True)
        return False


class LinePrinter:
    """Prints messages and, if wanted, the steps of a stage, one line each, after a prefix."""

    def __init__(self, prefix: str = "", *, steps: bool = True) -> None:
        self._prefix, self._steps = prefix, steps

    def hear(self, event: Event, /) -> bool:
        """Print the text of a message, or the note of a step."""
        match event:
            case Message(text):
                print(f"{self._prefix}{text}", flush=True)
            case StageAdvanced(note) if self._steps:
                print(f"{self._prefix}{note}", flush=True)
        return False
