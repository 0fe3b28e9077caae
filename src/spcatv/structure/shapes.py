"""Example meshes."""

from __future__ import annotations

import numpy as np

from spcatv._util.types import FloatArray, IntArray


def icosphere(subdivisions: int) -> tuple[FloatArray, IntArray]:
    """Make a unit sphere from an icosahedron by repeatedly dividing its triangles into four.

    Parameters
    ----------
    subdivisions : int
        Number of divisions s >= 0; the mesh has ``10 * 4**s + 2`` vertices (163,842 for s = 7, like the
        standard hemispheres of FreeSurfer) and ``20 * 4**s`` triangles.

    Returns
    -------
    coords : ndarray of shape (n_vertices, 3)
        Points of unit length.
    triangles : ndarray of int64, of shape (n_triangles, 3)
        Oriented outwards.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.structure import icosphere, mesh
    >>> coords, triangles = icosphere(1)
    >>> coords.shape, triangles.shape
    ((42, 3), (80, 3))
    >>> mesh(coords, triangles).value(np.ones(42))
    0.0
    """
    if subdivisions < 0:
        raise ValueError(f"subdivisions must be at least 0, got {subdivisions}")
    coords, triangles = _icosahedron()
    for _ in range(subdivisions):
        coords, triangles = _subdivide(coords, triangles)
    return coords, triangles


def _icosahedron() -> tuple[FloatArray, IntArray]:
    golden = (1 + np.sqrt(5)) / 2
    a, b = np.array([1.0, golden]) / np.hypot(1.0, golden)
    coords = np.array(
        [
            *([-a, b, 0], [a, b, 0], [-a, -b, 0], [a, -b, 0], [0, -a, b], [0, a, b]),
            *([0, -a, -b], [0, a, -b], [b, 0, -a], [b, 0, a], [-b, 0, -a], [-b, 0, a]),
        ]
    )
    triangles = np.array(
        [
            *([0, 11, 5], [0, 5, 1], [0, 1, 7], [0, 7, 10], [0, 10, 11]),
            *([1, 5, 9], [5, 11, 4], [11, 10, 2], [10, 7, 6], [7, 1, 8]),
            *([3, 9, 4], [3, 4, 2], [3, 2, 6], [3, 6, 8], [3, 8, 9]),
            *([4, 9, 5], [2, 4, 11], [6, 2, 10], [8, 6, 7], [9, 8, 1]),
        ]
    )
    return coords, triangles


def _subdivide(coords: FloatArray, triangles: IntArray) -> tuple[FloatArray, IntArray]:
    n = len(coords)
    ends = np.stack([triangles, np.roll(triangles, -1, axis=1)], axis=2).reshape(-1, 2)
    code, edge = np.unique(ends.min(axis=1) * n + ends.max(axis=1), return_inverse=True)
    middle = coords[code // n] + coords[code % n]
    middle /= np.linalg.norm(middle, axis=1, keepdims=True)
    a, b, c = triangles.T
    ab, bc, ca = (n + edge.reshape(-1, 3)).T
    pieces = [[a, ab, ca], [b, bc, ab], [c, ca, bc], [ab, bc, ca]]
    cut = np.concatenate([np.stack(piece, axis=1) for piece in pieces])
    return np.concatenate([coords, middle]), cut
