"""Arrays in files: read in blocks, never as a whole, with the numbers of arrays in memory."""

import os
import pickle
import sys
import threading

import numpy as np
import pytest
from array_files import Files, Rows
from forks import in_a_fork, needs_fork
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.data import ArrayData, StoredData, as_data, checked_memory_limit, in_blocks
from spcatv.data.files import FileReader, StoreReader, map_reader
from spcatv.data.memory import Budget, machine_memory
from spcatv.estimator._fit import checked_data
from spcatv.selection import SPCATVCV
from spcatv.stability import bootstrap_components, split_halves
from spcatv.testing import check_data

# regions enter a loading as a whole; which share of zeros is closest does not matter here
pytestmark = pytest.mark.filterwarnings("ignore:the share of zeros:UserWarning")


class SmallBlocks(Budget):
    """Blocks of a few rows, and panels of a few columns, whatever the array."""

    def block_rows(self, row_bytes, fewest, n_features):
        return 3 * fewest if fewest > 1 else 4

    def panel_columns(self, column_bytes, fewest):
        return 5


@pytest.fixture
def files(tmp_path):
    files = Files(tmp_path)
    yield files
    files.close()


def small(store):
    reader = map_reader(store) if isinstance(store, np.memmap) else StoreReader(store)
    return StoredData(reader, budget=SmallBlocks())


KINDS = {
    "memory map": lambda files, X: small(files.mapped(X)),
    "memory map of integers": lambda files, X: small(files.mapped(np.round(X * 8).astype(np.int16))),
    "some rows of a memory map": lambda files, X: small(files.mapped(np.repeat(X, 3, axis=0))[2::3]),
    "some columns of a memory map": lambda files, X: small(files.mapped(np.hstack([X, X]))[:, X.shape[1] :]),
    "memory map in Fortran order": lambda files, X: small(files.mapped(np.asfortranarray(X))),
    "memory map in other byte order": lambda files, X: small(files.mapped(X.astype(X.dtype.newbyteorder()))),
    "HDF5": lambda files, X: files.hdf5(X),
    "HDF5 in chunks and small blocks": lambda files, X: small(files.chunked_hdf5(X)),
    "Zarr in small blocks": lambda files, X: small(files.zarr(X)),
    "another store": lambda files, X: small(Rows(X)),
}
# Kinds that run all the lines that the others run.
COVERED = (
    "memory map",
    "memory map of integers",
    "some columns of a memory map",
    "HDF5 in chunks and small blocks",
)


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[] if kind in COVERED else [pytest.mark.no_cover]) for kind in KINDS]
)
def test_every_kind_passes_the_check(kind, files):
    if kind == "memory map of integers":
        X = np.round(np.random.default_rng(0).standard_normal((9, 40)) * 8)
        data, v = KINDS[kind](files, X / 8), np.random.default_rng(1).standard_normal(40)
        assert data.dtype == np.float64
        assert_allclose(data.dot(v), X @ v, atol=1e-12)
        return
    check_data(lambda X: KINDS[kind](files, X))


def test_maps_are_read_with_plain_reads(files):
    X = np.random.default_rng(0).standard_normal((9, 40))
    assert isinstance(map_reader(files.mapped(X)), FileReader)
    assert isinstance(map_reader(files.mapped(np.repeat(X, 3, axis=0))[2::3]), FileReader)
    changed = np.load(files.mapped(X).filename, mmap_mode="c")
    changed[3] = 7.0  # the file does not know
    assert_array_equal(small(changed).dot(np.eye(40)[0])[3], 7.0)


def test_several_vectors_there_and_back(files):
    rng = np.random.default_rng(0)
    X, vectors, mean = rng.standard_normal((23, 11)), rng.standard_normal((3, 11)), rng.standard_normal(11)
    samples, shift = rng.integers(0, 23, 30), rng.standard_normal((30, 3))
    scores, back = small(files.mapped(X)).take(samples).there_and_back_many(vectors, mean, shift)
    expected = (X[samples] - mean) @ vectors.T - shift
    assert_allclose(scores, expected, atol=1e-12)
    assert_allclose(back, expected.T @ (X[samples] - mean), atol=1e-11)


def test_only_the_rows_of_a_part_are_read_and_in_order():
    X = np.random.default_rng(0).standard_normal((4000, 1000))
    store = Rows(X)
    samples = np.array([3900, 5, 1200, 5, 6, 1201])
    data = StoredData(StoreReader(store)).take(samples)
    assert_allclose(data.dot(np.ones(1000)), X[samples].sum(axis=1), atol=1e-10)
    assert store.asked == [(5, 7), (1200, 1202), (3900, 3901)]
    store.asked.clear()
    assert_array_equal(np.concatenate([block for _, block in data.blocks()]), X[samples])
    assert store.asked == [(5, 7), (1200, 1202), (3900, 3901)]


