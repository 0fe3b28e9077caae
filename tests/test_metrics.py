"""The metrics against hand values, identities and invariances (docs/method.md section 6.1)."""

import itertools
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.decomposition import PCA

from spcatv.metrics import (
    adjusted_explained_variance,
    cumulative_explained_variance,
    dice,
    loading_mse,
    match_components,
    orthonormal_basis,
    pairwise_dice,
    reconstruction_error,
    threshold_loadings,
)

entries = st.floats(-100, 100).map(lambda value: round(value, 3))
vectors = hnp.arrays(np.float64, st.integers(2, 12), elements=entries)
matrices = hnp.arrays(np.float64, st.tuples(st.integers(1, 4), st.integers(2, 12)), elements=entries)
two_matrices = st.tuples(st.integers(1, 4), st.integers(2, 12)).flatmap(
    lambda shape: st.tuples(*[hnp.arrays(np.float64, shape, elements=entries)] * 2)
)
quick = settings(max_examples=60, deadline=None)


class TestThreshold:
    def test_hand_value(self):
        # the norm is 5, of which 4.95 must be kept: 4 alone is 80 %, and 3 and 4 together are all of it
        assert_array_equal(threshold_loadings([3.0, -4.0, 0.0]), [3.0, -4.0, 0.0])
        # norm sqrt(1.0001): the entry 0.01 is not needed for 99 %
        assert_array_equal(threshold_loadings([1.0, 0.01]), [1.0, 0.0])

    def test_it_is_the_norm_and_not_its_square(self):
        # (1, 0.12): 1 is 99.29 % of the norm, but only 98.58 % of its square
        assert_array_equal(threshold_loadings([1.0, 0.12]), [1.0, 0.0])

    def test_ties_stay_together(self):
        # three of the four equal entries would be enough for 80 % of the norm
        assert_array_equal(threshold_loadings([1.0, 1.0, -1.0, 1.0, 0.1], 0.8), [1.0, 1.0, -1.0, 1.0, 0.0])

    def test_rows_are_independent_and_zeros_stay(self):
        rows = np.array([[1.0, 0.01], [0.0, 0.0], [0.01, 0.01]])
        assert_array_equal(threshold_loadings(rows), [[1.0, 0.0], [0.0, 0.0], [0.01, 0.01]])

    def test_tiny_loadings_do_not_underflow(self):
        assert_array_equal(threshold_loadings([1e-200, 9e-201, 1e-203]), [1e-200, 9e-201, 0.0])

    @quick
    @given(matrices, st.floats(0.05, 1.0))
    def test_keeps_enough_and_no_more(self, rows, fraction):
        kept = threshold_loadings(rows, fraction)
        for before, after in zip(rows, kept, strict=True):
            norm = np.linalg.norm(before)
            assert np.linalg.norm(after) >= fraction * norm * (1 - 1e-12)
            assert_array_equal(after[after != 0], before[after != 0])
            if norm > 0:
                smallest = np.abs(after[after != 0]).min()
                assert smallest >= np.abs(before[after == 0]).max(initial=0.0)
                without = np.where(np.abs(after) > smallest, after, 0.0)
                assert np.linalg.norm(without) <= fraction * norm * (1 + 1e-12)

    @quick
    @given(vectors, st.randoms(use_true_random=False))
    def test_does_not_depend_on_the_order_of_the_features(self, vector, random):
        order = list(range(vector.size))
        random.shuffle(order)
        assert_array_equal(threshold_loadings(vector[order], 0.7), threshold_loadings(vector, 0.7)[order])

    @pytest.mark.parametrize("fraction", [0.0, -1.0, 1.5, float("nan")])
    def test_refuses_a_wrong_fraction(self, fraction):
        with pytest.raises(ValueError, match="norm_fraction must be above 0 and at most 1"):
            threshold_loadings([1.0, 2.0], fraction)


