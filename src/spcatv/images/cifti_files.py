"""CIFTI-2 files: opened, compared, and read in blocks of columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, SeriesAxis

from spcatv._util.types import Array
from spcatv.images.loading import ImageError, check_announced_size, image_name, is_path, open_volume, reading

# values read at a time from a file with several samples
BLOCK_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class CiftiFile:
    """An opened CIFTI-2 image whose rows are samples and whose columns are grayordinates."""

    name: str  # file name, or place in the list
    image: Cifti2Image  # opened; its values are read later
    axis: BrainModelAxis  # describes the columns

    @property
    def n_samples(self) -> int:
        """Number of maps or time points."""
        return int(self.image.shape[0])

    @property
    def is_series(self) -> bool:
        """Whether the rows are time points."""
        return isinstance(self.image.header.get_axis(0), SeriesAxis)

    @property
    def t_r(self) -> float | None:
        """Seconds between time points, if the file states them."""
        axis = self.image.header.get_axis(0)
        return float(axis.step) if isinstance(axis, SeriesAxis) and axis.unit == "SECOND" else None

    @property
    def file(self) -> Path | None:
        """The file that holds the values; None for an array in memory."""
        filename = self.image.get_filename() if nib.is_proxy(self.image.dataobj) else None
        return Path(filename) if filename else None

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Blocks of columns, each with its first column; a column is contiguous in the file."""
        n_columns = len(self.axis)
        width = max(1, BLOCK_VALUES // self.n_samples)
        with reading(self.name):
            for first in range(0, n_columns, width):
                last = min(first + width, n_columns)
                yield first, np.asanyarray(self.image.dataobj[:, first:last])


def open_cifti(item: Any, number: int) -> CiftiFile:
    """Open one ``.dscalar.nii`` or ``.dtseries.nii`` (or ``.dlabel.nii``, for a mask)."""
    name = image_name(item, number)
    image = open_volume(item) if is_path(item) else item
    if not isinstance(image, Cifti2Image):
        raise ImageError(f"{name}: not a CIFTI-2 image but {type(image).__name__}")
    if is_path(item):
        check_announced_size(image, name)
    with reading(name):
        axes = [image.header.get_axis(axis) for axis in range(image.ndim)]
    if len(axes) != 2 or not isinstance(axes[1], BrainModelAxis) or isinstance(axes[0], BrainModelAxis):
        raise ImageError(
            f"{name}: rows of grayordinates are needed (.dscalar.nii, .dtseries.nii); this file has the axes "
            f"{', '.join(type(axis).__name__ for axis in axes)}"
        )
    return CiftiFile(name, image, axes[1])


def axis_difference(axis: BrainModelAxis, reference: BrainModelAxis) -> str | None:
    """How the grayordinates of a file differ from another, as the end of a sentence; None if they do not."""
    if axis == reference:
        return None
    mine, other = structure_sizes(axis), structure_sizes(reference)
    changed = [name for name in {**mine, **other} if mine.get(name) != other.get(name)]
    if not changed:
        return "has other vertices or voxels in its structures (or another volume space)"
    return (
        f"has {mine.get(changed[0], 0)} grayordinates of {changed[0]} instead of {other.get(changed[0], 0)} "
        f"({len(axis)} instead of {len(reference)} in all)"
    )


def structure_sizes(axis: BrainModelAxis) -> dict[str, int]:
    """The number of grayordinates of every brain structure."""
    names, counts = np.unique(axis.name, return_counts=True)
    return {str(name): int(count) for name, count in zip(names, counts, strict=True)}


def open_all(imgs: Any) -> list[CiftiFile]:
    """Open a list of images, or one, and check that they have the grayordinates of the first."""
    items = list(imgs) if isinstance(imgs, (list, tuple)) else [imgs]
    files = [open_cifti(item, number) for number, item in enumerate(items)]
    for file in files[1:]:
        how = axis_difference(file.axis, files[0].axis)
        if how is not None:
            raise ImageError(f"{file.name}: {how}, as the first image, {files[0].name}")
    return files
