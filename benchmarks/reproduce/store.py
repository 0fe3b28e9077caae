"""Results on disk, one small file each, so that a study that was stopped continues where it was."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import write_atomically


@dataclass(frozen=True, eq=False)
class Record:
    """One method on one data set.

    Attributes
    ----------
    components : ndarray of shape (K, P), float32
        Loadings.
    values : dict
        What was measured: numbers, lists of numbers, strings.
    """

    components: np.ndarray
    values: dict[str, Any]


@dataclass(frozen=True)
class Store:
    """A folder of records, one for each method, data set and setting.

    Parameters
    ----------
    folder : Path
        Created with the first record.
    """

    folder: Path

    def path(self, method: str, name: str) -> Path:
        """Where the record is, or will be."""
        return self.folder / method / f"{name}.npz"

    def load(self, method: str, name: str, setting: Mapping[str, Any]) -> Record | None:
        """The record, or None if it is missing, belongs to another setting or cannot be read."""
        try:
            with np.load(self.path(method, name), allow_pickle=False) as archive:
                values = json.loads(str(archive["values"]))
                record = Record(archive["components"], values)
        except (FileNotFoundError, zipfile.BadZipFile, KeyError, ValueError, EOFError):
            return None
        return record if values.get("setting") == _plain(setting) else None

    def save(self, method: str, name: str, setting: Mapping[str, Any], record: Record) -> None:
        """Write the record, completely or not at all."""
        path = self.path(method, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**record.values, "setting": _plain(setting)})

        def write(draft: Path) -> None:
            with draft.open("wb") as file:
                np.savez_compressed(file, components=record.components.astype(np.float32), values=text)

        write_atomically(path, write)


def _plain(setting: Mapping[str, Any]) -> dict[str, Any]:
    """The setting as JSON returns it, so that it can be compared."""
    return json.loads(json.dumps(dict(setting), sort_keys=True))
