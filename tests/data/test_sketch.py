"""Compressed data: leading directions in a few passes, and fits that end where those of all data do."""

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from spcatv import SPCATV
from spcatv.data import (
    Adjustment,
    CentredData,
    DeflatedData,
    StoredData,
    StoreReader,
    as_data,
    operator,
    sketch,
)
from spcatv.data.array import ArrayData
from spcatv.data.sketch import CountedPasses
from spcatv.decomposition.alternation import Limits
from spcatv.decomposition.deflation import best_component
from spcatv.decomposition.weights import SparsityTarget
from spcatv.metrics import match_components
from spcatv.structure import as_structure


def _field(n_samples=150, shape=(20, 25), seed=0, dtype=np.float64):
    """Three regions in noise, on a mean that is far from zero."""
    rng = np.random.default_rng(seed)
    maps = np.zeros((3, *shape))
    maps[0, 2:9, 2:9], maps[1, 11:18, 4:12], maps[2, 5:14, 15:22] = 1, 1, 1
    scores = rng.standard_normal((n_samples, 3)) * [3.0, 2.0, 1.5]
    X = scores @ maps.reshape(3, -1) + rng.standard_normal((n_samples, maps[0].size)) + 50.0
    return X.astype(dtype), shape


def _dense(data):
    """The matrix that an operator stands for."""
    return np.stack([data.dot(unit) for unit in np.eye(data.shape[1])], axis=1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("global_signal", [False, True])
def test_leading_directions_and_their_rows(global_signal, dtype):
    X, _ = _field(dtype=dtype)
    data = CentredData(as_data(X))
    data = data.without_global_signal() if global_signal else data
    exact = _dense(data)
    U, values, _ = np.linalg.svd(exact, full_matrices=False)
    found = sketch.compress(data, 3)
    precision = 1e-4 if dtype is np.float32 else 1e-10
    np.testing.assert_allclose(found.basis.T @ found.basis, np.eye(found.basis.shape[1]), atol=precision)
    np.testing.assert_allclose(found.rows, found.basis.T @ exact, atol=precision * values[0])
    # the third is noise where the global signal was removed
    squares, scores = found.leading_squares(2)
    np.testing.assert_allclose(squares, values[:2] ** 2, rtol=1e-3)
    # never more than there is, but for rounding
    assert (squares <= values[:2] ** 2 * (1 + precision)).all()
    for k in range(2):
        assert abs(scores[k] @ U[:, k]) > 1 - 1e-3


def test_adjusted_data_are_compressed_as_they_are():
    X, _ = _field()
    rng = np.random.default_rng(3)
    adjustment = Adjustment(standardize=True, confounds=rng.standard_normal((150, 2)))
    samples = rng.permutation(150)[:120]
    fitted = adjustment.fit(as_data(X), samples)
    data = CentredData(fitted.apply(as_data(X).take(samples), adjustment.of(samples)))
    exact = _dense(data)
    found = sketch.compress(data, 2)
    np.testing.assert_allclose(found.rows, found.basis.T @ exact, atol=1e-10)


def test_the_residual_of_compressed_data():
    X, _ = _field()
    data = CentredData(as_data(X))
    loading = np.zeros(500)
    loading[50:120] = 1 / np.sqrt(70)
    residual = DeflatedData(data, data.dot(loading)[None], loading[None])
    found = residual.compressed(2)
    np.testing.assert_allclose(found.rows, found.basis.T @ _dense(residual), atol=1e-9)
    v = np.random.default_rng(1).standard_normal(500)
    scores, back = found.there_and_back_many(v[None])
    np.testing.assert_allclose(scores[:, 0], found.basis @ (found.rows @ v), atol=1e-9)
    np.testing.assert_allclose(back[0], found.transpose_dot(scores[:, 0]), atol=1e-6)


def test_what_a_sketch_learns_is_exact():
    data = CentredData(as_data(_field()[0]))
    products = CountedPasses(data, sketch.compress(data, 2))
    rng = np.random.default_rng(1)
    for n_passes in (1, 2, 3):
        v = rng.standard_normal(500)
        before = products.there_and_back(v, exactly=False)
        exact = products.there_and_back(v, exactly=True)
        assert np.linalg.norm(before[0]) < 0.99 * np.linalg.norm(exact[0])
        for found, known in zip(products.there_and_back(v, exactly=False), exact, strict=True):
            np.testing.assert_allclose(found, known, atol=1e-9 * abs(known).max())
        assert products.n_passes == n_passes
    products.give_up_sketch()
    np.testing.assert_allclose(products.transpose_dot(np.ones(150)), data.transpose_dot(np.ones(150)))
    assert products.n_passes == 4


def test_passes_until_a_tolerance_find_what_pca_spans():
    X = np.random.default_rng(5).standard_normal((200, 300))
    data = CentredData(as_data(X))
    exact = np.linalg.svd(_dense(data), compute_uv=False)[:4] ** 2
    assert sketch.compress(data, 4, tol=1e-6).leading_squares(4)[0].sum() == pytest.approx(
        exact.sum(), rel=1e-4
    )
    assert sketch.compress(data, 4).leading_squares(4)[0].sum() < exact.sum() * (1 - 1e-4)


def test_data_of_low_rank_and_without_variance():
    X = np.outer(np.arange(80.0), np.ones(90))
    assert sketch.compress(CentredData(as_data(X)), 3).basis.shape == (80, 1)
    flat = sketch.compress(CentredData(as_data(np.ones((80, 90)))), 3)
    assert flat.leading_squares(3)[1].shape[0] == 0


@pytest.mark.parametrize(
    "parameters", [{"sparsity": 0.9}, {"alpha": 0.2}, {"alpha": 0.2, "n_init": 3}, {"init": "structured"}]
)
def test_fits_end_where_they_do_without_compression(parameters, monkeypatch):
    X, shape = _field()
    model = SPCATV(3, structure=shape, **parameters)
    exact = model.fit(X).diagnostics_
    components = model.components_
    monkeypatch.setattr(operator, "SMALL_GRAM", 10)
    fast = model.fit(X).diagnostics_
    for one, other in zip(exact, fast, strict=True):
        assert other.converged
        assert other.objective == pytest.approx(one.objective, rel=1e-4)
    assert (match_components(components, model.components_).cosine > 0.999).all()


def test_a_component_takes_a_few_passes(monkeypatch):
    X, shape = _field(n_samples=300)
    counts: dict[str, int] = {}
    for name in (
        "dot_many",
        "transpose_dot",
        "there_and_back_many",
        "column_statistics",
        "gram",
    ):
        method = getattr(ArrayData, name)

        def counted(self, *args, name=name, method=method):
            counts[name] = counts.get(name, 0) + 1
            return method(self, *args)

        monkeypatch.setattr(ArrayData, name, counted)
    monkeypatch.setattr(operator, "SMALL_GRAM", 10)
    model = SPCATV(3, structure=shape, sparsity=0.9).fit(X)
    # all components at once, and X'u is known where they start
    assert counts["there_and_back_many"] == sketch.PASSES + model.diagnostics_[0].n_passes
    assert not {"gram", "transpose_dot"} & set(counts)
    assert sum(counts.values()) <= 10


def test_statistics_come_with_the_first_pass_over_blocks(monkeypatch):
    X, shape = _field(n_samples=300)
    n_passes = 0
    visit = StoredData._pass

    def counted(self, *args):
        nonlocal n_passes
        n_passes += self.shape[0] == 300  # a few samples that are looked at first are no pass
        return visit(self, *args)

    monkeypatch.setattr(StoredData, "_pass", counted)
    monkeypatch.setattr(operator, "SMALL_GRAM", 10)
    stored = StoredData(StoreReader(X))
    model = SPCATV(3, structure=shape, sparsity=0.9).fit(stored)
    assert n_passes == sketch.PASSES + model.diagnostics_[0].n_passes
    monkeypatch.undo()
    data, exact = CentredData(stored), CentredData(as_data(X))
    vectors = np.random.default_rng(1).standard_normal((4, 500))
    for one, other in zip(data.first_products(vectors), exact.there_and_back_many(vectors), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-7)
    np.testing.assert_allclose(data.mean, exact.mean, rtol=1e-13)
    np.testing.assert_allclose(data.column_squared_norms, exact.column_squared_norms, rtol=1e-12)
    np.testing.assert_allclose(data.global_signal, exact.global_signal, atol=1e-12)


@pytest.mark.no_cover
@pytest.mark.parametrize(("n_components", "parameters"), [(6, {"sparsity": 0.9}), (10, {"alpha": 0.1})])
def test_components_that_are_nearly_as_strong_take_as_few(n_components, parameters, monkeypatch):
    rng = np.random.default_rng(0)
    maps = gaussian_filter(rng.standard_normal((100, 30, 40)), (0, 2, 2)).reshape(100, -1)
    maps /= maps.std(axis=1, keepdims=True) * np.arange(1, 101)[:, None] ** 0.1
    X = rng.standard_normal((400, 100)) @ maps + rng.standard_normal((400, 1200))
    monkeypatch.setattr(operator, "SMALL_GRAM", 10)
    records = SPCATV(n_components, structure=(30, 40), **parameters).fit(X).diagnostics_
    assert all(record.converged for record in records)
    # a sketch that learns nothing takes 66 and 83
    assert sum(record.n_passes for record in records) <= 4 * n_components


class _Stop:
    def hear(self, event):
        return True


@pytest.mark.parametrize("request_", ["sparsity", "weights"])
@pytest.mark.parametrize("limits", [Limits(1e-9, 1), Limits(1e-9, 20, listener=_Stop())])
def test_a_fit_that_ends_early_has_the_scores_of_all_data(request_, limits):
    data = CentredData(as_data(_field()[0]))
    target = SparsityTarget(as_structure((20, 25)), 0.9, 1.0)
    request = target if request_ == "sparsity" else target.with_weights(0.01, 0.01, 1.0)
    compressed = sketch.compress(data, 1)
    start = compressed.leading_squares(1)[1][0]
    solver = request.solver("auto", np.float64)
    found = best_component(data, request, [start], limits, solver=solver, sketch=compressed)
    scores = data.dot(found.v)
    np.testing.assert_allclose(found.u, scores / np.linalg.norm(scores), atol=1e-10)
    assert found.scores_norm == pytest.approx(np.linalg.norm(scores))
    assert (found.n_passes, found.n_alternations) == (1, 1)
    assert np.abs(found.u - compressed.basis @ (compressed.basis.T @ found.u)).max() > 1e-6
