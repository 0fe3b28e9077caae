"""CIFTI-2: two cortical surfaces and the voxels of subcortical structures in one file."""

from __future__ import annotations

from collections.abc import Mapping
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
from spcatv.images.errors import ImageError
from spcatv.images.loading import is_path
from spcatv.images.meshes import (
    HEMISPHERES,
    SurfaceMesh,
    load_meshes,
    meshes_from_state,
    meshes_state,
    surface_structure,
)
from spcatv.images.space import Space, checked_labels, default_names
from spcatv.images.volume import neighbour_distances
from spcatv.progress import FileRead, tell
from spcatv.structure import Structure, concat, grid

CORTEX = {"left": "CIFTI_STRUCTURE_CORTEX_LEFT", "right": "CIFTI_STRUCTURE_CORTEX_RIGHT"}


@dataclass(frozen=True, eq=False)
class CiftiSpace(Space):
    """The grayordinates of a CIFTI-2 file: cortical vertices, then voxels.

    Features are the vertices of the left and then the right cortex in the order of the mesh, then the
    voxels in C order, whatever the order in the file.

    Parameters
    ----------
    axis : BrainModelAxis
        The grayordinates of the files, G of them.
    meshes : dict
        From "left" and "right" to the mesh, for the cortices that the axis has.
    labels : ndarray of int32, of shape (G,)
        0 outside; differences are taken inside a structure and a label only.
    """

    axis: BrainModelAxis
    meshes: Mapping[str, SurfaceMesh]
    labels: IntArray

    kind: ClassVar[str] = "cifti"
    noun: ClassVar[str] = "grayordinates"

    @cached_property
    def _cortex_columns(self) -> dict[str, IntArray]:
        """Columns of the files with a vertex in the mask, in the order of the mesh."""
        columns: dict[str, IntArray] = {}
        for hemi, surface in CORTEX.items():
            found = np.flatnonzero((self.axis.name == surface) & (self.labels != 0))
            columns[hemi] = found[np.argsort(self.axis.vertex[found], kind="stable")]
        return columns

    @cached_property
    def _voxel_columns(self) -> IntArray:
        """Columns of the files with a voxel in the mask, in C order of the box."""
        found = np.flatnonzero(self.axis.volume_mask & (self.labels != 0))
        if len(found) == 0:
            return found
        place = np.ravel_multi_index(self.axis.voxel[found].T, self.axis.volume_shape)
        return found[np.argsort(place, kind="stable")]

    @cached_property
    def columns(self) -> IntArray:
        """The column of the files that every feature comes from, shape (P,)."""
        return np.concatenate([*self._cortex_columns.values(), self._voxel_columns])

    @property
    def n_features(self) -> int:
        """Grayordinates in the mask."""
        return len(self.columns)

    def structure(self) -> Structure:
        """Edges of the surfaces and differences of voxels, per millimetre, side by side."""
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
        """Voxels with one number for every pair of a brain structure and a label."""
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

    def open(self, imgs: Any) -> CiftiRows:
        """Open images with the grayordinates of the model."""
        return self.rows(open_all(imgs))

    def rows(self, files: list[CiftiFile]) -> CiftiRows:
        """Rows of opened images, which must have the grayordinates of the space."""
        for file in files:
            how = axis_difference(file.axis, self.axis)
            if how is not None:
                raise ImageError(f"{file.name}: {how}, as the model")
        return CiftiRows(self, tuple(files))

    def to_images(self, rows: FloatArray, names: tuple[str, ...] = ()) -> Cifti2Image:
        """A dense scalar image with all grayordinates of the files, zero outside of the mask."""
        rows = self._checked_rows(rows)
        values = np.zeros((len(rows), len(self.axis)), dtype=np.float32)
        values[:, self.columns] = rows
        scalars = ScalarAxis(list(names or default_names(len(rows))))
        image = Cifti2Image(values, (scalars, self.axis))
        image.nifti_header.set_intent("NIFTI_INTENT_CONNECTIVITY_DENSE_SCALARS")
        return image

    def _save_maps(self, rows: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        path = folder / f"{stem}.dscalar.nii"
        nib.save(self.to_images(rows, names), path)
        return [path]

    def masker(self) -> CiftiMasker:
        """A small masker in the manner of nilearn, which has none for CIFTI-2."""
        return CiftiMasker(self)

    def as_mask(self) -> IntArray:
        """The labels of all grayordinates."""
        return self.labels

    def as_surface(self) -> dict[str, Any] | None:
        """Coordinates and triangles of every cortex."""
        meshes = {hemi: (surface.coords, surface.triangles) for hemi, surface in self.meshes.items()}
        return meshes or None

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """The axis, spelt out, the meshes and the labels."""
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
class CiftiRows:
    """Opened images that fit their space."""

    space: CiftiSpace
    opened: tuple[CiftiFile, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name a row: the file, and the row in it if it holds several."""
        names: list[str] = []
        for file in self.opened:
            rows = range(file.n_rows)
            names.extend([file.name] if file.n_rows == 1 else [f"{file.name}[{row}]" for row in rows])
        return tuple(names)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the images that have one."""
        return tuple(file.file for file in self.opened if file.file is not None)

    def fill(self, out: FloatArray) -> None:
        """Read file after file into the rows of `out`, a block of columns at a time."""
        first_row = 0
        for file in self.opened:
            last_row = first_row + file.n_rows
            for first, block in file.blocks():
                place = self.space.columns - first
                inside = np.flatnonzero((place >= 0) & (place < block.shape[1]))
                # too large for float32 becomes infinite, which is looked for later
                with np.errstate(over="ignore"):
                    out[first_row:last_row, inside] = block[:, place[inside]]
            for row in range(first_row, last_row):
                tell(FileRead(row + 1, len(out), self.names[row]))
            first_row = last_row


@dataclass(frozen=True, eq=False)
class CiftiMasker:
    """Takes features out of CIFTI-2 images and puts them back, like a fitted nilearn masker."""

    space: CiftiSpace

    @property
    def n_elements_(self) -> int:
        """Number of features."""
        return self.space.n_features

    def transform(self, imgs: Any) -> npt.NDArray[np.float32]:
        """Rows of features, shape (n_rows, P)."""
        rows = self.space.open(imgs)
        out = np.empty((len(rows.names), self.space.n_features), dtype=np.float32)
        rows.fill(out)
        return out

    def inverse_transform(self, X: npt.ArrayLike) -> Cifti2Image:
        """A dense scalar image with the given rows."""
        return self.space.to_images(np.asarray(X))


def cifti_space(files: list[CiftiFile], mask: Any, surface: Any) -> tuple[CiftiSpace, str]:
    """The space of CIFTI-2 images, and a line that says where the mask comes from.

    Parameters
    ----------
    files : list of CiftiFile
        Opened images, all with the same grayordinates.
    mask : CIFTI-2 file or image of one row, array of shape (G,), or None
        0 and 1 or labels; ``None`` takes all grayordinates.
    surface : any form that `spcatv.images.meshes.load_meshes` takes, or None
        Needed where the files have cortical surfaces.
    """
    first = files[0]
    meshes = _cortex_meshes(first, surface)
    labels, report = _mask_labels(first, mask)
    space = CiftiSpace(first.axis, meshes, labels)
    voxels = first.axis.voxel[first.axis.volume_mask]
    if len(np.unique(voxels, axis=0)) != len(voxels):
        raise ImageError(f"{first.name}: some voxels belong to two brain structures")
    return space, report


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
        if opened.n_rows != 1:
            raise ImageError(f"{name}: a mask is one row of values, this one has {opened.n_rows}")
        values = np.concatenate([block[0] for _, block in opened.blocks()])
    labels = checked_labels(values, name)
    return labels, f"mask of {np.count_nonzero(labels):,} of {total:,} grayordinates, given ({name})"
