"""Everything that can be wrong with images: one line that names the file, exit code 2, nothing written."""

import os

import numpy as np
import pytest
from cli_files import AFFINE, SHAPE, listing

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")


@pytest.fixture
def refuses(volumes, tmp_path, refused):
    """Fit the volumes with other options, and check that nothing was written."""

    def run(*options, images=None, mask=True):
        before = listing(tmp_path)
        given = [volumes] if images is None else images
        mask_options = ("--mask", tmp_path / "mask.nii.gz") if mask else ()
        line = refused("fit", *given, *mask_options, *options, "--output", tmp_path / "out")
        assert listing(tmp_path) == before
        return line

    return run


def save(values, file, affine=AFFINE):
    nib.save(nib.Nifti1Image(np.asarray(values, dtype=np.float32), affine), file)


def test_other_shape(volumes, refuses):
    save(np.ones((9, 8, 6)), volumes / "sub-05_map.nii.gz")
    line = refuses()
    assert "sub-05_map.nii.gz" in line
    assert "shape 9 x 8 x 6 instead of 9 x 8 x 7" in line


def test_other_affine(volumes, refuses):
    save(np.ones(SHAPE), volumes / "sub-07_map.nii.gz", np.diag([2.0, 2.0, 2.0, 1.0]))
    line = refuses()
    assert "sub-07_map.nii.gz" in line
    assert "another affine" in line


def test_mask_that_does_not_fit(tmp_path, refuses):
    save(np.ones((5, 5, 5)), tmp_path / "mask.nii.gz")
    line = refuses()
    assert "mask.nii.gz" in line
    assert "does not fit" in line


def test_empty_mask(tmp_path, refuses):
    save(np.zeros(SHAPE), tmp_path / "mask.nii.gz")
    line = refuses()
    assert "mask.nii.gz" in line
    assert "empty" in line


@pytest.mark.parametrize("content", [b"", b"this is no image", b"\x1f\x8b\x08\x00 no gzip after all"])
def test_file_that_is_no_image(content, volumes, refuses):
    (volumes / "sub-02_map.nii.gz").write_bytes(content)
    assert "sub-02_map.nii.gz" in refuses()


def test_truncated_file(volumes, refuses):
    file = volumes / "sub-03_map.nii.gz"
    file.write_bytes(file.read_bytes()[:-200])
    line = refuses()
    assert "sub-03_map.nii.gz" in line
    assert "cut short" in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(volumes, refuses):
    (volumes / "sub-03_map.nii.gz").chmod(0)
    assert "sub-03_map.nii.gz" in refuses()


def test_no_file_matched(tmp_path, refuses):
    pattern = str(tmp_path / "images" / "*.mgz")
    assert f"no file matches {pattern!r}" in refuses(images=[pattern])
    assert f"no such file: {tmp_path / 'x.nii'}" in refuses(images=[tmp_path / "x.nii"])
    assert "no input: name images, or an array with --array" in refuses(images=[])


def test_one_image_only(volumes, refuses):
    line = refuses(images=[volumes / "sub-00_map.nii.gz"])
    assert "sub-00_map.nii.gz: one image only" in line


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("age\n" + "1\n" * 9, "has 9 rows, but there are 10 samples"),
        ("age\n" + "1\n2\n" * 4 + "n/a\n3\n", "the value of age in row 9 is missing"),
        (
            "age\n" + "31\n" * 7 + "3l\n" + "31\n" * 2,
            "column 'age' mixes numbers and text: row 8 has '3l'",
        ),
        (
            "site\n" + "".join(f"s{n}\n" for n in range(10)),
            "column 'site' has 10 different values in 10 rows",
        ),
        ("id\n" + "".join(f"s{n}\n" for n in range(10)), "remove id"),
        ("age\n" + "31\n" * 9 + "inf\n", "values are missing or infinite, first in row 10, column 'age'"),
        ("site\n" + "Paris\n" * 10, "no column has more than one value (site)"),
        ("age\n" + "1\t2\n" * 10, "row 1 has 2 cells, the header has 1"),
        ("", "is empty"),
    ],
)
def test_confounds(table, message, tmp_path, refuses):
    file = tmp_path / "confounds.tsv"
    file.write_text(table)
    line = refuses("--confounds", file)
    assert message in line
    assert str(file) in line


def test_confounds_that_are_not_there(tmp_path, refuses):
    assert f"cannot read the table {tmp_path / 'no.tsv'}" in refuses("--confounds", tmp_path / "no.tsv")
    (tmp_path / "c.tsv").write_text("age\n" + "1\n" * 10)
    line = refuses("--confounds", tmp_path / "c.tsv", "--confounds-columns", "age,sex")
    assert "has no column 'sex'; it has age" in line


def test_confounds_of_other_files(tmp_path, refuses):
    rows = "".join(f"elsewhere/{number}.nii.gz\t{number}\n" for number in range(10))
    (tmp_path / "c.tsv").write_text("path\tage\n" + rows)
    line = refuses("--confounds", tmp_path / "c.tsv")
    assert "elsewhere/0.nii.gz" in line
    assert "remove path" in line


def test_bad_features_refused_by_a_parameter(volumes, tmp_path, refuses):
    image = nib.load(volumes / "sub-04_map.nii.gz")
    values = image.get_fdata()
    values[3, 3, 3] = np.nan
    save(values, volumes / "sub-04_map.nii.gz")
    line = refuses("--bad-features", "raise")
    assert "sub-04_map.nii.gz" in line


@pytest.mark.parametrize("option", [("--shape", "3,3"), ("--periodic", "0"), ("--voxel-size", "1,1")])
def test_options_of_arrays(option, refuses):
    assert f"{option[0]} can only be used with --array" in refuses(*option)


def test_surface_and_template(refuses):
    line = refuses("--surface", "a", "b", "--template", "fsaverage5")
    assert "give either --surface or --template, not both" in line


def test_without_the_extra_one_line(volumes, tmp_path, monkeypatch, capsys):
    import sys

    from spcatv.cli import main

    for name in [name for name in sys.modules if name.split(".")[:2] == ["spcatv", "images"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "nilearn", None)
    assert main(["fit", str(volumes), "--output", str(tmp_path / "out")]) == 1
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert 'pip install "spca-tv[images]"' in shown.err
    assert not (tmp_path / "out").exists()
