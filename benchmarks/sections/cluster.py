"""A biobank on a cluster, on paper: constants measured on one core, and what follows from them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from benchmarks.data import ellipsoid_mask
from benchmarks.options import TOL, Options
from benchmarks.tables import markdown
from benchmarks.worker import Worker
from spcatv.structure import grid

TITLE = "A biobank on a cluster"
# Rows and columns of a block whose products are timed, and of the data whose passes are counted.
BLOCK, QUICK_BLOCK = (64, 2_000_000), (64, 20_000)
COUNTED, QUICK_COUNTED = (3_000, 30_000), (1_500, 1_000)
COMPONENTS = (10, 20)
# Vectors of a sketch beside the components, and its passes.
FURTHER, SKETCH_PASSES = 9, 3
# Maps that the samples are made of; the variance of map k is 1 / k.
N_MAPS = 100

# What is assumed of the cohort and of the cluster.
N_SAMPLES, N_FEATURES = 50_000, 2_000_000
WORKERS, CORES, NETWORK, PRICE, BLOCK_ROWS = 50, 16, 1.25e9, 0.05, 128
# Seconds that the scheduler of Dask takes for a task: one per block and pass, and one for eight sums.
TASK_SECONDS = 1e-3


def run(options: Options) -> dict[str, Any]:
    """Time products of one block on one core, and count the passes of whole fits."""
    block = QUICK_BLOCK if options.quick else BLOCK
    counted = QUICK_COUNTED if options.quick else COUNTED
    components = COMPONENTS[:1] if options.quick else COMPONENTS
    with Worker(make_products, block, threads=1) as worker:
        product = min(worker.call(0) for _ in range(options.repeats))
        sketch = {k: min(worker.call(k + FURTHER) for _ in range(options.repeats)) for k in components}
    with Worker(make_fits, counted, threads=1) as worker:
        fits = [worker.call(k, limit=3600.0) for k in components]
    for fit in fits:
        fit["product"], fit["sketch"] = product, sketch[fit["K"]]
        fit["paper"] = on_paper(fit)
    return {"block": block, "counted": counted, "fits": fits}


def make_products(shape: tuple[int, int]) -> Callable[[int], float]:
    """``job(n)``: seconds of a core per byte of a block, for X v and X'X v, or for n vectors at a time."""
    from spcatv.data import as_data

    rng = np.random.default_rng(0)
    X = rng.standard_normal(shape, dtype=np.float32)
    data, mean = as_data(X), np.zeros(shape[1])

    def job(n_vectors: int) -> float:
        vectors = rng.standard_normal((max(n_vectors, 1), shape[1]))
        started = time.process_time()
        if n_vectors == 0:
            data.there_and_back(vectors[0], np.zeros(shape[0]))
        else:
            data.there_and_back_many(vectors, mean, np.zeros((shape[0], n_vectors)))
        return (time.process_time() - started) / X.nbytes

    job(0)  # compiles
    return job


def make_fits(shape: tuple[int, int]) -> Callable[[int], dict[str, Any]]:
    """``job(K)``: passes of a fit, and seconds of a core beside them per feature."""
    from spcatv import SPCATV
    from spcatv.data.array import ArrayData

    mask = ellipsoid_mask(shape[1])
    rng = np.random.default_rng(0)
    maps = np.stack([gaussian_filter(rng.standard_normal(mask.shape), 2.0)[mask] for _ in range(N_MAPS)])
    maps *= 1.0 / (maps.std(axis=1) * np.sqrt(np.arange(1, N_MAPS + 1)))[:, None]
    X = (rng.standard_normal((shape[0], N_MAPS)) @ maps).astype(np.float32)
    X += rng.standard_normal(shape, dtype=np.float32)
    inside = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: ArrayData, *arguments: Any) -> Any:
            nonlocal inside
            started = time.process_time()
            found = method(self, *arguments)
            inside += time.process_time() - started
            return found

        return call

    for name in (
        "dot",
        "dot_many",
        "transpose_dot",
        "there_and_back",
        "there_and_back_many",
        "column_statistics",
    ):
        setattr(ArrayData, name, timed(getattr(ArrayData, name)))

    def job(n_components: int) -> dict[str, Any]:
        nonlocal inside
        inside = 0.0
        model = SPCATV(n_components, structure=grid(mask), sparsity=0.9, tol=TOL, method="deflation")
        started = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            model.fit(X)
        beside = time.process_time() - started - inside
        return {
            "K": n_components,
            "n_passes": [record.n_passes for record in model.diagnostics_],
            "converged": all(record.converged for record in model.diagnostics_),
            "beside": beside / shape[1],
        }

    job(1)  # compiles
    return job


