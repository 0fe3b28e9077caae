"""A memory map larger than memory: the time of a fit against that of as many plain reads of the file."""

from __future__ import annotations

import os
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.data import ellipsoid_mask
from benchmarks.machine import PeakMemory
from benchmarks.options import TOL, Options
from benchmarks.scoring import passes_of
from benchmarks.tables import each, markdown, seconds
from benchmarks.worker import Worker
from spcatv.structure import grid

TITLE = "A memory map larger than memory"
THREADS = 2
N_COMPONENTS = 3
# Bytes of the file: asked for with --disk, by default, and in a quick run; and columns.
GIGABYTE = 10**9
DEFAULT_BYTES, QUICK_BYTES, EQUAL_BYTES = 5 * GIGABYTE, 10**7, GIGABYTE
N_COLUMNS, QUICK_COLUMNS = 100_000, 500
# Memory of the process, as a share of the file, and at least: Python and its packages alone take some 0.3 GB.
MEMORY_SHARE, LEAST_MEMORY = 0.15, GIGABYTE
# Plain passes before the fit, and after it.
PLAIN_PASSES = 2
CHUNK_BYTES = 8 << 20
# Smooth maps that the noise is made of, and rows that are made at a time.
N_MAPS, N_ROWS = 60, 500
SETTINGS: dict[str, dict[str, Any]] = {
    "90 % zeros": {"alpha": None, "sparsity": 0.9},
    "alpha 0.1": {"alpha": 0.1, "l1_ratio": 0.25, "tv_ratio": 0.5},
}


def run(options: Options) -> dict[str, Any]:
    """Fit a file under a limit, and compare a smaller one with the array in memory."""
    n_columns = QUICK_COLUMNS if options.quick else N_COLUMNS
    size = QUICK_BYTES if options.quick else int(GIGABYTE * options.disk) or DEFAULT_BYTES
    memory = max(int(MEMORY_SHARE * size), LEAST_MEMORY)
    mask = ellipsoid_mask(n_columns)
    path = options.scratch / "disk.npy"
    try:
        shape = write_cohort(path, size, mask)
        # a tiny file would stay mapped
        blocks = {"memory_limit": QUICK_BYTES - 1} if options.quick else {}
        with Worker(make_reader, path, mask, memory, blocks, threads=THREADS) as worker:
            plain = [worker.call("plain") for _ in range(PLAIN_PASSES)]
            fits = []
            for name, setting in SETTINGS.items():
                fits.append({"name": name} | worker.call("fit", setting, limit=3600.0))
                plain += [worker.call("plain") for _ in range(PLAIN_PASSES)]
        write_cohort(path, min(size, EQUAL_BYTES), mask)
        with Worker(make_comparison, path, mask, threads=THREADS) as worker:
            equal = {name: worker.call(setting, limit=3600.0) for name, setting in SETTINGS.items()}
    finally:
        path.unlink(missing_ok=True)
    return {
        "shape": shape,
        "bytes": size,
        "memory": memory,
        "plain": plain,
        "fits": fits,
        "equal": equal,
        "equal_bytes": min(size, EQUAL_BYTES),
    }


def write_cohort(path: Path, size: int, mask: np.ndarray) -> tuple[int, int]:
    """Write about `size` bytes of simulated samples, some at a time; returns their shape.

    Smooth noise of `N_MAPS` dimensions, white noise, and three components made of a few balls each.
    """
    rng = np.random.default_rng(0)
    n_columns = int(mask.sum())
    n_rows = max(size // (4 * n_columns), 100)
    noise = np.stack([gaussian_filter(rng.standard_normal(mask.shape), 1.5)[mask] for _ in range(N_MAPS)])
    noise *= 0.5 / noise.std()
    maps = np.concatenate([noise, [_balls(mask, rng) for _ in range(N_COMPONENTS)]])
    weights = rng.standard_normal((n_rows, len(maps)))
    weights[:, N_MAPS:] *= np.linspace(6.0, 4.0, N_COMPONENTS)
    white = rng.standard_normal(3 * n_columns, dtype=np.float32)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_rows, n_columns))
    del X  # the header is there; rows are written without a map
    with path.open("r+b") as file:
        file.seek(path.stat().st_size - 4 * n_rows * n_columns)
        for first in range(0, n_rows, N_ROWS):
            rows = (weights[first : first + N_ROWS].astype(np.float32)) @ maps.astype(np.float32)
            for row, begin in zip(rows, rng.integers(0, 2 * n_columns, len(rows)), strict=True):
                row += white[begin : begin + n_columns]
            file.write(rows)
        file.flush()
        os.fsync(file.fileno())  # what is not on the disk yet cannot be dropped from memory
    return n_rows, n_columns


