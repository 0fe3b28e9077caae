"""Many independent fits: on how many workers they run, and what happens to one that fails."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from joblib import Parallel, delayed, effective_n_jobs
from joblib.parallel import MultiprocessingBackend, get_active_backend

from spcatv._util.warn import warn_user
from spcatv.data import ArrayData, Data, on_device
from spcatv.model import recordable
from spcatv.model.checkpoint import Checkpoint, Stage, current_checkpoint, no_checkpoint
from spcatv.progress import Listener, StageAdvanced, StageStarted, current_listener, messages_only
from spcatv.selection.cluster import cluster_workers

T = TypeVar("T")
Item = tuple[Any, ...]
# Calls ``function(*item)`` for every item; gives the numbers of the items and their results, in any order.
Calls = Callable[[Callable[..., Any], Sequence[Item]], Iterator[tuple[int, Any]]]

# What data or a machine can do to a fit. Other errors are mistakes in the call or in the program: they would
# come back in every fit, and are raised at once.
FIT_FAILURES = (ArithmeticError, MemoryError, OSError, RuntimeError, ValueError)
# Seconds between two looks of a worker process at its parent.
PARENT_SECONDS = 2.0
# Failures that a warning spells out; the rest are counted.
MOST_NAMED = 5


@recordable
@dataclass(frozen=True)
class Failure:
    """A fit that failed: `where` is its fold and setting, or its resample; `error` its kind and message."""

    where: str
    error: str

    def __str__(self) -> str:
        return f"{self.where}: {self.error}"


def failure(where: str, error: BaseException) -> Failure:
    """The record of an error that was caught."""
    return Failure(where, f"{type(error).__name__}: {error}")


class FailedFitWarning(UserWarning):
    """Some of many fits have failed; the message names them.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.selection import FailedFitWarning
    >>> warnings.filterwarnings("error", category=FailedFitWarning)
    """


def check_failures(failures: Sequence[Failure], n_left: int) -> None:
    """Warn of fits that failed, by name; raise a ValueError if no fit is left."""
    if not failures:
        return
    if n_left == 0:
        raise ValueError(f"every fit failed; the first: {failures[0]}")
    named = "; ".join(str(item) for item in failures[:MOST_NAMED])
    more = f"; and {len(failures) - MOST_NAMED} more" if len(failures) > MOST_NAMED else ""
    count = "1 fit failed and is" if len(failures) == 1 else f"{len(failures)} fits failed and are"
    warn_user(f"{count} left out ({named}{more})", FailedFitWarning)


def without_failures(results: Iterable[T | Failure], failures: list[Failure]) -> Iterator[T]:
    """The results of fits that went well, as they come; the others are appended to `failures`."""
    for result in results:
        if isinstance(result, Failure):
            failures.append(result)
        else:
            yield result


class LostWorkerWarning(UserWarning):
    """A worker process has died; what it worked on is done again."""


class JoblibWorkers:
    """Workers of a `joblib.Parallel` pool.

    If a worker process dies, what is done is kept and the rest is done again by new workers, once.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self._n_jobs = n_jobs
        self._pool = self._new_pool()

    def _new_pool(self) -> Any:
        if isinstance(get_active_backend()[0], MultiprocessingBackend):
            raise ValueError(
                "joblib's backend 'multiprocessing' waits forever for a worker that died; take 'loky', "
                "which is joblib's default, or 'threading'"
            )
        own = getattr(get_active_backend()[0], "backend_kwargs", {})  # what the user asks joblib for
        then = own.get("initializer"), own.get("initargs", ())
        return Parallel(
            n_jobs=self._n_jobs,
            return_as="generator_unordered",
            initializer=_start_worker,
            initargs=(os.getpid(), *then),
        ).__enter__()

    def close(self) -> None:
        """Let the workers go."""
        self._pool.__exit__(None, None, None)

    def __call__(self, function: Callable[..., T], items: Sequence[Item]) -> Iterator[tuple[int, T]]:
        """Call ``function(*item)`` for every item, on all workers."""
        left = dict(enumerate(items))
        n_calls = len(left)
        n_done_first: int | None = None  # when the first worker died
        while left:
            error: BaseException | None = None
            try:
                calls = [delayed(_numbered)(number, function, item) for number, item in left.items()]
                for number, result in self._pool(calls):
                    del left[number]
                    yield number, result
            except BrokenProcessPool as broken:
                error = broken
            if not left:
                return
            n_done = n_calls - len(left)
            if n_done_first is not None:
                raise RuntimeError(
                    f"worker processes died twice, when {n_done_first} and when {n_done} of {n_calls} fits "
                    "were done: they were killed, or memory ran out. Take fewer workers (n_jobs), "
                    "or a machine with more memory"
                ) from error
            n_done_first = n_done
            warn_user(
                f"a worker process died when {n_done} of {n_calls} fits were done: it was killed, or memory "
                f"ran out. The other {len(left)} are done again",
                LostWorkerWarning,
            )
            # what is left of the old pool must not be heard by the new one
            self.close()
            self._pool = self._new_pool()


