"""CIFTI-2 files: opened, compared, and read in blocks of columns.

What a file says about its grayordinates takes nibabel half a second to parse, and all files of a study say
the same. It is parsed once; the bytes of other files are compared with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.parsers import expat

import nibabel as nib
import numpy as np
from nibabel.arrayproxy import reshape_dataobj
from nibabel.cifti2 import BrainModelAxis, Cifti2Image, SeriesAxis
from nibabel.cifti2.parse_cifti2 import Cifti2Extension, Cifti2Parser

from spcatv._util.types import Array
from spcatv.images.loading import (
    ImageError,
    check_values,
    checked_file,
    each_image,
    image_name,
    is_compressed,
    is_path,
    open_stream,
    open_volume,
    reading,
)

# values read at a time from a file with several samples
BLOCK_VALUES = 4_000_000


@dataclass(frozen=True, eq=False)
class CiftiFile:
    """An opened CIFTI-2 image whose rows are samples and whose columns are grayordinates."""

    name: str  # file name, or place in the list
    values: Any  # array, or one that is read from the file when it is sliced, shape (n_samples, G)
    file: Path | None  # the file that holds the values; None for an array in memory
    rows: Any  # axis that describes the rows
    axis: BrainModelAxis  # describes the columns

    @property
    def n_samples(self) -> int:
        """Number of maps or time points."""
        return int(self.values.shape[0])

    @property
    def is_series(self) -> bool:
        """Whether the rows are time points."""
        return isinstance(self.rows, SeriesAxis)

    @property
    def t_r(self) -> float | None:
        """Seconds between time points, if the file states them."""
        return float(self.rows.step) if self.is_series and self.rows.unit == "SECOND" else None

    def blocks(self) -> Iterator[tuple[int, Array]]:
        """Blocks of columns, each with its first column; a column is contiguous in the file."""
        n_columns = len(self.axis)
        width = max(1, BLOCK_VALUES // self.n_samples)
        with reading(self.name):
            if self.file is not None and is_compressed(self.file):
                with open_stream(self.file):  # compares the checksum
                    pass
            for first in range(0, n_columns, width):
                last = min(first + width, n_columns)
                yield first, np.asanyarray(self.values[:, first:last])


# Axes of grayordinates, by the bytes of the XML that describes them.
KnownAxes = dict[bytes, BrainModelAxis]


def open_cifti(item: Any, number: int, known: KnownAxes | None = None) -> CiftiFile:
    """Open one ``.dscalar.nii`` or ``.dtseries.nii`` (or ``.dlabel.nii``, for a mask).

    An axis that is known is not parsed again, and one that is not becomes known.
    """
    name = image_name(item, number)
    if known is not None and is_path(item):
        path = checked_file(item)
        with suppress(Exception):  # whatever is unusual, nibabel knows it or says what is wrong
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
    filename = image.get_filename() if nib.is_proxy(image.dataobj) else None
    return CiftiFile(name, image.dataobj, Path(filename) if filename else None, axes[0], axes[1])


def _compared(path: Path, name: str, known: KnownAxes) -> CiftiFile:
    """Open a file whose rows are samples and whose columns are grayordinates; any error if it is another."""
    image = nib.Nifti2Image.from_filename(path)
    check_values(image, name)
    xml = next(e.content for e in image.header.extensions if isinstance(e, Cifti2Extension)).rstrip(b"\0")
    first, last = _columns_in(xml)
    columns = xml[first:last]
    if columns not in known:
        known[columns] = _axis(xml, 1)
    axis, rows = known[columns], _axis(xml[:first] + xml[last:], 0)
    values = reshape_dataobj(image.dataobj, image.shape[4:])
    if not isinstance(axis, BrainModelAxis) or values.shape != (len(rows), len(axis)):
        raise ValueError("not samples of grayordinates")
    return CiftiFile(name, values, path, rows, axis)


def _axis(xml: bytes, number: int) -> Any:
    parser = Cifti2Parser()
    parser.parse(string=xml)
    return parser.header.get_axis(number)


def _columns_in(xml: bytes) -> tuple[int, int]:
    """Where the element that describes the columns of a CIFTI-2 file begins and ends."""
    element, ends = "MatrixIndicesMap", []
    parser = expat.ParserCreate()

    def start(tag: str, attributes: dict[str, str]) -> None:
        if tag == element and attributes["AppliesToMatrixDimension"] == "1":
            ends.append(parser.CurrentByteIndex)

    def end(tag: str) -> None:
        if tag == element and len(ends) == 1:
            ends.append(xml.index(b">", parser.CurrentByteIndex) + 1)

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(xml, True)
    first, last = ends
    return first, last


def axis_difference(axis: BrainModelAxis, reference: BrainModelAxis) -> str | None:
    """How the grayordinates of a file differ from another, as the end of a sentence; None if they do not."""
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


def open_all(imgs: Any) -> list[CiftiFile]:
    """Open a list of images, or one, and check that they have the grayordinates of the first."""
    items = list(imgs) if isinstance(imgs, (list, tuple)) else [imgs]
    known: KnownAxes = {}
    files: list[CiftiFile] = []
    each_image(lambda number: open_cifti(items[number], number, known), files.append, len(items))
    for file in files[1:]:
        how = axis_difference(file.axis, files[0].axis)
        if how is not None:
            raise ImageError(f"{file.name}: {how}, as the first image, {files[0].name}")
    return files
