"""Views of volumes, as three slices over a background image, and of cortical surfaces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import Normalize
from scipy.ndimage import map_coordinates

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.report.drawing import DIVERGING, pack, pack_steps
from spcatv.report.views import View

if TYPE_CHECKING:
    from spcatv.images.spaces.base import VertexSet, VoxelSet

TEMPLATE = "MNI152 template"  # name of the usual background
# share of the voxels that must lie in the brain of the template for it to be shown behind them
IN_TEMPLATE = 0.9
BACKGROUND_STEP = 2.0  # mm
MARGIN = 4.0  # mm around the brain
AXIS_ALIGNED = 1e-3
MOST_VOXELS = 2e6  # of a mean image that is shown
# fixed axis, axis to the right, axis up
Plane = tuple[int, int, int]
PLANES: tuple[Plane, ...] = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
# what lies at the left and the right edge of their pictures: posterior and anterior, left and right
ENDS = {"Sagittal": ("P", "A"), "Coronal": ("L", "R"), "Axial": ("L", "R")}

Shape = Literal["inflated", "folded"]
FINEST = 65535  # the largest uint16
# Names of the views of a mesh by the direction of the eye along x.
SIDES = {
    "left": {-1.0: "left, outside", 1.0: "left, inside"},
    "right": {1.0: "right, outside", -1.0: "right, inside"},
    "": {-1.0: "seen from −x", 1.0: "seen from +x"},
}
DIRECTIONS = ["top", "bottom", "front", "back"]
# Greys of vertices without a loading; the script of the page has the same.
GYRUS, SULCUS, OUTSIDE = 0.82, 0.66, 0.48
GAP = 2.0  # mm between inflated hemispheres, which overlap in their files


@dataclass(frozen=True, eq=False)
class Grid:
    """Values on a grid along the axes of space."""

    origin: FloatArray  # centre of the first voxel, shape (3,)
    spacing: FloatArray  # sides of a voxel, positive, shape (3,)
    values: Array  # shape (n_x, n_y, n_z)

    @property
    def edges(self) -> FloatArray:
        """Lowest and highest corner, shape (2, 3)."""
        low = self.origin - self.spacing / 2
        return np.array([low, low + self.spacing * self.values.shape])

    def pack(self, values: str) -> dict[str, Any]:
        """Return the grid for the script of the page; `values` are packed."""
        origin, spacing, shape = self.origin.tolist(), self.spacing.tolist(), list(self.values.shape)
        return {"origin": origin, "spacing": spacing, "shape": shape, "values": values}

    def slice(self, plane: Plane, position: FloatArray) -> Array:
        """Return the slice at a position, with the axis up along its rows; zero outside the grid."""
        fixed, across, up = plane
        place = int(np.round((position[fixed] - self.origin[fixed]) / self.spacing[fixed]))
        if not 0 <= place < self.values.shape[fixed]:
            return np.zeros((self.values.shape[up], self.values.shape[across]))
        return np.take(self.values, place, axis=fixed).T

    def draw(self, axes: Axes, plane: Plane, position: FloatArray, **style: Any) -> None:
        """Draw the slice at a position where it is not zero."""
        (left, bottom), (right, top) = self.edges[:, plane[1:]]
        picture = np.ma.masked_equal(self.slice(plane, position), 0)
        axes.imshow(picture, extent=(left, right, bottom, top), origin="lower", **style)


class VolumeView(View):
    """Three slices through a volume.

    `index` holds the number of the feature at a voxel, counted from 1 in `features`, and 0 where there is
    none; `background` grey values from 0 (nothing) to 255. In an `anatomical` view, x, y and z point to the
    right, to the front and up, in millimetres.
    """

    kind = "volume"
    n_panels = 3

    def __init__(
        self,
        features: slice,
        index: Grid,
        background: Grid | None,
        background_name: str,
        *,
        anatomical: bool,
        sides_known: bool = True,
    ) -> None:
        self.features, self.index, self.anatomical = features, index, anatomical
        self.background, self.background_name = background, background_name
        self.planes = tuple(ENDS) if anatomical else ("Along i", "Along j", "Along k")
        self.ends = ENDS if anatomical else {}
        sides = " Left is left (L)." if anatomical else ""
        if not sides_known:
            sides = " Left and right are a guess: the files of the images do not say how they are oriented."
        behind = "" if background is None else f"Behind the map: {background_name}."
        self.caption = f"{behind}{sides}".strip()

    def payload(self) -> dict[str, Any]:
        """Return the feature at every voxel, and the background."""
        back = self.background
        return {
            "kind": self.kind,
            "start": self.features.start,
            "stop": self.features.stop,
            "index": self.index.pack(pack_steps(self.index.values)),
            "background": None if back is None else back.pack(pack(back.values)),
            "anatomical": self.anatomical,
        }

    def shown(self, loading: FloatArray) -> FloatArray:
        """Return the entries of a loading at the voxels."""
        return loading[self.features]

    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw three slices through the voxel with the largest loading."""
        own = self.shown(loading)
        peak = np.argwhere(self.index.values == 1 + int(np.argmax(np.abs(own))))
        voxel = peak[0] if len(peak) else np.array(self.index.values.shape) // 2
        position = self.index.origin + voxel * self.index.spacing
        loadings = replace(self.index, values=np.concatenate([[0.0], own])[self.index.values])
        if not own.any():
            place: dict[str, Any] = {"ha": "center", "va": "top", "transform": panels[1].transAxes}
            panels[1].text(0.5, -0.02, "no loading of this component here", fontsize=8, **place)
        low, high = (self.background or self.index).edges
        for axes, plane in zip(panels, PLANES, strict=True):
            fixed, across, up = plane
            if self.background is not None:  # grey values of 0 to 255, in the lighter part of the scale
                self.background.draw(axes, plane, position, cmap="gray", vmin=-54, vmax=304)
            loadings.draw(axes, plane, position, cmap=DIVERGING, norm=norm, interpolation="none")
            axes.set_xlim(low[across], high[across])
            axes.set_ylim(low[up], high[up])
            axes.set_title(f"{'xyz'[fixed]} = {position[fixed]:.0f}", fontsize=8, loc="center")


