"""Opening files: whatever is wrong with a file becomes an `ImageError` that names it."""

from __future__ import annotations

import binascii
import gzip
import io
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.parsers.expat import ExpatError

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.filebasedimages import ImageFileError
from nibabel.openers import ImageOpener
from nibabel.spatialimages import HeaderDataError
from nibabel.wrapstruct import WrapStructError

# what nibabel and the decoders it uses raise for truncated or damaged files
UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    IndexError,
    struct.error,
    TypeError,  # a truncated header of an MGH file
    binascii.Error,
    zlib.error,
    ExpatError,
    ImageFileError,
    HeaderDataError,
    WrapStructError,
)
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 16 + zlib.MAX_WBITS  # a header and a checksum of gzip around the data
# FreeSurfer's curv files: a magic number, then the numbers of vertices, faces, and values per vertex
CURV_MAGIC = b"\xff\xff\xff"
CURV_HEADER = struct.Struct(">3siii")


class ImageError(ValueError):
    """Images, masks, surfaces or confounds that cannot be used; the message names the file."""


def is_path(item: Any) -> bool:
    """Whether `item` is a file name rather than an image."""
    return isinstance(item, (str, Path))


def image_name(item: Any, number: int) -> str:
    """The file name of an image if it has one, otherwise its place in the list (from 1)."""
    if is_path(item):
        return str(item)
    filename = item.get_filename() if hasattr(item, "get_filename") else None
    return str(filename) if filename else f"image {number + 1}"


def checked_file(path: str | Path) -> Path:
    """The path, if it names an existing file that can be read."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise ImageError(f"{path}: is a directory, not an image; name the files in it")
    if not path.exists():
        raise ImageError(f"{path}: no such file")
    if not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        raise ImageError(f"{path}: cannot be read (permission denied)")
    return path


@contextmanager
def reading(name: str | Path) -> Iterator[None]:
    """Turn what a decoder raises while it reads `name` into an ImageError."""
    try:
        yield
    except ImageError:
        raise
    except ImageFileError as error:
        raise ImageError(
            f"{name}: not an image that can be read (NIfTI, CIFTI-2, GIFTI, MGH/MGZ or FreeSurfer curv)"
        ) from error
    except UNREADABLE as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ImageError(
            f"{name}: cannot be read; it is damaged, cut short or no image ({reason})"
        ) from error


def open_volume(path: str | Path) -> Any:
    """Open a NIfTI, CIFTI-2 or MGH file; its values are read later."""
    path = checked_file(path)
    with reading(path):
        return nib.load(path)


@contextmanager
def held_open(path: Path, image_class: Any) -> Iterator[Any]:
    """An image whose file stays open, so that all slices of a compressed file cost one pass."""
    with ImageOpener(path) as file:
        yield image_class.from_stream(file.fobj)


def unzipped(path: Path, image_class: Any) -> Any:
    """An image in memory from a file that was compressed as a whole, decompressed in one go.

    nibabel would decompress in small pieces, with Python at work between them, which other threads wait for.
    """
    content, parts = path.read_bytes(), []
    while content.startswith(GZIP_MAGIC):  # a file may have several members
        decoder = zlib.decompressobj(GZIP_WINDOW)
        parts.append(decoder.decompress(content))
        content = decoder.unused_data
    return image_class.from_stream(io.BytesIO(parts[0] if len(parts) == 1 else b"".join(parts)))


def open_gifti(path: str | Path) -> nib.gifti.GiftiImage:
    """Read a GIFTI file, ``.gii`` or ``.gii.gz``."""
    path = checked_file(path)
    with reading(path):
        if path.name.endswith(".gz"):
            with gzip.open(path) as file:
                image = nib.gifti.GiftiImage.from_bytes(file.read())
        else:
            image = nib.gifti.GiftiImage.from_filename(path)
        if not image.darrays:
            raise ImageError(f"{path}: the GIFTI file holds no data array")
        return image


def is_curv(path: Path) -> bool:
    """Whether the file begins like a FreeSurfer curv file (``lh.thickness``, ``rh.sulc``, ...)."""
    with reading(path), path.open("rb") as file:
        return file.read(len(CURV_MAGIC)) == CURV_MAGIC


def read_curv(path: Path) -> npt.NDArray[np.float32]:
    """Values of a curv file, shape (n_vertices,)."""
    with reading(path):
        content = path.read_bytes()
        if len(content) < CURV_HEADER.size:
            raise ImageError(f"{path}: cannot be read; a curv file of {len(content)} bytes is cut short")
        _, n_vertices, _, n_values = CURV_HEADER.unpack_from(content)
        found = (len(content) - CURV_HEADER.size) // 4
        if n_values != 1 or found != n_vertices:
            raise ImageError(
                f"{path}: cannot be read; its header announces {n_vertices} vertices with {n_values} "
                f"value(s), but {found} values follow"
            )
        return np.frombuffer(content, dtype=">f4", offset=CURV_HEADER.size).astype(np.float32)
