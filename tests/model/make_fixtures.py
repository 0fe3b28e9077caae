"""Write small models of every kind with the installed version of the package, to be kept as fixtures.

Run it once for every schema version, with the first commit that writes it:

    PYTHONPATH=src python tests/model/make_fixtures.py tests/model/fixtures/schema-4

Each model gets a folder of its own with the model folder and ``expected.json``: what the fitted estimator
said before it was saved. Fixtures are never written again: they stand for the folders that users have.
"""

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from spcatv import SPCATV
from spcatv.solvers import solve
from spcatv.structure import concat, graph, grid, groups, icosphere

N_SAMPLES = 12
ALPHAS = [0.1, 0.2]
WEIGHTS = ("l1_", "l2_", "tv_")


def blobs(n_features, seed):
    """Two blocks of neighbours, each with scores of its own, and noise; shape (N_SAMPLES, n_features)."""
    rng = np.random.default_rng(seed)
    X = 0.5 * rng.standard_normal((N_SAMPLES, n_features))
    X[:, : n_features // 4] += 3.0 * rng.standard_normal((N_SAMPLES, 1))
    X[:, n_features // 2 : 3 * n_features // 4] += 2.0 * rng.standard_normal((N_SAMPLES, 1))
    return X


def own_solver(problem, **options):
    return solve(problem, method="pdhg", **options)


def plain():
    X = blobs(20, 0)
    return SPCATV(2, structure=(4, 5), alpha=0.1, random_state=3).fit(X), X


def joint():
    X = blobs(20, 1)
    parts = [grid((2, 3), voxel_size=(1, 2)), graph(np.eye(8, k=1) + np.eye(8, k=-1)), groups([[0, 1]], 6)]
    return SPCATV(2, structure=concat(parts), alpha=0.05, method="joint").fit(X), X


def alphas():
    X = blobs(20, 2)
    return SPCATV(2, structure=[20], alpha=tuple(ALPHAS)).fit(X), X


def wanted():
    """Components of a wanted sparsity."""
    X = blobs(20, 8)
    return SPCATV(2, structure=[20], sparsity=(0.7, 0.6), smoothness=0.5).fit(X), X


def values():
    """Parameters of every type that a folder can hold."""
    X = blobs(10, 3)
    return SPCATV(
        2,
        structure=sp.csr_array(np.eye(10, k=1) + np.eye(10, k=-1)),
        alpha=np.float64(0.1),
        penalty="graphnet",
        init=np.ones((2, 10)),
        global_signal="regress",
        dtype=np.float32,
        random_state=np.random.RandomState(5),
        solver=own_solver,
    ).fit(X), X


def volume():
    import nibabel as nib

    from spcatv.images import ImageSPCATV

    mask = np.zeros((4, 3, 3), dtype=np.uint8)
    mask[1:, 1:] = 1
    X = blobs(mask.sum(), 4)
    images = np.zeros((*mask.shape, N_SAMPLES), dtype=np.float32)
    images[mask > 0] = X.T
    affine = np.diag([2.0, 2.0, 3.0, 1.0])
    nib.save(nib.Nifti1Image(mask, affine), "mask.nii.gz")
    nib.save(nib.Nifti1Image(images, affine), "images.nii.gz")
    confounds = np.random.default_rng(5).standard_normal((N_SAMPLES, 2))
    model = ImageSPCATV(2, mask=Path("mask.nii.gz"), alpha=0.1, standardize=True, standardize_runs=False)
    return model.fit("images.nii.gz", confounds=confounds), X, confounds


def runs():
    """Two runs, smoothed and cleaned."""
    import nibabel as nib

    from spcatv.images import ImageSPCATV

    X = blobs(60, 9)
    images = np.moveaxis(X.reshape(N_SAMPLES, 5, 4, 3), 0, -1).astype(np.float32)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    half = N_SAMPLES // 2
    series = [nib.Nifti1Image(images[..., :half], affine), nib.Nifti1Image(images[..., half:], affine)]
    model = ImageSPCATV(
        2,
        mask=np.ones((5, 4, 3), dtype=np.uint8),
        alpha=0.05,
        smoothing_fwhm=1.0,
        resample=True,
        standardize_runs=True,
        detrend=True,
        t_r=2.0,
    )
    return model.fit(series), X


def surface():
    from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

    from spcatv.images import ImageSPCATV

    coords, triangles = icosphere(0)
    mesh = PolyMesh(left=InMemoryMesh(coords - 2, triangles), right=InMemoryMesh(coords + 2, triangles))
    X = blobs(24, 6).astype(np.float32)
    images = SurfaceImage(mesh, {"left": X[:, :12].T, "right": X[:, 12:].T})
    return ImageSPCATV(2, alpha=0.05).fit(images), X


def cifti():
    import nibabel as nib
    from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

    from spcatv.images import ImageSPCATV

    coords, triangles = icosphere(0)
    axis = BrainModelAxis.from_mask(np.arange(12) < 10, name="CortexLeft")
    axis += BrainModelAxis.from_mask(np.ones((2, 2, 2), bool), name="thalamus_left", affine=np.eye(4))
    X = blobs(len(axis), 7).astype(np.float32)
    names = [f"map {number}" for number in range(N_SAMPLES)]
    nib.save(Cifti2Image(X, (ScalarAxis(names), axis)), "images.dscalar.nii")
    model = ImageSPCATV(2, surface={"left": (coords, triangles)}, alpha=0.05)
    return model.fit("images.dscalar.nii"), X


MAKERS = (plain, joint, alphas, wanted, values, volume, runs, surface, cifti)


def expected(model, X, confounds=None):
    """What the test compares a loaded model with; rows are 3 samples in feature space."""
    rows = X[:3]
    told = {
        "kind": type(model).__name__,
        "parameters": {
            name: value
            for name, value in model.get_params(deep=False).items()
            if value is None or type(value) in (bool, int, float, str) or name in ("alpha", "sparsity")
        },
        "components": model.components_.tolist(),
        "explained_variance_ratio": model.explained_variance_ratio_.tolist(),
        "gaps": [record.gap for record in model.diagnostics_],
        "target_sparsity": [record.target_sparsity for record in model.diagnostics_],
        "smoothness": [record.smoothness for record in model.diagnostics_],
        "n_iter": model.n_iter_,
        "weights": {name: np.asarray(getattr(model, name)).tolist() for name in WEIGHTS},
        "structure_value": model.structure_.value(rows[0].astype(np.float64)),
        "rows": rows.tolist(),
    }
    if told["kind"] == "SPCATV":
        return {**told, "scores": model.transform(rows).tolist()}
    given = None if confounds is None else confounds[:3]
    images = model.space_.to_images(rows, ("one", "two", "three"))
    told["confounds"] = None if given is None else given.tolist()
    return {**told, "names": list(model.input_names_), "scores": model.transform(images, given).tolist()}


def main(target, names):
    target = Path(target).absolute()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)  # files are named without a path that exists on one machine only
        for make in MAKERS:
            if names and make.__name__ not in names:
                continue
            folder = target / make.__name__
            folder.mkdir(parents=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # saving warns about the solver that is a function
                made = make()
                made[0].save(folder / "model")
            text = json.dumps(expected(*made), indent=1)
            (folder / "expected.json").write_text(text + "\n", encoding="utf-8")
        os.chdir(target)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
