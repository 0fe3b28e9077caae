"""A results folder is read back as it was written; damaged files are refused by name."""

import shutil
from dataclasses import fields
from types import SimpleNamespace

import numpy as np
import pytest

from spcatv.cli import main
from spcatv.results import ResultsError, claimed_folder, open_model, read, read_results, report_file, write
from spcatv.stability import bootstrap_components


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Results of `select` on a small array."""
    folder = tmp_path_factory.mktemp("written")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((24, 42))
    X[:, :14] += 4 * rng.standard_normal((24, 1))
    X[:, 21:30] += 3 * rng.standard_normal((24, 1))
    np.save(folder / "X.npy", X)
    options = {
        "--array": folder / "X.npy",
        "--shape": "6,7",
        "--n-components": 2,
        "--output": folder / "results",
        "--smoothness": 1,
        "--cv": 2,
        "--n-bootstraps": 3,
        "--n-splits": 2,
        "--tol": 1e-3,
    }
    given = [str(word) for option in options.items() for word in option]
    assert main(["select", *given, "--sparsity", "0.5", "0.7", "--quiet"]) == 0
    return folder / "results"


HALVES = "dice\tcosine\tbeyond_noise\trank\tn_half\tn_confirmed\tn_splits\n0.9\t0.9\ttrue\t"


def test_a_results_folder_is_read(written):
    found = read_results(written)
    assert found.model.components_.shape == (2, 42)
    assert found.scores.values.shape == (24, 2)
    assert found.scores.values.std(axis=0) == pytest.approx(
        np.sqrt(23 / 24 * found.model.explained_variance_), rel=1e-3
    )
    assert (np.diff(found.ceiling) > 0).all()
    assert "n_components = 2" in found.config
    selection = found.selection
    assert float(selection.columns["param_sparsity"][selection.best_index]) == found.model.sparsity
    assert (selection.rule, selection.n_folds) == ("one_se", 2)
    assert found.stability.dice.shape == (3, 2)
    assert {region.component for region in found.stability.regions} == {0, 1}
    assert [record.n_splits for record in found.halves] == [2, 2]


def test_resampled_fits_are_read_as_they_were_written(written, tmp_path):
    model, X = read_results(written).model, np.load(written.parent / "X.npy")
    bootstrap = bootstrap_components(model, X, n_resamples=3, random_state=0)
    samples = SimpleNamespace(write_maps=lambda *_: None)
    write._write_stability(bootstrap, samples, tmp_path)
    write._write_regions(bootstrap, samples, tmp_path)
    found = read._stability(tmp_path / "stability.npz", model.structure_, model.components_)
    assert len(found.regions) == len(bootstrap.regions) > 1
    for one, other in zip((found, *found.regions), (bootstrap, *bootstrap.regions), strict=True):
        for field in fields(one):
            if field.name != "regions":
                np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))


def test_results_can_be_replaced(written, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(written, folder)
    report_file(folder).write_text("page")
    with claimed_folder(folder, overwrite=True) as temporary:
        (temporary / "new").write_text("x")
    assert [file.name for file in folder.iterdir()] == ["new"]


def test_results_whose_replacement_was_interrupted_are_read(written, tmp_path):
    """A process was killed between the two renames that replace a folder."""
    shutil.copytree(written, tmp_path / ".results.spca-tv-previous")
    assert read_results(tmp_path / "results").scores.values.shape == (24, 2)
    with (
        pytest.raises(ResultsError, match="--overwrite is not given"),
        claimed_folder(tmp_path / "results", overwrite=False),
    ):
        pytest.fail("not refused")


def test_names_in_the_folder(written, tmp_path):
    assert report_file(written) == report_file(written / "model") == written / "desc-SPCATV_report.html"
    assert open_model(written).kind == open_model(written / "model").kind == "SPCATV"
    shutil.copytree(written / "model", tmp_path / "alone")
    assert report_file(tmp_path / "alone") == tmp_path / "alone_report.html"
    alone = read_results(tmp_path / "alone")
    assert (alone.scores, alone.ceiling, alone.selection, alone.stability, alone.config) == (None,) * 5


def test_maps_have_the_names_of_those_in_a_model_folder():
    """The package of the images cannot import the names: a test keeps the two together."""
    space = pytest.importorskip("spcatv.images.spaces.base")
    from spcatv.results.layout import COMPONENT_MAPS

    assert space.Space.write.__defaults__ == (COMPONENT_MAPS,)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("desc-SPCATV_mixing.tsv", "input\tcomponent_1\n", "has no column component_2"),
        (
            "desc-SPCATV_mixing.tsv",
            "input\tcomponent_1\tcomponent_2\na\t1\n",
            "row 1 has 2 cells, the header has 3",
        ),
        ("desc-SPCATV_metrics.tsv", "pca_cumulative_explained_variance_ratio\nx\n", "could not convert"),
        ("desc-SPCATV_metrics.tsv", "pca_cumulative_explained_variance_ratio\n0.5\n", "1 rows"),
        ("desc-SPCATV_selection.json", "{}", "best_index"),
        ("desc-SPCATV_selection.json", '{"best_index": 0, "n_folds": "few"}', "n_folds must be"),
        ("desc-SPCATV_selection.tsv", "param_alpha\n0.1\n", "has no column mean_test_error"),
        ("desc-SPCATV_halves.tsv", f"{HALVES}n/a\t9\t9\t10\n", "n/a is not a finite number"),
        ("desc-SPCATV_halves.tsv", f"{HALVES}1\t9\t9\t10\n", "one row for every Reproducibility"),
        ("desc-SPCATV_halves.tsv", "rank\n1\n2\n", "has no column dice"),
        ("desc-SPCATV_regions.tsv", "n_features\tfound\n3\t0.5\n", "are not those of this model"),
        ("stability.npz", "no archive", "is damaged"),
    ],
)
def test_damaged_files_are_refused_by_name(written, tmp_path, name, text, message):
    folder = tmp_path / "results"
    shutil.copytree(written, folder)
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError, match=message) as caught:
        read_results(folder)
    assert str(caught.value).startswith(str(folder / name))


def test_damaged_stability_is_refused_by_name(written, tmp_path):
    """Bytes that no decoder can unfold, and an array that is no archive."""
    folder = tmp_path / "results"
    shutil.copytree(written, folder)
    file = folder / "stability.npz"
    stability = read_results(folder).stability
    np.savez_compressed(file, selection_frequency=stability.selection_frequency)
    content = bytearray(file.read_bytes())
    start = 30 + content[26] + content[28]  # of the first entry, after its header, name and extra field
    content[start : start + 8] = 8 * b"\xff"
    for damaged in (bytes(content), b"no archive"):
        file.write_bytes(damaged)
        with pytest.raises(ResultsError, match="is damaged") as caught:
            read_results(folder)
        assert str(caught.value).startswith(str(file))
    with file.open("wb") as opened:
        np.save(opened, stability.dice)
    with pytest.raises(ResultsError, match="is damaged"):
        read_results(folder)
