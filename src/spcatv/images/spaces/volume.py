"""Volumes: the voxels of a mask, from NIfTI files or whatever else nibabel reads, 3-D or 4-D."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np
from nibabel.affines import voxel_sizes
from nibabel.nifti1 import unit_codes

from spcatv._util.naming import some_of
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.images.files import (
    ImageError,
    check_values,
    file_behind,
    image_name,
    is_path,
    open_each,
    open_values,
    open_volume,
    reading,
)
from spcatv.images.masking import NONZERO, STRATEGIES, FrameSums, compute_mask
from spcatv.images.spaces.base import Samples, Space, VoxelSet, checked_labels
from spcatv.structure import GridStructure, grid

# images lie on the same grid if no voxel is displaced by more than this share of a voxel
SAME_PLACE = 1e-3
SECONDS = {"msec": 1e-3, "usec": 1e-6}
# largest number of seconds between volumes in a header that states no unit
LONGEST_STEP = 100.0


def neighbour_distances(affine: FloatArray) -> list[float]:
    """Return the distances of neighbours along each axis, over their geometric mean: 1 for cubic voxels."""
    sizes = np.asarray(voxel_sizes(affine), dtype=np.float64)
    relative = sizes / np.exp(np.log(sizes).mean())
    # rounding errors of the affine must not turn cubic voxels into 1.0000001
    return [float(size) for size in np.round(relative, 6)]


@dataclass(frozen=True, eq=False)
class VolumeSpace(Space):
    """Voxels of a mask, in C order; the labels have the shape of the images."""

    affine: FloatArray  # from voxel indices to millimetres, shape (4, 4)
    # position of the maps (qform, sform, their codes, units), for the files that are written
    header: nib.Nifti1Header = field(repr=False)

    smooths: ClassVar[bool] = True
    kind: ClassVar[str] = "volume"
    noun: ClassVar[str] = "voxels"
    suffixes: ClassVar[tuple[str, ...]] = (".nii", ".nii.gz", ".img", ".mgh", ".mgz")

    @classmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Return True: whatever no other format recognises counts as a volume."""
        return True

    @classmethod
    def open_images(cls, items: Any) -> list[Volume]:
        """Open images on any grids."""
        return open_each(items, lambda item, number: open_one(item, image_name(item, number)))

    @classmethod
    def find(
        cls, images: Sequence[Volume], mask: Any, surface: Any, cache: Path | None
    ) -> tuple[Samples, str]:
        """Return images on one grid; the mask may be computed from them."""
        if surface is not None:
            raise ImageError("surfaces were given, but the images are volumes; leave `surface` out")
        _check_one_grid(images)
        _warn_of_orientation(images)
        labels, reference, source, sums = _mask_labels(images, mask, cache)
        space = cls(labels, np.asarray(reference.affine, dtype=np.float64), plain_header(reference))
        n_labels = len(np.unique(labels[labels != 0]))
        kinds = f" with {n_labels} labels" if n_labels > 1 else ""
        n_moved = sum(volume.moved for volume in images)
        moved = f"; {n_moved} of {len(images)} images resampled to its grid" if n_moved else ""
        if sums is None or n_moved:  # a mask is found on nearest voxels
            sums = FrameSums.zeros(labels.shape, sum(volume.n_samples for volume in images))
        report = f"mask of {space.n_features:,} of {labels.size:,} voxels{kinds}, {source}{moved}"
        return Samples(space, tuple(images), sums=sums), report

    @classmethod
    def resampled(
        cls, images: Sequence[Volume], mask: Any, target_affine: Any = None
    ) -> tuple[list[Volume], Any]:
        """Return images and mask on the grid of `target_affine`, the mask or the first image."""
        first = images[0]
        no_image = mask is None or isinstance(mask, np.ndarray) or (is_path(mask) and str(mask) in STRATEGIES)
        opened = None if no_image else _open_mask(mask)
        if target_affine is not None:
            shape, affine = target_grid(first, target_affine)
        else:
            chosen = first if opened is None else opened
            shape, affine = chosen.shape, chosen.affine
        if opened is not None:
            mask = opened.on_grid(shape, affine).with_own_values()
        return [volume.on_grid(shape, affine) for volume in images], mask

    @cached_property
    def mask(self) -> BoolArray:
        """True for voxels that are features, in the shape of the images."""
        return np.asarray(self.labels != 0)

    @cached_property
    def _fortran_places(self) -> IntArray:
        """Numbers of the voxels in the box in the order of a NIfTI file."""
        return np.ravel_multi_index(np.nonzero(self.mask), self.mask.shape, order="F")

    def inside(self, frame: Array) -> Array:
        """Return the values of a 3-D array in the mask, shape (P,)."""
        if frame.flags.f_contiguous:
            return frame.reshape(-1, order="F").take(self._fortran_places)
        return frame[self.mask]

    def structure(self) -> GridStructure:
        """Return differences of neighbouring voxels inside each label, over `neighbour_distances`."""
        return grid(self.labels, voxel_size=neighbour_distances(self.affine))

    def check(self, image: Volume) -> None:
        """Refuse an image on another grid than that of the mask."""
        how = difference(image, self.labels.shape, self.affine)
        if how is not None:
            raise ImageError(
                f"{image.name}: {how}, compared with the mask of the model; resample it to that grid first, "
                "or fit with resample=True"
            )

    def read_image(
        self, image: Volume, out: FloatArray, fwhm: float | None, summed: bool
    ) -> FrameSums | Array | None:
        """Read an opened image, one sample after the other."""
        sums = FrameSums.zeros(self.labels.shape, len(out)) if summed and len(out) > 1 else None
        for row, frame in zip(out, image.frames(), strict=True):
            if sums is not None:
                sums.add(frame)
            row[:] = self.inside(frame if fwhm is None else self._smoothed(frame, fwhm))
        return frame if summed and sums is None else sums

    def _smoothed(self, frame: Array, fwhm: float) -> Array:
        """Smooth as nilearn, for which NaN and infinite values count as zero, but keep these in place."""
        from nilearn.image import smooth_img

        image = nib.Nifti1Image(np.asarray(frame, dtype=np.float32), self.affine)
        values = np.asanyarray(smooth_img(image, fwhm).dataobj)
        return np.where(np.isfinite(frame), values, np.nan)

    def mean_image(self, sums: FrameSums) -> nib.Nifti1Image:
        """Return the mean of images in the whole box; NaN where most have no value."""
        return self._image(sums.mean(dtype=np.float32))

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> nib.Nifti1Image:
        """Return a 4-D float32 image, one volume per map, zero outside the mask."""
        return self._image(self.on_all_places(maps).reshape(*self.labels.shape, -1))

    def _image(self, values: Array) -> nib.Nifti1Image:
        header = self.header.copy()
        header.set_data_dtype(values.dtype)
        # an affine equal to that of the header leaves the codes of its qform and sform as they are
        return nib.Nifti1Image(values, self.affine, header)

    def mask_image(self) -> nib.Nifti1Image:
        """Return the mask as an image of 0 and 1."""
        return self._image(self.mask.astype(np.uint8))

    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        path = folder / f"{stem}.nii.gz"
        nib.save(self.to_images(maps, names), path)
        return [path]

    def masker(self) -> Any:
        """Return a fitted `nilearn.maskers.NiftiMasker` with the mask."""
        from nilearn.maskers import NiftiMasker

        return NiftiMasker(self.mask_image(), standardize=None, reports=False).fit()

    def as_mask(self) -> nib.Nifti1Image:
        """Return the labels as an image."""
        return self._image(np.asarray(self.labels))

    @cached_property
    def voxel_set(self) -> VoxelSet:
        """All features."""
        return VoxelSet(0, np.argwhere(self.mask), np.asarray(self.affine, dtype=np.float64))

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return labels, affine and the bytes of the header."""
        block = np.frombuffer(self.header.binaryblock, dtype=np.uint8)
        return {}, {"labels": np.asarray(self.labels), "affine": self.affine, "header": block}

    @classmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the space that `state` has described."""
        return cls(
            labels=arrays["labels"],
            affine=arrays["affine"],
            header=nib.Nifti1Header(arrays["header"].tobytes()),
        )


