"""Ctrl-C, SIGTERM and SIGHUP stop the work: one line says what is kept, and how to go on or start again."""

from __future__ import annotations

import shlex
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
