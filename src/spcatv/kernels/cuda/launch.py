"""Kernels on a GPU: compiled once, launched, and their sums brought back to the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from spcatv._util.devices import gpu_module
from spcatv._util.types import FloatArray

# Threads per block; few threads go into small blocks, so that more of the GPU takes part.
BLOCK, SMALL_BLOCK = 256, 64
FEW_THREADS = 1 << 13
# The most threads that add up one sum each, and the items that a thread adds up at least.
SUMMING = 1 << 17
ITEMS_PER_PIECE = 4
# Up to FEW_ITEMS items, FEW_PIECES threads are fast enough.
FEW_ITEMS, FEW_PIECES = 1 << 16, 1 << 11
# Pieces of sums that a kernel may send to the CPU; of more, a second kernel adds up `PIECES_PER_THREAD` per
# thread.
SENT = 1 << 14
PIECES_PER_THREAD = 64
FEWEST_LEFT = 32


@cache
def _module(source: str, dtype: str, n_axes: int) -> Any:
    """Compile a source for one precision and number of axes; CuPy keeps the binary on disk."""
    folder = resources.files("spcatv.kernels.cuda")
    code = "".join((folder / f"{part}.cu").read_text() for part in ("common", source))
    real = "float" if dtype == "float32" else "double"
    options = ("--std=c++14", f"-DREAL={real}", f"-DAXES={n_axes}")
    return gpu_module().RawModule(code=code, options=options)


@cache
def gpu_kernel(name: str, source: str, dtype: str = "float64", n_axes: int = 0) -> Any:
    """Return a kernel of one of the sources, for one precision and number of axes."""
    return _module(source, dtype, n_axes).get_function(name)


def launch(kernel: Any, n: int, *arguments: Any, block: int | None = None) -> None:
    """Run a kernel with one thread for each of n items."""
    size = block or (BLOCK if n > FEW_THREADS else SMALL_BLOCK)
    kernel((max(1, -(-n // size)),), (size,), arguments)


class Sums:
    """Sums that a kernel leaves in pieces, shape (n_sums, n_pieces); the CPU adds up the last of them.

    The GPU writes into the memory of the machine itself: the pieces, or what a second kernel makes of many.
    """

    def __init__(self, n_sums: int, n_pieces: int) -> None:
        self._many = n_sums * n_pieces > SENT
        width = min(n_pieces, max(FEWEST_LEFT, n_pieces // PIECES_PER_THREAD)) if self._many else n_pieces
        self._here, self._sent = _pinned((n_sums, width))
        self._sizes = np.int32(n_sums), np.int32(n_pieces), np.int32(width)
        self._kernel = gpu_kernel("add_up", "vectors")

    def pieces(self) -> Any:
        """Return an array for the pieces."""
        n_sums, n_pieces, _ = self._sizes
        return gpu_module().empty((int(n_sums), int(n_pieces))) if self._many else self._sent

    def add_up(self, pieces: Any) -> None:
        """Let the GPU add up pieces, where they are many."""
        if self._many:
            launch(self._kernel, self._sent.size, pieces, *self._sizes, self._sent)

    def read(self) -> FloatArray:
        """Wait for the sums of the last `add_up`, shape (n_sums,)."""
        gpu_module().cuda.get_current_stream().synchronize()
        total: FloatArray = self._here.sum(axis=1)
        return total


def _pinned(shape: tuple[int, int]) -> tuple[FloatArray, Any]:
    """Return pinned memory of the machine, which the GPU writes to, as arrays of NumPy and of CuPy."""
    cuda, n_bytes = gpu_module().cuda, 8 * shape[0] * shape[1]
    memory = cuda.alloc_pinned_memory(n_bytes)
    here = np.frombuffer(memory, np.float64, shape[0] * shape[1]).reshape(shape)
    place = cuda.UnownedMemory(here.ctypes.data, n_bytes, memory, cuda.runtime.getDevice())
    return here, gpu_module().ndarray(shape, np.float64, cuda.MemoryPointer(place, 0))


def pieces_of(n: int) -> int:
    """Return the number of threads that add up n items, each of them one piece."""
    return BLOCK * max(1, min(SUMMING, n // ITEMS_PER_PIECE) // BLOCK)


def few_pieces_of(n: int) -> int:
    """Return the number of threads for items of little work: few enough for the CPU, if possible."""
    return min(pieces_of(n), FEW_PIECES) if n <= FEW_ITEMS else pieces_of(n)


class _Scratch(threading.local):
    """Sums, for every thread its own: kernels of several threads may take turns."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, int, int], Sums] = {}

    def sums(self, n_sums: int, n_pieces: int) -> Sums:
        """Return sums on the present GPU."""
        key = gpu_module().cuda.runtime.getDevice(), n_sums, n_pieces
        if key not in self._made:
            self._made[key] = Sums(n_sums, n_pieces)
        return self._made[key]


_SCRATCH = _Scratch()


def summed(n_sums: int, n_pieces: int, run: Callable[[Any], None]) -> FloatArray:
    """Add up the pieces, shape (n_sums, n_pieces), that ``run(pieces)`` leaves in its argument."""
    sums = _SCRATCH.sums(n_sums, n_pieces)
    pieces = sums.pieces()
    run(pieces)
    sums.add_up(pieces)
    return sums.read()
