"""global_signal="regress": the same as regressing the columns on the row means first."""

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.data import as_data
from spcatv.model import ModelError
from spcatv.selection import SPCATVCV, path
from spcatv.stability import bootstrap_components


def _data(n_samples=30, n_features=40, seed=0):
    """Two blocks of features, noise, and a strong global signal; shape (n_samples, n_features)."""
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.standard_normal((n_samples, n_features))
    X[:, 5:12] += 2 * rng.standard_normal((n_samples, 1))
    X[:, 25:30] -= 1.5 * rng.standard_normal((n_samples, 1))
    return X + np.outer(3 * rng.standard_normal(n_samples), rng.uniform(0.5, 1.5, n_features)) + 7


class Regression:
    """The columns of training rows regressed on the row means, by hand."""

    def __init__(self, X):
        self.mean = X.mean(axis=0)
        g = (X - self.mean).mean(axis=1)
        self.b = (X - self.mean).T @ g / (g @ g)

    def __call__(self, X):
        centred = X - self.mean
        return centred - np.outer(centred.mean(axis=1), self.b)


def _model(**given):
    parameters = {"structure": (40,), "alpha": 0.1, "tol": 1e-9, **given}
    return SPCATV(2, **parameters)


@pytest.mark.parametrize(
    "given", [{}, {"alpha": None, "smoothness": 0.1}, {"method": "joint"}, {"positive": True}]
)
def test_it_equals_a_regression_by_hand_and_a_plain_fit(given):
    X, new = _data(), _data(8, seed=1)
    by_hand = Regression(X)
    model = _model(global_signal="regress", **given).fit(X)
    plain = _model(**given).fit(by_hand(X))
    np.testing.assert_allclose(model.global_loading_, by_hand.b, rtol=1e-10)
    np.testing.assert_allclose(model.mean_, by_hand.mean, rtol=1e-12)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-6)
    np.testing.assert_allclose(model.explained_variance_ratio_, plain.explained_variance_ratio_, atol=1e-6)
    np.testing.assert_allclose(model.transform(new), plain.transform(by_hand(new)), atol=1e-4)
    assert model.score(new) == pytest.approx(plain.score(by_hand(new)), rel=1e-6)


def test_without_it_nothing_is_taken_out():
    model = _model().fit(_data())
    assert model.global_loading_ is None


@pytest.mark.parametrize("method", ["auto", "projection"])
def test_the_score_is_the_error_on_what_is_left(method):
    X, new = _data(), _data(8, seed=1)
    model = _model(global_signal="regress", transform_method=method).fit(X)
    left = Regression(X)(new)
    error = left - (model.inverse_transform(model.transform(new)) - model.mean_)
    assert model.score(new) == pytest.approx(-(error**2).sum() / len(new))


def test_scores_do_not_change_when_samples_are_raised_along_the_global_loading():
    X = _data()
    model = _model(global_signal="regress").fit(X)
    raised = X + np.outer(np.linspace(-5, 5, len(X)), model.global_loading_)
    np.testing.assert_allclose(model.transform(raised), model.transform(X), atol=1e-9)
    assert np.abs(_model().fit(X).transform(raised) - _model().fit(X).transform(X)).max() > 1


def test_the_order_and_the_scale_of_samples_do_not_matter():
    X = _data()
    model = _model(global_signal="regress").fit(X)
    other = _model(global_signal="regress").fit(1e3 * X[::-1])
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-6)
    np.testing.assert_allclose(other.global_loading_, model.global_loading_, rtol=1e-9)


def test_data_objects_and_arrays_give_the_same():
    X = _data()
    model = _model(global_signal="regress").fit(as_data(X))
    same = _model(global_signal="regress").fit(X)
    np.testing.assert_array_equal(model.components_, same.components_)
    np.testing.assert_array_equal(model.transform(as_data(X)), same.transform(X))
    assert model.score(as_data(X)) == same.score(X)


def test_single_precision():
    X = _data().astype(np.float32)
    model = _model(global_signal="regress", tol=1e-6).fit(X)
    exact = _model(global_signal="regress").fit(X.astype(np.float64))
    assert model.global_loading_.dtype == np.float32
    np.testing.assert_allclose(model.components_, exact.components_, atol=2e-3)


def test_constant_row_means_leave_the_fit_as_it_is():
    X = _data()
    X -= X.mean(axis=1, keepdims=True)
    model, plain = _model(global_signal="regress").fit(X), _model().fit(X)
    np.testing.assert_array_equal(model.global_loading_, 0)
    np.testing.assert_allclose(model.components_, plain.components_, atol=1e-9)


@pytest.mark.parametrize("X", [np.arange(5.0)[:, None], np.outer(np.arange(5.0), [1.0, 2.0, 4.0])])
def test_data_that_are_nothing_but_the_global_signal_are_refused(X):
    with pytest.raises(ValueError, match="leaves nothing to fit"):
        SPCATV(1, alpha=None, sparsity=0, global_signal="regress").fit(X)


def test_other_values_are_refused():
    with pytest.raises(ValueError, match="unknown global_signal 'mean'"):
        _model(global_signal="mean").fit(_data())


def test_held_out_samples_are_treated_as_the_estimator_does():
    X, new = _data(), _data(8, seed=1)
    model = _model(global_signal="regress", tol=1e-6)
    fitted = path(model, X, [0.1]).models[0]
    np.testing.assert_allclose(fitted.global_loading_, Regression(X).b, rtol=1e-12)
    folds = [(np.arange(30), np.arange(30, 38))]
    names = ("structure", "alpha", "l1_ratio", "tv_ratio", "tol", "global_signal")
    search = SPCATVCV(2, **{name: getattr(model, name) for name in names}, cv=folds, rule="error")
    shares = search.fit(np.concatenate([X, new])).cv_results_["mean_test_explained"]
    left = Regression(X)(new)
    expected = 1 + fitted.score(new) * len(new) / (left**2).sum()
    assert shares[0] == pytest.approx(expected, rel=1e-5)


def test_selection_and_resampling_see_what_a_fit_sees():
    X = _data()
    given = {"structure": (40,), "alpha": [0.2, 0.3], "l1_ratio": 0.25, "tv_ratio": 0.5}
    folds = [(np.arange(20), np.arange(20, 30))]
    search = SPCATVCV(2, **given, cv=folds, rule="error", tol=1e-9, global_signal="regress").fit(X)
    assert search.best_estimator_.global_loading_ is not None
    model = _model(global_signal="regress", alpha=search.best_params_["alpha"]).fit(X[:20])
    error = np.sqrt(-10 * model.score(X[20:]))
    assert -search.best_score_ == pytest.approx(error, rel=1e-5)
    model = _model(global_signal="regress", tol=1e-6).fit(X)
    resampled = bootstrap_components(model, X, n_resamples=5, random_state=0)
    assert resampled.cosine[:, 0].min() > 0.9


def test_a_model_folder_keeps_it(tmp_path):
    X = _data()
    model = _model(global_signal="regress").fit(X)
    again = SPCATV.load(model.save(tmp_path / "model"))
    np.testing.assert_array_equal(again.global_loading_, model.global_loading_)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    plain = SPCATV.load(_model().fit(X).save(tmp_path / "plain"))
    assert plain.global_loading_ is None


def test_a_model_folder_without_the_coefficients_is_refused(tmp_path):
    model = _model(global_signal="regress").fit(_data())
    model.global_loading_ = None
    with pytest.raises(ModelError, match="global_loading"):
        SPCATV.load(model.save(tmp_path / "model"))
