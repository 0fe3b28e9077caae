"""The values of images as one matrix: read on all cores, into memory or into a cache on disk."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Memory, effective_n_jobs

from spcatv._util.files import file_state
from spcatv._util.threads import most_threads
from spcatv._util.types import FloatArray
from spcatv.data import checked_memory_limit
from spcatv.data.memory import BLOCK_BYTES, PARTS, Budget, bytes_text, machine_memory
from spcatv.images.loading import ImageError, each_image, image_errors
from spcatv.images.reading import Reading
from spcatv.images.row_cache import Origin, RowFiles, checked_cache, digest, software
from spcatv.images.rows import StoredRows
from spcatv.images.runs import clean_runs, time_step
from spcatv.images.space import Samples, Space
from spcatv.model import file_sha256
from spcatv.progress import Event, FileRead, listeners, listening, silence, together

# called after every image with its number (from 1), the number of all images, and its name
ReadProgress = Callable[[int, int, str], None]
Matrix = FloatArray | StoredRows

# Share of the memory that a matrix may take where neither a limit nor a cache was asked for.
LARGEST_SHARE = 0.9
# Bytes of images that are read at the same time, at most.
MOST_IN_FLIGHT = 1 << 30


@dataclass(frozen=True)
class Storage:
    """Where the data matrix may be."""

    cache: Path | None = None  # folder of rows on disk
    # how much memory the matrix, or its blocks, and the vectors of a fit may take
    budget: Budget = Budget()  # noqa: RUF009 (it is immutable)
    n_jobs: int | None = None  # threads that read files, if more than the cores are wanted

    @classmethod
    def asked(
        cls, cache: Any, memory_limit: Any, n_components: Any = 3, n_jobs: int | None = None
    ) -> Storage:
        """From the parameters of these names; TypeError and ValueError name the one that is wrong."""
        n_vectors = n_components if isinstance(n_components, int) else 3
        return cls(checked_cache(cache), Budget(checked_memory_limit(memory_limit), n_vectors), n_jobs)

    @property
    def n_threads(self) -> int:
        """How many threads read files."""
        return max(most_threads(), 1 if self.n_jobs is None else int(effective_n_jobs(self.n_jobs)))

    def in_memory(self, shape: tuple[int, int], dtype: str) -> bool:
        """Whether a matrix of this shape is held in memory."""
        n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        unlimited = self.cache is None and self.budget.limit is None
        return self.budget.allows_whole(n_bytes, shape[1]) or (
            unlimited and n_bytes <= LARGEST_SHARE * machine_memory()
        )

    def check(self, samples: Samples, shape: tuple[int, int], dtype: str) -> None:
        """Refuse a matrix for which there is no room, before anything is read."""
        if self.in_memory(shape, dtype):
            return
        n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        limit = self.budget.limit
        room = f"the memory of {bytes_text(machine_memory())}" if limit is None else bytes_text(limit)
        what = (
            f"the data matrix ({shape[0]:,} x {shape[1]:,}, {bytes_text(n_bytes)}) does not fit into {room}"
        )
        if not is_storable(samples):
            raise ImageError(
                f"{what}, and images that are no files cannot be kept on disk; write files first"
            )
        if self.cache is None:
            raise ImageError(
                f"{what}: name a folder for its rows, with {bytes_text(n_bytes)} of free space "
                "(cache=, --cache)"
            )
        with image_errors(ValueError):
            self.budget.block_rows(shape[1] * np.dtype(dtype).itemsize, 1, shape[1])


def is_storable(samples: Samples) -> bool:
    """Whether the samples come from files that can be recognised, and read one by one."""
    return samples.images() is not None and bool(samples.runs) and all(run.files for run in samples.runs)


@dataclass(frozen=True, eq=False)
class ReadValues:
    """What was read: one row per sample, and the SHA-256 of every file that was looked at for it."""

    X: Matrix
    sha256: dict[Path, str]


def read_matrix(
    samples: Samples,
    space: Space,
    dtype: str,
    *,
    progress: ReadProgress | None = None,
    memory: Any = None,
    storage: Storage = Storage(),
) -> ReadValues:
    """The values of all samples, shape (n_samples, n_features), not yet cleaned.

    With `memory`, they are kept and found again by the SHA-256 of the files and by what happens to the values
    on the way. Images in memory are not kept: to hash them takes about as long as to read them. With a
    cache (`storage`), rows are kept on disk, and stay there if the matrix is too large for the memory.
    """
    shape = (len(samples.names), space.n_features)
    storage.check(samples, shape, dtype)
    with heard(progress):
        if memory is not None and is_storable(samples):
            return _remembered(samples, space, shape, dtype, memory)
        if storage.cache is None or not is_storable(samples):
            return _in_memory(samples, shape, dtype, storage.n_threads)
        files = row_files(samples, space, dtype, storage)
        X = StoredRows.open(files, storage.budget)
        hashes = zip(samples.runs, files.sha256, strict=True)
        known = {path: sha for run, found in hashes for path, sha in zip(run.files, found, strict=True)}
        return ReadValues(np.asarray(X) if storage.in_memory(shape, dtype) else X, known)


def read_batches(
    samples: Samples, space: Space, dtype: str, *, memory: Any = None, storage: Storage = Storage()
) -> Iterator[tuple[slice, FloatArray]]:
    """The values of new samples, as many whole images at a time as fit into memory; not yet cleaned.

    Yields which samples, and their values; one batch if all fit into memory.
    """
    if memory is not None or samples.images() is None or not samples.runs:
        yield slice(0, len(samples.names)), np.asarray(read_matrix(samples, space, dtype, memory=memory).X)
        return
    stored: Any = None
    if storage.cache is not None and is_storable(samples):
        stored = StoredRows.open(row_files(samples, space, dtype, storage), Budget())
    for batch in _batches(samples, (len(samples.names), space.n_features), dtype, storage):
        part = slice(samples.runs[batch[0]].start, samples.runs[batch[-1]].stop)
        if stored is not None:
            yield part, np.asarray(stored[part])
            continue
        X: FloatArray = np.empty((part.stop - part.start, space.n_features), dtype)
        _read_each(samples, batch, X, storage.n_threads)
        yield part, X


def _batches(
    samples: Samples, shape: tuple[int, int], dtype: str, storage: Storage
) -> Iterator[Sequence[int]]:
    """The numbers of consecutive images whose rows fit into memory together."""
    numbers = range(len(samples.runs))
    if storage.in_memory(shape, dtype):
        yield numbers
        return
    limit = storage.budget.limit
    room = BLOCK_BYTES * PARTS if limit is None else limit // PARTS
    most = max(room // (shape[1] * np.dtype(dtype).itemsize), 1)
    first = 0
    for number in numbers:
        if samples.runs[number].stop - samples.runs[first].start > most and number > first:
            yield range(first, number)
            first = number
    yield range(first, len(samples.runs))


def _in_memory(samples: Samples, shape: tuple[int, int], dtype: str, n_threads: int) -> ReadValues:
    X: FloatArray = np.empty(shape, dtype)
    if samples.images() is None or not samples.runs:
        samples.fill(X)
        return ReadValues(X, _hashes(samples))
    return ReadValues(X, _read_each(samples, range(len(samples.runs)), X, n_threads, of_fit=True))


def _hashes(samples: Samples) -> dict[Path, str]:
    return {path: file_sha256(path) for path in dict.fromkeys(samples.files)}


def _read_each(
    samples: Samples, numbers: Sequence[int], X: FloatArray, n_threads: int, *, of_fit: bool = False
) -> dict[Path, str]:
    """Read consecutive images into the rows of X, several at the same time.

    Those of a fit are also summed up, and the SHA-256 of their files are returned.
    """
    hashes: dict[Path, str] = {}
    done, images = _teller(samples), samples.images()
    assert images is not None
    start = samples.runs[numbers[0]].start

    def make(place: int) -> Any:
        number = numbers[place]
        run = samples.runs[number]
        before = [file_state(path) for path in run.files]
        found = {path: file_sha256(path) for path in run.files} if of_fit else {}
        image = images[number].summing() if of_fit else images[number]
        _read(image, X[run.start - start : run.stop - start])
        if [file_state(path) for path in run.files] != before:
            raise ImageError(f"{run.name}: was changed while it was read; try again")
        return number, image, found

    def take(made: Any) -> None:
        number, image, found = made
        hashes.update(found)
        samples.add_sums(image)
        done(number)

    with warnings.catch_warnings():  # threads that filter warnings at the same time may leave filters behind
        each_image(make, take, len(numbers), min(n_threads, len(numbers)))
    return hashes


def _read(image: Samples, rows: FloatArray) -> None:
    """Read one image into its rows, on any thread."""
    with silence():
        image.fill(rows)


def _teller(samples: Samples) -> Callable[[int], None]:
    """Tells the listeners of this thread that an image has been read; may be called on any thread."""
    hear, names = together(*listeners()).hear, samples.names

    def done(number: int) -> None:
        run = samples.runs[number]
        for sample in range(run.start, run.stop):
            hear(FileRead(sample + 1, len(names), names[sample]))

    return done


def row_files(samples: Samples, space: Space, dtype: str, storage: Storage) -> RowFiles:
    """Return the rows of all samples in the cache; read the images that are missing there."""
    images = samples.images()
    assert images is not None
    files = _files_in_cache(samples, space, dtype, storage)
    origins = files.origins

    def make(number: int) -> tuple[FloatArray, tuple[str, ...]]:
        hashes = tuple(file_sha256(path) for path in origins[number].files)
        rows: FloatArray = np.empty((origins[number].n_rows, space.n_features), dtype)
        _read(images[number], rows)
        return rows, hashes

    largest = max(origin.n_rows for origin in origins) * files.row_bytes
    limit = storage.budget.limit
    room = min(MOST_IN_FLIGHT, machine_memory() // PARTS if limit is None else limit // PARTS)
    n_threads = min(storage.n_threads, len(origins), max(1, int(room // largest)))
    with warnings.catch_warnings():  # as above
        return files.complete(make, _teller(samples), n_threads)


def cleaned_rows(
    X: StoredRows,
    samples: Samples,
    space: Space,
    reading: Reading,
    tables: Sequence[FloatArray | None],
    storage: Storage,
) -> StoredRows:
    """Return the cleaned rows of all runs, on disk; one run is in memory at a time.

    `X` holds the rows as they were read, of the features of `space`; `tables` the confounds of every run.
    """
    about = [
        digest(asdict(reading), time_step(run, reading), [] if table is None else np.asarray(table))
        for run, table in zip(samples.runs, tables, strict=True)
    ]

    def make(number: int) -> tuple[FloatArray, tuple[str, ...]]:
        run = samples.runs[number]
        rows = np.asarray(X[run.start : run.stop])
        clean_runs(rows, [run.moved(-run.start)], reading, [tables[number]])
        return rows, ()

    files = _files_in_cache(samples, space, str(X.dtype), storage, about)
    return StoredRows.open(files.complete(make, lambda _: None, 1), storage.budget)


def _files_in_cache(
    samples: Samples, space: Space, dtype: str, storage: Storage, about: Sequence[str] | None = None
) -> RowFiles:
    """Return the files of the samples in the cache, whether they exist or not.

    `about` holds digests of how every run is cleaned; None for rows as they are read.
    """
    assert storage.cache is not None
    values, arrays = space.state()
    places = space.places()
    # places choose among as many features as there are labels; a header decides how maps are written
    where = {
        name: list(array.shape)
        if places is not None and name.startswith(("labels", "header"))
        else digest(array)
        for name, array in sorted(arrays.items())
    }
    kind = {"space": space.kind, "values": values, "where": where, "treatment": samples.treatment}
    origins = [
        Origin(run.name, run.files, run.n_samples, "" if about is None else about[number])
        for number, run in enumerate(samples.runs)
    ]
    places = np.arange(space.n_features) if places is None else places
    return RowFiles(storage.cache, kind, places, dtype, origins)


def _remembered(
    samples: Samples, space: Space, shape: tuple[int, int], dtype: str, memory: Any
) -> ReadValues:
    """Read, or taken from a joblib.Memory."""
    known = _hashes(samples)
    key = ([known[path] for path in samples.files], space.state(), samples.treatment, software())
    cached = checked_memory(memory).cache(_filled, ignore=["samples"])
    is_kept = bool(cached.check_call_in_cache(samples, shape, dtype, key))
    X = np.require(cached(samples, shape, dtype, key), requirements="W")
    done = _teller(samples)
    for number in range(len(samples.runs) if is_kept else 0):
        done(number)
    return ReadValues(X, known)


def _filled(samples: Samples, shape: tuple[int, int], dtype: str, key: Any = None) -> FloatArray:
    """Read the samples; `key` stands for them in a cache."""
    return np.asarray(_in_memory(samples, shape, dtype, most_threads()).X)


def checked_memory(memory: Any) -> Memory:
    """A joblib.Memory, from one, a path or None."""
    if isinstance(memory, Memory):
        return memory
    if memory is not None and not isinstance(memory, (str, os.PathLike)):
        raise TypeError(f"memory must be a path, a joblib.Memory or None, got {memory!r}")
    return Memory(memory, verbose=0)


def heard(progress: ReadProgress | None) -> AbstractContextManager[None]:
    """A ``with`` block in which a function is called after every image."""
    return nullcontext() if progress is None else listening(_ReadListener(progress))


@dataclass(frozen=True)
class _ReadListener:
    """Calls the function that was given as `progress`."""

    progress: ReadProgress

    def hear(self, event: Event, /) -> bool:
        if isinstance(event, FileRead):
            self.progress(event.number, event.total, event.name)
        return False
