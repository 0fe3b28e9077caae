"""Write a file completely or not at all, open files of users, and see whether a file has changed."""

from __future__ import annotations

import errno
import io
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# Largest factor by which deflate makes files smaller.
MOST_COMPRESSED = 1032


def file_state(path: Path) -> tuple[int, int, int]:
    """What changes when a file does: its size in bytes, its time of change in nanoseconds, and its number."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino


def open_regular(path: str | os.PathLike[str], largest: int | None = None) -> io.BufferedReader:
    """Open a file for reading; an OSError if it is no regular file, or has more than `largest` bytes.

    Every file of a user is opened or checked here: to open a pipe may block, and a device may have no end.
    """
    file = open(path, "rb", opener=_without_blocking)  # noqa: SIM115 (the caller closes it)
    about = os.fstat(file.fileno())
    if stat.S_ISREG(about.st_mode) and (largest is None or about.st_size <= largest):
        return file
    file.close()
    if stat.S_ISREG(about.st_mode):
        raise _too_large(path, largest)
    raise OSError(errno.EINVAL, "not a regular file, but a pipe, a device or a socket", os.fspath(path))


def _without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _too_large(path: str | os.PathLike[str], largest: int | None) -> OSError:
    return OSError(errno.EFBIG, f"more than {largest:,} bytes", os.fspath(path))


def read_bytes(path: str | os.PathLike[str], largest: int) -> bytes:
    """Read a file of a user as a whole, with the errors of `open_regular`."""
    with open_regular(path, largest) as file:
        content = file.read(largest + 1)
    if len(content) > largest:  # its size was not that of its content, as in /proc
        raise _too_large(path, largest)
    return content


def read_text(file: Path, what: str, error: type[Exception], *, largest: int = 2**28) -> str:
    """The text of a file in UTF-8, up to `largest` bytes; the error names the file, which is a `what`."""
    try:
        return read_bytes(file, largest).decode("utf-8-sig")
    except OSError as failure:
        if failure.errno == errno.EFBIG:
            raise error(f"{file} is too large for a {what}: {failure.strerror}") from failure
        raise error(f"cannot read the {what} {file} ({failure.strerror})") from failure
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
