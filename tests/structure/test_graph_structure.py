import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spcatv.structure import EdgeStructure, graph, grid
from spcatv.testing import check_structure


def random_adjacency(rng, n, density=0.3):
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < density), k=1)
    return upper + upper.T


def loop_value(adjacency, v, isotropic):
    total = 0.0
    for i in range(len(v)):
        differences = [w * (v[j] - v[i]) for j, w in enumerate(adjacency[i]) if j > i]
        total += np.linalg.norm(differences) if isotropic else np.abs(differences).sum()
    return total


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 25), density=st.floats(0, 1), isotropic=st.booleans(), seed=st.integers(0, 1000))
def test_against_a_loop_over_vertices(n, density, isotropic, seed):
    rng = np.random.default_rng(seed)
    adjacency = random_adjacency(rng, n, density)
    structure = graph(adjacency, isotropic=isotropic)
    v = rng.standard_normal(n)
    np.testing.assert_allclose(structure.value(v), loop_value(adjacency, v, isotropic), atol=1e-12)
    check_structure(structure, random_state=seed)


@pytest.mark.parametrize("exponent", [0, 8])
def test_large_graphs_pass_all_checks(exponent):
    rng = np.random.default_rng(0)
    half = sp.random_array((2000, 2000), density=0.002, rng=rng).tocsr()
    half.data = 10 ** rng.uniform(-exponent, 0, half.nnz)
    check_structure(graph(half + half.T))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000))
def test_anisotropic_value_does_not_depend_on_the_order_of_vertices(seed):
    rng = np.random.default_rng(seed)
    adjacency, v, order = random_adjacency(rng, 12), rng.standard_normal(12), rng.permutation(12)
    permuted = graph(adjacency[np.ix_(order, order)], isotropic=False)
    assert permuted.value(v[order]) == pytest.approx(graph(adjacency, isotropic=False).value(v))


def test_a_path_graph_is_a_chain():
    assert graph(np.eye(6, k=1) + np.eye(6, k=-1)) == grid(6)


def test_kinds_of_adjacency_matrices():
    adjacency = np.array([[1, 1, 0], [1, 5, 1], [0, 1, 0]])
    expected = grid(3)  # the diagonal does not count
    assert graph(adjacency) == graph(adjacency.tolist()) == graph(adjacency > 0) == expected
    for make in (sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix):
        assert graph(make(adjacency)) == graph(make(adjacency != 0)) == expected
    repeated = sp.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    assert graph(repeated) == grid(2)


def test_the_adjacency_matrix_is_not_touched():
    adjacency = sp.coo_array(([1.0, 1.0, 0.0], ([0, 1, 1], [1, 0, 1])), shape=(2, 2)).tocsr()
    structure = graph(adjacency)
    assert adjacency.nnz == 3
    adjacency.data[:] = 9
    assert structure == grid(2)


def test_edge_arrays_are_canonical():
    structure = graph(random_adjacency(np.random.default_rng(2), 9))
    assert structure.tail.dtype == structure.head.dtype == np.int32
    assert (structure.tail < structure.head).all()
    assert (np.diff(structure.tail * 9 + structure.head) > 0).all()
    for array in (structure.tail, structure.head, structure.weight):
        assert not array.flags.writeable


def test_rounding_is_not_asymmetry():
    adjacency = np.full((3, 3), 0.1)
    adjacency[0, 1] += 1e-16
    assert graph(adjacency).n_rows == 3


@pytest.mark.parametrize(
    ("adjacency", "error", "message"),
    [
        (np.ones((2, 3)), ValueError, r"square and not empty, got shape \(2, 3\)"),
        (np.ones(3), ValueError, r"square and not empty, got shape \(3,\)"),
        (np.zeros((0, 0)), ValueError, "square and not empty"),
        ([[0, 1], [2, 0]], ValueError, r"symmetric, but entry \(0, 1\) is 1.0 and entry \(1, 0\) is 2.0"),
        ([[0, -1], [-1, 0]], ValueError, r">= 0; entry \(0, 1\) is -1.0 \(2 such"),
        ([[0, np.nan], [np.nan, 0]], ValueError, r"entry \(0, 1\) is nan"),
        ([["a"]], TypeError, "real numbers"),
    ],
)
def test_errors_name_the_problem(adjacency, error, message):
    with pytest.raises(error, match=message):
        graph(adjacency)


@pytest.mark.parametrize(
    ("tail", "head", "weight", "message"),
    [
        ([0, 1], [1], [1.0, 1.0], "vectors of one length"),
        ([1], [1], [1.0], "0 <= tail < head < 3"),
        ([0], [3], [1.0], "0 <= tail < head < 3"),
        ([0, 0], [2, 1], [1.0, 1.0], "sorted by tail"),
        ([0, 0], [1, 1], [1.0, 1.0], "every pair may occur only once"),
        ([0], [1], [0.0], "positive and finite"),
    ],
)
def test_edges_are_checked(tail, head, weight, message):
    with pytest.raises(ValueError, match=message):
        EdgeStructure(3, np.array(tail), np.array(head), np.array(weight))
