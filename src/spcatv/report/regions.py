"""Connected regions of a component: place, size, weight, and names from an atlas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from spcatv._util.files import read_bytes, read_text
from spcatv._util.tables import TableError, read_table
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.metrics import threshold_loadings
from spcatv.report.inputs import ReportError
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

if TYPE_CHECKING:
    from spcatv.xarray.cf_coordinates import GridAxis

MIDLINE = 5.0  # mm from the plane between the halves of the brain
EITHER_SIDE = 0.2  # a region with this share of its voxels in the left and in the right half is in both
CELLS = {1: "points", 2: "pixels", 3: "voxels"}
# Leave out labels below this share of a region: regions often touch a neighbour by a few voxels.
SMALLEST_SHARE = 0.1
# Probability that the most probable region of a 4-D atlas needs at a voxel.
LEAST_PROBABILITY = 0.25
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
    if not parts:
        return (_field(model.structure_, axes_of(model)),)
    return tuple(sorted(parts, key=lambda part: part.start))


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

    `selection_frequency` and `found` (P,): how often resampled fits select each feature, and its region.
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


@dataclass(frozen=True, eq=False)
class FeatureLabels:
    """Label of every feature."""

    numbers: IntArray  # index into `names`, shape (P,)
    names: tuple[str, ...]  # the first one is empty and means no label

    def name_of(self, feature: int) -> str:
        """Return the name at a feature; empty if it has none."""
        return self.names[self.numbers[feature]]

    def composition(self, features: IntArray, part: Part) -> tuple[tuple[str, float], ...]:
        """Return the names that make up at least a tenth of a region, with their shares of its size."""
        sizes = np.bincount(self.numbers[features], weights=part.measure[features - part.start])
        shares = sizes / sizes.sum()
        return tuple(
            (self.names[k], float(shares[k]))
            for k in np.argsort(-shares, kind="stable")
            if k != 0 and shares[k] >= SMALLEST_SHARE
        )


def label_features(
    parts: Sequence[Part],
    files: Sequence[str | os.PathLike[str]],
    *,
    table: str | os.PathLike[str] | None = None,
) -> FeatureLabels:
    """Look up every feature in an atlas (docs/report.md).

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
            texts[part.start : part.stop] = _named(_at_positions(file, part), given or names_beside(file))
    for file, (part, vertices) in zip(surfaces, hemispheres, strict=False):
        numbers, own = _on_vertices(file, vertices)
        texts[part.start : part.stop] = _named(numbers, given | own)
    names = ["", *sorted(set(texts) - {""})]
    place = {name: number for number, name in enumerate(names)}
    return FeatureLabels(np.array([place[text] for text in texts], dtype=np.int64), tuple(names))


def _named(numbers: IntArray, names: Mapping[int, str]) -> npt.NDArray[np.object_]:
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
    inverse = np.linalg.inv(image.affine)
    voxel = np.round(part.coords @ inverse[:3, :3].T + inverse[:3, 3]).astype(np.int64)
    inside = ((voxel >= 0) & (voxel < image.shape)).all(axis=1)
    places = tuple(voxel[inside].T)
    labels = np.zeros(len(voxel), dtype=np.int64)
    if image.n_samples > 1:
        labels[inside] = _most_probable(image.frames(), places)
        return labels
    (values,) = image.frames()
    if not np.array_equal(values, np.round(values)):
        raise ReportError(
            f"{file}: an atlas is a 3-D image of whole numbers, one label per voxel, or a 4-D image with one "
            f"volume of probabilities per region; this one has shape {values.shape} and type {values.dtype}"
        )
    labels[inside] = values[places]
    return labels


def _most_probable(volumes: Iterable[Array], places: tuple[IntArray, ...]) -> IntArray:
    """Return the number of the most probable volume at every place, from 1; 0 where none is probable enough.

    Probabilities are shares, or percentages if any is above 1, as in FSL's atlases.
    """
    best, largest = np.zeros(len(places[0])), np.zeros(len(places[0]), dtype=np.int64)
    top = 0.0
    for number, volume in enumerate(volumes, start=1):
        top = max(top, float(volume.max()))
        values = volume[places]
        larger = values > best
        best[larger], largest[larger] = values[larger], number
    largest[best < LEAST_PROBABILITY * (100 if top > 1 else 1)] = 0
    return largest


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
    columns = {name.lower(): name for name in table.columns}
    number, name = (
        next((columns[name] for name in names if name in columns), None)
        for names in (NUMBER_COLUMNS, NAME_COLUMNS)
    )
    if number is None or name is None:
        raise ReportError(
            f"{file}: a table of labels has a column of numbers ({', '.join(NUMBER_COLUMNS)}) and one of "
            f"names ({', '.join(NAME_COLUMNS)}); this one has {', '.join(columns)}"
        )
    return list(zip(table.column(number), table.column(name), strict=True))


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


def names_beside(image: Path) -> dict[int, str]:
    """Read names from the file with the name of a label image; empty if none can be read."""
    stem = image.name.removesuffix(".gz").removesuffix(".nii")
    for suffix in (".tsv", ".csv", ".txt", ".xml"):
        file = image.with_name(stem + suffix)
        with suppress(ReportError):
            if file.is_file():
                return read_names(file)
    return {}
