"""Connected regions against scipy's labels and small cases by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from spcatv.structure import as_structure, concat, from_matrix, graph, grid, groups, mesh
from spcatv.structure.regions import connected_regions


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
