"""Connected regions of a component: place, size, weight, and names from an atlas."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from spcatv._util.atomic_files import read_bytes, read_text
from spcatv._util.tables import TableError, read_table
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.report import formatting as fmt
from spcatv.report.inputs import ReportError
from spcatv.stability import Bootstrap
from spcatv.structure.regions import connected_regions

if TYPE_CHECKING:
    from spcatv.xarray.cf_coordinates import GridAxis

MIDLINE = 5.0  # mm from the plane between the halves of the brain
EITHER_SIDE = 0.2  # a region with this share of its voxels in the left and in the right half is in both
# Cells of a field by its dimensions, and the names of its axes without coordinates.
FIELDS = {
    1: ("points", ("point",)),
    2: ("pixels", ("row", "column")),
    3: ("voxels", ("i", "j", "k")),
}
# Leave out labels below this share of a region: regions often touch a neighbour by a few voxels.
SMALLEST_SHARE = 0.1
NUMBER_COLUMNS = ("index", "label", "value", "id", "number")
NAME_COLUMNS = ("name", "region", "roi", "structure", "abbreviation")


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
    # names of the axes of a field, and the labels of their cells if these are not numbered
    axes: tuple[tuple[str, Sequence[str]], ...] = ()

    @property
    def stop(self) -> int:
        """End of the features: ``start <= feature < stop``."""
        return self.start + len(self.coords)

    def place(self, feature: int) -> str:
        """Return the place of a feature, such as "(−12, 4, 30)", "lat 2.5, lon 190" or "row 3, column 4"."""
        coords = self.coords[feature - self.start]
        if self.axes:
            cells = zip(self.axes, coords.astype(int), strict=True)
            texts = (f"{name} {labels[cell] if labels else cell}" for (name, labels), cell in cells)
            return ", ".join(map(str.strip, texts))
        text = f",{fmt.SPACE}".join(f"{value:.0f}".replace("-", "−") for value in coords)
        return f"({text})"


def parts_of(model: Any) -> tuple[Part, ...]:
    """Return the parts of a fitted model's features, in order; together they hold every feature once."""
    space = getattr(model, "space_", None)
    vertex_sets, voxels = ((), None) if space is None else (space.vertex_sets, space.voxel_set)
    parts = []
    for found in vertex_sets:
        coords, vertices = np.asarray(found.mesh.coords, dtype=np.float64), found.vertices
        areas = vertex_areas(coords, found.mesh.triangles)[vertices]
        name = f"{found.hemi} hemisphere"
        parts.append(Part(name, found.start, coords[vertices], areas, "mm²", vertices))
    if voxels is not None:
        linear, origin = voxels.affine[:3, :3], voxels.affine[:3, 3]
        name = "subcortical volume" if parts else "volume"
        sizes = np.full(len(voxels.indices), abs(float(np.linalg.det(linear))))
        parts.append(Part(name, voxels.start, voxels.indices @ linear.T + origin, sizes, "mm³"))
    if parts:
        return tuple(sorted(parts, key=lambda part: part.start))
    sizes = np.ones(model.structure_.n_features)
    labels = getattr(model.structure_, "labels", None)  # only a grid has places of its features
    if labels is None or labels.ndim not in FIELDS:
        names = tuple(map(str, getattr(model, "feature_names_in_", ())))
        axis = ("" if names else "feature", names)
        places = np.arange(len(sizes), dtype=np.float64)[:, None]
        return (Part("features", 0, places, sizes, "features", axes=(axis,)),)
    unit, numbered = FIELDS[labels.ndim]
    known = axes_of(model)
    axes = tuple((axis.name, axis.labels) for axis in known) or tuple((name, ()) for name in numbered)
    return (Part("field", 0, np.argwhere(labels != 0).astype(np.float64), sizes, unit, axes=axes),)


def axes_of(model: Any) -> tuple[GridAxis, ...]:
    """Return the axes of the grid of a fitted model, if their coordinates are known."""
    axes = tuple(getattr(model, "grid_axes_", ()))
    shape = np.shape(getattr(model.structure_, "labels", ()))
    return axes if shape == tuple(len(axis.labels) for axis in axes) else ()


def noun_of(model: Any) -> str:
    """Return what the features of a fitted model are: "voxels", "vertices", "pixels", ..."""
    return getattr(getattr(model, "space_", None), "noun", None) or parts_of(model)[0].unit


