"""SPCATVCV on a real Dask cluster of worker processes, some of which are killed on the way."""

import os
import signal
import socket
from contextlib import suppress

import cloudpickle
import numpy as np
import pytest
from clusters import Death, worker_processes
from numpy.testing import assert_array_equal
from sklearn.base import clone

from spcatv import SPCATV
from spcatv.model.checkpoint import n_records
from spcatv.selection import SPCATVCV, dask_backend
from spcatv.stability import bootstrap_components
from spcatv.structure import grid

distributed = pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')

pytestmark = [
    pytest.mark.filterwarnings("error:Sending large graph"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(scope="module")
def cluster():
    """Four worker processes, one thread each: one more than are killed, as not every one may come back."""
    with worker_processes(4) as cluster:
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


class TaskSizes(distributed.SchedulerPlugin):
    """Notes how many bytes come to the scheduler with each task."""

    name = "task sizes"

    def __init__(self):
        self.sizes = []

    def update_graph(self, scheduler, *, keys, **_):
        self.sizes += [len(cloudpickle.dumps(scheduler.tasks[key].run_spec)) for key in keys]


@pytest.fixture
def task_sizes(cluster):
    plugin = TaskSizes()
    cluster.scheduler.add_plugin(plugin)
    yield plugin.sizes
    cluster.scheduler.remove_plugin(plugin.name)


@pytest.mark.no_cover
def test_the_same_numbers_and_shared_data_travel_once(cluster, images, task_sizes):
    structure = grid((20, 24))
    search = SPCATVCV(2, structure=structure, cv=2, alpha=(0.1, 0.3), l1_ratio=0.25, tv_ratio=(0.3, 0.5))
    alone = clone(search).fit(images)
    with distributed.Client(cluster) as client, dask_backend(client, images, structure):
        together = clone(search).fit(images)
        bootstrap_components(together.best_estimator_, images, n_resamples=2, random_state=0)
    assert len(task_sizes) > 10
    assert len([size for size in task_sizes if size >= images.nbytes]) == 1
    assert_same(alone, together)


def test_what_was_not_announced_still_travels_once(cluster, images, task_sizes):
    """An array that only some fits share, or a copy of X in another type, is sent once for them."""
    with distributed.Client(cluster) as client, dask_backend(client):
        SPCATVCV(1, structure=grid((20, 24)), sparsity=0.7, smoothness=1.0, cv=4).fit(images)
    assert len([size for size in task_sizes if size >= images.nbytes]) == 1


def test_an_address_will_do_and_resampling_works_too(cluster, images, tmp_path):
    estimator = SPCATV(1, structure=grid((20, 24)))
    alone = bootstrap_components(estimator, images, n_resamples=4, random_state=0)
    with dask_backend(cluster.scheduler_address, images, estimator.structure) as client:
        together = bootstrap_components(estimator, images, n_resamples=4, random_state=0, checkpoint=tmp_path)
    assert n_records(tmp_path) == 1 + 4, "the component of all samples, and the resamples"
    assert client.status == "closed"
    assert_array_equal(alone.selection_frequency, together.selection_frequency)
    assert_array_equal(alone.dice, together.dice)


def test_no_scheduler_is_reported_in_one_line(monkeypatch):
    monkeypatch.setattr("spcatv.selection.workers.CONNECT_SECONDS", 1)
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))  # a port that nobody listens to, and that nobody else can get
        address = f"tcp://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(ConnectionError, match=f"no Dask scheduler answers at '{address}'"):
            dask_backend(address).__enter__()


class DeadlySolver:
    """A solver that kills the process that it runs in at its third call, as long as there is a file.

    Parameters
    ----------
    file : Path
        Goes with the first process that is killed.
    spared : int
        The process that may not be killed: the client's, which fits the chosen setting in the end.
    """

    def __init__(self, file, spared):
        self.file = file
        self.spared = spared
        self.calls = 0

    def __call__(self, problem, **options):
        from spcatv.solvers import solve

        self.calls += 1
        if os.getpid() != self.spared and self.calls >= 3:
            with suppress(FileNotFoundError):
                self.file.unlink()  # only one process can do it
                os.kill(os.getpid(), signal.SIGKILL)
        return solve(problem, method="pdhg", **options)


@pytest.fixture
def deadly(tmp_path):
    file = tmp_path / "one death"
    file.touch()
    yield DeadlySolver(file, os.getpid())
    assert not file.exists(), "no worker was killed"


def test_a_worker_killed_in_the_middle_changes_no_number(cluster, images, deadly):
    structure = grid((20, 24))
    search = SPCATVCV(
        2, structure=structure, cv=3, alpha=(0.1, 0.3), l1_ratio=0.25, tv_ratio=(0.3, 0.5), solver=deadly
    )
    alone = clone(search).fit(images)
    with distributed.Client(cluster) as client, dask_backend(client, images, structure):
        together = clone(search).fit(images)
    assert_same(alone, together)


def test_a_worker_killed_while_resampling_changes_no_number(cluster, images, deadly):
    """The loadings of the reference, which `bootstrap_components` sends by itself, survive as well."""
    estimator = SPCATV(1, structure=grid((20, 24)), solver=deadly)
    alone = bootstrap_components(estimator, images, n_resamples=4, random_state=0)
    with distributed.Client(cluster) as client, dask_backend(client, images, estimator.structure):
        together = bootstrap_components(estimator, images, n_resamples=4, random_state=0)
    assert_array_equal(alone.selection_frequency, together.selection_frequency)
    assert_array_equal(alone.dice, together.dice)


def test_the_death_of_the_only_worker_that_holds_the_data_changes_no_number(cluster, images):
    structure = grid((20, 24))
    search = SPCATVCV(2, structure=structure, cv=2, alpha=(0.1, 0.3), l1_ratio=0.25, tv_ratio=0.3)
    alone = clone(search).fit(images)
    with distributed.Client(cluster) as client, dask_backend(client, images, structure):
        clone(search).fit(images)  # now all workers hold the data
        holder = _only_holder(client, images.nbytes)
        death = Death(holder)
        cluster.scheduler.add_plugin(death)
        os.kill(client.run(os.getpid)[holder], signal.SIGKILL)
        death.noticed.wait()
        together = clone(search).fit(images)
    assert_same(alone, together)


def _only_holder(client, nbytes):
    """Let Dask drop all but one copy of the data, and return the address of the worker that has it."""
    [data] = [key for key, size in client.run_on_scheduler(_sizes).items() if size >= nbytes]

    def holders():
        client.amm.run_once()
        return client.who_has()[data]

    while len(holders()) > 1:  # every round drops copies, and nothing makes new ones
        pass
    return holders()[0]


def _sizes(dask_scheduler):
    return {key: state.nbytes for key, state in dask_scheduler.tasks.items() if state.nbytes}
