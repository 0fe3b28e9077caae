"""Workers of many independent fits: processes of joblib or a Dask cluster; and fits that fail."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs, parallel_config
from joblib.parallel import MultiprocessingBackend, get_active_backend

from spcatv._util.warn import warn_user
from spcatv.data import ArrayData, Data, on_device
from spcatv.model import recordable
from spcatv.model.checkpoint import Checkpoint, Stage, current_checkpoint, no_checkpoint
from spcatv.progress import Listener, StageAdvanced, StageStarted, current_listener, messages_only

T = TypeVar("T")
Item = tuple[Any, ...]
# Calls ``function(*item)`` for every item; gives the numbers of the items and their results, in any order.
Calls = Callable[[Callable[..., Any], Sequence[Item]], Iterator[tuple[int, Any]]]

# What data or a machine can do to a fit. Other errors are mistakes in the call or in the program: they would
# come back in every fit, and are raised at once.
FIT_FAILURES = (ArithmeticError, MemoryError, OSError, RuntimeError, ValueError)
# Seconds between two looks of a worker process at its parent.
PARENT_SECONDS = 2.0
INSTALL = 'pip install "spca-tv[dask]"'
# Seconds to wait for the scheduler of a cluster, and then for its first worker.
CONNECT_SECONDS = 30
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
    """Return the record of an error that was caught."""
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
    """Yield the results of fits that went well, as they come; append the others to `failures`."""
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


class Workers:
    """Runs one function on many arguments; results come one by one, in order.

    Every result is a step of the stage that `begin` has announced. A checkpoint keeps the results, so that no
    work is done again.
    """

    def __init__(self, calls: Calls, checkpoint: Checkpoint | None, listener: Listener, at_once: int) -> None:
        self._calls, self._checkpoint, self._listener, self._at_once = calls, checkpoint, listener, at_once
        self._stage: StageStarted | None = None
        self._n_done = 0

    def begin(self, stage: StageStarted) -> None:
        """Announce the stage of the calls to come."""
        self._stage, self._n_done = replace(stage, at_once=self._at_once), 0
        self._listener.hear(self._stage)

    def run(
        self, function: Callable[..., T], arguments: Iterable[Item], notes: Sequence[str] | None = None
    ) -> Iterator[T]:
        """Call ``function(*item)`` for every item whose result is not known, on all workers.

        `notes` describe the items for the listener; by default they are counted.
        """
        items = list(arguments)
        kept = None if self._checkpoint is None else self._checkpoint.stage_of_calls(function, items)
        missing = [number for number in range(len(items)) if kept is None or str(number) not in kept]
        new = _in_order(self._new(function, items, missing, kept))
        left = set(missing)
        for number in range(len(items)):
            result = next(new) if kept is None or number in left else kept.load(str(number))
            if self._stage is not None:
                self._n_done += 1
                counted = f"{self._n_done} of {self._stage.total} {self._stage.unit}"
                self._listener.hear(StageAdvanced(counted if notes is None else notes[number]))
            yield result

    def _new(
        self, function: Callable[..., T], items: Sequence[Item], missing: Sequence[int], kept: Stage | None
    ) -> Iterator[tuple[int, T]]:
        """Yield the results that are missing, and the places of their numbers in `missing`, as they come."""
        for place, result in self._calls(function, [items[number] for number in missing]):
            if kept is not None:
                kept.save(str(missing[place]), result)
            yield place, result


def _in_order(results: Iterable[tuple[int, T]]) -> Iterator[T]:
    """Yield results in the order of their numbers, each as soon as those before it are there."""
    early: dict[int, T] = {}  # results whose turn has not come yet
    turn = 0
    for number, result in results:
        early[number] = result
        while turn in early:
            yield early.pop(turn)
            turn += 1


class ClusterWorkers:
    """Runs one function on many arguments on a Dask cluster; results come as they are done.

    A worker may die at any time. Dask then repeats what the worker held, as long as the scheduler knows every
    task that led to it. So all data enter as results of tasks. They are not scattered: Dask cannot make
    scattered data again, its memory manager reduces them to one copy, and fits that depend on them fail or
    wait forever once the worker with that copy is gone.

    The client is connected to a scheduler that has a worker; shared arguments are sent once, for all runs.
    """

    def __init__(self, client: Any, shared: Sequence[Any]) -> None:
        self._client = client
        self._shared = list(shared)  # as long as they are there, no other object has their identity
        self._sent = self._send(self._shared)

    def __call__(
        self, function: Callable[..., T], items: Sequence[tuple[Any, ...]]
    ) -> Iterator[tuple[int, T]]:
        """Call ``function(*item)`` for every item, on all workers."""
        new = [value for value in _common(items) if _identity(value) not in self._sent]
        sent = self._sent | self._send(new)
        self._spread(list(sent.values()))
        waiting = {
            self._client.submit(
                function, *(sent.get(_identity(value), value) for value in item), pure=False
            ): number
            for number, item in enumerate(items)
        }
        for future in _import_distributed().as_completed(list(waiting), loop=self._client.loop):
            yield waiting.pop(future), future.result()

    def _send(self, values: Sequence[Any]) -> dict[Hashable, Any]:
        """Return futures of the values, by their identities."""
        import dask

        # Dask warns of large tasks because most of them are a mistake; here the data have to travel
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": sys.maxsize}):
            return {_identity(value): self._client.submit(_unchanged, value, pure=False) for value in values}

    def _spread(self, futures: Sequence[Any]) -> None:
        """Copy the results of the futures to every worker; Dask gives tasks to those that hold the data."""
        arrivals = [
            self._client.submit(_arrived, *futures, workers=[address], allow_other_workers=True, pure=False)
            for address in self._client.nthreads()
        ]
        self._client.gather(arrivals, errors="skip")  # an error would come back with the results


class _Active(threading.local):
    """The workers that `dask_backend` has set for this thread; joblib's settings belong to a thread, too."""

    workers: ClusterWorkers | None = None


