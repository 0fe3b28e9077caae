"""Many image files: memory and time of reading them into a cache of rows, against plain unzipping; a kill."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.scoring import passes_of
from benchmarks.tables import markdown, seconds

TITLE = "Image files"
N_FILES, QUICK_FILES = 2_000, 24
SHAPE, QUICK_SHAPE = (91, 109, 91), (20, 24, 20)  # MNI152 at 2 mm
VOXEL_MM = 2.0
MEMORY_LIMIT = "600 MB"
N_FIELDS = 12


def run(options: Options) -> dict[str, Any]:
    """Make the files, read them in several ways, each in a process of its own, and remove them."""
    n_files = int(os.environ.get("SPCATV_BENCH_FILES", QUICK_FILES if options.quick else N_FILES))
    folder = options.scratch / "files"
    make_files(folder, n_files, QUICK_SHAPE if options.quick else SHAPE)
    try:
        return {
            "n_files": n_files,
            "compressed_bytes": sum(file.stat().st_size for file in _files(folder)),
            "unzip_before": _in_process("unzip", folder),
            "read": _in_process("read", folder, cache="a"),
            "unzip_after": _in_process("unzip", folder),
            "killed": _in_process("killed", folder, cache="b"),
            "resumed": _in_process("resumed", folder, cache="b"),
            "again": _in_process("read", folder, cache="a"),
            "fit": _in_process("fit", folder, cache="a"),
        }
    finally:
        shutil.rmtree(folder)


def make_files(folder: Path, n_files: int, shape: tuple[int, int, int]) -> None:
    """Write float32 NIfTI files, smooth inside an ellipsoid and zero outside, and their mask."""
    import nibabel as nib
    from scipy.ndimage import gaussian_filter

    folder.mkdir()
    rng = np.random.default_rng(0)
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    mask = sum(axis**2 for axis in axes) < 0.64
    fields = [gaussian_filter(rng.standard_normal(shape), 2).astype(np.float32) for _ in range(N_FIELDS)]
    weights = rng.standard_normal((n_files, N_FIELDS)).astype(np.float32)
    affine = np.diag([VOXEL_MM, VOXEL_MM, VOXEL_MM, 1.0])
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), affine), folder / "mask.nii")

    def write(number: int) -> None:
        values = sum((w * field for w, field in zip(weights[number], fields, strict=True)), np.float32(1))
        content = nib.Nifti1Image(values * mask, affine).to_bytes()
        (folder / f"sub-{number:05d}.nii.gz").write_bytes(gzip.compress(content, 1))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(write, range(n_files)))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("sub-*.nii.gz"))


def _in_process(task: str, folder: Path, cache: str = "") -> dict[str, Any]:
    """Run one of `TASKS` in a new process."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.sections.files",
        task,
        str(folder),
        str(folder / f"cache-{cache}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != (-signal.SIGKILL if task == "killed" else 0):
        raise RuntimeError(f"{task} ended with {done.returncode}: {done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(f"   {task}: {result}", flush=True)
    return result


def _measured(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Seconds, processor seconds and memory of some work; the memory before it is that of the imports."""
    before, cpu, started = _peak(), time.process_time(), time.perf_counter()
    found = work()
    return {
        **found,
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "imports_bytes": before,
        "peak_bytes": _peak(),
    }


def _peak() -> int:
    """Bytes of memory that this process has had at most; `getrusage` would count its parent."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def unzip(folder: Path, _: Path) -> dict[str, Any]:
    """Unzip every file, on as many threads as reading uses, and forget it."""
    from spcatv._util.threads import most_threads

    def one(file: Path) -> None:
        zlib.decompress(file.read_bytes(), 31)

    with ThreadPoolExecutor(most_threads()) as pool:
        list(pool.map(one, _files(folder)))
    return {"threads": most_threads()}


def read(folder: Path, cache: Path) -> dict[str, Any]:
    """Read the files into the cache, and count those that were unzipped for it."""
    from spcatv.images import read_cohort

    unzipped = _count_unzipped()
    cohort = read_cohort(
        _files(folder), mask=folder / "mask.nii", cache=cache, memory_limit=MEMORY_LIMIT, n_components=3
    )
    return {"shape": cohort.X.shape, "unzipped": len(unzipped)}


def killed(folder: Path, cache: Path) -> dict[str, Any]:
    """As `read`, but kill -9 in the middle."""
    from spcatv.images import read_cohort

    finished: list[str] = []
    files = _files(folder)

    def progress(number: int, total: int, name: str) -> None:
        finished.append(name)
        if number == total // 2:
            (folder / "finished.json").write_text(json.dumps(finished))
            print(json.dumps({"finished": len(finished)}), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

    read_cohort(files, mask=folder / "mask.nii", cache=cache, memory_limit=MEMORY_LIMIT, progress=progress)
    raise AssertionError("not killed")


def resumed(folder: Path, cache: Path) -> dict[str, Any]:
    """As `read`, after a kill: how many files had been finished before and were unzipped again."""
    unzipped = _count_unzipped()
    found = read(folder, cache)
    finished = set(json.loads((folder / "finished.json").read_text()))
    return {**found, "unzipped": len(unzipped), "again": len(finished & set(unzipped))}


def fit(folder: Path, cache: Path) -> dict[str, Any]:
    """A whole fit from the cache."""
    from spcatv import ImageSPCATV

    unzipped = _count_unzipped()
    model = ImageSPCATV(
        n_components=3, mask=folder / "mask.nii", cache=cache, memory_limit=MEMORY_LIMIT, tol=1e-3
    ).fit(_files(folder))
    return {"unzipped": len(unzipped), "n_passes": sum(passes_of(model.estimator_))}


def _count_unzipped() -> list[str]:
    """A list that gets the name of every file that is unzipped from now on."""
    from spcatv.images.spaces import volume

    names: list[str] = []
    own = volume.streamed

    def counted(image: Any) -> Any:
        names.append(image.get_filename())
        return own(image)

    volume.streamed = counted
    return names


TASKS = {task.__name__: task for task in (unzip, read, killed, resumed, fit)}


def table(result: dict[str, Any]) -> str:
    """One row per process."""
    n_samples, n_features = result["read"]["shape"]
    rows = [
        ["plain unzipping", result["unzip_before"]],
        ["files to cache", result["read"]],
        ["plain unzipping, again", result["unzip_after"]],
        ["files to cache, resumed after kill -9", result["resumed"]],
        ["from the complete cache", result["again"]],
        ["fit, K = 3, relative gap 1e-3, from the cache", result["fit"]],
    ]
    body = [
        [
            name,
            seconds(row["seconds"]),
            seconds(row["cpu_seconds"]),
            f"{row['peak_bytes'] / 1e6:,.0f} MB",
            f"{row['imports_bytes'] / 1e6:,.0f} MB",
            "-" if "unzipped" not in row else f"{row['unzipped']:,}",
        ]
        for name, row in rows
    ]
    header = ["process", "seconds", "processor seconds", "peak memory", "of it imports", "files unzipped"]
    size = f"{n_samples:,} NIfTI files ({result['compressed_bytes'] / 1e9:.2f} GB compressed)"
    matrix = f"{n_features:,} voxels in the mask: a matrix of {4e-9 * n_samples * n_features:.2f} GB"
    threads = f"`memory_limit` {MEMORY_LIMIT}, {result['unzip_before']['threads']} threads"
    finished = f"Of the {result['killed']['finished']:,} files finished before the kill"
    return (
        f"{size}, {matrix}; {threads}.\n\n{markdown(header, body)}\n\nReading into the cache took "
        f"{_ratio(result, 'seconds'):.2f} times as long as unzipping the same files "
        f"({_ratio(result, 'cpu_seconds'):.2f} times the processor time). {finished}, "
        f"{result['resumed']['again']} were unzipped again."
    )


def _ratio(result: dict[str, Any], name: str) -> float:
    """How many times more reading took than unzipping, which was measured before and after it."""
    unzipping = (result["unzip_before"][name] + result["unzip_after"][name]) / 2
    return float(result["read"][name] / unzipping)


if __name__ == "__main__":
    import spcatv.images  # noqa: F401 (imports are not measured)

    print(json.dumps(_measured(lambda: TASKS[sys.argv[1]](Path(sys.argv[2]), Path(sys.argv[3])))))
