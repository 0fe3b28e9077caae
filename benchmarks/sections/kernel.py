"""The iteration itself: microseconds, and its bandwidth compared with a copy of the same size."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

from benchmarks.data import ellipsoid_mask
from benchmarks.kernel import make_kernel
from benchmarks.machine import cache_sizes
from benchmarks.options import Options
from benchmarks.tables import markdown
from benchmarks.worker import Worker
from spcatv.structure import Structure, grid, icosphere, mesh

TITLE = "The primal-dual iteration"
THREADS = 1
# Sides of full boxes of 16 k, 64 k, 256 k, 1 M and 2 M voxels.
SIDES = (25, 40, 64, 100, 126)
QUICK_SIDES = (10, 16)
COUNT = (
    "Bytes counted, for numbers of b bytes: v is read and written, y is read, and three dual arrays are read "
    "and written. That is 9 b per voxel, plus 1 byte of edge flags; on a mesh 3 b per vertex and 2 b + 4 (an "
    "index) per edge. Copy: bytes read plus bytes written, on two arrays that together are as large."
)


def ellipsoid(n_voxels: int) -> Structure:
    """A masked volume."""
    return grid(ellipsoid_mask(n_voxels))


def sphere(subdivisions: int) -> Structure:
    """A closed surface."""
    return mesh(*icosphere(subdivisions))


def structures(quick: bool) -> dict[str, Callable[[], Structure]]:
    """What is iterated on, by name."""
    sides = QUICK_SIDES if quick else SIDES
    made: dict[str, Callable[[], Structure]] = {}
    for side in sides:
        made[f"box {side}³"] = partial(grid, (side,) * 3)
    for side in sides:
        made[f"ellipsoid {side**3:,}"] = partial(ellipsoid, side**3)
    made["icosphere"] = partial(sphere, 3 if quick else 7)
    return made


def run(options: Options) -> dict[str, Any]:
    """Time every structure in both precisions, one thread."""
    n_batches = 2 if options.quick else 4 * options.repeats
    with Worker(make_kernel, n_batches, threads=THREADS) as worker:
        rows = [
            {"structure": name, "dtype": dtype, **worker.call(make, dtype)}
            for name, make in structures(options.quick).items()
            for dtype in ("float32", "float64")
        ]
    cache = max(cache_sizes().values(), default=None)
    return {
        "threads": THREADS,
        "last_cache": cache,
        "rows": rows,
        "growth": {dtype: growth(rows, dtype, cache) for dtype in ("float32", "float64")},
    }


def growth(rows: list[dict[str, Any]], dtype: str, cache: int | None) -> dict[str, Any]:
    """Time per voxel of each box relative to the next smaller one, from 64 k on; the same per byte copied.

    ``apart`` leaves out the step from the last cache into memory.
    """
    boxes = [row for row in rows if row["structure"].startswith("box") and row["dtype"] == dtype]
    steps = []
    for a, b in pairwise(boxes[-len(SIDES) + 1 :]):
        steps.append(
            {
                "from": a["n_features"],
                "to": b["n_features"],
                "factor": (b["seconds"] / b["n_features"]) / (a["seconds"] / a["n_features"]),
                "copy_factor": a["copy_bytes_per_second"] / b["copy_bytes_per_second"],
                "into_memory": cache is not None and a["working_set"] <= cache < b["working_set"],
            }
        )
    return {
        "steps": steps,
        "factor": math.prod(step["factor"] for step in steps),
        "copy_factor": math.prod(step["copy_factor"] for step in steps),
        "apart": math.prod(step["factor"] for step in steps if not step["into_memory"]),
    }


def table(result: dict[str, Any]) -> str:
    """One row per structure and precision."""
    header = [
        *("structure", "features", "dtype", "µs an iteration", "ns a feature", "MB moved", "GB/s"),
        *("copy GB/s", "share", "working set"),
    ]
    rows = []
    for row in result["rows"]:
        cache = result["last_cache"]
        where = "" if cache is None else ", in cache" if row["working_set"] < cache else ", in memory"
        rows.append(
            [
                row["structure"],
                f"{row['n_features']:,}",
                row["dtype"],
                f"{1e6 * row['seconds']:.4g}",
                f"{1e9 * row['seconds'] / row['n_features']:.3g}",
                f"{row['bytes'] / 1e6:.3g}",
                f"{row['bytes_per_second'] / 1e9:.3g}",
                f"{row['copy_bytes_per_second'] / 1e9:.3g}",
                f"{row['share']:.0%}",
                f"{row['working_set'] / 1e6:.3g} MB{where}",
            ]
        )
    return "\n\n".join([COUNT, markdown(header, rows), growth_table(result)])


def growth_table(result: dict[str, Any]) -> str:
    """Growth of the time per voxel, box by box."""
    rows = []
    for dtype, grown in result["growth"].items():
        for step in grown["steps"]:
            name = f"{step['from']:,} to {step['to']:,}" + (
                ", cache to memory" if step["into_memory"] else ""
            )
            rows.append([dtype, name, f"{step['factor']:.2f}", f"{step['copy_factor']:.2f}"])
        rows.append([dtype, "all", f"{grown['factor']:.2f}", f"{grown['copy_factor']:.2f}"])
    return markdown(["dtype", "box", "time per voxel grows by", "time per byte copied grows by"], rows)
