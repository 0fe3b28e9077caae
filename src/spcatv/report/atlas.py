"""Anatomical names of features, from label images that the user gives."""

from __future__ import annotations

import csv
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spcatv._util.types import IntArray
from spcatv.report.clusters import Part
from spcatv.report.material import ReportError

NUMBER_COLUMNS = ("index", "label", "value", "id", "number")
NAME_COLUMNS = ("name", "region", "roi", "structure", "abbreviation")
# regions often touch a neighbour by a few voxels: labels below this share are not listed
SMALLEST_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class FeatureLabels:
    """The label of every feature."""

    numbers: IntArray  # index into `names`, shape (P,)
    names: tuple[str, ...]  # the first one is empty and means no label

    def name_of(self, feature: int) -> str:
        """The name at a feature; empty if it has none."""
        return self.names[self.numbers[feature]]

    def composition(self, features: IntArray, part: Part) -> tuple[tuple[str, float], ...]:
        """The names that make up at least a tenth of a region, with their shares of its size."""
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

    The files are a label image for voxels (NIfTI, 3-D, whole numbers, on any grid; a feature gets the label
    at its position), label files for surfaces (GIFTI or FreeSurfer ``.annot``; left before right), or both
    for CIFTI-2. The table names the numbers: a ``.tsv`` or ``.csv`` file with a column of numbers (index,
    label, value or id) and one of names (name or region), or lines "number name ..." as in FreeSurfer's
    lists. GIFTI and ``.annot`` files have their own names. A ReportError names a file that cannot be used.
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
            texts[part.start : part.stop] = _named(_at_positions(file, part), given)
    for file, (part, vertices) in zip(surfaces, hemispheres, strict=False):
        numbers, own = _on_vertices(file, vertices)
        texts[part.start : part.stop] = _named(numbers, given | own)
    names = ["", *sorted(set(texts) - {""})]
    place = {name: number for number, name in enumerate(names)}
    return FeatureLabels(np.array([place[text] for text in texts], dtype=np.int64), tuple(names))


def _named(numbers: IntArray, names: Mapping[int, str]) -> npt.NDArray[np.object_]:
    """The name of every number: "label 7" if it has none, an empty string for 0."""
    found, place = np.unique(numbers, return_inverse=True)
    texts = ["" if n == 0 else names.get(int(n), f"label {n}") for n in found]
    return np.array(texts, dtype=object)[place]


def _is_surface(file: str | os.PathLike[str]) -> bool:
    return str(file).endswith((".gii", ".gii.gz", ".annot"))


def _at_positions(file: Path, part: Part) -> IntArray:
    """The labels of a volume at the positions of the features; 0 outside the image."""
    from spcatv.images.loading import open_volume, reading

    image = open_volume(file)
    with reading(file):
        values = np.asanyarray(image.dataobj)
    if values.ndim == 4 and values.shape[3] == 1:
        values = values[..., 0]
    if values.ndim != 3 or not np.array_equal(values, np.round(values)):
        raise ReportError(
            f"{file}: an atlas is a 3-D image of whole numbers, one label per voxel; this one has shape "
            f"{values.shape} and type {values.dtype}"
        )
    inverse = np.linalg.inv(image.affine)
    voxel = np.round(part.coords @ inverse[:3, :3].T + inverse[:3, 3]).astype(np.int64)
    inside = ((voxel >= 0) & (voxel < values.shape)).all(axis=1)
    labels = np.zeros(len(voxel), dtype=np.int64)
    labels[inside] = values[tuple(voxel[inside].T)]
    return labels


def _on_vertices(file: Path, vertices: IntArray) -> tuple[IntArray, dict[int, str]]:
    """The labels at vertices of a surface, and the names in the file."""
    import nibabel as nib

    from spcatv.images.loading import checked_file, open_gifti, reading

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
    """Names of labels from a table with a header, or from lines that begin with a number and a name."""
    try:
        lines = [line for line in file.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{file}: cannot be read as a table of labels ({error})") from error
    pairs: list[tuple[str, str]]
    if file.suffix.lower() in (".tsv", ".csv"):
        rows = list(csv.DictReader(lines, delimiter="," if file.suffix.lower() == ".csv" else "\t"))
        columns = {str(name).strip().lower(): name for name in (rows[0] if rows else {})}
        number = next((columns[name] for name in NUMBER_COLUMNS if name in columns), None)
        name = next((columns[name] for name in NAME_COLUMNS if name in columns), None)
        if number is None or name is None:
            raise ReportError(
                f"{file}: a table of labels has a column of numbers ({', '.join(NUMBER_COLUMNS)}) and one of "
                f"names ({', '.join(NAME_COLUMNS)}); this one has {', '.join(columns) or 'none'}"
            )
        pairs = [(str(row[number] or ""), str(row[name] or "")) for row in rows]
    else:
        words = [line.split() for line in lines if not line.lstrip().startswith("#")]
        pairs = [(line[0], line[1] if len(line) > 1 else "") for line in words]
    try:
        return {int(float(number)): name.strip() for number, name in pairs}
    except ValueError as error:
        raise ReportError(f"{file}: a label is a whole number; {error}") from error
