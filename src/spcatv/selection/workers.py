"""Many independent calls on threads, processes of joblib or a Dask cluster; and fits that fail."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

from spcatv._util.naming import some_of
from spcatv._util.threads import most_threads
from spcatv._util.warn import warn_user
from spcatv.data import ArrayData, Data, on_device
from spcatv.model import recordable
from spcatv.model.checkpoint import current_checkpoint, no_checkpoint
from spcatv.progress import StageAdvanced, StageStarted, current_listener, messages_only

T = TypeVar("T")
Item = tuple[Any, ...]
Items = Mapping[int, Item]
# Calls ``function(*item)`` for every item; gives the numbers of the items and their results, in any order.
Calls = Callable[[Callable[..., Any], Items], Generator[tuple[int, Any]]]

# Errors that the data or the machine cause in single fits. Other errors would come back in every fit, because
# the call or the program is wrong: they are raised at once.
FIT_FAILURES = (ArithmeticError, MemoryError, OSError, RuntimeError, ValueError)
# Seconds between two checks of a worker process that its parent is alive.
PARENT_SECONDS = 2.0
# Seconds to wait for the scheduler of a cluster, and then for its first worker.
CONNECT_SECONDS = 30


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
    named = some_of(dict.fromkeys(map(str, failures)), separator="; ")
    count = "1 fit failed and is" if len(failures) == 1 else f"{len(failures)} fits failed and are"
    warn_user(f"{count} left out ({named})", FailedFitWarning)


def run_calls(
    function: Callable[..., T],
    items: Iterable[Item],
    n_jobs: int | None = None,
    data: Data | None = None,
    stage: StageStarted | None = None,
    notes: Sequence[str] | None = None,
) -> Iterator[T]:
    """Call ``function(*item)`` for every item, and yield the results in order.

    The calls run on all workers of a surrounding `dask_backend` block; otherwise on `n_jobs` workers, as
    joblib does, by default processes that share large arrays as memory maps. Without any number of jobs, the
    threads of this process share the fits of an array in memory. Fits of a Dask array run here, one after
    the other: each occupies the workers that hold its blocks.

    The checkpoint of a surrounding block keeps every result at once. Listeners receive the `stage`, the note
    of every result, and only the messages of the calls.
    """
    items = list(items)
    listener, checkpoint = current_listener(), current_checkpoint()
    kept = None if checkpoint is None else checkpoint.stage_of_calls(function, items)
    missing = {n: item for n, item in enumerate(items) if kept is None or str(n) not in kept}
    calls = _calls(n_jobs, data)
    if stage is not None:
        listener.hear(stage)
    early: dict[int, T] = {}  # results whose turn has not come
    with closing(calls(function, missing)) as new:
        for number in range(len(items)):
            while number in missing and number not in early:
                with no_checkpoint(), messages_only():
                    arrived, result = next(new)
                early[arrived] = result
                if kept is not None:
                    kept.save(str(arrived), result)
            if stage is not None:
                counted = f"{number + 1} of {stage.total} {stage.unit}"
                listener.hear(StageAdvanced(counted if notes is None else notes[number]))
            yield early.pop(number) if kept is None or number in missing else kept.load(str(number))


def _calls(n_jobs: int | None, data: Data | None) -> Calls:
    """Return what calls functions on the workers."""
    cluster = _cluster.get()
    if data is not None and data.is_distributed:
        n_threads = 1
    elif cluster is not None:
        return partial(_on_cluster, *cluster)
    elif isinstance(data, ArrayData) and n_jobs is None and effective_n_jobs(None) == 1:
        n_threads = most_threads()
    else:
        processes = {"n_jobs": n_jobs, "initializer": _end_with_parent, "initargs": (os.getpid(),)}
        return partial(_on_joblib, processes)
    return partial(_on_threads, n_threads)


def _on_threads(n_threads: int, function: Callable[..., T], items: Items) -> Generator[tuple[int, T]]:
    """Call a function on threads of this process, with the context of the first call: its listener."""
    context = copy_context()

    def call(*item: Any) -> T:
        return context.copy().run(function, *item)

    yield from _on_joblib({"n_jobs": n_threads, "backend": "threading"}, call, items)


def _on_joblib(options: dict[str, Any], function: Callable[..., T], items: Items) -> Generator[tuple[int, T]]:
    """Call a function on workers of joblib; if one dies, repeat the missing calls once on new workers."""
    left = dict(items)
    for has_died in (False, True):
        try:
            calls = [delayed(_numbered)(number, function, item) for number, item in left.items()]
            for number, result in Parallel(**options, return_as="generator_unordered")(calls):
                del left[number]
                yield number, result
            return
        except BrokenProcessPool as error:
            state = f"when {len(items) - len(left)} of {len(items)} fits were done"
            if has_died:
                raise RuntimeError(
                    f"worker processes died twice, at last {state}: they were killed, or memory ran out. "
                    "Take fewer workers (n_jobs), or a machine with more memory"
                ) from error
            warn_user(
                f"a worker process died {state}: it was killed, or memory ran out. The other {len(left)} are "
                "done again",
                RuntimeWarning,
            )


def _numbered(number: int, function: Callable[..., T], item: Item) -> tuple[int, T]:
    return number, function(*item)


def _end_with_parent(parent: int) -> None:
    """End this process soon after its parent, which cannot end its workers if it is killed."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, name="spcatv-parent", daemon=True).start()


