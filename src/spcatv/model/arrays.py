"""Arrays in one ``.npz`` file, a zip file of ``.npy`` files; nothing is ever unpickled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.lib.npyio import NpzFile

from spcatv._util.files import open_regular
from spcatv._util.types import Array
from spcatv.model.codec import ModelError

# Letters and digits with single separators between them: a safe file name on every system.
NAME = re.compile(r"[A-Za-z0-9]+([._-][A-Za-z0-9]+)*")


def read_arrays(path: Path) -> dict[str, Array]:
    """Read plain finite numbers; a ModelError if the file is damaged, or holds anything else."""
    try:
        with opened_npz(path) as archive:
            arrays = {name: np.asarray(archive[name]) for name in archive.files}
    except (OSError, ValueError) as error:
        reason = str(error).strip().split("\n")[0]
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


@contextmanager
def opened_npz(path: Path) -> Iterator[NpzFile]:
    """Open an ``.npz`` file; errors of a damaged one in the ``with`` block become ValueErrors."""
    with open_regular(path) as file:
        try:
            yield NpzFile(file, allow_pickle=False)
        except ValueError:
            raise
        except Exception as error:  # NumPy and its decoders raise nearly anything for a damaged file
            raise ValueError(str(error) or type(error).__name__) from error