def _balls(mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The sum of three balls, inside a mask."""
    axes = np.ogrid[tuple(map(slice, mask.shape))]
    loading = np.zeros(mask.shape)
    for _ in range(3):
        centre = [rng.integers(n // 4, 3 * n // 4) for n in mask.shape]
        distance = sum((axis - c) ** 2 for axis, c in zip(axes, centre, strict=True))
        loading[distance < (mask.shape[0] * rng.uniform(0.08, 0.15)) ** 2] = 1.0
    return gaussian_filter(loading, 1.0)[mask]


def _model(mask: np.ndarray, setting: dict[str, Any], **options: Any) -> Any:
    from spcatv import SPCATV

    return SPCATV(N_COMPONENTS, structure=grid(mask), tol=TOL, **setting, **options)


def _warm_up(setting: dict[str, Any]) -> None:
    """Load all kernels."""
    X = np.random.default_rng(0).standard_normal((300, 216)).astype(np.float32)
    with warnings.catch_warnings(action="ignore"):
        _model(np.ones((6, 6, 6), dtype=bool), setting).fit(X)


def drop_from_memory(path: Path) -> None:
    """Let the system forget what it keeps of a file, so that the next reader reads from the disk."""
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def plain_pass(path: Path) -> dict[str, float]:
    """Read a file from its beginning to its end."""
    buffer = bytearray(CHUNK_BYTES)
    drop_from_memory(path)
    started = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return {"seconds": time.perf_counter() - started}


def make_reader(path: Path, mask: np.ndarray, memory: int, blocks: dict[str, Any]) -> Callable[..., Any]:
    """``job("plain")`` reads the file once; ``job("fit", setting)`` fits it, in `memory` bytes.

    A map counts against the limit of a process's address space, whether it is in memory or not. So the limit
    is that of its data, and the peak of what is in memory is measured.
    """
    from spcatv.data.stored import FileReader

    for setting in SETTINGS.values():
        _warm_up(setting)
    entries = 0
    fill = FileReader.fill

    def counted(self: FileReader, out: np.ndarray, first: int, left: int = 0) -> None:
        nonlocal entries
        if first == 0:  # a pass begins: from the disk, as the plain ones
            drop_from_memory(path)
        entries += out.size
        fill(self, out, first, left)

    FileReader.fill = counted  # type: ignore[method-assign]
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    X = np.load(path, mmap_mode="r")

    def job(kind: str, setting: dict[str, Any] | None = None) -> dict[str, Any]:
        nonlocal entries
        if kind == "plain":
            return plain_pass(path)
        entries = 0
        model = _model(mask, setting or {}, **blocks)
        with PeakMemory() as peak, warnings.catch_warnings(action="ignore"):
            started, worked = time.perf_counter(), time.process_time()
            model.fit(X)
            passed, worked = time.perf_counter() - started, time.process_time() - worked
        return {
            "seconds": passed,
            "cpu_seconds": worked,
            "passes": entries / X.size,
            "n_passes": passes_of(model),
            "relative_gap": [record.relative_gap for record in model.diagnostics_],
            "peak_bytes": peak.mark,
        }

    return job


def make_comparison(path: Path, mask: np.ndarray) -> Callable[[dict[str, Any]], dict[str, float]]:
    """``job(setting)`` fits the file in blocks and the array in memory: how far apart the answers are."""
    from spcatv.data import StoredData, map_reader

    def job(setting: dict[str, Any]) -> dict[str, float]:
        X = np.load(path, mmap_mode="r")
        with warnings.catch_warnings(action="ignore"):
            stored = _model(mask, setting).fit(StoredData(map_reader(X)))
            array = _model(mask, setting).fit(np.array(X))
        values = [np.array([r.objective for r in model.diagnostics_]) for model in (stored, array)]
        return {
            "components": float(np.abs(stored.components_ - array.components_).max()),
            "largest": float(np.abs(array.components_).max()),
            "objective": float((np.abs(values[0] - values[1]) / np.abs(values[1])).max()),
        }

    return job


def ratio(result: dict[str, Any], fit: dict[str, Any]) -> float:
    """How long plain passes take, as many as the fit has made, over the time of the fit."""
    plain = float(np.mean([one["seconds"] for one in result["plain"]]))
    return fit["passes"] * plain / fit["seconds"]


def table(result: dict[str, Any]) -> str:
    """One row per setting."""
    plain = [one["seconds"] for one in result["plain"]]
    rows = []
    for fit in result["fits"]:
        shared, equal = fit["passes"] - sum(fit["n_passes"]), result["equal"][fit["name"]]
        rows.append(
            [
                fit["name"],
                seconds(fit["seconds"]),
                seconds(fit["cpu_seconds"]),
                f"{fit['passes']:.3g} ({each(fit['n_passes'], 'd')} + {shared:.2g})",
                seconds(fit["passes"] * float(np.mean(plain))),
                f"{ratio(result, fit):.0%}",
                f"{fit['peak_bytes'] / GIGABYTE:.2f} GB",
                f"{max(fit['relative_gap']):.1e}",
                f"{equal['components']:.1e} of {equal['largest']:.2f}",
                f"{equal['objective']:.1e}",
            ]
        )
    header = [
        *(
            "setting",
            "fit",
            "of the processors",
            "passes over X",
            "as many plain passes",
            "plain / fit",
            "peak memory",
        ),
        *("largest gap", "loadings, file against memory", "objective, likewise"),
    ]
    n_rows, n_columns = result["shape"]
    size, memory, equal_size = (result[name] / GIGABYTE for name in ("bytes", "memory", "equal_bytes"))
    return (
        f"{n_rows:,} x {n_columns:,}, float32, {size:.3g} GB in a process whose data are limited to "
        f"{memory:.3g} GB, K = {N_COMPONENTS}, relative gap {TOL:g}, {THREADS} threads. Every pass, plain or "
        "not, begins with nothing of the file in memory. Plain passes read "
        f"{each(size / np.array(plain), '.2f')} GB/s. File against memory: on {equal_size:.3g} GB.\n\n"
        f"{markdown(header, rows)}"
    )
