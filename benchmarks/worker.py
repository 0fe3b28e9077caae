"""Measurements in separate processes, with a fixed number of threads and a time limit.

A job is made once in its process (imports, data, a first run that is not counted) and then called many
times. So several jobs can take turns: one works, the others wait.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
# Time limit for making a job, in seconds.
LONGEST_START = 300.0
# An entrant that has worked this many seconds does not repeat its runs.
PATIENCE = 12.0


class TimeUpError(Exception):
    """A job exceeded its time limit."""


class WorkerDiedError(Exception):
    """The process of a job ended unexpectedly; its traceback is on the standard error stream."""


@contextmanager
def thread_limit(threads: int) -> Iterator[None]:
    """Let processes that start inside the block use this many threads."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _serve(connection: Any, order: Path) -> None:
    make_job, arguments = pickle.loads(order.read_bytes())
    order.unlink()
    job = make_job(*arguments)
    connection.send("ready")
    while (request := connection.recv()) is not None:
        connection.send(job(*request))


class Worker:
    """A process that holds one job, ``make_job(*arguments)``, and runs it when called."""

    def __init__(self, make_job: Callable[..., Callable[..., Any]], *arguments: Any, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        # through a file: a process that dies while it reads a large order from a pipe would block the writer
        descriptor, name = tempfile.mkstemp(prefix="spcatv-bench-", suffix=".order")
        with open(descriptor, "wb") as file:
            pickle.dump((make_job, arguments), file)
        self._order = Path(name)
        self._process = context.Process(target=_serve, args=(theirs, self._order), daemon=True)
        self.ended = ""
        with thread_limit(threads):
            self._process.start()
        theirs.close()
        self._ready = False

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self) -> None:
        """Wait until the job is made; several workers may start at the same time, before any is timed."""
        if not self._ready and not self.ended:
            self._receive(LONGEST_START)
            self._ready = True

    def call(self, *request: Any, limit: float = 600.0) -> Any:
        """Run the job and return its answer, or end the process after `limit` seconds."""
        self.wait()
        try:
            self._connection.send(request)
        except ConnectionError:
            self._died()
        return self._receive(limit)

    def _receive(self, limit: float) -> Any:
        if not self._connection.poll(limit):
            self.close(f"> {limit:g} s")
            raise TimeUpError(self.ended)
        try:
            return self._connection.recv()
        except (EOFError, ConnectionError):
            self._died()

    def _died(self) -> NoReturn:
        self._process.join()
        self.close("failed")
        raise WorkerDiedError(f"the process ended with code {self._process.exitcode}") from None

    def close(self, why: str = "done") -> None:
        """End the process."""
        if self.ended:
            return
        self.ended = why
        self._process.kill()
        self._process.join()
        self._order.unlink(missing_ok=True)
        self._connection.close()


@dataclass
class Entrant:
    """One job with one request in a race, and its answers (dictionaries with "seconds").

    Attributes
    ----------
    note : str
        Why there are no answers, such as "> 60 s".
    """

    name: str
    worker: Worker
    request: tuple[Any, ...] = ()
    limit: float = 600.0
    optional: bool = False
    runs: list[dict[str, Any]] = field(default_factory=list)
    note: str = ""

    @property
    def seconds(self) -> float | None:
        """The fastest run."""
        return min((run["seconds"] for run in self.runs), default=None)

    def start(self) -> None:
        """Wait for the worker; if it cannot start, raise an error unless it is optional."""
        try:
            self.worker.wait()
        except WorkerDiedError:
            if not self.optional:
                raise

    def wants_more(self) -> bool:
        """Whether another run is worth its time."""
        return not self.note and sum(run["seconds"] for run in self.runs) < PATIENCE

    def run(self, score: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
        """Run once more and keep what `score` makes of the answer."""
        if self.worker.ended:
            self.note = self.worker.ended
            return
        try:
            self.runs.append(score(self.worker.call(*self.request, limit=self.limit)))
        except TimeUpError as error:
            self.note = str(error)
        except WorkerDiedError:
            if not self.optional:
                raise
            self.note = "failed"


def interleave(
    entrants: list[Entrant], repeats: int, score: Callable[[dict[str, Any]], dict[str, Any]] = dict
) -> None:
    """Run all entrants in turn, `repeats` times, so that a slow phase of the machine affects all of them."""
    for entrant in entrants:
        entrant.start()
    for _ in range(repeats):
        for entrant in entrants:
            if entrant.wants_more():
                entrant.run(score)
