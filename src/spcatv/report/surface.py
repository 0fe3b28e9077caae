"""Hemispheres as they are shown: triangles in space, and the vertices that are features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.report.packing import packed, packed_steps
from spcatv.report.places import vertex_sets

FINEST = 65535  # the largest uint16


@dataclass(frozen=True, eq=False)
class HemisphereView:
    """One hemisphere.

    Attributes
    ----------
    name : {"left", "right"}
    start, stop : int
        Its features.
    vertices : ndarray of int, of shape (stop - start,)
        The vertex of every feature.
    coords : ndarray of shape (n_vertices, 3)
        In millimetres.
    triangles : ndarray of int, of shape (n_triangles, 3)
    """

    name: str
    start: int
    stop: int
    vertices: IntArray
    coords: FloatArray
    triangles: IntArray

    def payload(self) -> dict[str, Any]:
        """For the browser: positions to 1/65535 of the extent, triangles by their steps."""
        low, high = self.coords.min(axis=0), self.coords.max(axis=0)
        step = np.maximum((high - low) / FINEST, 1e-9)
        places = np.round((self.coords - low) / step).astype(np.uint16)
        corners = np.asarray(self.triangles, dtype=np.int32)
        # two corners by their distance to the first one, and the first ones by their steps
        relative = np.stack(
            [np.diff(corners[:, 0], prepend=0), corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]]
        )
        return {
            "name": self.name,
            "start": self.start,
            "stop": self.stop,
            "vertices": packed_steps(self.vertices),
            "low": low.astype(float).tolist(),
            "step": step.astype(float).tolist(),
            "coords": packed(places.T),
            "triangles": packed(relative.astype(np.int32)),
        }


@dataclass(frozen=True, eq=False)
class SurfaceView:
    """One or two hemispheres."""

    hemispheres: tuple[HemisphereView, ...]

    kind = "surface"

    def payload(self) -> dict[str, Any]:
        """For the browser."""
        return {"kind": self.kind, "hemispheres": [side.payload() for side in self.hemispheres]}


def surface_view(space: Any) -> SurfaceView | None:
    """The view of a `spcatv.images` space, None where no vertex is a feature."""
    sides = [
        HemisphereView(
            name=hemi,
            start=start,
            stop=start + len(vertices),
            vertices=vertices,
            coords=space.meshes[hemi].coords,
            triangles=space.meshes[hemi].triangles,
        )
        for hemi, vertices, start in vertex_sets(space)
    ]
    return SurfaceView(tuple(sides)) if sides else None
