"""Dask arrays on a real cluster of worker processes: what travels, and workers that are killed on the way."""

import os
import signal

import numpy as np
import pytest
from array_files import two_regions
from clusters import Death, worker_processes
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV, SPCATVCV
from spcatv.data import Adjustment, DaskData, as_data, dask
from spcatv.data.leading import pca_cumulative_variance
from spcatv.selection import dask_backend
from spcatv.stability import bootstrap_components
from spcatv.structure import grid

distributed = pytest.importorskip("distributed", reason='needs the extra dask: pip install "spca-tv[dask]"')
da = pytest.importorskip("dask.array")

pytestmark = [
    pytest.mark.filterwarnings("error:Sending large graph"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:the share of zeros:UserWarning"),
]


@pytest.fixture(scope="module")
def images():
    return two_regions(240)


@pytest.fixture(scope="module")
def model(images):
    """Makes models that start from given loadings: few passes over the data."""
    start = SPCATV(2, structure=grid((20, 24)), tol=0.1).fit(images).components_

    def make(**options):
        return SPCATV(2, structure=grid((20, 24)), **{"init": start, "tol": 1e-3, **options})

    return make


def vector_bytes(n_vectors):
    """Bytes of some vectors, of the means and norms that come with them, and of one row per sample.

    A sketch of two components has 2 + 3 + 6 vectors, and one in which regions are looked for 2 + 40 + 6.
    """
    return 8 * ((n_vectors + 2.5) * 480 + 240 * (n_vectors + 1.5))


def blocks_of(X, height=24):
    """Ten blocks, more than one task adds up."""
    return da.from_array(X, chunks=(height, -1))


@pytest.fixture(scope="module")
def cluster():
    """Four worker processes, one thread each."""
    with worker_processes(4) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster) as client:
        client.wait_for_workers(3)  # one may be gone, and not every one comes back
        yield client


class Traffic(distributed.SchedulerPlugin):
    """Notes the sizes of results, and the workers on which some of them have been."""

    name = "traffic"

    def __init__(self, scheduler):
        self.scheduler = scheduler
        self.sizes = {}
        self.places = {}

    def follow(self, keys):
        self.sizes.clear()
        self.places = {key: set() for key in keys}

    def transition(self, key, start, finish, *args, **kwargs):
        if finish == "memory" and key not in self.places:
            self.sizes[key] = self.scheduler.tasks[key].nbytes
        for followed, workers in self.places.items():
            workers |= {worker.address for worker in self.scheduler.tasks[followed].who_has}


@pytest.fixture
def traffic(cluster):
    plugin = Traffic(cluster.scheduler)
    cluster.scheduler.add_plugin(plugin)
    yield plugin
    cluster.scheduler.remove_plugin(plugin.name)


def fit(model, X, _):
    model(init="svd").fit(X)


def fit_from_diffused_data(model, X, _):
    model(init="structured").fit(X)


def fit_again_on_the_supports(model, X, _):
    model(method="deflation", refit="support", global_signal="regress").fit(X)


def transform_and_score(model, X, images):
    found = model().fit(images)
    assert_allclose(found.transform(X), found.transform(images), atol=1e-10)
    assert found.score(X) == pytest.approx(found.score(images))


def fit_adjusted(model, X, _):
    adjustment = Adjustment(standardize=True, confounds=np.random.default_rng(1).standard_normal((240, 2)))
    data = adjustment.whole(as_data(X))
    found = model().fit(data)
    found.transform(data)
    found.score(data)


def select(model, X, _):
    search = SPCATVCV(1, structure=grid((20, 24)), sparsity=[0.7], smoothness=1.0, tol=0.1, cv=2)
    search.set_params(standardize=True).fit(X, confounds=np.arange(240.0))


def what_pca_explains(model, X, images):
    expected = pca_cumulative_variance(images, 2)
    assert_allclose(pca_cumulative_variance(X, 2), expected, rtol=1e-3)


# What is done, and how many vectors there are in a sketch.
ACTIONS = {
    fit: 15,
    fit_from_diffused_data: 48,
    fit_again_on_the_supports: 11,
    transform_and_score: 15,
    fit_adjusted: 15,
    select: 14,
    what_pca_explains: 11,
}


