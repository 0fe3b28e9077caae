"""The reproduction of the paper's simulation runs and resumes, and its parts are right."""

import dataclasses

import numpy as np
import pytest
from benchmarks.reproduce.__main__ import main, parse
from benchmarks.reproduce.comparison import Scores, compare, difference_text
from benchmarks.reproduce.methods import (
    SIMULATION_METHODS,
    ZEROS_TOL,
    Method,
    alpha_for_zeros,
    fit_sparse_pca,
    fit_spcatv,
)
from benchmarks.reproduce.realdata import Rows, folds, halves, n_regions
from benchmarks.reproduce.simulation import Size, run_simulation, table_of_tests, table_one, typical_data_set
from benchmarks.reproduce.store import Record, Store

from spcatv import SPCATV
from spcatv.metrics import reconstruction_error
from spcatv.structure import grid

pytestmark = pytest.mark.no_cover
TINY = Size(n_sets=2, n_samples=40, side=21)
FAST = tuple(method for method in SIMULATION_METHODS if method.key in ("elastic-net", "spca-tv-authors"))


def _silent(line):
    pass


def test_a_quick_run_writes_its_files(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr("benchmarks.reproduce.__main__.QUICK", Size(n_samples=24, side=14))
    quicker = [
        dataclasses.replace(method, setting=method.setting | {"search": {**search, "cv": 2}})
        if (search := method.setting.get("search")) is not None
        else method
        for method in SIMULATION_METHODS
    ]
    monkeypatch.setattr("benchmarks.reproduce.__main__.SIMULATION_METHODS", quicker)
    main(["--quick", "--n-sets", "2", "--jobs", "1", "--without", "sparse-pca", "--output", str(tmp_path)])
    shown = capsys.readouterr().out
    assert "[2/2" in shown
    text = (tmp_path / "simulation.md").read_text(encoding="utf-8")
    for method in SIMULATION_METHODS:
        assert (method.label in text) == (method.key != "sparse-pca")
    assert "1577.0 / 0.83 / 0.26" in text
    assert (tmp_path / "loadings.png").stat().st_size > 10_000
    assert len(list(tmp_path.rglob("*.npz"))) == 2 * (len(SIMULATION_METHODS) - 1)
    assert not list(tmp_path.rglob(".draft*"))


def test_what_is_stored_is_not_fitted_again(tmp_path):
    lines = []
    first = run_simulation(tmp_path, FAST, TINY, jobs=1, say=lines.append)
    assert len(lines) == 3
    lines.clear()
    lost = tmp_path / TINY.name / "elastic-net" / "001.npz"
    lost.write_bytes(lost.read_bytes()[:100])  # as a crash would leave it, were files not written whole
    again = run_simulation(tmp_path, FAST, TINY, jobs=1, say=lines.append)
    assert len(lines) == 2
    assert "data set 1: elastic-net" in lines[1]
    assert "spca-tv" not in lines[1]
    for key in first:
        np.testing.assert_array_equal(first[key].errors, again[key].errors)
        np.testing.assert_array_equal(first[key].dice, again[key].dice)


def test_scores_are_those_of_a_fit_by_hand(tmp_path):
    from spcatv.datasets import make_dots

    method = FAST[1]
    scores = run_simulation(tmp_path, [method], TINY, jobs=1, say=_silent)[method.key]
    data = make_dots(TINY.n_samples, TINY.side, dtype=np.float32, random_state=1)
    train, test = data.split()
    model = SPCATV(3, structure=data.shape, **method.setting).fit(train)
    error = reconstruction_error(test, model.inverse_transform(model.transform(test)))
    assert scores.errors[1] == pytest.approx(error, rel=1e-12)
    assert scores.dice.shape == (1, 3)


def test_a_record_belongs_to_its_setting(tmp_path):
    store = Store(tmp_path / "new")
    record = Record(np.eye(2, 4), {"error": 1.5, "chosen": {}})
    store.save("m", "000", {"alpha": 0.1, "init": "svd"}, record)
    found = store.load("m", "000", {"init": "svd", "alpha": 0.1})
    np.testing.assert_array_equal(found.components, np.eye(2, 4))
    assert found.values["error"] == 1.5
    assert store.load("m", "000", {"alpha": 0.2, "init": "svd"}) is None
    assert store.load("m", "001", {"alpha": 0.1, "init": "svd"}) is None


def test_a_record_belongs_to_its_data_and_versions(tmp_path, monkeypatch):
    store = Store(tmp_path, "4 x 2")
    store.save("m", "000", {}, Record(np.eye(2, 4), {"error": 1.5}))
    assert store.load("m", "000", {}) is not None
    assert Store(tmp_path, "5 x 2").load("m", "000", {}) is None
    file = store.path("m", "000")
    with np.load(file) as archive:
        np.savez(file, **{**archive, "components": np.zeros((2, 4), np.float32)})
    assert store.load("m", "000", {}) is None, "its checksum is wrong"
    store.save("m", "000", {}, Record(np.eye(2, 4), {"error": 1.5}))
    monkeypatch.setattr("benchmarks.reproduce.store.current_versions", lambda: {"spca-tv": "0.0.9"})
    assert store.load("m", "000", {}) is None


def test_two_equal_methods_do_not_differ():
    rng = np.random.default_rng(0)
    score = Scores("a", rng.random(6), rng.random((15, 3)), rng.random((6, 3)))
    same = compare(score, dataclasses.replace(score, label="b"))
    assert (same.error.p_value, same.mse.p_value, same.dice.p_value) == (1.0, 1.0, 1.0)
    better = compare(
        dataclasses.replace(score, errors=score.errors - 1 - 0.1 * rng.random(6), dice=score.dice + 0.3),
        score,
    )
    assert better.error.mean_difference < -1
    assert better.error.p_value < 1e-4
    assert better.dice.p_value < 0.002
    assert difference_text(better.error, 1).endswith("(p < 0.001)")
    assert difference_text(None) is None


def test_tables_have_a_row_a_method(tmp_path):
    scores = run_simulation(tmp_path, FAST, TINY, jobs=1, say=_silent)
    assert len(table_one(scores).splitlines()) == 2 + len(FAST)
    assert len(table_of_tests(scores).splitlines()) == 3
    assert typical_data_set(np.array([[3.0], [1.0], [2.0]])) == 2


def test_sparse_pca_reconstructs_by_projection():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 30)) + 2.0
    setting = {"alpha": 0.5, "center": True, "mini_batch": False, "max_iter": 20}
    fitted = Method("s", "S", setting, fit_sparse_pca).fit(X, None)
    np.testing.assert_allclose(np.linalg.norm(fitted.components, axis=1), 1)
    once = fitted.reconstruct(X)
    np.testing.assert_allclose(fitted.reconstruct(once), once, atol=1e-10)
    residual = X - once
    np.testing.assert_allclose(residual @ fitted.components.T, 0, atol=1e-8)
    killed = Method("s", "S", {**setting, "alpha": 1e6}, fit_sparse_pca).fit(X, None)
    np.testing.assert_allclose(killed.reconstruct(X), np.broadcast_to(X.mean(axis=0), X.shape))


