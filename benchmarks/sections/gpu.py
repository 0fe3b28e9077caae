"""A GPU beside the CPU: an iteration, fits judged on the CPU, and a selection."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Case, raw_vbm
from benchmarks.data import ellipsoid_mask
from benchmarks.options import N_COMPONENTS, SETTING, TOL, Options
from benchmarks.peers import judge_fit, make_peer, make_spcatv
from benchmarks.worker import Worker
from spcatv import SPCATV
from spcatv._util.devices import DeviceError, gpu_module
from spcatv.kernels import LoadingTerms, StepSizes
from spcatv.kernels.cuda.workspaces import workspace_on_gpu
from spcatv.problem import TotalVariation
from spcatv.selection import SPCATVCV
from spcatv.structure import grid

TITLE = "A GPU, float32, three components; X is on the GPU already"
# Samples and voxels of the fits; the CPU does not fit arrays with more entries than LARGEST_ON_CPU.
SIZES, QUICK_SIZES = ((83, 64_959), (200, 278_125), (200, 1_857_733), (2_000, 1_857_733)), ((20, 3_000),)
LARGEST_ON_CPU = 10**9
RELATIVE = {"l1_ratio": 0.25, "tv_ratio": 0.5, "penalty_units": "relative"}
SETTINGS: dict[str, dict[str, Any]] = {
    "alpha 0.05, absolute": SETTING | {"alpha": 0.05},
    "alpha 0.1, relative": RELATIVE | {"alpha": 0.1},
    "70 % zeros, joint": RELATIVE | {"alpha": None, "method": "joint"},
    "70 % zeros, deflation": RELATIVE | {"alpha": None, "method": "deflation"},
}
# Voxels whose iteration is timed, and bytes per voxel that an iteration must move.
ITERATED, BYTES = (64_959, 278_125, 1_857_733, 14_861_873), 37


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Measure everything on the first GPU."""
    try:
        cupy = gpu_module()
    except DeviceError as error:
        yield {"what": "GPU", "seconds": None, "note": str(error)}
        return
    for n_voxels in ITERATED[:1] if options.quick else ITERATED:
        yield _iteration(cupy, n_voxels)
    for size in QUICK_SIZES if options.quick else SIZES:
        yield from _fits(cupy, *size, options)
    if not options.quick:
        yield from _selection()


def _timed(cupy: Any, model: SPCATV, X: Any, repeats: int) -> float:
    """Return the seconds of the fastest fit after a first one."""
    found = []
    with warnings.catch_warnings(action="ignore"):
        for _ in range(repeats + 1):
            cupy.cuda.Device().synchronize()
            started = time.perf_counter()
            model.fit(X)
            found.append(time.perf_counter() - started)
    return min(found[1:])


def _iteration(cupy: Any, n_voxels: int) -> dict[str, Any]:
    """Time one primal-dual iteration on an ellipsoid."""
    structure = grid(ellipsoid_mask(n_voxels))
    workspace = workspace_on_gpu(structure, LoadingTerms(2.0, 1.0, False, TotalVariation()), np.float32)
    workspace.set_target(3.0 * cupy.random.RandomState(0).standard_normal(n_voxels))
    steps = StepSizes(0.02, 1 / (0.02 * 2.0 * structure.norm_squared()), 1.9)
    workspace.advance(19, steps)
    taken = []
    for _ in range(5):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        begin.record()
        for _ in range(10):
            workspace.advance(19, steps)
        end.record()
        end.synchronize()
        taken.append(1e-3 * cupy.cuda.get_elapsed_time(begin, end) / 190)
    rate = BYTES * n_voxels / min(taken) / 1e12
    return {"what": f"an iteration, {n_voxels:,} voxels", "seconds": min(taken), "TB/s": rate}


def _cohort(cupy: Any, n_samples: int, mask: np.ndarray) -> Any:
    """Simulate noise with three smooth regions, standardised, float32, on the GPU."""
    random = cupy.random.RandomState(0)
    place = np.argwhere(mask) / np.array(mask.shape)
    X = random.standard_normal((n_samples, len(place)), dtype=cupy.float32)
    for centre in ((0.3, 0.4, 0.5), (0.6, 0.6, 0.5), (0.5, 0.5, 0.75)):
        region = np.exp(-((place - centre) ** 2).sum(axis=1) / 0.02).astype(np.float32)
        X += 1.2 * random.standard_normal((n_samples, 1), dtype=cupy.float32) * cupy.asarray(region)
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X


def _fits(cupy: Any, n_samples: int, n_voxels: int, options: Options) -> Iterator[dict[str, Any]]:
    """Fit one size with all settings: on the GPU, on one thread of the CPU, and ARPACK PCA on all threads."""
    mask = ellipsoid_mask(n_voxels)
    structure, X = grid(mask), _cohort(cupy, n_samples, mask)
    what = f"{n_samples:,} x {n_voxels:,}"
    small = X.size <= LARGEST_ON_CPU
    gpu = {}
    for name, setting in SETTINGS.items():
        model = SPCATV(N_COMPONENTS, structure=structure, tol=TOL, device="cuda", **setting)
        gpu[name] = _timed(cupy, model, X, options.repeats)
        yield {
            "what": f"{what}, {name}",
            "seconds": gpu[name],
            "gaps": [record.relative_gap for record in model.diagnostics_],
            "judged": judge_fit(model, X.get()) if small and model.mixing_ is None else None,
            "zeros": [record.sparsity for record in model.diagnostics_],
            "iterations": sum(record.n_inner_iter for record in model.diagnostics_),
        }
    if not small:
        return
    case = Case("", options.scratch / "gpu.npy", X.shape, structure, mask)
    np.save(case.path, X.get())
    with Worker(make_spcatv, case, threads=1) as ours:
        for name, setting in SETTINGS.items():
            taken = ours.call(setting)["seconds"]
            yield {"what": f"{what}, {name}, CPU, one thread", "seconds": taken, "ratio": taken / gpu[name]}
    with Worker(make_peer, case, "PCA ARPACK", threads=os.cpu_count() or 1) as pca:
        yield {"what": f"{what}, ARPACK PCA, CPU, all threads", "seconds": pca.call()["seconds"]}
    case.path.unlink()


def _selection() -> Iterator[dict[str, Any]]:
    """Run five folds of 48 settings on the grey-matter maps: on the GPU, and on two processes of the CPU."""
    try:
        _, X, structure, _ = raw_vbm()
    except FileNotFoundError:
        return
    smoothness, sparsity = [0.25, 0.5, 1.0, 2.0], np.linspace(0.3, 0.95, 12).tolist()
    options = {"sparsity": sparsity, "smoothness": smoothness, "standardize": True, "structure": structure}
    with warnings.catch_warnings(action="ignore"):
        # processes that live on have loaded all kernels at the second time
        for device, n_jobs in (("cuda", None), ("cuda", None), ("cuda", 4), ("cuda", 4), ("cpu", 2)):
            search = SPCATVCV(3, **options, device=device, n_jobs=n_jobs)
            started = time.perf_counter()
            search.fit(X.astype(np.float32))
            taken = time.perf_counter() - started
            yield {"what": f"selection, {device}, {n_jobs or 1} processes", "seconds": taken}
