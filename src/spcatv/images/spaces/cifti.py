"""CIFTI-2: two cortical surfaces and the voxels of subcortical structures in one file.

The description of the grayordinates takes nibabel half a second to parse, and is the same in all files of a
study. It is parsed once; the bytes of other files are compared with it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.arrayproxy import reshape_dataobj
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis, SeriesAxis
from nibabel.cifti2.parse_cifti2 import Cifti2Extension, Cifti2Parser

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.images.files import (
    ImageError,
    check_values,
    checked_file,
    file_behind,
    image_name,
    is_compressed,
    is_path,
    open_each,
    open_stream,
    open_volume,
    reading,
)
from spcatv.images.spaces.base import (
    Samples,
    Space,
    VertexSet,
    VoxelSet,
    checked_labels,
    default_names,
)
from spcatv.images.spaces.meshes import (
    HEMISPHERES,
    SurfaceMesh,
    load_meshes,
    meshes_as_parameter,
    meshes_from_state,
    meshes_state,
)
from spcatv.images.spaces.volume import neighbour_distances
from spcatv.structure import Structure, concat, grid

FILE_NAME = re.compile(r"\.(dscalar|dtseries|dlabel)\.nii$", re.IGNORECASE)
CORTEX = {"left": "CIFTI_STRUCTURE_CORTEX_LEFT", "right": "CIFTI_STRUCTURE_CORTEX_RIGHT"}
# element that describes the columns, in the bytes of the XML
COLUMNS = re.compile(
    rb"<MatrixIndicesMap\s[^>]*AppliesToMatrixDimension=.1.[\s>].*?</MatrixIndicesMap>", re.DOTALL
)
# values read at a time from a file with several samples
BLOCK_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class CiftiSpace(Space):
    """Grayordinates of a CIFTI-2 file: cortical vertices, then voxels.

    Features are the vertices of the left and then of the right cortex in the order of the mesh, followed by
    the voxels in C order, whatever the order in the file. The labels have the shape (G,); differences are
    taken inside a brain structure and a label only.
    """

    axis: BrainModelAxis  # the G grayordinates of the files
    # from "left" and "right" to the mesh, for the cortices that the axis has
    meshes: Mapping[str, SurfaceMesh]

    kind: ClassVar[str] = "cifti"
    noun: ClassVar[str] = "grayordinates"
    suffixes: ClassVar[tuple[str, ...]] = (".nii",)

    @classmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Recognise files by their names, objects by their type."""
        return FILE_NAME.search(str(item)) is not None if is_path(item) else isinstance(item, Cifti2Image)

    @classmethod
    def open_images(cls, items: Any) -> list[CiftiFile]:
        """Open images with any grayordinates."""
        known: KnownAxes = {}
        return open_each(items, lambda item, number: open_cifti(item, number, known))

    @classmethod
    def find(
        cls, images: Sequence[CiftiFile], mask: Any, surface: Any, cache: Path | None
    ) -> tuple[Samples, str]:
        """Return images with the same G grayordinates; cortices need their surfaces."""
        first = images[0]
        for file in images[1:]:
            how = axis_difference(file.axis, first.axis)
            if how is not None:
                raise ImageError(f"{file.name}: {how}, as the first image, {first.name}")
        meshes = _cortex_meshes(first, surface)
        labels, report = _mask_labels(first, mask)
        voxels = first.axis.voxel[first.axis.volume_mask]
        if len(np.unique(voxels, axis=0)) != len(voxels):
            raise ImageError(f"{first.name}: some voxels belong to two brain structures")
        return Samples(cls(labels, first.axis, meshes), tuple(images)), report

    @cached_property
    def places(self) -> IntArray:
        """Column of the files for every feature."""
        inside, axis = np.flatnonzero(self.labels), self.axis
        part = np.select([axis.name == surface for surface in CORTEX.values()], [0, 1], 2)
        # the last key counts first; voxels have no vertex, and vertices no voxel
        keys = [*axis.voxel[inside].T[::-1], axis.vertex[inside], part[inside]]
        return inside[np.lexsort(keys)]

    def structure(self) -> Structure:
        """Return differences along mesh edges, then between voxels, over `neighbour_distances`."""
        labels = self.labels[self.places]
        parts: list[Structure] = [part.structure(labels) for part in self.vertex_sets]
        if self.voxel_set is not None:
            parts.append(grid(self._box(self.voxel_set), voxel_size=neighbour_distances(self.axis.affine)))
        return concat(parts)

    def _box(self, voxels: VoxelSet) -> IntArray:
        """Return labels of the voxels: one number for every pair of a brain structure and a mask label."""
        columns = self.places[voxels.start :]
        structure = np.unique(self.axis.name[columns], return_inverse=True)[1]
        pairs = np.stack([structure, self.labels[columns]])
        number = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1) + 1
        box = np.zeros(self.axis.volume_shape, dtype=np.int32)
        box[tuple(voxels.indices.T)] = number
        return box

    def check(self, image: CiftiFile) -> None:
        """Refuse an image whose grayordinates differ from the grayordinates of the model."""
        how = axis_difference(image.axis, self.axis)
        if how is not None:
            raise ImageError(f"{image.name}: {how}, as the model")

    def read_image(self, image: CiftiFile, out: FloatArray, fwhm: float | None, summed: bool) -> None:
        """Read an opened image in blocks of columns."""
        for first, block in image.blocks():
            place = self.places - first
            inside = np.flatnonzero((place >= 0) & (place < block.shape[1]))
            out[:, inside] = block[:, place[inside]]

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> Cifti2Image:
        """Return a dense scalar image with all grayordinates of the files, zero outside the mask."""
        values = self.on_all_places(maps).T
        scalars = ScalarAxis(list(names or default_names(len(values))))
        image = Cifti2Image(values, (scalars, self.axis))
        image.nifti_header.set_intent("NIFTI_INTENT_CONNECTIVITY_DENSE_SCALARS")
        return image

    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        path = folder / f"{stem}.dscalar.nii"
        nib.save(self.to_images(maps, names), path)
        return [path]

    def masker(self) -> CiftiMasker:
        """Return a small masker in the style of nilearn, which has none for CIFTI-2."""
        return CiftiMasker(self)

    def as_surface(self) -> dict[str, Any] | None:
        """Return coordinates and triangles of every cortex."""
        return meshes_as_parameter(self.meshes) or None

    @cached_property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """Vertices of each cortex."""
        sets = []
        for hemi, surface in self.meshes.items():
            own = np.flatnonzero(self.axis.name[self.places] == CORTEX[hemi])
            if len(own):
                sets.append(VertexSet(int(own[0]), hemi, self.axis.vertex[self.places[own]], surface))
        return tuple(sets)

    @cached_property
    def voxel_set(self) -> VoxelSet | None:
        """Voxels of the subcortical structures, after all vertices."""
        columns = self.places[self.axis.volume_mask[self.places]]
        if len(columns) == 0:
            return None
        start = self.n_features - len(columns)
        return VoxelSet(start, self.axis.voxel[columns], np.asarray(self.axis.affine, dtype=np.float64))

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the axis as plain values and arrays, the meshes and the labels."""
        structures, number = np.unique(self.axis.name, return_inverse=True)
        shape = self.axis.volume_shape
        values = {
            "hemispheres": list(self.meshes),
            "structures": [str(name) for name in structures],
            "n_vertices": {str(name): int(count) for name, count in self.axis.nvertices.items()},
            "volume_shape": None if shape is None else [int(n) for n in shape],
        }
        arrays: dict[str, Array] = {
            "structure_number": number.astype(np.int32),
            "voxel": self.axis.voxel.astype(np.int32),
            "vertex": self.axis.vertex.astype(np.int32),
            "labels": np.asarray(self.labels),
            **meshes_state(self.meshes),
        }
        if self.axis.affine is not None:
            arrays["affine"] = np.asarray(self.axis.affine, dtype=np.float64)
        return values, arrays

    @classmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the space that `state` has described."""
        shape = values["volume_shape"]
        axis = BrainModelAxis(
            name=np.asarray(values["structures"])[arrays["structure_number"]],
            voxel=arrays["voxel"],
            vertex=arrays["vertex"],
            affine=arrays.get("affine"),
            volume_shape=None if shape is None else tuple(shape),
            nvertices=values["n_vertices"],
        )
        return cls(arrays["labels"], axis, meshes_from_state(values["hemispheres"], arrays))


