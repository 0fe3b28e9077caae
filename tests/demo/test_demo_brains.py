"""The parts of the demo on brains: through files, and SPCA-TV finds what elastic-net PCA does not."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from cli_files import Messages, listing, read_tsv
from numpy.testing import assert_allclose

from spcatv.cli import main
from spcatv.demo import brains, run_demo
from spcatv.progress import listening

nib = pytest.importorskip("nibabel", reason="the demo on brains reads and writes images (extra `images`)")
pytest.importorskip("nilearn", reason="the demo on brains takes its template from nilearn (extra `images`)")
pytest.importorskip("matplotlib", reason="the demo draws with matplotlib (extra `report`)")


def run_once(part, folder):
    """The result of a part, its folder, and what it said."""
    messages = Messages()
    with listening(messages):
        return part(folder, spca_tv=main), folder, "\n".join(messages.lines)


@pytest.fixture(scope="module")
def volume(tmp_path_factory):
    """The part as people run it, once for this file."""
    return run_once(brains.run_volume, tmp_path_factory.mktemp("volume"))


@pytest.fixture(scope="module")
def surface(tmp_path_factory):
    return run_once(brains.run_surface, tmp_path_factory.mktemp("surface"))


@pytest.mark.no_cover
@pytest.mark.parametrize("part", ["volume", pytest.param("surface", marks=pytest.mark.slow)])
def test_the_method_finds_the_regions(part, request):
    result, folder, text = request.getfixturevalue(part)
    elastic_net, tv = result.methods
    assert tv.mse < 0.3 < elastic_net.mse
    assert tv.dice > 0.5 > 0.4 > elastic_net.dice
    assert tv.n_clusters < 0.2 * elastic_net.n_clusters
    assert tv.sparsity == pytest.approx(0.95, abs=0.01)
    assert elastic_net.sparsity == pytest.approx(0.95, abs=0.01)
    assert 0 < tv.relative_gap <= 1e-6
    assert result.picture.read_bytes().startswith(b"\x89PNG\r\n")
    assert f"{tv.mse:.3f}" in text
    assert f"--output {folder}" in text, "the commands are shown as one would type them"
    assert f"Picture: {result.picture}" in text
    assert f"Report:  {result.report}" in text
    assert "Simulated" in result.report.read_text(encoding="utf-8")


@pytest.mark.parametrize(("alpha", "n_live"), [("0.01", 2), ("100", 0)])
def test_dead_components_have_no_figures(alpha, n_live, tmp_path):
    """Data of rank 1 leave too little for three components; the figures are those of the others, if any."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", np.outer(rng.standard_normal(8), rng.standard_normal(10)))
    words = ["fit", "--array", str(tmp_path / "X.npy"), "--n-components", "3", "--n-splits", "0"]
    assert main([*words, "--shape", "10", "--alpha", alpha, "--output", str(tmp_path / "out")]) == 0
    loadings = np.load(tmp_path / "out" / "desc-SPCATV_components.npy")
    assert np.count_nonzero(loadings.any(axis=1)) == n_live
    found = brains._judged("SPCA-TV", loadings, tmp_path / "out", np.eye(3, 10))
    assert np.isfinite([found.mse, found.dice, found.seconds]).all()
    assert np.isfinite(found.relative_gap) == np.isfinite(found.sparsity) == (n_live > 0)
    assert found.sparsity < 0.9 or n_live == 0, "dead components are not sparse"


def test_volume_leaves_files_that_others_read(volume):
    result, folder, _ = volume
    images = sorted((folder / "volume" / "input").glob("sub-*_map.nii.gz"))
    assert len(images) == len(result.cohort.X)
    mask = np.asarray(nib.load(folder / "volume" / "input" / "mask.nii.gz").dataobj) != 0
    assert_allclose(np.asarray(nib.load(images[7]).dataobj)[mask], result.cohort.X[7])
    maps = nib.load(folder / "volume" / "spca-tv" / "desc-SPCATV_components.nii.gz")
    assert maps.shape == (*mask.shape, 3)
    assert_allclose(maps.affine, nib.load(images[0]).affine)
    rows = read_tsv(folder / "volume" / "spca-tv" / "desc-SPCATV_mixing.tsv")
    assert [row["input"] for row in rows] == [str(image) for image in images]


@pytest.mark.slow
def test_surface_leaves_a_map_a_hemisphere(surface):
    _, folder, _ = surface
    assert {"hemi-L_desc-SPCATV_components.func.gii", "hemi-R_desc-SPCATV_components.func.gii"} < set(
        listing(folder / "surface" / "spca-tv")
    )
    assert len(listing(folder / "surface" / "input")) == 2 * brains.N_PEOPLE


def test_a_second_run_replaces_the_first(tmp_path, monkeypatch):
    monkeypatch.setattr(brains, "N_PEOPLE", 12)
    monkeypatch.setattr(brains, "VOXEL_MM", 8)
    monkeypatch.setattr(brains, "METHODS", {"SPCA-TV": ("--n-splits", "0")})
    monkeypatch.setattr(
        brains, "draw_volume", lambda *args: pytest.importorskip("matplotlib.figure").Figure()
    )
    brains.run_volume(tmp_path, spca_tv=main)
    monkeypatch.setattr(brains, "N_PEOPLE", 10)
    assert len(brains.run_volume(tmp_path, seed=1, spca_tv=main).cohort.X) == 10
    assert len(list((tmp_path / "volume" / "input").glob("sub-*"))) == 10


def test_failure_of_the_command_ends_the_demo(tmp_path, monkeypatch):
    monkeypatch.setattr(brains, "N_PEOPLE", 3)
    with pytest.raises(RuntimeError, match="this command failed"):
        brains.run_volume(tmp_path, spca_tv=lambda argv: 2)


def test_without_the_extra_one_line_before_any_work(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "nilearn", None)
    assert main(["demo", "--output", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert 'pip install "spca-tv[images,report]"' in shown.err
    assert listing(tmp_path) == []


def test_parts_are_chosen(monkeypatch, tmp_path):
    ran, opened = [], []

    def pretend(part):
        ran.append(part)
        return SimpleNamespace(report=tmp_path / f"{part}.html")

    for part in ("dots", "volume", "surface"):
        monkeypatch.setattr(f"spcatv.demo.run_{part}", lambda *args, part=part, **options: pretend(part))
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert run_demo(tmp_path, spca_tv=main) == (tmp_path / "volume.html", tmp_path / "surface.html")
    assert ran == ["dots", "volume", "surface"]
    assert main(["demo", "--only", "surface", "--only", "dots", "--output", str(tmp_path)]) == 0
    assert ran[3:] == ["dots", "surface"]
    assert opened == []
    assert main(["demo", "--only", "surface", "--open", "--output", str(tmp_path)]) == 0
    assert opened == [(tmp_path / "surface.html").as_uri()]
