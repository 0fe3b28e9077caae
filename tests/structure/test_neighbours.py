"""Pairs of neighbours are those that rows of the operator subtract from each other."""

import numpy as np
import pytest

from spcatv.structure import concat, from_matrix, graph, grid, groups, mesh
from spcatv.structure.neighbours import neighbour_pairs

LABELS = np.array([[1, 1, 0, 2], [1, 2, 2, 2], [0, 1, 1, 1]])
TRIANGLES = [[0, 1, 2], [1, 3, 2]]
CORNERS = [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]
STRUCTURES = {
    "grid": grid((3, 4)),
    "labels": grid(LABELS),
    "ring": grid((3, 5), periodic=(False, True)),
    "graph": graph(np.ones((5, 5)) - np.eye(5)),
    "mesh": mesh(CORNERS, TRIANGLES),
    "matrix": from_matrix([[-1, 1, 0], [0, -2, 2]]),
    "side by side": concat([grid((2, 3)), groups([[0, 1]], 2), graph([[0, 1], [1, 0]])]),
}


def rows_of(structure):
    """The pairs of features of all rows with two entries."""
    matrix = structure.matrix.toarray()
    return {tuple(np.flatnonzero(row).tolist()) for row in matrix if np.count_nonzero(row) == 2}


def pairs_of(structure, most=1000):
    found = neighbour_pairs(structure, most, np.random.default_rng(0))
    return {kind: [tuple(sorted(pair)) for pair in pairs.tolist()] for kind, pairs in found.items()}


@pytest.mark.parametrize("name", STRUCTURES)
def test_all_pairs_are_those_of_the_operator(name):
    found = [pair for pairs in pairs_of(STRUCTURES[name]).values() for pair in pairs]
    assert set(found) == rows_of(STRUCTURES[name])
    assert len(found) == len(set(found))


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_choice_of_pairs_is_one_of_neighbours(name):
    for pairs in pairs_of(STRUCTURES[name], most=2).values():
        assert len(pairs) <= 2 + (name == "side by side")
        assert set(pairs) <= rows_of(STRUCTURES[name])


def test_the_axes_of_a_grid_are_apart():
    assert pairs_of(grid((2, 3))) == {
        "along axis 0": [(0, 3), (1, 4), (2, 5)],
        "along axis 1": [(0, 1), (1, 2), (3, 4), (4, 5)],
    }


def test_a_group_lasso_has_no_neighbours():
    assert pairs_of(groups([[0, 1, 2], [2, 3]], 4)) == {"": []}


def test_a_sum_of_features_pulls_nothing_together():
    assert pairs_of(from_matrix([[1, 1, 0], [1, -2, 1]])) == {"": [(0, 1)]}
