"""Components of a wanted sparsity: the zeros are there, and the certificate holds for the weights found."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from spcatv import SPCATV
from spcatv.data import CentredData, DeflatedData, as_data
from spcatv.data.leading import singular_scores
from spcatv.decomposition import SparsityTarget
from spcatv.decomposition.alternation import Limits
from spcatv.decomposition.component import Component
from spcatv.decomposition.constrained import alternate_to_sparsity, threshold_at
from spcatv.decomposition.deflation import _lacking_differences, best_component
from spcatv.estimator import SparsityWarning
from spcatv.problem import LoadingProblem
from spcatv.solvers import solve
from spcatv.structure import concat, graph, grid, groups, icosphere, mesh


@pytest.fixture(scope="module")
def images():
    """60 images of 20 x 20 pixels: two smooth bumps with scores of their own, and noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:20, :20]
    first = np.exp(-((y - 6) ** 2 + (x - 6) ** 2) / 20).ravel()
    second = np.exp(-((y - 14) ** 2 + (x - 13) ** 2) / 12).ravel()
    X = 0.5 * rng.standard_normal((60, 400))
    return X + 3 * np.outer(rng.standard_normal(60), first) + 2 * np.outer(rng.standard_normal(60), second)


def ring(n_features):
    neighbours = np.eye(n_features, k=1) + np.eye(n_features, k=-1)
    neighbours[0, -1] = neighbours[-1, 0] = 1
    return graph(neighbours)


def distance(unit, v):
    """Between a unit vector and the direction of another."""
    return np.linalg.norm(unit - v / np.linalg.norm(v))


STRUCTURES = {
    "image": grid((20, 20)),
    "anisotropic": grid((20, 20), isotropic=False),
    "ring": ring(400),
    "two parts": concat([grid((10, 20)), grid((200,))]),
    "groups": groups([range(k, k + 10) for k in range(0, 391, 5)], 400),
    "none": None,
}


@pytest.mark.parametrize("sparsity", [0.3, 0.6, 0.9])
@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
def test_zeros_are_as_asked_and_certified(images, name, sparsity):
    model = SPCATV(2, structure=STRUCTURES[name], method="deflation", sparsity=sparsity).fit(images)
    residual = images - images.mean(axis=0)
    for k, component in enumerate(model.components_):
        record = model.diagnostics_[k]
        assert record.converged
        # regions leave at once, here of a few per cent of the pixels
        slack = 0.01 if name == "none" else 0.08
        assert np.mean(component == 0) == pytest.approx(sparsity, abs=slack)
        u = residual @ component / np.linalg.norm(residual @ component)
        l1, l2, tv = model.l1_[k], model.l2_[k], model.tv_[k]
        y = residual.T @ u / (60 * l2)
        smoothed = solve(LoadingProblem(y, model.structure_, tv=tv / l2), tol=1e-10).v
        exact = smoothed - np.clip(smoothed, -l1, l1)
        assert distance(component, exact) <= record.error_bound + 1e-4
        if name in ("anisotropic", "ring", "none"):
            # where every difference has a group of its own, this is the minimiser for both penalties
            joint = solve(LoadingProblem(y, model.structure_, l1=l1 / l2, tv=tv / l2), tol=1e-10).v
            assert distance(component, joint) <= record.error_bound + 1e-4
        residual = residual - np.outer(residual @ component, component)


def test_a_share_of_its_own_for_every_component(images):
    model = SPCATV(2, structure=(20, 20), method="deflation", sparsity=[0.9, 0.5]).fit(images)
    np.testing.assert_allclose(np.mean(model.components_ == 0, axis=1), [0.9, 0.5], atol=0.01)
    assert model.l1_.shape == model.l2_.shape == model.tv_.shape == (2,)


def test_without_smoothness_it_is_the_thresholded_map(images):
    """A fixed point of u -> r = X'u/N, v = S(r, l) with l the order statistic of |r|."""
    model = SPCATV(1, structure=(20, 20), method="deflation", sparsity=0.8, smoothness=0.0, tol=1e-12).fit(
        images
    )
    X = images - images.mean(axis=0)
    component = model.components_[0]
    r = X.T @ (X @ component / np.linalg.norm(X @ component)) / 60
    threshold = np.sort(np.abs(r))[319]
    v = np.sign(r) * np.maximum(np.abs(r) - threshold, 0)
    assert abs(v @ component) / np.linalg.norm(v) == pytest.approx(1, abs=1e-3)


