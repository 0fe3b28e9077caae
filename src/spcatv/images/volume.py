"""Volumes: NIfTI (or any image that nibabel reads) files and objects, 3-D or 4-D."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np
from nibabel.affines import voxel_sizes

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.images.errors import ImageError
from spcatv.images.loading import held_open, image_name, is_path, open_volume, reading
from spcatv.images.space import Space
from spcatv.progress import FileRead, tell
from spcatv.structure import GridStructure, grid

# images lie on the same grid if no voxel is further from its place than this share of a voxel
SAME_PLACE = 1e-3
COMPRESSED = (".gz", ".bz2", ".zst", ".mgz")


@dataclass(frozen=True, eq=False)
class Volume:
    """An opened image: where it lies and how many rows it holds, not yet its values.

    Attributes
    ----------
    name : str
        File name, or place in the list.
    image : nibabel image
        Opened; its values are read when asked for.
    shape : tuple of three int
        Voxels along each axis.
    affine : ndarray of shape (4, 4)
        From voxel indices to millimetres.
    n_rows : int
        1 for a 3-D image, the length of the last axis for a 4-D one.
    """

    name: str
    image: Any
    shape: tuple[int, int, int]
    affine: FloatArray
    n_rows: int

    @property
    def names(self) -> list[str]:
        """The name of every row."""
        if self.image.ndim == 3:
            return [self.name]
        return [f"{self.name}[{row}]" for row in range(self.n_rows)]

    @property
    def file(self) -> Path | None:
        """The file that the values lie in, None for an array in memory."""
        filename = self.image.get_filename() if nib.is_proxy(self.image.dataobj) else None
        return Path(filename) if filename else None

    def frames(self) -> Iterator[Array]:
        """The 3-D array of every row, one after the other; no more than one is held."""
        with reading(self.name):
            if self.image.ndim == 3:
                yield np.asanyarray(self.image.dataobj)
                return
            file = self.file
            compressed = file is not None and file.suffix in COMPRESSED
            opened = held_open(file, type(self.image)) if file and compressed else nullcontext(self.image)
            with opened as image:
                for row in range(self.n_rows):
                    yield np.asanyarray(image.dataobj[..., row])


def open_one(item: Any, name: str) -> Volume:
    """Open one image (a path or an object) and look at its header."""
    image = open_volume(item) if is_path(item) else item
    shape = getattr(image, "shape", None)
    affine = getattr(image, "affine", None)
    if affine is None or shape is None or not hasattr(image, "dataobj"):
        raise ImageError(f"{name}: not a volume (NIfTI, MGH) but {type(image).__name__}")
    if len(shape) not in (3, 4):
        raise ImageError(f"{name}: images have 3 or 4 dimensions, this one has shape {tuple(shape)}")
    if image.get_data_dtype().kind not in "biuf":
        raise ImageError(f"{name}: voxels must hold one number each, these are {image.get_data_dtype()}")
    if min(shape) < 1:
        raise ImageError(f"{name}: holds no voxel, its shape is {tuple(shape)}")
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) == 0:
        raise ImageError(f"{name}: its affine cannot be inverted: {np.asarray(affine).tolist()}")
    three = (int(shape[0]), int(shape[1]), int(shape[2]))
    n_rows = 1 if len(shape) == 3 else int(shape[3])
    return Volume(name, image, three, np.asarray(affine, dtype=np.float64), n_rows)


def difference(volume: Volume, shape: tuple[int, ...], affine: FloatArray) -> str | None:
    """How an image's grid differs from another, as the end of a sentence; None if it does not."""
    if volume.shape != tuple(shape):
        return f"has shape {_times(volume.shape)} instead of {_times(shape)}"
    corners = np.array(np.meshgrid(*[(0, n - 1) for n in shape], indexing="ij")).reshape(3, -1)
    shift = (volume.affine - affine)[:3] @ np.vstack([corners, np.ones(corners.shape[1])])
    distance = float(np.linalg.norm(shift, axis=0).max())
    mine, other = voxel_sizes(volume.affine), nib.affines.voxel_sizes(affine)
    if distance <= SAME_PLACE * float(other.min()):
        return None
    origin = f"origin {_list(volume.affine[:3, 3])} instead of {_list(affine[:3, 3])} mm"
    sizes = f"voxels of {_times(mine)} instead of {_times(other)} mm"
    what = "another orientation" if np.allclose(mine, other, rtol=1e-3) else sizes
    what = "" if np.allclose(volume.affine[:3, :3], affine[:3, :3], atol=1e-3) else f"{what}, "
    return f"has another affine ({what}{origin}; voxels lie up to {distance:.3g} mm apart)"


def _times(numbers: Sequence[Any] | FloatArray) -> str:
    return " x ".join(f"{number:g}" for number in numbers)


def _list(numbers: FloatArray) -> str:
    return "(" + ", ".join(f"{number:.4g}" for number in numbers) + ")"


def open_all(imgs: Any) -> list[Volume]:
    """Open a list of images, or one, and check that they all lie on the grid of the first."""
    items = list(imgs) if isinstance(imgs, (list, tuple)) else [imgs]
    volumes = [open_one(item, image_name(item, number)) for number, item in enumerate(items)]
    first = volumes[0]
    for volume in volumes[1:]:
        how = difference(volume, first.shape, first.affine)
        if how is not None:
            raise ImageError(f"{volume.name}: {how}; the first image is {first.name}")
    return volumes


