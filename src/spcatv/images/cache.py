"""Cache folder: one file per image, named after everything that its contents depend on.

A file gets its name once it is complete, and a name stands for one content only. So processes that share a
cache need no locks, and a process that is killed loses only the images that it was reading.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import numpy as np

from spcatv._util.atomic_files import replacing
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv._version import __version__
from spcatv.images.files import ImageError, each_image
from spcatv.images.spaces.base import Run

LAYOUT = 3  # of the files
PREFIX = "spcatv-"  # of the names of all files in a cache
DIGITS = 24  # of a digest in the name of a file
PACKAGES = ("nibabel", "nilearn", "numpy", "scipy")  # whose versions may change the values
# Remove the files that were used least recently, and not for this many seconds, while the cache takes more
# than this share of the disk space that is free without it.
UNUSED_SECONDS = 86_400
LARGEST_SHARE = 0.5


class CacheError(ImageError):
    """A cache folder that cannot be used or written; the message names it."""


def checked_cache(cache: Any) -> Path | None:
    """Return the folder of a cache, or None."""
    if cache is None:
        return None
    if not isinstance(cache, (str, os.PathLike)):
        raise TypeError(f"cache must be the path of a folder or None, got {cache!r}")
    folder = Path(cache).expanduser()
    if folder.exists() and not folder.is_dir():
        raise CacheError(f"{folder}: is a file; the cache is a folder (cache=)")
    return folder


def digest(*values: Any) -> str:
    """Return a digest of arrays and of values for JSON, for the name of a file."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value)
            found.update(f"{array.dtype.str} {array.shape}".encode())
            found.update(array.data)
        else:
            found.update(json.dumps(value, sort_keys=True).encode())
    return found.hexdigest()[:DIGITS]


def file_states(files: Sequence[Path]) -> list[Any]:
    """Return paths, sizes, times and inodes of files; programs cannot set the time of change (ctime)."""
    # an Analyze image has a header of its own
    headers = [path.with_suffix(".hdr") for path in files if path.suffix == ".img"]
    stats = [(os.path.abspath(path), os.stat(path)) for path in (*files, *headers)]
    return [[path, it.st_size, it.st_mtime_ns, it.st_ctime_ns, it.st_ino] for path, it in stats]


def software() -> list[str]:
    """Return the versions of the software that reads and changes values, as part of a key."""
    return [str(LAYOUT), __version__, *map(version, PACKAGES)]


