"""Volumes: the voxels of a mask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np
from nibabel.affines import voxel_sizes

from spcatv._util.naming import some_of
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.images.loading import ImageError, is_path
from spcatv.images.mask_rules import STRATEGIES
from spcatv.images.runs import Run, consecutive
from spcatv.images.space import Opened, Samples, SmoothableSamples, Space, VoxelSet
from spcatv.images.volume_files import (
    FrameSums,
    KeptFrame,
    Volume,
    difference,
    nearest,
    open_all,
    open_each,
    open_one,
    plain_header,
    target_grid,
)
from spcatv.images.volume_mask import find_mask
from spcatv.structure import GridStructure, grid


def neighbour_distances(affine: FloatArray) -> list[float]:
    """Distance between neighbouring voxels along each axis, in units of the geometric mean of the three.

    Cubic voxels then have distance 1, as in the paper and in an array without an affine, so that a setting
    of the penalty means the same there. Differences along longer axes count proportionally less.
    """
    sizes = np.asarray(voxel_sizes(affine), dtype=np.float64)
    relative = sizes / np.exp(np.log(sizes).mean())
    # rounding errors of the affine must not turn cubic voxels into 1.0000001
    return [float(size) for size in np.round(relative, 6)]


@dataclass(frozen=True, eq=False)
class VolumeSpace(Space):
    """The voxels of a mask, in C order."""

    # 0 is outside; differences between voxels are taken inside a label only, shape (n_x, n_y, n_z)
    labels: IntArray
    affine: FloatArray  # from voxel indices to millimetres, shape (4, 4)
    # position of the maps (qform, sform, their codes, units), for the files that are written
    header: nib.Nifti1Header = field(repr=False)

    kind: ClassVar[str] = "volume"
    noun: ClassVar[str] = "voxels"
    suffixes: ClassVar[tuple[str, ...]] = (".nii", ".nii.gz", ".img", ".mgh", ".mgz")

    @classmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Whatever no other format takes counts as a volume."""
        return True

    @classmethod
    def find(cls, imgs: Any, mask: Any, surface: Any) -> Opened:
        """Open images on one grid; the mask may be computed from them."""
        if surface is not None:
            raise ImageError("surfaces were given, but the images are volumes; leave `surface` out")
        volumes = open_all(imgs)
        _warn_of_sides(volumes)

        def place() -> tuple[Space, Samples, str]:
            labels, reference, report = find_mask(volumes, mask)
            affine = np.asarray(reference.affine, dtype=np.float64)
            space = cls(labels=labels, affine=affine, header=plain_header(reference))
            n_moved = sum(volume.moved for volume in volumes)
            moved = f"; {n_moved} of {len(volumes)} images resampled to its grid" if n_moved else ""
            return space, space.samples(volumes), report + moved

        return Opened(tuple(name for opened in volumes for name in opened.names), place)

    @classmethod
    def resampled(cls, imgs: Any, mask: Any, target_affine: Any = None) -> tuple[list[Volume], Any]:
        """Images and mask on one grid: that of `target_affine`, else of the mask, else of the first image."""
        volumes = open_each(imgs)
        first = volumes[0]
        is_rule = mask is None or isinstance(mask, np.ndarray) or (is_path(mask) and str(mask) in STRATEGIES)
        opened = None if is_rule else open_one(mask, str(mask) if is_path(mask) else "the mask")
        if target_affine is not None:
            shape, affine = target_grid(first, target_affine)
        else:
            chosen = first if opened is None else opened
            shape, affine = chosen.shape, chosen.affine
        if opened is not None and opened.n_samples == 1 and difference(opened, shape, affine) is not None:
            mask = nearest(opened, shape, affine)
        return [volume.on_grid(shape, affine) for volume in volumes], mask

    @cached_property
    def mask(self) -> BoolArray:
        """True for the voxels that are features, in the shape of the images."""
        return np.asarray(self.labels != 0)

    @cached_property
    def n_features(self) -> int:
        """Number of voxels in the mask."""
        return int(np.count_nonzero(self.labels))

    def places(self) -> IntArray:
        """The numbers of the voxels in the box, in C order."""
        return np.flatnonzero(self.mask)

    @cached_property
    def _fortran_places(self) -> IntArray:
        """The numbers of the voxels in the box in the order of a NIfTI file."""
        return np.ravel_multi_index(np.nonzero(self.mask), self.mask.shape, order="F")

    def inside(self, frame: Array) -> Array:
        """The values of a 3-D array in the mask, shape (P,)."""
        if frame.flags.f_contiguous:
            return frame.reshape(-1, order="F").take(self._fortran_places)
        return frame[self.mask]

    def structure(self) -> GridStructure:
        """Differences of neighbouring voxels inside each label, over `neighbour_distances`."""
        return grid(self.labels, voxel_size=neighbour_distances(self.affine))

    def keep(self, kept: BoolArray) -> Self:
        """The space without the voxels that are not kept."""
        labels = self.labels.copy()
        labels[self.mask] = np.where(kept, labels[self.mask], 0)
        return replace(self, labels=labels)

    def open(self, imgs: Any) -> VolumeSamples:
        """Open images that lie on the grid of the mask."""
        return self.samples(open_all(imgs))

    def samples(self, volumes: list[Volume]) -> VolumeSamples:
        """Samples of opened images, which must lie on the grid of the mask."""
        for volume in volumes:
            how = difference(volume, self.labels.shape, self.affine)
            if how is not None:
                raise ImageError(
                    f"{volume.name}: {how}, compared with the mask of the model; resample it "
                    "to that grid first, or fit with resample=True (--resample)"
                )
        n_samples = sum(volume.n_samples for volume in volumes)
        return VolumeSamples(self, tuple(volumes), FrameSums.zeros(self.labels.shape, n_samples))

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> nib.Nifti1Image:
        """A 4-D float32 image, one volume per map, zero outside the mask."""
        maps = self._checked_maps(maps)
        values = np.zeros((*self.labels.shape, len(maps)), dtype=np.float32)
        values[self.mask] = maps.T
        return self._image(values)

    def _image(self, values: Array) -> nib.Nifti1Image:
        header = self.header.copy()
        header.set_data_dtype(values.dtype)
        # an affine equal to that of the header leaves the codes of its qform and sform as they are
        return nib.Nifti1Image(values, self.affine, header)

    def mask_image(self) -> nib.Nifti1Image:
        """The mask as an image of 0 and 1."""
        return self._image(self.mask.astype(np.uint8))

    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        path = folder / f"{stem}.nii.gz"
        nib.save(self.to_images(maps, names), path)
        return [path]

    def masker(self) -> Any:
        """A fitted `nilearn.maskers.NiftiMasker` with the mask."""
        from nilearn.maskers import NiftiMasker

        return NiftiMasker(self.mask_image(), standardize=None, reports=False).fit()

    def as_mask(self) -> nib.Nifti1Image:
        """The labels as an image."""
        return self._image(np.asarray(self.labels))

    @cached_property
    def voxel_set(self) -> VoxelSet:
        """All features."""
        return VoxelSet(0, np.argwhere(self.mask), np.asarray(self.affine, dtype=np.float64))

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
class VolumeSamples(SmoothableSamples):
    """Opened images on the grid of their space."""

    space: VolumeSpace
    volumes: tuple[Volume, ...]
    # of all values that were read, also outside the mask; None if nobody asks
    sums: FrameSums | KeptFrame | None

    def images(self) -> list[VolumeSamples]:
        """The samples of every image."""
        return [replace(self, volumes=(volume,), sums=None) for volume in self.volumes]

    def summing(self) -> VolumeSamples:
        """The same samples with sums of their own."""
        n_samples, shape = len(self.names), self.space.labels.shape
        return replace(self, sums=KeptFrame() if n_samples == 1 else FrameSums.zeros(shape, n_samples))

    def add_sums(self, image: Samples) -> None:
        """Add the sums of an image."""
        if not isinstance(self.sums, FrameSums) or not isinstance(image, VolumeSamples):
            return
        if isinstance(image.sums, KeptFrame):
            self.sums.add(image.sums.frame)
        elif image.sums is not None:
            self.sums.merge(image.sums)

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One per image; a 4-D image counts as a time series."""
        return consecutive((v.name, v.n_samples, (v.file,), v.t_r, True) for v in self.volumes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name per sample."""
        return tuple(name for volume in self.volumes for name in volume.names)

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the images that have one."""
        return tuple(volume.file for volume in self.volumes if volume.file is not None)

    def _filled(self, out: FloatArray) -> Iterator[None]:
        frames = (frame for volume in self.volumes for frame in volume.frames())
        for row, frame in zip(out, frames, strict=True):
            values = self._smoothed(frame)
            if self.sums is not None:
                self.sums.add(values)
            row[:] = self.space.inside(values)
            yield

    def mean_img(self) -> nib.Nifti1Image | None:
        """The mean of the images as they were read, in the whole box; NaN where most have no value."""
        if not isinstance(self.sums, FrameSums) or self.sums.n_frames != len(self.names):
            return None
        return self.space._image(self.sums.mean(dtype=np.float32))

    def _smoothed(self, frame: Array) -> Array:
        """As nilearn smooths: NaN and infinite values count as zero; but they stay where they were."""
        if self.fwhm is None:
            return frame
        from nilearn.image import smooth_img

        image = nib.Nifti1Image(np.asarray(frame, dtype=np.float32), self.space.affine)
        values = np.asanyarray(smooth_img(image, self.fwhm).dataobj)
        return np.where(np.isfinite(frame), values, np.nan)


def _warn_of_sides(volumes: Sequence[Volume]) -> None:
    """Warn of files that do not say where left is: maps and tables would name sides all the same."""
    unknown = [volume.name for volume in volumes if not volume.says_orientation]
    if unknown:
        warn_user(
            f"{some_of(unknown)}: the header does not say how the image is oriented (no sform or qform, as "
            "in Analyze files): left and right are guessed, and so are positions in mm; check them on a map, "
            "or convert the files with their orientation",
            UserWarning,
        )
