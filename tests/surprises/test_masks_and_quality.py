"""From files alone: a doubtful mask and a bad image never pass without a word."""

import csv
from itertools import count

import numpy as np
import pytest

from spcatv.cli import main

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")

SMALL = ("--n-components", "1", "--sparsity", "0.5", "--tol", "1e-3")


@pytest.fixture(scope="module")
def brain():
    """The brain of the MNI152 template at 8 mm."""
    from nilearn.datasets import load_mni152_brain_mask

    image = load_mni152_brain_mask(resolution=8)
    return np.asanyarray(image.dataobj) > 0, image.affine


def write(folder, arrays, affine, name="sub-{:02d}_con.nii.gz"):
    folder.mkdir(parents=True)
    for number, values in enumerate(arrays, start=1):
        nib.save(nib.Nifti1Image(values.astype(np.float32), affine), folder / name.format(number))
    return folder


def contrasts(shape, n_images=12):
    rng = np.random.default_rng(0)
    common = rng.standard_normal(shape)
    return [common + rng.standard_normal(shape) for _ in range(n_images)]


@pytest.fixture
def fit(tmp_path, capsys):
    """Run ``spca-tv fit``; returns the exit code, what was printed, and the results folder."""

    numbers = count()

    def run(*words):
        out = tmp_path / f"results-{next(numbers)}"
        code = main(["fit", *map(str, words), *SMALL, "--output", str(out)])
        shown = capsys.readouterr()
        return code, shown.out, shown.err, out

    return run