class TestDice:
    def test_hand_values(self):
        assert dice([1, 1, 0, 0], [0, 1, 1, 0]) == 0.5
        assert dice([1, 1, 0], [-3, 0.1, 0]) == 1.0
        assert dice([1, 0, 0], [0, 1, 1]) == 0.0
        assert dice([1, 1, 1, 1], [1, 0, 0, 0]) == pytest.approx(2 / 5)

    def test_rows(self):
        assert_allclose(dice([[1, 1, 0], [1, 0, 0]], [[1, 0, 0], [1, 0, 0]]), [2 / 3, 1])

    def test_two_empty_supports(self):
        assert dice([0, 0], [0, 0]) == 0.0
        assert dice([0, 0], [0, 0], empty=1.0) == 1.0
        assert dice([0, 0], [1, 0], empty=1.0) == 0.0

    def test_threshold_is_applied_when_asked(self):
        assert dice([1, 0.001], [1, 0]) == pytest.approx(2 / 3)
        assert dice([1, 0.001], [1, 0], norm_fraction=0.99) == 1.0

    @quick
    @given(two_matrices)
    def test_symmetric_and_bounded(self, pair):
        first, second = pair
        index = dice(first, second)
        assert_array_equal(index, dice(second, first))
        assert_array_equal(index, dice(-first, 2 * second))
        assert (index >= 0).all()
        assert (index <= 1).all()
        assert_array_equal(dice(first, first), (first != 0).any(axis=1).astype(float))

    def test_refuses_different_shapes(self):
        with pytest.raises(ValueError, match=r"\(2,\) and \(3,\)"):
            dice([1, 0], [1, 0, 0])

    def test_refuses_nan(self):
        with pytest.raises(ValueError, match="NaN or infinite"):
            dice([1, np.nan], [1, 0])


class TestPairwiseDice:
    def test_equals_dice_of_every_matched_pair(self):
        rng = np.random.default_rng(0)
        base = np.kron(np.eye(3), np.ones(20))
        fits = [rng.permutation(base + 0.2 * rng.standard_normal(base.shape)) for _ in range(4)]
        for fit in fits:
            fit[rng.random(fit.shape) < 0.3] = 0
        got = pairwise_dice(fits, reference=base, norm_fraction=0.9)
        matched = [fit[match_components(base, fit).order] for fit in fits]
        expected = [dice(a, b, norm_fraction=0.9) for a, b in itertools.combinations(matched, 2)]
        assert got.shape == (6, 3)
        assert_allclose(got, expected)

    def test_order_and_sign_of_the_components_do_not_matter(self):
        base = np.kron(np.eye(3), np.ones(5))
        assert_array_equal(pairwise_dice([base, -base[[2, 0, 1]], 4 * base[::-1]]), np.ones((3, 3)))

    def test_the_default_threshold_is_99_percent(self):
        fits = [np.array([[1.0, 0.01, 0.0]]), np.array([[1.0, 0.0, 0.01]])]
        assert_array_equal(pairwise_dice(fits), [[1.0]])
        assert_array_equal(pairwise_dice(fits, norm_fraction=None), [[0.5]])

    def test_a_component_that_is_always_zero_is_not_stable(self):
        fit = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
        assert_array_equal(pairwise_dice([fit, fit]), [[1.0, 0.0]])
        assert_array_equal(pairwise_dice([fit, fit], empty=1.0), [[1.0, 1.0]])

    def test_refuses_a_single_fit(self):
        with pytest.raises(ValueError, match="at least two fits, got 1"):
            pairwise_dice([np.eye(3)])