@dataclass(frozen=True, eq=False)
class CiftiMasker:
    """Extraction of features from CIFTI-2 images and back, like a fitted nilearn masker."""

    space: CiftiSpace

    @property
    def n_elements_(self) -> int:
        """Number of features."""
        return self.space.n_features

    def transform(self, imgs: Any) -> npt.NDArray[np.float32]:
        """Return the features of every image, shape (n_samples, P)."""
        samples = self.space.samples(self.space.open_images(imgs))
        out = np.empty((len(samples.names), self.space.n_features), dtype=np.float32)
        for number, run in enumerate(samples.runs):
            samples.read(number, out[run.start : run.stop])
        return out

    def inverse_transform(self, X: npt.ArrayLike) -> Cifti2Image:
        """Return a dense scalar image, one map per row of X."""
        return self.space.to_images(np.asarray(X))


def _cortex_meshes(first: CiftiFile, surface: Any) -> dict[str, SurfaceMesh]:
    """Return the meshes of the cortices that a file has, or refuse those that do not fit."""
    surfaces = set(first.axis.nvertices)
    other = sorted(surfaces - set(CORTEX.values()))
    if other:
        raise ImageError(
            f"{first.name}: has a surface that is no cortex, {other[0]}; only cortices can be used"
        )
    needed = [hemi for hemi in HEMISPHERES if CORTEX[hemi] in surfaces]
    if not needed:
        return {}
    if surface is None:
        raise ImageError(
            f"{first.name}: has cortical surfaces ({', '.join(needed)}), so their meshes are needed: "
            "surface=(left, right) with GIFTI or FreeSurfer surface files"
        )
    meshes = load_meshes(surface)
    for hemi in needed:
        expected = first.axis.nvertices[CORTEX[hemi]]
        if hemi not in meshes or meshes[hemi].n_vertices != expected:
            found = (
                f"{meshes[hemi].name} has {meshes[hemi].n_vertices}" if hemi in meshes else "none was given"
            )
            raise ImageError(
                f"{first.name}: its {hemi} cortex has {expected} vertices, but of the surfaces {found}"
            )
    return {hemi: meshes[hemi] for hemi in needed}


