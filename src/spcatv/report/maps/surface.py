"""View of cortical surfaces: inflated where the template has it, and as in the fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.report.figures import DIVERGING
from spcatv.report.maps.base import View, ViewFrame, packed, packed_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

    from spcatv.images.spaces.base import VertexSet

Shape = Literal["inflated", "folded"]
FINEST = 65535  # the largest uint16
# Names of the views of a mesh by the direction of the eye along x.
SIDES = {
    "left": {-1.0: "left, outside", 1.0: "left, inside"},
    "right": {1.0: "right, outside", -1.0: "right, inside"},
    "": {-1.0: "seen from −x", 1.0: "seen from +x"},
}
PRESETS = ("left outside", "left inside", "right outside", "right inside", "top", "bottom", "front", "back")
# Greys of vertices without a loading; the script of the page has the same.
GYRUS, SULCUS, OUTSIDE = 0.82, 0.66, 0.48
GAP = 2.0  # mm between inflated hemispheres, which overlap in their files


@dataclass(frozen=True, eq=False)
class Hemisphere:
    """Features that are vertices of one mesh, and the shapes in which it can be drawn."""

    name: str  # "left", "right", or empty if the mesh is not a brain
    start: int  # the first of these features
    vertices: IntArray  # the vertex of every feature, shape (n,)
    triangles: IntArray
    shapes: dict[str, FloatArray]  # positions of all vertices, the shape to draw by default first
    in_sulcus: BoolArray | None = None  # of all vertices; None if it is not known

    @property
    def features(self) -> slice:
        """Return the features of this mesh."""
        return slice(self.start, self.start + len(self.vertices))

    def payload(self) -> dict[str, Any]:
        """Pack positions to 1/65535 of the extent, and triangles as differences."""
        corners = np.asarray(self.triangles, dtype=np.int32)
        # the first corners as steps from triangle to triangle, the two others relative to the first
        relative = [np.diff(corners[:, 0], prepend=0), *(corners[:, 1:] - corners[:, :1]).T]
        return {
            "name": self.name,
            "start": self.features.start,
            "stop": self.features.stop,
            "vertices": packed_steps(self.vertices),
            "triangles": packed(np.stack(relative).astype(np.int32)),
            "shapes": [_packed_positions(coords) for coords in self.shapes.values()],
            "sulci": None if self.in_sulcus is None else packed(self.in_sulcus.astype(np.uint8)),
        }

    def draw(self, axes: Axes, loading: FloatArray, norm: Normalize, direction: float) -> None:
        """Draw the triangles that face an eye on the x axis, from the farthest to the nearest."""
        from matplotlib.collections import PolyCollection

        corners = np.asarray(next(iter(self.shapes.values())), dtype=np.float64)[self.triangles]
        normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        middles = corners.mean(axis=1)
        # some files list the corners of triangles the other way round
        outwards = np.sign((normals * (middles - middles.mean(axis=0))).sum()) or 1.0
        facing = outwards * direction * normals[:, 0] / np.maximum(np.linalg.norm(normals, axis=1), 1e-12)
        seen = np.flatnonzero(facing > 0)
        seen = seen[np.argsort(direction * middles[seen, 0], kind="stable")]
        colours = self._colours(loading, norm)[self.triangles[seen]].mean(axis=1)
        colours *= (0.45 + 0.55 * facing[seen])[:, None]
        # seen from +x, the front (+y) is to the right; from -x it is to the left
        flat = corners[seen][:, :, 1:] * [direction, 1.0]
        style: dict[str, Any] = {"facecolors": colours, "edgecolors": colours, "linewidths": 0.2}
        axes.add_collection(PolyCollection(list(flat), **style, rasterized=True))
        axes.set_xlim(flat[..., 0].min(), flat[..., 0].max())
        axes.set_ylim(flat[..., 1].min(), flat[..., 1].max())
        axes.set_aspect("equal")

    def _colours(self, loading: FloatArray, norm: Normalize) -> FloatArray:
        """Return the colours of all vertices; grey where there is no loading."""
        import matplotlib

        own = loading[self.features]
        greys = np.full(len(next(iter(self.shapes.values()))), OUTSIDE)
        greys[self.vertices] = GYRUS
        if self.in_sulcus is not None:
            greys[(greys == GYRUS) & self.in_sulcus] = SULCUS
        colours = np.repeat(greys[:, None], 3, axis=1)
        coloured = np.asarray(matplotlib.colormaps[DIVERGING](norm(own[own != 0])))
        colours[self.vertices[own != 0]] = coloured[:, :3]
        return colours


@dataclass(frozen=True, eq=False)
class SurfaceView(View):
    """One or two hemispheres, to be turned in the browser."""

    hemispheres: tuple[Hemisphere, ...]

    kind: ClassVar[str] = "surface"
    aspect = 1.4

    @property
    def n_panels(self) -> int:
        """Number of panels: outside and inside of every hemisphere."""
        return 2 * len(self.hemispheres)

    def payload(self) -> dict[str, Any]:
        """Return the meshes, and the vertices that are features."""
        return {"kind": self.kind, "hemispheres": [side.payload() for side in self.hemispheres]}

    def frame(self) -> ViewFrame:
        """Return the frame, with the directions from which the hemispheres can be seen."""
        present = {side.name for side in self.hemispheres}
        presets = tuple(
            name for name in PRESETS if not name.startswith(("left", "right")) or name.split()[0] in present
        )
        greys = "" if self.hemispheres[0].in_sulcus is None else "Light grey: gyri. Medium grey: sulci. "
        shapes = tuple(self.hemispheres[0].shapes)
        return ViewFrame(
            self.kind, "Surface", f"{greys}Dark grey: outside the mask.", presets=presets, shapes=shapes
        )

    def shown(self, loading: FloatArray) -> FloatArray:
        """Return the entries of a loading on all hemispheres."""
        return np.concatenate([loading[side.features] for side in self.hemispheres])

    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw every hemisphere from outside and from inside, or a mesh from both ends of the x axis."""
        places = iter(panels)
        for side in self.hemispheres:
            for direction, where in SIDES[side.name].items():
                axes = next(places)
                side.draw(axes, loading, norm, direction)
                axes.set_title(where, fontsize=8, loc="center")


