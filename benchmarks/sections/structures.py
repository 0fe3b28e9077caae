"""Time to build large structures: a masked grid of 2 million voxels, a mesh of 330 thousand vertices."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.tables import markdown
from benchmarks.worker import Worker
from spcatv.structure import Structure, concat, grid, icosphere, mesh

TITLE = "Building structures"
THREADS = 2
SCHEMES = ("edges", "gradient", "fem")


def ellipsoid(shape: tuple[int, ...]) -> np.ndarray:
    """The ellipsoid that touches the faces of a box."""
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij", sparse=True)
    return sum(axis**2 for axis in axes) <= 1


def measure(make: Callable[[], Structure]) -> dict[str, Any]:
    """Seconds for the recipe (checking the input), the operator and the norm bound."""
    marks = [time.perf_counter()]
    structure = make()
    marks.append(time.perf_counter())
    _ = structure.matrix
    marks.append(time.perf_counter())
    bound = structure.norm_squared()
    marks.append(time.perf_counter())
    return {
        "features": structure.n_features,
        "rows": structure.n_rows,
        "seconds": np.diff(marks).tolist(),
        "norm_squared": bound,
    }


def make_structures(shape: tuple[int, ...], subdivisions: int):
    """A job that builds all of them."""
    mask = ellipsoid(shape)
    labels = mask * (1 + (np.indices(mask.shape, dtype=np.int32) // 20).sum(axis=0))
    coords, triangles = icosphere(subdivisions)
    makers: dict[str, Callable[[], Structure]] = {
        "grid, ellipsoid": partial(grid, mask),
        "grid, anisotropic": partial(grid, mask, isotropic=False),
        "grid, labels, voxel sizes": partial(grid, labels, voxel_size=(1, 1, 3)),
    }
    for scheme in SCHEMES:
        makers[f"two meshes, {scheme}"] = lambda scheme=scheme: concat(
            [mesh(coords, triangles, scheme=scheme) for _ in range(2)]
        )
    return lambda: [{"name": name, **measure(make)} for name, make in makers.items()]


def run(options: Options) -> dict[str, Any]:
    """Build each structure once."""
    shape, subdivisions = ((20, 24, 22), 3) if options.quick else ((142, 172, 160), 7)
    with Worker(make_structures, shape, subdivisions, threads=THREADS) as worker:
        return {"threads": THREADS, "rows": worker.call()}


def table(result: dict[str, Any]) -> str:
    """One row per structure."""
    rows = [
        [
            row["name"],
            f"{row['features']:,}",
            f"{row['rows']:,}",
            *(f"{value:.2f}" for value in (*row["seconds"], sum(row["seconds"]))),
            f"{row['norm_squared']:.4g}",
        ]
        for row in result["rows"]
    ]
    header = ["structure", "features", "rows", "recipe s", "matrix s", "norm s", "total s", "‖A‖² ≤"]
    return markdown(header, rows)
