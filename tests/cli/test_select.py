"""`spca-tv select`: the same numbers as the library, files that others can read, and one-line complaints."""

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import joblib
import numpy as np
import pytest
from cli_files import listing, read_tsv
from numpy.testing import assert_allclose, assert_array_equal
from select_files import SMALL, assert_same_results, small_but
from threadpoolctl import threadpool_limits

from spcatv import SPCATV
from spcatv.cli import main, select
from spcatv.cli.app import build_parser
from spcatv.cli.display import LiveDisplay
from spcatv.estimator.verdicts import verdict_lines
from spcatv.progress import StageAdvanced, StageStarted
from spcatv.results import ResultsError, read_results
from spcatv.results.layout import SELECTION, column_description
from spcatv.selection import SPCATVCV, count_components, cross_validation
from spcatv.stability import bootstrap_components, split_halves
from spcatv.structure import grid

ALPHAS = (0.1, 0.4)
EXTRA_TABLES = ("selection", "regions", "halves")
RATIOS = {"l1_ratio": (0.25,), "tv_ratio": (0.25, 0.5)}


@pytest.fixture
def visits(tmp_path):
    """Two visits of each of eight subjects, in a table."""
    file = tmp_path / "visits.tsv"
    file.write_text("subject\tage\n" + "".join(f"s{row % 8}\t{20 + row}\n" for row in range(16)))
    return file


def library_search(X, groups=None, **options):
    search = SPCATVCV(2, structure=grid((12, 10)), alpha=ALPHAS, **RATIOS, cv=4, random_state=0)
    return search.set_params(**options).fit(X, groups=groups)


def test_same_as_the_library(array, tmp_path, done):
    out = tmp_path / "out"
    said = done("select", "--array", array, *SMALL, "--output", out)
    X = np.load(array)
    search = library_search(X)
    results = search.cv_results_
    rows = read_tsv(out / "desc-SPCATV_selection.tsv")
    assert set(rows[0]) == set(results) - {"params"}
    for name in set(rows[0]) - {"mean_fit_time"}:
        assert_array_equal([float(row[name]) for row in rows], results[name], err_msg=name)
    choice = json.loads((out / "desc-SPCATV_selection.json").read_text())
    assert choice["best_index"] == search.best_index_
    assert choice["best_params"] == search.best_params_
    assert (choice["rule"], choice["n_folds"]) == ("one_se", 4)
    assert choice["reason"] == search.choice_reason_
    assert all(choice[name]["Description"] == column_description(SELECTION, name) for name in rows[0])
    model = SPCATV.load(out / "model")
    assert_array_equal(model.components_, search.best_estimator_.components_)
    assert {name: getattr(model, name) for name in search.best_params_} == search.best_params_
    bootstrap = bootstrap_components(search.best_estimator_, X, n_resamples=6, random_state=0)
    with np.load(out / "stability.npz", allow_pickle=False) as stored:
        for name in ("selection_frequency", "sign_consistency", "dice", "signed_dice", "cosine"):
            assert_array_equal(stored[name], getattr(bootstrap, name), err_msg=name)
    assert re.search(r"Compared 4 settings \(alpha .* to .*\) on 4 folds, chosen: alpha=", said)
    assert f"Why (rule one_se): {search.choice_reason_}; held-out error " in said
    assert "Resampled 6 times: mean Dice index by component" in said
    halves = split_halves(search.best_estimator_, X, n_splits=2, random_state=0).reproducibility
    for record, row in zip(halves, read_tsv(out / "desc-SPCATV_halves.tsv"), strict=True):
        assert (row["verdict"], row["outline"]) == (record.verdict, record.outline)
        assert int(row["component"]) == record.component + 1
    assert read_results(out).halves == halves
    assert "\n".join(verdict_lines(halves)) in said


