"""`spca-tv report`: where the page goes, what it is given, and one line for whatever is wrong."""

import numpy as np
import pytest

from spcatv.cli import main

pytest.importorskip("jinja2", reason="reports are made with Jinja2 (extra `report`)")
pytest.importorskip("matplotlib", reason="reports are made with matplotlib (extra `report`)")

PAGE = "desc-SPCATV_report.html"
MODEL = ("--shape", "12,10", "--n-components", "2", "--alpha", "0.2", "--quiet")


@pytest.fixture
def results(array, tmp_path, done):
    folder = tmp_path / "results"
    done("fit", "--array", array, *MODEL, "--output", folder)
    return folder


@pytest.fixture
def people(tmp_path):
    rows = [f"{150 + k}\t{'a' if k % 2 else 'b'}\t{20 + k}" for k in range(16)]
    file = tmp_path / "people.tsv"
    file.write_text("\n".join(["height\tgroup\tage", *rows]) + "\n", encoding="utf-8")
    return file


def test_page_among_the_results(results, done):
    assert done("report", results) == f"Report: {results / PAGE}\n"
    text = (results / PAGE).read_text(encoding="utf-8")
    assert "spca-tv fit --config" in text
    assert "Scores of 16 samples" in text
    # the model inside of the results leads to the same place, and the results can still be replaced
    assert done("report", results / "model", "--overwrite", "--quiet") == ""
    assert (results / PAGE).read_text(encoding="utf-8") == text


def test_results_with_a_page_can_be_replaced(results, array, done):
    done("report", results)
    done("fit", "--array", array, *MODEL, "--output", results, "--overwrite")
    assert not (results / PAGE).exists()


def test_page_beside_a_model_that_stands_alone(results, tmp_path, done):
    (results / "model").rename(tmp_path / "alone")
    assert done("report", tmp_path / "alone") == f"Report: {tmp_path / 'alone_report.html'}\n"


def test_groups_variable_and_title(results, people, tmp_path, done):
    page = tmp_path / "page.html"
    done(
        "report", results, "--output", page, "--title", "Sixteen <people>",
        "--groups", people, "group", "--variable", people, "age",
    )  # fmt: skip
    text = page.read_text(encoding="utf-8")
    assert "<h1>Sixteen &lt;people&gt;</h1>" in text
    assert "Medians by group: a" in text
    assert "Correlation with age:" in text


def test_open_asks_the_web_browser(results, done, monkeypatch):
    asked = []
    monkeypatch.setattr("webbrowser.open", lambda address: asked.append(address) or True)
    done("report", results, "--open", "--quiet")
    assert asked == [(results / PAGE).resolve().as_uri()]


def test_open_without_a_web_browser_states_what_to_do(results, monkeypatch, capsys):
    monkeypatch.setattr("webbrowser.open", lambda address: False)
    assert main(["report", str(results), "--open", "--quiet"]) == 0
    assert f"note: no browser starts here; copy {results / PAGE}" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--groups", "--variable"])
@pytest.mark.parametrize("given", [("",), ("", ""), ("", "age"), ("people.tsv:",)])
def test_empty_table_or_column_is_refused(option, given, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["report", "results", option, *given])
    assert ended.value.code == 2
    assert option in capsys.readouterr().err


def test_wrong_input_in_one_line(results, people, tmp_path, refused, done):
    assert "no column 'sex'; it has height, group, age" in refused(
        "report", results, "--groups", people, "sex"
    )
    short = tmp_path / "short.tsv"
    short.write_text("group\na\nb\n", encoding="utf-8")
    assert "has 2 rows, but there are 16 samples" in refused("report", results, "--groups", short, "group")
    assert "group must hold numbers" in refused("report", results, "--variable", people, "group")
    assert "is a folder; name a file" in refused("report", results, "--output", tmp_path)
    assert "cannot write" in refused("report", results, "--output", tmp_path / "no" / "page.html")
    assert "spca-tv: error:" in refused("report", tmp_path / "nothing")
    assert "the atlas of this model" in refused("report", results, "--atlas", tmp_path / "atlas.nii.gz")
    assert not (results / PAGE).exists(), "nothing was written"
    done("report", results)
    assert "already exists" in refused("report", results)


def test_atlas_of_images(volumes, tmp_path, done):
    nib = pytest.importorskip("nibabel")
    first = nib.load(next(volumes.glob("*.nii.gz")))
    atlas = tmp_path / "atlas.nii.gz"
    nib.save(nib.Nifti1Image(np.full(first.shape, 4, dtype=np.uint8), first.affine), atlas)
    names = tmp_path / "names.tsv"
    names.write_text("index\tname\n4\tThe only region\n", encoding="utf-8")
    results = tmp_path / "results"
    done(
        "fit",
        volumes,
        "--mask",
        tmp_path / "mask.nii.gz",
        "--output",
        results,
        "--quiet",
        "--n-components",
        "1",
    )
    done("report", results, "--atlas", atlas, "--atlas-names", names)
    assert "The only region" in (results / PAGE).read_text(encoding="utf-8")


def test_one_alpha_per_component(array, tmp_path, done):
    """Page and `info` state every alpha, and the weights that follow from it."""
    from spcatv import SPCATV

    model = SPCATV(2, structure=(12, 10), alpha=[0.05, 0.2]).fit(np.load(array))
    model.save(tmp_path / "model")
    said = done("info", tmp_path / "model")
    assert "  alpha: 0.05, 0.2 (one per component)\n" in said
    assert f"  l2: {model.l2_[0]:.4g}, {4 * model.l2_[0]:.4g} (one per component)\n" in said
    page = tmp_path / "page.html"
    done("report", tmp_path / "model", "--output", page)
    assert f"l2 {model.l2_[0]:.6g}, {4 * model.l2_[0]:.6g};" in page.read_text(encoding="utf-8")
