"""Cache of image rows on disk: one file per image, named after everything that its rows depend on.

A file gets its name once it is complete, and a name stands for one content only. So processes that share a
cache need no locks, and a process that is killed loses no more than the images that it was reading. Every
file ends with a checksum, and nothing is unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.files import replacing
from spcatv._util.types import FloatArray, IntArray
from spcatv._version import __version__
from spcatv.data.memory import bytes_text
from spcatv.images.loading import ImageError, each_image
from spcatv.progress import say

LAYOUT = 2  # of the files
PREFIX = "spcatv-"  # of the names of all files in a cache
DIGITS = 24  # of a digest in the name of a file
PACKAGES = ("nibabel", "nilearn", "numpy", "scipy")  # whose versions may change the values
SPARE_BYTES = 32 << 20  # left free on the disk for other files
CHUNK_BYTES = 8 << 20  # read at a time to compare a checksum
# Remove files that were not used for this many seconds once the cache takes more than this share of the disk
# space that is free without it.
UNUSED_SECONDS = 86_400
LARGEST_SHARE = 0.5


class CacheError(ImageError):
    """A cache of rows that cannot be used or written; the message names its folder."""


@dataclass(frozen=True)
class Origin:
    """Files of one image, from which consecutive rows are made."""

    name: str  # for messages
    files: tuple[Path, ...]
    n_rows: int
    about: str = ""  # digest of anything else that the rows depend on

    def key(self) -> str:
        """Return a digest that changes whenever the rows may change."""
        return digest(file_states(self.files), self.about)[:DIGITS]


def file_states(files: Sequence[Path]) -> list[Any]:
    """Return the paths, sizes, times and numbers of files.

    Programs can set the time of modification, but not that of the last change of a file or its attributes.
    """
    # an Analyze image has a header of its own
    headers = [path.with_suffix(".hdr") for path in files if path.suffix == ".img"]
    stats = [(os.path.abspath(path), os.stat(path)) for path in (*files, *headers)]
    return [[path, it.st_size, it.st_mtime_ns, it.st_ctime_ns, it.st_ino] for path, it in stats]


def software() -> list[str]:
    """Return the versions of the software that reads and changes values, as part of a key."""
    return [str(LAYOUT), __version__, *map(version, PACKAGES)]


def digest(*values: Any) -> str:
    """Return the SHA-256 of arrays and of values for JSON."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value)
            found.update(f"{array.dtype.str} {array.shape}".encode())
            found.update(array.data)
        else:
            found.update(json.dumps(value, sort_keys=True).encode())
    return found.hexdigest()


# makes the rows of an image, given its number among the origins; and the SHA-256 of its files
Maker = Callable[[int], tuple[FloatArray, tuple[str, ...]]]