@pytest.mark.no_cover  # the lines of a fit to any Dask array
@pytest.mark.parametrize("act", ACTIONS, ids=lambda act: act.__name__)
def test_vectors_travel_and_blocks_do_not(act, images, model, client, traffic):
    X = blocks_of(images).persist()
    distributed.wait(X)
    traffic.follow({future.key for future in distributed.futures_of(X)})
    act(model, X, images)
    assert [len(workers) for workers in traffic.places.values()] == [1] * 10
    assert len(traffic.sizes) > 20
    assert max(traffic.sizes.values()) < vector_bytes(ACTIONS[act])


@pytest.mark.no_cover
def test_blocks_that_are_loaded_every_time_stay_where_they_are(images, model, client, traffic, tmp_path):
    """What loads a block is a part of the task that uses it."""
    np.save(tmp_path / "X.npy", images)

    def load(block_info=None):
        first, last = block_info[None]["array-location"][0]
        return np.load(tmp_path / "X.npy")[first:last]

    X = da.map_blocks(load, chunks=((24,) * 10, (480,)), meta=np.empty((0, 0)))
    found = model(tol=1e-6).fit(X)
    assert_allclose(found.transform(X), found.transform(images), atol=1e-10)
    assert len(traffic.sizes) > 50
    assert max(traffic.sizes.values()) < vector_bytes(ACTIONS[fit])
    assert_allclose(found.components_, model(tol=1e-6).fit(images).components_, atol=1e-4)


def kill_a_holder(client, cluster, X):
    """Kill a worker that holds blocks of X, and wait until the scheduler knows."""
    address = next(addresses[0] for addresses in client.who_has(X).values() if addresses)
    death = Death(address)
    cluster.scheduler.add_plugin(death)
    os.kill(client.run(os.getpid)[address], signal.SIGKILL)
    assert death.noticed.wait(600)


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_killed_worker_changes_no_number(when, images, model, client, cluster, monkeypatch, tmp_path):
    X = blocks_of(images).persist()
    distributed.wait(X)
    alone = model().fit(X)
    n_passes = 0
    computed = DaskData._computed
    (tmp_path / "one death").touch()

    def deadly(self, tasks, shared):
        nonlocal n_passes
        n_passes += 1
        if n_passes == 5 and when == "before":
            kill_a_holder(client, cluster, X)
            (tmp_path / "one death").unlink()
        if n_passes == 5 and when == "during":
            number, task = tasks[0]
            tasks = [(number, _Deadly(task, tmp_path / "one death")), *tasks[1:]]
        return computed(self, tasks, shared)

    monkeypatch.setattr(DaskData, "_computed", deadly)
    found = model().fit(X)
    assert n_passes > 5
    assert not (tmp_path / "one death").exists()
    assert_array_equal(found.components_, alone.components_)


class _Deadly:
    """A task that kills the process it runs in, as long as there is a file."""

    def __init__(self, task, file):
        self.task, self.file = task, file

    def __call__(self, *arguments):
        if self.file.exists():
            self.file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return self.task(*arguments)


def set_pause(share, dask_worker):
    """The share of its memory at which a worker pauses."""
    dask_worker.memory_manager.memory_pause_fraction = share


def test_a_worker_without_memory_is_an_error_not_a_wait(images, model, client, cluster, monkeypatch):
    X = blocks_of(images).persist()
    distributed.wait(X)
    monkeypatch.setattr(dask, "MOST_LOOKS", 2)
    address = next(iter(client.who_has(X).values()))[0]
    client.run(set_pause, 1e-9, workers=[address])
    try:
        with pytest.raises(MemoryError, match=r"paused 1 of the \d workers that hold X.*more memory"):
            model().fit(X)
    finally:
        client.run(set_pause, 0.8, workers=[address])
    assert_allclose(as_data(X).dot(np.ones(480)), images.sum(axis=1))


def test_fits_of_a_dask_array_are_not_sent_to_workers(images, model, client):
    """They would wait there for the workers that they keep busy."""
    X = blocks_of(images, 60).persist()
    options = {"n_resamples": 1, "random_state": 0, "confounds": np.arange(240.0), "standardize": True}
    alone = bootstrap_components(model(), images, **options)
    with dask_backend(client):
        found = bootstrap_components(model(), X, **options)
    assert_allclose(found.dice, alone.dice)