def on_paper(fit: dict[str, Any]) -> dict[str, float]:
    """Bytes, seconds and price of a fit of the assumed cohort; docs/cluster.md has the formulas."""
    n_vectors, n_passes = fit["K"] + FURTHER, sum(fit["n_passes"])
    size, vector = 4.0 * N_SAMPLES * N_FEATURES, 8.0 * N_FEATURES
    n_blocks = -(-N_SAMPLES // BLOCK_ROWS)
    work = size * (SKETCH_PASSES * fit["sketch"] + n_passes * fit["product"]) / (WORKERS * CORES)
    # a sum per block goes up, and the vectors go down to every worker
    traffic = (SKETCH_PASSES * n_vectors + n_passes) * vector * (n_blocks + WORKERS)
    # the process that fits sends and takes what its own network lets through
    travel = traffic / (WORKERS * NETWORK) + (SKETCH_PASSES * n_vectors + n_passes) * 2 * vector / NETWORK
    tasks = (SKETCH_PASSES + n_passes) * 8 / 7 * n_blocks * TASK_SECONDS
    beside = fit["beside"] * N_FEATURES
    hours = (work + travel + tasks + beside) / 3600
    return {
        "size": size,
        "passes": SKETCH_PASSES + n_passes,
        "traffic": traffic,
        "work": work,
        "travel": travel,
        "tasks": tasks,
        "beside": beside,
        "hours": hours,
        "price": hours * WORKERS * CORES * PRICE,
    }


def table(result: dict[str, Any]) -> str:
    """Constants, and what follows."""
    constants = [
        [
            fit["K"],
            f"{1e-9 / fit['product']:.2f}",
            f"{1e-9 / fit['sketch']:.2f}",
            f"{SKETCH_PASSES} + {sum(fit['n_passes'])}",
            f"{1e6 * fit['beside']:.0f}",
        ]
        for fit in result["fits"]
    ]
    rows = [
        [
            fit["K"],
            f"{paper['size'] / 1e9:.0f} GB",
            paper["passes"],
            f"{paper['traffic'] / 1e9:.0f} GB",
            f"{paper['work'] / 60:.1f} min",
            f"{paper['travel'] / 60:.1f} min",
            f"{paper['tasks'] / 60:.1f} min",
            f"{paper['beside'] / 60:.1f} min",
            f"{paper['hours']:.2f}",
            f"{paper['price']:.0f}",
        ]
        for fit in result["fits"]
        for paper in (fit["paper"],)
    ]
    (n_rows, n_columns), (n, p) = result["block"], result["counted"]
    return (
        f"Seconds of one core, float32. Products: a block of {n_rows} x {n_columns:,}. Passes and the rest: "
        f"fits of {n:,} x {p:,} simulated voxels, 90 % zeros, relative gap {TOL:g}.\n\n"
        + markdown(
            ["K", "GB/s of a pass", "GB/s of a sketch pass", "passes", "beside them, us per feature"],
            constants,
        )
        + f"\n\nOn paper: {N_SAMPLES:,} x {N_FEATURES:,} in blocks of {BLOCK_ROWS} samples; {WORKERS} workers"
        f" of {CORES} cores, {NETWORK / 1e9:g} GB/s of network each, {PRICE:g} per core and hour.\n\n"
        + markdown(
            [
                "K",
                "X",
                "passes",
                "traffic",
                "products",
                "network",
                "scheduler",
                "one core beside",
                "hours",
                "price",
            ],
            rows,
        )
    )
