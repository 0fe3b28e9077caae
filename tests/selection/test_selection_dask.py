"""SPCATVCV on a real Dask cluster of worker processes, one of which is killed in the middle."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from spcatv import SPCATV
from spcatv.selection import SPCATVCV, dask_backend
from spcatv.stability import bootstrap_components
from spcatv.structure import grid

distributed = pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')

pytestmark = [
    pytest.mark.filterwarnings("ignore:Sending large graph"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """Two worker processes, one thread each."""
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((40, 20, 24))
    X[:, 2:9, 2:11] += 2.0 * rng.standard_normal((40, 1, 1))
    X[:, 11:18, 12:22] += 1.5 * rng.standard_normal((40, 1, 1))
    return X.reshape(40, 480)


def assert_same(one, other):
    for name, column in one.cv_results_.items():
        if name != "mean_fit_time":
            assert_array_equal(column, other.cv_results_[name], err_msg=name)
    assert one.best_params_ == other.best_params_
    assert_array_equal(one.best_estimator_.components_, other.best_estimator_.components_)


def test_the_same_numbers_and_shared_data_travel_once(cluster, images):
    structure = grid((20, 24))
    search = SPCATVCV(2, structure=structure, cv=2, alpha=(0.1, 0.3), l1_ratio=0.25, tv_ratio=(0.3, 0.5))
    alone = clone(search).fit(images)
    with distributed.Client(cluster) as client, dask_backend(client, images, structure):
        together = clone(search).fit(images)
        # what is scattered is held by every worker; nothing of that size came with a task
        big = [key for key, size in client.run_on_scheduler(_sizes).items() if size >= images.nbytes]
        assert len(big) == 1
        assert {len(holders) for key, holders in client.who_has().items() if key in big} == {2}
    assert_same(alone, together)


def _sizes(dask_scheduler):
    return {key: state.nbytes for key, state in dask_scheduler.tasks.items() if state.nbytes}


def test_an_address_will_do_and_resampling_works_too(cluster, images):
    estimator = SPCATV(1, structure=grid((20, 24)))
    alone = bootstrap_components(estimator, images, n_resamples=4, random_state=0)
    with dask_backend(cluster.scheduler_address, images, estimator.structure) as client:
        together = bootstrap_components(estimator, images, n_resamples=4, random_state=0)
    assert client.status == "closed"
    assert_array_equal(alone.selection_frequency, together.selection_frequency)
    assert_array_equal(alone.dice, together.dice)


def test_no_scheduler_is_said_in_one_line(monkeypatch):
    monkeypatch.setattr("spcatv.selection.cluster.CONNECT_SECONDS", 1)
    with pytest.raises(ConnectionError, match=r"no Dask scheduler answers at 'tcp://127.0.0.1:9'"):
        dask_backend("tcp://127.0.0.1:9").__enter__()


class SlowSolver:
    """A solver that takes its time, and leaves a note of the process that it runs in."""

    def __init__(self, folder):
        self.folder = folder

    def __call__(self, problem, **options):
        from spcatv.solvers import solve

        self.folder.mkdir(exist_ok=True)
        (self.folder / str(os.getpid())).touch()
        time.sleep(0.02)
        return solve(problem, method="pdhg", **options)


def test_a_worker_killed_in_the_middle_changes_no_number(images, tmp_path):
    structure = grid((20, 24))
    search = SPCATVCV(2, structure=structure, cv=3, alpha=(0.1, 0.3), l1_ratio=0.25, tv_ratio=(0.3, 0.5))
    alone = clone(search).set_params(solver=SlowSolver(tmp_path / "alone")).fit(images)
    together = clone(search).set_params(solver=SlowSolver(tmp_path / "together"))
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        pids = client.run(os.getpid).values()
        fit = threading.Thread(target=_fit_on, args=(client, together, images, structure), daemon=True)
        fit.start()
        _kill_one_at_work(tmp_path / "together", set(pids))
        assert fit.is_alive(), "the worker was killed after the end"
        fit.join(timeout=120)
        assert not fit.is_alive(), "the fit has not ended after two minutes"
    assert hasattr(together, "best_estimator_"), "the fit has failed, as the log says"
    assert_same(alone, together)


def _fit_on(client, search, X, structure):
    # settings of joblib belong to a thread
    with dask_backend(client, X, structure):
        search.fit(X)


def _kill_one_at_work(folder, pids, seconds=60):
    """Wait for a worker to solve something, let it go on a little, and kill it."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        for pid in pids:
            if (folder / str(pid)).exists():
                time.sleep(0.3)
                os.kill(pid, signal.SIGKILL)
                return
        time.sleep(0.02)
    raise AssertionError(f"no worker has begun within {seconds} seconds")