class CachedSamples:
    """Samples of images in a cache, one file per image, read like one array (`spcatv.data.files.Reader`).

    The values depend on the image, on `kind` and `about` (values for JSON, for all images and for each) and
    on `places` (`Space.places`). Behind them, a file holds the SHA-256 of the files that were read.
    """

    def __init__(
        self,
        cache: Path,
        kind: Any,
        places: IntArray,
        dtype: str,
        runs: Sequence[Run],
        about: Sequence[Any] | None = None,
    ) -> None:
        self.cache, self.kind, self.places, self.runs = cache, kind, places, runs
        self.about = [None] * len(runs) if about is None else about
        self.dtype = np.dtype(dtype)
        self.same_kind = f"{PREFIX}samples-{digest(kind, dtype, software())}"
        self.stem = f"{self.same_kind}-{digest(places)}"
        self.keys = [self._key(number) for number in range(len(runs))]
        self.paths = [cache / f"{self.stem}-{key}.samples" for key in self.keys]
        self.stops = [run.stop for run in runs]
        self.shape, self.chunks = (self.stops[-1], len(places)), (1, 1)
        self.sha256: list[tuple[str, ...]] = []  # of the files of every image, once they are complete
        self.features: IntArray | None = None  # features that are wanted, if the files hold more

    def _key(self, number: int) -> str:
        """Return a digest that changes whenever the values of an image may change."""
        return digest(file_states(self.runs[number].files), self.about[number])

    @property
    def sample_bytes(self) -> int:
        """Bytes of a sample."""
        return self.shape[1] * self.dtype.itemsize

    def complete(
        self,
        make: Callable[[int], tuple[FloatArray, tuple[str, ...]]],
        done: Callable[[int], None],
        n_threads: int,
    ) -> CachedSamples:
        """Make the missing files from what `make` returns (values, SHA-256); call `done` for every image.

        If all images are there with more features (a fit drops some), their files are returned instead.
        """
        found = [self._sha256(number) for number in range(len(self.runs))]
        if None in found:
            wider = self._wider()
            if wider is not None:
                for number in range(len(self.runs)):
                    done(number)
                return wider
            missing = sum(run.n_samples for run, sha in zip(self.runs, found, strict=True) if sha is None)
            with _writing(self.cache):
                self.cache.mkdir(parents=True, exist_ok=True)
                _remove_unused(self.cache, missing * self.sample_bytes, keep=set(self.paths))
            keep_array(self.cache, self.stem, self.places)

        def one(number: int) -> tuple[int, tuple[str, ...]]:
            sha256 = found[number]
            return number, self._written(number, *make(number)) if sha256 is None else sha256

        def take(made: tuple[int, tuple[str, ...]]) -> None:
            number, sha256 = made
            self.sha256.append(sha256)
            done(number)

        each_image(one, take, len(self.runs), n_threads)
        return self

    def _wider(self) -> CachedSamples | None:
        """Return complete files of the same images with more features; None if there are none."""
        for file in sorted(self.cache.glob(f"{self.same_kind}-*.npy")):
            places = kept_array(self.cache, file.stem)
            if places is None or not np.isin(self.places, places).all():
                continue
            wider = CachedSamples(self.cache, self.kind, places, str(self.dtype), self.runs, self.about)
            found = [wider._sha256(number) for number in range(len(self.runs))]
            wider.sha256 = [sha256 for sha256 in found if sha256 is not None]
            if len(wider.sha256) == len(found):
                order = np.argsort(places)
                wider.features = order[np.searchsorted(places, self.places, sorter=order)]
                return wider
        return None

    def _sha256(self, number: int) -> tuple[str, ...] | None:
        """Return the SHA-256 behind the values of an image, which count as used; None if they are missing."""
        try:
            with self.paths[number].open("rb") as file:
                file.seek(self.runs[number].n_samples * self.sample_bytes)
                sha256 = tuple(json.loads(file.read()))
                _mark_used(file)
        except (OSError, ValueError):
            return None
        return sha256

    def _written(self, number: int, values: FloatArray, sha256: tuple[str, ...]) -> tuple[str, ...]:
        """Write the values of an image unless its files have changed meanwhile."""
        if self._key(number) != self.keys[number]:
            raise ImageError(f"{self.runs[number].name}: was changed while it was read; try again")

        def write(file: IO[bytes]) -> None:
            np.ascontiguousarray(values, self.dtype).tofile(file)
            file.write(json.dumps(sha256).encode())

        _write(self.paths[number], write)
        return sha256

    def fill(self, out: FloatArray, first: int, left: int = 0) -> None:
        """Read samples from `first` on and features from `left` on into a float array."""
        sample = first
        while sample < first + len(out):
            number = bisect_right(self.stops, sample)
            stop = min(self.stops[number], first + len(out))
            self._read(number, out[sample - first : stop - first], sample - self.runs[number].start, left)
            sample = stop

    def _read(self, number: int, out: FloatArray, first: int, left: int) -> None:
        """Read samples of one image."""
        path = self.paths[number]
        # one read for all samples where they follow each other in the file
        height = len(out) if out.shape[1] == self.shape[1] else 1
        try:
            with path.open("rb", buffering=0) as file:
                _mark_used(file)
                for begin in range(0, len(out), height):
                    file.seek((first + begin) * self.sample_bytes + left * self.dtype.itemsize)
                    values = np.fromfile(file, self.dtype, height * out.shape[1])
                    if len(values) < height * out.shape[1]:
                        raise OSError(f"{path} was cut off while it was read as X")
                    out[begin : begin + height] = values.reshape(height, -1)
        except FileNotFoundError as error:
            raise OSError(f"{path} was deleted while it was read as X; run the command again") from error


def kept_array(cache: Path, name: str) -> Array | None:
    """Return an array from a cache; None if it is not there."""
    try:
        with (cache / f"{name}.npy").open("rb") as file:
            values: Array = np.load(file, allow_pickle=False)
            _mark_used(file)
    except (OSError, ValueError, EOFError):
        return None
    return values


def keep_array(cache: Path, name: str, values: Array) -> None:
    """Write an array into a cache."""
    _write(cache / f"{name}.npy", lambda file: np.save(file, values, allow_pickle=False))


def _write(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    with _writing(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as file:
            write(file)


@contextmanager
def _writing(cache: Path) -> Iterator[None]:
    """Turn an OSError into a CacheError that names the folder and the remedy."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        remedy = "make room and run it again (finished images are kept), or " if full else ""
        raise CacheError(
            f"{cache}: the cache cannot be written ({error.strerror or error}); {remedy}name another folder "
            "(cache=)"
        ) from error


def _mark_used(file: IO[bytes]) -> None:
    """Set the time of an open file, by which `_remove_unused` chooses."""
    with suppress(OSError, NotImplementedError, TypeError):  # another user's file, or a system that cannot
        os.utime(file.fileno())


def _remove_unused(cache: Path, needed: int, keep: set[Path]) -> None:
    """Remove the files that were used least recently until there is room for `needed` bytes more."""
    found = []
    for path in (*cache.glob(f"{PREFIX}*"), *cache.glob(f".{PREFIX}*")):
        with suppress(OSError):  # another process has just removed it
            about = path.lstat()
            found.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in found)
    most = LARGEST_SHARE * (shutil.disk_usage(cache).free + total)
    for used, size, path in sorted(found):
        if used > time.time() - UNUSED_SECONDS:
            return
        # hidden files are leftovers of killed processes
        if path not in keep and (total + needed > most or path.name.startswith(".")):
            with suppress(OSError):
                path.unlink()
                total -= size
