"""The values of images as one matrix: read from files, or taken from a cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Memory

from spcatv._util.types import FloatArray
from spcatv.images.space import Samples, Space
from spcatv.model import file_sha256
from spcatv.progress import Event, FileRead, listening, tell

# called after every image with its number (from 1), the number of all images, and its name
ReadProgress = Callable[[int, int, str], None]


def read_matrix(
    samples: Samples,
    space: Space,
    dtype: str,
    *,
    progress: ReadProgress | None = None,
    memory: Any = None,
    hashes: Mapping[Path, str] | None = None,
) -> FloatArray:
    """The values of all samples, shape (n_samples, n_features), not yet cleaned.

    With `memory`, they are kept and found again by the SHA-256 of the files (`hashes`, if they are known) and
    by what happens to the values on the way. Images in memory are not kept: to hash them takes about as long
    as to read them.
    """
    shape = (len(samples.names), space.n_features)
    with nullcontext() if progress is None else listening(_ReadListener(progress)):
        if memory is None or not samples.runs or not all(run.files for run in samples.runs):
            return _filled(samples, shape, dtype)
        known = hashes or {path: file_sha256(path) for path in dict.fromkeys(samples.files)}
        key = ([known[path] for path in samples.files], space.state(), samples.treatment)
        cached = checked_memory(memory).cache(_filled, ignore=["samples"])
        is_kept = bool(cached.check_call_in_cache(samples, shape, dtype, key))
        X = np.require(cached(samples, shape, dtype, key), requirements="W")
        for number, name in enumerate(samples.names if is_kept else (), start=1):
            tell(FileRead(number, len(X), name))
    return X


def _filled(samples: Samples, shape: tuple[int, int], dtype: str, key: Any = None) -> FloatArray:
    """Read the samples; `key` stands for them in a cache."""
    X = np.empty(shape, dtype=dtype)
    samples.fill(X)
    return X


def checked_memory(memory: Any) -> Memory:
    """A joblib.Memory, from one, a path or None."""
    if isinstance(memory, Memory):
        return memory
    if memory is not None and not isinstance(memory, (str, os.PathLike)):
        raise TypeError(f"memory must be a path, a joblib.Memory or None, got {memory!r}")
    return Memory(memory, verbose=0)


@dataclass(frozen=True)
class _ReadListener:
    """Calls the function that was given as `progress`."""

    progress: ReadProgress

    def hear(self, event: Event, /) -> bool:
        if isinstance(event, FileRead):
            self.progress(event.number, event.total, event.name)
        return False
