"""The results folder: what its files are called, and how it is claimed and replaced as a whole."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from spcatv._util.files import read_text
from spcatv._util.locks import locked
from spcatv.model import ModelError, atomic_folder

GENERATOR = "spca-tv"
# Names in the style of BIDS derivatives. A table has a .json of the same name beside it.
TAG = "desc-SPCATV_"
DESCRIPTION = "dataset_description.json"
README = "README.md"
IGNORED = ".bidsignore"  # patterns of the files for which BIDS has no rules yet: maps and tables of a group
MODEL = "model"
CONFIG = f"{TAG}config.toml"
MIXING = f"{TAG}mixing.tsv"
METRICS = f"{TAG}metrics.tsv"
REPORT = f"{TAG}report.html"
OLD_REPORT = f"{TAG}report.old.html"  # about results that were replaced
SELECTION = f"{TAG}selection.tsv"
REGIONS = f"{TAG}regions.tsv"
HALVES = f"{TAG}halves.tsv"
QUALITY = f"{TAG}quality.tsv"
CURVE = f"{TAG}curve.tsv"
MEAN = f"{TAG}mean.nii.gz"
STABILITY = "stability.npz"
CEILING_COLUMN = "pca_cumulative_explained_variance_ratio"  # of the table of metrics
# Maps. What surrounds these stems depends on the format: `hemi-L_<stem>.func.gii`, `<stem>.nii.gz`, ...
COMPONENT_MAPS = f"{TAG}components"
FREQUENCY_MAPS = "desc-frequency_components"
SIGN_MAPS = "desc-signconsistency_components"
REGION_MAPS = "desc-regions_components"

# What the system says if a disk, a quota or the largest size of a file is used up.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class ResultsError(ValueError):
    """A results folder cannot be written or read; the message says what is wrong.

    Examples
    --------
    >>> from spcatv.results import ResultsError
    >>> issubclass(ResultsError, ValueError)
    True
    """


def model_folder(folder: Path) -> Path:
    """The model folder inside a results folder; any other folder is taken for a model folder itself."""
    inner = folder / MODEL
    return inner if inner.is_dir() else folder


def results_folder(folder: Path) -> Path:
    """The results folder, whether it or the model folder inside it is given."""
    inner = model_folder(folder)
    return inner.parent if inner.name == MODEL else folder


def report_file(folder: Path) -> Path:
    """Where the report goes: into the results folder, or beside a model folder that stands alone.

    A model folder holds a model and nothing else, so the report never goes into it.
    """
    inner = model_folder(folder)
    if inner.name == MODEL and (inner.parent / DESCRIPTION).is_file():
        return inner.parent / REPORT
    return inner.with_name(f"{inner.resolve().name}_report.html")


def component_maps(folder: Path) -> list[Path]:
    """The files with the loading maps, sorted by name: one file, or one per hemisphere."""
    found = (file for file in folder.iterdir() if f"{COMPONENT_MAPS}." in file.name)
    return sorted(file for file in found if file.suffix != ".json")


@contextmanager
def claimed_folder(
    folder: Path,
    *,
    overwrite: bool,
    note: Callable[[str], None] | None = None,
    beside: AbstractContextManager[Any] | None = None,
) -> Iterator[Path]:
    """Give an empty folder beside `folder`, which takes its place if the body succeeds.

    `folder` must be new or empty, or with `overwrite` hold nothing but the results of an earlier run; `note`
    is then called with a line about what is replaced, before the body runs. A report among the results is
    kept under another name: it is about other results than those that take their place. Missing parent
    folders are created, and removed again on failure. A ResultsError is raised before the body runs if the
    folder is in use or cannot be written. What a run that was killed has left beside it is removed. The
    context `beside` is entered once nobody else can use the folder, and left after the results are in place.
    """
    place = Path(os.path.realpath(folder.expanduser()))
    if os.path.ismount(place):
        raise ResultsError(
            f"the output folder {folder} is a mount point, which cannot be replaced as a whole; name a "
            f"folder below it, such as {folder / 'spca-tv'}"
        )
    with ExitStack() as stack:
        stack.enter_context(_made_parents(place))
        stack.enter_context(_lock(place))
        if beside is not None:
            stack.enter_context(beside)
        try:
            objection = partial(_objection, overwrite=overwrite)
            temporary = stack.enter_context(atomic_folder(place, objection=objection))
        except ModelError as error:
            raise ResultsError(f"the output folder cannot be used: {error}") from error
        if note is not None and place.is_dir() and os.listdir(place):
            note(_replaced(folder, place))
        try:
            yield temporary
            _keep_report(place, temporary)
        except (OSError, ModelError) as error:
            full = error if isinstance(error, OSError) else error.__cause__
            if not (isinstance(full, OSError) and full.errno in FULL):
                raise
            raise OSError(
                f"no room for the results in {folder}: {full.strerror}; nothing was written"
            ) from error


def _replaced(folder: Path, place: Path) -> str:
    """What a run is about to replace, in one line."""
    n_files = sum(path.is_file() and path.name not in (REPORT, OLD_REPORT) for path in place.rglob("*"))
    kept = f"; its report is kept as {OLD_REPORT}" if (place / REPORT).exists() else ""
    return f"the {n_files} files of an earlier run in {folder} will be replaced{kept}"


def _keep_report(place: Path, temporary: Path) -> None:
    """Copy a report of earlier results to the new ones, under a name that says what it is."""
    report = next((place / name for name in (REPORT, OLD_REPORT) if (place / name).is_file()), None)
    if report is not None:
        shutil.copy2(report, temporary / OLD_REPORT)


def _objection(folder: Path, *, overwrite: bool) -> str | None:
    """Why a folder that is not empty must not be replaced; None if it may be."""
    entries = sorted(os.listdir(folder))
    foreign = next((name for name in entries if not _is_ours(name)), None)
    if foreign is not None or not _made_by_us(folder):
        return f"is in use: it holds {foreign or entries[0]}, which is not a result of spca-tv"
    return None if overwrite else "holds the results of an earlier run, and --overwrite is not given"


def _is_ours(name: str) -> bool:
    other_maps = any(f"{stem}." in name for stem in (FREQUENCY_MAPS, SIGN_MAPS, REGION_MAPS))
    return TAG in name or other_maps or name in (DESCRIPTION, README, IGNORED, MODEL, STABILITY)


def _made_by_us(folder: Path) -> bool:
    try:
        description = json.loads(read_text(folder / DESCRIPTION, "description", ResultsError))
        return bool(description["GeneratedBy"][0]["Name"] == GENERATOR)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return False


def _unwritable(folder: Path, error: OSError) -> ResultsError:
    reason = error.strerror or str(error)
    return ResultsError(
        f"cannot write to the output folder {folder} ({reason}); choose another with --output"
    )


@contextmanager
def _made_parents(folder: Path) -> Iterator[None]:
    """Create the parent folders, check that they can be written, and remove new ones on failure."""
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
            return  # it is no longer empty


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Keep other runs from writing to the same folder, as long as this process lives."""
    lock = folder.with_name(f".{folder.name}.spca-tv-lock")
    with ExitStack() as stack:
        try:
            stack.enter_context(locked(lock))
        except BlockingIOError as error:
            raise ResultsError(
                f"another run is writing to the output folder {folder}; wait for it, or choose another with "
                "--output"
            ) from error
        except OSError as error:
            raise ResultsError(
                f"cannot lock the output folder {folder} ({lock}: {error.strerror or error}); choose another "
                "with --output"
            ) from error
        yield
