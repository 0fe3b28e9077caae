"""Small models of every kind of space, as results folders, and a browser."""

import os
from types import SimpleNamespace

import numpy as np
import pytest
from browser import Browser, find_chromium
from report_files import ARTEFACTS, N_SAMPLES, blobs, write_mixing, write_selection, write_stability

from spcatv import SPCATV
from spcatv.report import Column, generate_report
from spcatv.results.layout import COUNT
from spcatv.results.write import write_table
from spcatv.selection import ComponentCount


@pytest.fixture(scope="session")
def volume(tmp_path_factory):
    """Results on the MNI152 grey matter at 6 mm, with scores, selection and stability."""
    nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    datasets = pytest.importorskip(
        "nilearn.datasets", reason="the template comes with nilearn (extra `images`)"
    )
    from spcatv.images import ImageSPCATV

    folder = tmp_path_factory.mktemp("volume")
    mask = datasets.load_mni152_gm_mask(resolution=6)
    inside = np.asanyarray(mask.dataobj) > 0
    X = blobs(np.argwhere(inside))
    files = []
    for number, row in enumerate(X):
        values = np.zeros(inside.shape, dtype=np.float32)
        values[inside] = row
        files.append(folder / f"sub-{number + 1:02d}_gm.nii.gz")
        nib.save(nib.Nifti1Image(values, mask.affine), files[-1])
    nib.save(nib.Nifti1Image(inside.astype(np.uint8), mask.affine), folder / "mask.nii.gz")
    results = folder / "results"
    results.mkdir()
    model = ImageSPCATV(2, mask=folder / "mask.nii.gz", random_state=3)
    scores = model.fit_transform([str(file) for file in files])
    model.save(results / "model")
    write_mixing(results, model.input_names_, scores)
    write_selection(results)
    write_stability(results, model.components_)
    return SimpleNamespace(
        folder=results, model=model, scores=scores, X=X, mask=mask, inside=inside, files=files
    )


@pytest.fixture(scope="session")
def surface(tmp_path_factory):
    """Results on both hemispheres of fsaverage5."""
    pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    surface_module = pytest.importorskip(
        "nilearn.surface", reason="the surfaces come with nilearn (extra `images`)"
    )
    from nilearn.datasets import load_fsaverage

    from spcatv.images import ImageSPCATV

    folder = tmp_path_factory.mktemp("surface")
    mesh = load_fsaverage("fsaverage5")["pial"]
    # one region on the left, then a weaker one on the right
    data = {
        hemi: blobs(part.coordinates, sizes=(3.0 - k,), seed=k).T
        for k, (hemi, part) in enumerate(mesh.parts.items())
    }
    image = surface_module.SurfaceImage(mesh, data)
    model = ImageSPCATV(2)
    scores = model.fit_transform(image)
    model.save(folder / "model")
    write_mixing(folder, [f"sub-{k}" for k in range(len(scores))], scores)
    return SimpleNamespace(folder=folder, model=model, scores=scores, mesh=mesh)


@pytest.fixture(scope="session")
def cifti(tmp_path_factory):
    """A model of two small spheres and a block of voxels."""
    nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
    pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
    from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

    from spcatv.images import ImageSPCATV
    from spcatv.structure import icosphere

    folder = tmp_path_factory.mktemp("cifti")
    coords, triangles = icosphere(3)
    meshes = {"left": (60 * coords - [35, 0, 0], triangles), "right": (60 * coords + [35, 0, 0], triangles)}
    block = np.zeros((9, 9, 9), dtype=bool)
    block[2:7, 2:7, 2:7] = True
    affine = np.array([[-3.0, 0, 0, 12], [0, 3, 0, -12], [0, 0, 3, -12], [0, 0, 0, 1]])
    axis = (
        BrainModelAxis.from_mask(np.ones(len(coords), bool), name="CortexLeft")
        + BrainModelAxis.from_mask(coords[:, 0] > -0.9, name="CortexRight")
        + BrainModelAxis.from_mask(block, name="thalamus_left", affine=affine)
    )
    places = np.concatenate(
        [meshes["left"][0], meshes["right"][0][coords[:, 0] > -0.9], 3.0 * np.argwhere(block)]
    )
    X = blobs(places)
    X[:, -60:] += 3 * np.random.default_rng(9).standard_normal((len(X), 1)).astype(np.float32)
    image = Cifti2Image(X, (ScalarAxis([f"map {k}" for k in range(len(X))]), axis))
    nib.save(image, folder / "maps.dscalar.nii")
    model = ImageSPCATV(3, surface=meshes, alpha=0.2).fit(str(folder / "maps.dscalar.nii"))
    model.save(folder / "model")
    return SimpleNamespace(folder=folder, model=model, X=X)


@pytest.fixture(scope="session")
def image(tmp_path_factory):
    """A field of 20 x 30 cells with a hole."""
    inside = np.ones((20, 30), dtype=bool)
    inside[:4, :6] = False
    X = blobs(np.argwhere(inside))
    model = SPCATV(2, structure=inside).fit(X)
    folder = tmp_path_factory.mktemp("image")
    model.save(folder / "model")
    count = ComponentCount(np.array([0.3, 0.2, 0.05]), np.full(3, 0.1), np.full(3, 40.0))
    write_table(folder / COUNT, {"component": [1, 2, 3], **vars(count)})
    return SimpleNamespace(folder=folder, model=model, X=X, inside=inside)


@pytest.fixture(scope="session")
def line():
    """A line of 60 points."""
    X = blobs(np.arange(60.0)[:, None])
    return SimpleNamespace(model=SPCATV(2, structure=(60,)).fit(X), X=X)


@pytest.fixture(scope="session")
def pages(request, tmp_path_factory):
    """The page of a kind of model, written once."""
    folder = tmp_path_factory.mktemp("pages")
    written = {}

    def page(kind):
        if kind not in written:
            made = request.getfixturevalue(kind)
            options = {"data": made.X} if kind == "line" else {}
            if kind == "volume":
                options = {
                    "title": "Grey matter",
                    "groups": Column(
                        "group", [("patient", "control", "control")[k % 3] for k in range(N_SAMPLES)]
                    ),
                    "variable": Column("age", np.linspace(20, 80, N_SAMPLES)),
                }
            report = generate_report(getattr(made, "folder", made.model), **options)
            written[kind] = report.save_as_html(folder / f"{kind}.html")
        return written[kind]

    return page


@pytest.fixture(scope="session")
def browser(tmp_path_factory):
    """A headless Chromium; without one, its tests are skipped."""
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium: `make browser` installs it where the machine has apt and root")
    opened = Browser(executable, tmp_path_factory.mktemp("chromium"))
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def artefacts():
    """Where pictures of pages are kept for people to look at; git ignores it."""
    os.makedirs(ARTEFACTS, exist_ok=True)
    return ARTEFACTS
