"""Rules of choice on tables written by hand."""

import numpy as np
import pytest

from spcatv.selection import SelectionWarning
from spcatv.selection.rules import (
    RULES,
    FoldOutcome,
    SettingScores,
    choose,
    edge_of,
    highest_stability,
    lowest_error,
    one_standard_error,
    paper_rule,
    selection_table,
)


def table(*rows, tv_ratios=(0.5,) * 9):
    """Settings from explained share per fold, sparsity per (fold and) component, Dice without chance."""
    scores = []
    for k, (explained, sparsity, corrected) in enumerate(rows):
        n_components = np.shape(sparsity)[-1]
        growth = np.linspace(0.5, 1, n_components) if n_components > 1 else np.ones(1)
        folds = [
            FoldOutcome(
                error=10 * np.sqrt(1 - share),
                explained=share * growth,
                sparsity=np.where(np.isnan(share), np.nan, own),
                supports=np.zeros(0),
                converged=True,
                seconds=1.0,
            )
            for share, own in zip(
                explained, np.broadcast_to(sparsity, (len(explained), n_components)), strict=True
            )
        ]
        setting = {"alpha": 0.1 * (k + 1), "l1_ratio": 0.2, "tv_ratio": tv_ratios[k]}
        dice = np.full(n_components, np.nan if np.isnan(corrected) else 0.5)
        scores.append(SettingScores(setting, folds, dice, np.full(n_components, float(corrected))))
    return selection_table(scores)


def test_the_papers_rule_wants_sparse_second_components():
    # the best is dense in its second component, the next is sparse there; the first one does not matter
    given = table(([0.5, 0.5], [0.9, 0.3], 0), ([0.4, 0.4], [0.0, 0.5], 0), ([0.3, 0.3], [0.9, 0.9], 0))
    assert paper_rule(given) == 1
    assert paper_rule(given, min_sparsity=0.2) == 0
    assert paper_rule(given, min_sparsity=0.8) == 2


def test_without_sparse_settings_the_closest_is_taken():
    given = table(([0.5, 0.5], [0.1, 0.1], 0), ([0.2, 0.2], [0.1, 0.4], 0))
    with pytest.warns(SelectionWarning, match=r"closest, alpha=0.2, l1_ratio=0.2, tv_ratio=0.5, with 40%"):
        assert paper_rule(given) == 1


def test_one_component_has_no_second():
    assert paper_rule(table(([0.5, 0.4], [0.0], 0), ([0.4, 0.4], [0.9], 0))) == 0


def test_one_standard_error_takes_the_sparsest_that_is_near():
    # the best explains 0.5 with a standard error of 0.01 over two folds
    best = ([0.51, 0.49], [0.2, 0.2], 0)
    assert one_standard_error(table(best, ([0.5, 0.481], [0.5, 0.5], 0), ([0.3, 0.3], [0.9, 0.9], 0))) == 1
    assert one_standard_error(table(best, ([0.5, 0.479], [0.5, 0.5], 0))) == 0
    # a component that is empty is no sparse component
    assert one_standard_error(table(best, ([0.5, 0.481], [0.5, 1.0], 0))) == 0


def test_one_standard_error_loses_a_twentieth_at_most():
    best = ([0.6, 0.4], [0.2, 0.2], 0)  # a standard error of 0.1
    assert one_standard_error(table(best, ([0.5, 0.451], [0.5, 0.5], 0))) == 1
    assert one_standard_error(table(best, ([0.5, 0.449], [0.5, 0.5], 0))) == 0


def test_one_standard_error_keeps_the_smoothness_of_the_best():
    best, other = ([0.51, 0.49], [0.2, 0.2], 0), ([0.5, 0.49], [0.9, 0.9], 0)
    assert one_standard_error(table(best, other)) == 1
    assert one_standard_error(table(best, other, tv_ratios=[0.5, 0.7])) == 0


def test_of_equally_sparse_settings_the_most_reproducible_is_taken():
    best = ([0.6, 0.4], [0.2, 0.2], 0.9)
    rows = (([0.5, 0.46], [0.505, 0.505], 0.3), ([0.5, 0.46], [0.5, 0.5], 0.7))
    assert one_standard_error(table(best, *rows)) == 2
    # a difference of more than 1 % counts
    assert one_standard_error(table(best, ([0.5, 0.46], [0.52, 0.52], 0.3), rows[1])) == 1


def test_the_lowest_error():
    given = table(([0.4, 0.4], [0.9, 0.9], 1), ([0.5, 0.5], [0.0, 0.0], 0), ([0.3, 0.3], [0.9, 0.9], 0))
    assert lowest_error(given) == 1


@pytest.mark.parametrize("rule", ["one_se", "error", "stability", "paper"])
def test_every_component_must_live_on_every_fold(rule):
    empty = ([0.9, 0.9], [1.0, 0.9], 1.0)  # the first component counts like the others
    nonempty = ([0.5, 0.5], [0.9, 0.9], 0.5)
    assert choose(table(empty, nonempty), rule, 0.5)[0] == 1
    with pytest.warns(SelectionWarning, match="no setting keeps all 2 components nonempty on every fold"):
        assert choose(table(([0.95, 0.95], [1.0, 1.0], 1.0), empty), rule, 0.5)[0] == 1


