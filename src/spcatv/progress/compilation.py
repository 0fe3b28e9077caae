"""Message before kernels are compiled, which takes up to half a minute.

Numba reports a kernel that it is about to compile, and not one that it finds in its cache.
"""

from __future__ import annotations

from typing import Any

from numba.core import event

from spcatv.progress.events import Message
from spcatv.progress.listeners import SILENT, current_listener


class Announcer(event.Listener):
    """Listener of Numba that sends one message, before the first kernel of this package is compiled."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, told: Any) -> None:
        """Send the message, unless it was sent before or there is no listener."""
        kernel = told.data["dispatcher"]
        package = str(getattr(kernel.py_func, "__module__", "")).split(".")[0]
        if self._said or current_listener() is SILENT or package != "spcatv":
            return
        self._said = True
        how_often = "in every process" if kernel.stats.cache_path is None else "once per installation"
        text = f"compiling kernels for data like these: up to half a minute, {how_often}"
        current_listener().hear(Message(text))

    def on_end(self, told: Any) -> None:
        """Ignore the end of a compilation."""


ANNOUNCER = Announcer()


def announce_compilation() -> None:
    """Announce compilations from now on."""
    event.register("numba:compile", ANNOUNCER)
