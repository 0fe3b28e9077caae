"""Image files: simulated ones read into a cache beside plain unzipping, real ones fitted beside nilearn."""

from __future__ import annotations

import gzip
import os
import shutil
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import raw_vbm
from benchmarks.machine import Meter
from benchmarks.options import Options
from benchmarks.worker import Worker, whole_processes

TITLE = "Image files: NIfTI of 2 mm, two threads, each row a process of its own"
N_FILES, QUICK_FILES = 2_000, 20
SHAPE = (91, 109, 91)  # MNI152 at 2 mm
MEMORY_LIMIT = "600 MB"
N_FIELDS = 12
# Whole processes on the grey-matter maps, in the folder of the files.
PROGRAMS = {
    "spca-tv fit, with verdicts": (
        "from spcatv.cli import main; options = ['--mask', 'mask.nii', '-o', 'results', '--overwrite']; "
        "raise SystemExit(main(['fit', 'sub-*.nii.gz', *options]))"
    ),
    "NiftiMasker and PCA of nilearn and scikit-learn": (
        "from glob import glob; from nilearn.maskers import NiftiMasker; "
        "from sklearn.decomposition import PCA; "
        "PCA(3).fit(NiftiMasker('mask.nii').fit_transform(sorted(glob('sub-*.nii.gz'))))"
    ),
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Write the files, read them in several ways, and remove them."""
    n_files = QUICK_FILES if options.quick else N_FILES
    folder = options.scratch / "files"
    make_files(folder, n_files)
    for name, task in {"unzip": unzip, "read": read, "read again": read, "fit": fit}.items():
        with Worker(make_task, task, folder, threads=2) as worker:
            yield {"task": name, "files": f"{n_files:,}", **worker.call(limit=3600.0)}
    shutil.rmtree(folder)
    if not options.quick:
        yield from fit_real(options)


def fit_real(options: Options) -> Iterator[dict[str, Any]]:
    """Fit the grey-matter maps as files, each program in turn, on two threads."""
    folder = options.scratch / "real"
    try:
        _, X, _, mask = raw_vbm()
    except FileNotFoundError as error:
        yield {"task": "grey-matter maps", "seconds": None, "note": f"{error.filename} is not at hand"}
        return
    write_maps(folder, X, mask)
    for name, (_, fastest) in whole_processes(PROGRAMS, options.repeats, folder).items():
        yield {"task": name, "files": f"{len(X):,}", "seconds": fastest}
    shutil.rmtree(folder)


def write_maps(folder: Path, X: np.ndarray, mask: np.ndarray) -> None:
    """Write samples (N, P) as compressed NIfTI files, and their mask."""
    import nibabel as nib

    folder.mkdir()
    affine = np.diag([3.0, 3.0, 3.0, 1.0])
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), affine), folder / "mask.nii")
    for number, values in enumerate(X):
        image = np.zeros(mask.shape, dtype=np.float32)
        image[mask] = values
        nib.save(nib.Nifti1Image(image, affine), folder / f"sub-{number:03d}.nii.gz")


def make_files(folder: Path, n_files: int, shape: tuple[int, int, int] = SHAPE) -> None:
    """Write float32 NIfTI files, smooth inside an ellipsoid and zero outside, and their mask."""
    import nibabel as nib
    from scipy.ndimage import gaussian_filter

    folder.mkdir()
    rng = np.random.default_rng(0)
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    mask = sum(axis**2 for axis in axes) < 0.64
    fields = [gaussian_filter(rng.standard_normal(shape), 2).astype(np.float32) for _ in range(N_FIELDS)]
    weights = rng.standard_normal((n_files, N_FIELDS)).astype(np.float32)
    affine = np.diag([2.0, 2.0, 2.0, 1.0])
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), affine), folder / "mask.nii")

    def write(number: int) -> None:
        values = sum((w * field for w, field in zip(weights[number], fields, strict=True)), np.float32(1))
        content = nib.Nifti1Image(values * mask, affine).to_bytes()
        (folder / f"sub-{number:05d}.nii.gz").write_bytes(gzip.compress(content, 1))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, range(n_files)))


def make_task(task: Callable[[Path, list[Path]], object], folder: Path) -> Callable[[], dict[str, Any]]:
    """Return a job that measures a task; imports are not measured."""
    import spcatv.images  # noqa: F401

    files = sorted(folder.glob("sub-*.nii.gz"))

    def job() -> dict[str, Any]:
        with Meter() as meter:
            task(folder, files)
        return {
            "seconds": meter.seconds,
            "processor": meter.processor,
            "peak MB": meter.mark / 1e6,
            "MB of imports": (meter.mark - meter.bytes) / 1e6,
        }

    return job


def unzip(folder: Path, files: list[Path]) -> None:
    """Unzip every file on two threads, and forget it."""
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda file: len(zlib.decompress(file.read_bytes(), 31)), files))


def read(folder: Path, files: list[Path]) -> None:
    """Read the files through the cache."""
    from spcatv.images import read_cohort

    mask, cache = folder / "mask.nii", folder / "cache"
    read_cohort(files, mask=mask, cache=cache, memory_limit=MEMORY_LIMIT, n_components=3)


def fit(folder: Path, files: list[Path]) -> None:
    """Fit three components, reading through the cache."""
    from spcatv import ImageSPCATV

    mask, cache = folder / "mask.nii", folder / "cache"
    ImageSPCATV(n_components=3, mask=mask, cache=cache, memory_limit=MEMORY_LIMIT, tol=1e-3).fit(files)
