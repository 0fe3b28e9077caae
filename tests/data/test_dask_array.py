"""Dask arrays: products where the blocks are, and the same numbers as in memory."""

import threading
from collections import Counter

import numpy as np
import pytest
from array_files import Files, two_regions
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.data import ChunkWarning, DaskData, as_data
from spcatv.data.memory import Budget
from spcatv.progress import StageAdvanced, StageStarted, listening
from spcatv.selection import SPCATVCV
from spcatv.stability import bootstrap_components
from spcatv.structure import grid
from spcatv.testing import check_data

dask = pytest.importorskip("dask", reason='needs the extra dask: pip install "spca-tv[dask]"')
da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.filterwarnings("ignore:the share of zeros:UserWarning")


@pytest.fixture(scope="module")
def images():
    return two_regions(120)


def blocks_of(X, height=17):
    return da.from_array(X, chunks=(height, -1))


def model(**options):
    return SPCATV(2, structure=grid((20, 24)), **options)


KINDS = {
    "blocks": lambda X: da.from_array(X, chunks=(4, -1)),
    "a tree of sums": lambda X: da.from_array(X, chunks=(1, -1)),
    "empty and unequal blocks": lambda X: da.concatenate(
        [da.from_array(part, chunks=-1) for part in (X[:1], X[1:1], X[1:])]
    ),
    "in memory": lambda X: da.from_array(X, chunks=(3, -1)).persist(),
    "blocks that share a task": lambda X: (
        da.from_array(X, chunks=(3, -1)) + 0 * da.from_array(X, chunks=(3, -1)).max(axis=0)
    ),
}


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.no_cover] if kind != "blocks" else []) for kind in KINDS]
)
def test_every_kind_passes_the_check(kind):
    with dask.config.set(scheduler="threads" if kind == "blocks" else "synchronous"):
        check_data(KINDS[kind])


def test_an_array_from_files(images, tmp_path):
    X = da.from_zarr(Files(tmp_path).zarr(images)).rechunk({1: -1})
    u, v = np.random.default_rng(0).standard_normal(120), np.random.default_rng(1).standard_normal(480)
    scores, back = as_data(X).there_and_back_many(v[None], np.zeros(480), u[:, None])
    assert_allclose(scores[:, 0], images @ v - u, atol=1e-10)
    assert_allclose(back[0], images.T @ (images @ v - u), atol=1e-8)


def test_several_vectors_there_and_back():
    rng = np.random.default_rng(0)
    X, vectors, mean = rng.standard_normal((23, 11)), rng.standard_normal((3, 11)), rng.standard_normal(11)
    samples, shift = rng.integers(0, 23, 30), rng.standard_normal((30, 3))
    data = as_data(blocks_of(X, 2)).take(samples)
    scores, back = data.there_and_back_many(vectors, mean, shift)
    expected = (X[samples] - mean) @ vectors.T - shift
    assert_allclose(scores, expected, atol=1e-12)
    assert_allclose(back, expected.T @ (X[samples] - mean), atol=1e-11)


@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.no_cover), "float64"])
def test_a_fit_is_that_of_the_array(dtype, images):
    X = images.astype(dtype)
    in_memory, found = model().fit(X), model().fit(blocks_of(X))
    assert found.components_.dtype == X.dtype
    assert_allclose(found.components_, in_memory.components_, atol=1e-4 if dtype == "float32" else 1e-7)
    scores = found.transform(blocks_of(X))
    assert isinstance(scores, np.ndarray)
    assert_allclose(scores, in_memory.transform(X), atol=1e-3)
    assert found.score(blocks_of(X)) == pytest.approx(in_memory.score(X), rel=1e-6)
    with dask.config.set(scheduler="synchronous"):
        assert_array_equal(model().fit(blocks_of(X)).components_, found.components_)


@pytest.mark.parametrize("init", ["svd", "structured"])
def test_a_fit_to_few_samples_moves_no_block_either(init, images, monkeypatch):
    """In memory so few start from their Gram matrix, which would need blocks of two workers at a time."""
    expected = model(init=init).fit(images[:40])
    for name in ("gram", "blocks", "_panels"):
        monkeypatch.setattr(DaskData, name, None)
    found = model(init=init).fit(blocks_of(images[:40]))
    assert all(record.converged for record in found.diagnostics_)
    assert_allclose(found.components_, expected.components_, atol=1e-3)


def test_dtype_is_a_parameter(images):
    assert model(dtype="float32").fit(blocks_of(images)).components_.dtype == np.float32
    whole = np.round(images * 10).astype(int)
    assert_allclose(model().fit(blocks_of(whole)).components_, model().fit(whole).components_, atol=1e-7)