def test_elastic_net_uses_no_structure():
    X = np.random.default_rng(2).standard_normal((20, 36))
    setting = {"alpha": 0.1, "l1_ratio": 0.5, "tv_ratio": 0.0}
    method = Method("e", "E", setting, fit_spcatv)
    np.testing.assert_array_equal(method.fit(X, (6, 6)).components, method.fit(X, (36,)).components)


@pytest.mark.parametrize("first", [1e-3, 1.0, 80.0])
def test_the_wanted_share_of_zeros_is_found(first):
    def share(alpha):
        return alpha / (1 + alpha)

    alpha = alpha_for_zeros(share, first, 0.6)
    assert share(alpha) == pytest.approx(0.6, abs=ZEROS_TOL)


def test_a_share_that_jumps_gives_the_closest_one():
    assert alpha_for_zeros(lambda alpha: 0.1 if alpha < 0.7 else 0.9, 1.0, 0.7) >= 0.7


def test_folds_hold_every_row_out_once_and_halves_share_none():
    cut = folds(23)
    assert sorted(np.concatenate([fold.test for fold in cut])) == list(range(23))
    assert all(not np.intersect1d(fold.train, fold.test).size for fold in cut)
    assert np.diff(cut[0].test).max() > 1, "shuffled"
    split = halves(23)
    assert len(split) == 20
    for one, other in zip(split[::2], split[1::2], strict=True):
        assert sorted(np.concatenate([one.train, other.train])) == list(range(23))


def test_columns_are_standardised_on_the_rows_to_fit():
    X = np.random.default_rng(0).standard_normal((10, 4)) * [1, 2, 3, 0] + [0, 1, 2, 3]
    train, test = Rows("a", np.arange(7), np.arange(7, 10)).standardised(X)
    np.testing.assert_allclose(train.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(train.std(axis=0), [1, 1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(test[:, :3], (X[7:] - X[:7].mean(0))[:, :3] / X[:7].std(0)[:3], rtol=1e-5)
    assert not test[:, 3].any()


def test_regions_are_connected_pieces():
    image = np.zeros((6, 6))
    image[0, :2] = image[3:5, 3] = 1.0
    image[5, 4] = -1.0  # touches a corner only
    assert n_regions(image.ravel(), grid((6, 6))) == 3
    assert n_regions(np.zeros(36), grid((6, 6))) == 0


@pytest.mark.parametrize("wrong", [["--n-sets", "1"], ["--jobs", "0"], ["--without", "pca"], ["moon"]])
def test_wrong_options_are_refused(wrong, capsys):
    with pytest.raises(SystemExit, match="2"):
        parse(wrong)
    assert "error:" in capsys.readouterr().err
