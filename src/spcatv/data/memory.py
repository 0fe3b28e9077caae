"""Memory limit of a fit, and the size of blocks of X that follows from it."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.parameters import SIZE

MEBIBYTE = 1 << 20
# Bytes of X that are read at a time: long enough for the disk, short enough for the cache. A block has at
# least some rows, as each costs a sum of vectors of length P, unless that would make it huge.
BLOCK_BYTES = 32 * MEBIBYTE
BLOCK_ROWS = 16
LARGEST_BLOCK_BYTES = 256 * MEBIBYTE
# Bytes of the columns of all samples that enter a Gram matrix together, likewise.
PANEL_BYTES = 512 * MEBIBYTE
# Share of the memory that a memory map may take before it is read block by block.
MAPPED_SHARE = 0.5
# Vectors of length P in float64 that a fit holds at a time: statistics, and spare directions of a
# sketch; for every component, its part of the sketch, a solver, and the maps of a joint fit.
WORKING_VECTORS, COMPONENT_VECTORS = 64, 22
# Those that a sketch learns from the passes of a fit, at most.
LEARNT_VECTORS = 24
# Parts of the memory left beside these vectors: one block is in use, one is being read, two are to spare.
PARTS = 4


def checked_memory_limit(value: Any) -> int | None:
    """Return a memory limit in bytes; None if there is none.

    Parameters
    ----------
    value : int, float, str or None
        Bytes, or text such as "2 GB" (10^9 bytes each), "500MB" or "1.5 GiB" (2^30 bytes each).

    Examples
    --------
    >>> from spcatv.data.memory import checked_memory_limit
    >>> checked_memory_limit("1.5 GB")
    1500000000
    """
    if value is None:
        return None
    wrong = (
        f'memory_limit must be None, a number of bytes, or text such as "2 GB" or "500 MiB"; got {value!r}'
    )
    if isinstance(value, str):
        match = SIZE.fullmatch(value)
        if match is None:
            raise ValueError(wrong)
        base = 1024 if match[3] else 1000
        value = float(match[1]) * base ** " kmgt".index((match[2] or " ").lower())
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real):
        raise TypeError(wrong)
    if not 1 <= float(value) < float("inf"):
        raise ValueError(wrong)
    return int(float(value))


def bytes_text(count: float) -> str:
    """Return a number of bytes for people, such as "1.5 GB"."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} bytes"


def machine_memory() -> float:
    """Return bytes of memory that this process may use: least of machine, control group and own limits."""
    sizes = [float("inf")]
    with suppress(AttributeError, OSError, ValueError):
        sizes.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with suppress(ImportError):
        import resource

        limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
        sizes += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    with suppress(OSError, IndexError):
        group = Path("/proc/self/cgroup").read_text().split("0::/")[1].strip()
        folder = Path("/sys/fs/cgroup", group)
        for parent in (folder, *folder.parents):
            with suppress(OSError, ValueError):
                sizes.append(int((parent / "memory.max").read_text()))
    return min(sizes)


@dataclass(frozen=True)
class Budget:
    """Sizes of blocks."""

    limit: int | None = None  # bytes that the blocks of X and the vectors of a fit may take together
    n_components: int = 3  # components of the fit

    def vector_bytes(self, n_features: int) -> int:
        """Return bytes of all vectors of length P that a fit holds at a time."""
        return 8 * n_features * (WORKING_VECTORS + LEARNT_VECTORS + COMPONENT_VECTORS * self.n_components)

    def allows_whole(self, n_bytes: int, n_features: int) -> bool:
        """Return whether a file may be kept in memory."""
        if self.limit is None:
            return n_bytes <= MAPPED_SHARE * machine_memory()
        return n_bytes + self.vector_bytes(n_features) <= self.limit

    def block_rows(self, row_bytes: int, fewest: int, n_features: int) -> int:
        """Return samples per block, a multiple of `fewest`: the number that are stored and read together.

        A sample takes `row_bytes` while it is read; the vectors of a fit have the length `n_features`.
        """
        smallest = fewest * row_bytes
        size = max(BLOCK_BYTES, min(BLOCK_ROWS * row_bytes, LARGEST_BLOCK_BYTES))
        if self.limit is not None:
            vectors = self.vector_bytes(n_features)
            if self.limit < vectors + 2 * smallest:
                raise ValueError(
                    f"memory_limit={bytes_text(self.limit)} is too small for {n_features} features: vectors "
                    f"take {bytes_text(vectors)}, and two blocks of {fewest} samples "
                    f"{bytes_text(2 * smallest)}; give at least {bytes_text(1.01 * (vectors + 2 * smallest))}"
                )
            size = min(size, (self.limit - vectors) // PARTS)
        return max(size // smallest, 1) * fewest

    def panel_columns(self, column_bytes: int, fewest: int) -> int:
        """Return features per panel of all samples, a multiple of `fewest` where the memory is there.

        A feature takes `column_bytes`; `fewest` of them are stored together.
        """
        size = PANEL_BYTES if self.limit is None else min(PANEL_BYTES, self.limit // PARTS)
        width = max(size // column_bytes, 1)
        return width - width % fewest or width
