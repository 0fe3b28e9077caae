"""Components of a wanted sparsity, the default: bad input, kinds of data and structures."""

import warnings

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.estimator import ComponentCountWarning, EmptyComponentWarning, SparsityWarning
from spcatv.structure import concat, graph, grid, groups, icosphere, mesh

N_FEATURES = 42  # those of icosphere(1)
LINE = np.eye(N_FEATURES, k=1) + np.eye(N_FEATURES, k=-1)
STRUCTURES = {
    "none": None,
    "grid": grid((6, 7)),
    "parts": concat([grid((3, 4)), grid(20), grid((2, 5))]),
    "mesh": mesh(*icosphere(1)),
    "graph": graph(LINE),
    "groups": groups([range(10), range(8, 20), range(25, 42)], N_FEATURES),
}


def blocks(n_samples=30, seed=0):
    """Two blocks of features with scores of their own, and noise."""
    rng = np.random.default_rng(seed)
    X = 0.3 * rng.standard_normal((n_samples, N_FEATURES))
    X[:, 3:12] += 2.0 * rng.standard_normal((n_samples, 1))
    X[:, 28:40] -= 1.5 * rng.standard_normal((n_samples, 1))
    return X


def assert_live_and_certified(model):
    for component, record in zip(model.components_, model.diagnostics_, strict=True):
        assert np.linalg.norm(component) == pytest.approx(1, rel=1e-4)
        assert record.converged
        assert record.n_nonzero == np.count_nonzero(component)


@pytest.mark.filterwarnings("ignore::spcatv.estimator.SparsityWarning")
@pytest.mark.no_cover
@pytest.mark.parametrize("name", STRUCTURES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"penalty": "graphnet"},
        {"positive": True},
        {"dtype": "float32", "tol": 1e-5},
        {"method": "deflation"},
        {"method": "deflation", "n_init": 3},
        {"init": "structured"},
        {"init": np.ones((3, N_FEATURES))},
    ],
    ids=str,
)
def test_every_component_is_live_and_sparse(name, options):
    model = SPCATV(3, structure=STRUCTURES[name], sparsity=(0.6, 0.5, 0.7), **options).fit(blocks())
    assert_live_and_certified(model)
    if options.get("positive"):
        assert (model.components_ >= 0).all()
    for record, wanted in zip(model.diagnostics_, (0.6, 0.5, 0.7), strict=True):
        assert record.target_sparsity == wanted
        assert 0 < record.smoothness <= 1.0
        if name in ("none", "grid", "mesh"):
            off = record.sparsity - wanted  # non-negative maps may have more zeros by themselves
            assert -off <= max(record.jump, 1.5 / N_FEATURES)
            assert options.get("positive") or off <= max(record.jump, 1.5 / N_FEATURES)
    weights = [(record.l1, record.tv) for record in model.diagnostics_]
    np.testing.assert_array_equal(weights, np.transpose([model.l1_, model.tv_]))


@pytest.mark.parametrize("structure", [None, (20,)])
def test_no_component_is_zero_while_variance_is_left(structure):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((25, 2)) @ rng.standard_normal((2, 20))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SPCATV(5, structure=structure).fit(X)
    left = 1 - np.cumsum(model.explained_variance_ratio_)
    live = model.components_.any(axis=1)
    assert live[np.concatenate([[True], left[:-1] > 1e-6])].all()


def test_a_flat_region_is_distinguished_from_zero():
    """Any weight below that at which it dies leaves the same support: not one just below it."""
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((10, 5, 4, 3))
    X[:, 1:4, 1:3] += 3 * rng.standard_normal((10, 1, 1, 1))
    model = SPCATV(1, structure=(5, 4, 3), dtype="float32").fit(X.reshape(10, -1))
    assert model.diagnostics_[0].n_certain == model.diagnostics_[0].n_nonzero == 18
    assert model.diagnostics_[0].error_bound < 0.1