def test_what_is_left_behind(array, tmp_path, done):
    out = tmp_path / "out"
    done(
        "fit", "--array", array, *SMALL[:4], "--alpha", "0.1", "--n-splits", "0", "--output", tmp_path / "fit"
    )
    done("select", "--array", array, *SMALL, "--output", out)
    extra = set(listing(out)) - set(listing(tmp_path / "fit"))
    stems = ("desc-frequency_components", "desc-signconsistency_components", "desc-regions_components")
    assert set(listing(tmp_path / "fit")) < set(listing(out))
    assert extra == {
        *(f"{stem}.{suffix}" for stem in stems for suffix in ("npy", "json")),
        *(f"desc-SPCATV_{name}.{suffix}" for name in EXTRA_TABLES for suffix in ("tsv", "json")),
        "stability.npz",
    }
    assert listing(tmp_path) == ["X.npy", "fit", "out"], "no lock, no half of a folder"
    neither = ("--n-bootstraps", "0", "--n-splits", "0")
    done("select", "--array", array, *SMALL, *neither, "--output", out, "--overwrite", "--quiet")
    assert set(listing(out)) - set(listing(tmp_path / "fit")) == {
        "desc-SPCATV_selection.tsv",
        "desc-SPCATV_selection.json",
    }


def test_maps_and_regions_state_the_same(array, tmp_path, done):
    out = tmp_path / "out"
    more = ("--alpha", "0.05", "--min-sparsity", "0", "--output", out)
    done("select", "--array", array, *small_but(*more))
    with np.load(out / "stability.npz", allow_pickle=False) as stored:
        frequency, consistency = stored["selection_frequency"], stored["sign_consistency"]
    assert_array_equal(np.load(out / "desc-frequency_components.npy"), frequency.reshape(2, 12, 10))
    assert_array_equal(np.load(out / "desc-signconsistency_components.npy"), consistency.reshape(2, 12, 10))
    numbers = np.load(out / "desc-regions_components.npy").reshape(2, -1)
    components = np.load(out / "desc-SPCATV_components.npy").reshape(2, -1)
    regions = read_tsv(out / "desc-SPCATV_regions.tsv")
    assert list(regions[0]) == list(json.loads((out / "desc-SPCATV_regions.json").read_text()))
    assert len(regions) >= 4, "weak penalties leave several regions a component"
    for row in regions:
        component = int(row["component"]) - 1
        inside = numbers[component] == int(row["region"])
        assert int(row["n_features"]) == inside.sum()
        assert (np.sign(components[component, inside]) == int(row["sign"])).all()
        assert_allclose(float(row["selection_frequency"]), frequency[component, inside].mean())
        assert 0 <= float(row["bootstrap_frequency"]) <= 1
    assert sum(int(row["n_features"]) for row in regions) == np.count_nonzero(numbers)


def test_any_number_of_workers_gives_the_same(array, tmp_path, done):
    for jobs in ("1", "2"):
        done("select", "--array", array, *SMALL, "--n-jobs", jobs, "--output", tmp_path / jobs)
    assert_same_results(tmp_path / "1", tmp_path / "2")


def test_workers_requested_are_used(array, tmp_path, done, monkeypatch):
    used = []

    def parallel(n_jobs, **options):
        used.append(n_jobs)
        return joblib.Parallel(n_jobs=1, **options)

    monkeypatch.setattr("spcatv.selection.workers.Parallel", parallel)
    done("select", "--array", array, *SMALL, "--n-jobs", "-1", "--output", tmp_path / "out")
    assert used == [-1, -1, -1], "for the folds, the resamples and the halves"


def test_configuration_repeats_the_selection(array, visits, tmp_path, done, monkeypatch):
    groups = ("--groups", f"{visits}:subject", "--rule", "stability", "--seed", "3")
    done("select", "--array", array, *SMALL, *groups, "--output", tmp_path / "first")
    config = tmp_path / "first" / "desc-SPCATV_config.toml"
    settings = tomllib.loads(config.read_text())
    assert settings["groups"] == f"{visits}:subject"
    assert (settings["alpha"], settings["rule"], settings["seed"]) == ([0.1, 0.4], "stability", 3)
    assert "sparsity" not in settings
    assert "spca-tv select --config" in config.read_text()
    monkeypatch.chdir(tmp_path / "first")  # the file does not depend on where one stands
    done("select", "--config", config.name, "--output", tmp_path / "second")
    assert_same_results(tmp_path / "first", tmp_path / "second")


