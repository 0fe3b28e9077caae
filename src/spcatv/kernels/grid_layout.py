"""Memory layout of a masked grid: a flat padded box, and the spans of it that hold voxels.

The last axis runs fastest and is padded to a multiple of `CHUNK` cells with at least one empty
cell; one empty plane lies before and one behind the box. So the neighbour of cell i along axis d is
always cell ``i + strides[d]``, inside the array, and a loop over consecutive cells needs no index
list. Where an edge is missing, its dual variable stays zero, so the adjoint needs no mask.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.kernels.compiled import inlined_kernel, kernel
from spcatv.structure import GridStructure

# Cells per chunk: one vector of float32, two of float64.
CHUNK = 16
# Two spans with at most this many empty chunks between them are joined.
JOIN_GAP = 1
# The edges of a cell are the bits of one byte.
MOST_AXES = 8


class Spans(NamedTuple):
    """Runs of consecutive cells in order, each of whole chunks."""

    start: npt.NDArray[np.int64]  # first cell of every span, shape (n_spans,)
    stop: npt.NDArray[np.int64]  # the cell after its last, likewise
    # spans of slab s are ``slab_ptr[s]:slab_ptr[s + 1]``, shape (n_slabs + 1,)
    slab_ptr: npt.NDArray[np.int64]
    cells: npt.NDArray[np.int64]  # cells of the spans before slab s, shape (n_slabs + 1,)

    def cut(self, n_parts: int) -> npt.NDArray[np.int64]:
        """Cut the slabs into at most `n_parts` parts of about equally many cells, at least one slab each.

        Slabs of part k are ``bounds[k]:bounds[k + 1]``.
        """
        n_slabs = len(self.cells) - 1
        if n_parts == 1:  # most problems are small, and are cut at every look at the gap
            return np.array([0, n_slabs])
        inner = np.searchsorted(self.cells, self.cells[-1] * np.arange(1, n_parts) / n_parts)
        return np.unique(np.concatenate([[0], inner, [n_slabs]]))


@dataclass(frozen=True)
class Box:
    """A grid laid out flat."""

    n_cells: int  # length of the flat arrays, a multiple of `CHUNK`
    # weights of the differences along the axes that the box has, shape (n_axes,): those along which the
    # mask is longer than one voxel
    axis_weights: FloatArray
    # distance to the next cell along each axis: 1 for the last, multiples of `CHUNK` for all other axes
    strides: npt.NDArray[np.int64]  # shape (n_axes,)
    # cells per slab. A slab holds one index of the first axis (of a line: all cells). The forward
    # neighbours of its cells lie in the slab itself and in the next one.
    slab_size: int
    place: IntArray  # cell of every feature, shape (n_features,)
    # place of every row of ``structure.matrix``, shape (n_rows,), in a flat array of n_axes * n_cells
    slot: IntArray
    edge_bits: npt.NDArray[np.uint8]  # bit d: whether the cell has an edge along axis d, shape (n_cells,)
    occupied: BoolArray  # chunks that hold at least one voxel, shape (n_cells / CHUNK,)

    def spans(self, busy: BoolArray) -> Spans:
        """Return the spans of the busy chunks."""
        return Spans(*_find_spans(busy, self.slab_size // CHUNK, self.n_cells // self.slab_size))


def fits_a_box(structure: Any) -> bool:
    """Return whether a structure is a grid that `lay_out` accepts."""
    return (
        isinstance(structure, GridStructure)
        and structure.labels.ndim <= MOST_AXES
        and not any(structure.wraps(axis) for axis in range(structure.labels.ndim))
    )


def lay_out(structure: GridStructure) -> Box:
    """Lay out a grid without periodic axes as a padded box around its mask."""
    cropped, axes = _crop(structure)
    inside = cropped.labels != 0
    n_axes = inside.ndim
    padded = (*inside.shape[:-1], CHUNK * (inside.shape[-1] // CHUNK + 1))
    strides = np.array([math.prod(padded[axis + 1 :]) for axis in range(n_axes)], dtype=np.int64)
    # a line is a single slab; its padding need not be as long as the line
    padding = int(strides[0]) if n_axes > 1 else CHUNK
    n_cells = math.prod(padded) + 2 * padding

    place = padding + np.ravel_multi_index(np.nonzero(inside), padded)
    edges = np.stack([cropped.edges_along(axis)[inside] for axis in range(n_axes)], axis=1)
    edge_bits = np.zeros(n_cells, dtype=np.uint8)
    edge_bits[place] = edges @ (1 << np.arange(n_axes))
    # rows are ordered by voxel, then by axis
    feature, axis = np.nonzero(edges)
    occupied = np.zeros(n_cells // CHUNK, dtype=bool)
    occupied[place // CHUNK] = True
    index = np.int32 if n_axes * n_cells < 2**31 else np.int64
    return Box(
        n_cells=n_cells,
        axis_weights=np.asarray(structure.axis_weights)[axes],
        strides=strides,
        slab_size=padding if n_axes > 1 else n_cells,
        place=place.astype(index),
        slot=(axis * n_cells + place[feature]).astype(index),
        edge_bits=edge_bits,
        occupied=occupied,
    )


def _crop(structure: GridStructure) -> tuple[GridStructure, list[int]]:
    """Crop to the smallest box around the voxels, without axes of one voxel; return also the axes kept."""
    inside = structure.labels != 0
    n_axes = inside.ndim
    bounds = []
    for axis in range(n_axes):
        others = tuple(other for other in range(n_axes) if other != axis)
        used = np.flatnonzero(inside.any(axis=others))
        bounds.append(slice(int(used[0]), int(used[-1]) + 1))
    labels = structure.labels[tuple(bounds)]
    axes = [axis for axis in range(n_axes) if labels.shape[axis] > 1] or [0]
    labels = np.squeeze(labels, axis=tuple(axis for axis in range(n_axes) if axis not in axes))
    return GridStructure(
        labels, tuple(structure.axis_weights[axis] for axis in axes), structure.isotropic
    ), axes


@kernel
def _find_spans(busy: Any, chunks_per_slab: int, n_slabs: int) -> tuple[Any, Any, Any, Any]:
    """Find runs of busy chunks inside slabs; short gaps are included, which costs less than a new loop."""
    start = np.empty(len(busy), dtype=np.int64)
    stop = np.empty(len(busy), dtype=np.int64)
    slab_ptr = np.zeros(n_slabs + 1, dtype=np.int64)
    n_spans = 0
    for slab in range(n_slabs):
        last_busy = -JOIN_GAP - 2
        for chunk in range(slab * chunks_per_slab, (slab + 1) * chunks_per_slab):
            if not busy[chunk]:
                continue
            if chunk - last_busy > JOIN_GAP + 1:
                start[n_spans] = chunk * CHUNK
                n_spans += 1
            stop[n_spans - 1] = (chunk + 1) * CHUNK
            last_busy = chunk
        slab_ptr[slab + 1] = n_spans
    cells = np.zeros(n_slabs + 1, dtype=np.int64)
    for slab in range(n_slabs):
        cells[slab + 1] = cells[slab]
        for s in range(slab_ptr[slab], slab_ptr[slab + 1]):
            cells[slab + 1] += stop[s] - start[s]
    return start[:n_spans].copy(), stop[:n_spans].copy(), slab_ptr, cells


@inlined_kernel
def spread(busy: Any, occupied: Any, strides: Any, v: Any, w: Any, active: Any, begin: int, end: int) -> None:
    """Mark the busy ones of some chunks, and those with voxels that are neighbours of a busy cell.

    Chunks ``begin:end`` are looked at; a busy cell counts if v or w is not zero there.
    """
    for chunk in range(begin, end):
        hit = busy[chunk]
        if occupied[chunk] and not hit:
            for axis in range(len(strides) - 1):
                step = strides[axis] // CHUNK
                hit = hit or (chunk >= step and busy[chunk - step])
                hit = hit or (chunk + step < len(busy) and busy[chunk + step])
            # along the last axis only the first and the last cell of a chunk have neighbours in another chunk
            before, behind = chunk * CHUNK - 1, (chunk + 1) * CHUNK
            if chunk > 0 and busy[chunk - 1]:
                hit = hit or v[before] != 0 or w[before] != 0
            if chunk + 1 < len(busy) and busy[chunk + 1]:
                hit = hit or v[behind] != 0 or w[behind] != 0
        active[chunk] = hit
