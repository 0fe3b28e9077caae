"""X on a GPU: as a whole, or block by block where it is too large for the GPU's memory.

Vectors of length P are CuPy arrays in float64, vectors of length N are NumPy arrays. NumPy vectors of length
P are taken, too, and copied to the GPU.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from spcatv._util.devices import DeviceError, gpu_module, on_gpu, to_host
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.data.array import ArrayData
from spcatv.data.blocks import Work, check_finite
from spcatv.data.files import Block, MappedData, Reader, StoredData, StoreReader, one_ahead
from spcatv.data.memory import Budget, bytes_text
from spcatv.data.operator import CorrectedData
from spcatv.data.protocol import (
    BLOCK_ENTRIES,
    BlockWork,
    ColumnStatistics,
    Data,
    Found,
    Positions,
    float_dtype,
    row_blocks,
)
from spcatv.kernels.cuda.launch import gpu_kernel, launch, summed

# What DLPack calls the memory of an NVIDIA GPU.
DLPACK_CUDA = 2
# Entries that one thread adds up at least, and the most pieces that the columns are divided into.
PIECE_ENTRIES, MOST_PIECES = 64, 1024
# Threads that keep a GPU busy.
BUSY = 1 << 18
# Entries of X that enter matrix products together.
PANEL_ENTRIES = 1 << 26
# Share of the free memory of the GPU that X may take; the rest is for vectors and the loading solver.
MEMORY_SHARE = 0.6
# Most bytes of X that travel to the GPU together.
STREAMED_BYTES = 1 << 28


class GPUData(Data):
    """Samples of a CuPy array of shape (n, P), which is read where it lies.

    The array is float32 or float64 in C order. `samples` (N,) are the numbers of the rows that are the
    samples, in order; all rows by default.
    """

    on_gpu = True

    def __init__(self, array: Any, samples: IntArray | None = None) -> None:
        if array.ndim != 2:
            raise ValueError(f"X must have two dimensions, samples and features; got shape {array.shape}")
        self.array = array
        self.samples: IntArray = np.arange(len(array)) if samples is None else np.asarray(samples, np.intp)
        self._cupy = gpu_module()
        self._rows = self._cupy.asarray(self.samples.astype(np.int64))
        self.shape, self.dtype = (len(self.samples), array.shape[1]), np.dtype(array.dtype)
        self._kernel = partial(gpu_kernel, source="products", dtype=self.dtype.name)

    def _vector(self, values: Any) -> Any:
        """Return a vector as the kernels want it: float64, one entry after the other, on the GPU."""
        return self._cupy.ascontiguousarray(self._cupy.asarray(values, dtype=np.float64))

    def _by_columns(self, name: str, vector: Any) -> FloatArray:
        """Run a kernel that sums over the samples; shape (P,)."""
        n_samples, n_features = self.shape
        n_pieces = max(1, min(BUSY // n_features, n_samples // PIECE_ENTRIES))
        part = self._cupy.empty((n_pieces, n_features))
        where = self.array, np.int64(n_features), self._rows, np.int64(n_samples)
        launch(self._kernel(name), part.size, *where, vector, np.int32(n_pieces), part)
        return part[0] if n_pieces == 1 else part.sum(axis=0)

    def _dot(self, v: FloatArray) -> FloatArray:
        """Return ``X v``, a NumPy array."""
        n_samples, n_features = self.shape
        n_pieces = max(1, min(MOST_PIECES, n_features // PIECE_ENTRIES))
        where = self.array, np.int64(n_features), self._rows, np.int64(n_samples)
        arguments = self._kernel("dot"), n_samples * n_pieces, *where, self._vector(v), np.int32(n_pieces)
        return summed(n_samples, n_pieces, partial(launch, *arguments))

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u``, a CuPy array."""
        return self._by_columns("transpose_dot", self._vector(u))

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``X V'`` for the rows of V, a NumPy array."""
        if len(vectors) == 0:
            return np.zeros((self.shape[0], 0))
        return np.stack([self._dot(vector) for vector in vectors], axis=1)

    def _panels(self, mean: Any) -> Iterator[tuple[slice, Any]]:
        """Return the samples less the means, some features at a time, in the precision of X."""
        n_samples, n_features = self.shape
        whole = n_samples == len(self.array) and bool((self.samples == np.arange(n_samples)).all())
        for left, right in row_blocks((n_features, n_samples), PANEL_ENTRIES):
            columns = slice(left, right)
            panel = self.array[:, columns] if whole else self.array[self._rows, columns]
            yield columns, panel - mean[columns].astype(self.dtype)

    def there_and_back_many(
        self, vectors: FloatArray, mean: FloatArray, shift: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` (NumPy) and ``S'M`` (CuPy) for ``M = X - 1 mean'``."""
        cupy = self._cupy
        if len(vectors) == 1 and not bool(mean.any()):
            found = self._dot(vectors[0]) - shift[:, 0]
            return found[:, np.newaxis], self.transpose_dot(found)[np.newaxis]
        thin, middle = cupy.asarray(vectors, dtype=self.dtype), cupy.asarray(mean, dtype=np.float64)
        scores = cupy.asarray(-np.asarray(shift, dtype=np.float64))
        for columns, panel in self._panels(middle):
            scores += panel @ thin[:, columns].T
        weights, back = scores.T.astype(self.dtype), cupy.empty(thin.shape)
        for columns, panel in self._panels(middle):
            back[:, columns] = weights @ panel
        return to_host(scores), back

    def column_statistics(self, center: bool) -> ColumnStatistics:
        """Return means and squared norms of the columns; a ValueError if X is not finite."""
        n_samples, n_features = self.shape
        mean = self._cupy.zeros(n_features)
        if center:
            mean = self.transpose_dot(np.full(n_samples, 1.0 / n_samples))
        squares = self._by_columns("squares", mean)
        if not np.isfinite(float(squares.sum())):
            check_finite(self.array)
        return ColumnStatistics(n_samples, mean, squares)

    def gram(self, mean: FloatArray, factor: FloatArray | None = None) -> FloatArray:
        """Return ``M M'`` for ``M = (X - 1 mean') diag(factor)``, in the precision of X, sums in float64."""
        cupy = self._cupy
        total = cupy.zeros((self.shape[0], self.shape[0]))
        scale = None if factor is None else cupy.asarray(factor, dtype=self.dtype)
        for columns, panel in self._panels(cupy.asarray(mean, dtype=np.float64)):
            scaled = panel if scale is None else panel * scale[columns]
            total += scaled @ scaled.T
        return to_host(total)

    def blocks(self, entries: int = BLOCK_ENTRIES) -> Iterator[tuple[slice, FloatArray]]:
        """Return all samples in order, in blocks of about `entries` entries, as NumPy arrays."""
        for first, last in row_blocks(self.shape, entries):
            block = to_host(self.array[self._rows[first:last]])
            yield slice(first, last), block.astype(np.float64, copy=False)

    def take(self, samples: IntArray) -> GPUData:
        """Return the given samples of these."""
        return GPUData(self.array, self.samples[samples])


class StreamedData(StoredData):
    """Samples that travel to the GPU block by block, on every pass.

    While the GPU works on one block, the next one is sent, and the one after that is read.
    """

    on_gpu = True
    source: ArrayData | None = None  # the array that the reader reads, if it can be read where it lies

    def _read(self, blocks: Sequence[Block]) -> Generator[tuple[Block, FloatArray]]:
        """Iterate over the rows of every block, without a copy where they are consecutive."""
        if self.source is None or any(len(block.spans) > 1 for block in blocks):
            yield from super()._read(blocks)
            return
        for block in blocks:
            ((first, last),) = block.spans
            yield block, self.source.array[first:last]

    def _travel(self, blocks: Sequence[Block]) -> Iterator[tuple[Block, Any]]:
        """Return the rows of every block on the GPU; a thread sends the next ones meanwhile.

        There are two places on the GPU for all blocks. Before rows are sent to one of them, the GPU ends its
        work on the rows that lie there.
        """
        cupy = gpu_module()
        height = max(block.height for block in blocks)
        places = [cupy.empty((height, self.shape[1]), self.dtype) for _ in blocks[:2]]
        used: list[Any] = [None, None]
        stream = cupy.cuda.Stream(non_blocking=True)
        device = cupy.cuda.Device()

        def send(number: int) -> Any:
            _, rows = next(read)
            with device, stream:
                if used[number % 2] is not None:
                    stream.wait_event(used[number % 2])
                place = places[number % 2][: len(rows)]
                place.set(rows)
                stream.synchronize()
            return place

        with closing(self._read(blocks)) as read, closing(one_ahead(blocks, send)) as sent:
            for number, (block, rows) in enumerate(sent):
                yield block, rows
                used[number % 2] = cupy.cuda.get_current_stream().record()

    def _pass(self, work: Work, own: tuple[Array, ...] = (), shared: tuple[Any, ...] = ()) -> Found:
        upload = gpu_module().asarray
        return super()._pass(work, own, tuple(upload(x) if isinstance(x, np.ndarray) else x for x in shared))

    def _parts(self) -> Iterator[tuple[Positions, Any]]:
        for block, rows in self._travel(self._sorted_blocks()):
            yield block.positions, GPUData(rows, block.local)

    def each_block(self, work: BlockWork, entries: int = BLOCK_ENTRIES) -> Found:
        """Visit all samples in blocks on the CPU."""
        return Data.each_block(self, work, entries)

    def _panels(self) -> Iterator[tuple[slice, Any]]:
        """Return all samples, some features at a time, on the GPU."""
        for columns, panel in super()._panels():
            yield columns, GPUData(gpu_module().asarray(panel.array), panel.samples)


def lies_on_gpu(X: Any) -> bool:
    """Return whether X is an array of any library that lies in the memory of an NVIDIA GPU."""
    if on_gpu(X):
        return True
    where = getattr(X, "__dlpack_device__", None)
    return where is not None and not isinstance(X, np.ndarray) and where()[0] == DLPACK_CUDA


def gpu_array_data(X: Any, dtype: Any) -> GPUData:
    """Return an array on the GPU as data: not copied if it is float32 or float64 in C order."""
    cupy = gpu_module()
    array = X if on_gpu(X) else cupy.from_dlpack(X)
    wanted = float_dtype(np.dtype(array.dtype if dtype is None else dtype))
    return GPUData(cupy.ascontiguousarray(array.astype(wanted, copy=False)))


def on_device(data: Data, device: str, n_components: int) -> Data:
    """Return data where they are to be fitted: "cpu" or "cuda".

    On "cuda", data that take at most `MEMORY_SHARE` of the free memory of the GPU are copied to it; larger
    ones travel to it block by block on every pass. The vectors of a fit, which take memory too, grow with the
    number of components.
    """
    if device == "cpu" or isinstance(data, (GPUData, StreamedData)):
        return data
    if isinstance(data, CorrectedData):
        upload = gpu_module().asarray
        base = on_device(data.data, device, n_components)
        factor = None if data.factor is None else upload(data.factor)
        return replace(data, data=base, right=upload(data.right), factor=factor)
    if not isinstance(data, (ArrayData, StoredData)):
        raise DeviceError(
            f'device="cuda" takes arrays and files, not {type(data).__name__}; fit a Dask array on the CPUs '
            'of its workers (device="cpu"), or write it to a file that the machine with the GPU can read'
        )
    n_bytes = data.shape[0] * data.shape[1] * data.dtype.itemsize
    vectors = Budget(None, n_components).vector_bytes(data.shape[1])
    free = _free_bytes()
    if vectors > free:
        raise DeviceError(
            f"the GPU has {bytes_text(free)} of free memory, and vectors of {data.shape[1]} features take "
            f'{bytes_text(vectors)}; use device="cpu"'
        )
    if n_bytes <= MEMORY_SHARE * (free - vectors):
        return _uploaded(data)
    reader: Reader = data.reader if isinstance(data, (StoredData, MappedData)) else StoreReader(data.array)
    budget = data.budget if isinstance(data, StoredData) else Budget(None, n_components)
    streamed = StreamedData(reader, data.dtype, budget, data.samples)
    streamed.source = data if isinstance(data, ArrayData) else None
    rows = int(min(STREAMED_BYTES, 0.2 * (free - vectors)) // (data.shape[1] * data.dtype.itemsize))
    streamed.height = max(1, rows)
    return streamed


def _uploaded(data: ArrayData | StoredData) -> GPUData:
    cupy = gpu_module()
    if isinstance(data, ArrayData):
        whole = np.array_equal(data.samples, np.arange(len(data.array)))
        return GPUData(cupy.asarray(data.array if whole else data.array[data.samples]))
    array = cupy.empty(data.shape, data.dtype)
    for samples, block in data.blocks():
        array[samples] = cupy.asarray(block.astype(data.dtype))
    return GPUData(array)


def _free_bytes() -> float:
    """Return bytes that may still be taken on the GPU: what is free, or what CuPy's own limit leaves."""
    cupy = gpu_module()
    pool = cupy.get_default_memory_pool()
    free = float(cupy.cuda.runtime.memGetInfo()[0]) + pool.free_bytes()
    limit = pool.get_limit()
    return min(free, limit - pool.used_bytes()) if limit else free
