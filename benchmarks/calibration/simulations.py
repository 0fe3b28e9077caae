"""Simulations with a known truth: factors with local loadings in white, smooth or heavy-tailed noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spcatv.metrics import dice, match_components
from spcatv.structure import grid, icosphere, mesh

STRUCTURES = ("pixels", "voxels", "mesh")
NOISES = ("white", "smooth", "heavy")
# Tolerance of the fits, which take a tenth of the time that they take at the default of 1e-6.
TOL = 3e-3


@dataclass(frozen=True, eq=False)
class Simulation:
    X: np.ndarray
    structure: Any
    truth: np.ndarray  # loadings (K, P) of unit norm; K may be 0
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def zeros(self) -> float:
        """Mean share of zeros of the true loadings."""
        return float(np.mean(self.truth == 0))

    def against(self, components: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Match true loadings to components; return their numbers, |cosine| and Dice index, (K,) each."""
        match = match_components(self.truth, components)
        return (
            match.order,
            match.cosine,
            np.asarray(dice(self.truth, components[match.order], norm_fraction=None)),
        )


def space(kind: str) -> tuple[Any, np.ndarray]:
    """Return a structure, and the coordinates (P, n) of its features in units of a step."""
    if kind == "mesh":
        coordinates, triangles = icosphere(3)
        return mesh(coordinates, triangles), coordinates / 0.14
    shape = {"pixels": (20, 25), "voxels": (8, 8, 8), "line": (100,), "example": (40, 50)}[kind]
    return grid(shape), np.indices(shape).reshape(len(shape), -1).T.astype(float)


def mixing(coordinates: np.ndarray, width: float) -> np.ndarray:
    """Return the matrix that smooths white noise with a Gaussian; every feature has variance 1."""
    if width == 0:
        return np.eye(len(coordinates))
    squared = np.square(coordinates[:, None] - coordinates[None]).sum(axis=-1)
    weights = np.exp(-squared / (2 * width**2))
    return weights / np.linalg.norm(weights, axis=1, keepdims=True)


def noise(rng: np.random.Generator, n_samples: int, smoother: np.ndarray, *, heavy: bool) -> np.ndarray:
    """Draw noise of variance 1; heavy-tailed: Student's t with 3 degrees of freedom."""
    shape = (n_samples, len(smoother))
    drawn = rng.standard_t(3, shape) / np.sqrt(3) if heavy else rng.standard_normal(shape)
    return drawn @ smoother.T


def detectable(smoother: np.ndarray, n_samples: int) -> float:
    """Return about the least variance of a factor that N samples show (in white noise, of a PCA)."""
    spectrum = np.square(np.linalg.svd(smoother, compute_uv=False))
    return float(np.sqrt(np.square(spectrum).sum() / n_samples) + spectrum.max() - 1)


def loading(rng: np.random.Generator, coordinates: np.ndarray, share: float) -> np.ndarray:
    """Draw a loading of unit norm: one or two round regions, flat or falling off to half at the edge."""
    n_regions, flat = rng.integers(1, 3), rng.random() < 0.5
    found = np.zeros(len(coordinates))
    for _ in range(n_regions):
        distance = np.linalg.norm(coordinates - coordinates[rng.integers(len(coordinates))], axis=1)
        near = np.argsort(distance)[: max(4, round(share * len(coordinates) / n_regions))]
        found[near] = 1.0 if flat else 1 - 0.5 * distance[near] / distance[near].max()
    return found / np.linalg.norm(found)


def simulate(seed: int, *, strength: float | None = None, n_factors: int | None = None) -> Simulation:
    """Draw 1 to 3 factors in noise; the weakest has `strength` times the least detectable variance."""
    rng = np.random.default_rng([2, seed])
    kind, noise_kind = STRUCTURES[seed % 3], NOISES[seed // 3 % 3]
    n_samples = int(rng.choice([20, 40, 80, 150, 300, 1000], p=[0.2, 0.2, 0.2, 0.2, 0.15, 0.05]))
    n_factors = int(rng.integers(1, 4)) if n_factors is None else n_factors
    strength = float(rng.choice([1.5, 3, 6, 12, 30, 100])) if strength is None else strength
    structure, coordinates = space(kind)
    smoother = mixing(coordinates, 1.2 if noise_kind == "smooth" else 0.0)
    X = noise(rng, n_samples, smoother, heavy=noise_kind == "heavy")
    variance = strength * detectable(smoother, n_samples)
    share = float(rng.choice([0.03, 0.05, 0.1, 0.2, 0.3, 0.4]))
    truth = np.empty((n_factors, len(coordinates)))
    for k in range(n_factors):
        truth[k] = loading(rng, coordinates, share * rng.uniform(0.7, 1.4))
        X += np.sqrt(variance * 1.4 ** (n_factors - 1 - k)) * rng.standard_normal((n_samples, 1)) * truth[k]
    about = {
        "space": kind,
        "noise": noise_kind,
        "N": n_samples,
        "K": n_factors,
        "c": strength,
        "share": share,
    }
    return Simulation(X, structure, truth, about)


def simulate_noise(seed: int) -> Simulation:
    """Draw a data set without factors: white, smooth, heavy-tailed, or of samples of unequal scale."""
    rng = np.random.default_rng([3, seed])
    kind, width, heavy = (
        ("pixels", 0.0, False),
        ("pixels", 1.0, False),
        ("pixels", 2.0, False),
        ("pixels", 4.0, False),
        ("voxels", 1.5, False),
        ("mesh", 1.5, False),
        ("mesh", 3.0, False),
        ("line", 3.0, False),
        ("line", 10.0, False),
        ("pixels", 0.0, True),
        ("voxels", 1.0, True),
        ("mesh", 0.0, False),
    )[seed % 12]
    n_samples = int(rng.choice([20, 60, 200]))
    structure, coordinates = space(kind)
    X = noise(rng, n_samples, mixing(coordinates, width), heavy=heavy)
    if seed // 12 % 4 == 3:
        X *= np.exp(0.5 * rng.standard_normal((n_samples, 1)))
    about = {"space": kind, "noise": "heavy" if heavy else f"sd {width:g}", "N": n_samples, "K": 0}
    return Simulation(X, structure, np.zeros((0, X.shape[1])), about)
