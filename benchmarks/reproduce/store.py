"""Fits on disk, one small file each, so that a stopped run resumes; processes that make the missing ones.

A record has a checksum, and is valid only for its data, its setting and the versions of that fit.
"""

from __future__ import annotations

import hashlib
import json
import time
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from spcatv._util.atomic_files import replacing
from spcatv.model import current_versions


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
    data : str
        A digest of the data, where these are not simulated.
    """

    folder: Path
    data: str = ""

    def path(self, method: str, name: str) -> Path:
        """Where the record is, or will be."""
        return self.folder / method / f"{name}.npz"

    def load(self, method: str, name: str, setting: Mapping[str, Any]) -> Record | None:
        """Return the record, or None if it is missing, damaged, or of other data, settings or versions."""
        try:
            with self.path(method, name).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                text, components = str(archive["values"]), archive["components"]
                intact = str(archive["sha256"]) == _checksum(text, components)
                values = json.loads(text)
        except (FileNotFoundError, zipfile.BadZipFile, zlib.error, KeyError, ValueError, EOFError):
            return None
        wanted = self._about(setting)
        same = {key: values.get(key) for key in wanted} == wanted
        return Record(components, values) if intact and same else None

    def _about(self, setting: Mapping[str, Any]) -> dict[str, Any]:
        return {"setting": _plain(setting), "data": self.data, "versions": current_versions()}

    def save(self, method: str, name: str, setting: Mapping[str, Any], record: Record) -> None:
        """Write the record, completely or not at all."""
        path = self.path(method, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**record.values, **self._about(setting)})
        components = record.components.astype(np.float32)
        with replacing(path) as draft, draft.open("wb") as file:
            np.savez_compressed(file, components=components, values=text, sha256=_checksum(text, components))


def _checksum(text: str, components: np.ndarray) -> str:
    return hashlib.sha256(text.encode() + np.ascontiguousarray(components).tobytes()).hexdigest()


def _plain(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the setting as JSON returns it, so that it can be compared."""
    return json.loads(json.dumps(dict(setting), sort_keys=True))


def run_all(
    work: Callable[..., str],
    pieces: Sequence[tuple[Any, ...]],
    *,
    jobs: int,
    say: Callable[[str], None] = print,
) -> None:
    """Call ``work(*piece)`` for every piece in `jobs` processes; it stores its own results.

    Parameters
    ----------
    work : callable
        Returns a line to show.
    pieces : sequence of tuple
        Arguments.
    jobs : int
        Processes; each keeps to one thread.
    say : callable
        Receives the lines, each with the pieces done and the time left.
    """
    started = time.perf_counter()
    results = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(work)(*piece) for piece in pieces
    )
    for done, line in enumerate(results, start=1):
        passed = time.perf_counter() - started
        left = passed / done * (len(pieces) - done)
        say(f"[{done}/{len(pieces)}, {_clock(passed)} passed, {_clock(left)} left] {line}")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
