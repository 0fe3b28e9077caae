"""Values are packed as JSON and arrays, and unpacked."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spcatv._util.types import IntArray
from spcatv.kernels import ConcatWorkspace, LoadingTerms, workspace_for
from spcatv.model import ModelError, checked, pack, unpack
from spcatv.problem import GraphNet, HuberTV, TotalVariation
from spcatv.structure import (
    ConcatStructure,
    GridStructure,
    Structure,
    as_structure,
    concat,
    from_matrix,
    graph,
    grid,
    groups,
    icosphere,
    mesh,
    stack,
)


def random_grid(rng):
    shape = tuple(rng.integers(1, 5, size=rng.integers(1, 4)))
    labels = rng.integers(0, 3, size=shape)
    labels.flat[0] = 1
    return grid(
        labels,
        voxel_size=list(rng.uniform(0.3, 3, len(shape))),
        isotropic=bool(rng.integers(2)),
        periodic=[bool(flag) for flag in rng.integers(2, size=len(shape))],
    )


def random_graph(rng):
    weights = np.triu(rng.uniform(size=(7, 7)) * rng.integers(0, 2, size=(7, 7)), 1)
    return graph(weights + weights.T, isotropic=bool(rng.integers(2)))


def random_mesh(rng):
    coords, triangles = icosphere(0)
    kept = rng.uniform(size=len(coords)) < 0.8
    kept[0] = True
    return mesh(coords, triangles, mask=kept, scheme=["edges", "gradient", "fem"][rng.integers(3)])


def random_groups(rng):
    members = [rng.choice(8, size=rng.integers(1, 5), replace=False) for _ in range(rng.integers(0, 4))]
    return groups(members, 8)


def random_matrix(rng):
    n_rows = int(rng.integers(0, 6))
    cuts = np.sort(rng.integers(0, n_rows + 1, size=2))
    return from_matrix(
        sp.random_array((n_rows, 5), density=0.5, rng=rng), [0, *(int(cut) for cut in cuts), n_rows]
    )


def random_stack(rng):
    n = int(rng.integers(2, 9))
    return stack([grid(n), groups([range(n)], n)], weights=rng.uniform(0, 2, 2))


def random_concat(rng):
    makers = (random_grid, random_graph, random_mesh, random_groups, random_matrix)
    return concat([makers[k](rng) for k in rng.integers(len(makers), size=rng.integers(1, 5))])


MAKERS = (
    random_grid,
    random_graph,
    random_mesh,
    random_groups,
    random_matrix,
    random_stack,
    random_concat,
    lambda rng: as_structure(None, int(rng.integers(1, 9))),
)


def layout(structure):
    """The kinds of workspace that the solvers would take."""
    found = workspace_for(structure, LoadingTerms(1.0, 0.1, False, TotalVariation()), np.float64)
    if isinstance(found, ConcatWorkspace):
        return [type(part) for part in found._parts]
    return [type(found)]


def there_and_back(structure):
    state, arrays = pack(structure, "structure")
    return unpack(json.loads(json.dumps(state, allow_nan=False)), arrays)


def assert_same(found, structure):
    assert type(found) is type(structure)
    assert found == structure
    assert found.n_features == structure.n_features
    for name in ("data", "indices", "indptr"):
        ours, theirs = getattr(found.matrix, name), getattr(structure.matrix, name)
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(found.group_ptr, structure.group_ptr)
    assert found.norm_squared() == structure.norm_squared()
    assert layout(found) == layout(structure)


@pytest.mark.parametrize("number", range(len(MAKERS)))
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_structure_is_restored(number, seed):
    structure = MAKERS[number](np.random.default_rng(seed))
    assert_same(there_and_back(structure), structure)


def test_a_concatenation_of_concatenations_keeps_its_parts():
    inner = ConcatStructure((grid(3), groups([[0, 1]], 2)))
    outer = ConcatStructure((inner, graph(np.ones((3, 3)))))
    found = there_and_back(outer)
    assert [type(part) for part in found.parts] == [type(part) for part in outer.parts]
    assert found == outer


def test_a_structure_of_an_unknown_class_is_stored_as_its_operator():
    class Shifted(GridStructure):
        """A subclass may have another operator than its parent."""

        def _build(self):
            matrix, group_ptr = super()._build()
            return sp.csr_array(2 * matrix), group_ptr

    own = Shifted(np.ones((2, 3), dtype=np.int32), (1.0, 1.0))
    found = there_and_back(own)
    assert isinstance(found, Structure)
    assert found == own
    assert found != grid((2, 3))


GRID_STATE, GRID_ARRAYS = pack(grid((2, 3)), "structure")
EDGE_STATE, EDGE_ARRAYS = pack(graph(np.ones((3, 3))), "structure")
MATRIX_STATE, MATRIX_ARRAYS = pack(groups([[0, 1]], 3), "structure")
LABELS = {"type": "array", "array": "structure.labels"}


def of_matrix(**changed):
    return {**MATRIX_STATE, "matrix": {**MATRIX_STATE["matrix"], **changed}}


def with_matrix(**arrays):
    return {**MATRIX_ARRAYS, **{f"structure.matrix.{name}": array for name, array in arrays.items()}}


@pytest.mark.parametrize(
    ("state", "arrays", "message"),
    [
        ({"type": "os.system"}, {}, "unknown type"),
        ({"type": ["GridStructure"]}, {}, "unknown type"),
        ({**GRID_STATE, "labels": {**LABELS, "array": "elsewhere"}}, GRID_ARRAYS, "'elsewhere'"),
        ({**GRID_STATE, "labels": {**LABELS, "array": ["a"]}}, GRID_ARRAYS, "does not exist"),
        ({**GRID_STATE, "axis_weights": [1.0]}, GRID_ARRAYS, "one value per axis"),
        ({**GRID_STATE, "axis_weights": [1.0, -1.0]}, GRID_ARRAYS, "positive"),
        ({**GRID_STATE, "axis_weights": [1.0, "x"]}, GRID_ARRAYS, "axis_weights"),
        ({**GRID_STATE, "periodic": [0, 1]}, GRID_ARRAYS, "periodic"),
        ({**GRID_STATE, "isotropic": None}, GRID_ARRAYS, "isotropic"),
        ({**GRID_STATE, "more": 1}, GRID_ARRAYS, "exactly the entries"),
        (GRID_STATE, {"structure.labels": np.zeros((2, 3), dtype=np.int32)}, "above 0"),
        (GRID_STATE, {"structure.labels": np.ones((2, 3))}, "labels"),
        ({**EDGE_STATE, "feature_count": 2}, EDGE_ARRAYS, "tail < head < 2"),
        ({**EDGE_STATE, "feature_count": 3.0}, EDGE_ARRAYS, "feature_count"),
        (EDGE_STATE, {**EDGE_ARRAYS, "structure.tail": np.array([0, 1])}, "one length"),
        ({**MATRIX_STATE, "matrix": 3}, MATRIX_ARRAYS, "sparse"),
        (of_matrix(shape=[1, 1]), MATRIX_ARRAYS, "not valid"),
        (of_matrix(shape="many"), MATRIX_ARRAYS, "not valid"),
        (MATRIX_STATE, with_matrix(indices=np.array([0, 10**6])), "not valid"),
        (MATRIX_STATE, with_matrix(indptr=np.array([0, 10**6, 2])), "not valid"),
        (MATRIX_STATE, with_matrix(indptr=np.zeros(0, dtype=int)), "not valid"),
        (MATRIX_STATE, {**MATRIX_ARRAYS, "structure.group_ptr": np.array([0, 9])}, "group_ptr"),
        ({"type": "ConcatStructure", "parts": 3}, {}, "parts"),
        ({"type": "ConcatStructure", "parts": [GRID_STATE, 3]}, GRID_ARRAYS, "parts"),
        ({"type": "HuberTV", "delta": "0.1"}, {}, "delta"),
        ({"type": "HuberTV", "delta": -1}, {}, "delta"),
        ({"type": "HuberTV"}, {}, "delta"),
    ],
)
def test_a_wrong_description_is_refused(state, arrays, message):
    with pytest.raises(ModelError, match=message):
        unpack(state, arrays)


def pack_and_unpack(value):
    state, arrays = pack(value, "parameters.value")
    return unpack(json.loads(json.dumps(state, allow_nan=False)), arrays)


plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)
nested = st.recursive(
    plain, lambda inner: st.one_of(st.lists(inner), st.lists(inner).map(tuple)), max_leaves=8
)


@settings(max_examples=60)
@given(value=nested)
def test_plain_values_come_back_as_they_are(value):
    found = pack_and_unpack(value)
    assert found == value
    assert repr(found) == repr(value)  # types, and the sign of zero


@pytest.mark.parametrize(
    "value", [np.float64(0.1), np.float32(0.1), np.int32(7), np.bool_(True), np.str_("svd")]
)
def test_numpy_scalars_keep_their_type(value):
    found = pack_and_unpack(value)
    assert found == value
    assert type(found) is (str if isinstance(value, str) else type(value))


@pytest.mark.parametrize("penalty", [TotalVariation(), GraphNet(), HuberTV(0.1)])
def test_penalties_of_the_package_are_restored(penalty):
    assert pack_and_unpack(penalty) == penalty


def test_dictionaries_come_back_in_order():
    value = {"b": (1, 2), "a": {3: [None]}}
    assert list(pack_and_unpack(value).items()) == list(value.items())


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, float, 1.0),
        ([1, 2.5], float | tuple[float, ...], (1.0, 2.5)),
        (None, int | None, None),
        ([["a"], []], tuple[tuple[str, ...], ...], (("a",), ())),
    ],
)
def test_values_of_an_annotated_type(value, hint, expected):
    assert checked(value, hint, "it") == expected


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        (True, float),
        (True, int),
        (1.0, int),
        (1, bool),
        ("1", float),
        (10**400, float),
        ([1.0, None], tuple[float, ...]),
        ([1.0], tuple[float, float]),
        (None, float),
        (np.zeros(2), IntArray),
    ],
)
def test_values_of_another_type_are_refused(value, hint):
    with pytest.raises(ModelError, match="it must be of type"):
        checked(value, hint, "it")


@pytest.mark.parametrize("dtype", ["float32", np.float32, np.dtype("float64"), float])
def test_dtypes_come_back_equal(dtype):
    assert np.dtype(pack_and_unpack(dtype)) == np.dtype(dtype)
    assert pack_and_unpack(dtype) == dtype


def test_arrays_and_paths_are_restored():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = pack_and_unpack((array, Path("a/b"), [array > 2]))
    np.testing.assert_array_equal(found[0], array)
    assert found[1] == Path("a/b")
    assert found[2][0].dtype == bool


@pytest.mark.parametrize("made", [sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_matrix])
def test_sparse_matrices_are_restored(made):
    value = made(np.diag([1.0, 2.0], k=1))
    found = pack_and_unpack(value)
    assert type(found) is sp.csr_array
    np.testing.assert_array_equal(found.toarray(), value.toarray())


@pytest.mark.parametrize(
    ("state", "arrays"),
    [
        ({"type": "eval", "code": "1"}, {}),
        ({"type": "array", "array": "nowhere"}, {}),
        ({"no type": 1}, {}),
        ({"type": "tuple", "items": "abc"}, {}),
        ({"type": "dtype", "name": "object_that_is_none"}, {}),
        ({"type": "dtype", "name": ["f8"]}, {}),
    ],
)
def test_a_wrong_value_is_refused(state, arrays):
    with pytest.raises(ModelError):
        unpack(state, arrays)


@pytest.mark.parametrize("value", [object(), lambda: 0, np.random.default_rng(0)])
def test_what_cannot_be_kept_is_named(value):
    with pytest.raises(ModelError, match=r"parameters\.value is a "):
        pack(value, "parameters.value")
