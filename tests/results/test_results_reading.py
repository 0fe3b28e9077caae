"""Results folders that earlier versions wrote stay readable; damaged ones are refused by name."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from spcatv.results import ResultsError, claimed_folder, open_model, read_results, report_file
from spcatv.results.folder import component_maps

# written by spca-tv 0.1.0: `select` on volumes and on an array, `fit --sparsity 0.7,0.8` with confounds
EARLIER = Path(__file__).parent / "earlier"
IMAGES = ("selection", "alphas")
KINDS = ("array", *IMAGES)


def results(kind):
    if kind in IMAGES:
        pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
    return read_results(EARLIER / kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_folder_of_an_earlier_version_is_read(kind):
    found = results(kind)
    assert found.saved.versions["spca-tv"] == "0.1.0"
    assert found.model.components_.shape == (2, 42 if kind == "array" else 60)
    assert found.scores.values.shape == (12, 2)
    assert found.scores.values.std(axis=0) == pytest.approx(
        np.sqrt(11 / 12 * found.model.explained_variance_), rel=1e-3
    )
    assert (np.diff(found.ceiling) > 0).all()
    assert "/study/" in found.config
    assert (found.selection is None) == (kind == "alphas")
    assert (found.stability is None) == (kind == "alphas")


@pytest.mark.parametrize("kind", ["array", "selection"])
def test_selection_and_stability_of_an_earlier_version(kind):
    found = results(kind)
    chosen = found.selection.columns["param_alpha"][found.selection.best_index]
    assert (float(chosen), found.selection.rule, found.selection.n_folds) == (found.model.alpha, "paper", 3)
    assert found.stability.dice.shape == (5 if kind == "selection" else 4, 2)
    inside = np.isfinite(found.stability.found)
    assert inside.any(axis=1).all()
    assert (found.model.components_[inside] != 0).all()


def test_alphas_and_weights_of_an_earlier_version():
    model = results("alphas").model
    first, second = model.alpha
    assert second > first
    for weights in (model.l1_, model.l2_, model.tv_):
        assert weights[1] / weights[0] == pytest.approx(second / first)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_of_an_earlier_version(kind):
    generate_report = pytest.importorskip("spcatv.report").generate_report
    page = generate_report(results(kind)).html
    assert ('id="selection-table"' in page) == (kind != "alphas")
    assert "spca-tv 0.1.0" in page


@pytest.mark.parametrize("kind", KINDS)
def test_results_of_an_earlier_version_can_be_replaced(kind, tmp_path):
    folder = tmp_path / "results"
    shutil.copytree(EARLIER / kind, folder)
    report_file(folder).write_text("page")
    with claimed_folder(folder, overwrite=True) as temporary:
        (temporary / "new").write_text("x")
    # the report is not lost, but it is no longer that of these results
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "desc-SPCATV_report.old.html": "page",
        "new": "x",
    }


def test_names_in_the_folder(tmp_path):
    for kind, suffix in (("array", ".npy"), ("selection", ".nii.gz")):
        assert [file.name for file in component_maps(EARLIER / kind)] == [f"desc-SPCATV_components{suffix}"]
    folder = EARLIER / "array"
    assert report_file(folder) == report_file(folder / "model") == folder / "desc-SPCATV_report.html"
    assert open_model(folder).kind == open_model(folder / "model").kind == "SPCATV"
    shutil.copytree(folder / "model", tmp_path / "alone")
    assert report_file(tmp_path / "alone") == tmp_path / "alone_report.html"
    alone = read_results(tmp_path / "alone")
    assert (alone.scores, alone.ceiling, alone.selection, alone.stability, alone.config) == (None,) * 5


def test_maps_have_the_names_of_those_in_a_model_folder():
    """The package of the images cannot import the names: a test keeps the two together."""
    space = pytest.importorskip("spcatv.images.spaces.base")
    from spcatv.results.folder import COMPONENT_MAPS

    assert space.Space.write.__defaults__ == (COMPONENT_MAPS,)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("desc-SPCATV_mixing.tsv", "input\tcomponent_1\n", "has no column component_2"),
        (
            "desc-SPCATV_mixing.tsv",
            "input\tcomponent_1\tcomponent_2\na\t1\n",
            "as many cells as the header, 3",
        ),
        ("desc-SPCATV_metrics.tsv", "pca_cumulative_explained_variance_ratio\nx\n", "could not convert"),
        ("desc-SPCATV_selection.json", "{}", "must hold best_index, rule and n_folds"),
        ("desc-SPCATV_selection.json", '{"best_index": 0, "n_folds": "few"}', "must hold best_index, rule"),
        ("desc-SPCATV_selection.tsv", "param_alpha\n0.1\n", "has no column mean_test_error"),
        ("desc-SPCATV_halves.tsv", "rank\tdice\tverdict\n1\t0.9\ta\nn/a\t0.1\tb\n", "some rank is missing"),
        ("desc-SPCATV_regions.tsv", "n_features\tfound\n3\t0.5\n", "not those of this model"),
        ("stability.npz", "no archive", "must hold the arrays selection_frequency"),
    ],
)
def test_damaged_files_are_refused_by_name(tmp_path, name, text, message):
    folder = tmp_path / "results"
    shutil.copytree(EARLIER / "array", folder)
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(ResultsError, match=message) as caught:
        read_results(folder)
    assert str(caught.value).startswith(str(folder / name))


def test_damaged_stability_is_refused_by_name(tmp_path):
    """Bytes that no decoder can unfold, and an array that is no archive; without regions, none is found."""
    folder = tmp_path / "results"
    shutil.copytree(EARLIER / "array", folder)
    (folder / "desc-SPCATV_regions.tsv").unlink(missing_ok=True)
    file = folder / "stability.npz"
    stability = read_results(folder).stability
    assert stability.found is None
    np.savez_compressed(file, selection_frequency=stability.selection_frequency)
    content = bytearray(file.read_bytes())
    start = 30 + content[26] + content[28]  # of the first entry, after its header, name and extra field
    content[start : start + 8] = 8 * b"\xff"
    for damaged in (bytes(content), b"no archive"):
        file.write_bytes(damaged)
        with pytest.raises(ResultsError, match="must hold the arrays selection_frequency") as caught:
            read_results(folder)
        assert str(caught.value).startswith(str(file))
    with file.open("wb") as opened:
        np.save(opened, stability.dice)
    with pytest.raises(ResultsError, match="must hold the arrays selection_frequency"):
        read_results(folder)
