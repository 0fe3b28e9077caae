"""Arrays in one ``.npz`` file, read without trusting it.

An ``.npz`` file is a zip file of ``.npy`` files. Ours holds plain numbers only and is not compressed, so no
array is larger than its bytes on disk. Before anything is allocated, the sizes that the file claims are
compared with its size on disk. Nothing is ever unpickled.
"""

from __future__ import annotations

import math
import re
import struct
import tokenize
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from spcatv._util.files import MOST_COMPRESSED, open_regular
from spcatv._util.types import Array
from spcatv.model.folder import ModelError

# Letters and digits with single separators between them: a safe file name on every system.
NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")
# The dtype.str of arrays that can be kept: booleans, integers and floats of up to 8 bytes.
ONE_BYTE = ("|b1", "|i1", "|u1")
LARGER = ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8")
DTYPES = frozenset([*ONE_BYTE, *(f"<{kind}" for kind in LARGER), *(f">{kind}" for kind in LARGER)])
# The .npy header of a plain array is one short line, padded to a multiple of 64 bytes.
LONGEST_HEADER = 512
BROKEN_ZIP = (
    zipfile.BadZipFile,
    struct.error,
    tokenize.TokenError,
    EOFError,
    KeyError,
    OSError,
    RuntimeError,
    ValueError,
)


def declare(arrays: Mapping[str, Array]) -> dict[str, dict[str, Any]]:
    """Describe arrays as ``{name: {"dtype", "shape"}}``, or raise an error if one cannot be kept."""
    for name, array in arrays.items():
        if not NAME.fullmatch(name):
            raise ModelError(f"{name!r} cannot name an array: use letters, digits and single . _ -")
        if not isinstance(array, np.ndarray) or array.dtype.str not in DTYPES:
            kind = array.dtype if isinstance(array, np.ndarray) else type(array).__name__
            raise ModelError(f"the array {name!r} has the type {kind}; only plain numbers can be kept")
        _check_finite(name, array)
    return {
        name: {"dtype": array.dtype.str, "shape": list(array.shape)} for name, array in sorted(arrays.items())
    }


def write_arrays(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays that `declare` accepts; the same arrays give the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in sorted(arrays.items()):
            # a bare ZipInfo has a fixed date, not the time of writing
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, array, allow_pickle=False)


def read_arrays(path: Path, declared: Any) -> dict[str, Array]:
    """Read exactly the arrays that a model declares (by `declare`), each as declared; nothing is trusted."""
    expected = _checked_declaration(path, declared)
    try:
        with zipfile.ZipFile(path) as archive:
            _check_entries(path, archive, expected)
            arrays = {name: _read_one(path, archive, name, *expected[name]) for name in expected}
    except ModelError:
        raise
    except BROKEN_ZIP as error:
        reason = str(error).strip().split("\n")[0] or type(error).__name__
        raise ModelError(f"{path} is damaged, or not a file of arrays: {reason}") from error
    for name, array in arrays.items():
        _check_finite(name, array, f" of {path}")
    return arrays


def read_npz(
    path: Path, choose: Callable[[list[str]], Sequence[str]], largest: int | None = None
) -> list[Array]:
    """Read arrays of an ``.npz`` file after checking that they have the size that they declare.

    `choose` returns the names of the arrays to read from the names of all. One of `BROKEN_ZIP` or a
    `zlib.error` is raised if an array is damaged or has more than `largest` bytes.
    """
    with open_regular(path) as file, zipfile.ZipFile(file) as archive:
        entries = {entry.filename.removesuffix(".npy"): entry for entry in archive.infolist()}
        return [_read_entry(archive, entries[name], largest) for name in choose(list(entries))]


def _read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo, largest: int | None) -> Array:
    name, size = info.filename, info.file_size
    if size > MOST_COMPRESSED * max(info.compress_size, 1):
        raise ValueError(f"its entry {name} declares {size:,} bytes, more than it can hold")
    with archive.open(info) as entry:
        shape, _, dtype = _read_header(entry)
        n_bytes = math.prod(shape) * dtype.itemsize
        if entry.tell() + n_bytes != size or (largest is not None and n_bytes > largest):
            raise ValueError(f"its entry {name} declares the shape {shape}, but has {size:,} bytes")
    with archive.open(info) as entry:  # the checksum is compared when the last byte is read
        return np.asarray(np.lib.format.read_array(entry, allow_pickle=False))


def _checked_declaration(path: Path, declared: Any) -> dict[str, tuple[np.dtype[Any], tuple[int, ...]]]:
    if not isinstance(declared, dict):
        raise ModelError(f"the model does not say which arrays {path} holds")
    expected = {}
    for name, entry in declared.items():
        dtype, shape = (entry.get("dtype"), entry.get("shape")) if isinstance(entry, dict) else (None, None)
        if not NAME.fullmatch(name):
            raise ModelError(f"{name!r} is not a valid name for an array of {path}")
        if not isinstance(dtype, str) or dtype not in DTYPES:
            raise ModelError(
                f"the array {name!r} of {path} is declared with the type {dtype!r}, not plain numbers"
            )
        if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
            raise ModelError(f"the array {name!r} of {path} is declared with an invalid shape: {shape!r}")
        expected[name] = (np.dtype(dtype), tuple(shape))
    return expected


def _check_entries(path: Path, archive: zipfile.ZipFile, expected: Mapping[str, Any]) -> None:
    """Compare the directory of the zip file with the expected arrays and with the size of the file."""
    entries = archive.infolist()
    found = sorted(entry.filename for entry in entries)
    if found != sorted(f"{name}.npy" for name in expected):
        odd = sorted({f"{name}.npy" for name in expected} ^ set(found)) or found
        raise ModelError(f"{path} does not hold exactly the arrays that the model names: see {odd[0]!r}")
    if any(entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1 for entry in entries):
        raise ModelError(f"{path} is compressed or encrypted; the arrays of a model are not")
    # entries of a malicious file may overlap
    if sum(entry.file_size for entry in entries) > path.stat().st_size:
        raise ModelError(f"{path} claims to hold more than its size on disk")


def _read_one(
    path: Path, archive: zipfile.ZipFile, name: str, dtype: np.dtype[Any], shape: tuple[int, ...]
) -> Array:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as entry:
        found_shape, fortran_order, found_dtype = _read_header(entry)
        if (found_shape, found_dtype) != (shape, dtype):
            raise ModelError(
                f"the array {name!r} of {path} is {found_dtype} of shape {found_shape}; the model says "
                f"{dtype} of shape {shape}"
            )
        if entry.tell() + math.prod(shape) * dtype.itemsize != info.file_size:
            raise ModelError(f"the array {name!r} of {path} does not have the size of its shape {shape}")
        values = np.frombuffer(bytearray(entry.read()), dtype=dtype)
    return values.reshape(shape, order="F" if fortran_order else "C")


def _read_header(entry: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(entry)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(entry, max_header_size=LONGEST_HEADER)
    if version == (2, 0):
        return np.lib.format.read_array_header_2_0(entry, max_header_size=LONGEST_HEADER)
    raise ValueError(f"version {version} of the .npy format is not used for plain numbers")


def _check_finite(name: str, array: Array, where: str = "") -> None:
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        wrong = int(array.size - np.isfinite(array).sum())
        raise ModelError(f"the array {name!r}{where} holds {wrong} values that are NaN or infinite")
