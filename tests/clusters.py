"""News of workers of a Dask cluster that die."""

import threading

import pytest

distributed = pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')


class Death(distributed.SchedulerPlugin):
    """Tells when the scheduler, which runs in this process, has noticed the death of a worker."""

    def __init__(self, address):
        self.name = f"death of {address}"
        self.address = address
        self.noticed = threading.Event()

    def remove_worker(self, scheduler, worker, **_):
        if worker == self.address:
            self.noticed.set()
