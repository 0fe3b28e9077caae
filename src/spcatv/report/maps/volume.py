"""View of volumes: three slices over a background image."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.report.figures import DIVERGING
from spcatv.report.maps.base import View, ViewFrame, packed, packed_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize

    from spcatv.images.spaces.base import VoxelSet

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

    def packed(self, values: str) -> dict[str, Any]:
        """Return the grid for the script of the page; `values` are packed."""
        return {
            "origin": self.origin.tolist(),
            "spacing": self.spacing.tolist(),
            "shape": list(self.values.shape),
            "values": values,
        }

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


@dataclass(frozen=True, eq=False)
class VolumeView(View):
    """Three slices through a volume."""

    start: int  # the features start:stop are the voxels
    stop: int
    index: Grid  # number of the feature at a voxel, counted from 1 at `start`; 0 where there is none
    background: Grid | None  # grey values from 0 (nothing) to 255
    background_name: str  # its name
    anatomical: bool  # whether x, y and z point to the right, to the front and up, in millimetres

    sides_known: bool = True  # whether the images say where left is

    kind: ClassVar[str] = "volume"
    n_panels = 3

    def payload(self) -> dict[str, Any]:
        """Return the feature at every voxel, and the background."""
        back = self.background
        return {
            "kind": self.kind,
            "start": self.start,
            "stop": self.stop,
            "index": self.index.packed(packed_steps(self.index.values)),
            "background": None if back is None else back.packed(packed(back.values)),
            "anatomical": self.anatomical,
        }

    def frame(self) -> ViewFrame:
        """Return the frame, with the directions of the slices and the name of the background."""
        names = tuple(ENDS) if self.anatomical else ("Along i", "Along j", "Along k")
        sides = " Left is left (L)." if self.anatomical else ""
        if not self.sides_known:
            sides = " Left and right are a guess: the files of the images do not say how they are oriented."
        behind = f"Behind the map: {self.background_name}." if self.background is not None else ""
        ends = ENDS if self.anatomical else {}
        return ViewFrame(self.kind, "Slices", f"{behind}{sides}".strip(), planes=names, ends=ends)

    def shown(self, loading: FloatArray) -> FloatArray:
        """Return the entries of a loading at the voxels."""
        return loading[self.start : self.stop]

    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw three slices through the voxel with the largest loading."""
        own = self.shown(loading)
        peak = np.argwhere(self.index.values == 1 + int(np.argmax(np.abs(own))))
        voxel = peak[0] if len(peak) else np.array(self.index.values.shape) // 2
        position = self.index.origin + voxel * self.index.spacing
        values = np.concatenate([[0.0], own])[self.index.values]
        if not own.any():
            place: dict[str, Any] = {"ha": "center", "va": "top", "transform": panels[1].transAxes}
            panels[1].text(0.5, -0.02, "no loading of this component here", fontsize=8, **place)
        low, high = (self.background or self.index).edges
        for axes, plane in zip(panels, PLANES, strict=True):
            fixed, across, up = plane
            if self.background is not None:  # grey values of 0 to 255, in the lighter part of the scale
                self.background.draw(axes, plane, position, cmap="gray", vmin=-54, vmax=304)
            loadings = replace(self.index, values=values)
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
        behind, name = mean_grid(index, mean), "mean of the images"
    else:
        from spcatv.images.spaces.volume import read_one

        behind, name = _sampled(read_one(background), coords), os.path.basename(background)
    stop = voxels.start + len(voxels.indices)
    return VolumeView(voxels.start, stop, index, behind, name, anatomical=True, sides_known=sides_known)


def field_view(structure: Any, mean: FloatArray) -> VolumeView:
    """Return the view of a three-dimensional field that is not a brain."""
    voxels = np.argwhere(structure.labels != 0)
    index = index_grid(voxels, np.diag([*(1 / np.asarray(structure.axis_weights)), 1.0]))
    return VolumeView(0, len(voxels), index, mean_grid(index, mean), "mean of the data", anatomical=False)


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


def mean_grid(index: Grid, mean: FloatArray) -> Grid | None:
    """Return grey values of the mean image; None if it is constant."""
    low, high = float(mean.min()), float(mean.max())
    if not high > low:
        return None
    # 0 is reserved for the outside
    grey = np.concatenate([[0], 40 + np.round(215 * (mean - low) / (high - low))]).astype(np.uint8)
    return Grid(index.origin, index.spacing, grey[index.values])


@lru_cache(maxsize=1)
def _template() -> Grid:
    from nilearn.datasets import load_mni152_template

    return _sampled(load_mni152_template(resolution=1), None)


def _in_template(coords: FloatArray) -> bool:
    grid = _template()
    voxel = np.round((coords - grid.origin) / grid.spacing).astype(int)
    inside = ((voxel >= 0) & (voxel < grid.values.shape)).all(axis=1)
    return bool((grid.values[tuple(voxel[inside].T)] > 0).sum() >= IN_TEMPLATE * len(coords))


def _sampled(image: Any, coords: FloatArray | None) -> Grid:
    """Resample an image to a 2 mm grid along the axes, around `coords` or around all bright voxels."""
    from scipy.ndimage import map_coordinates

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
    low, high = np.quantile(values[known], [0.005, 0.995]) if known.any() else (0.0, 0.0)
    if not high > low:
        return None
    grey = np.where(known, 1 + np.round(254 * np.clip((values - low) / (high - low), 0, 1)), 0)
    index = index_grid(np.argwhere(known), affine)
    return replace(index, values=np.concatenate([[0], grey[known]]).astype(np.uint8)[index.values])
