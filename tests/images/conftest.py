"""Small cohorts on nilearn's own templates, as arrays and as files."""

from types import SimpleNamespace

import numpy as np
import pytest
from image_files import write_curv, write_gifti, write_mgh

N_IMAGES = 12


def blobs(rng, places, n_images=N_IMAGES):
    """Two regions of neighbours with scores of their own, on noise; float32, (n_images, n_places)."""
    X = 5 + 0.5 * rng.standard_normal((n_images, len(places)))
    for centre, size in ((len(places) // 4, 3.0), (3 * len(places) // 4, 2.0)):
        near = np.linalg.norm(places - places[centre], axis=1)
        region = near < np.sort(near)[len(places) // 12]
        X[:, region] += size * rng.standard_normal((n_images, 1))
    return X.astype(np.float32)


@pytest.fixture(scope="session")
def grey_matter():
    """The MNI152 grey-matter mask at 8 mm, with its sform code as other tools write it."""
    nib = pytest.importorskip("nibabel")
    datasets = pytest.importorskip("nilearn.datasets")
    mask = datasets.load_mni152_gm_mask(resolution=8)
    image = nib.Nifti1Image(np.asanyarray(mask.dataobj).astype(np.uint8), mask.affine)
    image.set_sform(mask.affine, "mni")
    image.set_qform(mask.affine, "scanner")
    image.header.set_xyzt_units("mm")
    return image


@pytest.fixture(scope="session")
def volumes(grey_matter, tmp_path_factory):
    """Twelve images with values on the grey-matter mask, as files, and the same values as an array."""
    nib = pytest.importorskip("nibabel")
    folder = tmp_path_factory.mktemp("volumes")
    inside = np.asanyarray(grey_matter.dataobj) > 0
    X = blobs(np.random.default_rng(0), np.argwhere(inside))
    paths = []
    for number, row in enumerate(X):
        values = np.zeros(inside.shape, dtype=np.float32)
        values[inside] = row
        paths.append(folder / f"sub-{number + 1:02d}_gm.nii.gz")
        nib.save(nib.Nifti1Image(values, grey_matter.affine), paths[-1])
    mask = folder / "mask.nii.gz"
    nib.save(grey_matter, mask)
    return SimpleNamespace(folder=folder, paths=paths, mask=mask, inside=inside, X=X)


@pytest.fixture(scope="session")
def fsaverage():
    """Coordinates and triangles of the two fsaverage5 hemispheres that nilearn ships."""
    datasets = pytest.importorskip("nilearn.datasets")
    meshes = datasets.load_fsaverage("fsaverage5")["pial"].parts
    return {
        hemi: (np.asarray(part.coordinates, np.float32), np.asarray(part.faces, np.int32))
        for hemi, part in meshes.items()
    }


@pytest.fixture(scope="session")
def thickness(fsaverage, tmp_path_factory):
    """Twelve maps like cortical thickness, zero on a medial wall: arrays, .mgh, GIFTI and curv files."""
    pytest.importorskip("nibabel")
    folder = tmp_path_factory.mktemp("thickness")
    rng = np.random.default_rng(1)
    letters, values, cortex = {"left": "L", "right": "R"}, {}, {}
    files = {"mgh": [], "gifti": [], "curv": []}
    for hemi, (coords, _) in fsaverage.items():
        values[hemi] = blobs(rng, coords)
        side = coords[:, 0] if hemi == "left" else -coords[:, 0]
        cortex[hemi] = side < np.quantile(side, 0.93)
        values[hemi][:, ~cortex[hemi]] = 0
        for number, row in enumerate(values[hemi]):
            fs = folder / f"sub-{number + 1:02d}"
            fs.mkdir(exist_ok=True)
            write_mgh(fs / f"{hemi[0]}h.thickness.fsaverage5.mgh", row)
            write_gifti(folder / f"sub-{number + 1:02d}_hemi-{letters[hemi]}_thickness.shape.gii", row)
            write_curv(fs / f"{hemi[0]}h.thickness", row)
            files["mgh"].append(fs / f"{hemi[0]}h.thickness.fsaverage5.mgh")
            files["gifti"].append(folder / f"sub-{number + 1:02d}_hemi-{letters[hemi]}_thickness.shape.gii")
            files["curv"].append(fs / f"{hemi[0]}h.thickness")
    return SimpleNamespace(folder=folder, files=files, values=values, cortex=cortex)