def plain_header(image: Any) -> nib.Nifti1Header:
    """A fresh float32 NIfTI header that says where an image lies, and nothing else of it."""
    header = nib.Nifti1Header()
    old = image.header
    header.set_data_dtype(np.float32)
    header.set_data_shape(image.shape[:3])
    header.set_zooms(voxel_sizes(image.affine))
    if isinstance(old, nib.Nifti1Header):
        for kind in ("qform", "sform"):
            affine, code = getattr(old, f"get_{kind}")(coded=True)
            getattr(header, f"set_{kind}")(affine, int(code))
        # a header without any transform has zooms alone, which must stay as they are
        header.set_xyzt_units(xyz=old.get_xyzt_units()[0])
    else:
        header.set_sform(image.affine, "scanner")
        header.set_qform(image.affine, "scanner")
        header.set_xyzt_units(xyz="mm")
    return header


def neighbour_distances(affine: FloatArray) -> list[float]:
    """Distance of neighbouring voxels along each axis, in units of their geometric mean.

    So cubic voxels have distance 1, as in the paper and for an array without an affine, and one setting
    means the same there; longer axes count less in proportion.
    """
    sizes = np.asarray(voxel_sizes(affine), dtype=np.float64)
    relative = sizes / np.exp(np.log(sizes).mean())
    # sizes from an affine are rounded: cubic voxels must not come out as 1.0000001
    return [float(size) for size in np.round(relative, 6)]


@dataclass(frozen=True, eq=False)
class VolumeSpace(Space):
    """The voxels of a mask, in C order.

    Parameters
    ----------
    labels : ndarray of int32, of shape (n_x, n_y, n_z)
        0 outside; differences between voxels are taken inside a label only.
    affine : ndarray of shape (4, 4)
        From voxel indices to millimetres.
    header : nibabel.Nifti1Header
        Where the maps lie (qform, sform and their codes, units), for the files that are written.
    """

    labels: IntArray
    affine: FloatArray
    header: nib.Nifti1Header = field(repr=False)

    kind: ClassVar[str] = "volume"
    noun: ClassVar[str] = "voxels"

    @cached_property
    def mask(self) -> BoolArray:
        """Which voxels are features, of the images' shape."""
        return np.asarray(self.labels != 0)

    @cached_property
    def _n_features(self) -> int:
        return int(np.count_nonzero(self.labels))

    @property
    def n_features(self) -> int:
        """Number of voxels in the mask."""
        return self._n_features

    def structure(self) -> GridStructure:
        """Total variation on the voxels, per millimetre, inside each label."""
        return grid(self.labels, voxel_size=neighbour_distances(self.affine))

    def keep(self, kept: BoolArray) -> Self:
        """The space without the voxels that are not kept."""
        labels = self.labels.copy()
        labels[self.mask] = np.where(kept, labels[self.mask], 0)
        return replace(self, labels=labels)

    def open(self, imgs: Any) -> VolumeRows:
        """Open images that lie on the grid of the mask."""
        return self.rows(open_all(imgs))

    def rows(self, volumes: list[Volume]) -> VolumeRows:
        """Rows of opened images, which must lie on the grid of the mask."""
        for volume in volumes:
            how = difference(volume, self.labels.shape, self.affine)
            if how is not None:
                raise ImageError(f"{volume.name}: {how}, compared with the mask of the model")
        return VolumeRows(self, tuple(volumes))

    def to_images(self, rows: FloatArray, names: tuple[str, ...] = ()) -> nib.Nifti1Image:
        """A 4-D float32 image, one volume a row, zero outside of the mask."""
        rows = self._checked_rows(rows)
        values = np.zeros((*self.labels.shape, len(rows)), dtype=np.float32)
        values[self.mask] = rows.T
        return self._image(values)

    def _image(self, values: Array) -> nib.Nifti1Image:
        header = self.header.copy()
        header.set_data_dtype(values.dtype)
        # the same affine as the header's leaves the codes of its qform and sform alone
        return nib.Nifti1Image(values, self.affine, header)

    def mask_image(self) -> nib.Nifti1Image:
        """The mask as an image of 0 and 1."""
        return self._image(self.mask.astype(np.uint8))

    def _save_maps(self, rows: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        path = folder / f"{stem}.nii.gz"
        nib.save(self.to_images(rows, names), path)
        return [path]

    def masker(self) -> Any:
        """A fitted `nilearn.maskers.NiftiMasker` with the mask."""
        from nilearn.maskers import NiftiMasker

        return NiftiMasker(self.mask_image(), standardize=None, reports=False).fit()

    def as_mask(self) -> nib.Nifti1Image:
        """The labels as an image."""
        return self._image(np.asarray(self.labels))

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Labels, affine and the bytes of the header."""
        block = np.frombuffer(self.header.binaryblock, dtype=np.uint8)
        return {}, {"labels": np.asarray(self.labels), "affine": self.affine, "header": block}

    @classmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Read what `state` wrote."""
        return cls(
            labels=arrays["labels"],
            affine=arrays["affine"],
            header=nib.Nifti1Header(arrays["header"].tobytes()),
        )


@dataclass(frozen=True, eq=False)
class VolumeRows:
    """Opened images that fit their space."""

    space: VolumeSpace
    volumes: tuple[Volume, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name a row."""
        return tuple(name for volume in self.volumes for name in volume.names)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the images that have one."""
        return tuple(volume.file for volume in self.volumes if volume.file is not None)

    def fill(self, out: FloatArray) -> None:
        """Read volume after volume into the rows of `out`."""
        row = 0
        for volume in self.volumes:
            for frame in volume.frames():
                values = frame[self.space.mask]
                # too large for float32 becomes infinite, which is looked for later
                with np.errstate(over="ignore"):
                    out[row] = values
                row += 1
                tell(FileRead(row, len(out), self.names[row - 1]))
