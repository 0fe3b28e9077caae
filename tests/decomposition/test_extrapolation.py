"""Extrapolated scores reach the fixed point of an alternation that creeps or oscillates."""

import numpy as np
import pytest

from spcatv.decomposition.extrapolation import Extrapolation


def _moved(x, shrinking):
    """One alternation with the fixed point ``(1, 0, 0)``, each other direction with its own pace."""
    moved = np.array([1.0, *(shrinking * x[1:])])
    return moved / np.linalg.norm(moved)


@pytest.mark.parametrize("pace", [0.95, -0.95])
@pytest.mark.parametrize("n_components", [1, 2])
def test_scores_are_extrapolated_to_where_their_moves_point(pace, n_components):
    """Moves that hardly shrink, and moves back and forth: 300 alternations without going ahead or back."""
    shrinking = np.array([pace, 0.3 * pace])
    x = np.array([0.9, 0.3, 0.3])
    x /= np.linalg.norm(x)

    def columns(scores):  # the second component is the same in other samples
        return np.kron(np.eye(n_components), scores[:, None])

    ahead = Extrapolation(columns(x))
    for _ in range(30):
        u = _moved(x, shrinking)
        # of this data, u is its own map
        x = ahead.next_maps(columns(u), columns(u).T, float(np.linalg.norm(u - x)))[0, :3]
    assert np.linalg.norm(x[1:]) < 1e-6


def test_opposite_scores_are_not_averaged_to_nothing():
    u = np.array([[1.0], [0.0]])
    ahead = Extrapolation(-u)
    for scores in (u, -u, u):
        np.testing.assert_array_equal(ahead.next_maps(scores, scores.T, 1.0), scores.T)


def test_scores_of_fewer_components_begin_anew():
    rng = np.random.default_rng(0)
    two, one = (np.linalg.qr(rng.standard_normal((5, n)))[0] for n in (2, 1))
    ahead = Extrapolation(two)
    assert ahead.next_maps(one, one.T, 1.0) is not None
    np.testing.assert_array_equal(ahead.next_maps(one, one.T, 1.0), one.T)