def test_groups_stay_together(array, visits, tmp_path, done):
    out = tmp_path / "out"
    done("select", "--array", array, *SMALL, "--groups", f"{visits}:subject", "--output", out)
    subjects = [f"s{row % 8}" for row in range(16)]
    search = library_search(np.load(array), groups=subjects)
    alone = library_search(np.load(array))
    errors = [float(row["mean_test_error"]) for row in read_tsv(out / "desc-SPCATV_selection.tsv")]
    assert_array_equal(errors, search.cv_results_["mean_test_error"])
    assert not np.array_equal(errors, alone.cv_results_["mean_test_error"])
    bootstrap = bootstrap_components(
        search.best_estimator_, np.load(array), n_resamples=6, random_state=0, groups=subjects
    )
    assert_array_equal(np.load(out / "stability.npz")["selection_frequency"], bootstrap.selection_frequency)


def test_a_grid_of_alpha_for_the_data(array, tmp_path, done):
    more = ("--alpha", "grid", "--n-alphas", "3", "--rule", "paper", "--n-bootstraps", "0")
    done("select", "--array", array, *small_but(*more), "--output", tmp_path / "out")
    search = library_search(np.load(array), alpha="grid", n_alphas=3, rule="paper")
    rows = read_tsv(tmp_path / "out" / "desc-SPCATV_selection.tsv")
    assert_array_equal([float(row["param_alpha"]) for row in rows], search.cv_results_["param_alpha"])
    settings = tomllib.loads((tmp_path / "out" / "desc-SPCATV_config.toml").read_text())
    assert (settings["alpha"], settings["n_alphas"]) == ("grid", 3)
    again = ("--config", tmp_path / "out" / "desc-SPCATV_config.toml", "--output", tmp_path / "again")
    done("select", *again)
    assert (
        read_tsv(tmp_path / "again" / "desc-SPCATV_selection.tsv")[0]["param_alpha"] == rows[0]["param_alpha"]
    )


def test_a_grid_of_sparsity_and_smoothness(array, tmp_path, done):
    out = tmp_path / "out"
    command = ("select", "--shape", "12,10", "--n-components", "2", "--cv", "4", "--n-bootstraps", "0")
    # the values of an option end where the next option begins
    grid_options = ("--sparsity", "0.5", "0.8", "--smoothness", "0.1", "1", "--rule", "error")
    said = done(*command, *grid_options, "--array", array, "--output", out)
    targets = {"sparsity": (0.5, 0.8), "smoothness": (0.1, 1.0), "rule": "error"}
    search = SPCATVCV(2, structure=grid((12, 10)), cv=4, random_state=0, **targets).fit(np.load(array))
    rows = read_tsv(out / "desc-SPCATV_selection.tsv")
    assert set(rows[0]) == set(search.cv_results_) - {"params"}
    for name in set(rows[0]) - {"mean_fit_time"}:
        assert_array_equal([float(row[name]) for row in rows], search.cv_results_[name], err_msg=name)
    model = SPCATV.load(out / "model")
    assert_array_equal(model.components_, search.components_)
    assert (model.alpha, model.sparsity) == (None, search.best_params_["sparsity"])
    settings = tomllib.loads((out / "desc-SPCATV_config.toml").read_text())
    assert (settings["sparsity"], settings["smoothness"]) == ([0.5, 0.8], [0.1, 1.0])
    assert not {"alpha", "l1_ratio", "n_alphas", "min_sparsity"} & set(settings)
    assert re.search(r"Compared 4 settings \(sparsity .* to .*\) on 4 folds, chosen: sparsity=", said)
    assert "Why (rule error): lowest held-out error; mean Dice index over folds " in said
    assert "held-out error 0.0 % above the lowest" in said


