"""Data for the benchmarks: simulated cohorts on the paper's sizes, and the real ones where they are at hand."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter

from spcatv.structure import Structure, concat, grid, mesh
from spcatv.structure.shapes import icosphere

REAL_DATA = Path(os.environ.get("SPCATV_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


@dataclass(frozen=True)
class Case:
    """A data matrix (float32) with its structure and a name."""

    name: str
    X: np.ndarray
    structure: Structure
    mask: np.ndarray | None = None


def ellipsoid_mask(n_voxels: int) -> np.ndarray:
    """The `n_voxels` innermost voxels of a brain-shaped ellipsoid."""
    side = (n_voxels / 0.5236) ** (1 / 3)
    shape = tuple(int(np.ceil(side * ratio)) + 2 for ratio in (0.96, 1.16, 0.90))
    radius = sum(
        ((axis - (n - 1) / 2) / ratio) ** 2
        for axis, n, ratio in zip(np.indices(shape), shape, (0.96, 1.16, 0.90), strict=True)
    )
    mask = np.zeros(radius.size, dtype=bool)
    mask[np.argsort(radius, axis=None, kind="stable")[:n_voxels]] = True
    return mask.reshape(shape)


def volume_cohort(n_rows: int, n_voxels: int, seed: int = 0) -> Case:
    """Smooth noise plus three components, each a few balls with scores of its own."""
    rng = np.random.default_rng(seed)
    mask = ellipsoid_mask(n_voxels)
    X = np.empty((n_rows, n_voxels), dtype=np.float32)
    for row in X:
        row[:] = gaussian_filter(rng.standard_normal(mask.shape, dtype=np.float32), 1.5)[mask]
    X /= X.std()
    axes = np.indices(mask.shape)
    unit = mask.shape[0] / 48
    for amplitude, n_balls in ((3.0, 3), (2.2, 4), (1.7, 3)):
        loading = np.zeros(mask.shape, dtype=np.float32)
        for _ in range(n_balls):
            centre = [rng.integers(n // 5, 4 * n // 5) for n in mask.shape]
            distance = sum((axis - c) ** 2 for axis, c in zip(axes, centre, strict=True))
            loading[distance < (unit * rng.uniform(4, 9)) ** 2] = rng.choice([-1, 1]) * rng.uniform(0.5, 1)
        scores = rng.standard_normal((n_rows, 1), dtype=np.float32)
        X += amplitude * scores * gaussian_filter(loading, 1.0)[mask]
    return Case(f"volume {n_rows} x {n_voxels:,}", X, grid(mask), mask)


def surface_cohort(n_rows: int, subdivisions: int = 7, n_hemispheres: int = 2, seed: int = 0) -> Case:
    """Noise plus three components, each a few patches, on icospheres side by side."""
    rng = np.random.default_rng(seed)
    coords, triangles = icosphere(subdivisions)
    structure = concat([mesh(coords, triangles) for _ in range(n_hemispheres)])
    n_vertices = len(coords)
    X = rng.standard_normal((n_rows, structure.n_features), dtype=np.float32)
    for amplitude in (3.0, 2.2, 1.7):
        scores = rng.standard_normal((n_rows, 1), dtype=np.float32)
        for hemisphere in range(n_hemispheres):
            centre = rng.standard_normal(3)
            near = coords @ (centre / np.linalg.norm(centre)) > rng.uniform(0.93, 0.98)
            columns = np.flatnonzero(near) + hemisphere * n_vertices
            X[:, columns] += amplitude * scores
    return Case(f"surface {n_rows} x {structure.n_features:,}", X, structure)


def real_case(file: str, key: str = "X", **options: Any) -> np.ndarray | None:
    """An array of a real data file, or None where the file is not at hand."""
    path = REAL_DATA / file
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False, **options) as archive:
        return archive[key]
