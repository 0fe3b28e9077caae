"""`spca-tv transform` and `spca-tv info` on models of arrays, and on folders without a model."""

import json

import numpy as np
import pytest
from cli_files import fields, listing, read_tsv
from numpy.testing import assert_allclose

from spcatv import SPCATV


@pytest.fixture
def results(array, tmp_path, done):
    command = ("fit", "--array", array, "--shape", "12,10", "--n-components", "2", "--alpha", "0.05")
    done(*command, "--output", tmp_path / "out")
    return tmp_path / "out"


def scores_of(file):
    return np.array([[float(row["component_1"]), float(row["component_2"])] for row in read_tsv(file)])


def test_scores_of_new_samples(results, tmp_path, done):
    new = fields(5, seed=9)
    np.save(tmp_path / "new.npy", new)
    model = SPCATV.load(results / "model")
    said = done("transform", results, "--array", tmp_path / "new.npy", "--output", tmp_path / "s.tsv")
    assert said == f"Scores of 5 samples on 2 components: {tmp_path / 's.tsv'}\n"
    assert_allclose(scores_of(tmp_path / "s.tsv"), model.transform(new.reshape(5, -1)), rtol=1e-12)
    # the model folder itself will do, and one sample is enough
    np.save(tmp_path / "one.npy", new[:1].reshape(1, -1))
    done("transform", results / "model", "--array", tmp_path / "one.npy", "--output", tmp_path / "1.tsv")
    assert_allclose(scores_of(tmp_path / "1.tsv"), scores_of(tmp_path / "s.tsv")[:1], rtol=1e-12)


def test_new_samples_go_through_the_mask_of_the_model(tmp_path, done, refused):
    X = fields()
    X[:, 0, :] = np.nan
    np.save(tmp_path / "X.npy", X)
    done("fit", "--array", tmp_path / "X.npy", "--alpha", "0.05", "--output", tmp_path / "out")
    done("transform", tmp_path / "out", "--array", tmp_path / "X.npy", "--output", tmp_path / "s.tsv")
    kept = scores_of(tmp_path / "s.tsv")
    assert_allclose(kept, scores_of(tmp_path / "out" / "desc-SPCATV_mixing.tsv"), rtol=1e-12)
    X[3, 5, 5] = np.inf
    np.save(tmp_path / "bad.npy", X)
    line = refused("transform", tmp_path / "out", "--array", tmp_path / "bad.npy", "--output", tmp_path / "t")
    assert "bad.npy: sample 3 holds NaN or infinite values" in line


def test_wrong_input_of_transform(results, array, tmp_path, refused):
    out = tmp_path / "s.tsv"

    def refuse(message, *argv):
        before = listing(tmp_path)
        assert message in refused("transform", *argv)
        assert listing(tmp_path) == before

    np.save(tmp_path / "wrong.npy", np.ones((3, 7)))
    refuse("has 7 values per sample", results, "--array", tmp_path / "wrong.npy", "--output", out)
    refuse("was fitted to an array", results, array, "--output", out)
    refuse("there is no folder", tmp_path / "no", "--array", array, "--output", out)
    refuse("is not a model folder", tmp_path, "--array", array, "--output", out)
    refuse("is a folder; name a file", results, "--array", array, "--output", results)
    refuse("cannot write", results, "--array", array, "--output", tmp_path / "no" / "s.tsv")
    out.write_text("mine")
    refuse("already exists", results, "--array", array, "--output", out)
    assert out.read_text() == "mine"


def test_overwrite_of_scores(results, array, tmp_path, done):
    (tmp_path / "s.tsv").write_text("old")
    done("transform", results, "--array", array, "--output", tmp_path / "s.tsv", "--overwrite", "--quiet")
    assert len(read_tsv(tmp_path / "s.tsv")) == 16


def test_info_for_people(results, array, done):
    text = done("info", results)
    assert text.startswith("SPCATV: 2 components of 120 features\n")
    assert "  alpha: 0.05\n" in text
    assert f"array: {array} (SHA-256 " in text
    model = SPCATV.load(results / "model")
    for number, record in enumerate(model.diagnostics_):
        row = next(line for line in text.splitlines() if line.startswith(f"{number + 1} "))
        assert f"{record.relative_gap:.1e}" in row


def test_info_of_a_wanted_sparsity(array, tmp_path, done):
    """Only the parameters that were used, and what was wanted beside what was reached."""
    command = ("fit", "--array", array, "--n-components", "2", "--sparsity", "0.5,0.75")
    said = done(*command, "--output", tmp_path / "out")
    text = done("info", tmp_path / "out")
    assert "  sparsity: 0.5, 0.75 (one per component)\n" in text
    assert not any(line.startswith(("  alpha:", "  l1_ratio:")) for line in text.splitlines())
    for table in (said, text):
        rows = [line.split() for line in table.splitlines() if line.startswith(("1 ", "2 "))]
        assert [row[3:8] for row in rows] == [
            ["50.0", "%", "50.0", "%", "1"],
            ["75.0", "%", "75.0", "%", "1"],
        ]


def test_info_for_programs(results, done):
    told = json.loads(done("info", "--json", results))
    model = SPCATV.load(results / "model")
    assert told["kind"] == "SPCATV"
    assert told["parameters"]["alpha"] == 0.05
    assert told["fitted"]["l1"] == model.l1_
    assert told["arrays"]["components"] == {"dtype": "float64", "shape": [2, 120]}
    assert [record["n_nonzero"] for record in told["fitted"]["diagnostics"]] == [
        record.n_nonzero for record in model.diagnostics_
    ]


def test_info_refuses_what_was_changed(results, tmp_path, refused):
    file = results / "model" / "arrays.npz"
    file.write_bytes(file.read_bytes()[:-10])
    assert "truncated or changed" in refused("info", results)
    assert "is not a model folder" in refused("info", tmp_path)
    assert "there is no folder" in refused("info", tmp_path / "nothing")
