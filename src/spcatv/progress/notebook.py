"""Progress bar of a Jupyter notebook."""

from __future__ import annotations

import sys
import time
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

# Shortest time between two updates of a bar, in seconds.
UPDATE_SECONDS = 0.1


def in_notebook() -> bool:
    """Return whether the code runs in the kernel of a notebook."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return hasattr(shell, "kernel")


class NotebookBar:
    """Listener that shows one bar below the cell: how much of the current stage is done."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._stage = StageStarted("")
        self._done = 0
        self._component = ""
        self._shown = 0.0  # time of the last update
        self._handle: Any = None

    def hear(self, event: Event, /) -> bool:
        """Update the bar."""
        match event:
            case Message(text):
                self._show(text, None)
            case FileRead(number, total):
                self._show(f"image {number} of {total}", number / total)
            case StageStarted():
                self._stage, self._done = event, 0
                self._show_stage()
            case StageAdvanced():
                self._done += 1
                self._show_stage()
            case ComponentStarted(number, n_components):
                self._component = f"component {number} of {n_components}"
                self._show(self._component, (number - 1) / n_components)
            case AlternationEnded(number):
                self._show(f"{self._component}, alternation {number}", None)
            case ComponentEnded(number, n_components):
                self._show(f"component {number} of {n_components} is done", number / n_components)
        return False

    def _show_stage(self) -> None:
        title, total, unit = self._stage.title, self._stage.total, self._stage.unit
        counted = f"{self._done} {unit}" if total is None else f"{self._done} of {total} {unit}"
        self._show(f"{title}: {counted}", self._done / total if total else None)

    def _show(self, text: str, share: float | None) -> None:
        """Show a text beside the bar, which moves to and fro if the `share` done is not known."""
        now = time.monotonic()
        if self._handle is not None and share != 1 and now - self._shown < UPDATE_SECONDS:
            return
        self._shown = now
        line = f"{self._name}: {text}"
        value = "" if share is None else f' value="{share:.4f}"'
        bundle = {
            "text/html": f'<progress{value} style="width: 16em"></progress> {escape(line)}',
            "text/plain": line,
        }
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
