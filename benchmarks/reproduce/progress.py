"""Work on several processes, with a line for every piece that is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from joblib import Parallel, delayed


def run_all(
    work: Callable[..., str],
    pieces: Sequence[tuple[Any, ...]],
    *,
    jobs: int,
    say: Callable[[str], None] = print,
) -> None:
    """Call ``work(*piece)`` for every piece in `jobs` processes; it stores its own results.

    Parameters
    ----------
    work : callable
        Returns a line to show.
    pieces : sequence of tuple
        Arguments.
    jobs : int
        Processes; each keeps to one thread.
    say : callable
        Receives the lines, each with the pieces done and the time left.
    """
    started = time.perf_counter()
    results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(work)(*piece) for piece in pieces
    )
    for done, line in enumerate(results, start=1):
        passed = time.perf_counter() - started
        left = passed / done * (len(pieces) - done)
        say(f"[{done}/{len(pieces)}, {_clock(passed)} passed, {_clock(left)} left] {line}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
