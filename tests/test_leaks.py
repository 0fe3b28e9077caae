"""Memory and open files after many fits: as many as after a few.

pytest -m slow -s tests/test_leaks.py     # prints the slopes
"""

import gc
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.structure import grid, icosphere, mesh

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc"),
]
WARM_UP = 0.3  # share of the fits in which caches and memory pools fill up


def slopes(name, n_fits, fit):
    """Bytes of memory, open files and threads that a fit adds, once it has warmed up; printed."""
    measured = []
    for number in range(n_fits):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit(number)
        if number >= WARM_UP * n_fits and number % 10 == 0:
            gc.collect()
            resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            measured.append((number, resident, *(len(os.listdir(f"/proc/self/{w}")) for w in ("fd", "task"))))
    number, *columns = np.array(measured, float).T
    found = [float(np.polyfit(number, column, 1)[0]) for column in columns]
    print(f"\n{name}: {found[0]:.0f} bytes, {found[1]:.4f} open files and {found[2]:.4f} threads per fit")
    return found


def test_small_fits():
    structures = [grid((6, 7)), grid((3, 4, 5)), mesh(*icosphere(1)), None]
    rng = np.random.default_rng(0)

    def fit(number):
        structure = structures[number % 4]
        X = rng.standard_normal((15, structure.n_features if structure is not None else 20))
        dtype = ("float32", "float64")[number // 4 % 2]
        way = {"alpha": 0.1} if number % 3 else {"sparsity": 0.6}
        SPCATV(2, structure=structure, dtype=dtype, **way).fit(X).transform(X)

    memory, files, threads = slopes("1000 small fits", 1000, fit)
    assert memory < 1024
    assert abs(files) < 1e-3
    assert abs(threads) < 1e-3


def test_fits_of_images(tmp_path):
    nib = pytest.importorskip("nibabel")
    pytest.importorskip("nilearn")
    from spcatv import ImageSPCATV

    rng = np.random.default_rng(0)
    inside = np.zeros((8, 8, 8), np.uint8)
    inside[1:7, 1:7, 1:7] = 1
    nib.save(nib.Nifti1Image(inside, np.eye(4)), tmp_path / "mask.nii.gz")
    files = [tmp_path / f"{number}.nii.gz" for number in range(10)]
    for file in files:
        nib.save(nib.Nifti1Image(rng.standard_normal((8, 8, 8)).astype(np.float32), np.eye(4)), file)

    def fit(number):
        model = ImageSPCATV(1, mask=tmp_path / "mask.nii.gz", alpha=0.05).fit(files)
        model.save(tmp_path / f"model-{number % 3}")
        ImageSPCATV.load(tmp_path / f"model-{number % 3}").transform(files)

    memory, files_open, threads = slopes("200 fits of images", 200, fit)
    assert memory < 20 * 1024
    assert abs(files_open) < 5e-3
    assert abs(threads) < 5e-3
