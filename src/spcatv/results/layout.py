"""Names of the files in a results folder, and how it is written as a whole."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from spcatv._util.files import PARTIAL, atomic_folder, read_text, standing_folder
from spcatv.model import ModelError

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
EXPLORER = f"{TAG}explorer.html"
SELECTION = f"{TAG}selection.tsv"
REGIONS = f"{TAG}regions.tsv"
HALVES = f"{TAG}halves.tsv"
QUALITY = f"{TAG}quality.tsv"
COUNT = f"{TAG}count.tsv"
MEAN = f"{TAG}mean.nii.gz"
STABILITY = "stability.npz"
CEILING_COLUMN = "pca_cumulative_explained_variance_ratio"  # of the table of metrics
# Stems of the names of maps, between a prefix and an ending: `hemi-L_<stem>.func.gii`, `<stem>.nii.gz`, ...
COMPONENT_MAPS = f"{TAG}components"
FREQUENCY_MAPS = "desc-frequency_components"
SIGN_MAPS = "desc-signconsistency_components"
REGION_MAPS = "desc-regions_components"


class ResultsError(ValueError):
    """Error of a results folder that cannot be written or read.

    Examples
    --------
    >>> from spcatv.results import ResultsError
    >>> issubclass(ResultsError, ValueError)
    True
    """

    exit_code = 2  # of the command line


def model_folder(folder: Path) -> Path:
    """Return the model folder inside a results folder; any other folder is returned as it is."""
    folder = standing_folder(folder)
    inner = folder / MODEL
    return inner if inner.is_dir() else folder


def results_folder(folder: Path) -> Path:
    """Return the results folder, given itself or the model folder inside it."""
    inner = model_folder(folder)
    return inner.parent if inner.name == MODEL else folder


def report_file(folder: Path) -> Path:
    """Return the path of the report: in the results folder, or beside a model folder that stands alone.

    A model folder holds a model and nothing else, so the report never goes into it.
    """
    inner = model_folder(folder)
    if inner.name == MODEL and (inner.parent / DESCRIPTION).is_file():
        return inner.parent / REPORT
    return inner.with_name(f"{inner.resolve().name}_report.html")


@contextmanager
def claimed_folder(
    folder: Path,
    *,
    overwrite: bool,
    note: Callable[[str], None] | None = None,
    beside: AbstractContextManager[Any] | None = None,
) -> Iterator[Path]:
    """Yield an empty folder, which becomes the results folder if the body succeeds.

    A ResultsError is raised before the body runs if the folder is in use or cannot be written. Missing parent
    folders are created, and removed again on failure.

    Parameters
    ----------
    folder : path
        New or empty, or with `overwrite` a folder of nothing but the results of an earlier run.
    overwrite : bool
        Whether to replace the results of an earlier run.
    note : callable, default=None
        Called with a line about what will be replaced, before the body runs.
    beside : context manager, default=None
        Entered once the folder is locked, and left once the results are in place.
    """
    place = Path(os.path.realpath(folder.expanduser()))
    if os.path.ismount(place):
        raise ResultsError(
            f"the output folder {folder} is a mount point, which cannot be replaced as a whole; name a "
            f"folder below it, such as {folder / 'spca-tv'}"
        )
    objection = partial(_objection, overwrite=overwrite)
    with (
        _created_parents(place),
        atomic_folder(place, ResultsError, objection=objection, beside=beside) as temporary,
    ):
        if note is not None and place.is_dir() and os.listdir(place):
            n_files = sum(path.is_file() for path in place.rglob("*"))
            note(f"the {n_files} files of an earlier run in {folder} will be replaced")
        yield temporary


@contextmanager
def writing_results(folder: Path) -> Iterator[None]:
    """Name the results folder in errors of the system while results are written beside it."""
    try:
        yield
    except (OSError, ModelError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError) or PARTIAL not in str(cause.filename or PARTIAL):
            raise
        reason = cause.strerror or cause
        raise OSError(f"cannot write the results to {folder}: {reason}; nothing was written") from error


def _objection(folder: Path, *, overwrite: bool) -> str | None:
    """Return why a folder that is not empty must not be replaced; None if it may be."""
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


@contextmanager
def _created_parents(folder: Path) -> Iterator[None]:
    """Create the parent folders, check that they can be written, and remove new ones that stay empty."""
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder.parent):
                pass
        except OSError as error:
            what = f"cannot write to the output folder {folder} ({error.strerror or error})"
            raise ResultsError(f"{what}; choose another with --output") from error
        yield
    finally:
        with suppress(OSError):  # one that is not empty ends the loop
            for parent in missing:  # innermost first
                parent.rmdir()
