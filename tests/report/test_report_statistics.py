"""Scores against a variable and groups: SciPy as a second opinion, and simulations under the null."""

import numpy as np
import pytest
from scipy import stats

from spcatv import SPCATV
from spcatv.report import Column, formatting, generate_report, statistics
from spcatv.report.statistics import correlations, differences, exchange_of, hedges

N, K = 40, 3


def pearson_of(found):
    return found.effects["Pearson’s r"]


def rank_of(found):
    return found.effects["Spearman’s ρ"]


def own_names(n=N):
    return [f"map{number}.nii" for number in range(n)]


@pytest.fixture
def few(monkeypatch):
    """So few permutations that hundreds of tests take a moment."""
    monkeypatch.setattr(statistics, "MOST_PERMUTATIONS", 199)
    monkeypatch.setattr(statistics, "FEWEST_PERMUTATIONS", 199)


@pytest.fixture
def scores():
    return np.random.default_rng(0).standard_normal((N, K))


def test_correlations_agree_with_scipy(scores):
    age = 0.5 * scores[:, 1] + np.random.default_rng(1).standard_normal(N)
    found = correlations(scores, own_names(), [*age[:-1], np.nan])
    assert found.n == (N - 1,)
    for k in range(K):
        pearson, rank = stats.pearsonr(scores[:-1, k], age[:-1]), stats.spearmanr(scores[:-1, k], age[:-1])
        np.testing.assert_allclose(pearson_of(found).value[k], pearson.statistic)
        np.testing.assert_allclose(pearson_of(found).interval[k], pearson.confidence_interval())
        np.testing.assert_allclose(rank_of(found).value[k], rank.statistic)
        # the ratio of r to a standard error that allows for unequal spread is about normal
        x, y = stats.zscore(scores[:-1, k]), stats.zscore(age[:-1])
        ratio = np.abs(x @ y) / np.sqrt(x**2 @ y**2)
        np.testing.assert_allclose(pearson_of(found).p[k], 2 * stats.norm.sf(ratio), atol=0.03)
        np.testing.assert_allclose(rank_of(found).p[k], rank.pvalue, atol=0.05)
    assert (pearson_of(found).corrected >= pearson_of(found).p).all()
    again = correlations(scores, own_names(), [*age[:-1], np.nan])
    assert (again.main.p == pearson_of(found).p).all(), "seeded"


def test_p_values_agree_with_all_permutations():
    """Six samples: SciPy runs through all 720 orders."""
    rng = np.random.default_rng(3)
    scores, age = rng.standard_normal((6, 1)), rng.standard_normal(6)
    columns = scores[:, 0] - scores.mean()

    def studentised(x):
        across = x - x.mean()
        return abs(across @ columns) / np.sqrt(across**2 @ columns**2)

    exact = stats.permutation_test(
        (age,),
        studentised,
        permutation_type="pairings",
        alternative="greater",
        n_resamples=np.inf,
    )
    found = correlations(scores, own_names(6), age)
    assert pearson_of(found).p[0] == pytest.approx(exact.pvalue, abs=0.02)


def test_two_groups_agree_with_scipy(scores):
    label = ["patient" if k % 3 else "control" for k in range(N)]
    scores[:, 0] += [0.8 * (name == "patient") for name in label]
    found = differences(scores, own_names(), label)
    patient = np.array(label) == "patient"
    assert (found.groups, found.n) == (("control", "patient"), ((~patient).sum(), patient.sum()))
    for k in range(K):
        welch = stats.ttest_ind(scores[patient, k], scores[~patient, k], equal_var=False)
        np.testing.assert_allclose(found.effects["Difference"].interval[k], welch.confidence_interval())
        np.testing.assert_allclose(found.main.p[k], welch.pvalue)
    assert found.effects["Hedges’ g"].interval[0, 0] > 0
    assert found.main.corrected[0] < 0.05 < found.main.corrected[1]


