"""View of cortical surfaces."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.report.figures import DIVERGING
from spcatv.report.maps.base import View, ViewFrame, packed, packed_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize

    from spcatv.images.spaces.base import VertexSet

FINEST = 65535  # the largest uint16
# direction of the eye along x: seen from outside, then from inside
SIDES = {"left": (-1.0, 1.0), "right": (1.0, -1.0)}
PRESETS = ("left outside", "left inside", "right outside", "right inside", "top", "bottom", "front", "back")


@dataclass(frozen=True, eq=False)
class SurfaceView(View):
    """One or two hemispheres, to be turned in the browser."""

    hemispheres: tuple[VertexSet, ...]

    kind: ClassVar[str] = "surface"

    @property
    def n_panels(self) -> int:
        """Number of panels: outside and inside of every hemisphere."""
        return 2 * len(self.hemispheres)

    def payload(self) -> dict[str, Any]:
        """Return the meshes, and the vertices that are features."""
        return {"kind": self.kind, "hemispheres": [_payload(side) for side in self.hemispheres]}

    def frame(self) -> ViewFrame:
        """Return the frame, with the directions from which the hemispheres can be seen."""
        present = {side.hemi for side in self.hemispheres}
        presets = tuple(
            name for name in PRESETS if not name.startswith(("left", "right")) or name.split()[0] in present
        )
        return ViewFrame(self.kind, "Surface", "Dark grey: outside the mask.", presets=presets)

    def shown(self, loading: FloatArray) -> FloatArray:
        """Return the entries of a loading on all hemispheres."""
        return np.concatenate([loading[side.start : side.stop] for side in self.hemispheres])

    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw every hemisphere from outside and from inside."""
        views = [
            (side, direction, where)
            for side in self.hemispheres
            for direction, where in zip(SIDES[side.hemi], ("outside", "inside"), strict=True)
        ]
        for axes, (side, direction, where) in zip(panels, views, strict=True):
            _draw_hemisphere(side, axes, loading, norm, direction)
            axes.set_title(f"{side.hemi}, {where}", fontsize=8, loc="center")


def _payload(side: VertexSet) -> dict[str, Any]:
    """Pack positions to 1/65535 of the extent, and triangles as differences."""
    coords = side.mesh.coords
    low, high = coords.min(axis=0), coords.max(axis=0)
    step = np.maximum((high - low) / FINEST, 1e-9)
    places = np.round((coords - low) / step).astype(np.uint16)
    corners = np.asarray(side.mesh.triangles, dtype=np.int32)
    # the first corners as steps from triangle to triangle, the two others relative to the first
    relative = np.stack(
        [np.diff(corners[:, 0], prepend=0), corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]]
    )
    return {
        "name": side.hemi,
        "start": side.start,
        "stop": side.stop,
        "vertices": packed_steps(side.vertices),
        "low": low.astype(float).tolist(),
        "step": step.astype(float).tolist(),
        "coords": packed(places.T),
        "triangles": packed(relative.astype(np.int32)),
    }


def _draw_hemisphere(
    side: VertexSet, axes: Axes, loading: FloatArray, norm: Normalize, direction: float
) -> None:
    """Draw the triangles from the farthest to the nearest; the eye looks along x."""
    import matplotlib
    from matplotlib.collections import PolyCollection

    corners = np.asarray(side.mesh.coords, dtype=np.float64)[side.mesh.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    values = np.zeros(side.mesh.n_vertices)
    values[side.vertices] = loading[side.start : side.stop]
    on_triangles = values[side.mesh.triangles]
    colours = _face_colours(on_triangles, matplotlib.colormaps[DIVERGING], norm)
    shade = 0.45 + 0.55 * np.abs(normals[:, 0])
    colours[:, :3] *= shade[:, None]
    order = np.argsort(direction * corners[:, :, 0].mean(axis=1), kind="stable")
    # seen from +x, the front (+y) is to the right; from -x it is to the left
    flat = np.stack([direction * corners[:, :, 1], corners[:, :, 2]], axis=2)[order]
    axes.add_collection(
        PolyCollection(
            list(flat), facecolors=colours[order], edgecolors=colours[order], linewidths=0.2, rasterized=True
        )
    )
    axes.set_xlim(flat[..., 0].min(), flat[..., 0].max())
    axes.set_ylim(flat[..., 1].min(), flat[..., 1].max())
    axes.set_aspect("equal")


def _face_colours(values: FloatArray, table: Colormap, norm: Normalize) -> FloatArray:
    """Colour triangles by the mean of their corners, or grey where all corners are zero."""
    means = values.mean(axis=1)
    colours = np.asarray(table(norm(means)), dtype=np.float64)
    colours[(values == 0).all(axis=1), :3] = 0.82
    return colours