def test_scores_in_blocks_give_samples_in_blocks(images):
    fitted = model().fit(images)
    scores = fitted.transform(images)
    found = fitted.inverse_transform(da.from_array(scores, chunks=(50, 1)))
    assert found.chunks == ((50, 50, 20), (480,))
    assert found.dtype == np.float64
    assert_allclose(found.compute(), fitted.inverse_transform(scores))
    with pytest.raises(ValueError, match="one column per component"):
        fitted.inverse_transform(da.zeros((3, 5)))


class Heard:
    """Notes the stages and steps of a selection."""

    def __init__(self):
        self.events = []

    def hear(self, event):
        self.events.append(event)
        return False

    def kinds(self):
        return Counter(e for e in self.events if isinstance(e, (StageStarted, StageAdvanced)))


@pytest.mark.no_cover
def test_selection_and_bootstrap(images):
    images, confounds = images[:60], np.arange(60.0)[:, None]
    options = {"structure": grid((20, 24)), "sparsity": (0.5, 0.7), "smoothness": 1.0, "cv": 2, "n_jobs": 2}
    # few samples in memory start from their Gram matrix, and blocks from a sketch: both end at the same point
    search = SPCATVCV(2, **options, tol=1e-10)
    heard = []
    for X in (images, blocks_of(images)):
        with listening(told := Heard()):
            heard.append((SPCATVCV(**search.get_params()).fit(X, confounds=confounds), told.kinds()))
    (alone, events), (found, events_of_blocks) = heard
    assert events == events_of_blocks
    assert events.total() > 2
    for name in ("mean_test_error", "mean_dice"):
        assert_allclose(found.cv_results_[name], alone.cv_results_[name], rtol=1e-6)
    assert_allclose(found.components_, alone.components_, atol=1e-5)  # the certified distance: sqrt(tol)
    one, other = (
        bootstrap_components(model(tol=1e-9), X, n_resamples=2, random_state=0, n_jobs=2)
        for X in (images, blocks_of(images))
    )
    assert_allclose(one.dice, other.dice)


class TestWrongArrays:
    def test_unknown_chunk_sizes(self, images):
        X = blocks_of(images)
        with pytest.raises(ValueError, match=r"unknown chunk sizes .*compute_chunk_sizes"):
            model().fit(X[X[:, 0] > 0])

    def test_chunks_across_features_are_joined_and_reported(self, images):
        X = da.from_array(images, chunks=(50, 100))
        with pytest.warns(
            ChunkWarning, match=r"5 chunks across its 480 features.*rechunk\(\{1: -1\}\)"
        ) as said:
            found = model().fit(X)
        assert len([warning for warning in said if warning.category is ChunkWarning]) == 1
        assert_allclose(found.components_, model().fit(images).components_, atol=1e-7)

    def test_what_is_no_matrix_of_numbers(self, images):
        with pytest.raises(ValueError, match="two dimensions"):
            model().fit(da.zeros((3, 4, 5)))
        with pytest.raises(TypeError, match="must be NumPy arrays of real numbers"):
            model().fit(blocks_of(images.astype(complex)))
        with pytest.raises(TypeError, match="must be NumPy arrays of real numbers"):
            model().fit(blocks_of(images).map_blocks(np.ma.masked_invalid))

    def test_nan(self, images):
        X = images.copy()
        X[100, 3] = np.nan
        with pytest.raises(ValueError, match=r"Input X contains NaN\."):
            model().fit(blocks_of(X))

    def test_chunks_beyond_the_memory_limit(self, images):
        limit = 120 * 8 * 480 + 2 * 8 * 480 * 40  # vectors, and two blocks of 40 samples
        with pytest.raises(ValueError, match=r"too small for chunks of 384 kB; .* or rechunk X"):
            model(memory_limit=limit).fit(blocks_of(images, 100))
        found = model(memory_limit=limit).fit(blocks_of(images, 20))
        assert_allclose(found.components_, model().fit(images).components_, atol=1e-7)


def test_the_limit_bounds_the_chunks_at_work(images):
    """Chunks of 77 kB, of which two may be here at a time."""
    counter, lock, seen = [0], threading.Lock(), []

    def loaded(block):
        with lock:
            counter[0] += 1
            seen.append(counter[0])
        result = np.array(block)
        with lock:
            counter[0] -= 1
        return result

    X = blocks_of(images, 20).map_blocks(loaded, meta=np.empty((0, 0)))
    DaskData(X, None, Budget((130 + 4 * 20) * 8 * 480)).dot(np.ones(480))
    assert max(seen) <= 2