def _mask_labels(
    volumes: Sequence[Volume], mask: Any, cache: Path | None
) -> tuple[IntArray, Any, str, FrameSums | None]:
    """Return the labels of a mask, the image whose header maps get, their source, and sums for the mask."""
    first = volumes[0]
    if mask is None or (isinstance(mask, str) and mask in STRATEGIES):
        inside, source, sums = compute_mask(mask or NONZERO, volumes, cache)
        return inside.astype(np.int32), first.reference, source, sums
    if isinstance(mask, np.ndarray):
        if mask.shape != first.shape:
            raise ImageError(f"the mask array has shape {mask.shape}, but the images have {first.shape}")
        return checked_labels(mask, "the mask array"), first.reference, "given as an array", None
    if is_path(mask) and not Path(mask).expanduser().exists():
        known = ", ".join(map(repr, STRATEGIES))
        raise ImageError(f"{mask}: no such file, nor a strategy for a mask ({known})")
    opened = _open_mask(mask)
    if opened.n_samples != 1:
        raise ImageError(f"{opened.name}: a mask is one 3-D image, this one has {opened.n_samples} volumes")
    how = difference(opened, first.shape, first.affine)
    if how is not None:
        raise ImageError(
            f"{opened.name}: the mask does not fit the image {first.name}: it {how}; "
            "resample=True resamples the images to the grid of the mask"
        )
    (values,) = opened.frames()
    values = np.nan_to_num(values) if opened.moved else values  # no label outside the mask image
    return checked_labels(values, opened.name), opened.reference, f"given ({opened.name})", None


