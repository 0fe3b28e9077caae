"""The demonstration: the paper's images, and cohorts that go through files."""

import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from cli_files import listing, read_tsv
from numpy.testing import assert_allclose, assert_array_equal

from spcatv import demo
from spcatv.cli import main
from spcatv.datasets import make_dots

pytest.importorskip("matplotlib", reason="the demo draws with matplotlib (extra `report`)")


@pytest.fixture
def small_images(monkeypatch):
    def small(n_samples=60, size=28, snr=0.3, **options):
        return make_dots(n_samples, size, snr, **options)

    monkeypatch.setattr(demo, "make_dots", small)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """The dots as people run them, once for this file: loadings, and what is printed."""
    lines = []
    return demo.run_dots(tmp_path_factory.mktemp("demo"), 0, lines.append), "\n".join(lines)


def test_the_documentation_shows_these_figures(full):
    """The table in "How it compares" is this demo's, but for rounding and what another BLAS may change."""
    text = (Path(__file__).parents[1] / "docs/comparison.md").read_text(encoding="utf-8")
    errors = []
    for method in ("PCA", "Elastic-net PCA", "SPCA-TV"):
        shown = re.search(
            rf"^\| {method} \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) % \|", text, re.MULTILINE
        )
        printed = re.search(rf"^{method} +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)%", full[1], re.MULTILINE)
        one, other = (np.array(list(map(float, found.groups()))) for found in (shown, printed))
        assert (abs(one - other) <= [0.1, 0.03, 0.03, 3]).all(), method
        errors.append(other[0])
    assert errors == sorted(errors, reverse=True), "as in the paper's table"


def test_loadings_follow_the_truth(full):
    truth = make_dots(random_state=0).loadings
    assert full[0].shape == (3, *truth.shape)
    for loadings in full[0]:
        # the two strong components are found by all, with the sign of the truth
        assert (np.einsum("kp,kp->k", loadings, truth)[:2] > 0).all()


def test_picture_has_one_colour_scale(small_images, monkeypatch, tmp_path):
    figures, draw = [], demo.draw_dots
    monkeypatch.setattr(demo, "draw_dots", lambda *args: figures.append(draw(*args)) or figures[-1])
    demo.run_dots(tmp_path, 1, str)
    assert (tmp_path / "loadings.png").read_bytes().startswith(b"\x89PNG\r\n")
    panels = [axes for axes in figures[0].axes if axes.images]
    titles = [axes.get_title() for axes in panels[:4]]
    assert titles == ["Truth", "PCA", "Elastic-net PCA", "SPCA-TV"]
    (limits,) = {image.get_clim() for axes in panels for image in axes.images}
    assert limits[0] == -limits[1], "white is zero"


def test_same_seed_same_result(small_images, tmp_path):
    assert_array_equal(*(demo.run_dots(tmp_path, 1, str) for _ in range(2)))


