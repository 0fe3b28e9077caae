"""Real volumes and surfaces, written as files and read again; skipped if the data are missing."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from image_files import write_curv, write_gifti, write_mgh
from scipy.ndimage import label

pytest.importorskip("nilearn")
import nibabel as nib

from spcatv import SPCATV
from spcatv.images import BadFeatureWarning, ImageSPCATV
from spcatv.structure import grid

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = pytest.mark.realdata


def load(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    with np.load(path, allow_pickle=False) as file:
        values = {key: file[key] for key in file.files}
    X = values["X"].astype(np.float32) * np.float32(values.get("scale", 1.0))
    return X, values


@pytest.fixture(scope="module")
def vbm(tmp_path_factory):
    """306 grey-matter maps as NIfTI files."""
    X, values = load("vbm_volume.npz")
    folder = tmp_path_factory.mktemp("vbm")
    inside = values["mask"].astype(bool)
    for number, row in enumerate(X):
        image = np.zeros(inside.shape, np.float32)
        image[inside] = row
        nib.save(nib.Nifti1Image(image, values["affine"]), folder / f"sub-{number:03d}.nii.gz")
    nib.save(nib.Nifti1Image(inside.astype(np.uint8), values["affine"]), folder / "mask.nii.gz")
    return folder, X, inside, values["affine"]


def test_vbm_from_files_is_vbm_from_the_array(vbm):
    folder, X, inside, affine = vbm
    model = ImageSPCATV(n_components=3, mask=folder / "mask.nii.gz").fit(str(folder / "sub-*.nii.gz"))
    structure = grid(inside)
    plain = SPCATV(n_components=3, structure=structure).fit(X)
    # not bit by bit: sums depend on where an array begins in memory
    assert np.allclose(model.components_, plain.components_, rtol=0, atol=1e-6)
    assert np.array_equal(model.components_img_.affine, affine)


def clusters(component, inside):
    """Connected regions of one sign, neighbours by faces."""
    image = np.zeros(inside.shape)
    image[inside] = component
    return label(image > 0)[1] + label(image < 0)[1]


def test_vbm_components_are_coherent_regions(vbm):
    """Far fewer connected clusters than elastic-net PCA at the same sparsity, 90 % zeros in every map."""
    _, X, inside, _ = vbm
    wanted = [0.9, 0.9, 0.9]
    found = [
        SPCATV(3, structure=structure, alpha=None, sparsity=wanted).fit(X).components_
        for structure in (grid(inside), None)
    ]
    for components in found:
        np.testing.assert_allclose((components == 0).mean(axis=1), wanted, atol=0.03)
    mine, other = (sum(clusters(component, inside) for component in components) for components in found)
    assert mine < other / 20


MEMORY = """
import resource, sys
from spcatv.images import ImageSPCATV
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
import nilearn.maskers, numpy as np
from spcatv import SPCATV
SPCATV(1, structure=(6, 6, 6)).fit(np.random.default_rng(0).random((4, 216), dtype=np.float32))
before = peak()
model = ImageSPCATV(n_components=3, mask=sys.argv[1] + "/mask.nii.gz", standardize=True)
model.fit_transform(sys.argv[1] + "/sub-*.nii.gz", confounds=np.arange(306.0))
print(peak() - before)
"""


def test_vbm_peak_memory(vbm):
    """Reading, confounds, standardizing and fitting add less than 3 data matrices."""
    folder, X, _, _ = vbm
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, str(folder)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    assert float(done.stdout.split()[-1]) < 3 * X.nbytes


def test_thickness_from_every_format(tmp_path):
    X, values = load("thickness_surface.npz")
    X, cortex = X[:60], values["mask"].astype(bool)
    n_left = X.shape[1] // 2
    sides = {"lh": X[:, :n_left], "rh": X[:, n_left:]}
    files = {"mgh": [], "gii": [], "curv": []}
    for side, rows in sides.items():
        for number, row in enumerate(rows):
            name = f"{side}.sub-{number:03d}"
            write_mgh(tmp_path / f"{name}.mgh", row)
            write_gifti(tmp_path / f"{name}.gii", row)
            write_curv(tmp_path / f"{name}.thickness", row)
            files["mgh"].append(tmp_path / f"{name}.mgh")
            files["gii"].append(tmp_path / f"{name}.gii")
            files["curv"].append(tmp_path / f"{name}.thickness")
    # some vertices of the mask never vary in these data, and the model says so
    varying = cortex & (np.ptp(X, axis=0) > 0)
    for paths in files.values():
        model = ImageSPCATV(n_components=2, surface="fsaverage5", mask=cortex)
        with pytest.warns(BadFeatureWarning):
            model.fit(paths)
        assert model.n_dropped_ == cortex.sum() - varying.sum()
        plain = SPCATV(n_components=2, structure=model.structure_).fit(X[:, varying])
        assert np.allclose(model.components_, plain.components_, rtol=0, atol=1e-6)
