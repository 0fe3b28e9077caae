"""A folder that appears at once or not at all.

Everything is written into a hidden folder beside the target, which then takes the target's place in one
step. Where the target is there already, the two change places (Linux, macOS). Where the file system cannot
do that, the old folder steps aside under a hidden name first; should the process die between the two
renames, `standing_folder` finds the old one there.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

# Flags of renameat2 (Linux) and renamex_np (macOS), and what stands for the current directory.
RENAME_EXCHANGE = 2
RENAME_SWAP = 2
AT_FDCWD = -100


class ModelError(ValueError):
    """A folder cannot be written, replaced or read; the message is one line that says why."""


@contextmanager
def atomic_folder(
    target: str | os.PathLike[str], *, objection: Callable[[Path], str | None] | None = None
) -> Iterator[Path]:
    """Write a folder so that a crash leaves the old one or the new one, never half of one.

    Parameters
    ----------
    target : path
        The folder to make or to replace; folders above it are made. It may be empty, or one that
        `objection` lets go; anything else is refused before the body runs.
    objection : callable, default=None
        Given a folder that is not empty, says why it must not be replaced (the end of a sentence), or
        None if it may be. By default only an empty folder may be replaced.

    Yields
    ------
    Path
        An empty folder beside the target to write into. It takes the target's place when the body
        ends, and is removed when the body raises.
    """
    place = _checked_place(Path(target), objection)
    temporary = _new_sibling(place)
    try:
        yield temporary
        try:
            _flush(temporary)
            _put_in_place(temporary, place)
        except OSError as error:
            raise ModelError(f"cannot write the folder {target}: {error.strerror or error}") from error
    finally:
        # what was there before, or what did not come to an end
        shutil.rmtree(temporary, ignore_errors=True)


def standing_folder(target: Path) -> Path:
    """The folder that counts: the target, or its predecessor if a crash left only that."""
    return _aside(target) if not target.exists() and _aside(target).is_dir() else target


def _aside(target: Path) -> Path:
    """Where the old folder waits while the new one takes its place."""
    return target.with_name(f".{target.name}.spcatv-previous")


def _checked_place(target: Path, objection: Callable[[Path], str | None] | None) -> Path:
    """The target without symbolic links, or an error if it must stay as it is."""
    try:
        place = Path(os.path.realpath(target))
        if Path.cwd().is_relative_to(place):
            raise ModelError(f"{target} is or holds the current folder; name a folder inside of it")
        if not place.exists():
            return place
        if not place.is_dir():
            raise ModelError(f"{target} is a file; a folder is needed")
        if any(place.iterdir()):
            reason = "is not empty" if objection is None else objection(place)
            if reason is not None:
                raise ModelError(f"{target} {reason}; it is left as it is: choose another folder")
    except OSError as error:
        raise ModelError(f"cannot look into {target}: {error.strerror or error}") from error
    return place


def _new_sibling(place: Path) -> Path:
    """Make an empty hidden folder beside the place, with the permissions that the place has or would get."""
    temporary = place.with_name(f".{place.name}.{secrets.token_hex(4)}.spcatv-partial")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        if place.is_dir():
            shutil.copymode(place, temporary)
    except OSError as error:
        raise ModelError(f"cannot write in the folder {place.parent}: {error.strerror or error}") from error
    return temporary


def _put_in_place(temporary: Path, place: Path) -> None:
    if not place.exists():
        os.replace(temporary, place)
    elif not _exchange(temporary, place):
        _step_aside(temporary, place)
    shutil.rmtree(_aside(place), ignore_errors=True)
    _flush_entry(place.parent)


def _step_aside(temporary: Path, place: Path) -> None:
    """Replace in two renames; the first is undone if the second fails."""
    aside = _aside(place)
    # what an earlier crash left there is older than what stands
    shutil.rmtree(aside, ignore_errors=True)
    os.replace(place, aside)
    try:
        os.replace(temporary, place)
    except BaseException:
        os.replace(aside, place)
        raise


def _exchange(first: Path, second: Path) -> bool:
    """Let two folders change places in one step; False if the system or the file system cannot."""
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
    """Bring everything in the folder to the disk: a rename may otherwise overtake the contents."""
    for path in [*folder.rglob("*"), folder]:
        if not path.is_symlink():
            _flush_entry(path)


def _flush_entry(path: Path) -> None:
    if os.name != "posix" and path.is_dir():
        return  # elsewhere a folder cannot be opened
    # a file must be open for writing on some systems to be flushed, and a folder must not
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
