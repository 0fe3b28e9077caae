"""All components at once: uncorrelated scores, certified loadings, no repeated patterns."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from spcatv import SPCATV
from spcatv.data import CentredData, as_data
from spcatv.decomposition import LoadingPenalty, Weights
from spcatv.decomposition.alternation import Limits
from spcatv.decomposition.joint import JointFitter
from spcatv.decomposition.starts import varimax
from spcatv.problem import LoadingProblem
from spcatv.solvers import solve
from spcatv.structure import graph, grid

pytestmark = pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
SHAPE = (12, 10)


@pytest.fixture(scope="module")
def images():
    """Two overlapping factors that are larger than the support asked for, one small factor, and noise."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, *SHAPE))
    for rows, columns, strength in ((slice(0, 8), slice(0, 7), 2.0), (slice(5, 12), slice(3, 10), 1.5)):
        X[:, rows, columns] += strength * rng.standard_normal((40, 1, 1))
    X[:, :3, 7:] += 2.0 * rng.standard_normal((40, 1, 1))
    return X.reshape(40, -1)


@pytest.mark.parametrize("penalty", ["tv", "graphnet"])
def test_both_half_steps_lower_the_objective_for_fixed_weights(images, penalty):
    data = CentredData(as_data(images))
    request = LoadingPenalty(grid(SHAPE), Weights(0.05, 0.3, 0.05), penalty)
    fitter = JointFitter(data, Limits(1e-9, 500), lambda r: r.solver("auto", np.float64), 0)
    fitter.fit([request] * 3)
    steps = np.diff(fitter.objectives)
    assert len(steps) > 10
    assert steps.max() <= 1e-9 * abs(fitter.objectives[-1])
    assert fitter.objectives[-1] < fitter.objectives[0]


@pytest.mark.parametrize(
    "given", [{}, {"alpha": 0.2, "method": "joint"}, {"positive": True}, {"smoothness": 0}]
)
@pytest.mark.parametrize(("dtype", "limit"), [("float64", 1e-6), ("float32", 1e-3)])
def test_training_scores_are_uncorrelated(images, given, dtype, limit):
    model = SPCATV(3, structure=SHAPE, **given)
    scores = model.fit_transform(images.astype(dtype)).astype(np.float64)
    between = np.corrcoef(scores.T)[np.triu_indices(3, 1)]
    assert np.abs(between).max() < limit
    np.testing.assert_allclose(np.linalg.norm(scores, axis=0), model.singular_values_, rtol=1e-4)
    assert model.explained_variance_.tolist() == sorted(model.explained_variance_, reverse=True)
    values = np.linalg.svd(images - images.mean(axis=0), compute_uv=False)
    assert (np.cumsum(model.explained_variance_) * 39 <= np.cumsum(values[:3] ** 2) * (1 + 1e-6)).all()


def test_scores_and_reconstructions_are_linear(images):
    model = SPCATV(3, structure=SHAPE, sparsity=0.8).fit(images)
    scores = model.transform(images)
    np.testing.assert_allclose(model.transform(images[5:6]), scores[5:6])
    V, centred = model.components_, images - model.mean_
    np.testing.assert_allclose(scores, centred @ V.T @ model.mixing_)
    projected = centred @ np.linalg.pinv(V) @ V
    np.testing.assert_allclose(model.inverse_transform(scores) - model.mean_, projected, atol=1e-10)
    np.testing.assert_allclose(model.transform(model.inverse_transform(scores)), scores, atol=1e-10)
    assert model.score(images) == pytest.approx(-np.square(centred - projected).sum() / 40)


def test_patterns_are_the_change_with_one_standard_deviation(images):
    model = SPCATV(3, structure=SHAPE).fit(images)
    scores = model.transform(images)
    by_hand = (images - model.mean_).T @ (scores / scores.std(axis=0, ddof=1)) / 39
    np.testing.assert_allclose(model.patterns_, by_hand.T, atol=1e-9)
    np.testing.assert_allclose(np.square(model.patterns_).sum(axis=1), model.explained_variance_)


@pytest.mark.parametrize(
    "given", [{}, {"sparsity": 0.9}, {"positive": True}, {"alpha": 0.2, "method": "joint"}]
)
def test_every_loading_is_certified_for_its_own_scores(images, given):
    """A second solver finds the same loadings from the scores alone, within the bound."""
    model = SPCATV(3, structure=SHAPE, **given).fit(images)
    scores = model.transform(images) / model.singular_values_
    for k, (loading, record) in enumerate(zip(model.components_, model.diagnostics_, strict=True)):
        l2 = 0.5 if model.alpha is None else model.l2_
        l1 = np.broadcast_to(model.l1_, 3)[k] / l2
        tv = np.broadcast_to(model.tv_, 3)[k] / l2
        y = (images - model.mean_).T @ scores[:, k] / (40 * l2)
        problem = LoadingProblem(y, grid(SHAPE), l1=l1, tv=tv, positive=model.positive)
        exact = solve(problem, "dual", tol=1e-10).v
        if model.alpha is None:  # on its support, without what the l1 norm takes away
            exact = np.where(loading != 0, exact + l2 * l1 * np.sign(loading), 0.0)
        assert record.converged
        assert np.linalg.norm(exact / np.linalg.norm(exact) - loading) <= record.error_bound + 1e-6


