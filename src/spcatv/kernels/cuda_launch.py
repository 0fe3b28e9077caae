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

# Threads per block, and the most threads that add up one sum each.
BLOCK = 256
SUMMING = 1 << 17
# Items that a thread adds up at least.
ITEMS_PER_PIECE = 4
# Pieces of a sum that one thread adds up; the CPU adds up the rest.
PIECES_PER_THREAD = 64
FEWEST_LEFT = 32


@cache
def _module(source: str, dtype: str, n_axes: int) -> Any:
    """Compile a source for one precision and number of axes; CuPy keeps the binary on disk."""
    folder = resources.files("spcatv.kernels") / "cuda_source"
    code = "".join((folder / f"{part}.cu").read_text() for part in ("common", source))
    real = "float" if dtype == "float32" else "double"
    options = ("--std=c++14", f"-DREAL={real}", f"-DAXES={n_axes}")
    return gpu_module().RawModule(code=code, options=options)


@cache
def gpu_kernel(name: str, source: str, dtype: str = "float64", n_axes: int = 0) -> Any:
    """A kernel of one of the sources, for one precision and number of axes."""
    return _module(source, dtype, n_axes).get_function(name)


def launch(kernel: Any, n: int, *arguments: Any, block: int = BLOCK) -> None:
    """Run a kernel with one thread for each of n items."""
    kernel((max(1, -(-n // block)),), (block,), arguments)


class Sums:
    """Sums that kernels leave in pieces: a second kernel adds most of them up, and the CPU the rest."""

    def __init__(self, n_sums: int, n_pieces: int) -> None:
        cupy = gpu_module()
        width = min(n_pieces, max(FEWEST_LEFT, n_pieces // PIECES_PER_THREAD))
        self._sizes = np.int32(n_sums), np.int32(n_pieces), np.int32(width)
        self._kernel = gpu_kernel("add_up", "vectors")
        self._few = cupy.empty((n_sums, width))
        # memory that the GPU copies to directly
        memory = cupy.cuda.alloc_pinned_memory(8 * n_sums * width)
        self._here = np.frombuffer(memory, np.float64, n_sums * width).reshape(n_sums, width)

    def add_up(self, pieces: Any) -> None:
        """Launch the kernel that adds up most of the pieces, shape (n_sums, n_pieces)."""
        launch(self._kernel, self._few.size, pieces, *self._sizes, self._few)

    def read(self) -> FloatArray:
        """Wait for the sums of the last `add_up`, shape (n_sums,)."""
        self._few.get(out=self._here)
        total: FloatArray = self._here.sum(axis=1)
        return total


def pieces_of(n: int) -> int:
    """Threads that add up n items, each of them one piece."""
    return BLOCK * max(1, min(SUMMING, n // ITEMS_PER_PIECE) // BLOCK)


class _Scratch(threading.local):
    """Arrays for sums, for every thread its own: kernels of several threads may take turns."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Any] = {}

    def sums(self, n_sums: int, n_pieces: int) -> Sums:
        """Sums on the present GPU."""
        return self._kept(Sums, n_sums, n_pieces)

    def pieces(self, n_sums: int, n_pieces: int) -> Any:
        """An array for pieces on the present GPU."""
        return self._kept(_empty, n_sums, n_pieces)

    def _kept(self, make: Callable[[int, int], Any], n_sums: int, n_pieces: int) -> Any:
        key = gpu_module().cuda.runtime.getDevice(), make, n_sums, n_pieces
        if key not in self._made:
            self._made[key] = make(n_sums, n_pieces)
        return self._made[key]


def _empty(n_sums: int, n_pieces: int) -> Any:
    return gpu_module().empty((n_sums, n_pieces))


_SCRATCH = _Scratch()


def totals(pieces: Any) -> FloatArray:
    """Sums along the last axis of an array on the GPU, shape (n_sums, n_pieces); a NumPy array."""
    sums = _SCRATCH.sums(*pieces.shape)
    sums.add_up(pieces)
    return sums.read()


def summed(n_sums: int, n: int, run: Callable[[int, Any], None]) -> list[float]:
    """Sums over n items: ``run(n_threads, pieces)`` leaves pieces (n_sums, n_threads), one per thread."""
    n_threads = pieces_of(n)
    pieces = _SCRATCH.pieces(n_sums, n_threads)
    run(n_threads, pieces)
    return totals(pieces).tolist()