def region_noun(model: Any) -> str:
    """Return what connected regions are: single features if the structure has no neighbours."""
    return "region" if model.structure_.n_rows else "feature"


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

    part: Part
    side: str  # "left", "right", "midline" or "both sides" of a volume, otherwise the name of the part
    peak: int  # the feature with the largest loading in absolute value
    place: str  # of the peak
    peak_loading: float
    mean_loading: float
    size: float  # in the unit of the part
    share: float  # share of the component's sum of squares
    label: str = ""  # name at the peak in the atlas; empty if there is none
    # what the region is made of in the atlas: names and shares of its size, largest first
    composition: tuple[tuple[str, float], ...] = ()
    # share of resampled fits that select the region, or its heaviest part, if thresholding splits it; or NaN
    found: float = math.nan


def cluster_table(
    model: Any, k: int, parts: Sequence[Part], labels: Array | None = None, stability: Bootstrap | None = None
) -> tuple[Cluster, ...]:
    """Return the connected regions of component `k`, the heaviest first; `labels` (P,) from an atlas."""
    values = np.asarray(model.components_[k], dtype=np.float64)
    found = np.full(len(values), np.nan)
    for region in () if stability is None else stability.regions:
        if region.component == k:
            found[region.features] = region.bootstrap_frequency
    starts = [part.start for part in parts]
    total = float(np.square(values).sum())
    table = []
    for features in connected_regions(model.structure_, values):
        part = parts[int(np.searchsorted(starts, features[0], side="right")) - 1]
        own = features - part.start
        peak = int(features[np.argmax(np.abs(values[features]))])
        side = part.name
        if part.unit == "mm³":
            side = _side(part.coords[own, 0], part.coords[peak - part.start, 0])
        table.append(
            Cluster(
                part=part,
                side=side,
                peak=peak,
                place=part.place(peak),
                peak_loading=float(values[peak]),
                mean_loading=float(values[features].mean()),
                size=float(part.measure[own].sum()),
                share=float(np.square(values[features]).sum()) / total,
                label="" if labels is None else labels[peak],
                composition=() if labels is None else _composition(labels[features], part.measure[own]),
                found=float(found[peak]),
            )
        )
    return tuple(table)


def _side(x: FloatArray, peak_x: float) -> str:
    """Return the side of the brain on which voxels with these coordinates lie."""
    if min((x < -MIDLINE).mean(), (x > MIDLINE).mean()) >= EITHER_SIDE:
        return "both sides"
    return "midline" if abs(peak_x) <= MIDLINE else "left" if peak_x < 0 else "right"


def _composition(labels: Array, sizes: FloatArray) -> tuple[tuple[str, float], ...]:
    """Return the names that make up at least a tenth of a region, with their shares of its size."""
    names, number = np.unique(labels, return_inverse=True)
    shares = np.bincount(number, weights=sizes) / sizes.sum()
    return tuple(
        (names[k], float(shares[k]))
        for k in np.argsort(-shares, kind="stable")
        if names[k] and shares[k] >= SMALLEST_SHARE
    )


def label_features(
    parts: Sequence[Part],
    files: Sequence[str | os.PathLike[str]],
    *,
    table: str | os.PathLike[str] | None = None,
) -> Array:
    """Return the name of every feature in an atlas, shape (P,), empty if it has none (docs/report.md).

    The files are a label image for voxels, label files for surfaces (left before right), or both for CIFTI-2.
    """
    volumes = [Path(file) for file in files if not _is_surface(file)]
    surfaces = [Path(file) for file in files if _is_surface(file)]
    hemispheres = [(part, part.vertices) for part in parts if part.vertices is not None]
    voxels = [part for part in parts if part.unit == "mm³"]
    if len(volumes) > 1 or (volumes and not voxels):
        what = "at most one label image for voxels" if voxels else "label files of its surfaces"
        raise ReportError(f"{volumes[-1]}: the atlas of this model is {what}")
    if surfaces and len(surfaces) != len(hemispheres):
        raise ReportError(
            f"{surfaces[0]}: the model has {len(hemispheres)} hemispheres, but {len(surfaces)} label files "
            "of surfaces are given, left before right"
        )
    given = {} if table is None else read_names(Path(table))
    texts = np.full(parts[-1].stop, "", dtype=object)
    for file in volumes:
        for part in voxels:
            texts[part.start : part.stop] = _name_labels(_at_positions(file, part), given)
    for file, (part, vertices) in zip(surfaces, hemispheres, strict=False):
        numbers, own = _on_vertices(file, vertices)
        texts[part.start : part.stop] = _name_labels(numbers, given | own)
    return texts


def _name_labels(numbers: IntArray, names: Mapping[int, str]) -> npt.NDArray[np.object_]:
    """Return the name of every number: "label 7" if it has none, an empty string for 0."""
    found, place = np.unique(numbers, return_inverse=True)
    texts = ["" if n == 0 else names.get(int(n), f"label {n}") for n in found]
    return np.array(texts, dtype=object)[place]


def _is_surface(file: str | os.PathLike[str]) -> bool:
    return str(file).endswith((".gii", ".gii.gz", ".annot"))


