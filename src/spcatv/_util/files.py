"""Write a file completely or not at all, and see whether one has changed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def file_state(path: Path) -> tuple[int, int, int]:
    """What changes when a file does: its size in bytes, its time of change in nanoseconds, and its number."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give an empty file beside `path` that replaces it once the body has ended without an error."""
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    temporary.touch(mode=0o666, exist_ok=False)  # less what the umask takes away
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
