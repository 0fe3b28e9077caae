"""Measurements in separate processes, with a fixed number of threads and a time limit.

A job is made once in its process (imports, data, a first run that is not counted) and then called many
times, so several jobs can take turns: one works, the others wait.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Time limit of a call, in seconds, and of making a job, unless another is given.
LIMIT = 600.0
# An entrant that has worked this many seconds does not repeat its runs.
PATIENCE = 12.0


class TimeUpError(Exception):
    """A job exceeded its time limit."""


def thread_limit(threads: int) -> AbstractContextManager[Any]:
    """Let processes that start inside the block use this many threads."""
    return patch.dict(os.environ, dict.fromkeys(THREAD_VARIABLES, str(threads)))


_jobs: list[Callable[..., Any]] = []  # the job of this process


def _make(make_job: Callable[..., Callable[..., Any]], arguments: tuple[Any, ...]) -> None:
    _jobs.append(make_job(*arguments))


def _run(request: tuple[Any, ...]) -> Any:
    return _jobs[0](*request)


class Worker:
    """A process that holds one job, ``make_job(*arguments)``, and runs it when called."""

    def __init__(self, make_job: Callable[..., Callable[..., Any]], *arguments: Any, threads: int) -> None:
        with thread_limit(threads):
            self._pool = multiprocessing.get_context("spawn").Pool(1)
        self._made = self._pool.apply_async(_make, (make_job, arguments))
        self.ended = ""

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until the job is made; several workers may start at the same time, before any is timed."""
        self._result(self._made, LIMIT)

    def call(self, *request: Any, limit: float = LIMIT) -> Any:
        """Run the job and return its answer, or end the process after `limit` seconds."""
        self.wait()
        return self._result(self._pool.apply_async(_run, (request,)), limit)

    def _result(self, pending: Any, limit: float) -> Any:
        try:
            return pending.get(limit)
        except multiprocessing.TimeoutError:
            self.close(f"> {limit:g} s")
            raise TimeUpError(self.ended) from None

    def close(self, why: str = "done") -> None:
        """End the process."""
        self.ended = self.ended or why
        self._pool.terminate()
        self._pool.join()


@dataclass
class Entrant:
    """One job with one request in a race, and its answers (dictionaries with "seconds")."""

    name: str
    worker: Worker
    request: tuple[Any, ...] = ()
    limit: float = LIMIT
    optional: bool = False  # an error of the job becomes its note
    runs: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""  # why there are no answers, such as "> 60 s"

    @property
    def seconds(self) -> float | None:
        """The fastest run."""
        return min((run["seconds"] for run in self.runs), default=None)

    def run(self, score: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Run once more and keep what `score` returns for the answer, unless it has worked long enough."""
        self.note = self.note or self.worker.ended
        if self.note or sum(run["seconds"] for run in self.runs) >= PATIENCE:
            return
        try:
            self.runs.append(score(self.worker.call(*self.request, limit=self.limit)))
        except TimeUpError as error:
            self.note = str(error)
        except Exception as error:
            if not self.optional:
                raise
            self.note = f"failed: {error!r}"


def interleave(
    entrants: list[Entrant], repeats: int, score: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> None:
    """Run all entrants in turn, `repeats` times, so that a slow phase of the machine affects all of them."""
    for _ in range(repeats):
        for entrant in entrants:
            entrant.run(score)


def whole_processes(
    programs: Mapping[str, str], repeats: int, folder: Path | None = None
) -> dict[str, tuple[float, float]]:
    """Run Python programs in turn, on two threads; return the seconds of the first and of the fastest later.

    The first run fills the caches of files and kernels.
    """
    taken: dict[str, list[float]] = {name: [] for name in programs}
    with thread_limit(2):
        for _ in range(1 + repeats):
            for name, code in programs.items():
                started = time.perf_counter()
                subprocess.run(
                    [sys.executable, "-c", code], cwd=folder, check=True, stdout=subprocess.DEVNULL
                )
                taken[name].append(time.perf_counter() - started)
    return {name: (first, min(later)) for name, (first, *later) in taken.items()}