class TestMatch:
    def test_finds_a_permutation_with_signs(self):
        rng = np.random.default_rng(1)
        reference = rng.standard_normal((4, 50))
        order, sign = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, -1.0, 1.0])
        estimated = np.empty_like(reference)
        estimated[order] = 3 * sign[:, None] * reference
        match = match_components(reference, estimated)
        assert_array_equal(match.order, order)
        assert_array_equal(match.sign, sign)
        assert_allclose(match.cosine, 1)

    def test_is_best_over_all_permutations(self):
        rng = np.random.default_rng(2)
        reference, estimated = rng.standard_normal((2, 4, 10))
        norms = [np.linalg.norm(rows, axis=1) for rows in (reference, estimated)]
        table = np.abs(reference @ estimated.T) / np.outer(*norms)
        best = max(table[range(4), list(p)].sum() for p in itertools.permutations(range(4)))
        assert match_components(reference, estimated).cosine.sum() == pytest.approx(best)

    def test_greedy_would_be_wrong(self):
        # cosines [[.8, .6], [.75, 0]]: taking the largest first would leave 0 for the other pair
        basis = np.linalg.qr(np.random.default_rng(3).random((8, 3)))[0].T
        reference = np.array([[0.8, 0.6, 0.0], [0.75, 0.0, sqrt(1 - 0.75**2)]]) @ basis
        match = match_components(reference, basis[:2])
        assert_array_equal(match.order, [1, 0])
        assert_allclose(match.cosine, [0.6, 0.75])

    def test_more_estimated_than_reference(self):
        assert_array_equal(match_components(np.eye(4)[:2], np.eye(4)[::-1]).order, [3, 2])

    def test_zeros_match_nothing(self):
        match = match_components([[1.0, 2.0, 4.0], [0.3, 0.3, 0.3]], [[0.0, 0.0, 0.0], [-1.0, -2.0, -4.0]])
        assert_array_equal(match.order, [1, 0])
        assert_allclose(match.cosine, [1, 0])

    @pytest.mark.parametrize("order", [[0, 1], [1, 0]])
    def test_complementary_loadings_are_not_exchanged(self, order):
        left = np.repeat([1e-200, 0.0], 5)
        pair = np.array([left, 1e-200 - left])  # their correlation is -1
        match = match_components(pair, pair[order])
        assert_array_equal(match.order, order)
        assert_array_equal(match.sign, [1, 1])
        assert_allclose(match.cosine, 1)
        assert_array_equal(pairwise_dice([pair, pair[order]]), [[1, 1]])

    def test_errors_name_both_numbers(self):
        with pytest.raises(ValueError, match="3 features but estimated has 4"):
            match_components(np.ones((1, 3)), np.ones((1, 4)))
        with pytest.raises(ValueError, match=r"2 reference components .* to 1 estimated"):
            match_components(np.eye(3)[:2], np.eye(3)[:1])


class TestLoadingMSE:
    def test_hand_value(self):
        # z([1, 0, 0, 0]) = (3, -1, -1, -1) / sqrt 3 and z([0, 1, 0, 0]) likewise:
        # the squared differences are 2 * (4 / sqrt 3)^2 / 4 = 8 / 3
        assert_allclose(loading_mse([[1, 0, 0, 0]], [[0, 1, 0, 0]]), [8 / 3])

    def test_is_two_minus_twice_the_correlation(self):
        rng = np.random.default_rng(4)
        true, estimated = np.abs(rng.standard_normal((2, 3, 40)))
        expected = [2 - 2 * np.corrcoef(a, b)[0, 1] for a, b in zip(true, estimated, strict=True)]
        assert_allclose(loading_mse(true, estimated, match=False), expected)

    def test_zero_for_the_truth_at_any_scale_sign_and_order(self):
        true = np.kron(np.eye(3), np.ones(4))
        assert_allclose(loading_mse(true, -7 * true[[1, 2, 0]]), 0, atol=1e-14)

    def test_signs_inside_a_loading_do_not_matter(self):
        assert_allclose(loading_mse([[1, -1, 0, 0]], [[2, 2, 0, 0]], match=False), [0], atol=1e-14)
        assert_allclose(loading_mse([[1, 1, 0, 0]], [[2, -2, 0, 0]], match=False), [0], atol=1e-14)

    @pytest.mark.parametrize("value", [0.0, 0.1, -3.7])
    def test_constant_estimate_counts_one(self, value):
        assert_allclose(loading_mse([[1, 0, 0]], np.full((1, 3), value)), [1.0])

    @quick
    @given(two_matrices)
    def test_bounded_and_finite(self, pair):
        mse = loading_mse(*pair)
        assert np.isfinite(mse).all()
        assert (mse >= 0).all()
        assert (mse <= 4 + 1e-9).all()

    def test_refuses_different_shapes_without_matching(self):
        with pytest.raises(ValueError, match=r"\(2, 4\), estimated has \(3, 4\)"):
            loading_mse(np.eye(4)[:2], np.eye(4)[:3], match=False)


