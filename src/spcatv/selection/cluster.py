"""Past one machine: workers of a Dask cluster behind joblib."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from joblib import parallel_config

INSTALL = 'pip install "spca-tv[dask]"'
# Seconds to wait for the scheduler, and then for its first worker.
CONNECT_SECONDS = 30


@contextmanager
def dask_backend(client: Any, *shared: Any) -> Iterator[Any]:
    """Run the fits inside a ``with`` block on the workers of a Dask cluster.

    Parameters
    ----------
    client : distributed.Client or str
        A client, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``; a client made here is
        closed at the end.
    *shared : object
        What all fits need, sent to every worker once: X and the structure, the very objects that the
        estimator is given. As every worker has them, the loss of one loses nothing, and its fits are done
        again elsewhere with the same numbers.

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
    >>> with dask_backend("tcp://10.0.0.1:8786", X, structure):  # doctest: +SKIP
    ...     search = SPCATVCV(structure=structure).fit(X)
    """
    distributed = _import_distributed()
    opened = None
    if isinstance(client, str):
        client = opened = _connected(distributed, client)
    try:
        _wait_for_a_worker(distributed, client)
        needed = [item for item in shared if item is not None]
        with parallel_config(backend="dask", client=client, scatter=needed, n_jobs=-1):
            yield client
    finally:
        if opened is not None:
            opened.close()


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
