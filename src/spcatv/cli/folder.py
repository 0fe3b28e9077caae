"""The output folder: checked and claimed before any work, and there at the end, whole or not at all."""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from spcatv.cli.errors import InputError
from spcatv.model import ModelError, atomic_folder

DESCRIPTION = "dataset_description.json"
MODEL = "model"
STABILITY = "stability.npz"
TAG = "desc-SPCATV_"
# maps that say more about the components: desc-frequency_components, ...
MAPS = re.compile(r"desc-(frequency|signconsistency|regions)_components\.")
GENERATOR = "spca-tv"


@contextmanager
def claimed_folder(folder: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give a temporary folder that takes the place of `folder` when all went well.

    Parameters
    ----------
    folder : Path
        Where the results shall be. It must be new or empty, or with `overwrite` hold nothing but the
        results of an earlier run. Folders above it are made, and taken away again if the work fails.
    overwrite : bool
        Whether earlier results may be replaced.

    Yields
    ------
    Path
        An empty folder beside it.

    Raises
    ------
    InputError
        At once, if the folder is in use or cannot be written.
    """
    place = Path(os.path.realpath(folder.expanduser()))
    if os.path.ismount(place):
        raise InputError(
            f"the output folder {folder} is a mount point, which cannot be replaced as a whole; name a "
            f"folder below it, such as {folder / 'spca-tv'}"
        )
    with ExitStack() as stack:
        stack.enter_context(_made_parents(place))
        stack.enter_context(_lock(place))
        try:
            temporary = stack.enter_context(atomic_folder(place, objection=_objection(overwrite=overwrite)))
        except ModelError as error:
            raise InputError(f"the output folder cannot be used: {error}") from error
        yield temporary


def _objection(*, overwrite: bool) -> Callable[[Path], str | None]:
    """What speaks against replacing a folder that is not empty."""

    def objection(folder: Path) -> str | None:
        entries = sorted(os.listdir(folder))
        foreign = next((name for name in entries if not _is_ours(name)), None)
        if foreign is not None or not _made_by_us(folder):
            return f"is in use: it holds {foreign or entries[0]}, which is no result of spca-tv"
        return None if overwrite else "holds the results of an earlier run, and --overwrite is not given"

    return objection


def _is_ours(name: str) -> bool:
    return TAG in name or MAPS.search(name) is not None or name in (DESCRIPTION, MODEL, STABILITY)


def _made_by_us(folder: Path) -> bool:
    try:
        description = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        return bool(description["GeneratedBy"][0]["Name"] == GENERATOR)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return False


def _unwritable(folder: Path, error: OSError) -> InputError:
    reason = error.strerror or str(error)
    return InputError(f"cannot write to the output folder {folder} ({reason}); choose another with --output")


@contextmanager
def _made_parents(folder: Path) -> Iterator[None]:
    """Make the folders above, try to write there, and remove those that were made if the work fails."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for place in (folder.parent, folder):
            if place.is_dir():
                with tempfile.TemporaryFile(dir=place):
                    pass
    except OSError as error:
        _remove_empty(missing)
        raise _unwritable(folder, error) from error
    try:
        yield
    except BaseException:
        _remove_empty(missing)
        raise


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:  # innermost first
        try:
            folder.rmdir()
        except OSError:
            return  # someone else has put something there


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep a second run away from the same folder; a lock whose process is gone does not count."""
    lock = folder.with_name(f".{folder.name}.spca-tv-lock")
    try:
        _take(lock)
    except FileExistsError as error:
        raise InputError(
            f"another run is writing to the output folder {folder}; wait for it, or choose another with "
            f"--output (if no run is left, remove {lock})"
        ) from error
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)


def _take(lock: Path) -> None:
    mine = f"{os.getpid()} {platform.node()}"
    try:
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    except FileExistsError:
        if not _is_stale(lock):
            raise
        lock.unlink(missing_ok=True)
        handle = os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(mine)


def _is_stale(lock: Path) -> bool:
    """Whether the process that holds the lock is surely gone: it was on this machine, and is no more."""
    try:
        number, _, node = lock.read_text(encoding="utf-8").partition(" ")
        pid = int(number)
    except (OSError, ValueError):
        return False
    if node != platform.node() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)  # asks only: signal 0 is not sent
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False