def test_interval_of_hedges_g_contains_the_effect_as_often_as_it_states():
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((8, 4000)), 0.8 + rng.standard_normal((12, 4000))
    pooled = np.sqrt((7 * first.var(axis=0, ddof=1) + 11 * second.var(axis=0, ddof=1)) / 18)
    g, ends = hedges((second.mean(axis=0) - first.mean(axis=0)) / pooled, 18, np.sqrt(8 * 12 / 20))
    inside = (ends[:, 0] <= 0.8) & (ends[:, 1] >= 0.8)
    assert abs(inside.mean() - 0.95) < 0.012
    assert abs(g.mean() - 0.8) < 0.03, "unbiased"
    mirrored, mirrored_ends = hedges(np.array([-0.7]), 18, 2.0)
    straight, straight_ends = hedges(np.array([0.7]), 18, 2.0)
    np.testing.assert_allclose(mirrored, -straight)
    np.testing.assert_allclose(mirrored_ends, -straight_ends[:, ::-1])


@pytest.mark.parametrize("sizes", [(10, 40), (10, 20, 30)])
def test_groups_of_unequal_size_and_variance_are_no_finding(sizes):
    """Welch's test keeps its level, where F would find a difference in a fifth of the tests."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    n_tests = 1000
    scores = np.random.default_rng(0).standard_normal((sum(sizes), n_tests)) * (3.0 - groups)[:, None]
    found = differences(scores, own_names(sum(sizes)), groups)
    # four standard errors
    assert np.mean(found.main.p <= 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / n_tests)


def test_a_spread_that_grows_with_the_variable_is_no_correlation(few):
    rng = np.random.default_rng(0)
    age, n_tests = rng.standard_normal(60), 1000
    found = correlations(rng.standard_normal((60, n_tests)) * np.abs(age)[:, None], own_names(60), age)
    # plain permutations would find one in a fourth of the tests; these are valid for large samples only
    assert np.mean(pearson_of(found).p <= 0.05) < 0.09


def test_more_groups_agree_with_scipy(scores):
    label = np.arange(N) % 4
    scores[:, 2] += label
    found = differences(scores, own_names(), label)
    assert list(found.effects) == ["η²"]
    for k in range(K):
        samples = [scores[label == group, k] for group in range(4)]
        f = stats.f_oneway(*samples).statistic
        np.testing.assert_allclose(found.effects["η²"].value[k], 3 * f / (3 * f + N - 4))
        np.testing.assert_allclose(found.main.p[k], stats.alexandergovern(*samples).pvalue, atol=0.02)


def test_the_same_people_in_both_groups_are_compared_within():
    rng = np.random.default_rng(5)
    who = np.repeat(np.arange(12), 2)
    scores = 5 * rng.standard_normal((12, 1))[who] + 0.3 * rng.standard_normal((24, 1))
    scores[1::2] += 0.5
    names = [f"sub-{person:02d}_task-{k % 2}_map.nii" for k, person in enumerate(who)]
    label = ["rest", "task"] * 12
    found = differences([*scores, [99.0]] @ np.eye(1), [*names, "sub-99_task-0_map.nii"], [*label, "rest"])
    assert (found.paired, found.n) == (True, (12, 12)), "who has one group only is left out"
    paired = stats.ttest_rel(scores[1::2, 0], scores[::2, 0])
    np.testing.assert_allclose(found.effects["Difference"].interval[0], paired.confidence_interval())
    assert found.main.p[0] == pytest.approx(paired.pvalue, abs=0.01)
    assert found.effects["Hedges’ g"].value[0] == pytest.approx(paired.statistic / np.sqrt(12), rel=0.1)


def runs_and_groups(people, n_volumes=1):
    """Names and labels of the volumes of runs; `people` has one string per person, one letter per run."""
    return zip(
        *(
            (f"sub-{person:02d}_run-{run}.nii" + f"[{k}]" * (n_volumes > 1), group)
            for person, groups in enumerate(people)
            for run, group in enumerate(groups)
            for k in range(n_volumes)
        ),
        strict=True,
    )


@pytest.mark.parametrize("n_volumes", [1, 3])
def test_two_runs_of_one_group_are_no_pair(n_volumes):
    names, groups = runs_and_groups(["ab"] * 7 + ["aa"], n_volumes)
    scores = np.random.default_rng(0).standard_normal((len(names), 1))
    found = differences(scores, names, groups)
    assert (found.n, found.paired) == ((7, 7), True)
    runs = scores.reshape(8, 2, n_volumes).mean(axis=2)
    paired = stats.ttest_rel(*runs[:7, ::-1].T)
    np.testing.assert_allclose(found.effects["Difference"].value[0], (runs[:7, 1] - runs[:7, 0]).mean())
    np.testing.assert_allclose(found.effects["Difference"].interval[0], paired.confidence_interval())
    assert " 1 " in found.how, "one person is left out"


@pytest.mark.parametrize("n_volumes", [1, 3])
def test_several_runs_of_both_groups_are_averaged(n_volumes):
    names, groups = runs_and_groups(["abab", "baba"] * 4, n_volumes)
    scores = np.random.default_rng(1).standard_normal((len(names), 2))
    found = differences(scores, names, groups)
    assert (found.n, found.paired) == ((8, 8), True)
    means = scores.reshape(8, 2, 2, n_volumes, 2).mean(axis=(1, 3))
    change = means[:, 1] - means[:, 0]
    change[1::2] *= -1
    np.testing.assert_allclose(found.effects["Difference"].value, change.mean(axis=0))


@pytest.fixture
def centred_runs():
    """Ten people with two runs of 30 volumes, whose means are zero."""
    rng = np.random.default_rng(4)
    scores = rng.standard_normal((10, 2, 30, K))
    scores[..., 0] *= np.arange(1, 11)[:, None, None]
    scores -= scores.mean(axis=2, keepdims=True)
    deviations = scores.std(axis=2).mean(axis=1)
    scores += 1e-7 * rng.standard_normal((10, 1, 1, K))
    names, _ = runs_and_groups(["aa"] * 10, 30)
    return scores.reshape(-1, K), names, deviations


def test_means_that_are_rounding_are_not_compared(centred_runs):
    """The standard deviations of the runs are compared instead, and this is said."""
    scores, names, deviations = centred_runs
    age = np.array([31.0, 28.0, 36.0, 41.0, 33.0, 52.0, 49.0, 55.0, 68.0, 61.0])
    found = correlations(scores, names, np.repeat(age, 60))
    expected = [stats.pearsonr(deviations[:, k], age).statistic for k in range(K)]
    np.testing.assert_allclose(pearson_of(found).value, expected, rtol=1e-5)
    assert "standard deviations" in found.measure
    assert "rounding" in found.how
    sick = np.array([0, 1] * 5)
    groups = differences(scores, names, np.repeat(sick, 60))
    difference = deviations[sick == 1].mean(axis=0) - deviations[sick == 0].mean(axis=0)
    np.testing.assert_allclose(groups.effects["Difference"].value, difference, rtol=1e-5)
    assert "standard deviations" in groups.measure
    # conditions that differ within runs have means
    rest = np.tile(["rest", "task"], 300)
    assert differences(scores, names, rest).measure == "scores"


def test_a_component_whose_means_are_rounding_is_not_tested_beside_others(centred_runs):
    scores, names, _ = centred_runs
    scores[:, 1] += np.repeat(np.arange(10.0), 60)
    found = correlations(scores, names, np.repeat(np.arange(10.0), 60))
    assert pearson_of(found).value[1] == pytest.approx(1)
    assert np.isnan(pearson_of(found).value[[0, 2]]).all()
    assert found.measure == "scores"
    assert "rounding" in found.how


def test_pairs_that_are_too_few_for_a_small_p_value_are_reported(scores):
    """Of 4 ways to sign 3 differences, counted without regard to sign, one is the observed one."""
    names = [f"sub-{k // 2}_run-{k % 2}_map.nii" for k in range(6)]
    found = differences(scores[:6], names, ["a", "b"] * 3)
    assert "no p-value can be below 0.25" in found.how
    assert found.main.p.min() > 0.23


def ar1(rng, n_runs, length, n_columns):
    """Autocorrelated series, run after run, shape (n_runs * length, n_columns)."""
    noise = rng.standard_normal((n_runs, length + 40, n_columns))
    for k in range(1, length + 40):
        noise[:, k] += 0.8 * noise[:, k - 1]
    return noise[:, 40:].reshape(-1, n_columns)


def null_free(rng):
    return correlations(rng.standard_normal((16, 4)), own_names(16), rng.exponential(size=16)).main


def null_ranks(rng):
    return rank_of(correlations(rng.standard_normal((16, 4)), own_names(16), rng.exponential(size=16)))


def null_repeated(rng):
    """Several samples of every participant, who differ; the variable is theirs."""
    who = np.repeat(np.arange(10), rng.integers(1, 6, 10))
    scores = 3 * rng.standard_normal((10, 4))[who] + rng.standard_normal((len(who), 4))
    names = [f"sub-{person}_ses-{k}_map.nii" for k, person in enumerate(who)]
    return correlations(scores, names, rng.standard_normal(10)[who]).main


def null_within(rng):
    """A variable of the samples; participants differ in both."""
    who = np.repeat(np.arange(6), 4)
    scores = 3 * rng.standard_normal((6, 4))[who] + rng.standard_normal((24, 4))
    names = [f"sub-{person}_ses-{k}_map.nii" for k, person in enumerate(who)]
    return correlations(scores, names, 3 * rng.standard_normal(6)[who] + rng.standard_normal(24)).main


def null_series(rng):
    """A variable that is autocorrelated, as the scores are."""
    names = [f"run{number}.nii[{k}]" for number in range(3) for k in range(50)]
    return correlations(ar1(rng, 3, 50, 4), names, ar1(rng, 3, 50, 1)[:, 0]).main


def null_groups(rng):
    return differences(rng.standard_normal((20, 4)), own_names(20), np.arange(20) < 6).main


def null_more_groups(rng):
    return differences(rng.standard_normal((20, 4)), own_names(20), np.arange(20) % 3).main


def null_paired(rng):
    """Volumes of every run are alike within a condition: only the runs count."""
    run, condition = np.repeat(np.arange(8), 6), np.tile([0, 0, 1, 1, 1, 0], 8)
    scores = 2 * rng.standard_normal((8, 2, 4))[run, condition] + rng.standard_normal((48, 4))
    names = [f"run{number}.nii[{k % 6}]" for k, number in enumerate(run)]
    return differences(scores, names, condition).main


NULLS = [
    null_free,
    null_ranks,
    null_repeated,
    null_within,
    null_series,
    null_groups,
    null_more_groups,
    null_paired,
]


@pytest.mark.no_cover
@pytest.mark.parametrize("null", NULLS)
def test_p_values_are_uniform_and_corrected_ones_control_the_family(few, null):
    rng = np.random.default_rng(11)
    n_trials = 200
    found = [null(rng) for _ in range(n_trials)]
    alone = np.array([effect.p for effect in found])
    for level in (0.05, 0.2, 0.5):
        # the four components of a trial are independent
        allowed = 3.5 * np.sqrt(level * (1 - level) / alone.size) + 0.01
        assert abs((alone <= level).mean() - level) < allowed + 0.02 * (null in (null_series, null_paired))
    family = np.mean([effect.corrected.min() <= 0.05 for effect in found])
    assert family < 0.05 + 3.5 * np.sqrt(0.05 * 0.95 / n_trials)
    assert np.mean([effect.p.min() <= 0.05 for effect in found]) > 0.1, "without correction it is not"


def test_volumes_of_one_run_are_not_tested(few):
    """Freely permuted, autocorrelated series correlate far too often; a single run leaves nothing else."""
    rng = np.random.default_rng(2)
    free = [correlations(ar1(rng, 1, 50, 1), own_names(50), ar1(rng, 1, 50, 1)[:, 0]) for _ in range(100)]
    assert np.mean([pearson_of(found).p[0] <= 0.05 for found in free]) > 0.15
    volumes = [f"run.nii[{k}]" for k in range(50)]
    assert isinstance(correlations(ar1(rng, 1, 50, 1), volumes, np.arange(50)), str)
    assert isinstance(differences(ar1(rng, 1, 50, 1), volumes, np.arange(50) > 24), str)


def test_what_is_averaged_and_exchanged():
    sessions = [f"sub-{person}/ses-{k}/map.nii" for person in "ab" for k in range(3)]
    volumes = [f"sub-{person}_run-{run}.nii[{k}]" for person in "ab" for run in (1, 2) for k in range(4)]
    cases = [
        (own_names(4), [1, 2, 3, 4], False, 4, None, False),
        (sessions, [1, 1, 1, 2, 2, 2], False, 2, None, False),
        (sessions, [1, 2, 3, 4, 5, 6], False, 6, [0, 0, 0, 1, 1, 1], False),
        (volumes, [1] * 8 + [2] * 8, False, 2, None, False),
        (volumes, np.repeat([1, 2, 3, 4], 4).tolist(), False, 4, [0, 0, 1, 1], False),
        (volumes, list(range(16)), False, 16, np.repeat([0, 1, 2, 3], 4), True),
        (volumes, ["rest", "task"] * 8, True, 4, [0, 0, 1, 1], False),
    ]
    for names, values, labels, n_units, block, shift in cases:
        found = exchange_of(names, values, labels=labels)
        assert (found.unit.max() + 1, found.shift) == (n_units, shift)
        assert (found.block is None) == (block is None)
        if block is not None:
            np.testing.assert_array_equal(found.block, block)
        assert bool(found.sentence) == (names[0] != "map0.nii"), "what is not plain is said"


def test_nothing_is_tested_that_cannot_be_and_the_reason_is_reported(scores):
    for variable in (np.ones(N), [1.0, 2.0, 3.0] + [np.nan] * (N - 3)):
        assert isinstance(correlations(scores, own_names(), variable), str)
    assert "3" in correlations(scores, own_names(), [1.0, 2.0, 3.0] + [np.nan] * (N - 3))
    alone = ["alone"] + ["rest"] * (N - 1)
    for groups, told in ((["one"] * N, "one"), (range(N), "40"), (["n/a"] * N, ""), (alone, "alone")):
        reason = differences(scores, own_names(), groups)
        assert isinstance(reason, str)
        assert told in reason
    once = [f"sub-{k // 2}_run-{k % 2}_map.nii" for k in range(8)]
    assert "1" in differences(scores[:8], once, ["a", "b", "a", "a", "b", "b", "a", "a"])
    scores[:, 1] = 0
    for found in (
        correlations(scores, own_names(), np.arange(N)).main,
        differences(scores, own_names(), np.arange(N) % 2).main,
        differences(scores, own_names(), np.arange(N) % 4).main,
    ):
        assert np.isnan([found.p[1], found.corrected[1]]).all(), "an empty component has no p-value"
        assert np.isfinite([found.p[0], found.corrected[2]]).all()


def test_samples_without_a_label_are_left_out(scores):
    label = ["a", "b"] * (N // 2)
    label[:3] = ["n/a", "", "NaN"]
    found = differences(scores, own_names(), label)
    assert (found.groups, sum(found.n)) == (("a", "b"), N - 3)


@pytest.mark.parametrize(
    ("p", "text"),
    [(0.00001, "< 0.001"), (0.0034, "= 0.003"), (0.0499, "= 0.050"), (0.364, "= 0.36"), (1.0, "= 1.00")],
)
def test_digits_of_p_values(p, text):
    assert formatting.p_value(p).replace("\u00a0", " ") == text


def test_the_page_reports_effects_and_tests(line):
    n = len(line.X)
    scores = line.model.transform(line.X)
    groups = Column("diagnosis", ["patient" if score > 0 else "control" for score in scores[:, 0]])
    html = generate_report(
        line.model, data=line.X, variable=Column("age", scores[:, 1] + np.arange(n)), groups=groups
    ).html.replace("\u00a0", " ")
    assert "What the scores go with" in html
    assert "patient minus control:" in html
    assert "corrected over 2 components" in html
    assert "9,999 random permutations (seed 0)" in html
    assert "Welch’s test" in html
    alone = generate_report(SPCATV(1, structure=(60,)).fit(line.X), data=line.X, groups=np.arange(n) % 3).html
    assert "Share of the variance of the scores between groups by" in alone
    assert "orrected" not in alone, "one component needs no correction"


def test_the_page_reports_why_there_is_no_test(line):
    n = len(line.X)
    html = generate_report(
        line.model, data=line.X, variable=Column("dose", np.ones(n)), groups=Column("site", ["one"] * n)
    ).html
    for name in ("dose", "site"):
        assert f"No test of {name}" in html


def test_the_page_of_centred_runs_compares_deviations(line, centred_runs):
    scores, names, _ = centred_runs
    X = np.outer(scores[:, 0], line.model.components_[0]) + line.model.mean_
    html = generate_report(
        line.model, data=X, names=names, variable=Column("age", np.repeat(np.arange(10.0), 60))
    ).html
    assert "Correlation of the standard deviations of the scores in each run with age:" in html


def test_rows_of_an_array_are_no_volumes_of_a_run():
    rng = np.random.default_rng(0)
    scores, variable = rng.standard_normal((12, 2)), np.arange(12.0)
    assert isinstance(correlations(scores, [f"run.nii.gz[{k}]" for k in range(12)], variable), str)
    assert not isinstance(correlations(scores, [f"X.npy[{k}]" for k in range(12)], variable), str)
