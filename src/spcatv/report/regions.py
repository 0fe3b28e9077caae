"""Connected regions of a component: place, size, weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray, IntArray
from spcatv.metrics import threshold_loadings
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

if TYPE_CHECKING:
    from spcatv.images.spaces.base import VertexSet, VoxelSet
    from spcatv.report.atlas import FeatureLabels
    from spcatv.xarray.cf_coordinates import GridAxis

MIDLINE = 5.0  # mm from the plane between the halves of the brain
EITHER_SIDE = 0.2  # a region with this share of its voxels in the left and in the right half is in both
CELLS = {1: "points", 2: "pixels", 3: "voxels"}


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive features of one kind: voxels, vertices of one hemisphere, or cells of a field."""

    name: str  # for people: "volume", "left hemisphere", "field"
    start: int  # the first of these features
    coords: FloatArray  # positions; in millimetres for brain images, indices otherwise, shape (n, d)
    measure: FloatArray  # size of every feature, shape (n,)
    unit: str  # unit of the sizes: "mm³", "mm²", "pixels", "features"
    # the vertex of every feature; None if the features are not vertices, shape (n,)
    vertices: IntArray | None = None
    axes: tuple[GridAxis, ...] = ()  # of a field with coordinates

    def place(self, feature: int) -> str:
        """Return the coordinates of a feature, such as "lat 2.5, lon 190"; empty if there are none."""
        cell = self.coords[feature - self.start].astype(int)
        return ", ".join(f"{axis.name} {axis.labels[k]}" for axis, k in zip(self.axes, cell, strict=False))

    @property
    def stop(self) -> int:
        """End of the features: ``start <= feature < stop``."""
        return self.start + len(self.coords)


def parts_of(model: Any) -> tuple[Part, ...]:
    """Return the parts of a fitted model's features, in order; together they hold every feature once."""
    space = getattr(model, "space_", None)
    parts = [_vertices(part) for part in (space.vertex_sets if space is not None else ())]
    voxels = space.voxel_set if space is not None else None
    if voxels is not None:
        parts.append(_voxels("subcortical volume" if parts else "volume", voxels))
    if not parts:
        return (_field(model.structure_, axes_of(model)),)
    return tuple(sorted(parts, key=lambda part: part.start))


def _voxels(name: str, voxels: VoxelSet) -> Part:
    linear, origin = voxels.affine[:3, :3], voxels.affine[:3, 3]
    return Part(
        name=name,
        start=voxels.start,
        coords=voxels.indices @ linear.T + origin,
        measure=np.full(len(voxels.indices), abs(float(np.linalg.det(linear)))),
        unit="mm³",
    )


def _vertices(part: VertexSet) -> Part:
    return Part(
        name=f"{part.hemi} hemisphere",
        start=part.start,
        coords=np.asarray(part.mesh.coords, dtype=np.float64)[part.vertices],
        measure=vertex_areas(part.mesh.coords, part.mesh.triangles)[part.vertices],
        unit="mm²",
        vertices=part.vertices,
    )


def axes_of(model: Any) -> tuple[GridAxis, ...]:
    """Return the axes of the grid of a fitted model, if their coordinates are known."""
    axes = tuple(getattr(model, "grid_axes_", ()))
    shape = np.shape(getattr(model.structure_, "labels", ()))
    return axes if shape == tuple(len(axis.labels) for axis in axes) else ()


def _field(structure: Structure, axes: tuple[GridAxis, ...]) -> Part:
    n_features = structure.n_features
    # only a grid has places of its features
    labels = getattr(structure, "labels", None)
    if labels is not None and labels.ndim in CELLS:
        coords = np.argwhere(labels != 0).astype(np.float64)
        return Part("field", 0, coords, np.ones(n_features), CELLS[labels.ndim], axes=axes)
    coords = np.arange(n_features, dtype=np.float64)[:, None]
    return Part("features", 0, coords, np.ones(n_features), "features")


