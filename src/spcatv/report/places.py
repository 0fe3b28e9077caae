"""Where features are, and how large: what region tables and views need to know of a model's space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray, IntArray
from spcatv.structure import GridStructure, Structure

CELLS = {1: "points", 2: "pixels", 3: "voxels"}
AXES = {1: ("point",), 2: ("row", "column"), 3: ("i", "j", "k")}


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive features of one kind: voxels, one hemisphere's vertices, cells of a field.

    Attributes
    ----------
    name : str
        For people: "volume", "left hemisphere", "field".
    kind : {"voxels", "left", "right", "cells", "features"}
        What the features are; "left" and "right" are vertices of that hemisphere.
    start, stop : int
        The features, ``start <= feature < stop``.
    coords : ndarray of shape (n, d)
        Positions, in millimetres for brain images, indices otherwise.
    axes : tuple of str
        Names of the d coordinates.
    measure : ndarray of shape (n,)
        Size of every feature.
    unit : str
        Of the sizes: "mm³", "mm²", "pixels", "features".
    """

    name: str
    kind: str
    start: int
    stop: int
    coords: FloatArray
    axes: tuple[str, ...]
    measure: FloatArray
    unit: str


def parts_of(model: Any) -> tuple[Part, ...]:
    """The parts of a fitted model's features, in order.

    Parameters
    ----------
    model : SPCATV or ImageSPCATV
        Fitted.

    Returns
    -------
    tuple of Part
        Together they hold every feature once.
    """
    space = getattr(model, "space_", None)
    if space is None:
        return (_plain_part(model.structure_),)
    parts = [
        _vertices(hemi, vertices, start, space.meshes[hemi]) for hemi, vertices, start in vertex_sets(space)
    ]
    voxels = voxel_set(space)
    if voxels is not None:
        parts.append(_voxels("subcortical volume" if parts else "volume", *voxels))
    return tuple(sorted(parts, key=lambda part: part.start))


def vertex_sets(space: Any) -> list[tuple[str, IntArray, int]]:
    """The vertices that are features of a `spcatv.images` space.

    Returns
    -------
    list of (str, ndarray of int, int)
        A hemisphere with features each: its name, the vertex of every feature, and the place of the first.
    """
    if space.kind == "surface":
        return [
            (hemi, np.flatnonzero(space.labels[hemi]), part.start)
            for hemi, part in space.slices.items()
            if part.stop > part.start
        ]
    found = []
    if space.kind == "cifti":
        names, vertex = space.axis.name[space.columns], space.axis.vertex[space.columns]
        for hemi in space.meshes:
            inside = np.flatnonzero(names == f"CIFTI_STRUCTURE_CORTEX_{hemi.upper()}")
            if len(inside):
                found.append((hemi, vertex[inside], int(inside[0])))
    return found


def voxel_set(space: Any) -> tuple[IntArray, FloatArray, int] | None:
    """The voxels that are features: their indices (n, 3), the affine, the place of the first; or None."""
    if space.kind == "volume":
        return np.argwhere(space.mask), np.asarray(space.affine, dtype=np.float64), 0
    if space.kind == "surface":
        return None
    inside = np.flatnonzero(space.axis.volume_mask[space.columns])
    if len(inside) == 0:
        return None
    voxels = space.axis.voxel[space.columns][inside]
    return voxels, np.asarray(space.axis.affine, dtype=np.float64), int(inside[0])


def _voxels(name: str, voxels: IntArray, affine: FloatArray, start: int) -> Part:
    return Part(
        name=name,
        kind="voxels",
        start=start,
        stop=start + len(voxels),
        coords=voxels @ affine[:3, :3].T + affine[:3, 3],
        axes=("x", "y", "z"),
        measure=np.full(len(voxels), abs(float(np.linalg.det(affine[:3, :3])))),
        unit="mm³",
    )


def _vertices(hemi: str, vertices: IntArray, start: int, mesh: Any) -> Part:
    return Part(
        name=f"{hemi} hemisphere",
        kind=hemi,
        start=start,
        stop=start + len(vertices),
        coords=np.asarray(mesh.coords, dtype=np.float64)[vertices],
        axes=("x", "y", "z"),
        measure=vertex_areas(mesh.coords, mesh.triangles)[vertices],
        unit="mm²",
    )


def _plain_part(structure: Structure) -> Part:
    n_features = structure.n_features
    if isinstance(structure, GridStructure) and structure.labels.ndim in CELLS:
        n_axes = structure.labels.ndim
        coords = np.argwhere(structure.labels != 0).astype(np.float64)
        return Part("field", "cells", 0, n_features, coords, AXES[n_axes], np.ones(n_features), CELLS[n_axes])
    coords = np.arange(n_features, dtype=np.float64)[:, None]
    return Part("features", "features", 0, n_features, coords, ("feature",), np.ones(n_features), "features")


def vertex_areas(coords: npt.ArrayLike, triangles: npt.ArrayLike) -> FloatArray:
    """Area around every vertex of a mesh: a third of that of each triangle that it belongs to.

    Parameters
    ----------
    coords : array-like of shape (n_vertices, 3)
    triangles : array-like of int, of shape (n_triangles, 3)

    Returns
    -------
    ndarray of shape (n_vertices,)
        They add up to the area of the mesh.
    """
    points, corners = np.asarray(coords, dtype=np.float64), np.asarray(triangles)
    first, second, third = (points[corners[:, k]] for k in range(3))
    areas = 0.5 * np.linalg.norm(np.cross(second - first, third - first), axis=1)
    sums = np.bincount(corners.ravel(), weights=np.repeat(areas / 3, 3), minlength=len(points))
    return sums.astype(np.float64)