class RowFiles:
    """Rows of images in a cache, one file per image, read like one array (`spcatv.data.stored.Reader`).

    `kind` holds, as values for JSON, what the rows depend on beside the images and `places`: the number of
    every feature among all that the images have, shape (P,).
    """

    def __init__(
        self, cache: Path, kind: Any, places: IntArray, dtype: str, origins: Sequence[Origin]
    ) -> None:
        self.cache, self.kind, self.places, self.origins = cache, kind, places, origins
        self.dtype = np.dtype(dtype)
        self.same_kind = f"{PREFIX}rows-{digest(kind, dtype, software())[:DIGITS]}"
        self.stem = f"{self.same_kind}-{digest(places)[:DIGITS]}"
        self.keys = [origin.key() for origin in origins]
        self.paths = [cache / f"{self.stem}-{key}.rows" for key in self.keys]
        self.starts = np.cumsum([0, *(origin.n_rows for origin in origins)])
        self.shape, self.chunks = (int(self.starts[-1]), len(places)), (1, 1)
        self.sha256: list[tuple[str, ...]] = []  # of the files of every image, once they are complete
        self.columns: IntArray | None = None  # features that are wanted, if the files hold more

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.shape[1] * self.dtype.itemsize

    def complete(self, make: Maker, done: Callable[[int], None], n_threads: int) -> RowFiles:
        """Make the files that are missing or damaged, `n_threads` at a time.

        `done` is called with the number of every image, in order, once its rows are there. If all images are
        there with more features (a fit drops features from its mask), their files are returned instead.
        """
        missing = [number for number, path in enumerate(self.paths) if not path.exists()]
        wider = self._wider() if missing else None
        if wider is not None:
            for number in range(len(self.origins)):
                done(number)
            return wider
        if missing:
            with self._writing():
                self.cache.mkdir(parents=True, exist_ok=True)
                self._make_room(missing)
                self._write_places()

        def one(number: int) -> tuple[int, tuple[str, ...]]:
            intact = self._intact(number)
            return number, self._written(number, make) if intact is None else intact

        def take(made: tuple[int, tuple[str, ...]]) -> None:
            number, sha256 = made
            self.sha256.append(sha256)
            done(number)

        each_image(one, take, len(self.origins), n_threads)
        return self

    def _wider(self) -> RowFiles | None:
        """Return intact files of the same images with more features; None if there are none."""
        for file in sorted(self.cache.glob(f"{self.same_kind}-*.npy")):
            try:
                places = np.load(file, allow_pickle=False)
            except (OSError, ValueError, EOFError):
                continue
            if not np.isin(self.places, places).all():
                continue
            wider = RowFiles(self.cache, self.kind, places, str(self.dtype), self.origins)
            # a damaged file of places has another digest
            if file.stem != wider.stem or not all(path.exists() for path in wider.paths):
                continue
            found = [wider._intact(number) for number in range(len(self.origins))]
            wider.sha256 = [sha256 for sha256 in found if sha256 is not None]
            if len(wider.sha256) == len(found):
                order = np.argsort(places)
                wider.columns = order[np.searchsorted(places, self.places, sorter=order)]
                return wider
        return None

    def _write_places(self) -> None:
        with replacing(self.cache / f"{self.stem}.npy") as temporary, temporary.open("wb") as file:
            np.save(file, self.places, allow_pickle=False)

    def _intact(self, number: int) -> tuple[str, ...] | None:
        """Return the SHA-256 of the files of an image if its rows are there and intact; mark them as used."""
        size, checksum = self.origins[number].n_rows * self.row_bytes, 0
        try:
            with self.paths[number].open("rb") as file:
                while size and (chunk := file.read(min(size, CHUNK_BYTES))):
                    size, checksum = size - len(chunk), zlib.crc32(chunk, checksum)
                found, sha256 = json.loads(file.read())
                _mark_used(file)
        except (OSError, ValueError, TypeError):
            return None
        return tuple(sha256) if found == checksum else None

    def _written(self, number: int, make: Maker) -> tuple[str, ...]:
        rows, sha256 = make(number)
        if self.origins[number].key() != self.keys[number]:
            raise ImageError(f"{self.origins[number].name}: was changed while it was read; try again")
        content = np.ascontiguousarray(rows, self.dtype).reshape(-1).view(np.uint8).data
        with self._writing(), replacing(self.paths[number]) as temporary, temporary.open("wb") as file:
            file.write(content)
            file.write(json.dumps([zlib.crc32(content), sha256]).encode())
        return sha256

    def _make_room(self, missing: Sequence[int]) -> None:
        """Remove old files, print how much will be written, and refuse to start if it does not fit."""
        n_images, n_missing = len(self.origins), len(missing)
        needed = sum(self.origins[number].n_rows for number in missing) * self.row_bytes
        _remove_unused(self.cache, needed, keep=set(self.paths))
        free = shutil.disk_usage(self.cache).free
        if needed + SPARE_BYTES > free:
            raise CacheError(
                f"{self.cache}: the cache needs {bytes_text(needed)} for {n_missing} of {n_images} images, "
                f"but the disk has only {bytes_text(free)} free; name a folder on another disk (cache=, "
                "--cache), or make room"
            )
        say(
            f"{n_images - n_missing} of {n_images} images are in the cache {self.cache}; the others take "
            f"{bytes_text(needed)}, and the disk has {bytes_text(free)} free"
        )

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise unusable(self.cache, error) from error

    def fill(self, out: FloatArray, first: int, left: int = 0) -> None:
        """Read rows from `first` on and columns from `left` on into a float array."""
        row = first
        while row < first + len(out):
            number = int(np.searchsorted(self.starts, row, side="right")) - 1
            stop = min(int(self.starts[number + 1]), first + len(out))
            self._read(number, out[row - first : stop - first], row - int(self.starts[number]), left)
            row = stop

    def _read(self, number: int, out: FloatArray, first: int, left: int) -> None:
        """Read rows of one image."""
        direct = out.dtype == self.dtype and out.flags.c_contiguous
        values: FloatArray = out if direct else np.empty(out.shape, self.dtype)
        # one read for all rows where they follow each other in the file
        pieces = (
            [values] if values.shape[1] == self.shape[1] else [values[k : k + 1] for k in range(len(values))]
        )
        path = self.paths[number]
        try:
            with path.open("rb", buffering=0) as file:
                _mark_used(file)
                for place, piece in enumerate(pieces):
                    file.seek((first + place) * self.row_bytes + left * self.dtype.itemsize)
                    if _read_into(file, piece) < piece.nbytes:
                        raise OSError(f"{path} was cut off while it was read as X")
        except FileNotFoundError as error:
            raise OSError(f"{path} was deleted while it was read as X; run the command again") from error
        if not direct:
            out[...] = values


def _read_into(file: Any, out: FloatArray) -> int:
    """Read bytes into a contiguous array; return how many the file had."""
    left = out.reshape(-1).view(np.uint8)
    while len(left) and (count := file.readinto(left)):
        left = left[count:]
    return out.nbytes - len(left)


def _mark_used(file: Any) -> None:
    """Set the time of an open file, by which `_remove_unused` chooses."""
    with suppress(OSError, NotImplementedError, TypeError):  # another user's file, or a system that cannot
        os.utime(file.fileno())


def _remove_unused(cache: Path, needed: int, keep: set[Path]) -> None:
    """Remove the files that were not used for longest until there is room for `needed` bytes more."""
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
        # a hidden file is what a killed process has left of one
        if path not in keep and (total + needed > most or path.name.startswith(".")):
            with suppress(OSError):
                path.unlink()
                total -= size


def checked_cache(cache: Any) -> Path | None:
    """Return the folder of a cache, or None."""
    if cache is None:
        return None
    if not isinstance(cache, (str, os.PathLike)):
        raise TypeError(f"cache must be the path of a folder or None, got {cache!r}")
    folder = Path(cache).expanduser()
    if folder.exists() and not folder.is_dir():
        raise CacheError(f"{folder}: is a file; the cache of rows is a folder (cache=, --cache)")
    return folder


def unusable(cache: Path, error: OSError) -> CacheError:
    """Return the error for a cache that cannot be written."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "make room and run it again (finished images are kept), or " if full else ""
    return CacheError(
        f"{cache}: the cache cannot be written ({error.strerror or error}); {remedy}name another folder "
        "(cache=, --cache)"
    )
