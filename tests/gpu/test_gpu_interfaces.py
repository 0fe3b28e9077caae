"""Images, model folders and the command line on a GPU."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from spcatv import SPCATV
from spcatv.cli import main

pytestmark = pytest.mark.filterwarnings("ignore:the share of zeros:UserWarning")


@pytest.fixture
def rows():
    X = np.random.default_rng(0).standard_normal((20, 60))
    X[:, 10:30] += 2.0 * np.random.default_rng(1).standard_normal((20, 1))
    return X


@pytest.fixture
def command(rows, tmp_path):
    """Words of a fit on the GPU."""
    np.save(tmp_path / "X.npy", rows)
    words = ["fit", "--array", str(tmp_path / "X.npy"), "--shape", "60", "--n-components", "1"]
    return [*words, "--n-splits", "0", "--device", "cuda", "--output", str(tmp_path / "out")]


def test_the_command_line_writes_what_the_cpu_finds(command, rows, tmp_path):
    assert main(command) == 0
    found = np.load(tmp_path / "out" / "desc-SPCATV_components.npy")
    assert_allclose(found, SPCATV(1, structure=(60,)).fit(rows).components_, atol=1e-4)


def test_without_cupy_the_command_line_reads_nothing(command, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert main(command) == 2
    assert "--device cuda needs CuPy" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_model_is_loaded_without_a_gpu(rows, tmp_path, monkeypatch):
    model = SPCATV(1, structure=(60,), device="cuda").fit(rows)
    model.save(tmp_path / "model")
    monkeypatch.setitem(sys.modules, "cupy", None)
    loaded = SPCATV.load(tmp_path / "model")
    assert loaded.device == "cpu"
    assert_allclose(loaded.transform(rows), model.transform(rows))


def test_images():
    nib = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from spcatv.images import ImageSPCATV

    rng, affine = np.random.default_rng(0), np.diag([3.0, 3.0, 3.0, 1.0])
    values = rng.standard_normal((12, 6, 7, 5)).astype(np.float32)
    values[:, 1:4, 2:5, 1:3] += 3.0 * rng.standard_normal((12, 1, 1, 1))
    images = [nib.Nifti1Image(image, affine) for image in values]
    mask = nib.Nifti1Image(np.ones((6, 7, 5), np.uint8), affine)
    here, there = (
        ImageSPCATV(n_components=1, mask=mask, device=device).fit(images) for device in ("cpu", "cuda")
    )
    assert_allclose(there.components_, here.components_, atol=1e-4)
