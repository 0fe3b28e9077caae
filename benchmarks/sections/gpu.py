"""A GPU against the CPU: answers, times of fits, of an iteration, of a selection, and of data that stream."""

from __future__ import annotations

import gc
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.cases import REAL, SIMULATED, Case, prepare_or_skip, raw_vbm
from benchmarks.data import ellipsoid_mask
from benchmarks.options import SETTING, TOL, Options
from benchmarks.peers import make_sklearn, make_spcatv
from benchmarks.scoring import judge_fit
from benchmarks.tables import each, markdown, seconds, times
from benchmarks.worker import Worker
from spcatv import SPCATV
from spcatv._util.devices import DeviceError, gpu_module
from spcatv.data.gpu import StreamedData
from spcatv.kernels import LoadingTerms, StepSizes
from spcatv.kernels.cuda.workspaces import workspace_on_gpu
from spcatv.problem import TotalVariation
from spcatv.selection import SPCATVCV
from spcatv.structure import concat, grid, icosphere, mesh

TITLE = "A GPU"
N_COMPONENTS = 3
# Samples and voxels of the fits; the CPU is not asked for the largest.
SIZES = ((83, 64_959), (200, 278_125), (200, 1_857_733), (2_000, 1_857_733))
QUICK_SIZES = ((20, 3_000),)
LARGEST_ON_CPU = 10**9
SETTINGS: dict[str, dict[str, Any]] = {
    "alpha 0.05, absolute": SETTING | {"alpha": 0.05},
    "alpha 0.1, relative": {"alpha": 0.1, "l1_ratio": 0.25, "tv_ratio": 0.5, "penalty_units": "relative"},
    "70 % zeros": {"alpha": None, "penalty_units": "relative"},
}
# Voxels whose iteration is timed, and bytes per voxel that an iteration must move.
ITERATED = (64_959, 278_125, 1_857_733, 14_861_873)
BYTES = 37
# Share of the data that the GPU's memory is limited to while they stream.
STREAMED_SHARE = 0.5
STREAMED_SHAPE, QUICK_STREAMED_SHAPE = (20_000, 100_000), (200, 1_000)


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Everything, on the first GPU; the results so far after each part."""
    try:
        cupy = gpu_module()
    except DeviceError as error:
        yield {"skipped": str(error)}
        return
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    result: dict[str, Any] = {"gpu": name, "cupy": cupy.__version__}
    voxels = ITERATED[:1] if options.quick else ITERATED
    yield (result := result | {"iterations": [_iteration(cupy, n) for n in voxels]})
    yield (result := result | {"icospheres": _icospheres(cupy, options)})
    yield (result := result | {"stream": _stream(cupy, options)})
    answers = (_answers(recipe, options) for recipe in SIMULATED + REAL)
    yield (result := result | {"answers": [answer for answer in answers if answer]})
    for size in QUICK_SIZES if options.quick else SIZES:
        yield (result := result | {"fits": [*result.get("fits", []), *_fits(cupy, *size, options)]})
    if not options.quick:
        yield result | {"selection": _selection()}


def _timed(cupy: Any, model: SPCATV, X: Any, repeats: int) -> float:
    """Seconds of the fastest fit after a first one."""
    found = []
    with warnings.catch_warnings(action="ignore"):
        for _ in range(repeats + 1):
            cupy.cuda.Device().synchronize()
            started = time.perf_counter()
            model.fit(X)
            found.append(time.perf_counter() - started)
    return min(found[1:])


def _answers(recipe: Any, options: Options) -> dict[str, Any] | None:
    """Objective of the GPU against that of the CPU, and gaps by the judge on the CPU."""
    case = prepare_or_skip(recipe, options)
    if isinstance(case, str):
        return None
    X = np.load(case.path)
    parameters = SETTING | {"alpha": case.alpha, "n_components": N_COMPONENTS, "tol": TOL}
    with warnings.catch_warnings(action="ignore"):
        here, there = (
            SPCATV(structure=case.structure, device=device, **parameters).fit(X) for device in ("cpu", "cuda")
        )
    pairs = zip(here.diagnostics_, there.diagnostics_, strict=True)
    case.path.unlink()
    return {
        "title": case.title,
        "off": max(abs(a.objective - b.objective) / (abs(a.objective) or 1.0) for a, b in pairs),
        "gaps": [record.relative_gap for record in there.diagnostics_],
        "judged": judge_fit(there, X),
    }


def _cohort(cupy: Any, n_samples: int, mask: np.ndarray) -> Any:
    """Noise with three smooth regions, standardised, float32, on the GPU."""
    random = cupy.random.RandomState(0)
    place = np.argwhere(mask) / np.array(mask.shape)
    X = random.standard_normal((n_samples, len(place)), dtype=cupy.float32)
    for centre in ((0.3, 0.4, 0.5), (0.6, 0.6, 0.5), (0.5, 0.5, 0.75)):
        region = np.exp(-((place - centre) ** 2).sum(axis=1) / 0.02).astype(np.float32)
        X += 1.2 * random.standard_normal((n_samples, 1), dtype=cupy.float32) * cupy.asarray(region)
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    return X


def _fits(cupy: Any, n_samples: int, n_voxels: int, options: Options) -> list[dict[str, Any]]:
    """One size, all settings: on the GPU, on one thread of the CPU, and ARPACK PCA on all threads."""
    mask = ellipsoid_mask(n_voxels)
    structure, X = grid(mask), _cohort(cupy, n_samples, mask)
    found = []
    for name, setting in SETTINGS.items():
        model = SPCATV(N_COMPONENTS, structure=structure, tol=TOL, device="cuda", **setting)
        record = {"N": n_samples, "P": n_voxels, "setting": name}
        record["gpu"] = _timed(cupy, model, X, options.repeats)
        record["gaps"] = [item.relative_gap for item in model.diagnostics_]
        record["zeros"] = [item.sparsity for item in model.diagnostics_]
        record["iterations"] = sum(item.n_inner_iter for item in model.diagnostics_)
        found.append(record)
    if X.size <= LARGEST_ON_CPU:
        path = options.scratch / "gpu.npy"
        np.save(path, X.get())
        _add_cpu(found, Case("gpu", "", path, X.shape, structure, grid((6, 6, 6)), mask))
        path.unlink()
    del X
    gc.collect()
    cupy.get_default_memory_pool().free_all_blocks()
    return found


def _add_cpu(records: list[dict[str, Any]], case: Case) -> None:
    with Worker(make_spcatv, case, threads=1) as ours:
        for record in records:
            record["cpu"] = ours.call(SETTINGS[record["setting"]])["seconds"]
    threads = os.cpu_count() or 1
    with Worker(make_sklearn, case, "PCA", {"svd_solver": "arpack"}, threads=threads) as pca:
        taken = pca.call()["seconds"]
    for record in records:
        record |= {"pca": taken, "pca_threads": threads}


def _icospheres(cupy: Any, options: Options) -> dict[str, Any]:
    """Two meshes side by side, 100 samples."""
    from benchmarks.data import surface_cohort

    subdivisions = 3 if options.quick else 7
    structure = concat([mesh(*icosphere(subdivisions))] * 2)
    X = cupy.asarray(surface_cohort(100, subdivisions))
    model = SPCATV(N_COMPONENTS, structure=structure, tol=TOL, device="cuda", **SETTING)
    taken = _timed(cupy, model, X, options.repeats)
    return {
        "vertices": structure.n_features,
        "seconds": taken,
        "gaps": [record.relative_gap for record in model.diagnostics_],
        "zeros": [record.sparsity for record in model.diagnostics_],
    }


def _iteration(cupy: Any, n_voxels: int) -> dict[str, Any]:
    """Microseconds of one primal-dual iteration on an ellipsoid."""
    structure = grid(ellipsoid_mask(n_voxels))
    terms = LoadingTerms(2.0, 1.0, False, TotalVariation())
    workspace = workspace_on_gpu(structure, terms, np.float32)
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
        taken.append(1e3 * cupy.cuda.get_elapsed_time(begin, end) / 190)
    return {"voxels": n_voxels, "microseconds": min(taken)}


def _selection() -> dict[str, Any] | None:
    """Five folds, 48 settings, on the grey-matter maps: GPU against two processes of the CPU."""
    try:
        _, X, structure, _ = raw_vbm()
    except FileNotFoundError:
        return None
    options = {
        "sparsity": np.linspace(0.3, 0.95, 12).tolist(),
        "smoothness": [0.25, 0.5, 1.0, 2.0],
        "standardize": True,
        "structure": structure,
    }
    taken = {}
    with warnings.catch_warnings(action="ignore"):
        # processes that live on have loaded all kernels at the second time
        for device, n_jobs in (("cuda", None), ("cuda", None), ("cuda", 4), ("cuda", 4), ("cpu", 2)):
            search = SPCATVCV(N_COMPONENTS, **options, device=device, n_jobs=n_jobs)
            started = time.perf_counter()
            search.fit(X.astype(np.float32))
            taken[f"{device} {n_jobs or 1}"] = time.perf_counter() - started
    return taken


def _stream(cupy: Any, options: Options) -> dict[str, Any]:
    """A memory map that is larger than what CuPy may take: a fit against plain passes to the GPU."""
    shape = QUICK_STREAMED_SHAPE if options.quick else STREAMED_SHAPE
    path = options.scratch / "stream.npy"
    X = _mapped(path, shape)
    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    pool.set_limit(size=int(max(STREAMED_SHARE * X.nbytes, 10**9)))
    try:
        model = SPCATV(N_COMPONENTS, structure=(shape[1],), tol=TOL, device="cuda", alpha=0.1)
        with _counted_passes() as passes:
            taken = _timed(cupy, model, X, 1)
        plain = min(_plain_pass(cupy, X) for _ in range(2))
    finally:
        pool.set_limit(size=0)
    path.unlink()
    return {"bytes": X.nbytes, "seconds": taken, "passes": len(passes) // 2, "plain": plain}


@contextmanager
def _counted_passes() -> Iterator[list[int]]:
    """A list that grows by one entry whenever data travel to the GPU."""
    passes: list[int] = []
    travel = StreamedData._travel

    def counted(data: StreamedData, blocks: Any) -> Any:
        passes.append(len(blocks))
        return travel(data, blocks)

    with patch.object(StreamedData, "_travel", counted):
        yield passes


def _mapped(path: Path, shape: tuple[int, int]) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    for first in range(0, shape[0], 1000):
        rows = rng.standard_normal((min(1000, shape[0] - first), shape[1]), dtype=np.float32)
        rows[:, : shape[1] // 5] += 2 * rng.standard_normal((len(rows), 1), dtype=np.float32)
        X[first : first + len(rows)] = rows
    X.flush()
    return np.load(path, mmap_mode="r")


def _plain_pass(cupy: Any, X: np.ndarray) -> float:
    """Seconds to copy all rows to the GPU, block by block."""
    height = max(1, (1 << 28) // (4 * X.shape[1]))
    started = time.perf_counter()
    for first in range(0, len(X), height):
        cupy.asarray(np.ascontiguousarray(X[first : first + height]))
    cupy.cuda.Device().synchronize()
    return time.perf_counter() - started


def table(result: dict[str, Any]) -> str:
    """All tables."""
    about = (
        f"{result['gpu']}, CuPy {result['cupy']}, float32, K = {N_COMPONENTS}, relative gap {TOL:g}; X is on "
        "the GPU already."
    )
    return "\n\n".join(
        [about, *(TABLES[part](found) for part, found in result.items() if part in TABLES and found)]
    )


def _table_of_answers(answers: list[dict[str, Any]]) -> str:
    return markdown(
        ["data", "objective off by", "relative gaps", "judged on the CPU"],
        [
            [item["title"], f"{item['off']:.1e}", each(item["gaps"], ".1e"), each(item["judged"], ".1e")]
            for item in answers
        ],
    )


def _table_of_fits(fits: list[dict[str, Any]]) -> str:
    return markdown(
        ["N x voxels", "setting", "GPU", "CPU, one thread", "ARPACK PCA, all threads", "iterations", "zeros"],
        [
            [
                f"{fit['N']:,} x {fit['P']:,}",
                fit["setting"],
                seconds(fit["gpu"]),
                _compared(fit.get("cpu"), fit["gpu"]),
                _compared(fit.get("pca"), fit["gpu"]),
                fit["iterations"],
                each(fit["zeros"], ".2f"),
            ]
            for fit in fits
        ],
    )


def _table_of_iterations(iterations: list[dict[str, Any]]) -> str:
    return markdown(
        ["voxels", "microseconds per iteration", f"TB/s of {BYTES} bytes per voxel"],
        [
            [
                f"{item['voxels']:,}",
                f"{item['microseconds']:.1f}",
                f"{BYTES * item['voxels'] / item['microseconds'] / 1e6:.2f}",
            ]
            for item in iterations
        ],
    )


def _text_of_icospheres(spheres: dict[str, Any]) -> str:
    return (
        f"Two icospheres, {spheres['vertices']:,} vertices, N = 100: {seconds(spheres['seconds'])}, gaps "
        f"{each(spheres['gaps'], '.1e')}, zeros {each(spheres['zeros'], '.2f')}."
    )


def _text_of_stream(stream: dict[str, Any]) -> str:
    return (
        f"Memory map of {stream['bytes'] / 1e9:.1f} GB with half of that for the GPU: "
        f"{seconds(stream['seconds'])} for {stream['passes']} passes; as many plain passes to the GPU take "
        f"{seconds(stream['passes'] * stream['plain'])}, which is "
        f"{stream['passes'] * stream['plain'] / stream['seconds']:.0%} of that."
    )


def _text_of_selection(taken: dict[str, float]) -> str:
    cpu = taken["cpu 2"]
    one, four = (f"{seconds(taken[key])} ({times(cpu / taken[key])})" for key in ("cuda 1", "cuda 4"))
    mps = "on" if "CUDA_MPS_PIPE_DIRECTORY" in os.environ else "off"
    return (
        "SPCATVCV, five folds x 48 settings on 306 grey-matter maps, on two processes of the CPU: "
        f"{seconds(cpu)}; on the GPU with one process {one}, with four {four}; MPS {mps}."
    )


TABLES: dict[str, Callable[[Any], str]] = {
    "answers": _table_of_answers,
    "fits": _table_of_fits,
    "iterations": _table_of_iterations,
    "icospheres": _text_of_icospheres,
    "stream": _text_of_stream,
    "selection": _text_of_selection,
}


def _compared(other: float | None, ours: float) -> str | None:
    return None if other is None else f"{seconds(other)} ({times(other / ours)})"
