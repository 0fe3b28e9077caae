"""Ctrl-C and SIGTERM: the work ends, nothing is left behind, and a line says how to start again."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def says_how_to_go_on(output: Path, argv: Sequence[str]) -> Iterator[None]:
    """Turn an interruption, from the keyboard or by a scheduler, into a line that helps.

    Parameters
    ----------
    output : Path
        The folder that is not written then.
    argv : sequence of str
        The command.
    """
    try:
        with _termination_interrupts():
            yield
    except KeyboardInterrupt as error:
        raise KeyboardInterrupt(
            f"interrupted; nothing was written to {output}. To start again: {shlex.join(['spca-tv', *argv])}"
        ) from error


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let a request to terminate (SIGTERM) end the work as Ctrl-C does, so that it leaves nothing behind."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
