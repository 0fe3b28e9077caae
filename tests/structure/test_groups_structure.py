import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spcatv.structure import groups
from spcatv.testing import check_structure


@settings(max_examples=40, deadline=None)
@given(
    index_sets=st.lists(st.sets(st.integers(0, 11), min_size=1), max_size=6),
    weighted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_value_is_the_sum_of_weighted_norms(index_sets, weighted, seed):
    rng = np.random.default_rng(seed)
    index_arrays = [rng.permutation(list(indices)) for indices in index_sets]
    weights = rng.integers(0, 3, len(index_arrays)) * 0.7 if weighted else None
    structure = groups(index_arrays, 12, weights=weights)
    v = rng.standard_normal(12)
    factors = weights if weighted else [np.sqrt(len(indices)) for indices in index_arrays]
    expected = sum(w * np.linalg.norm(v[indices]) for w, indices in zip(factors, index_arrays, strict=True))
    assert structure.value(v) == pytest.approx(expected)
    assert structure.n_groups == np.count_nonzero(factors)
    check_structure(structure, random_state=seed)


def test_order_inside_a_group_does_not_matter():
    assert groups([[3, 1], [0, 2, 1]], 4) == groups([[1, 3], [2, 1, 0]], 4)


def test_norm_is_the_heaviest_feature():
    # A'A is diagonal: the sum of squared weights of the groups that hold a feature
    many = groups([np.arange(400), np.arange(399, 800)], 900, weights=[3, 2])
    assert many.norm_squared() == pytest.approx(13, rel=1e-6)


@pytest.mark.parametrize(
    ("index_arrays", "weights", "error", "message"),
    [
        ([[0], [1, 7]], None, ValueError, r"group 1 holds the index 7, .*0 to 4 \(n_features=5\)"),
        ([[-1]], None, ValueError, "group 0 holds the index -1"),
        ([[0], []], None, ValueError, "group 1 is empty"),
        ([[0, 1], [2, 3, 2]], None, ValueError, "group 1 holds the index 2 more than once"),
        ([[0.0, 1.0]], None, TypeError, "group 0 must hold integer feature indices, got dtype float64"),
        ([[True, False]], None, TypeError, "np.flatnonzero on a mask"),
        ([[[0, 1]]], None, ValueError, r"group 0 must be a list .* shape \(1, 2\)"),
        ([[0], [1]], [1.0], ValueError, r"one number per group \(2\), got shape \(1,\)"),
        ([[0], [1]], [1.0, -2.0], ValueError, r"finite and >= 0; group 1 has -2.0"),
        ([[0], [1]], [np.inf, 1.0], ValueError, "group 0 has inf"),
    ],
)
def test_errors_name_the_problem(index_arrays, weights, error, message):
    with pytest.raises(error, match=message):
        groups(index_arrays, 5, weights=weights)


def test_no_features_are_refused():
    with pytest.raises(ValueError, match="n_features must be at least 1, got 0"):
        groups([], 0)
