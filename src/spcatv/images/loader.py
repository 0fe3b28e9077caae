"""Values of images as one matrix: read on all cores, into memory or by way of a cache on disk."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from spcatv._util.threads import most_threads
from spcatv._util.types import FloatArray
from spcatv.data import StoredData, checked_memory_limit
from spcatv.data.memory import BLOCK_BYTES, PARTS, Budget, bytes_text, machine_memory
from spcatv.images.cache import CachedSamples, checked_cache, digest, file_states
from spcatv.images.files import ImageError, each_image, image_errors
from spcatv.images.preprocessing import Reading, clean_run, time_step
from spcatv.images.spaces.base import Samples
from spcatv.model import file_sha256
from spcatv.progress import FileRead, current_listener

# share of the memory that a matrix may take if neither a limit nor a cache was given
LARGEST_SHARE = 0.9
# bytes of images that are read at the same time, at most
MOST_IN_FLIGHT = 1 << 30


Matrix = FloatArray | StoredData
Sha256 = list[tuple[str, ...]]  # of the files of every image


@dataclass(frozen=True)
class Storage:
    """Place of the data matrix."""

    cache: Path | None = None  # folder that keeps samples on disk
    # memory that the matrix, or its blocks, and the vectors of a fit may take
    budget: Budget = Budget()  # noqa: RUF009 (it is immutable)
    n_jobs: int | None = None  # threads that read files, if more than one per core

    @classmethod
    def asked(
        cls, cache: Any, memory_limit: Any, n_components: Any = 3, n_jobs: int | None = None
    ) -> Storage:
        """Check the parameters of these names; TypeError and ValueError name the one that is wrong."""
        n_vectors = n_components if isinstance(n_components, int) else 3
        return cls(checked_cache(cache), Budget(checked_memory_limit(memory_limit), n_vectors), n_jobs)

    @property
    def n_threads(self) -> int:
        """Number of threads that read files."""
        return max(most_threads(), 1 if self.n_jobs is None else int(effective_n_jobs(self.n_jobs)))

    def room(self, most: int) -> int:
        """Return the bytes of images that may be in memory at the same time, `most` without a limit."""
        limit = self.budget.limit
        return min(most, int(machine_memory() // PARTS) if limit is None else limit // PARTS)

    def in_memory(self, shape: tuple[int, int], dtype: str) -> bool:
        """Return whether a matrix of this shape is held in memory."""
        n_bytes = shape[0] * shape[1] * np.dtype(dtype).itemsize
        unlimited = self.cache is None and self.budget.limit is None
        return self.budget.allows_whole(n_bytes, shape[1]) or (
            unlimited and n_bytes <= LARGEST_SHARE * machine_memory()
        )

    def check(self, samples: Samples, dtype: str) -> None:
        """Refuse a matrix for which there is no room, before anything is read."""
        shape = samples.shape
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
                f"{what}, and images that are not files cannot be kept on disk; write files first"
            )
        if self.cache is None:
            raise ImageError(
                f"{what}: name a folder for it, with {bytes_text(n_bytes)} of free space (cache=)"
            )
        with image_errors(ValueError):
            self.budget.block_rows(shape[1] * np.dtype(dtype).itemsize, 1, shape[1])


def is_storable(samples: Samples) -> bool:
    """Return whether the samples come from files that can be recognised, and read one by one."""
    return all(run.files for run in samples.runs)


def read_matrix(samples: Samples, dtype: str, storage: Storage) -> tuple[Matrix, Sha256]:
    """Read all samples into a matrix, not yet cleaned; into the cache if it is too large for the memory."""
    storage.check(samples, dtype)
    if storage.cache is None or not is_storable(samples):
        X: FloatArray = np.empty(samples.shape, dtype)
        return X, _read_each(samples, range(len(samples.runs)), X, storage.n_threads, of_fit=True)
    cached = _cached(samples, dtype, storage)
    stored = _stored(cached, storage.budget)
    return np.asarray(stored) if storage.in_memory(samples.shape, dtype) else stored, cached.sha256


def read_batches(samples: Samples, dtype: str, storage: Storage) -> Iterator[tuple[slice, FloatArray]]:
    """Yield slices of new samples and their values, not yet cleaned: as many images as fit into memory."""
    stored: Any = None
    if storage.cache is not None and is_storable(samples):
        stored = _stored(_cached(samples, dtype, storage), Budget())
    for batch in _batches(samples, dtype, storage):
        part = slice(samples.runs[batch[0]].start, samples.runs[batch[-1]].stop)
        if stored is not None:
            yield part, np.asarray(stored[part])
            continue
        X: FloatArray = np.empty((part.stop - part.start, samples.space.n_features), dtype)
        _read_each(samples, batch, X, storage.n_threads)
        yield part, X


def _batches(samples: Samples, dtype: str, storage: Storage) -> Iterator[Sequence[int]]:
    """Yield the numbers of consecutive images that fit into memory together."""
    numbers = range(len(samples.runs))
    if storage.in_memory(samples.shape, dtype):
        yield numbers
        return
    sample_bytes = samples.space.n_features * np.dtype(dtype).itemsize
    most = max(storage.room(BLOCK_BYTES * PARTS) // sample_bytes, 1)
    first = 0
    for number in numbers:
        if samples.runs[number].stop - samples.runs[first].start > most and number > first:
            yield range(first, number)
            first = number
    yield range(first, len(samples.runs))


def _read_each(
    samples: Samples, numbers: Sequence[int], X: FloatArray, n_threads: int, *, of_fit: bool = False
) -> Sha256:
    """Read consecutive images into X, several at the same time; SHA-256 are computed for images of a fit."""
    sha256: Sha256 = []
    announce = _announcer(samples)
    start = samples.runs[numbers[0]].start

    def make(place: int) -> Any:
        number = numbers[place]
        run = samples.runs[number]
        before = file_states(run.files)
        found = tuple(file_sha256(path) for path in run.files if of_fit)
        sums = samples.read(number, X[run.start - start : run.stop - start])
        if file_states(run.files) != before:
            raise ImageError(f"{run.name}: was changed while it was read; try again")
        return number, sums, found

    def take(made: Any) -> None:
        number, sums, found = made
        sha256.append(found)
        if sums is not None:
            samples.sums.add(sums)
        announce(number)

    with warnings.catch_warnings():  # threads that filter warnings at the same time may leave filters behind
        each_image(make, take, len(numbers), min(n_threads, len(numbers)))
    return sha256


def _announcer(samples: Samples) -> Callable[[int], None]:
    """Return a function that reports, from any thread, an image as read to the listener of this thread."""
    hear, names = current_listener().hear, samples.names

    def announce(number: int) -> None:
        run = samples.runs[number]
        for sample in range(run.start, run.stop):
            hear(FileRead(sample + 1, len(names), names[sample]))

    return announce


def _cached(samples: Samples, dtype: str, storage: Storage) -> CachedSamples:
    """Return all samples in the cache; read the images that are missing there."""
    cached = _place_in_cache(samples, dtype, storage)

    def make(number: int) -> tuple[FloatArray, tuple[str, ...]]:
        run = samples.runs[number]
        hashes = tuple(file_sha256(path) for path in run.files)
        values: FloatArray = np.empty((run.n_samples, samples.space.n_features), dtype)
        samples.read(number, values)
        return values, hashes

    largest = max(run.n_samples for run in samples.runs) * cached.sample_bytes
    n_threads = min(storage.n_threads, len(samples.runs), max(1, storage.room(MOST_IN_FLIGHT) // largest))
    with warnings.catch_warnings():  # as above
        return cached.complete(make, _announcer(samples), n_threads)


def _stored(cached: CachedSamples, budget: Budget) -> StoredData:
    """Return samples of a cache in blocks of the size that the budget allows."""
    data = StoredData(cached, cached.dtype, budget)
    return data if cached.features is None else data.columns(cached.features)


def cleaned_samples(
    X: StoredData,
    samples: Samples,
    reading: Reading,
    tables: Sequence[FloatArray | None],
    storage: Storage,
) -> StoredData:
    """Clean all runs of X, one of which is in memory at a time, and keep the samples on disk."""
    about = [
        digest(asdict(reading), time_step(run, reading), [] if table is None else np.asarray(table))
        for run, table in zip(samples.runs, tables, strict=True)
    ]

    def make(number: int) -> tuple[FloatArray, tuple[str, ...]]:
        run = samples.runs[number]
        values = np.asarray(X[run.start : run.stop])
        clean_run(values, run, reading, tables[number])
        return values, ()

    cached = _place_in_cache(samples, str(X.dtype), storage, about)
    return _stored(cached.complete(make, lambda _: None, 1), storage.budget)


def _place_in_cache(
    samples: Samples, dtype: str, storage: Storage, about: Sequence[str] | None = None
) -> CachedSamples:
    """Return the place of samples in the cache; `about` holds digests of the cleaning of every run."""
    assert storage.cache is not None
    space = samples.space
    values, arrays = space.state()
    # places choose among as many features as there are labels; a header decides how maps are written
    where = {
        name: list(array.shape) if name.startswith(("labels", "header")) else digest(array)
        for name, array in sorted(arrays.items())
    }
    kind = {"space": space.kind, "values": values, "where": where, "treatment": samples.fwhm}
    return CachedSamples(storage.cache, kind, space.places, dtype, samples.runs, about)
