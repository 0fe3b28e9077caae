"""Ctrl-C, SIGTERM and SIGHUP stop the work: one line says what is kept, and how to go on or start again."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from spcatv.cli.kinds import InputError
from spcatv.cli.resuming import kept_text
from spcatv.cli.saying import complain
from spcatv.results import ResultsError


@contextmanager
def rerun_hint_on_interrupt(output: Path, argv: Sequence[str]) -> Iterator[None]:
    """On an interruption, from the keyboard or by a scheduler, say what is kept and how to go on.

    If the work fails, and some of it is kept, say so as well.
    """
    try:
        with _termination_interrupts():
            yield
    except BaseException as error:
        kept = kept_text(output, argv)
        if _interrupted(error):
            next_step = kept or f"To start again: {shlex.join(['spca-tv', *argv])}"
            raise KeyboardInterrupt(f"interrupted; nothing was written to {output}. {next_step}") from error
        if kept and not isinstance(error, (InputError, ResultsError)):
            complain("note", kept)
        raise


def _interrupted(error: BaseException | None) -> bool:
    """Whether an interruption is the error, or led to it.

    An interruption may come while a library starts its threads or processes, and its clean-up then fails
    with an error of its own.
    """
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


@contextmanager
def _termination_interrupts() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP unless it is ignored (nohup), stop the work as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set a signal handler
        return

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    kinds = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {kind: signal.getsignal(kind) for kind in kinds if signal.getsignal(kind) != signal.SIG_IGN}
    for kind in before:
        signal.signal(kind, interrupt)
    try:
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
