"""Locks that end with the process that holds them: a file that is left behind locks nothing."""

from __future__ import annotations

import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows, where nothing keeps two runs apart
    fcntl = None  # type: ignore[assignment]


def locked(path: Path) -> int | None:
    """Lock an existing file or folder; return a descriptor to close, or None if another holder has it.

    A FileNotFoundError means that it is not there, or no longer; any other OSError that the file system, or
    the operating system, cannot lock it.
    """
    if fcntl is None:
        raise OSError("this system has no such locks")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # between opening and locking, the holder before may have removed it, and another one made it anew
        if not os.path.samestat(os.fstat(descriptor), os.stat(path)):
            raise FileNotFoundError(f"{path} was replaced")
    except BaseException as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor
