"""Volumes: NIfTI files and objects (or whatever else nibabel reads), 3-D or 4-D; opened and compared."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import nibabel as nib
import numpy as np
from nibabel.affines import voxel_sizes
from nibabel.nifti1 import unit_codes

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.images.loading import (
    ImageError,
    check_values,
    each_image,
    image_name,
    is_compressed,
    is_path,
    open_volume,
    reading,
    streamed,
)
from spcatv.images.runs import header_t_r

# images lie on the same grid if no voxel is displaced by more than this share of a voxel
SAME_PLACE = 1e-3
RESAMPLE = "resample=True (--resample)"
# what later versions of nilearn do by default; some versions warn if it is not said
QUIETLY: dict[str, Any] = {"force_resample": True, "copy_header": True}


@dataclass(frozen=True, eq=False)
class Volume:
    """An opened image: its grid and how many samples it holds, but not yet its values."""

    name: str  # file name, or place in the list
    image: Any  # opened; its values are read later
    shape: tuple[int, int, int]  # voxels along each axis
    affine: FloatArray  # from voxel indices to millimetres, shape (4, 4)
    n_samples: int  # 1 for a 3-D image, the length of the last axis for a 4-D one
    moved: bool = False  # whether shape and affine are not those of the image, which is resampled to them
    interpolation: str = "continuous"  # how: by cubic splines, or "nearest"

    @property
    def names(self) -> list[str]:
        """The name of every sample."""
        if self.image.ndim == 3:
            return [self.name]
        return [f"{self.name}[{number}]" for number in range(self.n_samples)]

    @property
    def reference(self) -> Any:
        """An image on the grid of the frames; its values do not matter."""
        return _like(self.image, np.zeros(self.shape, np.uint8), self.affine) if self.moved else self.image

    @property
    def file(self) -> Path | None:
        """The file that holds the values; None for an array in memory."""
        filename = self.image.get_filename() if nib.is_proxy(self.image.dataobj) else None
        return Path(filename) if filename else None

    @property
    def says_orientation(self) -> bool:
        """Whether the file says how its axes lie in space; otherwise its affine is a guess of nibabel's."""
        return _says_orientation(self.image)

    @property
    def t_r(self) -> float | None:
        """Seconds between volumes, if the header states them."""
        header = self.image.header
        if self.n_samples == 1 or not isinstance(header, nib.Nifti1Header):
            return None
        return header_t_r(header.get_zooms()[3], _units(header)[1])

    def on_grid(self, shape: tuple[int, int, int], affine: FloatArray) -> Volume:
        """The same image on another grid, to which its values are resampled when they are read."""
        if difference(self, shape, affine) is None:
            return self
        return replace(self, shape=shape, affine=affine, moved=True)

    def with_own_values(self) -> Volume:
        """The same image, with values that it holds at the nearest voxels if it is resampled.

        Splines swing around zero near an edge, so that a background of zeros would be lost.
        """
        return replace(self, interpolation="nearest")

    def frames(self) -> Iterator[Array]:
        """The 3-D arrays of the samples, one after the other; only one is in memory at a time.

        Exhaust the iterator: the checksum of a compressed file is compared after the last sample.
        """
        for frame in self._own_frames():
            yield self._resampled(frame) if self.moved else frame

    def _resampled(self, frame: Array) -> Array:
        """Values on the other grid, by cubic splines as nilearn's maskers do; NaN outside the image."""
        from nilearn.image import resample_img

        image = nib.Nifti1Image(np.asarray(frame, dtype=np.float32), self.image.affine)
        with reading(self.name), warnings.catch_warnings():
            # NaN values are found and named later
            warnings.filterwarnings("ignore", message="NaNs or infinite values")
            moved = resample_img(
                image,
                target_affine=self.affine,
                target_shape=self.shape,
                interpolation=self.interpolation,
                fill_value=np.nan,
                **QUIETLY,
            )
        return np.asanyarray(moved.dataobj)

    def _own_frames(self) -> Iterator[Array]:
        """The 3-D arrays of the samples on the image's own grid; the last step checks the checksum."""
        with reading(self.name):
            opened = streamed(self.image) if is_compressed(self.file) else nullcontext(self.image)
            with opened as image:
                if image.ndim == 3:
                    yield np.asanyarray(image.dataobj)
                else:
                    for number in range(self.n_samples):
                        yield np.asanyarray(image.dataobj[..., number])


@dataclass(eq=False)
class FrameSums:
    """Running sums of frames on one grid, for the mean image; finite values only."""

    total: FloatArray  # sum of the values, shape (n_x, n_y, n_z)
    n_finite: IntArray  # frames with a finite value, same shape
    n_frames: int = 0

    @classmethod
    def zeros(cls, shape: tuple[int, ...], most: int) -> Self:
        """Sums of no frame, to which `most` frames are added at most."""
        return cls(np.zeros(shape), np.zeros(shape, dtype=np.min_scalar_type(most)))

    def add(self, frame: Array) -> None:
        """Add a frame, one slice after the other."""
        for place in range(frame.shape[2]):
            values = frame[..., place]
            finite = np.isfinite(values)
            self.total[..., place] += np.where(finite, values, 0)
            self.n_finite[..., place] += finite
        self.n_frames += 1

    def merge(self, other: FrameSums) -> None:
        """Add the sums of other frames."""
        self.total += other.total
        self.n_finite += other.n_finite
        self.n_frames += other.n_frames

    def mean(self, total: FloatArray | None = None, dtype: Any = np.float64) -> FloatArray:
        """`total`, by default that of the values, over their number; NaN where most frames have none."""
        mean: FloatArray = np.full(self.total.shape, np.nan, dtype=dtype)
        summed = self.total if total is None else total
        known = self.n_finite > self.n_frames // 2
        return np.divide(summed, self.n_finite, out=mean, where=known, casting="same_kind")


class KeptFrame:
    """The last frame in the place of sums, to be added to others later: smaller than sums of its own."""

    frame: Array

    def add(self, frame: Array) -> None:
        """Keep a frame."""
        self.frame = frame


def open_one(item: Any, name: str) -> Volume:
    """Open one image (a path or an object, unless it is open) and check its header."""
    if isinstance(item, Volume):
        return item
    image = open_volume(item) if is_path(item) else item
    shape = getattr(image, "shape", None)
    affine = getattr(image, "affine", None)
    if affine is None or shape is None or not hasattr(image, "dataobj"):
        raise ImageError(f"{name}: not a volume (NIfTI, MGH) but {type(image).__name__}")
    if len(shape) not in (3, 4):
        raise ImageError(f"{name}: images have 3 or 4 dimensions, this one has shape {tuple(shape)}")
    check_values(image, name)
    if min(shape) < 1:
        raise ImageError(f"{name}: holds no voxel, its shape is {tuple(shape)}")
    if not np.isfinite(affine).all() or abs(np.linalg.det(affine[:3, :3])) == 0:
        raise ImageError(f"{name}: its affine cannot be inverted: {np.asarray(affine).tolist()}")
    three = (int(shape[0]), int(shape[1]), int(shape[2]))
    n_samples = 1 if len(shape) == 3 else int(shape[3])
    return Volume(name, image, three, np.asarray(affine, dtype=np.float64), n_samples)


def read_one(path: str | os.PathLike[str]) -> nib.Nifti1Image:
    """Read one 3-D image into memory."""
    name = os.fspath(path)
    volume = open_one(name, name)
    if volume.image.ndim != 3:
        raise ImageError(f"{name}: one 3-D image is needed, this one has shape {volume.image.shape}")
    (values,) = volume.frames()
    return nib.Nifti1Image(np.asarray(values, np.float32), volume.affine)


def difference(volume: Volume, shape: tuple[int, ...], affine: FloatArray) -> str | None:
    """How the grid of an image differs from another one, as the end of a sentence; None if it does not."""
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


def open_each(imgs: Any) -> list[Volume]:
    """Open a list of images, or one, whatever their grids."""
    items = list(imgs) if isinstance(imgs, (list, tuple)) else [imgs]
    volumes: list[Volume] = []
    each_image(
        lambda number: open_one(items[number], image_name(items[number], number)), volumes.append, len(items)
    )
    return volumes


def open_all(imgs: Any) -> list[Volume]:
    """Open a list of images, or one, and check that they all lie on the grid of the first."""
    volumes = open_each(imgs)
    first = volumes[0]
    for volume in volumes[1:]:
        how = difference(volume, first.shape, first.affine)
        if how is not None:
            raise ImageError(
                f"{volume.name}: {how}; the first image is {first.name}; {RESAMPLE} puts all on one grid"
            )
    return volumes


def target_grid(first: Volume, target_affine: Any) -> tuple[tuple[int, int, int], FloatArray]:
    """Shape and affine of a grid that covers an image.

    `target_affine` is a voxel size in mm, or an affine of shape (3, 3) or (4, 4).
    """
    from nilearn.image import resample_img

    try:
        affine = np.asarray(target_affine, dtype=np.float64)
    except (TypeError, ValueError):
        affine = np.zeros(0)  # refused below
    if affine.ndim == 0:
        affine = np.maximum(affine, 0) * np.eye(3)
    if affine.shape not in ((3, 3), (4, 4)) or not np.isfinite(affine).all() or not np.linalg.det(affine):
        raise ImageError(
            "target_affine must be a voxel size above 0 mm, or an affine of shape (3, 3) or (4, 4) that "
            f"can be inverted; got {target_affine!r}"
        )
    box = nib.Nifti1Image(np.zeros(first.shape, dtype=np.uint8), first.affine)
    with reading(first.name):
        moved = resample_img(box, target_affine=affine, interpolation="nearest", **QUIETLY)
    n_x, n_y, n_z = map(int, moved.shape)
    return (n_x, n_y, n_z), np.asarray(moved.affine, dtype=np.float64)


def nearest(mask: Volume, shape: tuple[int, int, int], affine: FloatArray) -> nib.Nifti1Image:
    """A mask on another grid: the label of the nearest voxel, 0 outside."""
    from nilearn.image import resample_img

    (values,) = mask.frames()
    image = nib.Nifti1Image(np.asarray(values, dtype=np.float64), mask.affine)
    with reading(mask.name):
        moved = resample_img(
            image, target_affine=affine, target_shape=shape, interpolation="nearest", **QUIETLY
        )
    return _like(mask.image, np.asanyarray(moved.dataobj), affine)


def _like(image: Any, values: Array, affine: FloatArray) -> nib.Nifti1Image:
    """An image on another grid of the same space: the codes of its transforms tell which."""
    new = nib.Nifti1Image(values, affine)
    if isinstance(image.header, nib.Nifti1Header):
        for kind in ("qform", "sform"):
            getattr(new, f"set_{kind}")(affine, int(image.header[f"{kind}_code"]))
        new.header.set_xyzt_units(xyz=_units(image.header)[0])
    return new


def _units(header: nib.Nifti1Header) -> tuple[str, str]:
    """The units of length and time; "unknown" for a code that NIfTI does not have."""
    both = int(header["xyzt_units"])
    codes = (both & 7, both & 56)
    length, time = (unit_codes.label[code] if code in unit_codes.code else "unknown" for code in codes)
    return length, time


def _says_orientation(image: Any) -> bool:
    header = image.header
    if isinstance(header, nib.Nifti1Header):
        return bool(header["sform_code"] or header["qform_code"])
    if isinstance(header, nib.AnalyzeHeader):  # SPM's .mat file beside it gives another affine
        return not np.allclose(image.affine, header.get_best_affine())
    return True


def plain_header(image: Any) -> nib.Nifti1Header:
    """A new float32 NIfTI header with the position of an image and nothing else of it."""
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
        header.set_xyzt_units(xyz=_units(old)[0])
    else:
        if _says_orientation(image):  # a guess stays one: reports look at the codes
            header.set_sform(image.affine, "scanner")
            header.set_qform(image.affine, "scanner")
        header.set_xyzt_units(xyz="mm")
    return header
