"""Many image files: seconds and memory of reading them into a cache, beside plain unzipping."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options

TITLE = "Image files: NIfTI of 2 mm, each row a process of its own"
N_FILES, QUICK_FILES = 2_000, 20
SHAPE = (91, 109, 91)  # MNI152 at 2 mm
MEMORY_LIMIT = "600 MB"
N_FIELDS = 12


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Write the files, read them in several ways, and remove them."""
    n_files = QUICK_FILES if options.quick else N_FILES
    folder = options.scratch / "files"
    make_files(folder, n_files)
    try:
        for task in ("unzip", "read", "read again", "fit"):
            yield {"task": task, "files": f"{n_files:,}", **_in_process(task, folder)}
    finally:
        shutil.rmtree(folder)


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


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("sub-*.nii.gz"))


def _in_process(task: str, folder: Path) -> dict[str, Any]:
    """Run one of `TASKS` in a new process."""
    command = [sys.executable, "-m", "benchmarks.sections.files", task, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{task} ended with {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _peak() -> int:
    """Return the peak memory of this process in bytes; `getrusage` would count its parent."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def measured(work: Callable[[], None]) -> dict[str, Any]:
    """Measure some work; the memory before it is that of the imports."""
    before, cpu, started = _peak(), time.process_time(), time.perf_counter()
    work()
    return {
        "seconds": time.perf_counter() - started,
        "processor": time.process_time() - cpu,
        "peak MB": _peak() / 1e6,
        "MB of imports": before / 1e6,
    }


def unzip(folder: Path) -> None:
    """Unzip every file on all threads, and forget it."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda file: len(zlib.decompress(file.read_bytes(), 31)), _files(folder)))


def fit(folder: Path, tol: float = 1e-3) -> None:
    """Fit three components, reading through the cache."""
    from spcatv import ImageSPCATV

    model = ImageSPCATV(
        n_components=3, mask=folder / "mask.nii", cache=folder / "cache", memory_limit=MEMORY_LIMIT, tol=tol
    )
    model.fit(_files(folder))


def read(folder: Path) -> None:
    """Read the files through the cache."""
    from spcatv.images import read_cohort

    read_cohort(
        _files(folder),
        mask=folder / "mask.nii",
        cache=folder / "cache",
        memory_limit=MEMORY_LIMIT,
        n_components=3,
    )


TASKS: dict[str, Callable[[Path], None]] = {"unzip": unzip, "read": read, "read again": read, "fit": fit}


if __name__ == "__main__":
    import spcatv.images  # noqa: F401 (imports are not measured)

    print(json.dumps(measured(lambda: TASKS[sys.argv[1]](Path(sys.argv[2])))))
