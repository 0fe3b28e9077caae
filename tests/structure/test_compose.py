import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from spcatv.structure import (
    ConcatStructure,
    EdgeStructure,
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
from spcatv.testing import check_structure

CYCLE = graph(np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0))
# six features each
POOL = [
    grid((2, 3)),
    grid(6, isotropic=False),
    grid(np.array([[1, 1, 1], [2, 2, 2]]), voxel_size=2.0),
    CYCLE,
    graph(np.ones((6, 6)), isotropic=False),
    groups([[0, 1, 2], [2, 3]], 6),
    as_structure(None, 6),
]
some_of_the_pool = st.lists(st.sampled_from(POOL), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(parts=some_of_the_pool, weighted=st.booleans(), seed=st.integers(0, 1000))
def test_stack_adds_the_penalties(parts, weighted, seed):
    rng = np.random.default_rng(seed)
    weights = rng.integers(0, 3, len(parts)) * 0.3 if weighted else None
    structure = stack(parts, weights=weights)
    v = rng.standard_normal(6)
    factors = weights if weighted else np.ones(len(parts))
    assert structure.value(v) == pytest.approx(
        sum(w * p.value(v) for w, p in zip(factors, parts, strict=True))
    )
    assert structure.n_groups == sum(p.n_groups for w, p in zip(factors, parts, strict=True) if w > 0)
    check_structure(structure, random_state=seed)


@settings(max_examples=40, deadline=None)
@given(parts=some_of_the_pool, seed=st.integers(0, 1000))
def test_concat_puts_features_side_by_side(parts, seed):
    structure = concat(parts)
    v = np.random.default_rng(seed).standard_normal((len(parts), 6))
    assert structure.n_features == 6 * len(parts)
    assert structure.value(v.ravel()) == pytest.approx(sum(p.value(x) for p, x in zip(parts, v, strict=True)))
    blocks = sp.block_diag([part.matrix for part in parts], format="csr")
    np.testing.assert_array_equal(structure.matrix.toarray(), blocks.toarray())
    check_structure(structure, random_state=seed)


def test_large_compositions_pass_all_checks():
    sphere = icosphere(3)
    parts = [mesh(*sphere), mesh(*sphere), grid((15, 20)), mesh(*sphere, scheme="fem")]
    check_structure(concat(parts))
    check_structure(stack([mesh(*sphere), mesh(*sphere, scheme="gradient")], weights=[1.0, 0.1]))


def test_two_hemispheres_stay_an_edge_structure():
    left, right = mesh(*icosphere(1)), mesh(*icosphere(2))
    both = concat([left, right])
    assert isinstance(both, EdgeStructure)
    assert both.tail.dtype == np.int32
    assert both == concat([left, ConcatStructure((right,))])
    # with a volume behind them they are still one part
    with_volume = concat([left, right, grid((3, 4))])
    assert [type(part).__name__ for part in with_volume.parts] == ["EdgeStructure", "GridStructure"]
    assert with_volume.n_features == both.n_features + 12
    assert concat([with_volume, right]).n_features == both.n_features + 12 + right.n_features


def test_anisotropic_edges_are_not_joined_with_isotropic_ones():
    loose = graph(np.ones((3, 3)), isotropic=False)
    assert isinstance(concat([CYCLE, loose]), ConcatStructure)
    assert isinstance(concat([loose, loose]), EdgeStructure)
    assert concat([loose, loose]).n_groups == 6


def test_compositions_of_one_are_that_one():
    assert concat([CYCLE]) is CYCLE
    assert stack([CYCLE]) is CYCLE
    assert stack([CYCLE, POOL[0]], weights=[1, 0]) is CYCLE
    assert stack([CYCLE], weights=[0]).n_rows == 0
    assert stack([CYCLE], weights=[2]) == from_matrix(2 * CYCLE.matrix, CYCLE.group_ptr)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: stack([grid(4), grid(5)]), ValueError, "structure 0 has 4 features but structure 1 has 5"),
        (lambda: stack([]), ValueError, "stack needs at least one structure"),
        (lambda: concat([]), ValueError, "concat needs at least one structure"),
        (
            lambda: stack([grid(4)], weights=[1, 2]),
            ValueError,
            r"one number per structure \(1\), got shape \(2,\)",
        ),
        (lambda: stack([grid(4)], weights=[-1]), ValueError, "structure 0 has -1.0"),
        (lambda: stack([grid(4)], weights=[np.nan]), ValueError, "structure 0 has nan"),
        (lambda: concat([grid(4), (3, 4)]), TypeError, "item 1 is a tuple; convert it with as_structure"),
        (lambda: concat(grid(4)), TypeError, "a list of structures, got a single GridStructure"),
    ],
)
def test_errors_name_the_problem(call, error, message):
    with pytest.raises(error, match=message):
        call()