def _numbered(number: int, function: Callable[..., T], item: Item) -> tuple[int, T]:
    return number, function(*item)


def _start_worker(parent: int, then: Callable[..., None] | None, arguments: tuple[Any, ...]) -> None:
    """End this process soon after its parent, which cannot end its workers if it is killed; call `then`."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="spcatv-parent", daemon=True).start()
    if then is not None:
        then(*arguments)


def _called_here(function: Callable[..., T], items: Sequence[Item]) -> Iterator[tuple[int, T]]:
    """Call ``function(*item)`` for every item in this process."""
    return ((number, function(*item)) for number, item in enumerate(items))


@dataclass(frozen=True)
class Workers:
    """Runs one function on many arguments; results come one by one, in order."""

    calls: Calls
    checkpoint: Checkpoint | None  # keeps every result, so that no work is done again
    stage: StageStarted | None  # what the listener is told of: every result is a step of it
    listener: Listener

    def run(self, function: Callable[..., T], arguments: Iterable[Item]) -> Iterator[T]:
        """Call ``function(*item)`` for every item whose result is not known, on all workers."""
        items = list(arguments)
        kept = None if self.checkpoint is None else self.checkpoint.stage_of_calls(function, items)
        missing = [number for number in range(len(items)) if kept is None or str(number) not in kept]
        new = _in_order(self._new(function, items, missing, kept))
        left = set(missing)
        for number in range(len(items)):
            result = next(new) if kept is None or number in left else kept.load(str(number))
            if self.stage is not None:
                note = f"{number + 1} of {self.stage.total} {self.stage.unit}"
                self.listener.hear(StageAdvanced(note))
            yield result

    def _new(
        self, function: Callable[..., T], items: Sequence[Item], missing: Sequence[int], kept: Stage | None
    ) -> Iterator[tuple[int, T]]:
        """The results that are missing, and the places of their numbers in `missing`, as they come."""
        for place, result in self.calls(function, [items[number] for number in missing]):
            if kept is not None:
                kept.save(str(missing[place]), result)
            yield place, result


def _in_order(results: Iterable[tuple[int, T]]) -> Iterator[T]:
    """Results with the numbers 0, 1, ..., each as soon as those before it are there."""
    early: dict[int, T] = {}  # results whose turn has not come yet
    turn = 0
    for number, result in results:
        early[number] = result
        while turn in early:
            yield early.pop(turn)
            turn += 1


@contextmanager
def workers(
    n_jobs: int | None, data: Data | None = None, stage: StageStarted | None = None
) -> Iterator[Workers]:
    """Workers for a ``with`` block: ``n_jobs`` of them, as in joblib; a cluster uses all it has.

    They are those of the cluster inside a `dask_backend` block, and otherwise what `joblib.parallel_config`
    says, by default processes. joblib sends large arrays to processes once per block, as memory maps that
    they share. Fits of a Dask array run here, one after the other: the workers that hold its blocks are busy
    with each.

    Of the fits in the block, listeners hear messages alone, and those only if the fits run here. Of the
    `stage`, if there is one, they hear now, and of a step for every result. A checkpoint of a surrounding
    block keeps every result.
    """
    listener, checkpoint = current_listener(), current_checkpoint()
    with no_checkpoint(), _silent_workers(n_jobs, data) as pool:
        if stage is not None:
            stage = replace(stage, at_once=n_at_once(n_jobs, data))
            listener.hear(stage)
        yield Workers(pool, checkpoint, stage, listener)


def n_at_once(n_jobs: int | None, data: Data | None = None) -> int:
    """How many fits run at the same time; 1 on a cluster, whose workers come and go, and for a Dask array."""
    return 1 if cluster_workers() is not None or _on_workers(data) else int(effective_n_jobs(n_jobs))


def _on_workers(data: Data | None) -> bool:
    """Whether the data are a Dask array, adjusted or not."""
    return data is not None and data.is_distributed


@contextmanager
def _silent_workers(n_jobs: int | None, data: Data | None) -> Iterator[Calls]:
    cluster = cluster_workers()
    with messages_only():
        if _on_workers(data):
            yield _called_here
        elif cluster is not None:
            yield cluster
        else:
            with closing(JoblibWorkers(n_jobs)) as pool:
                yield pool


def placed(data: Data, estimator: Any, n_jobs: int | None) -> Data:
    """The data on the estimator's device, once for all fits if they run in this process.

    Worker processes move their data themselves, each to the GPU that it sees.
    """
    here = cluster_workers() is None and n_at_once(n_jobs, data) == 1
    return on_device(data, estimator.device, int(estimator.n_components)) if here else data


def shareable(data: Data) -> Any:
    """What to hand to workers: the array itself where there is one, which is sent only once."""
    return data.array if isinstance(data, ArrayData) else data
