"""CIFTI-2: two cortical surfaces and the voxels of subcortical structures in one file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, ScalarAxis

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.images.cifti_files import CiftiFile, axis_difference, open_all, open_cifti
from spcatv.images.loading import ImageError, is_path
from spcatv.images.meshes import (
    HEMISPHERES,
    SurfaceMesh,
    load_meshes,
    meshes_from_state,
    meshes_state,
    surface_structure,
)
from spcatv.images.runs import Run, consecutive
from spcatv.images.space import (
    Opened,
    Samples,
    Space,
    VertexSet,
    VoxelSet,
    checked_labels,
    default_names,
    sample_names,
)
from spcatv.images.volume import neighbour_distances
from spcatv.structure import Structure, concat, grid

FILE_NAME = re.compile(r"\.(dscalar|dtseries|dlabel)\.nii$", re.IGNORECASE)
CORTEX = {"left": "CIFTI_STRUCTURE_CORTEX_LEFT", "right": "CIFTI_STRUCTURE_CORTEX_RIGHT"}


@dataclass(frozen=True, eq=False)
class CiftiSpace(Space):
    """The grayordinates of a CIFTI-2 file: cortical vertices, then voxels.

    Features are the vertices of the left and then of the right cortex in the order of the mesh, followed by
    the voxels in C order, whatever the order in the file.
    """

    axis: BrainModelAxis  # the G grayordinates of the files
    # from "left" and "right" to the mesh, for the cortices that the axis has
    meshes: Mapping[str, SurfaceMesh]
    # 0 is outside; differences are taken inside a brain structure and a label only, shape (G,)
    labels: IntArray

    kind: ClassVar[str] = "cifti"
    noun: ClassVar[str] = "grayordinates"
    suffixes: ClassVar[tuple[str, ...]] = (".nii",)

    @classmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Files by their names, objects by their type."""
        return FILE_NAME.search(str(item)) is not None if is_path(item) else isinstance(item, Cifti2Image)

    @classmethod
    def find(cls, imgs: Any, mask: Any, surface: Any) -> Opened:
        """Open images with the same G grayordinates.

        The mask is a CIFTI-2 file or image of one row, or an array of shape (G,), with 0 and 1 or labels;
        ``None`` takes all. The surface, in any form that `load_meshes` takes, is needed if the files have
        cortices.
        """
        files = open_all(imgs)
        first = files[0]
        meshes = _cortex_meshes(first, surface)
        labels, report = _mask_labels(first, mask)
        voxels = first.axis.voxel[first.axis.volume_mask]
        if len(np.unique(voxels, axis=0)) != len(voxels):
            raise ImageError(f"{first.name}: some voxels belong to two brain structures")
        space = cls(first.axis, meshes, labels)
        samples = space.samples(files)
        return Opened(samples.names, lambda: (space, samples, report))

    @cached_property
    def _cortex_columns(self) -> dict[str, IntArray]:
        """Columns of the files that are vertices in the mask, in the order of the mesh."""
        columns: dict[str, IntArray] = {}
        for hemi, surface in CORTEX.items():
            found = np.flatnonzero((self.axis.name == surface) & (self.labels != 0))
            columns[hemi] = found[np.argsort(self.axis.vertex[found], kind="stable")]
        return columns

    @cached_property
    def _voxel_columns(self) -> IntArray:
        """Columns of the files that are voxels in the mask, in C order."""
        found = np.flatnonzero(self.axis.volume_mask & (self.labels != 0))
        if len(found) == 0:
            return found
        place = np.ravel_multi_index(self.axis.voxel[found].T, self.axis.volume_shape)
        return found[np.argsort(place, kind="stable")]

    @cached_property
    def columns(self) -> IntArray:
        """The column of the files behind every feature, shape (P,)."""
        return np.concatenate([*self._cortex_columns.values(), self._voxel_columns])

    def places(self) -> IntArray:
        """The column of the files behind every feature."""
        return self.columns

    @property
    def n_features(self) -> int:
        """Number of grayordinates in the mask."""
        return len(self.columns)

    def structure(self) -> Structure:
        """Differences along mesh edges, then between voxels, over `neighbour_distances`."""
        parts: list[Structure] = []
        for hemi, columns in self._cortex_columns.items():
            if len(columns):
                labels = np.zeros(self.meshes[hemi].n_vertices, dtype=np.int32)
                labels[self.axis.vertex[columns]] = self.labels[columns]
                parts.append(surface_structure(self.meshes[hemi], labels))
        if len(self._voxel_columns):
            parts.append(grid(self._box(), voxel_size=neighbour_distances(self.axis.affine)))
        return concat(parts)

    def _box(self) -> IntArray:
        """Labels of the voxels: one number for every pair of a brain structure and a mask label."""
        columns = self._voxel_columns
        structure = np.unique(self.axis.name[columns], return_inverse=True)[1]
        pairs = np.stack([structure, self.labels[columns]])
        number = np.unique(pairs, axis=1, return_inverse=True)[1].reshape(-1) + 1
        box = np.zeros(self.axis.volume_shape, dtype=np.int32)
        box[tuple(self.axis.voxel[columns].T)] = number
        return box

    def keep(self, kept: BoolArray) -> Self:
        """The space without the grayordinates that are not kept."""
        labels = self.labels.copy()
        labels[self.columns[~kept]] = 0
        return replace(self, labels=labels)

    def open(self, imgs: Any) -> CiftiSamples:
        """Open images with the grayordinates of the model."""
        return self.samples(open_all(imgs))

    def samples(self, files: list[CiftiFile]) -> CiftiSamples:
        """Samples of opened images, which must have the grayordinates of the space."""
        for file in files:
            how = axis_difference(file.axis, self.axis)
            if how is not None:
                raise ImageError(f"{file.name}: {how}, as the model")
        return CiftiSamples(self, tuple(files))

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> Cifti2Image:
        """A dense scalar image with all grayordinates of the files, zero outside the mask."""
        maps = self._checked_maps(maps)
        values = np.zeros((len(maps), len(self.axis)), dtype=np.float32)
        values[:, self.columns] = maps
        scalars = ScalarAxis(list(names or default_names(len(maps))))
        image = Cifti2Image(values, (scalars, self.axis))
        image.nifti_header.set_intent("NIFTI_INTENT_CONNECTIVITY_DENSE_SCALARS")
        return image

    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        path = folder / f"{stem}.dscalar.nii"
        nib.save(self.to_images(maps, names), path)
        return [path]

    def masker(self) -> CiftiMasker:
        """A small masker in the style of nilearn, which has none for CIFTI-2."""
        return CiftiMasker(self)

    def as_mask(self) -> IntArray:
        """The labels of all grayordinates."""
        return self.labels

    def as_surface(self) -> dict[str, Any] | None:
        """Coordinates and triangles of every cortex."""
        meshes = {hemi: (surface.coords, surface.triangles) for hemi, surface in self.meshes.items()}
        return meshes or None

    @cached_property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """The vertices of each cortex."""
        sets, start = [], 0
        for hemi, columns in self._cortex_columns.items():
            if len(columns):
                sets.append(VertexSet(start, hemi, self.axis.vertex[columns], self.meshes[hemi]))
            start += len(columns)
        return tuple(sets)

    @cached_property
    def voxel_set(self) -> VoxelSet | None:
        """The voxels of the subcortical structures, after all vertices."""
        columns = self._voxel_columns
        if len(columns) == 0:
            return None
        start = self.n_features - len(columns)
        return VoxelSet(start, self.axis.voxel[columns], np.asarray(self.axis.affine, dtype=np.float64))

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The axis as plain values and arrays, the meshes and the labels."""
        structures, number = np.unique(self.axis.name, return_inverse=True)
        values = {
            "hemispheres": list(self.meshes),
            "structures": [str(name) for name in structures],
            "n_vertices": {str(name): int(count) for name, count in self.axis.nvertices.items()},
            "volume_shape": None
            if self.axis.volume_shape is None
            else [int(n) for n in self.axis.volume_shape],
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
        """Read what `state` wrote."""
        shape = values["volume_shape"]
        axis = BrainModelAxis(
            name=np.asarray(values["structures"])[arrays["structure_number"]],
            voxel=arrays["voxel"],
            vertex=arrays["vertex"],
            affine=arrays.get("affine"),
            volume_shape=None if shape is None else tuple(shape),
            nvertices=values["n_vertices"],
        )
        return cls(axis, meshes_from_state(values["hemispheres"], arrays), arrays["labels"])


@dataclass(frozen=True, eq=False)
class CiftiSamples(Samples):
    """Opened images with the grayordinates of their space."""

    space: CiftiSpace
    opened: tuple[CiftiFile, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name per sample: the file, and the row in it if it holds several."""
        return tuple(name for file in self.opened for name in sample_names(file.name, file.n_samples))

    def images(self) -> list[CiftiSamples]:
        """The samples of every image."""
        return [replace(self, opened=(file,)) for file in self.opened]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One per image; those with an axis of times are time series."""
        return consecutive((f.name, f.n_samples, (f.file,), f.t_r, f.is_series) for f in self.opened)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the images that have one."""
        return tuple(file.file for file in self.opened if file.file is not None)

    def _filled(self, out: FloatArray) -> Iterator[None]:
        first_row = 0
        for file in self.opened:
            last_row = first_row + file.n_samples
            for first, block in file.blocks():
                place = self.space.columns - first
                inside = np.flatnonzero((place >= 0) & (place < block.shape[1]))
                out[first_row:last_row, inside] = block[:, place[inside]]
            yield from [None] * file.n_samples
            first_row = last_row


@dataclass(frozen=True, eq=False)
class CiftiMasker:
    """Extracts features from CIFTI-2 images and puts them back, like a fitted nilearn masker."""

    space: CiftiSpace

    @property
    def n_elements_(self) -> int:
        """Number of features."""
        return self.space.n_features

    def transform(self, imgs: Any) -> npt.NDArray[np.float32]:
        """The features of every image, shape (n_samples, P)."""
        samples = self.space.open(imgs)
        out = np.empty((len(samples.names), self.space.n_features), dtype=np.float32)
        samples.fill(out)
        return out

    def inverse_transform(self, X: npt.ArrayLike) -> Cifti2Image:
        """A dense scalar image, one map per row of X."""
        return self.space.to_images(np.asarray(X))


def _cortex_meshes(first: CiftiFile, surface: Any) -> dict[str, SurfaceMesh]:
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
            "surface=(left, right) with GIFTI or FreeSurfer surface files; on the command line "
            "--surface LH RH"
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