def surface_view(sets: Sequence[VertexSet], shape: Shape = "inflated") -> SurfaceView:
    """Return the view of hemispheres: inflated by default where their mesh is that of fsaverage5."""
    inflated = [_inflated(part) for part in sets]
    hemispheres = []
    for part, found in zip(sets, inflated, strict=True):
        shapes, in_sulcus = {"folded": np.asarray(part.mesh.coords)}, None
        if all(inflated) and found is not None:
            coords, in_sulcus = found
            shapes = {"inflated": coords, **shapes} if shape == "inflated" else {**shapes, "inflated": coords}
        triangles = np.asarray(part.mesh.triangles)
        hemispheres.append(Hemisphere(part.hemi, part.start, part.vertices, triangles, shapes, in_sulcus))
    return SurfaceView(tuple(hemispheres))


def mesh_view(mesh: Any, n_features: int) -> SurfaceView:
    """Return the view of a mesh (coords, triangles) whose vertices are the features."""
    coords, triangles = np.asarray(mesh[0], dtype=np.float64), np.asarray(mesh[1])
    if coords.shape != (n_features, 3):
        raise ValueError(
            f"mesh: coords of shape {coords.shape}, but the model has {n_features} features: give one "
            "position (x, y, z) per feature"
        )
    return SurfaceView((Hemisphere("", 0, np.arange(n_features), triangles, {"": coords}),))


def _inflated(part: VertexSet) -> tuple[FloatArray, BoolArray] | None:
    """Return inflated positions of the vertices of a hemisphere of fsaverage5, and which are in a sulcus."""
    triangles, coords, in_sulcus = _template(part.hemi)
    if part.mesh.n_vertices != len(coords) or _ordered(part.mesh.triangles) != triangles:
        return None
    return coords, in_sulcus


@cache
def _template(hemi: str) -> tuple[bytes, FloatArray, BoolArray]:
    """Load fsaverage5, which comes with nilearn: triangles, inflated positions, and the sulci."""
    from nilearn.datasets import load_fsaverage, load_fsaverage_data

    mesh = load_fsaverage("fsaverage5")["inflated"].parts[hemi]
    coords = np.array(mesh.coordinates, dtype=np.float64)
    coords[:, 0] -= coords[:, 0].max() + GAP / 2 if hemi == "left" else coords[:, 0].min() - GAP / 2
    depth = load_fsaverage_data(mesh="fsaverage5", data_type="sulcal").data.parts[hemi]
    return _ordered(mesh.faces), coords, np.asarray(depth).ravel() > 0


def _ordered(triangles: IntArray) -> bytes:
    """Describe triangles by their corners, whatever the order of either."""
    corners = np.sort(np.asarray(triangles, dtype=np.int64), axis=1)
    return corners[np.lexsort(corners.T)].tobytes()


def _packed_positions(coords: FloatArray) -> dict[str, Any]:
    low, high = coords.min(axis=0), coords.max(axis=0)
    step = np.maximum((high - low) / FINEST, 1e-9)
    places = np.round((coords - low) / step).astype(np.uint16)
    return {
        "low": low.astype(float).tolist(),
        "step": step.astype(float).tolist(),
        "coords": packed(places.T),
    }