def test_without_zeros_and_neighbours_it_spans_the_principal_components(images):
    model = SPCATV(3, sparsity=0.0, tol=1e-12).fit(images)
    _, values, right = np.linalg.svd(images - images.mean(axis=0), full_matrices=False)
    inside = model.components_ @ right[:3].T
    np.testing.assert_allclose(np.linalg.norm(inside, axis=1), 1.0, atol=1e-5)
    assert model.singular_values_ @ model.singular_values_ == pytest.approx(values[:3] @ values[:3])


@pytest.mark.parametrize("n_components", [2, 3])
@pytest.mark.parametrize("sparsity", [0.7, 0.9])
def test_one_factor_is_not_cut_into_pieces(n_components, sparsity):
    rng = np.random.default_rng(0)
    factor = rng.standard_normal(60)
    X = rng.standard_normal((60, 600))
    X[:, :180] += 1.5 * factor[:, None]
    model = SPCATV(n_components, structure=(20, 30), sparsity=sparsity).fit(X)
    assert abs(np.corrcoef(factor, model.transform(X)[:, 0])[0, 1]) > 0.97
    assert model.explained_variance_[1] < 0.2 * model.explained_variance_[0]


def test_the_unit_of_the_data_the_order_of_samples_and_signs_do_not_matter(images):
    model = SPCATV(3, structure=SHAPE).fit(images)
    order = np.random.default_rng(0).permutation(40)
    other = SPCATV(3, structure=SHAPE).fit(-1e3 * images[order])
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-3)
    np.testing.assert_allclose(
        other.transform(-1e3 * images), -1e3 * model.transform(images), rtol=0, atol=30
    )


def test_the_order_of_features_does_not_matter(images):
    line = sp.diags_array([np.ones(119), np.ones(119)], offsets=[-1, 1], shape=(120, 120)).tocsr()
    order = np.random.default_rng(1).permutation(120)
    model = SPCATV(2, structure=graph(line, isotropic=False)).fit(images)
    other = SPCATV(2, structure=graph(line[order][:, order], isotropic=False)).fit(images[:, order])
    np.testing.assert_allclose(other.components_, model.components_[:, order], atol=1e-3)


@pytest.mark.parametrize("kind", ["loadings", "scores"])
def test_a_fit_may_start_from_another_one(images, kind):
    model = SPCATV(2, structure=SHAPE, sparsity=0.6).fit(images)
    init = model.components_ if kind == "loadings" else model.transform(images)
    again = SPCATV(2, structure=SHAPE, sparsity=0.6, init=init).fit(images)
    assert np.abs(np.diag(again.components_ @ model.components_.T)).min() > 0.97
    deflated = SPCATV(2, structure=SHAPE, sparsity=0.6, init=init, method="deflation").fit(images)
    assert deflated.components_.any(axis=1).all()


def test_different_shares_of_zeros_keep_their_order(images):
    model = SPCATV(3, structure=SHAPE, sparsity=(0.5, 0.9, 0.7)).fit(images)
    np.testing.assert_allclose(np.mean(model.components_ == 0, axis=1), (0.5, 0.9, 0.7), atol=0.05)


def test_varimax_undoes_a_rotation():
    rng = np.random.default_rng(0)
    sparse = rng.standard_normal((3, 500)) * (rng.random((3, 500)) < 0.1)
    turn = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    found = varimax(turn @ sparse).T @ turn
    np.testing.assert_allclose(np.sort(np.abs(found).max(axis=1)), 1.0, atol=0.02)


def test_pieces_of_one_factor_are_found_by_the_loadings_that_are_returned():
    # soft-thresholded loadings have scores that correlate .946, below the limit; those returned .99
    rng = np.random.default_rng(1)
    factor, X = rng.standard_normal(60), rng.standard_normal((60, 2000))
    X[:, :600] += factor[:, None]
    with warnings.catch_warnings(action="ignore"):
        model = SPCATV(2, structure=(40, 50), sparsity=0.9).fit(X)
    scores = model.transform(X)
    assert max(abs(np.corrcoef(scores.T, factor)[-1, :-1])) > 0.97
    assert model.explained_variance_[1] < 0.2 * model.explained_variance_[0]


def test_overlapping_patterns_far_above_noise_are_no_pieces_of_one():
    # a level and a trend: raw scores of the two halves of the line correlate above .95, and both are real
    rng = np.random.default_rng(3)
    level, trend = rng.standard_normal((2, 120))
    X = level[:, None] + 0.2 * trend[:, None] * np.linspace(-1, 1, 24) + 0.02 * rng.standard_normal((120, 24))
    model = SPCATV(2, structure=(24,), sparsity=0.5).fit(X)
    raw = X @ model.components_.T
    assert np.corrcoef(raw.T)[0, 1] > 0.95
    assert model.explained_variance_ratio_[1] > 0.4


@pytest.mark.parametrize("sparsity", [0.0, 0.9])
def test_maps_that_smoothing_flattens_are_smoothed_less(sparsity):
    """Noise without its global signal, smoothed until nothing is left."""
    X = np.random.default_rng(3).standard_normal((34, 63))
    model = SPCATV(3, structure=(7, 3, 3), sparsity=sparsity, smoothness=10.0, global_signal="regress").fit(X)
    assert all(record.converged and record.n_nonzero for record in model.diagnostics_)
    assert all(record.smoothness < 10 for record in model.diagnostics_)
