"""Anatomical names of features, from the label images of an atlas."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, IntArray
from spcatv.report.atlas_names import names_beside, read_names
from spcatv.report.atlas_search import find_atlas, is_name
from spcatv.report.clusters import Part
from spcatv.report.material import ReportError

# regions often touch a neighbour by a few voxels: labels below this share are not listed
SMALLEST_SHARE = 0.1
# a voxel belongs to the most probable region of a 4-D atlas if its probability is at least this
LEAST_PROBABILITY = 0.25


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

    The files are a label image for voxels, label files for surfaces (GIFTI or FreeSurfer ``.annot``; left
    before right), or both for CIFTI-2; or the name of an atlas on this machine
    (`spcatv.report.atlas_search`).

    A label image is a NIfTI image on any grid: a feature gets the label at its position. It is 3-D and holds
    whole numbers, or 4-D with one volume of probabilities per region: the most probable one is taken, if its
    probability is at least 25 %. The table names the numbers, see `spcatv.report.atlas_names.read_names`;
    without one, names are looked for beside the image. GIFTI and ``.annot`` files have their own names. A
    ReportError names a file that cannot be used.
    """
    if any(is_name(file) for file in files):
        files, table = _by_name(files, table, parts)
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


def _by_name(
    files: Sequence[str | os.PathLike[str]], table: str | os.PathLike[str] | None, parts: Sequence[Part]
) -> tuple[list[str | os.PathLike[str]], str | os.PathLike[str] | None]:
    """Replace the names of atlases by their files, and the table by that of the atlas if none is given."""
    hemispheres = {part.name: part.vertices for part in parts if part.vertices is not None}
    n_vertices = max((int(vertices.max()) + 1 for vertices in hemispheres.values()), default=0)
    voxels = any(part.unit == "mm³" for part in parts)
    found: list[str | os.PathLike[str]] = []
    for file in files:
        if not is_name(file):
            found.append(file)
            continue
        if not voxels and not hemispheres:
            raise ReportError(f"{file}: an atlas names voxels or vertices, and this model has neither")
        atlas = find_atlas(os.fspath(file), voxels=voxels, n_vertices=n_vertices)
        table = table or atlas.names
        sides = zip(("left", "right"), atlas.files, strict=False)
        found += (
            [side for hemi, side in sides if f"{hemi} hemisphere" in hemispheres]
            if atlas.is_surface
            else atlas.files
        )
    return found, table


def _named(numbers: IntArray, names: Mapping[int, str]) -> npt.NDArray[np.object_]:
    """The name of every number: "label 7" if it has none, an empty string for 0."""
    found, place = np.unique(numbers, return_inverse=True)
    texts = ["" if n == 0 else names.get(int(n), f"label {n}") for n in found]
    return np.array(texts, dtype=object)[place]


def _is_surface(file: str | os.PathLike[str]) -> bool:
    return str(file).endswith((".gii", ".gii.gz", ".annot"))


def _at_positions(file: Path, part: Part) -> IntArray:
    """The labels of a volume at the positions of the features; 0 outside the image."""
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
    """The number of the most probable volume at every place, from 1; 0 where none is probable enough.

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
    """The labels at vertices of a surface, and the names in the file."""
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
