"""From files to an answer: noise is called noise, and what was planted is found again."""

import json

import numpy as np
import pytest

from spcatv.cli import main
from spcatv.report import generate_report
from spcatv.results import read_results

SHAPE = (16, 16)
PLACES = ((2, 2), (2, 9), (9, 5))
SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]


def write_array(file, seed, amplitudes, n_samples=40):
    """White noise, and a square of 4 x 4 cells for every amplitude that varies as a whole."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, *SHAPE))
    for (row, column), amplitude in zip(PLACES, amplitudes, strict=False):
        X[:, row : row + 4, column : column + 4] += amplitude * rng.standard_normal((n_samples, 1, 1))
    np.save(file, X)
    return X


@pytest.fixture
def answer(tmp_path, capsys, usual_splits, monkeypatch):
    """Fit an array, with 90 % zeros, and return what was printed and the results."""
    monkeypatch.setattr("spcatv.cli.pipeline.AUTO_SPLITS", usual_splits)

    def run(seed, amplitudes, *options):
        write_array(tmp_path / "X.npy", seed, amplitudes)
        out = tmp_path / "out"
        words = ("fit", "--array", str(tmp_path / "X.npy"), "--sparsity", "0.9", "--output", str(out))
        assert main([*words, "--overwrite", *options]) == 0
        return capsys.readouterr().out, read_results(out)

    return run


@pytest.mark.parametrize("seed", SEEDS)
def test_pure_noise_is_not_confirmed(answer, seed):
    said, results = answer(seed, ())
    assert [half.verdict for half in results.halves] == 3 * ["not confirmed"]
    assert "Components 1 to 3: not confirmed" in said
    assert "fewer components" in said


@pytest.mark.parametrize("seed", SEEDS)
def test_noise_has_no_number_of_components(answer, seed):
    said, results = answer(seed, (), "--n-components", "auto", "--n-splits", "2")
    assert "Number of components: 1. No component stands out" in said
    assert "not confirmed" in said
    assert len(results.model.components_) == 1


@pytest.mark.parametrize("n_planted", [*(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2)), 3])
def test_planted_components_are_counted_and_confirmed(answer, n_planted, tmp_path):
    said, results = answer(1, (1.6, 1.4, 1.2)[:n_planted], "--n-components", "auto")
    assert len(results.model.components_) == n_planted
    assert [half.verdict for half in results.halves] == n_planted * ["confirmed"]
    assert said.count("pattern confirmed") == n_planted
    for loading in results.model.components_:
        inside = [np.zeros(SHAPE) for _ in PLACES]
        for square, (row, column) in zip(inside, PLACES, strict=True):
            square[row : row + 4, column : column + 4] = 1
        weights = [float(np.square(loading) @ square.ravel()) for square in inside[:n_planted]]
        assert max(weights) > 0.8, "each component is one of the squares"
    choice = json.loads((tmp_path / "out" / "desc-SPCATV_count.json").read_text())
    assert choice["chosen"] == n_planted
    assert f"Number of components: {n_planted}. {choice['reason']}" in said


def test_the_report_shows_the_curve(answer, tmp_path):
    pytest.importorskip("jinja2")
    _, results = answer(1, (1.6, 1.4), "--n-components", "auto", "--n-splits", "2")
    html = generate_report(results).html
    assert '<h2 id="count">Number of components</h2>' in html
    assert f"<p>{results.count.reason}</p>" in html
    assert "2 (last one kept)" in html
    assert html.count("attern confirmed") >= 2
    answer(1, (1.6, 1.4), "--n-components", "2", "--n-splits", "0")
    assert 'id="count"' not in generate_report(tmp_path / "out").html
