"""Opening files: whatever is wrong with a file becomes an `ImageError` that names it."""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import numpy.typing as npt
from nibabel.filebasedimages import ImageFileError
from nibabel.openers import ImageOpener

unzipping: Any
try:  # unzips two to three times faster
    from isal import isal_zlib as unzipping
except ImportError:
    unzipping = zlib

# deflate makes files smaller by at most this factor
MOST_COMPRESSED = 1032
# bytes that a compressed GIFTI file may unfold to
LARGEST_GIFTI = 2**30
COMPRESSED = (".gz", ".bz2", ".zst", ".mgz")
GZIP_MAGIC = b"\x1f\x8b"
GZIP_WINDOW = 16 + zlib.MAX_WBITS  # a header and a checksum of gzip around the data
# bytes behind the values of an image that are unfolded with it
SPARE_BYTES = 2**20
# FreeSurfer's curv files: a magic number, then the numbers of vertices, faces, and values per vertex
CURV_MAGIC = b"\xff\xff\xff"
CURV_HEADER = struct.Struct(">3siii")


class ImageError(ValueError):
    """Images, masks, surfaces or confounds that cannot be used; the message names the file.

    Examples
    --------
    >>> from spcatv import ImageSPCATV
    >>> from spcatv.images import ImageError
    >>> try:
    ...     ImageSPCATV().fit(["sub-01_gm.nii.gz", "sub-02_gm.nii.gz"])
    ... except ImageError as error:
    ...     print(error)
    sub-01_gm.nii.gz: no such file
    """


@contextmanager
def image_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` into an ImageError with the same message."""
    try:
        yield
    except errors as error:
        raise ImageError(str(error)) from error


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
    except Exception as error:  # nibabel and its decoders raise nearly anything for a damaged file
        text = " ".join(str(error).split())
        known = isinstance(error, (OSError, EOFError, ValueError)) and text
        reason = text if known else f"{type(error).__name__} {text}".strip()
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


def unzipped(path: Path, image: Any) -> Any:
    """An opened image in memory, from a file that was compressed as a whole, decompressed in one go.

    nibabel would decompress in small pieces, with Python at work between them, which other threads wait for.
    What lies far behind the values that the header announces is left where it is.
    """
    most = int(image.dataobj.offset) + _announced_bytes(image) + SPARE_BYTES
    content, parts = path.read_bytes(), []
    while content.startswith(GZIP_MAGIC) and most > 0:  # a file may have several members
        decoder = unzipping.decompressobj(GZIP_WINDOW)
        parts.append(decoder.decompress(content, most))
        most -= len(parts[-1])
        content = decoder.unused_data
    return type(image).from_stream(io.BytesIO(parts[0] if len(parts) == 1 else b"".join(parts)))


def open_gifti(path: str | Path) -> nib.gifti.GiftiImage:
    """Read a GIFTI file, ``.gii`` or ``.gii.gz``."""
    path = checked_file(path)
    with reading(path):
        if path.name.endswith(".gz"):
            with gzip.open(path) as file:
                content = file.read(LARGEST_GIFTI + 1)
            if len(content) > LARGEST_GIFTI:
                raise ImageError(f"{path}: unfolds to more than {LARGEST_GIFTI:,} bytes; unzip it first")
            image = nib.gifti.GiftiImage.from_bytes(content)
        else:
            image = nib.gifti.GiftiImage.from_filename(path)
        if not image.darrays:
            raise ImageError(f"{path}: the GIFTI file holds no data array")
        return image


def check_announced_size(image: Any, name: str) -> None:
    """Refuse an image whose header announces more values than its file can hold, before they get memory."""
    filename = image.get_filename() if nib.is_proxy(image.dataobj) else None
    if not filename or not os.path.isfile(filename):
        return
    announced = _announced_bytes(image)
    on_disk = os.path.getsize(filename)
    most = on_disk * (MOST_COMPRESSED if filename.endswith(COMPRESSED) else 1)
    if announced > most:
        raise ImageError(
            f"{name}: cannot be read; its header announces {announced:,} bytes of values, but a file of "
            f"{on_disk:,} bytes holds {most:,} at most"
        )


def _announced_bytes(image: Any) -> int:
    """Bytes of the values of an image, as its header says."""
    return math.prod(map(int, image.shape)) * int(image.get_data_dtype().itemsize)


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
