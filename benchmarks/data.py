"""Matrices for the benchmarks: simulated cohorts of the paper's sizes, and real data if there are any."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
from scipy.ndimage import gaussian_filter

from spcatv.structure.mesh import icosphere

REAL_DATA = Path(os.environ.get("SPCATV_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))


def ellipsoid_mask(n_voxels: int) -> np.ndarray:
    """Return the `n_voxels` innermost voxels of a brain-shaped ellipsoid."""
    side = (n_voxels / 0.5236) ** (1 / 3)
    shape = tuple(int(np.ceil(side * ratio)) + 2 for ratio in (0.96, 1.16, 0.90))
    radius = sum(
        ((axis - (n - 1) / 2) / ratio) ** 2
        for axis, n, ratio in zip(np.ogrid[tuple(map(slice, shape))], shape, (0.96, 1.16, 0.90), strict=True)
    )
    mask = np.zeros(radius.size, dtype=bool)
    mask[np.argsort(radius, axis=None, kind="stable")[:n_voxels]] = True
    return mask.reshape(shape)


def volume_cohort(n_rows: int, mask: np.ndarray, seed: int = 0) -> np.ndarray:
    """Smooth noise plus three components, each made of a few balls with their own scores; float32."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_rows, int(mask.sum())), dtype=np.float32)
    for row in X:
        row[:] = gaussian_filter(rng.standard_normal(mask.shape, dtype=np.float32), 1.5)[mask]
    X /= X.std()
    axes = np.ogrid[tuple(map(slice, mask.shape))]
    unit = mask.shape[0] / 48
    for amplitude, n_balls in ((3.0, 3), (2.2, 4), (1.7, 3)):
        loading = np.zeros(mask.shape, dtype=np.float32)
        for _ in range(n_balls):
            centre = [rng.integers(n // 5, 4 * n // 5) for n in mask.shape]
            distance = sum((axis - c) ** 2 for axis, c in zip(axes, centre, strict=True))
            loading[distance < (unit * rng.uniform(4, 9)) ** 2] = rng.choice([-1, 1]) * rng.uniform(0.5, 1)
        scores = rng.standard_normal((n_rows, 1), dtype=np.float32)
        X += amplitude * scores * gaussian_filter(loading, 1.0)[mask]
    return X


def surface_cohort(n_rows: int, subdivisions: int = 7, n_hemispheres: int = 2, seed: int = 0) -> np.ndarray:
    """Noise plus three components, each made of a few patches, on icospheres side by side; float32."""
    rng = np.random.default_rng(seed)
    coords, _ = icosphere(subdivisions)
    X = rng.standard_normal((n_rows, n_hemispheres * len(coords)), dtype=np.float32)
    for amplitude in (3.0, 2.2, 1.7):
        scores = rng.standard_normal((n_rows, 1), dtype=np.float32)
        for hemisphere in range(n_hemispheres):
            centre = rng.standard_normal(3)
            near = coords @ (centre / np.linalg.norm(centre)) > rng.uniform(0.93, 0.98)
            columns = np.flatnonzero(near) + hemisphere * len(coords)
            X[:, columns] += amplitude * scores
    return X


def standardised(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and standard deviation 1, float32; constant columns become 0."""
    X = X - X.mean(axis=0, dtype=np.float64)
    deviation = X.std(axis=0)
    return (X / np.where(deviation > 0, deviation, 1.0)).astype(np.float32)


def real(file: str) -> dict[str, np.ndarray]:
    """Return the arrays of a real data file, X in its own unit, or raise FileNotFoundError."""
    with np.load(REAL_DATA / file, allow_pickle=False) as archive:
        arrays = {key: archive[key] for key in archive.files}
    if "scale" in arrays:
        arrays["X"] = arrays["X"] * arrays["scale"]
    return arrays