def test_a_component_that_is_empty_on_one_fold_counts_as_empty():
    given = table(([0.9, 0.9], [[0.9, 0.9], [1.0, 0.9]], 1.0), ([0.5, 0.5], [0.9, 0.9], 0.5))
    assert given.eligible.tolist() == [False, True]
    assert given.least_nonempty.tolist() == [1, 2]


def test_empty_components_are_not_counted_as_zeros():
    results = table(
        ([0.5, 0.5], [0.6, 1.0], 0),
        ([0.4, 0.4], [1.0, 1.0], 0),
        ([0.3, 0.3], [[0.6, 0.8], [0.6, 1.0]], 0),  # empty on the second fold alone
    ).results
    np.testing.assert_allclose(results["mean_sparsity_1"], [0.6, np.nan, 0.6])
    np.testing.assert_allclose(results["mean_sparsity_2"], [np.nan, np.nan, 0.8])
    np.testing.assert_allclose(results["mean_sparsity"], [0.6, np.nan, 0.7])
    np.testing.assert_allclose(results["mean_n_nonempty"], [1, 0, 1.5])


@pytest.mark.parametrize("rule", ["one_se", "paper"])
def test_settings_without_any_component(rule):
    empty = table(([0.0, 0.0], [1.0, 1.0], 0), ([0.0, 0.0], [1.0, 1.0], 0))
    with pytest.warns(SelectionWarning, match="no setting keeps all 2 components nonempty"):
        assert choose(empty, rule, 0.5)[0] == 0


def test_reasons():
    given = table(([0.5, 0.5], [0.9, 0.9], 0.5), ([0.4, 0.4], [0.9, 0.9], 0.6))
    for rule, why in {
        "one_se": "sparsest",
        "error": "lowest held-out error",
        "stability": "most stable",
        "paper": "at least 50% zero",
    }.items():
        reason = choose(given, rule, 0.5)[1]
        assert why in reason
        assert "Dice index over folds 0.50" in reason
    assert "given function" in choose(given, lambda results: 1, 0.5)[1]


def test_the_edge_of_a_grid():
    settings = [{"sparsity": s, "smoothness": w} for s in (0.5, 0.7, 0.9) for w in (0.5, 1.0)]
    assert [edge_of(settings, settings[k]) for k in (1, 2, -1)] == ["lowest", "", "highest"]
    assert edge_of(settings[2:], settings[2]) == "", "two values have no edge"


def test_stability_takes_the_most_reproducible():
    given = table(([0.5, 0.5], [0.5, 0.5], 0.1), ([0.4, 0.4], [0.5, 0.5], 0.9), ([0.3, 0.3], [0.5, 0.5], 0.9))
    assert highest_stability(given) == 1  # the first one wins a tie
    assert highest_stability(table(([0.5, 0.5], [0.5, 0.5], np.nan), ([0.4, 0.4], [0.5, 0.5], 0.0))) == 1


def test_failed_fits():
    nan = np.nan
    # the second fold has failed for all: it does not count; the third has failed for the best alone
    given = table(
        ([0.9, nan, nan], [0.9, 0.9], 1.0),
        ([0.5, nan, 0.5], [0.9, 0.9], 0.5),
        ([0.4, nan, 0.4], [0.9, 0.9], 0.4),
    )
    assert given.n_folds == 2
    assert given.eligible.tolist() == [False, True, True]
    assert [choose(given, rule, 0.5)[0] for rule in RULES] == [1, 1, 1, 1]
    columns = given.results
    assert np.isnan(columns["mean_test_error"]).tolist() == [True, False, False]
    assert columns["rank_test_score"].tolist() == [3, 1, 2]
    with pytest.raises(ValueError, match="no setting was fitted on every fold"):
        choose(table(([0.9, nan], [0.9], 0), ([nan, 0.9], [0.9], 0)), "paper", 0.5)


def test_one_fold_has_no_spread():
    one = table(([0.5], [0.5, 0.5], np.nan), ([0.4], [0.9, 0.9], np.nan))
    for rule in ("error", "paper"):
        index, reason = choose(one, rule, 0.5)
        assert index == 0
        assert reason.endswith("no second fold to compare with")
    for rule in ("one_se", "stability"):
        with pytest.raises(ValueError, match=f"rule='{rule}' needs the scores of at least two folds"):
            choose(one, rule, 0.5)


def test_a_rule_of_ones_own():
    given = table(([0.5, 0.5], [0.9, 0.3], 0), ([0.4, 0.4], [0.0, 0.5], 0))
    assert choose(given, lambda results: int(np.argmin(results["mean_sparsity_1"])), 0.5)[0] == 1
    with pytest.raises(ValueError, match=r"from 0 to 1; got 7"):
        choose(given, lambda results: 7, 0.5)
    with pytest.raises(ValueError, match="unknown rule 'best'"):
        choose(given, "best", 0.5)