def vertex_areas(coords: npt.ArrayLike, triangles: npt.ArrayLike) -> FloatArray:
    """Return the area of every vertex of a mesh: one third of the area of each of its triangles."""
    points, corners = np.asarray(coords, dtype=np.float64), np.asarray(triangles)
    first, second, third = (points[corners[:, k]] for k in range(3))
    areas = 0.5 * np.linalg.norm(np.cross(second - first, third - first), axis=1)
    sums = np.bincount(corners.ravel(), weights=np.repeat(areas / 3, 3), minlength=len(points))
    return sums.astype(np.float64)


@dataclass(frozen=True)
class Cluster:
    """Connected region of one sign."""

    part: str  # the part that it lies in: "volume", "left hemisphere", ...
    # coordinates of the largest loading in absolute value, in millimetres or as indices
    peak: tuple[float, ...]
    peak_feature: int  # the feature at the peak
    peak_loading: float  # the loading at the peak
    mean_loading: float  # over the region
    size: float  # in `unit`
    unit: str  # "mm³", "mm²", "pixels", ...
    n_features: int  # number of voxels, vertices or cells
    share: float  # share of the component's sum of squares
    place: str = ""  # the peak in the coordinates of a field, if it has any
    both_sides: bool = False  # whether a region of a volume lies in both halves of the brain
    label: str = ""  # name at the peak in the atlas; empty if there is none
    # what the region is made of in the atlas: names and shares of its size, largest first
    composition: tuple[tuple[str, float], ...] = ()
    # how often its features are selected in resampled fits: the mean over the features of the region
    # that are in the thresholded support, since a resampled fit selects features by the same threshold.
    # None if there are none.
    selected: float | None = None
    # share of resampled fits that select the region; of its heaviest part, if thresholding splits it
    found: float | None = None


def cluster_table(
    structure: Structure,
    loading: npt.ArrayLike,
    parts: Sequence[Part],
    labels: FeatureLabels | None = None,
    selection_frequency: npt.ArrayLike | None = None,
    found: npt.ArrayLike | None = None,
) -> tuple[Cluster, ...]:
    """Return the connected regions of a loading of shape (P,), the heaviest first.

    `selection_frequency` is the share of resampled fits that select each feature, `found` the share that
    select its thresholded region (NaN outside all regions); both have shape (P,).
    """
    values = np.asarray(loading, dtype=np.float64)
    frequency = None if selection_frequency is None else np.asarray(selection_frequency, dtype=np.float64)
    again = None if found is None else np.asarray(found, dtype=np.float64)
    # resampled fits are compared on thresholded supports
    heavy = threshold_loadings(values) != 0
    starts = np.array([part.start for part in parts])
    total = float(np.square(values).sum())
    table = []
    for features in connected_regions(structure, values):
        part = parts[int(np.searchsorted(starts, features[0], side="right")) - 1]
        peak = int(features[np.argmax(np.abs(values[features]))])
        table.append(
            Cluster(
                part=part.name,
                peak=tuple(float(x) for x in part.coords[peak - part.start]),
                place=part.place(peak),
                peak_feature=peak,
                peak_loading=float(values[peak]),
                mean_loading=float(values[features].mean()),
                size=float(part.measure[features - part.start].sum()),
                unit=part.unit,
                n_features=len(features),
                share=float(np.square(values[features]).sum()) / total,
                both_sides=part.unit == "mm³" and _on_both_sides(part.coords[features - part.start, 0]),
                label="" if labels is None else labels.name_of(peak),
                composition=() if labels is None else labels.composition(features, part),
                selected=_mean(frequency, features[heavy[features]]),
                found=_mean(again, features[heavy[features] & (features == peak)]),
            )
        )
    return tuple(table)


def _on_both_sides(x: FloatArray) -> bool:
    """Return whether a region extends to both sides of the midline."""
    return bool(min((x < -MIDLINE).mean(), (x > MIDLINE).mean()) >= EITHER_SIDE)


def _mean(values: FloatArray | None, features: IntArray) -> float | None:
    if values is None or len(features) == 0:
        return None
    mean = float(values[features].mean())
    return mean if np.isfinite(mean) else None