def test_blocks_are_whole_chunks_and_never_everything():
    X = np.random.default_rng(0).standard_normal((100, 50)).astype(np.float32)
    store = Rows(X, chunks=(8, 50))
    StoredData(StoreReader(store), budget=SmallBlocks()).dot(np.ones(50))
    assert store.asked == [(first, min(first + 24, 100)) for first in range(0, 100, 24)]


def test_one_block_is_read_ahead_and_no_more():
    started = [threading.Event() for _ in range(4)]

    class Watched(Rows):
        def __getitem__(self, index):
            started[index.start // 4].set()
            return super().__getitem__(index)

    store = Watched(np.ones((16, 5)))
    blocks = small(store).blocks(entries=20)
    for number in range(3):
        next(blocks)
        assert started[number + 1].wait(60)  # read while the block before is in use
        assert not any(event.is_set() for event in started[number + 2 :])
    blocks.close()
    assert len(store.asked) == 4


def test_each_block_gives_rows_in_order_and_sums(files):
    X = np.random.default_rng(0).standard_normal((23, 11))
    for samples in (np.arange(23), np.arange(1, 23, 2), np.random.default_rng(1).integers(0, 23, 40)):
        for data in (small(files.mapped(X)).take(samples), as_data(X).take(samples)):
            of_samples = X[samples]
            rows, total = data.each_block(
                lambda at, block, X=of_samples: (block[:, :2] + X[at, 2:4], block.sum()), 22
            )
            assert total == pytest.approx(of_samples.sum())
            assert_array_equal(rows, of_samples[:, :2] + of_samples[:, 2:4])


LIMIT = 120_000  # the vectors of 60 features take 58 kB


@pytest.fixture(scope="module")
def wide():
    """300 samples of 60 features with two regions: 144 kB."""
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((300, 60)) + 3.0
    X[:, 5:20] += 1.5 * rng.standard_normal((300, 1))
    X[:, 30:50] += rng.standard_normal((300, 1))
    return X


STORES = {
    "memory map": lambda files, X: files.mapped(X),
    "HDF5": lambda files, X: files.hdf5(X),
    "HDF5 in chunks": lambda files, X: files.chunked_hdf5(X),
    "Zarr": lambda files, X: files.zarr(X),
}


def model(**options):
    return SPCATV(2, structure=(60,), memory_limit=LIMIT, **options)


@pytest.mark.no_cover
@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_fit_is_that_of_the_array(kind, dtype, wide, files):
    X = wide.astype(dtype)
    store = STORES[kind](files, X)
    in_memory = model().fit(X)
    found = model().fit(store)
    tolerance = {"atol": 1e-4 if dtype == "float32" else 1e-7}
    assert found.components_.dtype == X.dtype
    assert_allclose(found.components_, in_memory.components_, **tolerance)
    assert_allclose(found.mean_, in_memory.mean_, rtol=1e-6)
    assert_allclose(found.transform(store), in_memory.transform(X), rtol=1e-3, atol=1e-3)
    assert found.score(store) == pytest.approx(in_memory.score(X), rel=1e-6)
    assert found.transform(store).dtype == X.dtype


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "options",
    [
        {"global_signal": "regress"},
        {"center": False},
        {"init": "structured"},
        {"alpha": 0.1, "method": "joint"},
        {"alpha": 0.1},
    ],
)
def test_options_work_on_files(options, wide, files):
    in_memory, found = model(**options).fit(wide), model(**options).fit(files.mapped(wide))
    assert_allclose(found.components_, in_memory.components_, atol=1e-5)


def test_more_features_than_samples(wide, files):
    """The Gram matrix of the samples comes from panels of columns."""
    X = np.ascontiguousarray(wide.T)
    in_memory = SPCATV(2).fit(X)
    found = SPCATV(2, memory_limit=380_000).fit(files.mapped(X))
    assert_allclose(found.components_, in_memory.components_, atol=1e-6)


def test_what_is_one_block_is_read_once(wide, files):
    """Without a limit the file is smaller than a block: the same bits as in memory."""
    reference = SPCATV(2, structure=(60,)).fit(wide)
    for X in (wide, np.asfortranarray(wide)):
        assert_array_equal(SPCATV(2, structure=(60,)).fit(files.mapped(X)).components_, reference.components_)
    store = Rows(wide, chunks=(7, 60))
    assert_array_equal(SPCATV(2, structure=(60,)).fit(store).components_, reference.components_)
    assert store.asked == [(0, 300)]


