"""Time to build large structures: a masked grid of 2 million voxels, a mesh of 330 thousand vertices.

Run with ``python benchmarks/structures.py``. For every structure: the recipe (checking the input), the
operator (``.matrix``), the norm bound, and all of it together. One process, the threads of the machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from spcatv.structure import Structure, concat, grid, icosphere, mesh

SCHEMES = ("edges", "gradient", "fem")


def ellipsoid(shape: tuple[int, ...]) -> np.ndarray:
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij", sparse=True)
    return sum(axis**2 for axis in axes) <= 1


def measure(make: Callable[[], Structure]) -> tuple[Structure, list[float]]:
    """Return the structure and the seconds for the recipe, the operator and the norm bound."""
    marks = [time.perf_counter()]
    structure = make()
    marks.append(time.perf_counter())
    _ = structure.matrix
    marks.append(time.perf_counter())
    structure.norm_squared()
    marks.append(time.perf_counter())
    return structure, np.diff(marks).tolist()


def row(name: str, make: Callable[[], Structure]) -> str:
    structure, (recipe, operator, norm) = measure(make)
    return (
        f"{name:38s} {structure.n_features:>10,d} {structure.n_rows:>10,d} {structure.n_groups:>10,d} "
        f"{recipe:8.2f} {operator:8.2f} {norm:8.2f} {recipe + operator + norm:8.2f} "
        f"{structure.norm_squared():>12.4g}"
    )


def main() -> None:
    mask = ellipsoid((142, 172, 160))
    labels = mask * (1 + (np.indices(mask.shape, dtype=np.int32) // 20).sum(axis=0))
    start = time.perf_counter()
    sphere = icosphere(7)
    seconds = time.perf_counter() - start
    both = (np.concatenate([sphere[0], sphere[0]]), np.concatenate([sphere[1], sphere[1] + len(sphere[0])]))

    print(f"icosphere(7): {len(sphere[0]):,d} vertices in {seconds:.2f} s\n")
    print(
        f"{'structure':38s} {'features':>10s} {'rows':>10s} {'groups':>10s} "
        f"{'recipe':>8s} {'matrix':>8s} {'norm':>8s} {'total':>8s} {'||A||^2 <=':>12s}"
    )
    print(row("grid, ellipsoid", lambda: grid(mask)))
    print(row("grid, ellipsoid, anisotropic", lambda: grid(mask, isotropic=False)))
    print(row("grid, ellipsoid, labels, voxel sizes", lambda: grid(labels, voxel_size=(1, 1, 3))))
    for scheme in SCHEMES:
        print(row(f"mesh, two icospheres, {scheme}", lambda scheme=scheme: mesh(*both, scheme=scheme)))
        print(
            row(
                f"concat of two meshes, {scheme}",
                lambda scheme=scheme: concat([mesh(*sphere, scheme=scheme) for _ in range(2)]),
            )
        )


if __name__ == "__main__":
    main()
