"""X in a file: HDF5 datasets, Zarr arrays and memory maps, read one block ahead of the work."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.data.array import ArrayData
from spcatv.data.blocks import BlockedData, numbered_blocks
from spcatv.data.memory import Budget
from spcatv.data.protocol import BLOCK_ENTRIES, Positions, float_dtype

# Bytes read from a store at a time, and longest gap between wanted bytes that is read rather than skipped.
PIECE_BYTES = 8 << 20
SKIP_BYTES = 1 << 20


class Reader(Protocol):
    """Rows of a two-dimensional array in a file; picklable, for workers that can open the file, too."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    chunks: tuple[int, int]  # rows and columns that are stored, and have to be read, together

    def fill(self, out: FloatArray, first: int, left: int = 0) -> None:
        """Read rows from `first` on and columns from `left` on into a float array."""


class StoreReader:
    """Any object with `shape`, `dtype`, `chunks` and slices, such as an HDF5 dataset or a Zarr array."""

    def __init__(self, store: Any) -> None:
        self.store = store
        n_rows, n_columns = store.shape
        self.shape = int(n_rows), int(n_columns)
        self.dtype = np.dtype(store.dtype)
        rows, columns = getattr(store, "chunks", None) or (1, 1)
        self.chunks = max(min(int(rows), n_rows), 1), max(min(int(columns), n_columns), 1)

    def fill(self, out: FloatArray, first: int, left: int = 0) -> None:
        """Read rows from `first` on and columns from `left` on."""
        end, right = first + len(out), left + out.shape[1]
        row_bytes = max(out.shape[1] * self.dtype.itemsize, 1)
        height = max(PIECE_BYTES // (self.chunks[0] * row_bytes), 1) * self.chunks[0]
        for begin in range(first - first % height, end, height):
            rows = slice(max(begin, first), min(begin + height, end))
            piece = out[rows.start - first : rows.stop - first]
            try:
                whole = left == 0 and right == self.shape[1]
                found = np.asarray(self.store[rows] if whole else self.store[rows, left:right])
            except Exception as error:
                # a store is anything with slices, and each library raises errors of its own: name the store
                raise _unreadable(self.store, rows, f"{type(error).__name__}: {error}") from error
            if found.shape != piece.shape:
                raise _unreadable(self.store, rows, f"it gave an array of shape {found.shape}")
            piece[...] = found

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        file = getattr(self.store, "file", None)
        if file is not None and hasattr(file, "filename"):
            # HDF5 datasets cannot be pickled; another process opens the file again
            state["store"] = None
            state["opened"] = type(file), os.path.abspath(file.filename), self.store.name
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        opened = state.pop("opened", None)
        if opened is not None:
            kind, filename, name = opened
            state["store"] = kind(filename, "r")[name]
        self.__dict__.update(state)


def _unreadable(store: Any, rows: slice, why: str) -> OSError:
    return OSError(
        f"samples {rows.start} to {rows.stop - 1} of X could not be read from the {type(store).__module__}."
        f"{type(store).__qualname__} ({why}); has its file been changed or closed?"
    )


class FileReader:
    """Rows of a memory map, read from its file with plain reads.

    Plain reads are as fast as the disk, take no more memory than their blocks, and notice a file that has
    become shorter; a page of a map that is no longer there would end the process.
    """

    def __init__(self, array: np.memmap[Any, Any], path: Path, offset: int) -> None:
        self.path, self.offset, self.stride = path, offset, array.strides[0]
        self.shape: tuple[int, int] = (array.shape[0], array.shape[1])
        self.dtype = array.dtype
        self.chunks = 1, 1
        found = path.stat()
        self.identity = found.st_dev, found.st_ino
        self._check_length(found.st_size, self.shape[0])

    def fill(self, out: FloatArray, first: int, left: int = 0) -> None:
        """Read rows from `first` on and columns from `left` on."""
        try:
            with self.path.open("rb", buffering=0) as file:
                found = os.fstat(file.fileno())
                if (found.st_dev, found.st_ino) != self.identity:
                    raise OSError(f"{self.path} was replaced by another file while it was read as X")
                direct = self.dtype == out.dtype and out.flags.c_contiguous
                # rows are read together where they follow each other in the file
                dense = out.shape[1] * self.dtype.itemsize == self.stride
                height = max(len(out) if direct else PIECE_BYTES // self.stride, 1) if dense else 1
                for begin in range(0, len(out), height):
                    rows = out[begin : begin + height]
                    raw = rows if direct else np.empty(rows.shape, self.dtype)
                    file.seek(self.offset + (first + begin) * self.stride + left * self.dtype.itemsize)
                    self._read(file, raw, first + begin + len(rows))
                    if not direct:
                        rows[...] = raw
        except FileNotFoundError as error:
            raise OSError(f"{self.path} was deleted while it was read as X") from error

    def _read(self, file: Any, raw: Array, last: int) -> None:
        left = raw.reshape(-1).view(np.uint8)
        while len(left):
            count = file.readinto(left)
            if not count:
                self._check_length(os.fstat(file.fileno()).st_size, last)
                raise OSError(f"{self.path} cannot be read up to sample {last - 1} of X")
            left = left[count:]

    def check(self) -> None:
        """Raise an OSError if the file has become too short; one that is no longer there is still mapped."""
        with suppress(FileNotFoundError):
            found = self.path.stat()
            if (found.st_dev, found.st_ino) == self.identity:
                self._check_length(found.st_size, self.shape[0])

    def _check_length(self, size: int, last: int) -> None:
        end = self.offset + (last - 1) * self.stride + self.shape[1] * self.dtype.itemsize
        if size < end:
            raise OSError(
                f"{self.path} is too short for X: sample {last - 1} ends at byte {end}, but the file has "
                f"{size} bytes; has it been cut off?"
            )


class ColumnReader:
    """Some columns of another reader's rows."""

    def __init__(self, reader: Reader, columns: IntArray) -> None:
        self.reader, self.columns = reader, columns
        self.shape = reader.shape[0], len(columns)
        self.dtype = reader.dtype
        self.chunks = reader.chunks[0], 1

    def fill(self, out: FloatArray, first: int, left: int = 0) -> None:
        """Read rows from `first` on and columns from `left` on."""
        columns = self.columns[left : left + out.shape[1]]
        begin, end = int(columns.min()), int(columns.max()) + 1
        height = max(PIECE_BYTES // ((end - begin) * out.itemsize), 1)
        raw: FloatArray = np.empty((min(height, len(out)), end - begin), out.dtype)
        for top in range(0, len(out), height):
            piece = raw[: len(out) - top]
            self.reader.fill(piece, first + top, begin)
            np.take(piece, columns - begin, axis=1, out=out[top : top + len(piece)], mode="clip")


class MappedData(ArrayData):
    """Samples of a memory map that fits into memory, read where the system has mapped them.

    A page of a map that its file no longer has would end the process. So every use of the map looks first
    whether the file is still long enough.
    """

    def __init__(self, array: Array, reader: FileReader) -> None:
        self.reader = reader
        super().__init__(array)

    @property
    def array(self) -> FloatArray:
        """The memory map, after a check of its file."""
        self.reader.check()
        return self._array

    @array.setter
    def array(self, array: FloatArray) -> None:
        self._array = array


def map_reader(array: np.memmap[Any, Any]) -> Reader:
    """Return a reader of a memory map: of its file where that holds the rows one after the other."""
    name, whole = array.filename, getattr(array, "_mmap", None)
    in_rows = array.ndim == 2 and array.strides[1] == array.itemsize and array.strides[0] > 0
    # a map in mode "c" may differ from its file
    if name is None or whole is None or array.mode == "c" or not in_rows or not Path(name).exists():
        return StoreReader(array)
    import mmap

    begin = np.frombuffer(whole, np.uint8).__array_interface__["data"][0]
    inside = array.__array_interface__["data"][0] - begin
    start = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
    return FileReader(array, Path(name).absolute(), start + inside)


class Block:
    """Rows that are read together: the rows of the samples `positions`, and gaps of at most `skip` rows."""

    def __init__(self, positions: Positions, rows: IntArray, skip: int) -> None:
        wanted = np.unique(rows)
        ends = np.flatnonzero(np.diff(wanted) > skip)
        firsts, lasts = wanted[np.r_[0, ends + 1]], wanted[np.r_[ends, len(wanted) - 1]] + 1
        before = np.r_[0, np.cumsum(lasts - firsts)]
        span = np.searchsorted(firsts, rows, side="right") - 1
        self.positions = positions
        self.spans = list(zip(firsts.tolist(), lasts.tolist(), strict=True))  # stored rows ``first:last``
        self.height = int(before[-1])  # number of rows to read
        # the row of each of the samples among those
        self.local: IntArray = before[span] + rows - firsts[span]


def one_ahead(blocks: Sequence[Block], make: Callable[[int], Any]) -> Generator[tuple[Block, Any]]:
    """Yield every block with ``make(number)``; a thread makes the next one while one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="spcatv-ahead") as thread:
        coming = thread.submit(make, 0)
        for number, block in enumerate(blocks, start=1):
            made = coming.result()
            if number < len(blocks):
                coming = thread.submit(make, number)
            yield block, made


class StoredData(BlockedData):
    """Samples in a file, in blocks of the size that the budget allows; slices and iterates like an array.

    The dtype is float32 or float64; what the file has, or float64, by default. `samples` tells which rows are
    the samples, in order; all of them by default.
    """

    def __init__(
        self,
        reader: Reader,
        dtype: Any = None,
        budget: Budget = Budget(),  # noqa: B008
        samples: IntArray | None = None,
    ) -> None:
        n_rows, n_features = reader.shape
        self.reader, self.budget = reader, budget
        self.dtype = float_dtype(reader.dtype) if dtype is None else np.dtype(dtype)
        self.samples = np.arange(n_rows) if samples is None else np.asarray(samples, np.intp)
        self.shape = len(self.samples), n_features
        row_bytes = max(n_features * self.dtype.itemsize, 1)
        self.height = budget.block_rows(row_bytes, reader.chunks[0], n_features)
        self.skip = max(SKIP_BYTES // row_bytes, reader.chunks[0])

    def in_memory(self, X: Any) -> Array | None:
        """Return an array to use instead of X, from which this was made, where blocks do not pay.

        X itself, if it is a memory map that fits into memory and need not be converted; all rows, if they are
        one block; otherwise None.
        """
        n_rows, n_features = self.reader.shape
        serves = isinstance(X, np.memmap) and X.dtype == self.dtype and X.flags.c_contiguous
        if serves and self.budget.allows_whole(X.nbytes, n_features):
            return X
        if n_rows > self.height:
            return None
        rows: FloatArray = np.empty(self.reader.shape, self.dtype)
        self.reader.fill(rows, 0)
        return rows

    def columns(self, features: IntArray) -> Self:
        """Return the given features of all samples, by their numbers."""
        return type(self)(ColumnReader(self.reader, features), self.dtype, self.budget, self.samples)

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[FloatArray]:
        """Yield every sample, in order and in the dtype of X; it is overwritten when the next one is read."""
        for block, rows in self._read(self._ordered_blocks()):
            yield from (rows[number] for number in block.local.tolist())

    def __getitem__(self, key: Any) -> Any:
        """Return a sample by its number; or slices and masks of samples and features, not read yet."""
        samples, features = key if isinstance(key, tuple) else (key, slice(None))
        if isinstance(samples, int):
            return np.asarray(self[[samples], features])[0]
        data = self
        if not (isinstance(features, slice) and features == slice(None)):
            data = self.columns(np.arange(self.shape[1])[features])
        return data.take(np.arange(len(self))[samples])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """Return all samples in memory."""
        out: FloatArray = np.empty(self.shape, self.dtype if dtype is None else dtype)
        for number, sample in enumerate(self):
            out[number] = sample
        return out

    def _sorted_blocks(self) -> list[Block]:
        """Return blocks in the order in which they are stored."""
        order = np.argsort(self.samples, kind="stable")
        rows = self.samples[order]
        in_order = bool((order[:-1] < order[1:]).all())
        ends = np.flatnonzero(np.diff(rows // self.height)) + 1
        return [
            Block(slice(at[0], at[-1] + 1) if in_order else order[at], rows[at], self.skip)
            for at in np.split(np.arange(len(rows)), ends)
        ]

    def _ordered_blocks(self) -> list[Block]:
        """Return blocks in the order of the samples."""
        if (self.samples[:-1] <= self.samples[1:]).all():
            return self._sorted_blocks()
        return [
            Block(slice(a, a + self.height), self.samples[a : a + self.height], 1)
            for a in range(0, len(self.samples), self.height)
        ]

    def _read(self, blocks: Sequence[Block]) -> Generator[tuple[Block, FloatArray]]:
        """Return the rows of every block; a thread reads the next block meanwhile.

        There are two buffers for all blocks: rows are valid until the next ones are read.
        """
        height = max(block.height for block in blocks)
        buffers = [np.empty((height, self.shape[1]), self.dtype) for _ in blocks[:2]]
        yield from one_ahead(blocks, lambda number: self._fill(buffers[number % 2], blocks[number]))

    def _fill(self, buffer: FloatArray, block: Block, left: int = 0) -> FloatArray:
        """Read the rows of a block, from column `left` on, into the top of a buffer."""
        begin = 0
        for first, last in block.spans:
            self.reader.fill(buffer[begin : begin + last - first], first, left)
            begin += last - first
        return buffer[:begin]

    def _parts(self) -> Iterator[tuple[Positions, ArrayData]]:
        for block, rows in self._read(self._sorted_blocks()):
            yield block.positions, ArrayData(rows, block.local)

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in order, in blocks of about `entries` entries."""
        read = self._read(self._ordered_blocks())
        return numbered_blocks((ArrayData(rows, block.local) for block, rows in read), entries)

    def _panels(self) -> Iterator[tuple[slice, ArrayData]]:
        """Return all samples, some features at a time."""
        block = Block(slice(None), self.samples, self.skip)
        n_features = self.shape[1]
        width = self.budget.panel_columns(block.height * self.dtype.itemsize, self.reader.chunks[1])
        for left in range(0, n_features, width):
            panel = self._fill(
                np.empty((block.height, min(width, n_features - left)), self.dtype), block, left
            )
            yield slice(left, left + panel.shape[1]), ArrayData(panel, block.local)