def test_smoothness_is_in_units_of_the_contrast(images):
    model = SPCATV(1, structure=(20, 20), method="deflation", smoothness=0.7).fit(images)
    X = images - images.mean(axis=0)
    scores = X @ model.components_[0]
    contrast = np.std(X.T @ scores / np.linalg.norm(scores) / 60)
    assert model.tv_[0] == pytest.approx(0.7 * contrast, rel=0.01)


def test_scaling_the_data_changes_nothing_but_the_weights(images):
    one = SPCATV(2, structure=(20, 20), method="deflation", tol=1e-9).fit(images)
    other = SPCATV(2, structure=(20, 20), method="deflation", tol=1e-9).fit(100 * images)
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-3)
    np.testing.assert_allclose(100 * one.tv_, other.tv_, rtol=1e-3)


def test_a_global_map_has_the_zeros_too():
    """A component that covers everything nearly equally, which no fixed l1 weight makes half empty."""
    rng = np.random.default_rng(1)
    y, x = np.mgrid[:16, :16]
    strength = (1 + 0.1 * np.sin(y / 3) + 0.1 * np.cos(x / 4)).ravel()
    X = np.outer(rng.standard_normal(50), strength) + 0.2 * rng.standard_normal((50, 256))
    model = SPCATV(1, structure=(16, 16), method="deflation", sparsity=0.7).fit(X)
    assert np.mean(model.components_ == 0) == pytest.approx(0.7, abs=0.02)
    kept = strength[model.components_[0] != 0]
    assert kept.min() > np.median(strength)


@pytest.mark.parametrize(
    "options",
    [{"positive": True}, {"penalty": "graphnet"}, {"n_init": 3}, {"init": "structured"}],
)
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.no_cover), "float64"])
@pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
def test_all_that_the_penalised_model_can(images, options, dtype):
    model = SPCATV(2, structure=(20, 20), method="deflation", **options).fit(images.astype(dtype))
    assert all(record.converged for record in model.diagnostics_)
    assert model.components_.any(axis=1).all()
    np.testing.assert_allclose(np.mean(model.components_ == 0, axis=1), 0.7, atol=0.03)
    if options.get("positive"):
        assert (model.components_ >= 0).all()


def test_on_a_mesh():
    coords, triangles = icosphere(3)
    rng = np.random.default_rng(2)
    X = 0.5 * rng.standard_normal((30, len(coords)))
    X += 2 * np.outer(rng.standard_normal(30), np.maximum(coords[:, 2], 0) ** 2)
    model = SPCATV(1, structure=mesh(coords, triangles), method="deflation", sparsity=0.8).fit(X)
    assert np.mean(model.components_ == 0) == pytest.approx(0.8, abs=0.02)
    assert coords[model.components_[0] != 0, 2].min() > 0


def test_no_component_is_empty_while_there_is_variance(images):
    model = SPCATV(10, structure=(20, 20), method="deflation", sparsity=0.95).fit(images)
    assert model.components_.any(axis=1).all()


def test_nothing_left_is_reported():
    X = np.zeros((10, 40))
    X[:, 0] = np.random.default_rng(0).standard_normal(10)
    empty = r"1 of 2 components are empty \(number 2\).*Lower n_components"
    with pytest.warns(SparsityWarning, match="97.5% instead of 0.0%"), pytest.warns(UserWarning, match=empty):
        model = SPCATV(2, method="deflation", sparsity=0.0).fit(X)
    assert model.components_.any(axis=1).tolist() == [True, False]


def test_a_target_in_a_jump_is_the_closest_share_and_reported():
    """Two equal plateaus: the share of zeros is 0.5 or so, or 0.75, and nothing in between."""
    rng = np.random.default_rng(3)
    X = 0.01 * rng.standard_normal((40, 80))
    X[:, :20] += rng.standard_normal((40, 1))
    X[:, 40:60] += 0.8 * X[:, :1] + 0.01 * rng.standard_normal((40, 1))
    with pytest.warns(SparsityWarning, match=r"component 1: .* instead of 65\.0%.*smoothness"):
        model = SPCATV(1, structure=(80,), method="deflation", sparsity=0.65, smoothness=0.5).fit(X)
    assert 0.45 <= model.diagnostics_[0].sparsity <= 0.8


