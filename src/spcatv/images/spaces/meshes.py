"""Triangle meshes of the hemispheres, from GIFTI or FreeSurfer files, nilearn or arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.images.files import GIFTI_NAMES, ImageError, checked_file, is_path, open_gifti, reading
from spcatv.structure import EdgeStructure, Structure, mesh

HEMISPHERES = ("left", "right")
# the template whose surfaces come with nilearn
SHIPPED_TEMPLATE = "fsaverage5"
# intents of the two arrays of a GIFTI surface
GIFTI_SURFACE_INTENTS = ("NIFTI_INTENT_POINTSET", "NIFTI_INTENT_TRIANGLE")


@dataclass(frozen=True, eq=False)
class SurfaceMesh:
    """A triangle mesh."""

    name: str  # its file, for messages
    coords: np.ndarray[tuple[Any, ...], np.dtype[np.float32]]  # in millimetres, shape (n_vertices, 3)
    triangles: np.ndarray[tuple[Any, ...], np.dtype[np.int32]]  # corners, shape (n_triangles, 3)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.coords)

    def structure(self, labels: IntArray) -> Structure:
        """Return differences along the edges inside every label; vertices of label 0 are no features."""
        inside = labels != 0
        try:
            structure = mesh(self.coords, self.triangles, mask=inside)
        except ValueError as error:
            raise ImageError(f"{self.name}: {error}") from error
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


def load_meshes(surface: Any) -> dict[str, SurfaceMesh]:
    """Load the meshes of one or two hemispheres, "left" before "right"."""
    if isinstance(surface, str) and surface == SHIPPED_TEMPLATE:
        from nilearn.datasets import load_fsaverage

        surface = load_fsaverage(SHIPPED_TEMPLATE)["pial"]
    surface = getattr(surface, "parts", surface)  # of a PolyMesh
    if isinstance(surface, (tuple, list)) and len(surface) == 2:
        surface = dict(zip(HEMISPHERES, surface, strict=True))
    if not isinstance(surface, Mapping) or not surface or not set(surface) <= set(HEMISPHERES):
        raise ImageError(
            f"surface must be {SHIPPED_TEMPLATE!r}, a pair (left, right) or a mapping with the keys 'left' "
            f"and 'right'; got {surface!r:.80}"
        )
    return {hemi: load_mesh(surface[hemi], hemi) for hemi in HEMISPHERES if surface.get(hemi) is not None}


def load_mesh(item: Any, hemi: str) -> SurfaceMesh:
    """Load one mesh: a file, an object with `coordinates` and `faces`, or (coords, triangles)."""
    name = str(item) if is_path(item) else f"the {hemi} surface"
    if is_path(item):
        item = _read_mesh(checked_file(item))
    if hasattr(item, "coordinates") and hasattr(item, "faces"):
        item = item.coordinates, item.faces
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise ImageError(
            f"{name}: a surface is a file, a mesh or (coords, triangles), got {type(item).__name__}"
        )
    points, corners = np.asarray(item[0]), np.asarray(item[1])
    if points.ndim != 2 or points.shape[1] != 3 or corners.ndim != 2 or corners.shape[1] != 3:
        raise ImageError(
            f"{name}: not a triangle mesh: coordinates of shape {points.shape}, triangles of {corners.shape}"
        )
    if len(corners) == 0:
        raise ImageError(f"{name}: a mesh without triangles; vertices need neighbours")
    if not np.isfinite(points).all() or corners.min() < 0 or corners.max() >= len(points):
        raise ImageError(
            f"{name}: a damaged mesh: coordinates must be finite, and triangles name vertices 0 to "
            f"{len(points) - 1}"
        )
    return SurfaceMesh(name, points.astype(np.float32), corners.astype(np.int32))


def _read_mesh(path: Path) -> tuple[FloatArray, IntArray]:
    """Read a GIFTI or FreeSurfer surface; nilearn reads those with some endings only."""
    with reading(path):
        if not path.name.endswith(GIFTI_NAMES):
            coords, triangles = nib.freesurfer.read_geometry(path)[:2]
            return coords, triangles
        image = open_gifti(path)
        points, corners = (image.get_arrays_from_intent(intent) for intent in GIFTI_SURFACE_INTENTS)
        if not points or not corners:
            raise ImageError(f"{path}: a GIFTI file without a surface (no point set or no triangles)")
        return points[0].data, corners[0].data


def meshes_as_parameter(meshes: Mapping[str, SurfaceMesh]) -> dict[str, Any]:
    """Return meshes as a value that the parameter `surface` takes."""
    return {hemi: (surface.coords, surface.triangles) for hemi, surface in meshes.items()}


def meshes_state(meshes: Mapping[str, SurfaceMesh]) -> dict[str, Array]:
    """Return the arrays of the meshes, for a model folder."""
    coords: dict[str, Array] = {f"coords_{hemi}": surface.coords for hemi, surface in meshes.items()}
    return coords | {f"triangles_{hemi}": surface.triangles for hemi, surface in meshes.items()}


def meshes_from_state(hemispheres: Any, arrays: Mapping[str, Array]) -> dict[str, SurfaceMesh]:
    """Return the meshes that `meshes_state` has described."""
    return {
        hemi: load_mesh((arrays[f"coords_{hemi}"], arrays[f"triangles_{hemi}"]), hemi) for hemi in hemispheres
    }