def volume_view(
    voxels: VoxelSet, mean: FloatArray, background: str | os.PathLike[str] | None, *, sides_known: bool
) -> VolumeView:
    """Return the view of a brain's voxels, over a path, "template" or "mean" (n,); None chooses."""
    index = index_grid(voxels.indices, voxels.affine)
    coords = voxels.indices @ voxels.affine[:3, :3].T + voxels.affine[:3, 3]
    behind: Grid | None
    if background is None:
        background = "template" if _in_template(coords) else "mean"
    if background == "template":
        behind, name = _template(), TEMPLATE
    elif background == "mean":
        behind, name = grey_grid(index, mean), "mean of the images"
    else:
        from spcatv.images.spaces.volume import read_one

        behind, name = _resample(read_one(background), coords), os.path.basename(background)
    features = slice(voxels.start, voxels.start + len(coords))
    return VolumeView(features, index, behind, name, anatomical=True, sides_known=sides_known)


def field_view(structure: Any, mean: FloatArray) -> VolumeView:
    """Return the view of a three-dimensional field that is not a brain."""
    voxels = np.argwhere(structure.labels != 0)
    index = index_grid(voxels, np.diag([*(1 / np.asarray(structure.axis_weights)), 1.0]))
    behind = grey_grid(index, mean)
    return VolumeView(slice(0, len(voxels)), index, behind, "mean of the data", anatomical=False)


def index_grid(voxels: IntArray, affine: FloatArray) -> Grid:
    """Place the numbers of the features on a grid along the axes of space.

    A grid that is parallel to the axes keeps its voxels; for an oblique one, points show the voxel around.
    """
    linear = np.asarray(affine, dtype=np.float64)[:3, :3]
    sizes = np.linalg.norm(linear, axis=0)
    along = np.abs(linear) > AXIS_ALIGNED * sizes
    aligned = bool((along.sum(axis=0) == 1).all())
    spacing = np.abs(linear).sum(axis=1) if aligned else np.full(3, sizes.min())
    coords = voxels @ linear.T + affine[:3, 3]
    origin = coords.min(axis=0)
    shape = np.round((coords.max(axis=0) - origin) / spacing).astype(int) + 1
    first = voxels.min(axis=0)
    box = np.zeros(voxels.max(axis=0) - first + 1, dtype=np.int32)
    box[tuple((voxels - first).T)] = np.arange(1, len(voxels) + 1)
    points = np.indices(shape).reshape(3, -1).T * spacing + origin
    source = np.round((points - affine[:3, 3]) @ np.linalg.inv(linear).T).astype(int) - first
    inside = ((source >= 0) & (source < box.shape)).all(axis=1)
    values = np.zeros(len(points), dtype=np.int32)
    values[inside] = box[tuple(source[inside].T)]
    return Grid(origin, spacing, values.reshape(shape))


