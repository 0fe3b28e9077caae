"""All cores, same bits: fits and v-steps on 1, 2, 4, ... threads."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import SETTING, TOL, Options
from benchmarks.tables import markdown, seconds, times
from benchmarks.worker import Entrant, Worker, interleave
from spcatv import SPCATV
from spcatv.kernels import LoadingTerms, StepSizes, workspace_for
from spcatv.problem import TotalVariation
from spcatv.structure import grid

TITLE = "Threads"
N_SAMPLES, N_VOXELS, QUICK_VOXELS = 20, 1_000_000, 3_000
SETTINGS: dict[str, dict[str, Any]] = {
    "fit, alpha 0.1": {"alpha": 0.1},
    "fit, 90 % zeros": {"sparsity": 0.9},
}
STEP = "v-step, 100 iterations"
N_ITERATIONS = 100
# A cohort at 1 mm, on machines with many cores: the setting of the GPU's section, beside scikit-learn.
LARGE_SAMPLES, LARGE_VOXELS, LARGE_CORES = 200, 1_857_733, 8
LARGE_FIT, PEER = "fit, alpha 0.05 absolute", "scikit-learn's PCA, ARPACK"
SETTINGS_OF_ALL = SETTINGS | {LARGE_FIT: SETTING | {"alpha": 0.05}}


def run(options: Options) -> dict[str, Any]:
    """The same work on 1, 2, 4, ... threads, in turn."""
    n_cores = os.cpu_count() or 1
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= n_cores]
    n_voxels = QUICK_VOXELS if options.quick else N_VOXELS
    result = {"small": _measured(options, N_SAMPLES, n_voxels, (*SETTINGS, STEP), counts)}
    if n_cores >= LARGE_CORES and not options.quick:
        result["large"] = _measured(options, LARGE_SAMPLES, LARGE_VOXELS, (LARGE_FIT, PEER), [1, counts[-1]])
    return result


def _measured(
    options: Options, n_samples: int, n_voxels: int, works: tuple[str, ...], counts: list[int]
) -> dict[str, Any]:
    """Seconds and bits of every kind of work on every number of threads."""
    mask = ellipsoid_mask(n_voxels)
    path = options.scratch / "threads.npy"
    np.save(path, volume_cohort(n_samples, mask))
    points = []
    workers = {count: Worker(make_job, path, mask, threads=count) for count in counts}
    try:
        for name in works:
            entrants = [Entrant(str(count), worker, (name,)) for count, worker in workers.items()]
            interleave(entrants, options.repeats)
            points += [
                {"what": name, "threads": count, "seconds": one.seconds, "bits": one.runs[0]["bits"]}
                for count, one in zip(counts, entrants, strict=True)
            ]
    finally:
        for worker in workers.values():
            worker.close()
    path.unlink()
    return {"samples": n_samples, "voxels": n_voxels, "points": points}


def make_job(path: Path, mask: np.ndarray) -> Callable[[str], dict[str, Any]]:
    """``job(name)`` does one kind of work; its bits are a hash of the result."""
    X, structure = np.load(path), grid(mask)
    SPCATV(1, structure=(6, 6, 6), alpha=0.1).fit(np.random.default_rng(0).standard_normal((10, 216)))
    terms = LoadingTerms(2.0, 1.0, False, TotalVariation())
    workspace = workspace_for(structure, terms, np.float32)
    y = 3.0 * np.random.default_rng(0).standard_normal(len(X[0]))
    steps = StepSizes(0.02, 1 / (0.02 * 2.0 * structure.norm_squared()), 1.9)

    def job(name: str) -> dict[str, Any]:
        if name == STEP:
            workspace.clear()
            workspace.set_target(y)
            started = time.perf_counter()
            workspace.advance(N_ITERATIONS, steps)
            taken, found = time.perf_counter() - started, workspace.get_v()
        elif name == PEER:
            model = PCA(3, svd_solver="arpack")
            started = time.perf_counter()
            model.fit(X)
            taken, found = (
                time.perf_counter() - started,
                np.zeros(0),
            )  # rounded differently on several threads
        else:
            model = SPCATV(3, structure=structure, tol=TOL, **SETTINGS_OF_ALL[name])
            with warnings.catch_warnings(action="ignore"):
                started = time.perf_counter()
                model.fit(X)
            taken, found = time.perf_counter() - started, model.components_
        return {"seconds": taken, "bits": hashlib.sha256(found.tobytes()).hexdigest()[:12]}

    return job


def table(result: dict[str, Any]) -> str:
    """One row per kind of work and number of threads."""
    return "\n\n".join(_table(part) for part in result.values())


def _table(part: dict[str, Any]) -> str:
    alone = {point["what"]: point for point in part["points"] if point["threads"] == 1}
    rows = [
        [
            point["what"],
            point["threads"],
            seconds(point["seconds"]),
            times(alone[point["what"]]["seconds"] / point["seconds"]),
            "yes" if point["bits"] == alone[point["what"]]["bits"] else "NO",
        ]
        for point in part["points"]
    ]
    header = ["work", "threads", "seconds", "one thread / this", "bits of one thread"]
    size = f"{part['samples']} samples of {part['voxels']:,} voxels"
    return f"{size}, K = 3, relative gap {TOL:g}, float32.\n\n{markdown(header, rows)}"