def _at_positions(file: Path, part: Part) -> IntArray:
    """Return the labels of a volume at the positions of the features; 0 outside the image."""
    from spcatv.images.spaces.volume import open_one

    image = open_one(file, str(file))
    frames = list(image.frames()) if image.n_samples == 1 else []
    if not frames or not np.array_equal(frames[0], np.round(frames[0])):
        raise ReportError(
            f"{file}: an atlas is a 3-D image of whole numbers, one label per voxel; for a probabilistic "
            "atlas, give the image of its most probable regions"
        )
    inverse = np.linalg.inv(image.affine)
    voxel = np.round(part.coords @ inverse[:3, :3].T + inverse[:3, 3]).astype(np.int64)
    inside = ((voxel >= 0) & (voxel < image.shape)).all(axis=1)
    labels = np.zeros(len(voxel), dtype=np.int64)
    labels[inside] = frames[0][tuple(voxel[inside].T)]
    return labels


def _on_vertices(file: Path, vertices: IntArray) -> tuple[IntArray, dict[int, str]]:
    """Return the labels at vertices of a surface, and the names in the file."""
    import nibabel as nib

    from spcatv.images.files import checked_file, open_gifti, reading

    if file.suffix == ".annot":
        with reading(checked_file(file)):
            values, _, texts = nib.freesurfer.read_annot(file)
        # in the file -1 is outside; here 0 is, and numbers start at 1
        labels, names = values + 1, {k + 1: text.decode() for k, text in enumerate(texts)}
    else:
        image = open_gifti(file)
        labels = np.asarray(image.darrays[0].data)
        names = {int(key): str(text) for key, text in image.labeltable.get_labels_as_dict().items()}
        if labels.ndim != 1 or not np.array_equal(labels, np.round(labels)):
            raise ReportError(f"{file}: an atlas holds one whole number per vertex, its label")
    if len(labels) <= vertices.max():
        raise ReportError(f"{file}: labels of {len(labels)} vertices, but the model has more on this surface")
    return labels[vertices].astype(np.int64), names


def read_names(file: Path) -> dict[int, str]:
    """Read names of labels by their numbers.

    The file is a table with a header (``.tsv``, ``.csv``), lines that begin with a number and a name, or an
    XML file of FSL or AAL (``.xml``).
    """
    readers = {".xml": _xml_pairs, ".tsv": _table_pairs, ".csv": _table_pairs}
    pairs = readers.get(file.suffix.lower(), _line_pairs)(file)
    try:
        return {int(float(number)): name.strip() for number, name in pairs}
    except (ValueError, OverflowError) as error:  # such as "infinity"
        raise ReportError(f"{file}: a label is a whole number; {error}") from error


def _line_pairs(file: Path) -> list[tuple[str, str]]:
    text = read_text(file, "table of labels", ReportError)
    lines = [line.split(maxsplit=2) for line in text.splitlines() if not line.lstrip().startswith("#")]
    return [(line[0], line[1] if len(line) > 1 else "") for line in lines if line]


def _table_pairs(file: Path) -> list[tuple[str, str]]:
    try:
        table = read_table(file)
    except TableError as error:
        raise ReportError(str(error)) from error
    cells = {name.lower(): table.column(name) for name in table.columns}
    numbers = [cells[name] for name in NUMBER_COLUMNS if name in cells]
    names = [cells[name] for name in NAME_COLUMNS if name in cells]
    if not (numbers and names):
        raise ReportError(
            f"{file}: a table of labels has a column of numbers ({', '.join(NUMBER_COLUMNS)}) and one of "
            f"names ({', '.join(NAME_COLUMNS)}); this one has {', '.join(cells)}"
        )
    return list(zip(numbers[0], names[0], strict=True))


def _xml_pairs(file: Path) -> list[tuple[str, str]]:
    """Return numbers and names in an XML file.

    FSL writes ``<label index="1">name</label>``, and numbers the labels of probabilistic atlases from 0, but
    the voxels of their images from 1. AAL writes ``<label><index>1</index><name>name</name></label>``.
    """
    try:
        root = ElementTree.fromstring(read_bytes(file))
    except (OSError, ElementTree.ParseError) as error:
        raise ReportError(f"{file}: cannot be read as an XML list of labels ({error})") from error
    shift = (root.findtext(".//header/type") or "").strip().lower().startswith("prob")
    pairs = []
    for label in root.iter("label"):
        number = label.get("index") or label.findtext("index")
        if number is not None:
            number = str(int(number) + 1) if shift and number.isdigit() else number
            pairs.append((number, label.findtext("name") or label.text or ""))
    if not pairs:
        raise ReportError(f'{file}: has no labels; an XML file of FSL has <label index="...">name</label>')
    return pairs
