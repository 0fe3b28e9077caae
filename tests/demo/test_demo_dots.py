"""The part of the demo on the paper's images, on smaller ones where the size does not matter."""

import csv
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_files import Messages
from numpy.testing import assert_allclose, assert_array_equal

import spcatv.demo
from spcatv.cli import main
from spcatv.datasets import make_dots
from spcatv.demo import dots
from spcatv.progress import listening

pytest.importorskip("matplotlib", reason="the demo draws with matplotlib (extra `report`)")


@pytest.fixture
def small_images(monkeypatch):
    def small(n_samples=60, size=28, snr=0.3, **options):
        return make_dots(n_samples, size, snr, **options)

    monkeypatch.setattr(dots, "make_dots", small)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The demo as people run it, once for this file."""
    messages = Messages()
    with listening(messages):
        result = dots.run_dots(tmp_path_factory.mktemp("demo"))
    return result, "\n".join(messages.lines)


def read_table(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_full_demo_shows_what_the_method_is_for(full):
    """Lower held-out error and closer to the truth, in the order of the paper's table."""
    pca, elastic_net, tv = full[0].methods
    assert [method.name for method in full[0].methods] == ["PCA", "Elastic-net PCA", "SPCA-TV"]
    assert tv.error < elastic_net.error < pca.error
    assert tv.mse < elastic_net.mse < pca.mse
    assert tv.dice > elastic_net.dice > pca.dice
    assert pca.sparsity == 0
    assert tv.sparsity == pytest.approx(0.9, abs=0.01)
    assert elastic_net.sparsity == pytest.approx(0.9, abs=0.01)
    assert pca.relative_gap is None
    assert 0 <= elastic_net.relative_gap <= 1e-6
    assert 0 < tv.relative_gap <= 1e-6


def test_full_demo_is_near_the_published_errors(full):
    """One data set against the paper's mean over fifty: 1577.0 and 1575.5."""
    _, elastic_net, tv = full[0].methods
    assert elastic_net.error == pytest.approx(1577.0, abs=3)
    assert tv.error == pytest.approx(1575.5, abs=3)


def test_loadings_follow_the_truth(full):
    truth = full[0].data.loadings
    for method in full[0].methods:
        assert method.loadings.shape == truth.shape
        assert_allclose(np.linalg.norm(method.loadings, axis=1), 1)
        # the two strong components are found by all, with the sign of the truth
        assert (np.einsum("kp,kp->k", method.loadings, truth)[:2] > 0).all()


def test_table_and_file_say_the_same(full):
    result, text = full
    rows = read_table(result.table)
    assert [row["method"] for row in rows] == [method.name for method in result.methods]
    for row, method in zip(rows, result.methods, strict=True):
        assert float(row["reconstruction_error"]) == method.error
        assert float(row["loading_mse"]) == method.mse
        assert float(row["dice"]) == method.dice
        assert float(row["sparsity"]) == method.sparsity
        assert row["relative_gap"] == ("" if method.relative_gap is None else repr(method.relative_gap))
        assert f"{method.error:.2f}" in text
    table = [line for line in text.splitlines() if line.startswith(("method", "PCA", "Elastic", "SPCA"))]
    assert len(table) == 4
    assert len({len(line) for line in table}) == 1, "the columns are aligned"


def test_the_documentation_shows_these_figures(full):
    """The table in "How it compares" is this demo's, but for rounding and what another BLAS may change."""
    text = (Path(__file__).parents[2] / "docs/comparison.md").read_text(encoding="utf-8")
    for method in full[0].methods:
        numbers = r"([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) % \|"
        row = re.search(rf"^\| {method.name} \| {numbers}", text, re.MULTILINE)
        assert row is not None, method.name
        error, mse, overlap, zeros = map(float, row.groups())
        assert error == pytest.approx(method.error, abs=0.1)
        assert mse == pytest.approx(method.mse, abs=0.03)
        assert overlap == pytest.approx(method.dice, abs=0.03)
        assert zeros == pytest.approx(100 * method.sparsity, abs=3)


def test_says_where_the_files_are_and_what_compilation_took(full):
    result, text = full
    assert f"Picture: {result.picture}" in text
    assert f"Table:   {result.table}" in text
    assert re.search(r"Compiling kernels, .* took \d+\.\d s, which no time below counts", text)


def test_picture_is_a_png_of_the_four_columns(full):
    result, _ = full
    assert result.picture.read_bytes().startswith(b"\x89PNG\r\n")
    figure = dots.draw_loadings(result.data, result.methods)
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 12
    assert [panels[column].get_title() for column in range(4)] == [
        "Truth",
        "PCA",
        "Elastic-net PCA",
        "SPCA-TV",
    ]
    limits = {image.get_clim() for axes in panels for image in axes.images}
    assert len(limits) == 1, "one colour scale for all"
    low, high = limits.pop()
    assert low == -high, "white is zero"


def test_command_writes_both_files_and_nothing_else(small_images, tmp_path, capsys):
    folder = tmp_path / "new" / "folder"
    assert main(["demo", "--only", "dots", "--output", str(folder), "--seed", "3"]) == 0
    assert sorted(os.listdir(folder)) == ["loadings.png", "table.tsv"]
    shown = capsys.readouterr()
    assert "seed 3" in shown.out
    assert shown.err == ""


def test_quiet_says_nothing(small_images, tmp_path, capsys):
    assert main(["demo", "--only", "dots", "--quiet", "--seed", "3", "--output", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")


def test_same_seed_same_result(small_images, tmp_path):
    first, second = (dots.run_dots(tmp_path, seed=1) for _ in range(2))
    for one, other in zip(first.methods, second.methods, strict=True):
        assert_array_equal(one.loadings, other.loadings)
        assert one.error == other.error


def test_default_folder(small_images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--quiet", "--only", "dots"]) == 0
    assert (tmp_path / "demo-output" / "loadings.png").is_file()


@pytest.mark.parametrize("parts", [(), ("--only", "dots")])
def test_without_matplotlib_one_line_before_any_work(parts, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(dots, "make_dots", lambda **options: pytest.fail("work was done"))
    assert main(["demo", *parts, "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert re.search(r'pip install "spca-tv\[(images,)?report\]"', shown.err)


def test_wrong_folder_before_any_work(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(spcatv.demo, "run_demo", lambda *args, **options: pytest.fail("work was done"))
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    assert main(["demo", "--output", str(blocked / "below")]) == 2
    assert "choose another with --output" in capsys.readouterr().err
    assert blocked.read_text() == "mine"


def test_a_failed_save_leaves_the_old_picture(small_images, monkeypatch, tmp_path):
    old = tmp_path / "loadings.png"
    old.write_bytes(b"old")

    class Broken:
        def savefig(self, path, **options):
            path.write_bytes(b"half a pic")
            raise OSError("no space left")

    monkeypatch.setattr(dots, "draw_loadings", lambda *args: Broken())
    with pytest.raises(OSError, match="no space left"):
        dots.run_dots(tmp_path)
    assert os.listdir(tmp_path) == ["loadings.png"]
    assert old.read_bytes() == b"old"
