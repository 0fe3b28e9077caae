import numpy as np
import pytest
import scipy.sparse as sp

from spcatv.structure import as_structure, graph, grid, icosphere, mesh


def test_everything_that_is_accepted():
    structure = grid((3, 4))
    assert as_structure(structure) is structure
    assert as_structure((3, 4)) == as_structure([3, 4], n_features=12) == structure
    assert as_structure(7) == as_structure(np.int64(7)) == grid(7)
    mask = np.array([[True, False, True], [True, True, True]])
    assert as_structure(mask) == as_structure(mask.astype(np.uint8)) == grid(mask)
    assert as_structure(np.array([3, 4])) == grid(np.array([3, 4]))
    adjacency = np.ones((3, 3))
    assert as_structure(sp.csr_array(adjacency)) == as_structure(sp.coo_matrix(adjacency)) == graph(adjacency)
    coords, triangles = icosphere(0)
    assert as_structure((coords, triangles)) == mesh(coords, triangles)
    assert as_structure([coords.tolist(), triangles.tolist()]) == mesh(coords, triangles)


def test_none_has_no_groups():
    structure = as_structure(None, n_features=5)
    assert (structure.n_features, structure.n_groups, structure.n_rows) == (5, 0, 0)
    assert structure.value(np.arange(5)) == 0
    assert structure.norm_squared() == 0
    assert structure.adjoint(np.zeros(0)).shape == (5,)


def test_a_function_is_called_with_the_number_of_features():
    assert as_structure(grid, n_features=8) == grid(8)
    assert as_structure(lambda n: (2, n // 2), n_features=8) == grid((2, 4))
    assert as_structure(lambda n: None, n_features=8).n_features == 8


@pytest.mark.parametrize("x", [grid(100), 100, (10, 10), lambda n: grid(100)])
def test_a_wrong_number_of_features_names_both(x):
    with pytest.raises(ValueError, match="the structure has 100 features but X has 90 columns"):
        as_structure(x, n_features=90)


@pytest.mark.parametrize("x", [None, grid])
def test_the_number_of_features_may_be_needed(x):
    with pytest.raises(ValueError, match=r"n_features.* must be given"):
        as_structure(x)


@pytest.mark.parametrize("x", ["grid", 2.5, {"a": 1}, (1.5, 2), ()])
def test_anything_else_is_refused_with_the_choices(x):
    with pytest.raises(
        TypeError, match=rf"cannot make a structure of {type(x).__name__}.*label mask.*adjacency"
    ):
        as_structure(x)