def test_maps_that_fit_stay_maps(wide, files, monkeypatch):
    def in_memory(X, limit=None):
        return in_blocks(X, None, limit).in_memory(X)

    store = files.mapped(wide)
    assert in_memory(store) is store
    assert in_memory(store, wide.nbytes + 154 * 8 * 60) is store
    assert in_memory(store, wide.nbytes + 154 * 8 * 60 - 1) is None
    monkeypatch.setattr("spcatv.data.memory.machine_memory", lambda: 2 * wide.nbytes - 1)
    assert in_memory(store) is not store
    monkeypatch.setattr("spcatv.data.memory.BLOCK_BYTES", 10_000)
    assert in_memory(store) is None
    assert isinstance(checked_data(SPCATV(), store, reset=True), StoredData)


def limited_memory(most):
    """The memory of the machine as a process finds it that may have no more than this."""
    resource = pytest.importorskip("resource")
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    return machine_memory()


@needs_fork
def test_the_memory_of_the_machine_is_known():
    assert 1e8 < machine_memory() < float("inf")
    assert in_a_fork(limited_memory, 10**9) <= 10**9


@pytest.mark.no_cover
def test_selection_bootstrap_and_halves_read_parts(wide, files):
    store, confounds = files.chunked_hdf5(wide), np.arange(300.0)[:, None]
    search = SPCATVCV(2, structure=(60,), sparsity=(0.3, 0.6), smoothness=1.0, cv=3, standardize=True)
    alone = search.set_params(memory_limit=None).fit(wide, confounds=confounds)
    errors = alone.cv_results_["mean_test_error"]
    scores = alone.transform(wide, confounds)
    found = search.set_params(memory_limit=LIMIT, n_jobs=2).fit(store, confounds=confounds)
    assert_allclose(found.cv_results_["mean_test_error"], errors, rtol=1e-6)
    assert_allclose(found.transform(store, confounds), scores, atol=1e-4)
    for resample, count in ((bootstrap_components, "n_resamples"), (split_halves, "n_splits")):
        one, other = (
            resample(model(sparsity=0.5), X, **{count: 2}, random_state=0) for X in (wide, files.mapped(wide))
        )
        assert_allclose(one.dice, other.dice)


def test_readers_travel_to_other_processes(wide, files):
    v = np.random.default_rng(0).standard_normal(60)
    for store in (files.mapped(wide)[10:], files.zarr(wide[10:])):
        assert_allclose(pickle.loads(pickle.dumps(small(store))).dot(v), wide[10:] @ v)
    assert len(pickle.dumps(small(files.mapped(wide)))) < 10_000
    hdf5 = small(files.hdf5(wide))
    assert_allclose(pickle.loads(pickle.dumps(hdf5)).dot(v), wide @ v)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_in_a_file_is_found(bad, wide, files):
    X = wide.copy()
    X[250, 7] = bad
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        model().fit(files.mapped(X))
    fitted = model().fit(wide)
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        fitted.transform(files.mapped(X))


class TestFilesThatChange:
    def test_a_file_that_is_too_short_from_the_start(self, wide, files):
        store = files.mapped(wide)
        os.truncate(store.filename, os.path.getsize(store.filename) - 8)
        with pytest.raises(OSError, match=r"X1\.npy is too short for X: sample 299 ends at byte \d+, but"):
            model().fit(store)

    def test_a_file_that_shrinks_while_it_is_read(self, wide, files):
        store = files.mapped(wide)
        data = in_blocks(store, None, LIMIT)
        blocks = data.blocks()
        next(blocks)
        os.truncate(store.filename, 10_000)
        with pytest.raises(OSError, match=r"X1\.npy is too short for X: .* has 10000 bytes; has it been cut"):
            data.dot(np.ones(60))
        with pytest.raises(OSError, match=r"X1\.npy is too short"):
            list(blocks)

    def test_a_map_that_fits_and_loses_its_file(self, wide, files):
        """Without the look at the file, the process would be killed."""
        store = files.mapped(wide)
        data = as_data(store).take(np.arange(300))
        os.truncate(store.filename, 10_000)
        with pytest.raises(OSError, match=r"X1\.npy is too short for X"):
            data.dot(np.ones(60))
        with pytest.raises(OSError, match=r"X1\.npy is too short for X"):
            SPCATV(1).fit(store)

    def test_a_file_that_is_replaced_or_deleted(self, wide, files):
        store = files.mapped(wide)
        data = in_blocks(store, None, LIMIT)
        os.replace(files.mapped(wide + 1).filename, store.filename)
        with pytest.raises(OSError, match="was replaced by another file"):
            data.dot(np.ones(60))
        os.unlink(store.filename)
        with pytest.raises(OSError, match="was deleted while it was read"):
            data.dot(np.ones(60))

    def test_an_hdf5_dataset_that_shrinks_or_is_closed(self, wide, files):
        store = files.hdf5(wide, mode="r+", maxshape=(None, 60), chunks=(20, 60))
        data = in_blocks(store, None, LIMIT)
        store.resize((100, 60))
        with pytest.raises(OSError, match=r"samples \d+ to \d+ of X could not be read from the h5py\."):
            data.dot(np.ones(60))
        files.close()
        with pytest.raises(OSError, match="has its file been changed or closed"):
            data.dot(np.ones(60))


