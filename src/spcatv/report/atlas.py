"""Anatomical names of features, from the label images of an atlas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from spcatv._util.files import read_bytes, read_text
from spcatv._util.tables import TableError, read_table
from spcatv._util.types import Array, IntArray
from spcatv.report.inputs import ReportError
from spcatv.report.regions import Part

# Leave out labels below this share of a region: regions often touch a neighbour by a few voxels.
SMALLEST_SHARE = 0.1
# Probability that the most probable region of a 4-D atlas needs at a voxel.
LEAST_PROBABILITY = 0.25
NUMBER_COLUMNS = ("index", "label", "value", "id", "number")
NAME_COLUMNS = ("name", "region", "roi", "structure", "abbreviation")


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
    """Look up every feature in an atlas.

    The files are a label image for voxels, label files for surfaces (GIFTI or FreeSurfer ``.annot``; left
    before right), or both for CIFTI-2.

    A label image is a NIfTI image on any grid: a feature gets the label at its position. It is 3-D and holds
    whole numbers, or 4-D with one volume of probabilities per region: the most probable one is taken, if its
    probability is at least 25 %. The table names the numbers, see `read_names`; without one, `names_beside`
    finds a file beside the image. GIFTI and ``.annot`` files have their own names. A ReportError names a file
    that cannot be used.
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
    number = next((columns[name] for name in NUMBER_COLUMNS if name in columns), None)
    name = next((columns[name] for name in NAME_COLUMNS if name in columns), None)
    if number is None or name is None:
        raise ReportError(
            f"{file}: a table of labels has a column of numbers ({', '.join(NUMBER_COLUMNS)}) and one of "
            f"names ({', '.join(NAME_COLUMNS)}); this one has {', '.join(columns)}"
        )
    return list(zip(table.column(number), table.column(name), strict=True))


def _xml_pairs(file: Path) -> list[tuple[str, str]]:
    """Return numbers and names in an XML file of FSL or AAL.

    FSL numbers the labels of probabilistic atlases from 0, but the voxels of their images from 1.
    """
    try:
        root = ElementTree.fromstring(read_bytes(file))
    except (OSError, ElementTree.ParseError) as error:
        raise ReportError(f"{file}: cannot be read as an XML list of labels ({error})") from error
    shift = (root.findtext(".//header/type") or "").strip().lower().startswith("prob")
    # FSL writes <label index="1">name</label>, AAL writes <label><index>1</index><name>name</name></label>
    pairs = [
        (label.get("index") or label.findtext("index"), label.findtext("name") or label.text or "")
        for label in root.iter("label")
    ]
    found = [(number, name) for number, name in pairs if number is not None]
    if not found:
        raise ReportError(f'{file}: has no labels; an XML file of FSL has <label index="...">name</label>')
    if not shift:
        return found
    return [(str(int(number) + 1) if number.isdigit() else number, name) for number, name in found]


def names_beside(image: Path) -> dict[int, str]:
    """Read names from the file with the name of a label image (``.tsv``, ``.csv``, ``.txt``, ``.xml``).

    Empty if there is none, or if it holds no names.
    """
    stem = image.name.removesuffix(".gz").removesuffix(".nii")
    for suffix in (".tsv", ".csv", ".txt", ".xml"):
        file = image.with_name(stem + suffix)
        with suppress(ReportError):
            if file.is_file():
                return read_names(file)
    return {}
