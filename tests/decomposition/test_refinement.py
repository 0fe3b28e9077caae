"""Joint refinement lowers the joint objective, and ends certified."""

from dataclasses import replace

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.data import CentredData, as_data
from spcatv.decomposition import LoadingPenalty, Weights
from spcatv.decomposition.component import null_component
from spcatv.decomposition.refinement import joint_objective
from spcatv.structure import grid


@pytest.fixture
def overlapping():
    """Two components whose blocks overlap: deflation alone does not separate them well."""
    rng = np.random.default_rng(3)
    X = 0.4 * rng.standard_normal((50, 40))
    X[:, 5:20] += 2.0 * rng.standard_normal((50, 1))
    X[:, 15:32] += 1.7 * rng.standard_normal((50, 1))
    return X


def test_the_joint_objective_never_rises(overlapping):
    model = SPCATV(2, structure=grid, alpha=0.3, refine=True, tol=1e-8).fit(overlapping)
    objectives = np.array(model.refinement_.objectives)
    assert len(objectives) >= 2
    assert (np.diff(objectives) <= 1e-12 * np.abs(objectives[0])).all()
    assert objectives[-1] < objectives[0] * (1 - 1e-3)
    assert model.refinement_.converged
    assert all(record.converged for record in model.diagnostics_)


def test_the_joint_objective_is_what_it_says(overlapping):
    rng = np.random.default_rng(0)
    data = CentredData(as_data(overlapping))
    penalty = LoadingPenalty(grid(40), Weights(0.1, 0.7, 0.2))
    U, V = rng.standard_normal((2, 50)), rng.standard_normal((2, 40))
    blocks = [replace(null_component((50, 40)), u=u, v=v) for u, v in zip(U, V, strict=True)]
    X = overlapping - overlapping.mean(axis=0)
    expected = ((X - U.T @ V) ** 2).sum() / 100
    expected += sum(0.1 * np.abs(v).sum() + 0.2 * np.abs(np.diff(v)).sum() for v in V)
    assert joint_objective(data, [penalty, penalty], blocks) == pytest.approx(expected, rel=1e-12)


def test_one_component_is_left_alone(overlapping):
    greedy = SPCATV(1, structure=grid, alpha=0.3, tol=1e-10).fit(overlapping)
    refined = SPCATV(1, structure=grid, alpha=0.3, tol=1e-10, refine=True).fit(overlapping)
    np.testing.assert_allclose(greedy.components_, refined.components_, atol=1e-4)


def test_without_penalties_pca_is_already_the_joint_optimum(overlapping):
    refined = SPCATV(2, alpha=1e-9, refine=True).fit(overlapping)
    X = overlapping - overlapping.mean(axis=0)
    principal = np.linalg.svd(X)[2][:2]
    assert np.abs((refined.components_ * principal).sum(axis=1)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(("alpha", "n_live"), [(0.5, 1), (3.5, 0)])
def test_null_components_stay_null(overlapping, alpha, n_live):
    X = overlapping[:, :6]
    with pytest.warns(UserWarning, match=f"{3 - n_live} of 3 components are dead"):
        model = SPCATV(3, structure=grid, alpha=alpha, refine=True).fit(X)
    assert model.refinement_ is not None
    np.testing.assert_allclose(np.linalg.norm(model.components_[:n_live], axis=1), 1)
    np.testing.assert_array_equal(model.components_[n_live:], 0)
    np.testing.assert_array_equal(model.singular_values_[n_live:], 0)
    np.testing.assert_array_equal(model.explained_variance_ratio_[n_live:], 0)
    np.testing.assert_array_equal(model.transform(X)[:, n_live:], 0)


def test_every_component_may_have_weights_of_its_own(overlapping):
    one = SPCATV(2, structure=grid, alpha=0.3, refine=True, tol=1e-8).fit(overlapping)
    same = SPCATV(2, structure=grid, alpha=[0.3, 0.3], refine=True, tol=1e-8).fit(overlapping)
    np.testing.assert_array_equal(same.components_, one.components_)
    own = SPCATV(2, structure=grid, alpha=[0.3, 0.01], refine=True, tol=1e-8).fit(overlapping)
    assert own.refinement_.converged
    assert own.diagnostics_[1].sparsity < one.diagnostics_[1].sparsity