def quality_rows(out):
    with (out / "desc-SPCATV_quality.tsv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_contrast_maps_without_a_background(brain, tmp_path, fit):
    """All voxels have values: the warning names strategies, and the template is one of them."""
    inside, affine = brain
    folder = write(tmp_path / "maps", contrasts(inside.shape), affine)
    code, _, complaints, _ = fit(folder)
    assert code == 0
    assert "fills 100 % of the box" in complaints
    assert all(name in complaints for name in ("background", "epi", "whole-brain-template", "gm-template"))
    code, shown, complaints, out = fit(folder, "--mask", "whole-brain-template")
    assert (code, complaints) == (0, "")
    assert shown.startswith("Read 12 images: mask of ")
    maps = nib.load(out / "desc-SPCATV_components.nii.gz").get_fdata()[..., 0]
    assert (inside[maps != 0]).mean() > 0.95


def test_nan_background(brain, tmp_path, fit):
    inside, affine = brain
    below = inside & (np.indices(inside.shape)[2] < 6)
    maps = [np.where(below, values, np.nan) for values in contrasts(inside.shape)]
    code, shown, complaints, _ = fit(write(tmp_path / "maps", maps, affine))
    assert (code, complaints) == (0, "")
    assert f"mask of {below.sum():,} of {below.size:,} voxels, computed by 'nonzero'" in shown


def test_a_map_that_is_nan_in_half_of_its_voxels(brain, tmp_path, fit):
    """It is named, with what it costs; the table lists it, and --exclude gives the whole mask back."""
    inside, affine = brain
    maps = [np.where(inside, values, 0) for values in contrasts(inside.shape)]
    maps[6][: inside.shape[0] // 2] = np.nan
    lost = int(inside[: inside.shape[0] // 2].sum())
    folder = write(tmp_path / "maps", maps, affine)
    code, _, complaints, out = fit(folder)
    assert code == 0
    first = complaints.splitlines()[0]
    assert "1 of 12 images is unlike the others: " in first
    assert "sub-07_con.nii.gz (" in first
    assert f"cost the mask {lost:,} of its {inside.sum():,} voxels" in first
    outliers = [row for row in quality_rows(out) if row["outlier"] == "true"]
    assert [row["input"] for row in outliers] == [str(folder / "sub-07_con.nii.gz")]
    assert "% missing" in outliers[0]["why"]
    assert (out / "desc-SPCATV_quality.json").is_file()
    for name in ("sub-07", "sub-07_con", str(folder / "sub-07_con.nii.gz")):
        code, shown, complaints, out = fit(folder, "--exclude", name)
        assert (code, complaints) == (0, "")
        assert f"Read 11 images: mask of {inside.sum():,} of " in shown
        assert len(quality_rows(out)) == 11


def test_the_report_shows_outliers_and_mask(brain, tmp_path, fit):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    inside, affine = brain
    maps = [np.where(inside, values, 0) for values in contrasts(inside.shape)]
    maps[6] *= -1
    out = fit(write(tmp_path / "maps", maps, affine))[3]
    assert main(["report", str(out)]) == 0
    html = (out / "desc-SPCATV_report.html").read_text(encoding="utf-8")
    assert "1 of 12 images is unusual: sub-07_con.nii.gz (" in html
    assert "correlation -0." in html
    assert "Six slices with the outline of the mask, on the mean image" in html
    mean = nib.load(out / "desc-SPCATV_mean.nii.gz").get_fdata()
    np.testing.assert_allclose(mean, np.mean(maps, axis=0), atol=1e-5)


def test_an_all_zero_image(brain, tmp_path, fit):
    inside, affine = brain
    maps = [np.where(inside, values, 0) for values in contrasts(inside.shape)]
    maps[2] = np.zeros(inside.shape)
    folder = write(tmp_path / "maps", maps, affine)
    code, shown, complaints, out = fit(folder)
    assert (code, shown) == (2, "")
    assert complaints.count("\n") == 1
    assert "sub-03_con.nii.gz (0 everywhere)" in complaints
    assert "--exclude" in complaints
    assert not out.exists()
    assert fit(folder, "--exclude", "sub-03")[0] == 0


def test_several_names_and_the_configuration(brain, tmp_path, fit):
    inside, affine = brain
    maps = [np.where(inside, values, 0) for values in contrasts(inside.shape)]
    folder = write(tmp_path / "maps", maps, affine)
    code, shown, _, out = fit(folder, "--exclude", "sub-01", "sub-02", "sub-03")
    assert code == 0
    assert "Read 9 images" in shown
    config = tmp_path / "config.toml"
    config.write_text((out / "desc-SPCATV_config.toml").read_text())
    code, shown, _, _ = fit("--config", config)
    assert code == 0
    assert "Read 9 images" in shown
    code, _, complaints, _ = fit(folder, "--exclude", "sub-77")
    assert code == 2
    assert "sub-77 is none of the 12 images" in complaints


def test_the_mask_is_named_before_the_fit(brain, tmp_path, capsys, monkeypatch):
    from spcatv import SPCATV

    inside, affine = brain
    folder = write(tmp_path / "maps", [np.where(inside, x, 0) for x in contrasts(inside.shape)], affine)
    before = []
    plain_fit = SPCATV.fit

    def fit(self, X):
        before.append(capsys.readouterr().out)
        return plain_fit(self, X)

    monkeypatch.setattr(SPCATV, "fit", fit)
    assert main(["fit", str(folder), *SMALL, "--output", str(tmp_path / "out")]) == 0
    assert "computed by 'nonzero'" in before[0]


def test_the_same_map_twice(brain, tmp_path, fit):
    """Under another ending it is named; the very same file, or both files of a pair, are refused."""
    inside, affine = brain
    maps = [np.where(inside, values, 0) for values in contrasts(inside.shape)]
    folder = write(tmp_path / "maps", maps, affine)
    again = folder / "sub-03_con.nii"
    nib.save(nib.load(folder / "sub-03_con.nii.gz"), again)
    code, _, complaints, out = fit(folder)
    assert code == 0
    assert "1 image holds the same values as another one and would count twice" in complaints
    assert f"{again.with_suffix('.nii.gz')} (as {again})" in complaints
    assert [row["input"] for row in quality_rows(out) if row["why"] != "n/a"] == [f"{again}.gz"]
    code, _, complaints, _ = fit(folder, "--exclude", again)
    assert (code, complaints) == (0, "")
    (tmp_path / "link.nii").symlink_to(again)
    code, _, complaints, _ = fit(again, tmp_path / "link.nii", folder / "sub-01_con.nii.gz")
    assert code == 2
    assert f"link.nii is given twice: {again} is the same file" in complaints
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    for number, values in enumerate(maps[:3]):
        nib.save(nib.Nifti1Pair(values.astype(np.float32), affine), pairs / f"{number}.img")
    code, _, complaints, _ = fit(pairs / "*")
    assert code == 2
    assert "0.hdr and " in complaints
    assert "0.img are the two files of one image; name one of them, such as '*.img'" in complaints
