"""Write a file completely or not at all, read text that others wrote, and see whether a file has changed."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def file_state(path: Path) -> tuple[int, int, int]:
    """What changes when a file does: its size in bytes, its time of change in nanoseconds, and its number."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino


def read_text(file: Path, what: str, error: type[Exception], *, largest: int = 2**28) -> str:
    """The text of a file in UTF-8, up to `largest` bytes; the error names the file, which is a `what`."""
    try:
        with file.open("rb") as opened:
            content = opened.read(largest + 1)
    except OSError as failure:
        raise error(f"cannot read the {what} {file} ({failure.strerror})") from failure
    if len(content) > largest:
        raise error(f"{file} is too large for a {what}: more than {largest:,} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        raise error(f"{file} is not a {what}: it is not a text file in UTF-8; save it as one") from failure


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give an empty file beside `path` that replaces it once the body, which only writes, has succeeded.

    An OSError names `path`, not the file beside it.
    """
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.touch(mode=0o666, exist_ok=False)  # less what the umask takes away
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def flush(path: Path) -> None:
    """Flush a file or folder to the disk, before a rename: the rename could reach it before the contents."""
    if not path.is_dir():
        with path.open("r+b") as opened:  # some systems flush a file only if it is open for writing
            os.fsync(opened.fileno())
        return
    with suppress(OSError):  # not every system opens a folder, and not every file system flushes one
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
