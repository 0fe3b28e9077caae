"""Small cohorts on disk, and the command line as a function."""

import numpy as np
import pytest
from cli_files import AFFINE, SHAPE, fields

from spcatv.cli import main


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """Help texts are wrapped to the width of the terminal: make it the same everywhere."""
    monkeypatch.setenv("COLUMNS", "100")


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused: exit code 2 and one line, which is returned."""

    def run(*argv):
        assert main([str(word) for word in argv]) == 2
        shown = capsys.readouterr()
        assert shown.out == ""
        assert shown.err.startswith("spca-tv: error: ")
        assert shown.err.count("\n") == 1
        return shown.err

    return run


@pytest.fixture
def done(capsys):
    """Run a command that must succeed without a word of complaint; what it printed is returned."""

    def run(*argv):
        code = main([str(word) for word in argv])
        shown = capsys.readouterr()
        assert (code, shown.err) == (0, "")
        return shown.out

    return run


@pytest.fixture
def array(tmp_path):
    """16 samples of 12 x 10 cells, as rows."""
    file = tmp_path / "X.npy"
    np.save(file, fields().reshape(16, -1))
    return file


@pytest.fixture
def mask_array():
    inside = np.zeros(SHAPE, dtype=bool)
    inside[1:8, 1:7, 1:6] = True
    return inside


@pytest.fixture
def volumes(tmp_path, mask_array):
    """Ten NIfTI files with one region that varies, and a mask; the folder of the files."""
    nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
    rng = np.random.default_rng(1)
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(10):
        values = rng.standard_normal(SHAPE).astype(np.float32)
        values[2:5, 2:5, 2:5] += 4 * rng.standard_normal()
        nib.save(nib.Nifti1Image(values, AFFINE), folder / f"sub-{number:02d}_map.nii.gz")
    nib.save(nib.Nifti1Image(mask_array.astype(np.uint8), AFFINE), tmp_path / "mask.nii.gz")
    return folder