def test_quiet_prints_nothing_and_the_folder_is_created(small_images, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--only", "dots", "--quiet", "--seed", "3"]) == 0
    shown = capsys.readouterr()
    assert (shown.out, shown.err) == ("", "")
    assert listing(tmp_path / "demo-output") == ["loadings.png"]
    assert main(["demo", "--only", "dots", "--seed", "3"]) == 0
    assert "seed 3" in capsys.readouterr().out


def test_a_failed_save_leaves_the_old_picture(small_images, monkeypatch, tmp_path):
    class Broken:
        def savefig(self, path, **options):
            path.write_bytes(b"half a pic")
            raise OSError("no space left")

    (tmp_path / "loadings.png").write_bytes(b"old")
    monkeypatch.setattr(demo, "draw_dots", lambda *args: Broken())
    with pytest.raises(OSError, match="no space left"):
        demo.run_dots(tmp_path, 0, str)
    assert os.listdir(tmp_path) == ["loadings.png"]
    assert (tmp_path / "loadings.png").read_bytes() == b"old"


@pytest.mark.parametrize(
    ("parts", "package"), [((), "matplotlib"), (("--only", "dots"), "matplotlib"), ((), "nilearn")]
)
def test_without_an_extra_one_line_before_any_work(parts, package, monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, package, None)
    assert main(["demo", *parts, "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert (shown.out, shown.err.count("\n")) == ("", 1)
    assert re.search(r'pip install "spca-tv\[(images,)?report\]"', shown.err)
    assert listing(tmp_path) == []


def test_wrong_folder_before_any_work(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(demo, "run_dots", lambda *args: pytest.fail("work was done"))
    (tmp_path / "file").write_text("mine")
    assert main(["demo", "--only", "dots", "--output", str(tmp_path / "file" / "below")]) == 2
    assert "choose another with --output" in capsys.readouterr().err


def test_parts_are_chosen(monkeypatch, tmp_path):
    ran, opened = [], []
    monkeypatch.setattr(demo, "_check_extras", lambda parts: None)
    for part in demo.PARTS:
        page = tmp_path / f"{part}.html"
        monkeypatch.setattr(demo, f"run_{part}", lambda *args, part=part, page=page: ran.append(part) or page)
    monkeypatch.setattr("webbrowser.open", opened.append)
    words = ["demo", "--output", str(tmp_path)]
    assert main(words) == 0
    assert main([*words, "--only", "surface", "--only", "dots"]) == 0
    assert ran == [*demo.PARTS, "dots", "surface"]
    assert opened == []
    assert main([*words, "--only", "surface", "--open"]) == 0
    assert opened == [(tmp_path / "surface.html").as_uri()]


class TestBrains:
    """Cohorts of a few people."""

    @pytest.fixture(autouse=True)
    def few_people(self, monkeypatch):
        pytest.importorskip("nilearn", reason="the demo takes its template from nilearn (extra `images`)")
        monkeypatch.setattr(demo, "N_PEOPLE", 12)
        monkeypatch.setattr(demo, "VOXEL_MM", 8)
        monkeypatch.setattr(demo, "FIT", ("--sparsity", "0.95", "--n-splits", "0", "--overwrite", "--quiet"))

    @pytest.mark.no_cover
    def test_a_volume_goes_through_files_and_a_second_run_replaces_the_first(self, tmp_path, monkeypatch):
        import nibabel as nib

        lines = []
        report = demo.run_volume(tmp_path / "volume", 0, lines.append)
        results = tmp_path / "volume" / "results"
        images = sorted((tmp_path / "volume" / "input").glob("sub-*_map.nii.gz"))
        mask = nib.load(tmp_path / "volume" / "input" / "mask.nii.gz")
        maps = nib.load(results / "desc-SPCATV_components.nii.gz")
        assert maps.shape == (*mask.shape, 3)
        assert_allclose(maps.affine, nib.load(images[0]).affine)
        rows = read_tsv(results / "desc-SPCATV_mixing.tsv")
        assert [row["input"] for row in rows] == [str(image) for image in images]
        assert report.parent == results
        assert "Simulated volume" in report.read_text(encoding="utf-8")
        assert (tmp_path / "volume.png").read_bytes().startswith(b"\x89PNG\r\n")
        text = "\n".join(lines)
        assert f"$ spca-tv fit '{tmp_path}" in text, "the commands are shown as one would type them"
        assert f"Picture: {tmp_path / 'volume.png'}\nReport:  {report}" in text
        monkeypatch.setattr(demo, "N_PEOPLE", 10)
        demo.run_volume(tmp_path / "volume", 1, str)
        assert len(list((tmp_path / "volume" / "input").glob("sub-*"))) == 10

    @pytest.mark.slow
    def test_a_surface_goes_through_files(self, tmp_path):
        report = demo.run_surface(tmp_path / "surface", 0, str)
        assert {"hemi-L_desc-SPCATV_components.func.gii", "hemi-R_desc-SPCATV_components.func.gii"} < set(
            listing(report.parent)
        )
        assert len(listing(tmp_path / "surface" / "input")) == 2 * demo.N_PEOPLE
        assert (tmp_path / "surface.png").is_file()

    def test_failure_of_the_command_ends_the_demo(self, tmp_path, monkeypatch):
        monkeypatch.setattr(demo, "main", lambda argv: 2)
        with pytest.raises(RuntimeError, match="this command failed"):
            demo.run_volume(tmp_path / "volume", 0, str)
