"""Starts are what they say: singular vectors, of X and of X diffused."""

import numpy as np
import pytest
from scipy.linalg import expm

from spcatv import matrix, starts
from spcatv.matrix import CentredMatrix
from spcatv.structure import from_matrix, grid


def _same_direction(a, b):
    return abs(a @ b) / (np.linalg.norm(a) * np.linalg.norm(b))


@pytest.mark.parametrize("shape", [(8, 20), (20, 8)])
def test_singular_scores_are_left_singular_vectors(shape):
    X = np.random.default_rng(0).standard_normal(shape)
    U = np.linalg.svd(X - X.mean(axis=0))[0]
    found = starts.singular_scores(CentredMatrix(X), 3)
    assert found.shape == (3, shape[0])
    for k in range(3):
        assert _same_direction(found[k], U[:, k]) == pytest.approx(1, abs=1e-10)


def test_large_data_are_not_decomposed_whole(monkeypatch):
    X = np.random.default_rng(1).standard_normal((30, 40))
    whole = starts.singular_scores(CentredMatrix(X), 2)
    monkeypatch.setattr(matrix, "SMALL_GRAM", 10)
    few = starts.singular_scores(CentredMatrix(X), 2)
    for k in range(2):
        assert _same_direction(whole[k], few[k]) == pytest.approx(1, abs=1e-8)


def test_directions_without_variance_are_left_out():
    X = np.outer(np.arange(6.0), np.ones(4))
    assert len(starts.singular_scores(CentredMatrix(X), 4)) <= 4
    constant = np.ones((6, 4))
    assert len(starts.singular_scores(CentredMatrix(constant), 2)) == 0


def test_diffused_scores_come_from_the_heat_kernel():
    structure = grid((6, 7))
    X = np.random.default_rng(2).standard_normal((9, 42))
    laplacian = (structure.matrix.T @ structure.matrix).toarray()
    W = expm(-starts.DIFFUSION_TIME / structure.norm_squared() * laplacian)
    U = np.linalg.svd((X - X.mean(axis=0)) @ W)[0]
    found = starts.diffused_scores(CentredMatrix(X), structure, 2)
    for k in range(2):
        assert _same_direction(found[k], U[:, k]) == pytest.approx(1, abs=1e-5)


def test_without_structure_nothing_is_diffused():
    X = np.random.default_rng(3).standard_normal((5, 8))
    plain = starts.singular_scores(CentredMatrix(X), 2)
    np.testing.assert_array_equal(
        starts.diffused_scores(CentredMatrix(X), from_matrix(np.zeros((0, 8))), 2), plain
    )


def test_both_signs():
    scores = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(
        starts.with_both_signs(scores), [scores[0], -scores[0], scores[1], -scores[1]]
    )