def mean_image(model: Any) -> FloatArray:
    """Return the mean of the images of a fitted model in their units; zero if every run was centred."""
    preparation = getattr(model, "preparation_", None)
    mean = np.asarray(model.mean_, dtype=np.float64)
    if preparation is None:
        return mean
    if preparation.reading.centres_runs:
        return np.zeros_like(mean)
    return mean if preparation.scale is None else mean * preparation.scale


def grey_grid(index: Grid, values: FloatArray) -> Grid | None:
    """Return grey values of an image whose voxels have numbers in a grid; None if it is constant."""
    low, high = np.quantile(values, [0.005, 0.995])
    if not high > low:
        return None
    # 0 is reserved for the outside, and the darkest greys would look transparent on the page
    grey = 40 + np.round(215 * np.clip((values - low) / (high - low), 0, 1))
    return replace(index, values=np.concatenate([[0], grey]).astype(np.uint8)[index.values])


@cache
def _template() -> Grid:
    from nilearn.datasets import load_mni152_template

    return _resample(load_mni152_template(resolution=1), None)


def _in_template(coords: FloatArray) -> bool:
    grid = _template()
    voxel = np.round((coords - grid.origin) / grid.spacing).astype(int)
    inside = ((voxel >= 0) & (voxel < grid.values.shape)).all(axis=1)
    return bool((grid.values[tuple(voxel[inside].T)] > 0).sum() >= IN_TEMPLATE * len(coords))


def _resample(image: Any, coords: FloatArray | None) -> Grid:
    """Resample an image to a 2 mm grid along the axes, around `coords` or around all bright voxels."""
    values = np.asarray(image.dataobj, dtype=np.float32)
    affine = np.asarray(image.affine, dtype=np.float64)
    if coords is None:
        coords = np.argwhere(values > 0.05 * values.max()) @ affine[:3, :3].T + affine[:3, 3]
    low = BACKGROUND_STEP * np.floor((coords.min(axis=0) - MARGIN) / BACKGROUND_STEP)
    high = coords.max(axis=0) + MARGIN
    shape = np.ceil((high - low) / BACKGROUND_STEP).astype(int) + 1
    points = np.indices(shape).reshape(3, -1).T * BACKGROUND_STEP + low
    place = (points - affine[:3, 3]) @ np.linalg.inv(affine[:3, :3]).T
    sampled = map_coordinates(values, place.T, order=1, mode="constant")
    top = float(np.quantile(sampled[sampled > 0], 0.995)) if (sampled > 0).any() else 1.0
    grey = np.clip(np.round(255 * sampled / top), 0, 255).astype(np.uint8)
    return Grid(low, np.full(3, BACKGROUND_STEP), grey.reshape(shape))


def whole_grid(image: Any) -> Grid | None:
    """Return grey values of a mean image in its whole box, 0 where it has none; None if it is constant."""
    step = int(np.ceil((np.prod(image.shape) / MOST_VOXELS) ** (1 / 3)))
    values = np.asarray(image.dataobj, dtype=np.float32)[::step, ::step, ::step]
    affine = np.asarray(image.affine, dtype=np.float64) @ np.diag([step, step, step, 1.0])
    known = np.isfinite(values)
    return grey_grid(index_grid(np.argwhere(known), affine), values[known])


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
        """Features of this mesh."""
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
            "vertices": pack_steps(self.vertices),
            "triangles": pack(np.stack(relative).astype(np.int32)),
            "shapes": [_pack_positions(coords) for coords in self.shapes.values()],
            "sulci": None if self.in_sulcus is None else pack(self.in_sulcus.astype(np.uint8)),
        }

    def draw(self, axes: Axes, loading: FloatArray, norm: Normalize, direction: float) -> None:
        """Draw the triangles that face an eye on the x axis, from the farthest to the nearest."""
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
        own = loading[self.features]
        greys = np.full(len(next(iter(self.shapes.values()))), OUTSIDE)
        greys[self.vertices] = GYRUS
        if self.in_sulcus is not None:
            greys[(greys == GYRUS) & self.in_sulcus] = SULCUS
        colours = np.repeat(greys[:, None], 3, axis=1)
        coloured = np.asarray(matplotlib.colormaps[DIVERGING](norm(own[own != 0])))
        colours[self.vertices[own != 0]] = coloured[:, :3]
        return colours


