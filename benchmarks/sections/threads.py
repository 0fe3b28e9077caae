"""The same work on 1, 2, 4, ... threads: seconds, and whether the bits are those of one thread."""

from __future__ import annotations

import hashlib
import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import SETTING, TOL, Options
from benchmarks.worker import Entrant, Worker, interleave

TITLE = "Threads: three components of 20 samples of an ellipsoid"
N_SAMPLES, N_VOXELS, QUICK_VOXELS = 20, 1_000_000, 200_000
SETTINGS: dict[str, dict[str, Any]] = {
    "alpha 0.1": SETTING,
    "90 % zeros, joint": {"sparsity": 0.9, "method": "joint"},
    "90 % zeros, deflation": {"sparsity": 0.9, "method": "deflation"},
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Run every setting on all numbers of threads, in turn."""
    counts = [count for count in (1, 2, 4, 8, 16, 32) if count <= (os.cpu_count() or 1)]
    mask = ellipsoid_mask(QUICK_VOXELS if options.quick else N_VOXELS)
    path = options.scratch / "threads.npy"
    np.save(path, volume_cohort(N_SAMPLES, mask))
    workers = {count: Worker(make_fits, path, mask, threads=count) for count in counts}
    try:
        for name, setting in SETTINGS.items():
            entrants = [Entrant(str(count), worker, (setting,)) for count, worker in workers.items()]
            interleave(entrants, options.repeats)
            one = entrants[0]
            for entrant in entrants:
                yield {
                    "fit": name,
                    "threads": entrant.name,
                    "seconds": entrant.seconds,
                    "faster": one.seconds / entrant.seconds,
                    "same bits": entrant.runs[0]["bits"] == one.runs[0]["bits"],
                }
    finally:
        for worker in workers.values():
            worker.close()
        path.unlink()


def make_fits(path: Path, mask: np.ndarray) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a job that fits with a setting; its bits are a hash of the loadings."""
    from spcatv import SPCATV
    from spcatv.structure import grid

    X, structure = np.load(path), grid(mask)
    small = np.random.default_rng(0).standard_normal((10, 216)).astype(np.float32)
    for setting in SETTINGS.values():  # loads the kernels
        with warnings.catch_warnings(action="ignore"):
            SPCATV(1, structure=(6, 6, 6), **setting).fit(small)

    def job(setting: dict[str, Any]) -> dict[str, Any]:
        model = SPCATV(3, structure=structure, tol=TOL, **setting)
        with warnings.catch_warnings(action="ignore"):
            started = time.perf_counter()
            model.fit(X)
            taken = time.perf_counter() - started
        return {"seconds": taken, "bits": hashlib.sha256(model.components_.tobytes()).hexdigest()}

    return job
