"""Unshrunk loadings: the leading eigenvector on the support, found with penalties."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from spcatv import SPCATV
from spcatv.data import CentredData, as_data, operator
from spcatv.decomposition.deflation import refit_on_support
from spcatv.selection import path

GIVEN = {"structure": (60,), "alpha": None, "sparsity": 0.7, "smoothness": 0.3, "method": "deflation"}


def _data(n_samples=40, seed=0, noise=0.7):
    """Two regions with loadings that rise and fall, in noise; shape (n_samples, 60)."""
    rng = np.random.default_rng(seed)
    X = noise * rng.standard_normal((n_samples, 60))
    X[:, 5:20] += np.outer(2 * rng.standard_normal(n_samples), np.hanning(17)[1:-1])
    X[:, 35:50] += np.outer(1.5 * rng.standard_normal(n_samples), np.hanning(17)[1:-1])
    return X


def leading(X, support):
    """Unit eigenvector of the covariance of some columns, its largest entry positive."""
    v = np.zeros(X.shape[1])
    v[support] = np.linalg.eigh(X[:, support].T @ X[:, support])[1][:, -1]
    return v * np.sign(v[np.argmax(np.abs(v))])


@pytest.mark.parametrize("given", [GIVEN, {"structure": (60,), "alpha": 0.3}])
@pytest.mark.parametrize("global_signal", [None, "regress"])
def test_every_loading_is_the_leading_eigenvector_on_its_support(given, global_signal):
    X = _data()
    model = SPCATV(2, **given, refit="support", global_signal=global_signal).fit(X)
    left = X - X.mean(axis=0)
    if global_signal is not None:
        left -= np.outer(left.mean(axis=1), model.global_loading_)
    for k, v in enumerate(model.components_):
        support = np.flatnonzero(v)
        assert 0 < len(support) < 60
        assert_allclose(v, leading(left, support), atol=1e-6)
        assert model.singular_values_[k] == pytest.approx(np.linalg.norm(left @ v))
        assert model.diagnostics_[k].n_nonzero == len(support)
        left = left - np.outer(left @ v, v)
    assert_allclose(model.transform(X), model.fit_transform(X), atol=1e-9)
    assert model.explained_variance_ratio_.sum() < 1


def test_the_support_is_that_of_the_penalised_loading():
    X = _data()
    shrunk, unshrunk = SPCATV(1, **GIVEN).fit(X), SPCATV(1, **GIVEN, refit="support").fit(X)
    assert_array_equal(unshrunk.components_ != 0, shrunk.components_ != 0)
    assert unshrunk.singular_values_[0] > 1.001 * shrunk.singular_values_[0]
    for name in ("objective", "gap", "relative_gap", "n_certain", "sparsity", "n_nonzero", "converged"):
        assert getattr(unshrunk.diagnostics_[0], name) == getattr(shrunk.diagnostics_[0], name)
    assert_array_equal(unshrunk.l1_, shrunk.l1_)


@pytest.mark.parametrize("shape", [(2, 6), (3, 6), (30, 6), (6, 30)])
def test_any_shape(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    loading = np.zeros(shape[1])
    loading[[0, 2, 5]] = [1.0, -0.1, 0.2]
    found = refit_on_support(CentredData(as_data(X)), loading, positive=False)
    expected = leading(X - X.mean(axis=0), np.array([0, 2, 5]))
    assert_allclose(found * np.sign(found @ expected), expected, atol=1e-6)


def test_large_data_take_one_pass_per_step(monkeypatch):
    monkeypatch.setattr(operator, "SMALL_GRAM", 0)
    X = _data(n_samples=200)
    data = CentredData(as_data(X))
    support = np.r_[5:20, 40:45]
    loading = np.zeros(60)
    loading[support] = 1.0
    data.compressed(2)
    n_passes = 0
    there_and_back = CentredData.there_and_back

    def counted(self, v):
        nonlocal n_passes
        n_passes += 1
        return there_and_back(self, v)

    monkeypatch.setattr(CentredData, "there_and_back", counted)
    for name in ("dot", "dot_many", "transpose_dot"):
        monkeypatch.setattr(CentredData, name, None)
    found = refit_on_support(data, loading, positive=False)
    expected = leading(X - X.mean(axis=0), support)
    assert_allclose(found * np.sign(found @ expected), expected, atol=1e-5)
    assert 1 <= n_passes <= 10


def test_a_support_of_one_feature_is_a_unit_vector():
    X = np.random.default_rng(0).standard_normal((10, 4))
    found = refit_on_support(CentredData(as_data(X)), np.array([0.0, -2.0, 0.0, 0.0]), positive=False)
    assert_allclose(np.abs(found), [0, 1, 0, 0])


def test_non_negative_loadings_stay_so_and_explain_more():
    X = _data()
    X[:, 10] -= 2 * X[:, 12]  # the eigenvector has a negative entry here
    given = {"structure": None, "alpha": 0.05, "l1_ratio": 0.05, "tv_ratio": 0.0, "positive": True}
    shrunk, unshrunk = SPCATV(2, **given).fit(X), SPCATV(2, **given, refit="support").fit(X)
    assert (unshrunk.components_ >= 0).all()
    assert not unshrunk.components_[0, shrunk.components_[0] == 0].any()
    assert unshrunk.singular_values_[0] > shrunk.singular_values_[0]
    centred = X - X.mean(axis=0)
    v = unshrunk.components_[0]
    # stationary: no non-negative direction on the support of the penalised loading raises ||X v||
    gradient = (centred.T @ (centred @ v))[shrunk.components_[0] > 0]
    own = v[shrunk.components_[0] > 0]
    assert_allclose(np.maximum(gradient, 0) / np.linalg.norm(np.maximum(gradient, 0)), own, atol=1e-5)
    assert [d.n_nonzero for d in unshrunk.diagnostics_] == np.count_nonzero(
        unshrunk.components_, axis=1
    ).tolist()


def test_empty_components_stay_null():
    with pytest.warns(UserWarning, match="components are empty"):
        model = SPCATV(2, structure=(60,), alpha=20, refit="support").fit(_data())
    assert not model.components_.any()
    assert not model.singular_values_.any()


def test_paths_start_from_the_penalised_loadings():
    X = _data()
    estimator = SPCATV(2, structure=(60,), alpha=0.1, refit="support", tol=1e-9)
    models = path(
        estimator, X, [0.1, 0.11, 0.12]
    ).models  # so close that a good start halves the alternations
    cold = [clone(estimator).set_params(alpha=model.alpha).fit(X) for model in models]
    for model, alone in zip(models, cold, strict=True):
        assert_allclose(model.components_, alone.components_, atol=1e-5)
    assert sum(model.n_iter_ for model in models[1:]) < sum(model.n_iter_ for model in cold[1:])


def _wide_maps(n_samples, seed):
    """Two maps that are wider than the supports asked for, in noise; shape (n_samples, 60)."""
    rng = np.random.default_rng(seed)
    place = np.arange(60) / 60
    maps = np.stack([2 * np.exp(-((place - 0.3) ** 2) / 0.08), 1.5 * np.exp(-((place - 0.75) ** 2) / 0.05)])
    return rng.standard_normal((n_samples, 2)) @ maps + 0.3 * rng.standard_normal((n_samples, 60))


@pytest.mark.parametrize("seed", range(3))
def test_held_out_samples_are_reconstructed_better(seed):
    train, test = _wide_maps(60, seed), _wide_maps(200, 100 + seed)
    shrunk, unshrunk = (SPCATV(2, **GIVEN, refit=refit).fit(train) for refit in (None, "support"))
    assert np.mean(unshrunk.components_ == 0) == pytest.approx(0.7, abs=0.05)
    assert -unshrunk.score(test) < -0.9 * shrunk.score(test)


def test_single_precision():
    X = _data()
    model = SPCATV(2, **GIVEN, refit="support").fit(X.astype(np.float32))
    assert model.components_.dtype == np.float32
    v = model.components_[0].astype(np.float64)
    assert_allclose(v, leading(X - X.mean(axis=0), np.flatnonzero(v)), atol=1e-5)


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="unknown refit 'all'"):
        SPCATV(refit="all", method="deflation").fit(_data())


def test_a_model_folder_keeps_it(tmp_path):
    model = SPCATV(1, **GIVEN, refit="support").fit(_data())
    again = SPCATV.load(model.save(tmp_path / "model"))
    assert again.refit == "support"
    assert_array_equal(again.components_, model.components_)