class SurfaceView(View):
    """One or two hemispheres, to be turned in the browser."""

    kind = "surface"
    aspect = 1.4

    def __init__(self, hemispheres: Sequence[Hemisphere]) -> None:
        self.hemispheres = tuple(hemispheres)
        self.n_panels = 2 * len(self.hemispheres)  # outside and inside
        names = [side.name for side in self.hemispheres if side.name]
        self.presets = [f"{name} {side}" for name in names for side in ("outside", "inside")] + DIRECTIONS
        self.shapes = tuple(self.hemispheres[0].shapes)
        greys = "" if self.hemispheres[0].in_sulcus is None else "Light grey: gyri. Medium grey: sulci. "
        self.caption = f"{greys}Dark grey: outside the mask."

    def payload(self) -> dict[str, Any]:
        """Return the meshes, and the vertices that are features."""
        return {"kind": self.kind, "hemispheres": [side.payload() for side in self.hemispheres]}

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
    inflated = [_find_inflated(part) for part in sets]
    hemispheres = []
    for part, found in zip(sets, inflated, strict=True):
        shapes, in_sulcus = {"folded": np.asarray(part.mesh.coords)}, None
        if all(inflated) and found is not None:
            coords, in_sulcus = found
            shapes = {"inflated": coords, **shapes} if shape == "inflated" else {**shapes, "inflated": coords}
        triangles = np.asarray(part.mesh.triangles)
        hemispheres.append(Hemisphere(part.hemi, part.start, part.vertices, triangles, shapes, in_sulcus))
    return SurfaceView(hemispheres)


def mesh_view(mesh: Any, n_features: int) -> SurfaceView:
    """Return the view of a mesh (coords, triangles) whose vertices are the features."""
    coords, triangles = np.asarray(mesh[0], dtype=np.float64), np.asarray(mesh[1])
    if coords.shape != (n_features, 3):
        raise ValueError(
            f"mesh: coords of shape {coords.shape}, but the model has {n_features} features: give one "
            "position (x, y, z) per feature"
        )
    return SurfaceView([Hemisphere("", 0, np.arange(n_features), triangles, {"": coords})])


def _find_inflated(part: VertexSet) -> tuple[FloatArray, BoolArray] | None:
    """Return inflated positions of the vertices of a hemisphere of fsaverage5, and which are in a sulcus."""
    triangles, coords, in_sulcus = _fsaverage5(part.hemi)
    if part.mesh.n_vertices != len(coords) or _sort_triangles(part.mesh.triangles) != triangles:
        return None
    return coords, in_sulcus


@cache
def _fsaverage5(hemi: str) -> tuple[bytes, FloatArray, BoolArray]:
    """Load fsaverage5, which comes with nilearn: triangles, inflated positions, and the sulci."""
    from nilearn.datasets import load_fsaverage, load_fsaverage_data

    mesh = load_fsaverage("fsaverage5")["inflated"].parts[hemi]
    coords = np.array(mesh.coordinates, dtype=np.float64)
    coords[:, 0] -= coords[:, 0].max() + GAP / 2 if hemi == "left" else coords[:, 0].min() - GAP / 2
    depth = load_fsaverage_data(mesh="fsaverage5", data_type="sulcal").data.parts[hemi]
    return _sort_triangles(mesh.faces), coords, np.asarray(depth).ravel() > 0


def _sort_triangles(triangles: IntArray) -> bytes:
    """Describe triangles by their corners, whatever the order of either."""
    corners = np.sort(np.asarray(triangles, dtype=np.int64), axis=1)
    return corners[np.lexsort(corners.T)].tobytes()


def _pack_positions(coords: FloatArray) -> dict[str, Any]:
    low, high = coords.min(axis=0), coords.max(axis=0)
    step = np.maximum((high - low) / FINEST, 1e-9)
    places = np.round((coords - low) / step).astype(np.uint16)
    return {
        "low": low.astype(float).tolist(),
        "step": step.astype(float).tolist(),
        "coords": pack(places.T),
    }
