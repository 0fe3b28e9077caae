"""On the way from `spca-tv fit` to the report, nothing is computed, read or hashed twice."""

import importlib
from collections import Counter
from functools import wraps

import numpy as np
import pytest

from spcatv.cli import main

nib = pytest.importorskip("nibabel", reason="images are read with nibabel (extra `images`)")
pytest.importorskip("nilearn", reason="images are read with nilearn (extra `images`)")
pytest.importorskip("jinja2", reason="reports are made with Jinja2 (extra `report`)")
pytest.importorskip("matplotlib", reason="reports are made with matplotlib (extra `report`)")

N_IMAGES, N_COMPONENTS = 8, 2
# functions that must not run more often than needed; the second part is a class or nothing
WATCHED = (
    ("spcatv.results.write", "", "connected_regions"),
    ("spcatv.results.write", "", "pca_cumulative_variance"),
    ("spcatv.results.read", "", "read_model"),
    ("spcatv.results.read", "", "connected_regions"),
    ("spcatv.report.regions", "", "connected_regions"),
    ("spcatv.structure.regions", "", "_links"),
    ("spcatv.images.estimator", "ImageSPCATV", "__init__"),
    ("spcatv.images.spaces.base", "Space", "write"),
    ("spcatv.images.spaces.volume", "VolumeSpace", "structure"),
    ("spcatv.images.spaces.volume", "VolumeSpace", "masker"),
    ("spcatv.images.spaces.volume", "", "open_volume"),
    ("spcatv.estimator", "SPCATV", "fit"),
    ("spcatv.estimator", "SPCATV", "transform"),
    ("spcatv.report.maps", "", "volume_view"),
)


@pytest.fixture
def cohort(tmp_path):
    rng = np.random.default_rng(0)
    inside = np.zeros((7, 6, 5), dtype=np.uint8)
    inside[1:6, 1:5, 1:4] = 1
    nib.save(nib.Nifti1Image(inside, np.eye(4)), tmp_path / "mask.nii.gz")
    (tmp_path / "maps").mkdir()
    for number in range(N_IMAGES):
        values = rng.standard_normal(inside.shape).astype(np.float32)
        values[1:3, 1:4, 1:4] += 4 * rng.standard_normal()
        values[4:6, 1:4, 1:4] += 3 * rng.standard_normal()
        nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / "maps" / f"{number}.nii.gz")
    return tmp_path


@pytest.fixture
def counts(monkeypatch):
    """Calls of the watched functions by name, and of `file_sha256` by the name of the file."""
    found = Counter()

    def counted(function, name):
        @wraps(function)
        def call(*args, **options):
            found[name(args) if callable(name) else name] += 1
            return function(*args, **options)

        return call

    for module, kind, name in WATCHED:
        owner = importlib.import_module(module)
        owner = getattr(owner, kind) if kind else owner
        monkeypatch.setattr(owner, name, counted(getattr(owner, name), f"{kind or module}.{name}"))
    for module in ("spcatv.images.loader", "spcatv.images._persistence", "spcatv.model.folder"):
        owner = importlib.import_module(module)
        # the folder of the results has another name while it is written
        monkeypatch.setattr(
            owner, "file_sha256", counted(owner.file_sha256, lambda args: f"hash {args[0].name}")
        )
    return found


def test_fit_and_report(cohort, counts):
    mask, out = str(cohort / "mask.nii.gz"), str(cohort / "results")
    images, n_components = str(cohort / "maps" / "*.nii.gz"), str(N_COMPONENTS)
    assert (
        main(["fit", images, "--mask", mask, "--n-components", n_components, "--output", out, "--quiet"]) == 0
    )
    of_model = {
        "hash arrays.npz": 1,
        "hash desc-SPCATV_components.nii.gz": 1,
        "hash desc-SPCATV_components.json": 1,
    }
    assert counts == {
        "spcatv.results.write.connected_regions": N_COMPONENTS,
        "spcatv.results.write.pca_cumulative_variance": 1,
        "spcatv.structure.regions._links": 1,
        "ImageSPCATV.__init__": 1,
        "Space.write": 1,
        "VolumeSpace.structure": 1,
        "spcatv.images.spaces.volume.open_volume": N_IMAGES + 1,
        "SPCATV.fit": 1,
        "SPCATV.transform": 1,
        **{f"hash {number}.nii.gz": 1 for number in range(N_IMAGES)},
        "hash mask.nii.gz": 1,
        **of_model,
    }
    counts.clear()
    assert main(["report", out, "--quiet"]) == 0
    assert counts == {
        "spcatv.results.read.read_model": 1,
        "spcatv.report.regions.connected_regions": N_COMPONENTS,
        "spcatv.structure.regions._links": 1,
        "ImageSPCATV.__init__": 1,
        "spcatv.report.maps.volume_view": 1,
        "spcatv.images.spaces.volume.open_volume": 1,  # the mean of the images
        **of_model,
    }


def test_transform_reads_the_model_once(cohort, counts):
    mask, out = str(cohort / "mask.nii.gz"), str(cohort / "results")
    images = str(cohort / "maps" / "*.nii.gz")
    assert main(["fit", images, "--mask", mask, "--n-components", "1", "--output", out, "--quiet"]) == 0
    counts.clear()
    assert main(["transform", out, images, "--output", str(cohort / "scores.tsv"), "--quiet"]) == 0
    assert counts["spcatv.results.read.read_model"] == 1
    assert counts["hash arrays.npz"] == 1
    assert counts["spcatv.images.spaces.volume.open_volume"] == N_IMAGES
