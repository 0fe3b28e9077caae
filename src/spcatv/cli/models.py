"""Opening model folders: what kind of model it is, before the packages that it needs are imported."""

from __future__ import annotations

from pathlib import Path

from spcatv.cli.errors import InputError
from spcatv.cli.folder import MODEL
from spcatv.model import ModelError, SavedModel, read_model


def model_folder(folder: Path) -> Path:
    """The model folder itself, where the folder of the results is given."""
    inner = folder / MODEL
    return inner if inner.is_dir() else folder


def open_model(folder: Path) -> SavedModel:
    """Read a model folder, or that inside of a folder of results, after checking all of it."""
    try:
        return read_model(model_folder(folder))
    except ModelError as error:
        raise InputError(str(error)) from error
