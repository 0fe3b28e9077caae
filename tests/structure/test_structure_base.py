import copy
import pickle
from itertools import pairwise

import joblib
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spcatv.structure import EdgeStructure, MatrixStructure, Structure, from_matrix, grid, icosphere, mesh
from spcatv.testing import check_structure


@settings(max_examples=40, deadline=None)
@given(n_rows=st.integers(0, 30), n_features=st.integers(1, 20), seed=st.integers(0, 1000))
def test_any_matrix_with_any_groups(n_rows, n_features, seed):
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((n_rows, n_features), density=0.3, rng=rng, format="csr")
    group_ptr = np.sort(np.concatenate([[0, n_rows], rng.integers(0, n_rows + 1, 6)]))
    structure = from_matrix(matrix, group_ptr)
    v = rng.standard_normal(n_features)
    rows = matrix @ v
    pairs = pairwise(group_ptr)
    assert structure.value(v) == pytest.approx(sum(np.linalg.norm(rows[a:b]) for a, b in pairs))
    check_structure(structure, random_state=seed)


def test_every_row_is_a_group_by_default():
    A = np.random.default_rng(0).standard_normal((5, 3))
    v = np.array([1.0, -2.0, 0.5])
    assert from_matrix(A).value(v) == pytest.approx(np.abs(A @ v).sum())
    assert from_matrix(A).n_groups == 5


def test_the_callers_matrix_is_neither_changed_nor_kept():
    matrix = sp.csr_array(([1.0, 0.0, 2.0, 3.0], [2, 0, 1, 1], [0, 2, 4]), shape=(2, 3))
    structure = from_matrix(matrix)
    assert matrix.nnz == 4
    np.testing.assert_array_equal(matrix.indices, [2, 0, 1, 1])
    np.testing.assert_array_equal(structure.matrix.toarray(), [[0, 0, 1], [0, 5, 0]])
    matrix.data[:] = 7
    np.testing.assert_array_equal(structure.matrix.toarray(), [[0, 0, 1], [0, 5, 0]])


def test_read_only_views_of_writable_arrays_are_copied():
    base = np.ones(3)
    view = base[:]
    view.flags.writeable = False
    structure = EdgeStructure(4, np.arange(3), np.arange(1, 4), view)
    base[:] = 0
    assert structure == grid(4)


def test_nothing_reaches_the_operator():
    structure = grid((3, 3))
    digest = structure.digest
    with pytest.raises(ValueError, match="read-only"):
        structure.matrix.data[0] = 5
    with pytest.raises(ValueError, match="read-only"):
        structure.group_ptr[0] = 5
    borrowed = structure.matrix
    borrowed.data = np.zeros(borrowed.nnz)
    assert structure.matrix.data.any()
    assert grid((3, 3)).digest == digest == from_matrix(structure.matrix, structure.group_ptr).digest


def test_equal_by_content_however_made():
    chain = from_matrix([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    assert chain == grid(3)
    assert hash(chain) == hash(grid(3))
    assert {chain, grid(3), grid((3, 1))} == {chain}
    assert chain != grid(4)
    assert chain != from_matrix([[-1.0, 1.0, 0.0], [0.0, -1.0, 2.0]])
    assert chain != from_matrix(chain.matrix, [0, 2])
    assert from_matrix(np.eye(3), [0, 1, 3]) != from_matrix(np.eye(3), [0, 2, 3])
    assert from_matrix(np.zeros((0, 3))) != from_matrix(np.zeros((0, 4)))
    assert (chain == 3) is False


def test_pickles_are_recipes_and_copies_are_the_same_object():
    structure = mesh(*icosphere(3))
    assert structure.n_rows > 0
    before = len(pickle.dumps(structure))
    structure.norm_squared(), structure.adjoint(np.zeros(structure.n_rows)), structure.digest
    data = pickle.dumps(structure)
    assert len(data) == before < 40_000
    again = pickle.loads(data)
    assert again == structure
    assert not again.tail.flags.writeable
    assert copy.deepcopy(structure) is copy.copy(structure) is structure
    assert joblib.hash(again) == joblib.hash(pickle.loads(data))


def test_index_types_are_narrow():
    for structure in (grid((3, 3)), mesh(*icosphere(1)), mesh(*icosphere(1), scheme="fem")):
        assert structure.matrix.indices.dtype == structure.matrix.indptr.dtype == np.int32
        assert structure.group_ptr.dtype == np.int64
        assert structure.matrix.has_canonical_format


def test_a_subclass_must_state_what_it_is():
    with pytest.raises(TypeError, match="Structure must define n_features"):
        _ = Structure().n_features
    with pytest.raises(TypeError, match="Structure must define _build"):
        _ = Structure().matrix
    assert repr(from_matrix(np.eye(3))) == "MatrixStructure(n_features=3)"
    assert isinstance(from_matrix(np.eye(3)), MatrixStructure)


@pytest.mark.parametrize(
    ("A", "group_ptr", "message"),
    [
        (np.ones((3, 2)), [0, 2], r"end at the number of rows \(3\); it starts at 0 and ends at 2"),
        (np.ones((3, 2)), [1, 3], "starts at 1"),
        (np.ones((3, 2)), [0, 2, 1, 3], "never decrease"),
        (np.ones((3, 2)), np.array([0, 2, 1, 3], dtype=np.uint8), "never decrease"),
        (np.ones((3, 2)), [0.0, 3.0], "integers .* got dtype float64"),
        (np.ones((3, 2)), [[0, 3]], r"one-dimensional .* shape \(1, 2\)"),
        (np.full((3, 2), np.nan), None, r"shape \(3, 2\) holds NaN"),
        (np.ones((3, 0)), None, "at least one feature"),
        (np.ones(3), None, r"must be a matrix, got shape \(3,\)"),
    ],
)
def test_errors_name_the_problem(A, group_ptr, message):
    with pytest.raises(ValueError, match=message):
        from_matrix(A, group_ptr)
