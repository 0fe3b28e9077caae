"""Files and folders: opened safely, replaced as a whole, locked."""

from __future__ import annotations

import errno
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

# Bytes of a text file, such as a table; a larger one was probably named by mistake.
LARGEST_TEXT = 2**28
# End of the name of a folder that is being written.
PARTIAL = "spca-tv-partial"
# End of the name of the folder that it replaces, between two renames.
PREVIOUS = "spca-tv-previous"


def file_state(path: Path) -> tuple[int, int, int]:
    """Return size (bytes), modification time (ns) and inode number: a changed file differs in one of them."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns, found.st_ino


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file for reading; anything else is an OSError.

    Open every file of a user with this function: opening a pipe may block, and a device may have no end.
    """
    file = open(path, "rb", opener=_without_blocking)  # noqa: SIM115 (the caller closes it)
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise OSError(errno.EINVAL, "not a regular file, but a pipe, a device or a socket", os.fspath(path))


def _without_blocking(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """Return the content of a regular file of at most `LARGEST_TEXT` bytes; anything else is an OSError."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > LARGEST_TEXT:
            raise OSError(errno.EFBIG, f"more than {LARGEST_TEXT:,} bytes", os.fspath(path))
        return file.read()


def read_text(file: Path, what: str, error: type[Exception]) -> str:
    """Return the text of a UTF-8 file; `what` names the kind of file in errors."""
    try:
        return read_bytes(file).decode("utf-8-sig")
    except OSError as failure:
        raise error(f"cannot read the {what} {file} ({failure.strerror})") from failure
    except UnicodeDecodeError as failure:
        raise error(f"{file} is not a {what}: it is not a text file in UTF-8; save it as one") from failure


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield an empty file beside `path`, which replaces `path` if the body succeeds.

    An OSError names `path`, not the file beside it.
    """
    temporary = path.with_name(f".{path.stem}-{secrets.token_hex(4)}{path.suffix}")
    try:
        temporary.touch(mode=0o666, exist_ok=False)  # minus the umask
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
    """Flush a file or folder to the disk before it is renamed: its content must arrive before its name."""
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


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an advisory lock file inside a ``with`` block, and remove it afterwards.

    The lock ends with the process that holds it. Raises a BlockingIOError if another process holds it, and
    another OSError if the file system has no locks or the path is a symbolic link.
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
        with suppress(OSError):  # Windows cannot remove an open file
            path.unlink()
        lock.release()


@contextmanager
def atomic_folder(
    target: str | os.PathLike[str],
    error: type[Exception],
    *,
    objection: Callable[[Path], str | None] = lambda _: "is not empty",
) -> Iterator[Path]:
    """Write a folder so that a crash leaves the old folder or the new one, never half of one.

    Yields an empty folder beside the target, which replaces the target when the body ends and is removed if
    the body raises. The target is locked in between. What killed processes have left beside it is cleaned up.

    Parameters
    ----------
    target : path
        The folder. Its parents are created.
    error : type of exception
        Raised if the target cannot be locked, written or replaced. Errors of the body are left alone.
    objection : callable
        Called with a target that is not empty; returns why it must not be replaced, such as "is not a model",
        or None. By default no such target is replaced.
    """
    place = Path(os.path.realpath(target))
    temporary, previous = _beside(place, PARTIAL), _beside(place, PREVIOUS)
    with ExitStack() as stack:
        with os_errors(error, f"cannot write in the folder {place.parent}"):
            place.parent.mkdir(parents=True, exist_ok=True)
        lock = _beside(place, "spca-tv-lock")
        with os_errors(error, f"cannot lock {target} with {lock}"):
            try:
                stack.enter_context(locked(lock))
            except BlockingIOError as failure:
                raise error(f"another process is writing to {target}; wait for it to end") from failure
        with os_errors(error, f"cannot write the folder {target}"):
            if not place.exists() and previous.is_dir():
                os.replace(previous, place)
            _check_replaceable(target, place, error, objection)
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
            if place.is_dir():
                shutil.copymode(place, temporary)
        yield temporary
        with os_errors(error, f"cannot write the folder {target}"):
            for path in [*temporary.rglob("*"), temporary]:
                if not path.is_symlink():
                    flush(path)
            _put_in_place(temporary, place, previous)


def standing_folder(target: Path) -> Path:
    """Return the target, or the folder that it was to replace if a crash has left only that."""
    previous = _beside(target, PREVIOUS)
    return previous if not target.exists() and previous.is_dir() else target


def _beside(place: Path, ending: str) -> Path:
    return place.with_name(f".{place.name}.{ending}")


@contextmanager
def os_errors(error: type[Exception], what: str) -> Iterator[None]:
    """Turn an OSError into the given error."""
    try:
        yield
    except OSError as failure:
        raise error(f"{what}: {failure.strerror or failure}") from failure


def _check_replaceable(
    target: str | os.PathLike[str],
    place: Path,
    error: type[Exception],
    objection: Callable[[Path], str | None],
) -> None:
    if Path.cwd().is_relative_to(place):
        raise error(f"{target} is or contains the current folder; name a folder inside it")
    if not place.exists():
        return
    if not place.is_dir():
        raise error(f"{target} is a file; a folder is needed")
    reason = objection(place) if any(place.iterdir()) else None
    if reason is not None:
        raise error(f"{target} {reason}; it is left unchanged: choose another folder")


def _put_in_place(temporary: Path, place: Path, previous: Path) -> None:
    """Replace a folder by two renames, the first of which is undone if the second fails."""
    shutil.rmtree(previous, ignore_errors=True)
    replaced = place.exists()
    if replaced:
        os.replace(place, previous)
    try:
        os.replace(temporary, place)
    except BaseException:
        if replaced:
            os.replace(previous, place)
        raise
    shutil.rmtree(previous, ignore_errors=True)
    flush(place.parent)
