"""A cache on disk: one row per sample, found again by the files that it was made of.

A store is a folder below the cache with rows of one kind: one mask, one way to read images, one precision. It
holds the rows of any number of images, so that a cohort may grow or shrink. Rows are written one after the
other and never changed or moved. After the rows of an image, one line is added to the index: what they were
made of (paths, sizes and times of change), where they are, and their checksums. What has no line in the index
does not count. So a process that is killed at any moment loses no more than the images it was reading, and
others may read the store meanwhile. Nothing is ever unpickled.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.locks import locked
from spcatv._util.threads import in_order, most_threads
from spcatv._util.types import FloatArray, IntArray
from spcatv.data.memory import bytes_text
from spcatv.images.loading import ImageError
from spcatv.progress import say

LAYOUT = 1
PREFIX = "spcatv-rows-"
ABOUT, PLACES, ROWS, INDEX = "about.json", "places.npy", "rows.bin", "index.jsonl"
# room that is left on the disk for other files
SPARE_BYTES = 32 << 20
SECONDS_BETWEEN_TRIES = 0.2
FULL = (errno.ENOSPC, errno.EDQUOT)


class CacheError(ImageError):
    """A cache of rows that cannot be used or written; the message names its folder."""


@dataclass(frozen=True)
class Origin:
    """What some consecutive rows are made of: the files of one image."""

    name: str  # for messages
    files: tuple[Path, ...]
    n_rows: int
    about: str = ""  # a digest of whatever else the rows depend on

    def state(self) -> str:
        """What changes when the rows may change: the files, their sizes and times of change."""
        # an Analyze image has a header of its own
        headers = [path.with_suffix(".hdr") for path in self.files if path.suffix == ".img"]
        stats = [(os.path.abspath(path), os.stat(path)) for path in (*self.files, *headers)]
        files = [[path, found.st_size, found.st_mtime_ns] for path, found in stats]
        return json.dumps([files, self.about])


@dataclass(frozen=True)
class Entry:
    """A line of the index."""

    state: str
    first: int  # the first of the rows
    checksums: tuple[int, ...]  # CRC-32 of every row
    sha256: tuple[str, ...]  # of every file


@dataclass(frozen=True)
class Kind:
    """What all rows of a store have in common."""

    about: dict[str, Any]  # values for JSON
    places: IntArray  # the number of every feature among all that the images have, shape (P,)
    dtype: str

    @property
    def described(self) -> dict[str, Any]:
        """Everything but which features there are."""
        return {**self.about, "layout": LAYOUT, "dtype": self.dtype}

    @property
    def name(self) -> str:
        """The name of the folder of its rows."""
        return PREFIX + digest(self.described, self.places)[:20]


def digest(*values: Any) -> str:
    """SHA-256 of arrays and of values for JSON."""
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


class RowStore:
    """Rows of one kind in a folder, see the module."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        self.folder, self.n_features, self.dtype = folder, len(kind.places), np.dtype(kind.dtype)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.n_features * self.dtype.itemsize

    def entries(self) -> dict[str, Entry]:
        """The valid lines of the index whose rows are there, by the state of their files; the last counts."""
        found: dict[str, Entry] = {}
        try:
            lines = (self.folder / INDEX).read_bytes().split(b"\n")
            n_rows = (self.folder / ROWS).stat().st_size // self.row_bytes
        except FileNotFoundError:
            return found
        for line in lines:
            entry = _entry(line)
            if entry is not None and entry.first + len(entry.checksums) <= n_rows:
                found[entry.state] = entry
        return found

    def array(self, n_rows: int) -> np.memmap[Any, Any]:
        """The first rows as a memory map."""
        return np.memmap(self.folder / ROWS, self.dtype, "r", shape=(n_rows, self.n_features))

    def intact(self, entries: Sequence[Entry | None]) -> list[Entry | None]:
        """The same entries, without those whose rows are damaged."""
        kept: list[Entry | None] = []

        def checked(number: int) -> Entry | None:
            entry = entries[number]
            return entry if entry is not None and self._is_intact(entry) else None

        in_order(checked, kept.append, len(entries), most_threads())
        return kept

    def _is_intact(self, entry: Entry) -> bool:
        with (self.folder / ROWS).open("rb", buffering=0) as file:
            file.seek(entry.first * self.row_bytes)
            return all(zlib.crc32(file.read(self.row_bytes)) == checksum for checksum in entry.checksums)

    def complete(
        self, origins: Sequence[Origin], make: Maker, done: Callable[[int], None], n_threads: int
    ) -> Rows:
        """The rows of all images; those that are not there yet are made, `n_threads` at a time, and kept.

        `done` is called with the number of every image, in order, once its rows are there.
        """
        states = [origin.state() for origin in origins]
        usable = self._usable(states)
        if None in usable:
            with self._writing():
                # another process may have written some of them
                usable = [old or new for old, new in zip(usable, self._usable(states), strict=True)]
                self._write(origins, states, usable, make, done, n_threads)
        else:
            for number in range(len(origins)):
                done(number)
        return Rows.of(self, [entry for entry in usable if entry is not None])

    def _usable(self, states: Sequence[str]) -> list[Entry | None]:
        known = self.entries()
        return self.intact([known.get(state) for state in states])

    def _write(
        self,
        origins: Sequence[Origin],
        states: Sequence[str],
        usable: list[Entry | None],
        make: Maker,
        done: Callable[[int], None],
        n_threads: int,
    ) -> None:
        """Make what is missing, in order; `usable` is completed."""
        missing = [number for number, entry in enumerate(usable) if entry is None]
        self._announce(len(origins), sum(origins[number].n_rows for number in missing), len(missing))
        told = 0

        with _Appending(self) as appending:

            def take(found: Any) -> None:
                nonlocal told
                number = missing[len(appending.entries)]
                if origins[number].state() != states[number]:
                    raise ImageError(f"{origins[number].name}: was changed while it was read; try again")
                with self._full_disk(len(appending.entries), len(missing)):
                    usable[number] = appending.append(states[number], *found)
                for other in range(told, number + 1):
                    done(other)
                told = number + 1

            in_order(lambda place: make(missing[place]), take, len(missing), n_threads)
        for other in range(told, len(origins)):
            done(other)

    def _announce(self, n_images: int, n_rows: int, n_missing: int) -> None:
        """Say how much will be written; refuse to start if the disk has no room for it."""
        needed, free = n_rows * self.row_bytes, shutil.disk_usage(self.folder).free
        if n_missing == 0:
            return
        if needed + SPARE_BYTES > free:
            raise CacheError(
                f"{self.folder.parent}: the cache needs {bytes_text(needed)} for {n_missing} of {n_images} "
                f"images, but the disk has only {bytes_text(free)} free; name a folder on another disk "
                "(cache=, --cache), or make room"
            )
        say(
            f"{n_images - n_missing} of {n_images} images are in the cache {self.folder}; the others take "
            f"{bytes_text(needed)}, and the disk has {bytes_text(free)} free"
        )

    @contextmanager
    def _full_disk(self, n_written: int, n_missing: int) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise CacheError(
                f"{self.folder.parent}: the disk is full after {n_written} of {n_missing} images, which are "
                f"kept; make room for {bytes_text((n_missing - n_written) * self.row_bytes)} and run it again"
            ) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the lock of the store: one process writes at a time, and the others wait for its rows."""
        try:
            descriptor = locked(self.folder / ABOUT)
            if descriptor is None:
                say(f"another process writes the cache {self.folder}; waiting for it")
            while descriptor is None:
                time.sleep(SECONDS_BETWEEN_TRIES)
                descriptor = locked(self.folder / ABOUT)
        except OSError as error:
            raise CacheError(
                f"{self.folder}: cannot be locked ({error}); name a folder on a local disk (cache=, --cache)"
            ) from error
        try:
            yield
        finally:
            os.close(descriptor)


class _Appending:
    """Appends rows and then their line in the index; the lock is held."""

    def __init__(self, store: RowStore) -> None:
        self.store, self.entries = store, list[Entry]()
        known = store.entries().values()
        self.n_rows = max((entry.first + len(entry.checksums) for entry in known), default=0)

    def __enter__(self) -> _Appending:
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._rows = os.open(self.store.folder / ROWS, flags, 0o644)
        self._index = os.open(self.store.folder / INDEX, flags | os.O_APPEND, 0o644)
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._rows)
        os.close(self._index)

    def append(self, state: str, rows: FloatArray, sha256: tuple[str, ...]) -> Entry:
        """Write rows, shape (n, P), after all others, and enter them in the index."""
        rows = np.ascontiguousarray(rows, self.store.dtype)
        entry = Entry(state, self.n_rows, tuple(zlib.crc32(row.data) for row in rows), sha256)
        os.lseek(self._rows, self.n_rows * self.store.row_bytes, os.SEEK_SET)
        _write_all(self._rows, rows.reshape(-1).view(np.uint8).data)
        # a line that was cut off by a full disk or a kill ends here
        _write_all(self._index, b"\n" + _line(entry) + b"\n")
        self.n_rows += len(rows)
        self.entries.append(entry)
        return entry


def _write_all(descriptor: int, content: Any) -> None:
    view = memoryview(content)
    while len(view):
        view = view[os.write(descriptor, view) :]


def _line(entry: Entry) -> bytes:
    content = json.dumps([entry.state, entry.first, entry.checksums, entry.sha256]).encode()
    return b"%08x %s" % (zlib.crc32(content), content)


def _entry(line: bytes) -> Entry | None:
    """The entry of a line; None if it is damaged or was never finished."""
    checksum, _, content = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(content):
        return None
    state, first, checksums, sha256 = json.loads(content)
    return Entry(state, first, tuple(checksums), tuple(sha256))


@dataclass(frozen=True, eq=False)
class Rows:
    """Where the rows of some images are."""

    store: RowStore
    numbers: IntArray  # the row of every sample, shape (N,)
    sha256: tuple[tuple[str, ...], ...]  # of the files of every image
    columns: IntArray | None = None  # the features that are wanted, if the store has more

    @classmethod
    def of(cls, store: RowStore, entries: Sequence[Entry]) -> Rows:
        """The rows of entries, in order."""
        spans = [np.arange(entry.first, entry.first + len(entry.checksums)) for entry in entries]
        return cls(store, np.concatenate(spans), tuple(entry.sha256 for entry in entries))


def checked_cache(cache: Any) -> Path | None:
    """The folder of a cache, or None."""
    if cache is None:
        return None
    if not isinstance(cache, (str, os.PathLike)):
        raise TypeError(f"cache must be the path of a folder or None, got {cache!r}")
    folder = Path(cache).expanduser()
    if folder.exists() and not folder.is_dir():
        raise CacheError(f"{folder}: is a file; the cache of rows is a folder (cache=, --cache)")
    return folder


def make_cache(cache: Path) -> None:
    """Make the folder of a cache."""
    try:
        cache.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(cache, error) from error


def _unusable(cache: Path, error: OSError) -> CacheError:
    return CacheError(
        f"{cache}: cannot hold a cache ({error.strerror or error}); name another (cache=, --cache)"
    )


def open_store(cache: Path, kind: Kind) -> RowStore:
    """The store of a kind of rows, which is made if it is not there.

    A CacheError says that the folder cannot be written, or holds something else under that name.
    """
    make_cache(cache)
    folder = cache / kind.name
    try:
        if not folder.is_dir():
            _make(folder, kind)
        _check(folder, kind)
    except OSError as error:
        raise _unusable(cache, error) from error
    return RowStore(folder, kind)


def _make(folder: Path, kind: Kind) -> None:
    """Make an empty store; whole or not at all."""
    made = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".spcatv-"))
    try:
        (made / ABOUT).write_text(json.dumps(kind.described, indent=2) + "\n", encoding="utf-8")
        np.save(made / PLACES, kind.places, allow_pickle=False)
        made.chmod(0o755)  # mkdtemp makes folders that only their owner can read
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # otherwise another process was faster
                raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _check(folder: Path, kind: Kind) -> None:
    """Refuse a folder that does not hold the rows that its name promises."""
    about, places = _described(folder)
    if about != json.loads(json.dumps(kind.described)) or not np.array_equal(places, kind.places):
        raise CacheError(
            f"{folder}: is no cache of these rows, or a damaged one; delete this folder, or choose another "
            "cache (cache=, --cache)"
        )


def _described(folder: Path) -> tuple[Any, Any]:
    """What the rows of a store have in common, and their places; None where it cannot be read."""
    try:
        about = json.loads((folder / ABOUT).read_text(encoding="utf-8"))
        return about, np.load(folder / PLACES, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None, None


def known_rows(cache: Path, kind: Kind, origins: Sequence[Origin]) -> Rows | None:
    """Rows of all images in a store of this kind, or in one with more features; None if there are none.

    A fit drops features from its mask: the same images are then read with a smaller mask as new ones.
    """
    states = [origin.state() for origin in origins]
    wanted = json.loads(json.dumps(kind.described))
    own = cache / kind.name
    for folder in (own, *sorted(set(cache.glob(f"{PREFIX}*")) - {own})):
        about, places = _described(folder)
        if about != wanted or places.ndim != 1 or not np.isin(kind.places, places).all():
            continue
        store = RowStore(folder, Kind(kind.about, places, kind.dtype))
        known = store.entries()
        if not all(state in known for state in states):
            continue
        entries = [entry for entry in store.intact([known[state] for state in states]) if entry is not None]
        if len(entries) == len(states):
            order = np.argsort(places)
            columns = order[np.searchsorted(places, kind.places, sorter=order)]
            return replace(Rows.of(store, entries), columns=None if folder == own else columns)
    return None
