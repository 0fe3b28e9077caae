"""Small data and files for the examples of the documentation, under the names that the examples use.

A function prepares what one page needs: files in an empty folder, and the names that its Python blocks know
from the start.
"""

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.structure import grid, icosphere

SHAPE = (7, 6, 5)
N_SAMPLES = 12
# endings of the motion parameters in the tables of fMRIPrep
EXPANSIONS = ("", "_derivative1", "_power2", "_derivative1_power2")


def signals(n_samples, places, seed=0):
    """Samples of three regions of neighbours and noise, shape (n_samples, n_places)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, len(places)))
    for centre, size in ((0, 6.0), (-1, 5.0), (len(places) // 2, 4.0)):
        near = np.linalg.norm(places - places[centre], axis=1)
        X[:, near <= np.quantile(near, 0.15)] += size * rng.standard_normal((n_samples, 1))
    return X


def box():
    """A mask of a box without its rim."""
    mask = np.zeros(SHAPE, dtype=bool)
    mask[1:-1, 1:-1, 1:-1] = True
    return mask


def write_volumes(folder, pattern):
    """Twelve NIfTI files by a pattern with a number, and their mask, gm_mask.nii.gz."""
    import nibabel as nib

    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    mask = box()
    for number, row in enumerate(signals(N_SAMPLES, np.argwhere(mask))):
        values = np.zeros(SHAPE, dtype=np.float32)
        values[mask] = row
        file = folder / pattern.format(number)
        file.parent.mkdir(exist_ok=True)
        nib.save(nib.Nifti1Image(values, affine), file)
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), affine), folder / "gm_mask.nii.gz")
    atlas = np.zeros(SHAPE, dtype=np.int16)
    atlas[:4], atlas[4:] = 1, 2
    nib.save(nib.Nifti1Image(atlas, affine), folder / "atlas.nii.gz")
    (folder / "atlas.tsv").write_text("index\tname\n1\tfront\n2\tback\n")


def write_bids(folder):
    """A BIDS dataset of derivatives, one smoothed image per person, and the table of the people."""
    name = "sub-{0:02d}_space-MNI152NLin2009cAsym_desc-smoothwm_T1w.nii.gz"
    root = folder / "derivatives" / "vbm"
    for number in range(N_SAMPLES):
        (root / f"sub-{number:02d}").mkdir(parents=True)
    write_volumes(root, "sub-{0:02d}/anat/" + name)
    (root / "dataset_description.json").write_text("{}")
    write_people(root)


def write_surfaces(folder):
    """Meshes and thickness of two small spheres, as FreeSurfer names and writes them, and an atlas."""
    import nibabel.freesurfer as fs

    coords, triangles = icosphere(2)
    for letter, shift in (("l", -2.0), ("r", 2.0)):
        fs.write_geometry(folder / f"{letter}h.white", coords + np.array([shift, 0, 0]), triangles)
        for number, row in enumerate(signals(N_SAMPLES, coords, seed=int(shift) + 5)):
            (folder / f"s{number}").mkdir(exist_ok=True)
            fs.write_morph_data(folder / f"s{number}" / f"{letter}h.thickness", row.astype(np.float32))
        labels = (coords[:, 2] > 0).astype(int)
        colours = np.array([[20, 30, 40, 0], [200, 30, 40, 0]])
        names = ["below", "above"]
        fs.write_annot(folder / f"{letter}h.aparc.annot", labels, colours, names, fill_ctab=True)


def write_grayordinates(folder):
    """Dense scalar files of two small spheres and a block of voxels, and the meshes as GIFTI."""
    import nibabel as nib
    from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

    coords, triangles = icosphere(2)
    for letter in "LR":
        arrays = [
            nib.gifti.GiftiDataArray(coords.astype(np.float32), intent="NIFTI_INTENT_POINTSET"),
            nib.gifti.GiftiDataArray(triangles.astype(np.int32), intent="NIFTI_INTENT_TRIANGLE"),
        ]
        nib.save(nib.gifti.GiftiImage(darrays=arrays), folder / f"{letter}.midthickness.surf.gii")
    everywhere = np.ones(len(coords), dtype=bool)
    axis = (
        BrainModelAxis.from_mask(everywhere, name="CortexLeft")
        + BrainModelAxis.from_mask(everywhere, name="CortexRight")
        + BrainModelAxis.from_mask(box(), name="thalamus_left", affine=np.diag([3.0, 3.0, 3.0, 1.0]))
    )
    places = np.concatenate([coords, coords + 5, np.argwhere(box()) + 20.0])
    for number, row in enumerate(signals(N_SAMPLES, places)):
        image = Cifti2Image(row[None].astype(np.float32), (ScalarAxis(["map"]), axis))
        nib.save(image, folder / f"sub-{number:02d}.dscalar.nii")


def write_runs(folder, n_volumes=60):
    """Two runs with the tables that fMRIPrep writes beside them."""
    import nibabel as nib
    import pandas as pd

    folder.mkdir()
    places = np.argwhere(box())
    motion = [f"{kind}_{axis}" for kind in ("trans", "rot") for axis in "xyz"]
    for number in range(2):
        rng = np.random.default_rng(number)
        stem = f"sub-{number:02d}_task-rest"
        values = np.zeros((*box().shape, n_volumes), dtype=np.float32)
        values[box()] = 100 + signals(n_volumes, places, seed=number).T
        image = nib.Nifti1Image(values, np.diag([3.0, 3.0, 3.0, 1.0]))
        image.header.set_zooms((3, 3, 3, 2.0))
        nib.save(image, folder / f"{stem}_desc-preproc_bold.nii.gz")
        names = [f"{name}{ending}" for name in motion for ending in EXPANSIONS] + ["white_matter", "csf"]
        columns = {name: rng.standard_normal(n_volumes) for name in names}
        pd.DataFrame(columns).to_csv(folder / f"{stem}_desc-confounds_timeseries.tsv", sep="\t", index=False)


def write_people(folder, name="participants.tsv"):
    """A table of age and diagnosis, one row per person."""
    rows = "".join(
        f"sub-{number:02d}\t{30 + number % 7}\t{'ABB'[number % 3]}\n" for number in range(N_SAMPLES)
    )
    (folder / name).write_text("participant_id\tage\tdiagnosis\n" + rows)


def masked(n_samples=40):
    """A mask, and data on it."""
    mask = np.ones((6, 7), dtype=bool)
    mask[0, :2] = False
    places = np.argwhere(mask)
    return {"mask": mask, "X": signals(n_samples, places), "X_new": signals(5, places, seed=1)}


def nothing(folder):
    return {}


def write_thickness(folder):
    """Thickness of both hemispheres of fsaverage5, as FreeSurfer names and writes it."""
    import nibabel as nib
    from nilearn.datasets import load_fsaverage

    folder.mkdir()
    for side, surface in load_fsaverage("fsaverage5")["pial"].parts.items():
        for number, row in enumerate(signals(N_SAMPLES, surface.coordinates)):
            values = nib.MGHImage(row.astype(np.float32)[:, None, None], np.eye(4))
            nib.save(values, folder / f"sub-{number:02d}.{side[0]}h.thickness.fsaverage5.mgh")


def readme(folder):
    write_volumes(folder, "maps/sub-{:02d}.nii.gz")
    write_thickness(folder / "thickness")
    return {}


def tour(folder):
    write_volumes(folder, "maps/sub-{:02d}.nii.gz")
    write_people(folder)
    mask = box()
    places = np.argwhere(mask)
    coords, triangles = icosphere(1)
    chain = grid((5,))
    return {
        "mask": mask,
        "X": signals(40, places),
        "X_new": signals(5, places, seed=1),
        "coords": coords,
        "triangles": triangles,
        "adjacency": np.ones((4, 4)) - np.eye(4),
        "regions": [[0, 1, 2], [2, 3]],
        "n": len(places),
        "left": (coords, triangles),
        "right": (coords, triangles),
        "A": chain.matrix,
        "group_ptr": chain.group_ptr,
        "y": np.random.default_rng(2).standard_normal(10_000),
    }


def explore(folder):
    write_volumes(folder, "maps/sub-{:02d}.nii.gz")
    return masked()


def contributing(folder):
    return masked()


def cli(folder):
    fields(folder)
    write_volumes(folder, "maps/sub-{:02d}.nii.gz")
    write_bids(folder)
    places = np.argwhere(np.ones((8, 9)))
    values = signals(N_SAMPLES, places)
    np.save(folder / "sst.npy", values.reshape(N_SAMPLES, 8, 9))
    large = signals(6, np.argwhere(np.ones((100, 100))))
    np.savetxt(folder / "X.csv", large, delimiter=",", fmt="%.4g")
    ocean = np.ones((8, 9), dtype=bool)
    ocean[:2, :3] = False
    np.save(folder / "ocean.npy", ocean)
    np.save(folder / "X.npy", values[:, ocean.ravel()])
    return {}


def volumes(folder):
    write_volumes(folder, "derivatives/sub-{:02d}_gm.nii.gz")
    return {}


def bids(folder):
    write_bids(folder)
    return {}


def images(folder):
    write_bids(folder)
    volumes(folder)
    write_volumes(folder, "sub-{:02d}_gm.nii.gz")
    write_surfaces(folder)
    write_grayordinates(folder)
    write_people(folder, "confounds.tsv")
    write_runs(folder / "fmriprep")
    return {}


def report(folder):
    import pandas as pd

    from spcatv.cli import main

    write_volumes(folder, "maps/sub-{:02d}.nii.gz")
    write_surfaces(folder)
    write_people(folder)
    options = ["--n-components", "2", "--n-splits", "1", "--quiet", "--output"]
    mask = ["--mask", str(folder / "gm_mask.nii.gz")]
    assert main(["fit", str(folder / "maps"), *mask, *options, str(folder / "results")]) == 0
    meshes = ["--surface", str(folder / "lh.white"), str(folder / "rh.white")]
    files = sorted(map(str, folder.glob("s*/?h.thickness")))
    assert main(["fit", *files, *meshes, *options, str(folder / "cortex")]) == 0
    people = pd.read_csv(folder / "participants.tsv", sep="\t")
    X = signals(N_SAMPLES, np.argwhere(np.ones((8, 9))))
    model = SPCATV(2, structure=(8, 9)).fit(X)
    return {"model": model, "X": X, "diagnosis": people["diagnosis"], "age": people["age"]}


def figures(folder):
    """A fitted model of fields, and one of images."""
    from spcatv import ImageSPCATV

    volumes(folder)
    images = ImageSPCATV(1, mask=str(folder / "gm_mask.nii.gz"))
    places = np.argwhere(np.ones((8, 9)))
    return {
        "model": SPCATV(2, structure=(8, 9)).fit(signals(N_SAMPLES, places)),
        "images": images.fit(str(folder / "derivatives" / "sub-*_gm.nii.gz")),
    }


def model_folder(folder):
    X = signals(6, np.argwhere(np.ones((100, 100))))
    np.save(folder / "X.npy", X)
    return {"X": X}


def selection(folder):
    given = masked()
    rng = np.random.default_rng(3)
    return {
        **given,
        "structure": grid(given["mask"]),
        "subject": np.repeat(np.arange(20), 2),
        "errors_of_one": rng.random(10),
        "errors_of_other": rng.random(10) + 0.5,
        "dice_of_one": rng.random(10) + 0.5,
        "dice_of_other": rng.random(10),
    }


def large_data(folder):
    """A matrix in files of two kinds, and its structure; and images."""
    h5py = pytest.importorskip("h5py", reason="not installed")
    pytest.importorskip("nilearn", reason="needs the extra images")
    write_volumes(folder, "maps/sub-{:02d}.nii.gz")
    pytest.importorskip("distributed", reason="needs the extra dask")
    X = signals(40, np.argwhere(np.ones((12, 10))))
    np.save(folder / "X.npy", X)
    with h5py.File(folder / "X.h5", "w") as file:
        file["X"] = X
    return {"structure": grid((12, 10))}


def on_cluster(folder):
    """Nothing: the page makes its own data."""
    pytest.importorskip("zarr", reason="not installed")
    pytest.importorskip("distributed", reason="needs the extra dask")
    return {}


def fields(folder):
    """Fields on a globe with land, and two of them in a Dataset."""
    xr = pytest.importorskip("xarray", reason="needs the extra xarray")
    pytest.importorskip("dask", reason="needs the extra dask")
    values = signals(30, np.argwhere(np.ones((6, 12)))).reshape(30, 6, 12)
    values[:, 1, 3:5] = np.nan
    coords = {"time": np.arange(30), "lat": np.arange(-75.0, 76, 30), "lon": np.arange(0.0, 360, 30)}
    sst = xr.DataArray(values, coords, ("time", "lat", "lon"), name="sst")
    sst.to_netcdf(folder / "sst.nc", engine="scipy")
    sst[:4].to_netcdf(folder / "new.nc", engine="scipy")
    return {"sst": sst, "dataset": xr.Dataset({"sst": sst, "air": 5 * sst + 10})}


def start(folder):
    write_volumes(folder, "sub-{:02d}_map.nii.gz")
    maps = folder / "demo-output" / "volume" / "input"
    maps.mkdir(parents=True)
    for file in folder.glob("sub-*"):
        file.rename(maps / file.name)
    write_people(folder)
    return {}


PAGES = {
    "README.md": readme,
    "CONTRIBUTING.md": contributing,
    "benchmarks/README.md": nothing,
    "benchmarks/NOTES.md": nothing,
    "benchmarks/reproduce/README.md": nothing,
    "docs/benchmarks.md": nothing,
    "docs/certificate.md": nothing,
    "docs/changelog.md": nothing,
    "docs/citing.md": nothing,
    "docs/cli.md": cli,
    "docs/cluster.md": on_cluster,
    "docs/comparison.md": nothing,
    "docs/contributing.md": nothing,
    "docs/explore.md": explore,
    "docs/extending.md": nothing,
    "docs/figures.md": figures,
    "docs/glossary.md": nothing,
    "docs/gpu.md": nothing,
    "docs/guide.md": nothing,
    "docs/how-many.md": selection,
    "docs/images.md": images,
    "docs/index.md": readme,
    "docs/large-data.md": large_data,
    "docs/method.md": nothing,
    "docs/notes.md": nothing,
    "docs/model-folder.md": model_folder,
    "docs/notebooks.md": nothing,
    "docs/nothing-confirmed.md": nothing,
    "docs/project.md": nothing,
    "docs/reliability.md": nothing,
    "docs/report.md": report,
    "docs/reproduce.md": nothing,
    "docs/scaling.md": nothing,
    "docs/selection.md": selection,
    "docs/stable.md": selection,
    "docs/start.md": start,
    "docs/structures/concat.md": nothing,
    "docs/structures/from-matrix.md": nothing,
    "docs/structures/graph.md": nothing,
    "docs/structures/grid.md": nothing,
    "docs/structures/groups.md": nothing,
    "docs/structures/index.md": nothing,
    "docs/structures/mesh.md": nothing,
    "docs/structures/stack.md": nothing,
    "docs/study/index.md": nothing,
    "docs/threads.md": nothing,
    "docs/troubleshooting.md": nothing,
    "docs/tour.md": tour,
    "docs/xarray.md": fields,
}
# Docstrings whose examples need more than they say themselves.
MODULES = {
    "spcatv.images.bids": bids,
    **dict.fromkeys(
        [f"spcatv.images.{name}" for name in ("estimator", "cv", "dataset", "quality", "spaces.base")],
        volumes,
    ),
    "spcatv.data.outliers": volumes,
    "spcatv.selection.workers": selection,
}
