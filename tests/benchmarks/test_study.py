"""The real-data study: its pipeline on tiny data, and whether its page says what its results say."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.reproduce import realdata
from benchmarks.reproduce.methods import cut_to_zeros, fit_pca, of_loadings
from benchmarks.reproduce.realdata import RealData, folds
from benchmarks.study import __main__ as command
from benchmarks.study import fits
from benchmarks.study.measures import mean_map, predicted
from benchmarks.study.page import BLOCK, PARTS, filled

from spcatv.structure import grid

PAGE = Path(__file__).resolve().parents[2] / "docs" / "study"
MOST_BYTES = 200_000


def test_the_page_states_what_the_results_state():
    pages = (PAGE / "index.md", PAGE.parent / command.COMPARISON)
    page = "\n".join(file.read_text(encoding="utf-8") for file in pages)
    results = json.loads((PAGE / "results.json").read_text(encoding="utf-8"))
    assert {match["name"] for match in BLOCK.finditer(page)} == set(PARTS)
    assert filled(page, results) == page, "run `make study STUDY_ARGS=--no-fits`"
    assert set(results["data"]) == set(realdata.DATA)
    assert results["run"]["n_fitted"] <= results["run"]["n_planned"] == len(list(fits.pieces(realdata.DATA)))
    results["data"]["vbm"]["cells"][-1]["errors"][0] *= 2
    assert filled(page, results) != page


def test_the_pictures_of_the_page_are_there_and_small():
    page = (PAGE / "index.md").read_text(encoding="utf-8")
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)
    assert len(pictures) == len(realdata.DATA)
    for picture in pictures:
        assert 0 < (PAGE / picture).stat().st_size < MOST_BYTES, picture


def test_the_pipeline_runs_and_continues(tmp_path, monkeypatch):
    for package in ("nilearn", "matplotlib"):
        pytest.importorskip(package)
    monkeypatch.setattr(realdata, "N_FOLDS", 2)
    monkeypatch.setattr(realdata, "N_SPLITS", 1)
    methods = (*fits.DIRECT, "sparse-pca")
    stages = [((0.7, 0.0), "folds", methods), ((0.7,), "halves", ("elastic-net", "spca-tv"))]
    monkeypatch.setattr(fits, "STAGES", stages)
    blocks = [f"<!-- generated: {name} -->\n<!-- end -->" for name in PARTS]
    (tmp_path / "index.md").write_text("\n\n".join(["Before.", *blocks, "After."]), encoding="utf-8")
    arguments = ["--quick", "--jobs", "1", "--output", str(tmp_path / "fits"), "--page", str(tmp_path)]
    command.main(arguments)
    page = (tmp_path / "index.md").read_text(encoding="utf-8")
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    cells = {(cell["method"], cell["zeros"]): cell for cell in results["data"]["tiny"]["cells"]}
    assert set(cells) == {("pca", 0.0), *((method, 0.7) for method in methods if method != "pca")}
    for (method, zeros), cell in cells.items():
        assert len(cell["errors"]) == 2
        assert cell["n_splits"] == (method in ("elastic-net", "spca-tv"))
        assert np.mean(cell["reached"]) == pytest.approx(zeros, abs=0.05)
        assert {"value", "low", "high"} == set(cell["age"]["r2"])
    assert cells["pca-cut", 0.7]["errors"] > cells["pca", 0.0]["errors"]
    assert results["run"]["n_fitted"] == results["run"]["n_planned"] == 3 * 6 + 2 * 2
    assert page.startswith("Before.")
    assert page.endswith("After.")
    assert "| **SPCA-TV** | 70% |" in page
    assert (tmp_path / "maps-tiny.png").stat().st_size < MOST_BYTES
    monkeypatch.setattr(command, "do", None)  # everything is stored
    command.main([*arguments, "--no-pictures"])
    assert (tmp_path / "index.md").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("arguments", "message"), [([], "tiny data"), (["--page", "/nowhere"], "no index.md")]
)
def test_a_quick_run_leaves_the_study_alone(arguments, message, capsys):
    with pytest.raises(SystemExit):
        command.parse(["--quick", *arguments])
    assert message in capsys.readouterr().err


def test_missing_data_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr("benchmarks.data.REAL_DATA", tmp_path)
    fits.opened.cache_clear()
    with pytest.raises(SystemExit, match=r"sst_grid\.npz.*SPCATV_DATA"):
        command.present(["sst"])


def test_every_fit_is_made_once_and_all_rows_come_first():
    found = list(fits.pieces(["a", "b"]))
    # dense PCA, four methods at three shares, and two that are searched: folds, and some halves at one share
    each = (1 + 5 + 20) * (1 + 4 * 3) + 2 * (3 * (1 + 5) + 2 * 5)
    assert len(found) == len(set(found)) == 2 * each
    for piece in found:
        if piece.method in fits.SEARCHED and piece.rows != "all":
            whole = fits.replace(piece, rows="all")
            assert found.index(whole) < found.index(piece)


def test_dense_maps_are_cut_to_their_largest_entries():
    X = np.random.default_rng(0).standard_normal((12, 40))
    dense = fit_pca(X, None, {}).components
    cut = cut_to_zeros(fit_pca)(X, None, {"zeros": 0.75}).components
    assert ((cut == 0).sum(axis=1) == 30).all()
    np.testing.assert_allclose(np.linalg.norm(cut, axis=1), 1)
    for before, after in zip(np.abs(dense), cut, strict=True):
        assert before[after == 0].max() < before[after != 0].min()


def _people(n_people=60):
    """Maps in which one loading follows age exactly, beside noise in other features."""
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 60, n_people)
    X = rng.standard_normal((n_people, 30))
    X[:, :5] = age[:, None]
    return RealData("people", X.astype(np.float32), grid((30,))), age


def predict(data, age, loadings):
    parts = folds(len(age))
    prepared = [rows.standardised(data.X) for rows in parts]
    return predicted(parts, prepared, len(parts) * loadings, age)


def test_age_is_predicted_for_people_held_out():
    data, age = _people()
    loadings = of_loadings(np.repeat([[1.0, 0.0]], [5, 25], axis=1), np.zeros(30)).components
    exact = predict(data, age, [loadings])
    assert exact.r2() == pytest.approx(1, abs=1e-6)
    weaker = predict(data, age, [mean_map(30)])
    interval = weaker.summary()
    assert interval["low"] < interval["value"] < interval["high"] < 1
    assert exact.summary(weaker)["value"] == pytest.approx(1 - interval["value"])
    noise = predict(data, age, [np.eye(30)[[20]]])
    assert noise.r2() < 0.1
    assert abs(noise.correlation) < weaker.correlation


def test_people_of_unknown_age_are_not_counted():
    data, age = _people()
    age[::4] = np.nan
    found = predict(data, age, [np.eye(30)[[0]]])
    assert len(found.age) == 45
    assert np.isfinite(found.prediction).all()
    assert found.r2() == pytest.approx(1, abs=1e-6)