class TestMemoryLimit:
    @pytest.mark.parametrize(
        ("given", "expected"),
        [
            (None, None),
            (10**9, 10**9),
            (2e9, 2 * 10**9),
            ("2 GB", 2 * 10**9),
            ("2g", 2 * 10**9),
            ("1.5 GiB", 3 << 29),
            ("500MB", 500 * 10**6),
            (" 100 kib ", 102400),
            ("123", 123),
        ],
    )
    def test_sizes(self, given, expected):
        assert checked_memory_limit(given) == expected

    @pytest.mark.parametrize("wrong", ["much", "2 XB", "-1 GB", "", 0, -3, np.inf, np.nan])
    def test_wrong_values(self, wrong, wide):
        with pytest.raises(
            ValueError, match='memory_limit must be None, a number of bytes, or text such as "2 '
        ):
            SPCATV(memory_limit=wrong).fit(wide)

    @pytest.mark.parametrize("wrong", [True, [1], b"2 GB"])
    def test_wrong_types(self, wrong, wide):
        with pytest.raises(TypeError, match="memory_limit must be"):
            SPCATV(memory_limit=wrong).fit(wide)

    def test_too_small_for_one_block(self, wide, files):
        with pytest.raises(ValueError, match=r"memory_limit=20 kB is too small for 60 features: .* at least"):
            SPCATV(memory_limit="20 kB").fit(files.mapped(wide))
        with pytest.raises(ValueError, match=r"two blocks of 100 samples 96 kB; give at least 172 kB"):
            SPCATV(memory_limit="100 kB").fit(files.hdf5(wide, chunks=(100, 60)))
        SPCATV(1, memory_limit="172 kB").fit(files.hdf5(wide, chunks=(100, 60)))

    def test_blocks_keep_to_it(self):
        limit = 50_000_000
        for chunks in (None, (64, 1000)):
            store = Rows(np.zeros((10_000, 10_000), np.float32), chunks)
            data = (
                in_blocks(store, None, limit)
                if chunks
                else StoredData(StoreReader(store), None, Budget(limit))
            )
            assert 2 * 4 * 10_000 * data.height + 154 * 8 * 10_000 <= limit
            assert data.height % data.reader.chunks[0] == 0


def growth(store):
    """Bytes by which a process grows while it fits a stored array with a limit of 40 MB."""
    resource = pytest.importorskip("resource")
    model = SPCATV(1, structure=(50, 100), tol=1e-2, sparsity=0.5, memory_limit="40 MB")
    model.fit(store[:40])  # what is loaded once
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model.fit(store)
    return 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts memory in units of Linux")
def test_the_limit_is_kept(files):
    """A file of 80 MB, in a process that grows by less than 40 MB."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 5000), dtype=np.float32)
    X[:, 1000:2000] += 2 * rng.standard_normal((4000, 1), dtype=np.float32)
    store = files.mapped(X)
    del X
    assert in_a_fork(growth, store) < 40e6


def test_other_objects_are_named(wide):
    class Nothing:
        shape = (3, 4)

    with pytest.raises(TypeError, match=r"X is a test_stored\..*Nothing, neither a NumPy array, a Dask"):
        as_data(Nothing())
    with pytest.raises(ValueError, match="two dimensions"):
        as_data(Rows(np.zeros(3)))
    with pytest.raises(TypeError, match="X has dtype <U1; it must be an array of real numbers"):
        as_data(Rows(np.array([["a"]])))


def test_arrays_in_memory_stay_there(wide):
    assert isinstance(as_data(wide), ArrayData)
    assert_array_equal(SPCATV(1, memory_limit=10).fit(wide).components_, SPCATV(1).fit(wide).components_)


def test_nothing_to_read(files):
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        SPCATV(1).fit(files.mapped(np.zeros((2, 3)))[:0])
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        SPCATV(1).fit(Rows(np.zeros((3, 0))))
