"""Write a folder completely or not at all.

All files are written into a hidden folder beside the target, which then replaces the target in one step. If
the target exists, the two folders are exchanged (Linux, macOS). Where the file system cannot do that, the
old folder is first renamed to a hidden name. If the process dies between the two renames,
`standing_folder` finds the old folder under that name.
"""

from __future__ import annotations

import ctypes
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from spcatv._util.locks import locked

# Flags of renameat2 (Linux) and renamex_np (macOS), and the value that means the current directory.
RENAME_EXCHANGE = 2
RENAME_SWAP = 2
AT_FDCWD = -100


class ModelError(ValueError):
    """A folder cannot be written, replaced or read; the message says why in one line.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.model import ModelError
    >>> try:
    ...     SPCATV.load("no-such-folder")
    ... except ModelError as error:
    ...     print(error)
    there is no folder no-such-folder
    """


@contextmanager
def atomic_folder(
    target: str | os.PathLike[str], *, objection: Callable[[Path], str | None] | None = None
) -> Iterator[Path]:
    """Write a folder so that a crash leaves the old folder or the new one, never half of one.

    What a process that was killed has left of the same target is removed first.

    Yields an empty folder beside the target. It replaces the target when the body ends, and is removed if the
    body raises. Parents of the target are created. A target that exists must be empty, or `objection`, called
    with it, must return None rather than why it must not be replaced, such as "is not a model". Otherwise a
    ModelError is raised before the body runs.
    """
    place = _checked_place(Path(target), objection)
    _clear_stale(place)
    with _new_sibling(place) as temporary:
        yield temporary
        try:
            _flush(temporary)
            _put_in_place(temporary, place)
        except OSError as error:
            raise ModelError(f"cannot write the folder {target}: {error.strerror or error}") from error


def standing_folder(target: Path) -> Path:
    """The target, or its predecessor if a crash has left only that."""
    return _aside(target) if not target.exists() and _aside(target).is_dir() else target


def _aside(target: Path) -> Path:
    """Where the old folder is kept while the new one is moved into place."""
    return target.with_name(f".{target.name}.spcatv-previous")


def _checked_place(target: Path, objection: Callable[[Path], str | None] | None) -> Path:
    """The target with symbolic links resolved; raises an error if it must not be replaced."""
    try:
        place = Path(os.path.realpath(target))
        if Path.cwd().is_relative_to(place):
            raise ModelError(f"{target} is or contains the current folder; name a folder inside it")
        if not place.exists():
            return place
        if not place.is_dir():
            raise ModelError(f"{target} is a file; a folder is needed")
        if any(place.iterdir()):
            reason = "is not empty" if objection is None else objection(place)
            if reason is not None:
                raise ModelError(f"{target} {reason}; it is left unchanged: choose another folder")
    except OSError as error:
        raise ModelError(f"cannot read the folder {target}: {error.strerror or error}") from error
    return place


@contextmanager
def _new_sibling(place: Path) -> Iterator[Path]:
    """Create an empty hidden folder beside the place, with the permissions the place has or would get.

    The folder is locked while this process lives, and removed afterwards.
    """
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.spcatv-partial")
    with ExitStack() as stack:
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(locked(_lock_of(temporary)))
            temporary.mkdir()
            # in the end, the previous folder after an exchange, or the unfinished one after an error
            stack.callback(shutil.rmtree, temporary, ignore_errors=True)
            if place.is_dir():
                shutil.copymode(place, temporary)
        except OSError as error:
            raise ModelError(
                f"cannot write in the folder {place.parent}: {error.strerror or error}"
            ) from error
        yield temporary


def _lock_of(temporary: Path) -> Path:
    return temporary.with_suffix(".spcatv-lock")


def _clear_stale(place: Path) -> None:
    """Remove hidden folders of this place whose process was killed: ours, and held by nobody."""
    own = re.compile(rf"\.{re.escape(place.name)}\.[0-9a-f]{{8}}\.spcatv-partial")
    found = place.parent.glob(".*.spcatv-partial") if place.parent.is_dir() else ()
    for folder in [path for path in found if own.fullmatch(path.name) and _is_own_folder(path)]:
        with suppress(OSError), locked(_lock_of(folder)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(path: Path) -> bool:
    """Whether it is a folder, no link, and belongs to the user who runs this process."""
    try:
        about = path.lstat()
    except OSError:
        return False  # gone in the meantime
    return stat.S_ISDIR(about.st_mode) and (os.name != "posix" or about.st_uid == os.geteuid())


def _put_in_place(temporary: Path, place: Path) -> None:
    if not place.exists():
        os.replace(temporary, place)
    elif not _exchange(temporary, place):
        _step_aside(temporary, place)
    shutil.rmtree(_aside(place), ignore_errors=True)
    _flush_entry(place.parent)


def _step_aside(temporary: Path, place: Path) -> None:
    """Replace by two renames; the first is undone if the second fails."""
    aside = _aside(place)
    # a folder that an earlier crash left there is older than the one in place
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(place, aside)
    try:
        os.replace(temporary, place)
    except BaseException:
        os.replace(aside, place)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; False if the system or the file system cannot."""
    paths = os.fsencode(first), os.fsencode(second)
    system: str = sys.platform
    if system.startswith("linux"):
        rename = getattr(ctypes.CDLL(None), "renameat2", None)
        arguments = (AT_FDCWD, paths[0], AT_FDCWD, paths[1], RENAME_EXCHANGE)
        return rename is not None and rename(*arguments) == 0
    if system == "darwin":
        rename = getattr(ctypes.CDLL(None), "renamex_np", None)
        return rename is not None and rename(*paths, RENAME_SWAP) == 0
    return False


def _flush(folder: Path) -> None:
    """Flush all files to the disk: otherwise the rename could reach it before the contents."""
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            _flush_entry(path)


def _flush_entry(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return  # other systems cannot open a folder
    # some systems flush a file only if it is open for writing; a folder must be open for reading
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
