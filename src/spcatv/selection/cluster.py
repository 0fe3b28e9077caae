"""Fits on the workers of a Dask cluster."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from joblib import parallel_config

T = TypeVar("T")
INSTALL = 'pip install "spca-tv[dask]"'
# Seconds to wait for the scheduler, and then for its first worker.
CONNECT_SECONDS = 30


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
        """Futures of the values, by their identities."""
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
    """The workers of the `dask_backend` block around the caller, or None outside of one."""
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
    """What tells an object from others; two views of the same numbers are one object."""
    if isinstance(value, np.ndarray):
        return value.__array_interface__["data"], value.shape, value.strides, value.dtype.str
    return id(value)


def _common(items: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Objects that are an argument of every call, such as the data."""
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