def _mask_labels(first: CiftiFile, mask: Any) -> tuple[npt.NDArray[np.int32], str]:
    """Return the labels of a mask and a line about it."""
    total = len(first.axis)
    if mask is None:
        return np.ones(total, dtype=np.int32), f"all {total:,} grayordinates (no mask given)"
    if isinstance(mask, np.ndarray):
        name, values = "the mask array", mask
        if values.shape != (total,):
            raise ImageError(
                f"the mask array has shape {mask.shape}, but the images have {total} grayordinates"
            )
    else:
        opened = open_cifti(mask, 0)
        name = opened.name if is_path(mask) else "the mask"
        how = axis_difference(opened.axis, first.axis)
        if how is not None:
            raise ImageError(f"{name}: the mask does not fit the images: it {how}, as {first.name}")
        if opened.n_samples != 1:
            raise ImageError(f"{name}: a mask is one row of values, this one has {opened.n_samples}")
        values = np.concatenate([block[0] for _, block in opened.blocks()])
    labels = checked_labels(values, name)
    return labels, f"mask of {np.count_nonzero(labels):,} of {total:,} grayordinates, given ({name})"


@dataclass(frozen=True, eq=False)
class CiftiFile:
    """An opened CIFTI-2 image whose rows are samples and whose columns are grayordinates."""

    name: str  # file name, or place in the list
    values: Any  # array, or one that is read from the file when it is sliced, shape (n_samples, G)
    files: tuple[Path, ...]  # the file that holds the values; none for an array in memory
    rows: Any  # axis that describes the rows
    axis: BrainModelAxis  # describes the columns

    @property
    def n_samples(self) -> int:
        """Number of maps or time points."""
        return int(self.values.shape[0])

    @property
    def is_series(self) -> bool:
        """True if the rows are time points."""
        return isinstance(self.rows, SeriesAxis)

    @property
    def t_r(self) -> float | None:
        """Seconds between time points, if the file states them."""
        return float(self.rows.step) if self.is_series and self.rows.unit == "SECOND" else None

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Yield blocks of columns, each with its first column; a column is contiguous in the file."""
        n_columns = len(self.axis)
        width = max(1, BLOCK_VALUES // self.n_samples)
        with reading(self.name):
            for file in filter(is_compressed, self.files):
                with open_stream(file):  # compares the checksum
                    pass
            for first in range(0, n_columns, width):
                last = min(first + width, n_columns)
                yield first, np.asanyarray(self.values[:, first:last])


# Axes of grayordinates, by the bytes of the XML that describes them.
KnownAxes = dict[bytes, BrainModelAxis]


def open_cifti(item: Any, number: int, known: KnownAxes | None = None) -> CiftiFile:
    """Open one ``.dscalar.nii`` or ``.dtseries.nii``, or a mask; parse its axis unless it is known."""
    if isinstance(item, CiftiFile):
        return item
    name = image_name(item, number)
    if known is not None and is_path(item):
        path = checked_file(item)
        with suppress(Exception):  # nibabel reads other files, or names what is wrong with them
            return _compared(path, name, known)
    image = open_volume(item) if is_path(item) else item
    if not isinstance(image, Cifti2Image):
        raise ImageError(f"{name}: not a CIFTI-2 image but {type(image).__name__}")
    check_values(image, name)
    with reading(name):
        axes = [image.header.get_axis(axis) for axis in range(image.ndim)]
    if len(axes) != 2 or not isinstance(axes[1], BrainModelAxis) or isinstance(axes[0], BrainModelAxis):
        raise ImageError(
            f"{name}: rows of grayordinates are needed (.dscalar.nii, .dtseries.nii); this file has the axes "
            f"{', '.join(type(axis).__name__ for axis in axes)}"
        )
    file = file_behind(image)
    return CiftiFile(name, image.dataobj, () if file is None else (file,), axes[0], axes[1])


def _compared(path: Path, name: str, known: KnownAxes) -> CiftiFile:
    """Open a file whose rows are samples and whose columns are grayordinates; any error if it is another."""
    image = nib.Nifti2Image.from_filename(path)
    check_values(image, name)
    xml = next(e.content for e in image.header.extensions if isinstance(e, Cifti2Extension)).rstrip(b"\0")
    (columns,) = COLUMNS.findall(xml)
    if columns not in known:
        known[columns] = _axis(xml, 1)
    axis, rows = known[columns], _axis(xml.replace(columns, b""), 0)
    values = reshape_dataobj(image.dataobj, image.shape[4:])
    if not isinstance(axis, BrainModelAxis) or values.shape != (len(rows), len(axis)):
        raise ValueError("not samples of grayordinates")
    return CiftiFile(name, values, (path,), rows, axis)


def _axis(xml: bytes, number: int) -> Any:
    parser = Cifti2Parser()
    parser.parse(string=xml)
    return parser.header.get_axis(number)


def axis_difference(axis: BrainModelAxis, reference: BrainModelAxis) -> str | None:
    """Return the difference between two sets of grayordinates, as the end of a sentence; None if equal."""
    if axis is reference or axis == reference:
        return None
    mine, other = Counter(axis.name.tolist()), Counter(reference.name.tolist())
    changed = next((name for name in sorted(mine | other) if mine[name] != other[name]), None)
    if changed is None:
        return "has other vertices or voxels in its structures (or another volume space)"
    return (
        f"has {mine[changed]} grayordinates of {changed} instead of {other[changed]} "
        f"({len(axis)} instead of {len(reference)} in all)"
    )
