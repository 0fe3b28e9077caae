"""Connected regions against scipy's labels, pairs of neighbours against the rows of the operator."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from spcatv.structure import as_structure, concat, from_matrix, graph, grid, groups, mesh
from spcatv.structure.regions import connected_regions, neighbour_pairs


def as_sets(regions):
    return [set(region.tolist()) for region in regions]


@settings(max_examples=30)
@given(st.integers(0, 1000), st.booleans())
def test_on_an_image_they_are_scipys(seed, isotropic):
    loading = np.random.default_rng(seed).integers(-1, 2, size=(6, 7))
    found = connected_regions(grid((6, 7), isotropic=isotropic), loading.ravel())
    expected = []
    for sign in (1, -1):
        labels, count = ndimage.label(loading == sign)
        expected += [set(np.flatnonzero(labels.ravel() == k + 1).tolist()) for k in range(count)]
    assert sorted(map(sorted, as_sets(found))) == sorted(map(sorted, expected))


def test_heaviest_first_and_signs_apart():
    loading = np.array([1, 1, 0, 3, -2, -2, 0, 1.0])
    found = connected_regions(grid(8), loading)
    assert [region.tolist() for region in found] == [[3], [4, 5], [0, 1], [7]]


def test_other_structures():
    # two triangles with one edge in common, of which one vertex is off
    coords = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], dtype=float)
    triangles = np.array([[0, 1, 2], [1, 3, 2]])
    for scheme in ("edges", "gradient", "fem"):
        found = connected_regions(mesh(coords, triangles, scheme=scheme), [1.0, 1.0, 0.0, 1.0])
        assert as_sets(found) == [{0, 1, 3}]
    weights = np.zeros((4, 4))
    weights[0, 3] = weights[3, 0] = 2
    assert as_sets(connected_regions(graph(weights), np.ones(4))) == [{0, 3}, {1}, {2}]
    assert as_sets(connected_regions(groups([[0, 1], [1, 2]], 4), np.ones(4))) == [{0, 1, 2}, {3}]
    assert as_sets(connected_regions(as_structure(None, 3), np.ones(3))) == [{0}, {1}, {2}]
    assert as_sets(connected_regions(concat([grid(2), grid(2)]), np.ones(4))) == [{0, 1}, {2, 3}]
    assert as_sets(connected_regions(from_matrix([[1.0, 0, -1]]), np.ones(3))) == [{0, 2}, {1}]


def test_nothing_and_wrong_shapes():
    assert connected_regions(grid(4), np.zeros(4)) == []
    with pytest.raises(ValueError, match=r"shape \(4,\), got \(3,\)"):
        connected_regions(grid(4), np.ones(3))


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
