"""Surfaces: reading triangle meshes, and the structure of a mesh with labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt

from spcatv._util.files import open_regular
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.images.loading import ImageError, checked_file, is_path, open_gifti, reading
from spcatv.structure import EdgeStructure, Structure, mesh

HEMISPHERES = ("left", "right")
# FreeSurfer surfaces of triangles: how a file begins, and how the description of the volume behind them does
TRIANGLE_MAGIC = b"\xff\xff\xfe"
VOLUME_INFO = (b"\0\0\0\x14", b"\0\0\0\x02\0\0\0\0\0\0\0\x14")
# the template whose surfaces come with nilearn
SHIPPED_TEMPLATE = "fsaverage5"


@dataclass(frozen=True, eq=False)
class SurfaceMesh:
    """A triangle mesh."""

    name: str  # its file, for messages
    coords: npt.NDArray[np.float32]  # positions in millimetres, shape (n_vertices, 3)
    triangles: npt.NDArray[np.int32]  # indices of the corners, shape (n_triangles, 3)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.coords)


def load_meshes(surface: Any) -> dict[str, SurfaceMesh]:
    """The meshes of one or two hemispheres, "left" before "right".

    `surface` is "fsaverage5", a nilearn PolyMesh, or a mapping from "left" and "right", or a pair (left,
    right), of what `load_mesh` takes.
    """
    if isinstance(surface, str) and surface == SHIPPED_TEMPLATE:
        from nilearn.datasets import load_fsaverage

        surface = load_fsaverage(SHIPPED_TEMPLATE)["pial"]
    if hasattr(surface, "parts"):
        surface = surface.parts
    if isinstance(surface, (tuple, list)) and len(surface) == 2:
        surface = dict(zip(HEMISPHERES, surface, strict=True))
    if not isinstance(surface, Mapping) or not surface or not set(surface) <= set(HEMISPHERES):
        raise ImageError(
            f"surface must be {SHIPPED_TEMPLATE!r}, a pair (left, right) or a mapping with the keys 'left' "
            f"and 'right'; got {surface!r:.80}"
        )
    return {hemi: load_mesh(surface[hemi], hemi) for hemi in HEMISPHERES if surface.get(hemi) is not None}


def load_mesh(item: Any, hemi: str) -> SurfaceMesh:
    """One mesh: a file, an object with `coordinates` and `faces`, or (coords, triangles)."""
    name = str(item) if is_path(item) else f"the {hemi} surface"
    if is_path(item):
        coords, triangles = _read_mesh(checked_file(item))
    elif hasattr(item, "coordinates") and hasattr(item, "faces"):
        coords, triangles = item.coordinates, item.faces
    elif isinstance(item, (tuple, list)) and len(item) == 2:
        coords, triangles = item
    else:
        raise ImageError(
            f"{name}: a surface is a file, a mesh or (coords, triangles), got {type(item).__name__}"
        )
    points, corners = np.asarray(coords), np.asarray(triangles)
    if points.ndim != 2 or points.shape[1] != 3 or corners.ndim != 2 or corners.shape[1] != 3:
        raise ImageError(
            f"{name}: not a triangle mesh: coordinates of shape {points.shape}, triangles of {corners.shape}"
        )
    if len(corners) == 0:
        raise ImageError(f"{name}: a mesh without triangles; vertices need neighbours")
    if not np.isfinite(points).all() or corners.min(initial=0) < 0 or corners.max(initial=0) >= len(points):
        raise ImageError(
            f"{name}: a damaged mesh: coordinates must be finite, and triangles name vertices 0 to "
            f"{len(points) - 1}"
        )
    return SurfaceMesh(name, points.astype(np.float32), corners.astype(np.int32))


def _read_mesh(path: Path) -> tuple[FloatArray, IntArray]:
    with reading(path):
        if path.name.endswith((".gii", ".gii.gz")):
            image = open_gifti(path)
            points = image.get_arrays_from_intent("NIFTI_INTENT_POINTSET")
            corners = image.get_arrays_from_intent("NIFTI_INTENT_TRIANGLE")
            if not points or not corners:
                raise ImageError(f"{path}: a GIFTI file without a surface (no point set or no triangles)")
            return np.asarray(points[0].data), np.asarray(corners[0].data)
        _check_freesurfer_counts(path)
        coords, triangles = nib.freesurfer.read_geometry(path)[:2]
        return coords, triangles


def _check_freesurfer_counts(path: Path) -> None:
    """Compare the vertices and triangles that a FreeSurfer file announces with what it holds."""
    with open_regular(path) as file:
        if file.read(3) != TRIANGLE_MAGIC:
            return  # an older kind of file; what is no surface is refused later
        file.readline(), file.readline()
        counts = np.frombuffer(file.read(8), ">i4")
        begin, size = file.tell(), path.stat().st_size
        if len(counts) < 2 or (counts < 1).any():
            raise ImageError(f"{path}: cannot be read; it is cut short or announces {counts.tolist()} items")
        end = begin + 12 * int(counts.sum(dtype=np.int64))
        file.seek(min(end, size))
        rest = file.read(12)
    if end > size or (rest and not rest.startswith(VOLUME_INFO)):
        raise ImageError(
            f"{path}: cannot be read; its header announces {counts[0]} vertices and {counts[1]} triangles "
            f"({end - begin:,} bytes), but {size - begin:,} bytes follow"
        )


def surface_structure(surface: SurfaceMesh, labels: IntArray) -> Structure:
    """Differences along the edges between vertices of one label.

    The labels have shape (n_vertices,); 0 is outside, the other vertices are the features, in order.
    """
    inside = labels != 0
    try:
        structure = mesh(surface.coords, surface.triangles, mask=inside)
    except ValueError as error:
        raise ImageError(f"{surface.name}: {error}") from error
    label = labels[inside]
    if not isinstance(structure, EdgeStructure) or (label == label[0]).all():
        return structure
    within = label[structure.tail] == label[structure.head]
    return EdgeStructure(
        feature_count=structure.feature_count,
        tail=structure.tail[within],
        head=structure.head[within],
        weight=structure.weight[within],
        isotropic=structure.isotropic,
    )


def meshes_state(meshes: Mapping[str, SurfaceMesh]) -> dict[str, Array]:
    """The arrays of the meshes, for a model folder."""
    arrays: dict[str, Array] = {}
    for hemi, surface in meshes.items():
        arrays[f"coords_{hemi}"] = surface.coords
        arrays[f"triangles_{hemi}"] = surface.triangles
    return arrays


def meshes_from_state(hemispheres: Any, arrays: Mapping[str, Array]) -> dict[str, SurfaceMesh]:
    """The meshes that `meshes_state` describes."""
    return {
        hemi: load_mesh((arrays[f"coords_{hemi}"], arrays[f"triangles_{hemi}"]), hemi) for hemi in hemispheres
    }