def test_alternating_from_the_solution_stays(images):
    data = CentredData(as_data(images))
    target = SparsityTarget(grid((20, 20)), 0.7, 1.0)
    solver = target.solver("auto", np.float64)
    first = alternate_to_sparsity(data, target, singular_scores(data, 1)[0], Limits(1e-8, 200), solver=solver)
    again = alternate_to_sparsity(data, target, first.u, Limits(1e-8, 200), solver=solver)
    assert isinstance(again, Component)
    assert again.n_alternations <= 3
    overlap = again.v @ first.v / np.linalg.norm(again.v) / np.linalg.norm(first.v)
    assert overlap == pytest.approx(1, abs=1e-3)
    deflated = DeflatedData(data, np.zeros((0, 60)), np.zeros((0, 400)))
    assert alternate_to_sparsity(deflated, target, first.u, Limits(1e-8, 200), solver=solver).converged


@pytest.mark.parametrize(
    ("strength", "penalty"),
    [(1.2, "tv"), (1.2, "graphnet"), (0.8, "tv")],
    ids=["inside", "quadratic", "corner"],
)
def test_a_corner_is_no_reason_to_win(strength, penalty):
    # a square in a corner pays for half of its outline only, which outweighs 20 % more variance inside
    rng = np.random.default_rng(0)
    squares = np.zeros((2, 12, 12))
    squares[0, :4, :4] = 1
    squares[1, 4:8, 4:8] = np.sqrt(strength)
    scores = np.linalg.qr(rng.standard_normal((20, 2)))[0].T
    X = scores.T @ squares.reshape(2, -1) + 0.02 * rng.standard_normal((20, 144))
    target = SparsityTarget(grid((12, 12)), 1 - 16 / 144, 1.0 if penalty == "tv" else 0.1, penalty=penalty)
    data, limits = CentredData(as_data(X), center=False), Limits(1e-6, 200)
    solver = target.solver("auto", np.float64)
    found = best_component(data, target, list(scores), limits, solver=solver)
    share_inside = np.abs(found.v.reshape(12, 12)[4:8, 4:8]).sum() / np.abs(found.v).sum()
    assert share_inside == pytest.approx(float(strength > 1), abs=0.01)


def test_who_lacks_neighbours():
    lacking = _lacking_differences(grid((8, 9))).reshape(8, 9)
    assert lacking[1:-1, 1:-1].max() == 0
    assert (lacking[0, 1:-1] == 1).all()
    assert lacking[0, 0] == lacking[-1, -1] == 2
    np.testing.assert_array_equal(
        _lacking_differences(concat([grid(6), groups([[0, 1]], 2)])), [1, 0, 0, 0, 0, 1, 0, 0]
    )
    for structure in (grid(6, periodic=True), ring(6), groups([[0, 1, 2], [2]], 4), grid(1)):
        assert not _lacking_differences(structure).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": None, "sparsity": 1.0}, "at least 0 and below 1"),
        ({"alpha": None, "sparsity": -0.1}, "at least 0 and below 1"),
        ({"alpha": None, "sparsity": [0.5, 0.5, 0.5]}, "one for each of the 2 components"),
        ({"alpha": None, "sparsity": 0.999}, r"leaves no feature .*n_features=400.* at most 0\.998"),
        ({"alpha": None, "smoothness": -1.0}, "smoothness must not be negative"),
        ({"alpha": 0.1, "sparsity": 0.9}, "either alpha, or sparsity and smoothness"),
        ({"alpha": 0.1, "smoothness": 2.0}, "either alpha, or sparsity and smoothness"),
    ],
)
def test_wrong_requests_are_refused(images, parameters, message):
    with pytest.raises(ValueError, match=message):
        SPCATV(2, **parameters).fit(images)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.no_cover) for seed in range(1, 4))]
)
@pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
def test_maps_that_smoothing_flattens_settle(seed):
    """Noise without its global signal, smoothed until nothing is left: the smoothness is lowered."""
    X = np.random.default_rng(seed).standard_normal((34, 63))
    options = {"smoothness": 10.0, "global_signal": "regress"}
    for sparsity in (0.0, 0.9):
        model = SPCATV(3, structure=(7, 3, 3), sparsity=sparsity, method="deflation", **options).fit(X)
        assert all(record.converged and record.n_nonzero for record in model.diagnostics_)
        assert all(record.smoothness < 10 for record in model.diagnostics_)