def test_without_neighbours_there_are_no_regions(array, tmp_path, done):
    command = ("--alpha", "0.2", "--tv-ratio", "0", "--l1-ratio", "0.5", "--n-components", "1")
    done("select", "--array", array, *command, "--n-bootstraps", "2", "--output", tmp_path / "out")
    assert "stability.npz" in listing(tmp_path / "out")
    assert not [name for name in listing(tmp_path / "out") if "regions" in name]


def test_a_failing_fold_is_named_and_the_rest_stands(array, tmp_path, monkeypatch, capsys):
    fit = cross_validation.PathFitter.fit

    def fail_once(fitter, setting, **options):
        if (
            setting["alpha"] == 0.4
            and setting["tv_ratio"] == 0.5
            and fitter.data.shape[0] == 12
            and not failed
        ):
            failed.append(setting)
            raise FloatingPointError("overflow in a fold")
        return fit(fitter, setting, **options)

    failed = []
    monkeypatch.setattr(cross_validation.PathFitter, "fit", fail_once)
    with threadpool_limits(1):  # the first fold fails, and not the one that is reached first
        assert main(["select", "--array", str(array), *SMALL, "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.startswith("spca-tv: warning: 1 fit failed and is left out (fold 1, --alpha 0.4, ")
    assert "FloatingPointError: overflow in a fold" in said
    rows = read_tsv(tmp_path / "out" / "desc-SPCATV_selection.tsv")
    assert [row["split0_test_error"] for row in rows].count("n/a") == 1
    assert [row["mean_test_error"] for row in rows].count("n/a") == 1


def test_failure_of_everything_is_one_line(array, tmp_path, monkeypatch, capsys):
    def fail(*args, **options):
        raise FloatingPointError("overflow")

    monkeypatch.setattr(cross_validation.PathFitter, "fit", fail)
    assert main(["select", "--array", str(array), *SMALL, "--output", str(tmp_path / "new" / "out")]) == 1
    said = capsys.readouterr().err
    assert said.startswith("spca-tv: error: every fit failed; the first: fold 1")
    assert said.count("\n") == 1
    assert listing(tmp_path) == ["X.npy"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--alpha", "0.1", "0"), "--alpha must be above 0"),
        (("--alpha", "most"), None),
        (("--alpha", "0"), "--alpha must be above 0"),
        (("--cv", "1"), None),
        (("--rule", "best"), None),
        (("--n-jobs", "0"), None),
        (("--sparsity", "0.9"), "give either --sparsity or --alpha, not both"),
        (("--l1-ratio", "0.6", "--tv-ratio", "0.6"), "--l1-ratio + --tv-ratio must be below 1"),
        (("--l1-ratio", "0", "0.1", "--alpha", "grid"), "--l1-ratio is 0"),
        (("--min-sparsity", "2"), "--min-sparsity is a share of zeros, from 0 to 1; got 2"),
        (("--cv", "17"), "--cv 17 does not go with 16 samples"),
        (("--groups", "subject"), "as in --groups participants.tsv:subject"),
        (("--groups", "nothing.tsv:subject"), "cannot read the table nothing.tsv"),
        (("--groups", "{visits}:site"), "has no column 'site'; it has subject, age"),
        (("--cv", "9", "--groups", "{visits}:subject"), "--cv 9 does not go with 16 samples"),
        (("--scheduler", "somewhere"), "--scheduler somewhere is not an address with a port"),
        (("--shape", "12,11"), "has 120 values per sample, but the field has 12 x 11 = 132 cells"),
    ],
)
def test_wrong_options_leave_nothing(change, message, array, visits, tmp_path, refused, capsys):
    words = [word.format(visits=visits) for word in change]
    command = ["select", "--array", array, *small_but(*words), "--output", tmp_path / "new" / "out"]
    if message is None:
        with pytest.raises(SystemExit) as stop:
            main([str(word) for word in command])
        assert stop.value.code == 2
        assert change[0] in capsys.readouterr().err
    else:
        assert message in refused(*command)
    assert listing(tmp_path) == ["X.npy", "visits.tsv"]


def test_targets_that_cannot_be(array, tmp_path, refused):
    command = ["select", "--array", array, "--n-components", "2", "--output", tmp_path / "out"]
    assert "--smoothness must not be negative" in refused(*command, "--smoothness", "-1")
    assert "--rule paper chooses among values of alpha" in refused(*command, "--rule", "paper")
    assert "--l1-ratio goes with --alpha" in refused(*command, "--l1-ratio", "0.1")


def test_labels_of_groups_must_fit(array, tmp_path, refused):
    table = tmp_path / "t.tsv"
    command = ["select", "--array", array, *SMALL, "--groups", f"{table}:s", "--output", tmp_path / "out"]
    table.write_text("s\n" + "a\n" * 15)
    assert f"{table}: has 15 rows, but there are 16 samples" in refused(*command)
    table.write_text("s\tage\n" + "a\t1\n" * 15 + "n/a\t1\n")
    assert "the value of s in row 16 is missing" in refused(*command)


@pytest.mark.parametrize("clean_up_fails", [False, True])
def test_interruption_leaves_nothing_and_states_how_to_run_again(
    clean_up_fails, array, tmp_path, monkeypatch, capsys
):
    def interrupt(*args):
        try:
            raise KeyboardInterrupt
        finally:
            if clean_up_fails:  # as joblib's does where its threads have not yet started
                raise RuntimeError("cannot join thread before it is started")

    monkeypatch.setattr(select, "_select", interrupt)
    assert main(["select", "--array", str(array), "--output", str(tmp_path / "out")]) == 130
    said = capsys.readouterr().err
    assert f"To start again: spca-tv select --array {array} --output {tmp_path / 'out'}" in said
    assert listing(tmp_path) == ["X.npy"]


AT_WORK = """
import os, signal, sys
from spcatv.cli import main, select

def solver(problem, **options):
    os.write(2, b"at work\\n")  # in one piece: the lines of two processes must not mix
    signal.pause()

search = select.SPCATVCV
select.SPCATVCV = lambda **options: search(**{**options, "solver": solver})
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
def test_real_interruption_of_processes_at_work(array, tmp_path):
    """Two worker processes print that they are at work, and never end by themselves."""
    command = [sys.executable, "-c", AT_WORK, "select", "--array", str(array), *SMALL, "--n-jobs", "2"]
    process = subprocess.Popen(
        [*command, "--output", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True
    )
    at_work = (line for line in process.stderr if line == "at work\n")
    assert len(list(itertools.islice(at_work, 2))) == 2, "the work has ended before there were workers"
    process.send_signal(signal.SIGTERM)
    said = process.communicate()[1]
    assert process.returncode == 130, said
    assert "interrupted; nothing was written" in said
    assert listing(tmp_path) == ["X.npy"]


def test_verbose_reports_every_chain(array, tmp_path, capsys):
    command = ["select", "--array", str(array), *SMALL, "--n-bootstraps", "0", "-v", "--output"]
    assert main([*command, str(tmp_path / "out")]) == 0
    lines = [line[len("hh:mm:ss ") :] for line in capsys.readouterr().err.splitlines()]
    assert "Comparing settings: 8 chains of fits" in lines
    told = [line for line in lines if line.startswith("chain ")]
    assert len(told) == 8
    assert told[-1].startswith("chain 8 of 8: fold 4, --l1-ratio 0.25, --tv-ratio 0.5")


def test_fit_by_the_share_of_zeros(array, tmp_path, done, refused):
    command = ("fit", "--array", array, "--shape", "12,10", "--n-components", "2")
    done(*command, "--sparsity", "0.5,0.6", "--smoothness", "0.1", "--output", tmp_path / "each")
    each = SPCATV.load(tmp_path / "each" / "model")
    assert_allclose(np.mean(each.components_ == 0, axis=1), [0.5, 0.6], atol=0.05)
    line = refused(*command, "--alpha", "0.1", "--sparsity", "0.9", "--output", tmp_path / "out")
    assert "give either --sparsity or --alpha, not both" in line


def test_live_line_counts_chains(array, tmp_path):
    rich_console = pytest.importorskip("rich.console", reason="the live line is drawn by rich")
    console = rich_console.Console(file=io.StringIO(), force_terminal=True, width=160, record=True)
    with LiveDisplay(console) as display:
        display.hear(StageStarted("Comparing settings", total=8))
        for number in range(3):
            display.hear(StageAdvanced(f"chain {number + 1} of 8: fold {number + 1}"))
        assert (display._bar.tasks[0].completed, display._bar.tasks[0].total) == (3, 8)
        display._bar.refresh()
        display.hear(StageStarted("Resampling 50 times"))
        assert [(task.description, task.total) for task in display._bar.tasks] == [
            ("Resampling 50 times", None)
        ]
        display._bar.refresh()
    shown = console.export_text()
    assert "Comparing settings" in shown
    assert "chain 3 of 8" in shown
    assert "Resampling 50 times" in shown


@pytest.mark.parametrize(
    ("command", "name", "text", "value", "toml"),
    [
        ("select", "alpha", "grid", "grid", "grid"),
        ("select", "alpha", "0.5", (0.5,), [0.5]),
        ("select", "smoothness", "1 2", (1.0, 2.0), [1, 2]),
        ("fit", "sparsity", "0.9", 0.9, 0.9),
        ("fit", "smoothness", "1", 1.0, [1]),
        ("fit", "sparsity", "0.9,0.5", (0.9, 0.5), "0.9,0.5"),
        ("fit", "shape", "3,4", (3, 4), [3, 4]),
        ("fit", "surface", "lh -", (Path("lh"), "-"), ["lh", "-"]),
        ("select", "groups", "a.tsv:s", (Path("a.tsv"), "s"), "a.tsv:s"),
        ("select", "groups", "site:visit", (None, "site:visit"), "site:visit"),
        ("select", "groups", "C:\\a.csv:s", (Path("C:\\a.csv"), "s"), "C:\\a.csv:s"),
        ("fit", "n_jobs", "-1", -1, -1),
    ],
)
def test_values_on_the_command_line_and_in_a_file(command, name, text, value, toml):
    parsed = build_parser().parse_args([command, f"--{name.replace('_', '-')}", *text.split()])
    assert getattr(parsed, name) == parsed.options[name].check(toml) == value


def test_the_number_of_components_is_chosen_first(array, tmp_path, done, refused):
    """Two patches vary: both commands keep two components, and write what was compared."""
    options = ("--shape", "12,10", "--n-components", "auto", "--output")
    quick = ("--n-splits", "0", "--sparsity", "0.8", "--smoothness", "0.1")
    expected = count_components(SPCATV(structure=(12, 10)), np.load(array))
    for command in (("fit",), ("select", "--n-bootstraps", "0")):
        out = tmp_path / command[0]
        said = done(*command, "--array", array, *quick, *options, out)
        assert len(np.load(out / "desc-SPCATV_components.npy")) == expected.n_components == 2
        assert f"Number of components: 2. {expected.reason}" in said
        read = read_results(out).count
        assert_allclose(read.share, expected.share)
        assert read.reason == expected.reason
        config = tomllib.loads((out / "desc-SPCATV_config.toml").read_text())
        assert config["n_components"] == "auto"
    plain = ("fit", "--array", array, "--shape", "12,10", "--output", tmp_path / "other")
    auto = (*plain, "--n-components", "auto")
    assert "--max-components goes with --n-components auto" in refused(*plain, "--max-components", "4")
    assert "one --sparsity for all" in refused(*auto, "--sparsity", "0.7,0.8")
    (out / "desc-SPCATV_count.tsv").write_text("component\n1\n")
    with pytest.raises(ResultsError, match=r"count\.tsv: has no column share"):
        read_results(out)
