"""Message before kernels are compiled, which takes up to half a minute, and a clock without that time.

Numba reports a kernel that it is about to compile, and not one that it finds in its cache.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from typing import Any

from numba.core import event

from spcatv.progress.events import Message
from spcatv.progress.listeners import SILENT, current_listener


class Announcer(event.Listener):
    """Listener of Numba that sends one message, before the first kernel of this package is compiled.

    Without a listener of progress the message goes to the standard error; worker processes send none.
    """

    def __init__(self) -> None:
        self._said = False
        self._depth, self._started = 0, 0.0  # kernels that are compiled inside others
        self.seconds = 0.0  # that all compilations have taken

    def on_start(self, told: Any) -> None:
        """Send the message, unless it was sent before."""
        if self._depth == 0:
            self._started = time.perf_counter()
        self._depth += 1
        kernel = told.data["dispatcher"]
        package = str(getattr(kernel.py_func, "__module__", "")).split(".")[0]
        if self._said or package != "spcatv" or multiprocessing.parent_process() is not None:
            return
        self._said = True
        how_often = "in every process" if kernel.stats.cache_path is None else "once per installation"
        text = f"compiling kernels for data like these: up to half a minute, {how_often}"
        if current_listener() is SILENT:
            print(f"spca-tv: note: {text}", file=sys.stderr, flush=True)
        else:
            current_listener().hear(Message(text))

    def on_end(self, told: Any) -> None:
        """Add the time of a compilation."""
        self._depth -= 1
        if self._depth == 0:
            self.seconds += time.perf_counter() - self._started


ANNOUNCER = Announcer()


def announce_compilation() -> None:
    """Announce compilations from now on."""
    event.register("numba:compile", ANNOUNCER)


def working_seconds() -> float:
    """Return the time of a clock that stands still while kernels are compiled."""
    return time.perf_counter() - ANNOUNCER.seconds