class TestReconstructionError:
    def test_hand_value(self):
        assert reconstruction_error([[1.0, 2.0], [3.0, 4.0]], [[1.0, 0.0], [0.0, 0.0]]) == sqrt(4 + 9 + 16)

    def test_blocks_change_nothing(self, monkeypatch):
        rng = np.random.default_rng(5)
        X, Y = rng.standard_normal((2, 37, 11))
        expected = np.linalg.norm(X - Y)
        for entries_at_once in (1, 40, 10_000):
            monkeypatch.setattr("spcatv.metrics._BLOCK_ENTRIES", entries_at_once)
            assert reconstruction_error(X, Y) == pytest.approx(expected, rel=1e-13)

    def test_float32_is_summed_in_float64(self):
        X = np.full((1000, 1000), 0.1, dtype=np.float32)
        assert reconstruction_error(X, np.zeros_like(X)) == pytest.approx(
            1000 * float(np.float32(0.1)), rel=1e-12
        )

    def test_refuses_different_shapes(self):
        with pytest.raises(ValueError, match=r"\(2, 3\) and \(3, 2\)"):
            reconstruction_error(np.zeros((2, 3)), np.zeros((3, 2)))


class TestAdjustedExplainedVariance:
    def test_hand_value(self):
        # the second column is the first one plus an orthogonal part of variance 4 / 3
        first, extra = np.array([1.0, -1.0, 1.0, -1.0]), np.array([1.0, 1.0, -1.0, -1.0])
        assert_allclose(adjusted_explained_variance(np.column_stack([first, first + extra])), [4 / 3, 4 / 3])

    def test_is_the_variance_for_pca(self):
        X = np.random.default_rng(6).standard_normal((30, 8)) * np.arange(1, 9)
        pca = PCA(n_components=4).fit(X)
        assert_allclose(adjusted_explained_variance(pca.transform(X) + 5), pca.explained_variance_)

    def test_repeated_component_adds_nothing(self):
        column = np.random.default_rng(7).standard_normal((20, 1))
        variance = adjusted_explained_variance(np.hstack([column, -2 * column]))
        assert_allclose(variance, [column.var(ddof=1), 0], atol=1e-12)

    def test_more_components_than_samples(self):
        assert adjusted_explained_variance(np.random.default_rng(8).standard_normal((3, 5))).shape == (5,)

    @quick
    @given(hnp.arrays(np.float64, (7, 3), elements=entries))
    def test_never_above_the_plain_variance(self, scores):
        adjusted, plain = adjusted_explained_variance(scores), scores.var(axis=0, ddof=1)
        assert_allclose(adjusted[0], plain[0], rtol=1e-9, atol=1e-9)
        assert (adjusted <= plain * (1 + 1e-9) + 1e-9).all()

    def test_refuses_one_row(self):
        with pytest.raises(ValueError, match="at least two rows"):
            adjusted_explained_variance([[1.0, 2.0]])


