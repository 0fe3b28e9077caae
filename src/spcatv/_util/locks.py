"""Advisory file locks, which end with the process that holds them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a lock file inside a ``with`` block, and remove it afterwards.

    A file that a killed process has left locks nothing. Raises a BlockingIOError if the lock is held already,
    and another OSError if it cannot be had: the file system has no locks, or the path is a link.
    """
    # a soft lock would outlive a process that is killed
    lock = FileLock(path, blocking=False, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise BlockingIOError(f"{path} is locked by another process") from error
    try:
        yield
    finally:
        with suppress(OSError):  # Windows removes no open file; elsewhere nobody can lock one that is removed
            path.unlink()
        lock.release()