def _open_mask(mask: Any) -> Volume:
    filename = mask.get_filename() if hasattr(mask, "get_filename") else None
    return open_one(mask, str(mask) if is_path(mask) else str(filename or "the mask"))


def _warn_of_orientation(volumes: Sequence[Volume]) -> None:
    """Warn about files that do not state their orientation: left and right are then a guess."""
    unknown = [volume.name for volume in volumes if not _says_orientation(volume.image)]
    if unknown:
        warn_user(
            f"{some_of(unknown)}: the header does not state the orientation (no sform or qform, as "
            "in Analyze files): left and right are guessed, and so are positions in mm; check them on a map, "
            "or convert the files with their orientation",
            UserWarning,
        )


@dataclass(frozen=True, eq=False)
class Volume:
    """An opened image: its grid and how many samples it holds, but not yet its values."""

    name: str  # file name, or place in the list
    image: Any  # opened; its values are read later
    shape: tuple[int, int, int]  # voxels along each axis
    affine: FloatArray  # from voxel indices to millimetres, shape (4, 4)
    n_samples: int  # 1 for a 3-D image, the length of the last axis for a 4-D one
    moved: bool = False  # true if the image is resampled to another grid, of this shape and affine
    interpolation: str = "continuous"  # by cubic splines, or "nearest"
    is_series: ClassVar[bool] = True  # several volumes count as a time series

    @property
    def reference(self) -> Any:
        """Image on the grid of the frames; its values do not matter."""
        return _like(self.image, np.zeros(self.shape, np.uint8), self.affine) if self.moved else self.image

    @property
    def files(self) -> tuple[Path, ...]:
        """File that holds the values; none for an array in memory."""
        file = file_behind(self.image)
        return () if file is None else (file,)

    @property
    def t_r(self) -> float | None:
        """Seconds between volumes, if the header states them."""
        header = self.image.header
        if self.n_samples == 1 or not isinstance(header, nib.Nifti1Header):
            return None
        unit = _units(header)[1]
        seconds = float(header.get_zooms()[3]) * SECONDS.get(unit, 1.0)
        return seconds if seconds > 0 and (unit in (*SECONDS, "sec") or seconds < LONGEST_STEP) else None

    def on_grid(self, shape: tuple[int, int, int], affine: FloatArray) -> Volume:
        """Return the same image on another grid, to which its values are resampled when they are read."""
        if difference(self, shape, affine) is None:
            return self
        return replace(self, shape=shape, affine=affine, moved=True)

    def with_own_values(self) -> Volume:
        """Return the same image, resampled by the nearest voxel if it is resampled at all.

        Splines swing around zero near an edge, so that a background of zeros would be lost.
        """
        return replace(self, interpolation="nearest")

    def frames(self) -> Iterator[Array]:
        """Yield the 3-D arrays of the samples; only one is in memory at a time.

        Exhaust the iterator: the checksum of a compressed file is compared after the last sample.
        """
        with reading(self.name), open_values(self.image) as values:
            for number in range(self.n_samples):
                frame = np.asanyarray(values if self.image.ndim == 3 else values[..., number])
                yield self._resampled(frame) if self.moved else frame

    def _resampled(self, frame: Array) -> Array:
        """Resample values to the other grid as nilearn's maskers do; NaN outside the image."""
        dtype = np.float64 if self.interpolation == "nearest" else np.float32  # labels may be large
        image = nib.Nifti1Image(np.asarray(frame, dtype=dtype), self.image.affine)
        place = {"target_affine": self.affine, "target_shape": self.shape}
        moved = _resample(image, self.name, **place, interpolation=self.interpolation, fill_value=np.nan)
        return np.asanyarray(moved.dataobj)


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
    """Return the difference of an image's grid from another, as the end of a sentence; None if equal."""
    if volume.shape != tuple(shape):
        return f"has shape {_times(volume.shape)} instead of {_times(shape)}"
    if np.array_equal(volume.affine, affine):
        return None
    corners = np.array(np.meshgrid(*[(0, n - 1) for n in shape], indexing="ij")).reshape(3, -1)
    shift = (volume.affine - affine)[:3] @ np.vstack([corners, np.ones(corners.shape[1])])
    distance = float(np.linalg.norm(shift, axis=0).max())
    mine, other = voxel_sizes(volume.affine), voxel_sizes(affine)
    if distance <= SAME_PLACE * float(other.min()):
        return None
    found = []
    if not np.allclose(mine, other, rtol=1e-3):
        found.append(f"voxels of {_times(mine)} instead of {_times(other)} mm")
    elif not np.allclose(volume.affine[:3, :3], affine[:3, :3], atol=1e-3):
        found.append("another orientation")
    if not np.allclose(volume.affine[:3, 3], affine[:3, 3], atol=1e-3):
        found.append(f"origin {_list(volume.affine[:3, 3])} instead of {_list(affine[:3, 3])} mm")
    found.append(f"voxels lie up to {distance:.3g} mm apart")
    return f"has another affine ({', '.join(found)})"


def _times(numbers: Sequence[Any] | FloatArray) -> str:
    return " x ".join(f"{number:g}" for number in numbers)


def _list(numbers: FloatArray) -> str:
    return "(" + ", ".join(f"{number:.4g}" for number in numbers) + ")"


def _check_one_grid(volumes: Sequence[Volume]) -> None:
    """Refuse images that do not lie on the grid of the first."""
    first = volumes[0]
    for volume in volumes[1:]:
        how = difference(volume, first.shape, first.affine)
        if how is not None:
            raise ImageError(
                f"{volume.name}: {how}; the first image is {first.name}; resample=True puts all on one grid"
            )


def target_grid(first: Volume, target_affine: Any) -> tuple[tuple[int, int, int], FloatArray]:
    """Return shape and affine of a grid that covers an image, from a voxel size in mm or an affine."""
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
    moved = _resample(box, first.name, target_affine=affine, interpolation="nearest")
    n_x, n_y, n_z = map(int, moved.shape)
    return (n_x, n_y, n_z), np.asarray(moved.affine, dtype=np.float64)


def _resample(image: nib.Nifti1Image, name: str, **options: Any) -> nib.Nifti1Image:
    """Resample an image with nilearn; `name` is that of its file, for errors."""
    from nilearn.image import resample_img

    with reading(name), warnings.catch_warnings():
        # NaN values are found and named later
        warnings.filterwarnings("ignore", message="NaNs or infinite values")
        # some versions of nilearn warn unless these are given
        return resample_img(image, force_resample=True, copy_header=True, **options)


def _like(image: Any, values: Array, affine: FloatArray) -> nib.Nifti1Image:
    """Return an image on another grid of the same space, which the codes of its transforms name."""
    new = nib.Nifti1Image(values, affine)
    if isinstance(image.header, nib.Nifti1Header):
        for kind in ("qform", "sform"):
            getattr(new, f"set_{kind}")(affine, int(image.header[f"{kind}_code"]))
        new.header.set_xyzt_units(xyz=_units(image.header)[0])
    return new


def _units(header: nib.Nifti1Header) -> tuple[str, str]:
    """Return the units of length and time; "unknown" for a code that NIfTI does not have."""
    both = int(header["xyzt_units"])  # one code may be known and the other not
    codes = (both & 7, both & 56)
    length, time = (unit_codes.label[code] if code in unit_codes.code else "unknown" for code in codes)
    return length, time


def _says_orientation(image: Any) -> bool:
    """Return False if the header does not state the orientation, and nibabel has guessed the affine."""
    header = image.header
    if isinstance(header, nib.Nifti1Header):
        return bool(header["sform_code"] or header["qform_code"])
    if isinstance(header, nib.AnalyzeHeader):  # SPM's .mat file beside it gives another affine
        return not np.allclose(image.affine, header.get_best_affine())
    return True


def plain_header(image: Any) -> nib.Nifti1Header:
    """Return a new float32 NIfTI header with the position of an image and nothing else of it."""
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