@pytest.mark.parametrize(
    ("n_features", "sparsity", "allowed"),
    [
        (1, 0.5, True),
        (1, 0.51, False),
        (2, 0.75, True),
        (5, 0.9, True),
        (5, 0.91, False),
        (2000, 0.9997, True),
    ],
)
def test_a_sparsity_must_leave_half_a_feature(n_features, sparsity, allowed):
    X = np.random.default_rng(0).standard_normal((9, n_features))
    model = SPCATV(1, sparsity=sparsity)
    if allowed:
        assert model.fit(X).diagnostics_[0].n_nonzero >= 1
    else:
        with pytest.raises(
            ValueError, match=rf"leaves no feature .*n_features={n_features}\); ask for at most "
        ):
            model.fit(X)


@pytest.mark.parametrize("n_features", [1, 3, 7, 400, 63_982])
def test_the_sparsity_that_a_message_names_is_accepted(n_features):
    from spcatv.estimator._validation import check_some_left

    with pytest.raises(ValueError, match="at most") as caught:
        check_some_left(np.array([1 - 0.4 / n_features]), n_features)
    largest = float(str(caught.value).rpartition(" ")[2])
    check_some_left(np.array([largest]), n_features)
    assert largest < 1
    assert (1 - largest) * n_features < 1


def test_bad_input_is_refused_before_x_is_looked_at():
    for parameters, message in (
        ({"sparsity": 1.0}, "at least 0 and below 1"),
        ({"sparsity": -0.1}, "at least 0 and below 1"),
        ({"sparsity": np.nan}, "sparsity must be a finite number"),
        ({"sparsity": "high"}, "sparsity must be a finite number"),
        ({"sparsity": None}, "sparsity must be a finite number"),
        ({"sparsity": [0.5, 0.5]}, "one for each of the 3 components"),
        ({"sparsity": [[0.5, 0.5, 0.5]]}, "one for each of the 3 components"),
        ({"smoothness": np.inf}, "smoothness must be a finite number"),
        ({"smoothness": [1.0, 1.0, 1.0]}, "smoothness must be a finite number"),
        ({"alpha": 0.1, "sparsity": 0.9}, "either alpha, or sparsity and smoothness"),
        ({"alpha": 0.1, "sparsity": [0.7, 0.7, 0.7]}, "either alpha, or sparsity and smoothness"),
        ({"alpha": 0.1, "smoothness": 0.5}, "either alpha, or sparsity and smoothness"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            SPCATV(3, **parameters).fit("never read")


@pytest.mark.parametrize("structure", [None, (30,)])
@pytest.mark.parametrize("sparsity", [0.1, 0.3, 0.5])
def test_units_of_the_features_do_not_change_the_zeros(structure, sparsity):
    """Without smoothing the map is exact: small entries are no plateau, even beside very large ones."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 30)) * 10.0 ** rng.integers(-4, 5, 30)
    model = SPCATV(2, structure=structure, sparsity=sparsity, smoothness=0.0 if structure else 1.0).fit(X)
    assert [record.sparsity for record in model.diagnostics_] == pytest.approx([sparsity] * 2, abs=1e-9)
    assert_live_and_certified(model)


def test_a_flat_map_does_not_fall_on_features_that_do_not_vary():
    rng = np.random.default_rng(0)
    X = np.hstack([np.ones((30, 30)), rng.standard_normal((30, 20))])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SparsityWarning)
        for seed in range(3):
            X[:, 30:] = np.random.default_rng(seed).standard_normal((30, 20))
            model = SPCATV(3, structure=(50,), smoothness=10.0).fit(X)
            assert_live_and_certified(model)
            assert model.components_[:, 30:].any(axis=1).all()
        # two samples, three features: more components than the rank
        X = np.random.default_rng(48).standard_normal((2, 3))
        with (
            pytest.warns(ComponentCountWarning, match="1 component can explain"),
            pytest.warns(EmptyComponentWarning),
        ):
            assert SPCATV(3, structure=(3,)).fit(X).components_.any(axis=1).tolist() == [True, False, False]
