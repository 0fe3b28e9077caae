"""Tests of significance against scipy, enumeration and closed forms (docs/method.md section 6.4)."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from spcatv.significance import ALTERNATIVES, paired_t_test, sign_flip_test

numbers = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=2, max_size=9)


@pytest.mark.parametrize("alternative", ALTERNATIVES)
@pytest.mark.parametrize("n_pairs", [2, 5, 50])
def test_t_test_agrees_with_scipy(alternative, n_pairs):
    rng = np.random.default_rng(n_pairs)
    first, second = rng.standard_normal((2, n_pairs)) + np.array([[0.3], [0.0]])
    ours = paired_t_test(first, second, alternative=alternative)
    reference = stats.ttest_rel(first, second, alternative=alternative)
    assert ours.statistic == pytest.approx(reference.statistic, rel=1e-12)
    assert ours.p_value == pytest.approx(reference.pvalue, rel=1e-10)
    assert ours.mean_difference == pytest.approx((first - second).mean())
    assert (ours.n_pairs, ours.n_permutations) == (n_pairs, 0)


def test_t_test_without_spread():
    assert paired_t_test([1, 2, 3], [1, 2, 3]).p_value == 1
    certain = paired_t_test([2, 3, 4], [1, 2, 3])
    assert (certain.statistic, certain.p_value) == (np.inf, 0)
    assert paired_t_test([2, 3, 4], [1, 2, 3], alternative="less").p_value == 1


def test_splits_of_one_data_set_are_corrected():
    """Two equally good predictors, compared on 15 random splits of the same samples, 200 times."""
    rng = np.random.default_rng(0)
    found = {0.0: [], 1 / 5: []}
    for _ in range(200):
        useful = rng.standard_normal((100, 2))
        target = useful.sum(axis=1) + rng.standard_normal(100)
        errors = np.empty((2, 15))
        for split in range(15):
            test, train = np.split(rng.permutation(100), [20])
            for method, column in enumerate(useful.T):
                slope = column[train] @ target[train] / (column[train] ** 2).sum()
                errors[method, split] = ((target[test] - slope * column[test]) ** 2).mean()
        for held_out, p_values in found.items():
            p_values.append(paired_t_test(*errors, held_out=held_out).p_value)
    assert np.mean(np.array(found[0.0]) < 0.05) > 0.3
    assert np.mean(np.array(found[1 / 5]) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 200)
    with pytest.raises(ValueError, match="held_out"):
        paired_t_test([1, 2], [2, 4], held_out=1.0)


def enumerated(difference, alternative):
    means = [
        np.mean(np.multiply(signs, difference))
        for signs in itertools.product((1, -1), repeat=len(difference))
    ]
    extreme = {"two-sided": np.abs, "greater": lambda m: np.asarray(m), "less": lambda m: -np.asarray(m)}[
        alternative
    ]
    return np.mean(extreme(means) >= extreme([np.mean(difference)])[0] - 1e-9)


@settings(max_examples=40)
@given(numbers, st.sampled_from(ALTERNATIVES))
def test_few_pairs_are_enumerated(pairs, alternative):
    first, second = np.array(pairs).T.round(3)
    ours = sign_flip_test(first, second, alternative=alternative)
    assert ours.n_permutations == 2 ** len(pairs)
    assert ours.p_value == pytest.approx(enumerated(first - second, alternative))


def test_differences_of_one_sign_have_the_smallest_possible_p():
    difference = np.arange(1.0, 9.0)
    assert sign_flip_test(difference, np.zeros(8), alternative="greater").p_value == 1 / 2**8
    assert sign_flip_test(difference, np.zeros(8)).p_value == 2 / 2**8
    many = np.arange(1.0, 41.0)
    sampled = sign_flip_test(many, np.zeros(40), n_permutations=999)
    assert sampled.p_value == 1 / 1000
    assert sampled.n_permutations == 999


def test_many_pairs_agree_with_the_normal_limit():
    rng = np.random.default_rng(1)
    first = rng.standard_normal(400) + 0.08
    p_value = sign_flip_test(first, np.zeros(400), n_permutations=20_000).p_value
    z = first.sum() / np.linalg.norm(first)
    assert p_value == pytest.approx(2 * stats.norm.sf(abs(z)), abs=0.012)


def test_p_values_are_uniform_without_a_difference():
    rng = np.random.default_rng(2)
    p_values = [sign_flip_test(*rng.standard_normal((2, 12)), n_permutations=199).p_value for _ in range(400)]
    assert stats.kstest(p_values, "uniform").pvalue > 0.01


def test_the_same_seed_gives_the_same_p():
    first, second = np.random.default_rng(3).standard_normal((2, 30))
    assert sign_flip_test(first, second) == sign_flip_test(first, second)
    assert sign_flip_test(first, second, random_state=1) != sign_flip_test(first, second, random_state=2)


@pytest.mark.parametrize("test", [paired_t_test, sign_flip_test])
def test_wrong_values_are_refused(test):
    with pytest.raises(ValueError, match="two vectors of the same length"):
        test([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="must be finite"):
        test([1, np.nan], [1, 2])
    with pytest.raises(ValueError, match="unknown alternative 'larger'"):
        test([1, 2], [1, 3], alternative="larger")
    with pytest.raises(ValueError, match="at least two pairs"):
        test([1], [2])


def test_permutations_are_counted():
    with pytest.raises(ValueError, match="n_permutations must be"):
        sign_flip_test([1, 2], [1, 3], n_permutations=0)
