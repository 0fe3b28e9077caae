"""A warm-started path gives what cold fits give."""

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from spcatv import SPCATV
from spcatv.estimator import EmptyComponentWarning
from spcatv.selection import path
from spcatv.selection.path import PathFit, _warm_start


@pytest.fixture(scope="module")
def images():
    """60 images of 20 x 20 with two squares that vary."""
    rng = np.random.default_rng(0)
    X = 0.7 * rng.standard_normal((60, 20, 20))
    X[:, 3:9, 3:9] += 2.0 * rng.standard_normal((60, 1, 1))
    X[:, 11:17, 10:18] += 1.5 * rng.standard_normal((60, 1, 1))
    return X.reshape(60, 400)


@pytest.mark.parametrize("penalty", ["tv", "graphnet"])
@pytest.mark.parametrize("positive", [False, True])
def test_the_same_answers_as_cold_fits(images, penalty, positive):
    estimator = SPCATV(2, structure=(20, 20), alpha=0.1, penalty=penalty, positive=positive, tol=1e-11)
    alphas = np.geomspace(0.05, 0.6, 7)
    fitted = path(estimator, images, alphas)
    for alpha, model in zip(alphas, fitted.models, strict=True):
        cold = SPCATV(2, structure=(20, 20), penalty=penalty, positive=positive, tol=1e-11, alpha=alpha)
        cold.fit(images)
        assert [record.converged for record in model.diagnostics_] == [True, True]
        for warm_record, cold_record in zip(model.diagnostics_, cold.diagnostics_, strict=True):
            assert warm_record.objective == pytest.approx(cold_record.objective, rel=1e-4)
        np.testing.assert_allclose(model.components_, cold.components_, atol=2e-3)


def test_a_path_over_sparsity(images):
    """What is guaranteed: the wanted zeros, but for a plateau that is said, and certified loadings.

    Which components are found is not: a path follows those of the dense fits. Here it is the same ones.
    """
    estimator = SPCATV(2, structure=(20, 20), alpha=None, smoothness=0.1)
    shares = [0.9, 0.5, 0.7, 0.8, 0.6]
    fitted = path(estimator, images, shares)
    for share, model in zip(shares, fitted.models, strict=True):
        assert model.sparsity == share
        cold = SPCATV(2, structure=(20, 20), alpha=None, sparsity=share, smoothness=0.1).fit(images)
        for k, record in enumerate(model.diagnostics_):
            assert record.converged
            assert record.relative_gap <= 1e-6
            assert np.mean(model.components_[k] == 0) == pytest.approx(share, abs=max(0.01, record.jump))
            assert model.components_[k] @ cold.components_[k] > 0.98
    first = SPCATV(2, structure=(20, 20), alpha=None, sparsity=0.5, smoothness=0.1).fit(images)
    assert_array_equal(fitted.models[1].components_, first.components_)


def test_settings_may_be_anything_in_any_order(images):
    settings = [{"alpha": 0.5, "l1_ratio": 0.1}, {"tv_ratio": 0.2}, 0.1, {"alpha": 0.3, "l1_ratio": 0.1}]
    estimator = SPCATV(1, structure=(20, 20), alpha=0.25)
    fitted = path(estimator, images, settings)
    assert fitted.settings[1] == {"alpha": 0.25, "l1_ratio": 0.25, "tv_ratio": 0.2}
    for setting, model in zip(fitted.settings, fitted.models, strict=True):
        assert {name: getattr(model, name) for name in setting} == setting
        cold = SPCATV(1, structure=(20, 20), **setting).fit(images)
        np.testing.assert_allclose(model.components_, cold.components_, atol=0.02)
    assert estimator.alpha == 0.25
    assert not hasattr(estimator, "components_")


def test_every_model_is_a_fitted_estimator(images):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(images.astype(np.float32), columns=[f"pixel {j}" for j in range(400)])
    fitted = path(SPCATV(2, structure=(20, 20), alpha=0.1), frame, [0.1, 0.2, 0.4])
    for model in fitted.models:
        assert model.transform(frame).shape == (60, 2)
        assert model.components_.dtype == np.float32
        assert model.feature_names_in_[0] == "pixel 0"