# Futures on a cluster by the identities of their values. The values are kept beside them: as long as they are
# there, no other object has their identity.
Sent = dict[Hashable, tuple[Any, Any]]
# Client and shared values of the surrounding `dask_backend` block.
_cluster: ContextVar[tuple[Any, Sent] | None] = ContextVar("spcatv_cluster", default=None)


def _on_cluster(
    client: Any, shared: Sent, function: Callable[..., T], items: Items
) -> Generator[tuple[int, T]]:
    """Call a function on the workers of a Dask cluster; what all calls have in common is sent once.

    A worker may die at any time. Dask then repeats what the worker held, as long as the scheduler knows every
    task that led to it. So all data enter as results of tasks. They are not scattered: Dask cannot make
    scattered data again, its memory manager reduces them to one copy, and fits that depend on them fail or
    wait forever once the worker with that copy is gone.
    """
    from distributed import as_completed

    sent = shared | _send(
        client, [value for value in _common(items.values()) if _identity(value) not in shared]
    )
    # Dask gives tasks to workers that hold the data: copy them to every worker
    futures = [future for future, _ in sent.values()]
    arrivals = [
        client.submit(lambda *_: None, *futures, workers=[worker], allow_other_workers=True, pure=False)
        for worker in client.nthreads()
    ]
    client.gather(arrivals, errors="skip")  # an error would come back with the results
    waiting = {}
    for number, item in items.items():
        arguments = [sent.get(_identity(value), (value,))[0] for value in item]
        waiting[client.submit(function, *arguments, pure=False)] = number
    for future in as_completed(list(waiting), loop=client.loop):
        yield waiting.pop(future), future.result()


def _send(client: Any, values: Sequence[Any]) -> Sent:
    """Send values to the workers of a cluster."""
    import dask

    # Dask warns of large tasks because most of them are a mistake; here the data have to travel
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": sys.maxsize}):
        futures = [client.submit(lambda value: value, value, pure=False) for value in values]
    return {_identity(value): (future, value) for value, future in zip(values, futures, strict=True)}


@contextmanager
def dask_backend(client: Any, *shared: Any) -> Iterator[Any]:
    """Run the fits inside a ``with`` block on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``. A client made from an
        address is closed at the end of the block.
    *shared : object
        X and the structure, the same objects that the estimator gets: they are sent to the cluster once. The
        scheduler keeps a copy, from which Dask replaces what a lost worker held.

    Yields
    ------
    distributed.Client
        A ConnectionError is raised if no scheduler answers, or it has no worker.

    Examples
    --------
    >>> from spcatv.selection import SPCATVCV, dask_backend
    >>> with dask_backend("tcp://10.0.0.1:8786", X, structure):
    ...     search = SPCATVCV(structure=structure).fit(X)
    """
    try:
        import distributed
    except ModuleNotFoundError as error:
        remedy = 'pip install "spca-tv[dask]"'
        raise ModuleNotFoundError(f"a Dask cluster needs the package distributed: {remedy}") from error
    with ExitStack() as stack:
        if isinstance(client, str):
            client = stack.enter_context(_connected(distributed, client))
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except distributed.TimeoutError as error:
            address = client.scheduler.address
            raise ConnectionError(
                f"the Dask scheduler at {address} has no worker after {CONNECT_SECONDS} seconds"
            ) from error
        outer = _cluster.set((client, _send(client, [value for value in shared if value is not None])))
        stack.callback(_cluster.reset, outer)
        yield client


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"no Dask scheduler answers at {address!r}: {error}") from error


def _identity(value: Any) -> Hashable:
    """Return the identity of an object; two views of the same numbers have the same."""
    if isinstance(value, np.ndarray):
        return value.__array_interface__["data"], value.shape, value.strides, value.dtype.str
    return id(value)


def _common(items: Iterable[Item]) -> list[Any]:
    """Return the objects that are the same argument of every call, such as the data."""
    columns = zip(*items, strict=True)
    same = [values[0] for values in columns if all(value is values[0] for value in values)]
    return [value for value in same if not isinstance(value, (type(None), bool, int, float, str))]


def placed(data: Data, estimator: Any, n_jobs: int | None) -> tuple[Data, Any]:
    """Return the data on the estimator's device, and the object to send to workers.

    Data are moved once for all fits if these run in this process. Worker processes move theirs themselves,
    each to the GPU that it sees. The object is the array itself if there is one, which is sent only once.
    """
    if _cluster.get() is None and int(effective_n_jobs(n_jobs)) == 1:
        data = on_device(data, estimator.device, int(estimator.n_components))
    return data, data.array if isinstance(data, ArrayData) else data
