"""Confounds and scale of some samples: the operator against dense arrays, and folds that keep apart."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import SPCATV
from spcatv.data import Adjustment, CentredData, CorrectedData, as_data, checked_adjustment
from spcatv.metrics import match_components
from spcatv.selection import SPCATVCV, cross_validation
from spcatv.stability import REFIT_TOL, bootstrap_components
from spcatv.testing import check_data


def doubled(X):
    """X as adjusted data, without any rounding: halves doubled, and two confounds that cancel each other."""
    rng = np.random.default_rng(0)
    confound = rng.integers(-3, 4, (len(X), 1)).astype(float)
    slope = rng.integers(-3, 4, (1, X.shape[1])).astype(float)
    both = np.hstack([confound, confound])
    return CorrectedData(as_data(X / 2), both, np.vstack([slope, -slope]), np.full(X.shape[1], 2.0))


def test_adjusted_data_pass_the_check():
    check_data(doubled)


@pytest.fixture(scope="module")
def samples():
    """40 samples of 30 features, some in tiny units, with three confounds in very different units."""
    rng = np.random.default_rng(1)
    confounds = rng.standard_normal((40, 3)) * [1.0, 1e4, 1e-5] + [0.0, 70.0, 1.0]
    X = rng.standard_normal((40, 30)) + 3.0
    X[:, 5:15] += 2.0 * rng.standard_normal((40, 1))
    X += (confounds - confounds.mean(axis=0)) / confounds.std(axis=0) @ rng.standard_normal((3, 30))
    X[:, ::3] *= 1e-3
    return X, confounds


def adjusted_by_hand(X, confounds, train):
    """Least squares with an intercept on the training samples, then their standard deviations."""
    design = np.column_stack([np.ones(len(train)), confounds[train] - confounds[train].mean(axis=0)])
    slopes = np.linalg.lstsq(design / design.std(axis=0).clip(1e-9), X[train], rcond=None)[0][1:]
    slopes /= design[:, 1:].std(axis=0)[:, None]
    left = X - (confounds - confounds[train].mean(axis=0)) @ slopes
    return left / left[train].std(axis=0)


TRAIN, TEST = np.arange(0, 40, 2), np.arange(1, 40, 2)


def test_every_operation_agrees_with_a_dense_array(samples):
    X, confounds = samples
    dense = adjusted_by_hand(X, confounds, TRAIN)
    parts = Adjustment(True, confounds).adjusted(as_data(X), TRAIN, TEST)
    rng = np.random.default_rng(0)
    for part, rows in zip(parts, (TRAIN, TEST), strict=True):
        own = dense[rows]
        u, v, V = rng.standard_normal(20), rng.standard_normal(30), rng.standard_normal((2, 30))
        assert_allclose(part.dot(v), own @ v, atol=1e-9)
        assert_allclose(part.transpose_dot(u), own.T @ u, atol=1e-9)
        assert_allclose(part.dot_many(V), own @ V.T, atol=1e-9)
        scores, back = part.there_and_back_many(v[None], np.zeros(30), u[:, None])
        assert_allclose(scores[:, 0], own @ v - u, atol=1e-9)
        assert_allclose(back[0], own.T @ (own @ v - u), atol=1e-8)
        for center in (True, False):
            mean = own.mean(axis=0) if center else np.zeros(30)
            found = part.column_statistics(center)
            assert_allclose(found.mean, mean, atol=1e-9)
            assert_allclose(found.squared_norms, ((own - mean) ** 2).sum(axis=0), rtol=1e-9)
            factor = rng.uniform(0.5, 2.0, 30)
            centred = (own - mean) * factor
            assert_allclose(part.gram(mean), (own - mean) @ (own - mean).T, rtol=1e-8, atol=1e-7)
            assert_allclose(part.gram(mean, factor), centred @ centred.T, rtol=1e-8, atol=1e-7)
        assert_allclose(np.concatenate([block for _, block in part.blocks(60)]), own, atol=1e-9)
        assert_allclose(part.take(np.array([3, 0])).dot(v), own[[3, 0]] @ v, atol=1e-9)
    assert_allclose(parts[0].column_statistics(True).squared_norms, 20.0)


def test_an_adjustment_absorbs_earlier_ones(samples):
    X, confounds = samples
    v = np.random.default_rng(0).standard_normal(30)
    before = adjusted_by_hand(X, confounds, np.arange(40)) + 5.0
    for standardize in (True, False):
        adjustment = Adjustment(standardize, confounds)
        given = before if standardize else before * X.std(axis=0)
        raw = X if standardize else X / adjusted_by_hand_scale(X, confounds) * X.std(axis=0)
        for again, once in zip(
            adjustment.adjusted(as_data(given), TRAIN, TEST),
            adjustment.adjusted(as_data(raw), TRAIN, TEST),
            strict=True,
        ):
            # means stay as they are: centring takes them out
            difference = again.dot(v) - once.dot(v)
            assert_allclose(difference, difference[0], atol=1e-8)


def adjusted_by_hand_scale(X, confounds):
    """What `adjusted_by_hand` divides by, on all samples."""
    centred = (confounds - confounds.mean(axis=0)) / confounds.std(axis=0)
    left = X - X.mean(axis=0)
    return (left - centred @ np.linalg.lstsq(centred, left, rcond=None)[0]).std(axis=0)


def test_nothing_to_do_is_no_wrapper(samples):
    data = as_data(samples[0])
    assert Adjustment().fit(data, TRAIN) is None
    (part,) = Adjustment().adjusted(data, TRAIN)
    assert type(part) is type(data)


def test_a_feature_without_variance_in_the_training_samples_is_left_out(samples):
    X = samples[0].copy()
    X[TRAIN, 4] = 7.0
    train, test = Adjustment(True).adjusted(as_data(X), TRAIN, TEST)
    only = np.eye(30)[4]
    assert_array_equal(train.dot(only), 0)
    assert_array_equal(test.dot(only), 0)
    model = SPCATV(2, alpha=0.1).fit(train)
    assert_array_equal(model.components_[:, 4], 0)
    gram = train.gram(CentredData(train).mean)
    assert np.isfinite(gram).all()


SETTING = {"sparsity": 0.5, "smoothness": 0.0}
FOLDS = [(TRAIN, TEST), (TEST, TRAIN)]


class TestFolds:
    def search(self, **options):
        return SPCATVCV(2, cv=FOLDS, n_jobs=1, **SETTING, **options)

    def test_a_fold_is_adjusted_on_its_training_samples(self, samples):
        X, confounds = samples
        search = self.search(standardize=True).fit(X, confounds=confounds)
        for fold, (train, test) in enumerate(FOLDS):
            dense = adjusted_by_hand(X, confounds, train)
            model = SPCATV(2, alpha=None, **SETTING).fit(dense[train])
            error = np.sqrt(-model.score(dense[test]) * len(test))
            assert search.cv_results_[f"split{fold}_test_error"][0] == pytest.approx(error, rel=1e-5)

    def test_held_out_samples_do_not_reach_the_fit(self, samples, monkeypatch):
        X, confounds = samples
        components = []
        outcome = cross_validation.fold_outcome

        def recorded(fitter, fitted, test):
            components.append(fitted.decomposition.components)
            return outcome(fitter, fitted, test)

        monkeypatch.setattr(cross_validation, "fold_outcome", recorded)
        changed = X.copy()
        changed[TEST] = 100 * np.random.default_rng(0).standard_normal((20, 30)) - 7
        other = confounds.copy()
        other[TEST] += 1000.0
        for table, rows in ((confounds, X), (other, changed)):
            self.search(standardize=True).fit(rows, confounds=table)
        assert_array_equal(components[0], components[2])  # fold 1 trains on the same samples
        assert not np.array_equal(components[1], components[3])

    def test_the_final_model_is_fitted_to_all_samples(self, samples):
        X, confounds = samples
        search = self.search(standardize=True).fit(X, confounds=confounds)
        dense = adjusted_by_hand(X, confounds, np.arange(40))
        model = SPCATV(2, alpha=None, **SETTING).fit(dense)
        assert_allclose(search.components_, model.components_, atol=1e-4)
        assert_allclose(search.transform(X, confounds), model.transform(dense), atol=1e-3)
        assert search.score(X, confounds=confounds) == pytest.approx(model.score(dense), rel=1e-5)
        scale = adjusted_by_hand_scale(X, confounds)
        expected = model.inverse_transform(model.transform(dense)) * scale
        assert_allclose(
            search.inverse_transform(search.transform(X, confounds)) / scale, expected / scale, atol=1e-3
        )
        with pytest.raises(ValueError, match="the 3 columns of the fit"):
            search.transform(X)

    def test_the_alpha_grid(self, samples):
        X, _ = samples
        dense = (X - X.mean(axis=0)) / X.std(axis=0)
        options = {"alpha": "grid", "n_alphas": 2, "l1_ratio": 0.3, "tv_ratio": 0.0, "cv": FOLDS}
        search = SPCATVCV(1, standardize=True, **options).fit(X)
        alone = SPCATVCV(1, **options).fit(dense)
        assert_allclose(search.cv_results_["param_alpha"], alone.cv_results_["param_alpha"], rtol=1e-6)

    def test_confounds_that_explain_a_fold_fully_fail_there(self, samples):
        X, _ = samples
        confounds = np.zeros((40, 19))
        confounds[TRAIN[:19], np.arange(19)] = 1.0
        with pytest.warns(UserWarning, match="fold 1: ValueError: confounds: 19 independent columns"):
            self.search(rule="error").fit(X, confounds=confounds)

    @pytest.mark.parametrize(
        ("options", "confounds", "error", "message"),
        [
            ({"standardize": "yes"}, None, TypeError, "standardize must be True or False"),
            ({}, np.zeros((3, 1)), ValueError, "one row per sample"),
            ({}, np.full((40, 1), np.nan), ValueError, "finite numbers"),
        ],
    )
    def test_wrong_adjustments(self, samples, options, confounds, error, message):
        with pytest.raises(error, match=message):
            self.search(**options).fit(samples[0], confounds=confounds)

    def test_one_column_of_confounds(self):
        assert checked_adjustment(False, [1, 2, 3], 3).confounds.shape == (3, 1)


def test_resamples_are_adjusted_on_their_own(samples):
    X, confounds = samples
    estimator = SPCATV(1, alpha=None, sparsity=0.5, smoothness=0.0)
    result = bootstrap_components(
        estimator, X, n_resamples=2, random_state=3, standardize=True, confounds=confounds
    )
    reference = SPCATV(1, alpha=None, sparsity=0.5, smoothness=0.0).fit(
        adjusted_by_hand(X, confounds, np.arange(40))
    )
    assert_allclose(result.components, reference.components_, atol=1e-4)
    for k, seed in enumerate(np.random.SeedSequence(3).spawn(2)):
        drawn = np.random.default_rng(seed).integers(0, 40, size=40)
        dense = adjusted_by_hand(X, confounds, drawn)[drawn]
        model = SPCATV(1, alpha=None, sparsity=0.5, smoothness=0.0, tol=REFIT_TOL).fit(dense)
        match = match_components(result.components, model.components_)
        assert_allclose(result.cosine[k], match.cosine, atol=1e-4)
