"""Memory layout of a masked grid: a flat padded box, and the spans of it that hold voxels.

The last axis runs fastest and is padded to a multiple of `CHUNK` cells with at least one empty
cell; one empty plane lies before and behind the box. So the neighbour of cell i along axis d is
always cell ``i + strides[d]``, inside the array, and a loop over consecutive cells needs no index
list. Where an edge is missing its dual variable is kept at zero, which makes the adjoint need no
mask at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv.structure import GridStructure

# Cells a chunk: one cache line of float32, one vector register.
CHUNK = 16
# Spans closer than this are joined: running over a few empty cells costs less than a new loop.
JOIN_GAP = 32
# A span's scratch space must stay in the first-level cache.
LONGEST_SPAN = 1024


@dataclass(frozen=True)
class Box:
    """A grid laid out flat.

    Attributes
    ----------
    n_cells : int
        Length of the flat arrays.
    strides : ndarray of uint64, shape (n_axes,)
        Distance to the next cell along each axis.
    position : ndarray of int64, shape (n_features,)
        Cell of every feature.
    edges : ndarray of bool, shape (n_features, n_axes)
        Whether the feature has a forward neighbour along the axis; row-major order of the True
        entries is the row order of ``structure.matrix``.
    edge_bits : ndarray of uint8, shape (n_axes, n_cells)
        The same on the cells, one byte an edge.
    start, stop : ndarray of uint64, shape (n_spans,)
        First and past-the-end cell of every span that holds voxels.
    slab_ptr : ndarray of int64, shape (n_slabs + 1,)
        Spans of slab s (one index of the first axis) are ``slab_ptr[s]:slab_ptr[s + 1]``. The
        forward neighbours of a slab's cells lie in the slab itself and the next one.
    """

    n_cells: int
    strides: npt.NDArray[np.uint64]
    position: npt.NDArray[np.int64]
    edges: npt.NDArray[np.bool_]
    edge_bits: npt.NDArray[np.uint8]
    start: npt.NDArray[np.uint64]
    stop: npt.NDArray[np.uint64]
    slab_ptr: npt.NDArray[np.int64]


def lay_out(structure: GridStructure) -> Box:
    """Lay a grid without periodic axes out as a padded box."""
    inside = structure.labels != 0
    n_axes = inside.ndim
    padded = (*inside.shape[:-1], CHUNK * (inside.shape[-1] // CHUNK + 1))
    strides = np.array([math.prod(padded[axis + 1 :]) for axis in range(n_axes)], dtype=np.int64)
    # a line is one slab by itself; its padding need not be as long as the line
    padding = int(strides[0]) if n_axes > 1 else CHUNK
    n_cells = math.prod(padded) + 2 * padding
    slab_size = padding if n_axes > 1 else n_cells

    position = padding + np.argwhere(inside) @ strides
    edges = np.stack([structure.edges_along(axis)[inside] for axis in range(n_axes)], axis=1)
    edge_bits = np.zeros((n_axes, n_cells), dtype=np.uint8)
    edge_bits[:, position] = edges.T

    occupied = np.zeros(n_cells, dtype=bool)
    occupied[position] = True
    start, stop = find_spans(np.logical_or.reduceat(occupied, np.arange(0, n_cells, CHUNK)), slab_size)
    slab_edges = np.arange(0, n_cells + 1, slab_size)
    return Box(
        n_cells=n_cells,
        strides=strides.astype(np.uint64),
        position=position,
        edges=edges,
        edge_bits=edge_bits,
        start=start.astype(np.uint64),
        stop=stop.astype(np.uint64),
        slab_ptr=np.searchsorted(start, slab_edges).astype(np.int64),
    )


def find_spans(busy: npt.NDArray[np.bool_], slab_size: int) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Turn busy chunks into spans of cells that never cross a slab or exceed `LONGEST_SPAN`.

    Parameters
    ----------
    busy : ndarray of bool, shape (n_chunks,)
        Chunks that hold at least one voxel.
    slab_size : int
        Cells a slab.

    Returns
    -------
    start, stop : ndarray of int64
        Sorted, disjoint spans in cells.
    """
    step = np.diff(busy.astype(np.int8), prepend=0, append=0)
    start = np.flatnonzero(step == 1) * CHUNK
    stop = np.flatnonzero(step == -1) * CHUNK
    join = (start[1:] - stop[:-1]) <= JOIN_GAP
    start = start[np.concatenate(([True], ~join))] if len(start) else start
    stop = stop[np.concatenate((~join, [True]))] if len(stop) else stop
    return _cut(*_cut(start, stop, slab_size, aligned=True), LONGEST_SPAN, aligned=False)


def _cut(
    start: npt.NDArray[Any], stop: npt.NDArray[Any], length: int, *, aligned: bool
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Cut spans at multiples of `length`, counted from cell 0 (aligned) or from each span's start."""
    origin = start // length * length if aligned else start
    n_pieces = -(-(stop - origin) // length)
    span = np.repeat(np.arange(len(start)), n_pieces)
    piece = np.arange(len(span)) - np.repeat(np.cumsum(n_pieces) - n_pieces, n_pieces)
    first = np.maximum(origin[span] + piece * length, start[span])
    last = np.minimum(origin[span] + (piece + 1) * length, stop[span])
    return first, last
