"""Says that kernels are compiled: it takes a while, and nothing would be heard meanwhile.

Numba itself tells of a kernel that it is about to compile, and not of one that it finds in its cache. A
process whose kernels are all there never comes here.
"""

from __future__ import annotations

from typing import Any

from numba.core import event

from spcatv.progress.listening import listeners, say


class Announcer(event.Listener):
    """Tells the listeners, once, when the first kernel of this package is about to be compiled."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, told: Any) -> None:
        """Hear of a kernel that is about to be compiled."""
        kernel = told.data["dispatcher"]
        if self._said or not listeners() or not _is_ours(kernel):
            return
        self._said = True
        how_often = "in every process" if kernel.stats.cache_path is None else "once per installation"
        say(f"compiling kernels for data like these: up to half a minute, {how_often}")

    def on_end(self, told: Any) -> None:
        """Hear of a kernel that is compiled."""


def _is_ours(kernel: Any) -> bool:
    return str(getattr(kernel.py_func, "__module__", "")).split(".")[0] == "spcatv"


ANNOUNCER = Announcer()


def announce_compilation() -> None:
    """From now on, tell the listeners when kernels are compiled."""
    event.register("numba:compile", ANNOUNCER)