_active = _Active()


def cluster_workers() -> ClusterWorkers | None:
    """Return the workers of the `dask_backend` block around the caller, or None outside of one."""
    return _active.workers


@contextmanager
def dask_backend(client: Any, *shared: Any) -> Iterator[Any]:
    """Run the fits inside a ``with`` block on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``. A client made from an
        address is closed at the end of the block.
    *shared : object
        What all fits need: X and the structure, the same objects that the estimator gets. They are sent to
        the cluster once. The scheduler keeps a copy, from which Dask replaces what a lost worker held, and
        the fits of that worker are repeated elsewhere with the same numbers.

    Yields
    ------
    distributed.Client

    Raises
    ------
    ModuleNotFoundError
        If Dask is not installed; the message says how to install it.
    ConnectionError
        If no scheduler answers at the address, or it has no worker.

    Examples
    --------
    >>> from spcatv.selection import SPCATVCV, dask_backend
    >>> with dask_backend("tcp://10.0.0.1:8786", X, structure):
    ...     search = SPCATVCV(structure=structure).fit(X)
    """
    distributed = _import_distributed()
    opened = None
    if isinstance(client, str):
        client = opened = _connected(distributed, client)
    try:
        _wait_for_a_worker(distributed, client)
        outer = _active.workers
        _active.workers = ClusterWorkers(client, [item for item in shared if item is not None])
        try:
            # other code that asks joblib for workers finds the cluster, too
            with parallel_config(backend="dask", client=client, n_jobs=-1):
                yield client
        finally:
            _active.workers = outer
    finally:
        if opened is not None:
            opened.close()


def _identity(value: Any) -> Hashable:
    """Return the identity of an object; two views of the same numbers have the same."""
    if isinstance(value, np.ndarray):
        return value.__array_interface__["data"], value.shape, value.strides, value.dtype.str
    return id(value)


def _common(items: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the objects that are an argument of every call, such as the data."""
    if not items:
        return []
    in_all = set(map(_identity, items[0])).intersection(*(map(_identity, item) for item in items[1:]))
    small = (type(None), bool, int, float, str)
    return [value for value in items[0] if _identity(value) in in_all and not isinstance(value, small)]


def _unchanged(item: T) -> T:
    return item


def _arrived(*items: Any) -> None:
    pass


def _import_distributed() -> Any:
    try:
        import distributed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"a Dask cluster needs the package distributed: {INSTALL}") from error
    return distributed


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"no Dask scheduler answers at {address!r}: {error}") from error


def _wait_for_a_worker(distributed: Any, client: Any) -> None:
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except distributed.TimeoutError as error:
        raise ConnectionError(
            f"the Dask scheduler at {client.scheduler.address} has no worker after {CONNECT_SECONDS} seconds"
        ) from error


@contextmanager
def workers(
    n_jobs: int | None, data: Data | None = None, stage: StageStarted | None = None
) -> Iterator[Workers]:
    """Provide workers for a ``with`` block: ``n_jobs`` of them, as in joblib; a cluster uses all it has.

    They are those of the cluster inside a `dask_backend` block, and otherwise what `joblib.parallel_config`
    says, by default processes. joblib sends large arrays to processes once per block, as memory maps that
    they share. Fits of a Dask array run here, one after the other: the workers that hold its blocks are busy
    with each.

    Of the fits in the block, listeners hear messages alone, and those only if the fits run here. They hear of
    the `stage`, if there is one, and of every result. A checkpoint of a surrounding block keeps every result.
    """
    listener, checkpoint, cluster = current_listener(), current_checkpoint(), cluster_workers()
    with no_checkpoint(), messages_only(), ExitStack() as stack:
        calls: Calls
        if _on_workers(data):
            calls = _called_here
        else:
            calls = cluster or stack.enter_context(closing(JoblibWorkers(n_jobs)))
        pool = Workers(calls, checkpoint, listener, n_at_once(n_jobs, data))
        if stage is not None:
            pool.begin(stage)
        yield pool


def n_at_once(n_jobs: int | None, data: Data | None = None) -> int:
    """Return the number of fits at the same time; 1 on a cluster and for a Dask array."""
    return 1 if cluster_workers() is not None or _on_workers(data) else int(effective_n_jobs(n_jobs))


def _on_workers(data: Data | None) -> bool:
    """Return whether the data are a Dask array, adjusted or not."""
    return data is not None and data.is_distributed


def placed(data: Data, estimator: Any, n_jobs: int | None) -> Data:
    """Return the data on the estimator's device, once for all fits if they run in this process.

    Worker processes move their data themselves, each to the GPU that it sees.
    """
    here = cluster_workers() is None and n_at_once(n_jobs, data) == 1
    return on_device(data, estimator.device, int(estimator.n_components)) if here else data


def shareable(data: Data) -> Any:
    """Return the object to send to workers: the array itself if there is one, which is sent only once."""
    return data.array if isinstance(data, ArrayData) else data
