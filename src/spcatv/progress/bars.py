"""Progress bars: what they show of the events, and the bar of a Jupyter notebook."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from html import escape
from typing import Any

from spcatv.progress.events import (
    AlternationEnded,
    ComponentEnded,
    ComponentStarted,
    Event,
    FileRead,
    Message,
    StageAdvanced,
    StageStarted,
)

# Shortest time between two updates of a bar in a notebook, in seconds.
UPDATE_SECONDS = 0.1


def in_notebook() -> bool:
    """Return whether the code runs in the kernel of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


def share_done(relative_gap: float, tol: float) -> float:
    """Return how much of a component is done: 0 at a gap of 1 (the zero loading), 1 at `tol`.

    The gap shrinks by a roughly constant factor per alternation, so its logarithm is linear in time.
    """
    if relative_gap <= tol:
        return 1.0
    return min(1.0, max(0.0, math.log(min(relative_gap, 1.0)) / math.log(tol)))


class ProgressBar(ABC):
    """Listener that shows how much of the current stage is done."""

    def __init__(self) -> None:
        self._title, self._done, self._total = "Reading", 0.0, 0
        self._component, self._share = ComponentStarted(1, 1, 1.0), 0.0

    @abstractmethod
    def draw(self, title: str, note: str, done: float, total: int | None) -> None:
        """Show a stage, of which `done` of `total` steps are done; None if their number is not known."""

    @abstractmethod
    def show_message(self, text: str) -> None:
        """Show a message."""

    def hear(self, event: Event, /) -> bool:
        """Update the bar."""
        match event:
            case Message(text):
                self.show_message(text)
            case FileRead(number, total):
                self._show("Reading", f"file {number}/{total}", number, total)
            case StageStarted(title, total, unit):
                self._show(title, f"0 of {total} {unit}" if total else "", 0, total or 0)
            case StageAdvanced(note):
                self._show(
                    self._title, note.partition(":")[0], self._done + 1, self._total
                )  # fits 80 columns
            case ComponentStarted():
                self._component, self._share = event, 0.0
                self._show_component("")
            case AlternationEnded(number, _, gap):
                # each start begins with a large gap again, but the bar must not go back
                self._share = max(self._share, share_done(gap, self._component.tol))
                self._show_component(f", alternation {number}, gap {gap:.0e}")
            case ComponentEnded():
                self._share = 1.0
                self._show_component(" done")
        return False

    def _show_component(self, figures: str) -> None:
        number, n_components = self._component.number, self._component.n_components
        note = f"component {number}/{n_components}{figures}"
        self._show("Fitting", note, number - 1 + self._share, n_components)

    def _show(self, title: str, note: str, done: float, total: int) -> None:
        self._title, self._done, self._total = title, done, total
        self.draw(title, note, done, total or None)


class NotebookBar(ProgressBar):
    """Bar below the cell of a notebook."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._shown = 0.0  # time of the last update
        self._handle: Any = None

    def show_message(self, text: str) -> None:
        """Show a message in place of a stage."""
        self.draw(text, "", 0, None)

    def draw(self, title: str, note: str, done: float, total: int | None) -> None:
        """Show a text beside the bar, which moves to and fro if the total is not known."""
        now = time.monotonic()
        if self._handle is not None and done != total and now - self._shown < UPDATE_SECONDS:
            return
        self._shown = now
        line = ": ".join(filter(None, (self._name, title, note)))
        value = "" if total is None else f' value="{done / total:.4f}"'
        bundle = {
            "text/html": f'<progress{value} style="width: 16em"></progress> {escape(line)}',
            "text/plain": line,
        }
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
