"""Dask clusters of worker processes, and news of workers that die."""

import multiprocessing
import threading
from contextlib import contextmanager

import pytest

dask = pytest.importorskip("dask", reason='needs the extra dask: pip install "spca-tv[dask]"')
distributed = pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')
# What a worker imports sooner or later, which takes seconds: they are forked from a process that has done so.
IMPORTED_BY_WORKERS = ["dask.array", "distributed", "spcatv.selection", "spcatv.stability"]


@contextmanager
def worker_processes(n_workers):
    """A cluster of worker processes on this machine, one thread each."""
    method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    with dask.config.set({"distributed.worker.multiprocessing-method": method}):
        distributed.utils.get_mp_context().set_forkserver_preload(IMPORTED_BY_WORKERS)
        with distributed.LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            silence_logs=50,
        ) as cluster:
            yield cluster


class Death(distributed.SchedulerPlugin):
    """Tells when the scheduler, which runs in this process, has noticed the death of a worker."""

    def __init__(self, address):
        self.name = f"death of {address}"
        self.address = address
        self.noticed = threading.Event()

    def remove_worker(self, scheduler, worker, **_):
        if worker == self.address:
            self.noticed.set()