def _patch_in_noise():
    """White noise on a sphere, and a patch of 5 % of it with scores of its own."""
    coords, triangles = icosphere(4)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, len(coords)))
    X[:, coords[:, 2] > 0.9] += 3 * rng.standard_normal((30, 1))
    return X, mesh(coords, triangles)


def _of_patch(sparsity, dtype=np.float64):
    X, structure = _patch_in_noise()
    target = SparsityTarget(structure, sparsity, 1.0)
    data = CentredData(as_data(X))
    solver = target.solver("auto", dtype)
    found = alternate_to_sparsity(data, target, singular_scores(data, 1)[0], Limits(1e-6, 100), solver=solver)
    assert found.converged
    return found, target, found.back / len(X)


@pytest.mark.parametrize("sparsity", [0.5, 0.7])
def test_a_flat_map_gets_the_largest_smoothness_that_leaves_the_zeros(sparsity):
    """The support asked for is larger than the patch, and the noise is smoothed flat."""
    found, target, r = _of_patch(sparsity)
    assert np.mean(found.v == 0) == pytest.approx(sparsity, abs=0.01)
    for steps, is_off in ((-1, True), (0, False)):
        smoothness = found.smoothness * 0.7**steps
        problem = target.smoothing(r, smoothness, target.unit(r))
        solution = solve(problem, tol=1e-6)
        noise = np.sqrt(1e-6 * problem.scale() / r.size)
        assert threshold_at(target.n_zeros, solution.v, noise).is_off == is_off
    # 3,030 where the flattest maps are solved first
    assert found.n_inner_iter < 1000


@pytest.mark.no_cover
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_error_bound_holds_for_the_reported_weights():
    """Smooth the map of the scores to 1e-9 and threshold it at the l1 that is reported, 200 times."""
    far = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        shape = ((40,), (6, 7), (3, 4, 4))[seed % 3]
        n_samples, n_features = int(rng.integers(8, 25)), int(np.prod(shape))
        n_in_block = int(rng.integers(2, n_features // 3))
        X = rng.standard_normal((n_samples, n_features))
        X[:, :n_in_block] += rng.uniform(1, 4) * rng.standard_normal((n_samples, 1))
        sparsity = max(1 - n_in_block * rng.uniform(1, 1.6) / n_features, 0.1)
        smoothness, positive = rng.uniform(0.5, 2), bool(rng.integers(2))
        model = SPCATV(
            1,
            structure=shape,
            sparsity=sparsity,
            smoothness=smoothness,
            positive=positive,
            method="deflation",
        ).fit(X)
        [record], [component] = model.diagnostics_, model.components_
        X -= X.mean(axis=0)
        y = X.T @ X @ component / np.linalg.norm(X @ component) / (n_samples * model.l2_[0])
        tv = model.tv_[0] / model.l2_[0]
        solution = solve(LoadingProblem(y, model.structure_, tv=tv, positive=positive), tol=1e-9)
        exact = solution.v - np.clip(solution.v, -model.l1_[0], model.l1_[0])
        slack = 2 * solution.error_bound / np.linalg.norm(exact)
        far += [seed] if distance(component, exact) > record.error_bound + slack else []
    assert far == []


def _rise_together():
    """Features whose map is nearly all what they share; what decides is its contrast, far below that."""
    rng = np.random.default_rng(0)
    blocks = 0.05 * rng.standard_normal((80, 6)).repeat(10, axis=1)
    X = np.linspace(-1, 1, 80)[:, None] + blocks + 0.02 * rng.standard_normal((80, 60))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def test_features_that_rise_and_fall_together_have_zeros_as_asked():
    model = SPCATV(1, structure=(60,), sparsity=0.5, method="deflation").fit(_rise_together())
    assert np.mean(model.components_ == 0) == 0.5
    assert model.diagnostics_[0].smoothness == 1.0


def test_converged_is_the_stopping_rule():
    """Alternations end early exactly where a fit has converged."""
    X = _rise_together()
    for max_iter in (1, 2, 200):
        model = SPCATV(1, structure=(60,), sparsity=0.5, method="deflation", max_iter=max_iter)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            [record] = model.fit(X).diagnostics_
        assert record.converged == (max_iter == 200) == (record.n_alternations < max_iter)
        assert record.converged == (record.relative_gap <= model.tol)
        assert record.converged != any(issubclass(w.category, ConvergenceWarning) for w in caught)