class TestSignedAndCorrectedDice:
    def test_hand_values(self):
        # supports {0, 1, 2} and {0, 1, 3}; the signs agree on 0 alone
        assert dice([1, 1, 1, 0], [1, -1, 0, 1]) == pytest.approx(2 / 3)
        assert dice([1, 1, 1, 0], [1, -1, 0, 1], signed=True) == pytest.approx(1 / 3)
        # two of four features each, one of them shared: exactly as expected by chance
        assert dice([1, 1, 0, 0], [0, 1, 1, 0], corrected=True) == 0
        assert dice([1, 1, 0, 0], [1, 1, 0, 0], corrected=True) == 1
        # the index expected by chance is 2 (1 * 1 / 4) / 2 = 1/4
        assert dice([1, 0, 0, 0], [0, 1, 0, 0], corrected=True) == pytest.approx(-1 / 3)

    def test_full_supports_give_no_warning(self):
        assert dice([1, 1, 1], [1, 1, 1]) == 1
        assert dice([1, 1, 1], [1, 1, 1], corrected=True) == 0

    def test_random_supports_are_zero_on_average(self):
        rng = np.random.default_rng(0)
        one, other = rng.random((2, 500, 200)) < 0.4
        assert dice(one, other, corrected=True).mean() == pytest.approx(0, abs=0.01)
        signs = rng.choice([-1, 1], size=(2, 500, 200))
        signed = dice(one * signs[0], other * signs[1], signed=True, corrected=True)
        assert signed.mean() == pytest.approx(0, abs=0.01)

    @quick
    @given(two_matrices)
    def test_signed_is_never_larger_and_aligns(self, pair):
        first, second = pair
        assert (dice(first, second, signed=True) <= dice(first, second)).all()
        assert_array_equal(dice(first, -first, signed=True), np.zeros(len(first)))
        assert_array_equal(dice(first, first, signed=True), dice(first, first))

    def test_pairwise_variants_are_those_of_dice(self):
        rng = np.random.default_rng(1)
        fits = [rng.standard_normal((2, 30)) * (rng.random((2, 30)) < 0.5) for _ in range(3)]
        for options in ({"signed": True}, {"corrected": True}, {"signed": True, "corrected": True}):
            values = pairwise_dice(fits, norm_fraction=None, **options)
            aligned = []
            for fit in fits:
                match = match_components(fits[0], fit)
                aligned.append(match.sign[:, None] * fit[match.order])
            expected = [dice(*two, **options) for two in itertools.combinations(aligned, 2)]
            assert_allclose(values, expected, atol=1e-12)


class TestCumulativeExplainedVariance:
    def test_pca_explains_what_it_states(self):
        X = np.random.default_rng(0).standard_normal((30, 12)) @ np.diag(np.arange(1, 13))
        pca = PCA(4).fit(X)
        assert_allclose(
            cumulative_explained_variance(X, pca.components_), np.cumsum(pca.explained_variance_ratio_)
        )

    def test_least_squares_is_the_second_route(self):
        rng = np.random.default_rng(1)
        X, loadings, mean = rng.standard_normal((20, 9)), rng.standard_normal((3, 9)), rng.standard_normal(9)
        centred = X - mean
        expected = []
        for k in (1, 2, 3):
            fitted = np.linalg.lstsq(loadings[:k].T, centred.T, rcond=None)[0].T @ loadings[:k]
            expected.append(1 - ((centred - fitted) ** 2).sum() / (centred**2).sum())
        assert_allclose(cumulative_explained_variance(X, loadings, mean=mean), expected)

    def test_repetition_and_zeros_add_nothing(self):
        rng = np.random.default_rng(2)
        X, first = rng.standard_normal((10, 6)), rng.standard_normal(6)
        shares = cumulative_explained_variance(X, [first, -2 * first, np.zeros(6), rng.standard_normal(6)])
        assert shares[0] == shares[1] == shares[2] < shares[3]
        assert cumulative_explained_variance(np.ones((4, 6)), [first]) == 0

    def test_basis_is_orthonormal_even_for_nearly_parallel_loadings(self):
        rng = np.random.default_rng(3)
        first = rng.standard_normal(50)
        basis = orthonormal_basis([first, first + 1e-5 * rng.standard_normal(50), rng.standard_normal(50)])
        assert_allclose(basis @ basis.T, np.eye(3), atol=1e-12)

    def test_shapes_must_agree(self):
        with pytest.raises(ValueError, match="the components have 3 features"):
            cumulative_explained_variance(np.ones((4, 6)), np.ones((2, 3)))