def test_a_component_that_becomes_empty_on_the_way_stays_empty(images):
    with pytest.warns(EmptyComponentWarning):
        fitted = path(SPCATV(2, structure=(20, 20), alpha=0.1), images, [0.2, 9.0, 0.3])
    assert (fitted.models[1].components_ == 0).all()
    assert fitted.models[2].components_.any(axis=1).all()


def test_wrong_settings_are_refused_before_any_work(images):
    estimator = SPCATV(1, structure=(20, 20), alpha=0.1)
    with pytest.raises(ValueError, match="at least one setting"):
        path(estimator, images, [])
    for wrong in ({"tol": 0.1}, {"alpha": 0.1, "sparsity": 0.5}):
        with pytest.raises(ValueError, match="may hold sparsity and smoothness, or alpha, l1_ratio and tv"):
            path(estimator, images, [wrong])
    with pytest.raises(ValueError, match="a setting with tv_ratio needs alpha as well"):
        path(SPCATV(1, alpha=None), images, [{"tv_ratio": 0.1}])
    with pytest.raises(ValueError, match="alpha must not be negative"):
        path(estimator, images, [0.1, -0.1])


def test_settings_close_together_do_not_throw_the_path_off():
    X = np.random.default_rng(0).standard_normal((20, 30))
    fitted = path(SPCATV(1, structure=30, alpha=0.1), X, [0.1, 0.1000001, 0.4])
    cold = SPCATV(1, structure=30, alpha=0.4).fit(X)
    assert fitted.models[-1].diagnostics_[0].objective <= 0.8 * cold.diagnostics_[0].objective


def test_a_path_is_straight_in_any_direction():
    def setting(alpha, l1_ratio, tv_ratio):
        return {"alpha": alpha, "l1_ratio": l1_ratio, "tv_ratio": tv_ratio}

    def warm_start(*settings):
        found = SimpleNamespace(fitted=[object()], start=None)
        return _warm_start(settings[-1], [PathFit(each, found, 0.0) for each in settings[:-1]])

    assert warm_start(
        setting(1, 0.1, 0.2), setting(2, 0.1, 0.2), setting(8, 0.1, 0.2)
    ).ahead == pytest.approx(2)
    assert warm_start(
        setting(1, 0.1, 0.2), setting(1, 0.1, 0.4), setting(1, 0.1, 0.5)
    ).ahead == pytest.approx(0.5)
    assert warm_start(
        setting(1, 0.1, 0.2), setting(2, 0.2, 0.2), setting(4, 0.3, 0.2)
    ).ahead == pytest.approx(1)
    for turn in (
        (setting(1, 0.1, 0.2), setting(2, 0.1, 0.2), setting(2, 0.2, 0.2)),  # around a corner
        (setting(1, 0.1, 0.2), setting(2, 0.1, 0.2), setting(1, 0.1, 0.2)),  # back
        (setting(1, 0.1, 0.2), setting(2, 0.1, 0.2), setting(9, 0.1, 0.2)),  # a longer stride than twice
        (setting(2, 0.1, 0.2), setting(2, 0.1, 0.2), setting(4, 0.1, 0.2)),  # from one place
        (setting(2, 0.1, 0.2), setting(4, 0.1, 0.2)),  # nothing before
    ):
        assert not warm_start(*turn).older


def test_every_model_has_a_source_of_random_numbers_of_its_own(images):
    source = np.random.RandomState(3)
    estimator = SPCATV(1, structure=(20, 20), alpha=0.1, init="random", random_state=source)
    before = source.get_state()[1].copy()
    fitted = path(estimator, images, [0.01, 0.02])
    np.testing.assert_array_equal(source.get_state()[1], before)
    sources = [model.random_state for model in fitted.models]
    assert len({id(each) for each in (*sources, source)}) == 3
