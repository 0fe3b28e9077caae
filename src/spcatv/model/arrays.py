"""Arrays in one ``.npz`` file, a zip file of ``.npy`` files, read without trusting its content.

The sizes that a file declares are compared with what it can hold before anything is allocated, and nothing is
ever unpickled.
"""

from __future__ import annotations

import math
import re
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from spcatv._util.files import MOST_COMPRESSED, open_regular
from spcatv._util.types import Array
from spcatv.model.codec import ModelError

# Letters and digits with single separators between them: a safe file name on every system.
NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")
# Characters of the header of a .npy file; that of a plain array is one short line.
LONGEST_HEADER = 512
# Errors of `read_npz` for a damaged file.
BROKEN_NPZ = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write plain finite numbers; the same arrays give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            check_array(name, array)
            # a bare ZipInfo has a fixed date instead of the time of writing
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_arrays(path: Path) -> dict[str, Array]:
    """Read what `write_arrays` has written, and raise a ModelError if it is damaged."""
    try:
        arrays = read_npz(path, largest=path.stat().st_size)
    except BROKEN_NPZ as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ModelError(f"{path} is damaged, or not a file of arrays: {reason}") from error
    for name, array in arrays.items():
        check_array(name, array, f" of {path}")
    return arrays


def check_array(name: str, array: Array, where: str = "") -> None:
    """Raise a ModelError unless the array has a safe name and holds plain finite numbers."""
    if not NAME.fullmatch(name):
        raise ModelError(f"{name!r}{where} cannot name an array: use letters, digits and single . _ -")
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ModelError(f"the array {name!r}{where} has the type {array.dtype}; only plain numbers are kept")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        n_wrong = int(array.size - np.isfinite(array).sum())
        raise ModelError(f"the array {name!r}{where} holds {n_wrong} values that are NaN or infinite")


def read_npz(
    path: Path, choose: Callable[[list[str]], Sequence[str]] = list, *, largest: int | None = None
) -> dict[str, Array]:
    """Read arrays of an ``.npz`` file.

    `choose` returns the names of the arrays to read from the names of all; by default, all are read. One of
    `BROKEN_NPZ` is raised if the file is damaged, or if the arrays have more than `largest` bytes together.
    """
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        chosen = {name: entries[name] for name in choose(list(entries))}
        # entries of a malicious file may overlap
        if largest is not None and sum(entry.file_size for entry in chosen.values()) > largest:
            raise ValueError(f"its arrays are larger than {largest:,} bytes")
        return {name: _read_entry(archive, entry) for name, entry in chosen.items()}


def _read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Array:
    name, size = info.filename, info.file_size
    if size > MOST_COMPRESSED * max(info.compress_size, 1):
        raise ValueError(f"its entry {name} declares {size:,} bytes, more than it can hold")
    with archive.open(info) as entry:
        shape, dtype = _read_header(entry)
        if entry.tell() + math.prod(shape) * dtype.itemsize != size:
            raise ValueError(f"its entry {name} declares the shape {shape}, but has {size:,} bytes")
    with archive.open(info) as entry:  # the checksum is compared when the last byte is read
        return np.asarray(np.lib.format.read_array(entry, allow_pickle=False, max_header_size=LONGEST_HEADER))


def _read_header(entry: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(entry)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the .npy format is not used for plain numbers")
    shape, _, dtype = readers[version](entry, max_header_size=LONGEST_HEADER)
    return shape, dtype
