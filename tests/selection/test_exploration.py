"""Every setting of a grid on all samples and on random halves: the same fits as elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from spcatv import SPCATV, SPCATVCV
from spcatv.metrics import cumulative_explained_variance, dice, match_components
from spcatv.selection.cross_validation import explore_settings
from spcatv.structure.regions import connected_regions

SPARSITY, SMOOTHNESS = (0.6, 0.85), (0.5, 2.0)


def signals(n_samples=30, seed=0):
    """Two bumps of a line of 60 points, and noise."""
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.standard_normal((n_samples, 60))
    X[:, 10:18] += 3 * rng.standard_normal((n_samples, 1))
    X[:, 40:46] += 2 * rng.standard_normal((n_samples, 1))
    return X


@pytest.fixture(scope="module")
def explored():
    X = signals()
    search = SPCATVCV(2, structure=(60,), sparsity=SPARSITY, smoothness=SMOOTHNESS, cv=3).fit(X)
    return X, search, explore_settings(search, X, n_splits=2, random_state=4)


def test_maps_and_shares_are_those_of_a_fit(explored):
    X, _, found = explored
    assert [tuple(setting.values()) for setting in found.settings] == [
        (s, m) for m in SMOOTHNESS for s in SPARSITY
    ]
    for k, setting in enumerate(found.settings):
        model = SPCATV(2, structure=(60,), **setting).fit(X)
        maps = model.components_[found.order[k]]
        sign = np.sign(np.einsum("kp,kp->k", maps, found.components[k]))
        assert_allclose(found.components[k], sign[:, None] * maps, atol=1e-7)
        assert_allclose(found.variance[k], model.explained_variance_ratio_[found.order[k]], rtol=1e-6)
        assert_allclose(found.explained[k], cumulative_explained_variance(X, maps)[-1], rtol=1e-6)
        counts = [len(connected_regions(model.structure_, one)) for one in maps]
        assert_array_equal(found.n_regions[k], counts)


def test_the_recommendation_is_that_of_the_search(explored):
    _, search, found = explored
    assert found.settings[found.recommended] == search.best_params_
    assert found.reason == search.choice_reason_
    assert sorted(found.held_out) == sorted(search.cv_results_["mean_test_explained"])
    assert found.held_out[found.recommended] == search.cv_results_["mean_test_explained"][search.best_index_]


def test_components_are_matched_to_those_of_the_recommended_setting(explored):
    _, _, found = explored
    reference = found.components[found.recommended]
    for components, cosines in zip(found.components, found.similarity, strict=True):
        match = match_components(reference, components)
        assert_array_equal(match.order, [0, 1])
        assert (match.sign == 1).all()
        assert_allclose(cosines, match.cosine, atol=1e-6)


def test_agreement_is_that_of_fits_to_random_halves(explored):
    X, _, found = explored
    splits = list(ShuffleSplit(2, test_size=0.5, random_state=4).split(X))
    for k, setting in enumerate(found.settings):
        indices = []
        for halves in splits:
            model = SPCATV(2, structure=(60,), tol=1e-4, **setting)
            fits = [model.fit(X[half]).components_.copy() for half in halves]
            pair = [fit[match_components(found.components[k], fit).order] for fit in fits]
            indices.append(dice(*pair, norm_fraction=0.99, corrected=True))
        assert_allclose(found.agreement[k], np.mean(indices, axis=0), atol=1e-6)


def test_groups_stay_in_one_half(monkeypatch):
    from spcatv.selection import cross_validation

    X, groups = signals(), np.repeat(np.arange(15), 2)
    search = SPCATVCV(1, structure=(60,), sparsity=0.8, smoothness=1.0, cv=3, n_jobs=1)
    search.fit(X, groups=groups)
    seen = []
    fit_chain = cross_validation.fit_chain

    def recorded(*args):
        seen.append(args[4])
        return fit_chain(*args)

    monkeypatch.setattr(cross_validation, "fit_chain", recorded)
    explore_settings(search, X, n_splits=2, random_state=1)
    wanted = list(GroupShuffleSplit(2, test_size=0.5, random_state=1).split(X, groups=groups))
    assert len(seen) == 5, "all samples first"
    for (one, other), first, second in zip(wanted, seen[1::2], seen[2::2], strict=True):
        assert not set(groups[one]) & set(groups[other])
        assert_array_equal(first.train, one)
        assert_array_equal(second.train, other)


def test_features_without_neighbours_have_no_regions():
    X = signals()
    search = SPCATVCV(1, sparsity=0.8, smoothness=0.0, cv=2).fit(X)
    assert explore_settings(search, X, n_splits=1).n_regions is None


def test_confounds_and_scale_count():
    X, age = signals(), np.linspace(0, 1, 30)[:, None]
    X = X * np.linspace(1, 3, 60) + 50 * age
    search = SPCATVCV(1, structure=(60,), sparsity=0.8, smoothness=1.0, cv=3, standardize=True)
    found = explore_settings(search.fit(X, confounds=age), X, confounds=age, n_splits=1)
    best = search.best_estimator_.components_
    assert_allclose(np.abs(found.components[0] @ best[0]), 1, atol=1e-6)


def test_the_penalised_model_is_refused():
    search = SPCATVCV(1, structure=(60,), alpha=[0.1], l1_ratio=0.25, tv_ratio=0.25, cv=2).fit(signals())
    with pytest.raises(ValueError, match="alpha"):
        explore_settings(search, signals())


def test_a_checkpoint_resumes_to_the_same_numbers(explored, tmp_path, monkeypatch):
    from spcatv.selection import checkpointing
    from spcatv.selection.path import PathFitter

    X, search, found = explored
    with checkpointing(tmp_path / "kept"):
        explore_settings(search, X, n_splits=2, random_state=4)
    monkeypatch.delattr(PathFitter, "fit")  # nothing is fitted again
    with checkpointing(tmp_path / "kept"):
        resumed = explore_settings(search, X, n_splits=2, random_state=4)
    assert_array_equal(resumed.components, found.components)
    assert_array_equal(resumed.agreement, found.agreement)
