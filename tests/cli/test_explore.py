"""`spca-tv explore` and `select --explore`: the page, and the commands that it shows."""

import json
import re
import shlex

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spcatv import SPCATV, SPCATVCV
from spcatv.cli.app import build_parser
from spcatv.cli.config import command_line, effective_options
from spcatv.results.layout import EXPLORER

pytest.importorskip("jinja2", reason="pages need the extra `report`")

GRID = ("--sparsity", "0.7", "0.9", "--smoothness", "0.5", "1")
SMALL = ("--shape", "12,10", "-k", "2", *GRID, "--cv", "3", "--n-splits", "1")


def data_of(folder):
    text = (folder / EXPLORER).read_text("utf-8")
    return json.loads(re.search(r'id="report-data">(.*?)</script>', text).group(1)), text


def test_explore_writes_the_page_and_the_results_of_its_choice(array, tmp_path, done):
    out = tmp_path / "out"
    said = done("explore", "--array", array, *SMALL, "--title", "Twelve by ten", "--output", out)
    assert f"Explorer: {out / EXPLORER}" in said
    assert not (out / "stability.npz").exists()
    search = SPCATVCV(2, structure=(12, 10), sparsity=[0.7, 0.9], smoothness=[0.5, 1.0], cv=3, random_state=0)
    search.fit(np.load(array))
    data, text = data_of(out)
    assert "<h1>Twelve by ten</h1>" in text
    chosen = data["settings"][data["recommended"]]["name"]
    assert (
        chosen
        == f"sparsity {search.best_params_['sparsity']:g}, smoothness {search.best_params_['smoothness']:g}"
    )
    assert_allclose(SPCATV.load(out / "model").components_, search.best_estimator_.components_)
    # the results are those of a selection, for every other command
    done("report", out, "--quiet")


def test_the_commands_of_the_page_make_its_maps(array, tmp_path, done):
    out = tmp_path / "out"
    done("explore", "--array", array, *SMALL, "--regress-global", "--output", out, "--quiet")
    data, _ = data_of(out)
    setting = data["settings"][1]
    program, *words = shlex.split(setting["commands"]["command-0"])
    assert program == "spca-tv"
    assert {"--array", "--shape", "--regress-global"} <= set(words)
    done(*words, "--quiet")
    model = SPCATV.load(tmp_path / "out-0.9-0.5" / "model")
    assert (model.sparsity, model.smoothness) == (0.9, 0.5)
    names = {"X": np.load(array), "structure": (12, 10)}
    exec(setting["commands"]["command-1"], names)
    assert_allclose(names["model"].components_, model.components_)
    variances = [float(re.search(r"explain ([\d.]+)", text).group(1)) for text in setting["sentences"]]
    assert_allclose(sum(variances), 100 * model.explained_variance_ratio_.sum(), rtol=1e-2)


def test_commands_for_images(volumes, tmp_path, done):
    out = tmp_path / "out"
    pattern = str(volumes / "*.nii.gz")
    mask = str(tmp_path / "mask.nii.gz")
    done("explore", pattern, "--mask", mask, *SMALL[2:], "--output", out, "--quiet")
    commands = data_of(out)[0]["settings"][0]["commands"]
    words = shlex.split(commands["command-0"])
    assert words[:3] == ["spca-tv", "fit", pattern]
    assert "--dtype" not in words
    assert f"mask={mask!r}" in commands["command-1"]
    assert commands["command-1"].endswith(f"sparsity=0.7, smoothness=0.5).fit({pattern!r})")


def test_select_adds_the_page(array, tmp_path, done, refused):
    out = tmp_path / "out"
    done("select", "--array", array, *SMALL, "--n-bootstraps", "0", "--explore", "--output", out, "--quiet")
    assert len(data_of(out)[0]["settings"]) == 4
    assert (out / "desc-SPCATV_halves.tsv").exists()
    words = ("--array", array, "--shape", "12,10", "--alpha", "0.1", "--explore", "--output", tmp_path / "no")
    assert "--alpha" in refused("select", *words)


def test_words_of_every_kind_of_option_are_restored():
    words = ["explore", "a.nii", "b c.nii", "--surface", "lh.white", "-", "--run-confounds", "motion,wm_csf"]
    words += ["--exclude", "sub-01", "sub-02", "--no-center", "--detrend", "--high-pass", "0.01", "-o", "out"]
    words += ["--confounds", "x.tsv", "--confounds-columns", "age,sex", "--groups", "x.tsv:site"]
    parser = build_parser()

    def options_of(given):
        arguments = parser.parse_args(given)
        arguments.command = given[0]
        return effective_options(arguments)

    options = options_of(words)
    table = parser.commands["fit"].options
    changes = {"sparsity": 0.7, "smoothness": 1.0, "n_components": 3, "n_splits": None, "output": "new one"}
    program, *again = shlex.split(command_line(options, table, "fit", changes))
    assert program == "spca-tv"
    back = options_of(again)
    kept = set(table) & set(vars(options)) - set(changes)
    assert {name: getattr(back, name) for name in kept} == {name: getattr(options, name) for name in kept}
    assert back.images == options.images
    assert (back.sparsity, back.smoothness, str(back.output)) == (0.7, 1.0, "new one")
    assert "--groups" not in again
