"""Structures in the memory of a GPU: the padded box of a grid, or the sparse rows of A and of A'."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spcatv._util.devices import gpu_module
from spcatv._util.types import IntArray
from spcatv.kernels.grid_layout import Box, lay_out
from spcatv.structure import GridStructure, Structure

# Cells that a thread takes side by side in an iteration, the most that it walks along the first axis, and the
# number of threads from which on longer walks and larger blocks pay.
WIDTH = 4
LONGEST_WALK = 2
MANY_WALKS = 1 << 18
# Axes of a box that the kernels have arguments for.
MOST_AXES = 3
# The operator's entries and the dual variable are numbered by 32 bits.
MOST_ENTRIES = 2**31


@dataclass(frozen=True, eq=False)
class BoxOnGPU:
    """A box of the CPU with its arrays on the GPU."""

    box: Box
    place: Any  # cell of every feature, int32
    edges: Any  # bits of every cell, uint8
    walks: tuple[Any, Any]  # first cell and length of the walks of an iteration, int32

    @cached_property
    def slot(self) -> Any:
        """Place of every row of the operator in the dual variable; needed only to read or set one."""
        return gpu_module().asarray(self.box.slot)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """First arguments of all kernels on a box."""
        box = self.box
        missing = (0,) * (MOST_AXES - len(box.strides))
        sizes = (np.int32(size) for size in (len(box.place), box.n_cells, *box.strides, *missing))
        return (self.place, *sizes, *(np.float64(weight) for weight in (*box.axis_weights, *missing)))


def box_on_gpu(structure: GridStructure) -> BoxOnGPU:
    """Copy the box of a grid to the GPU."""
    box, asarray = structure.cached(lay_out), gpu_module().asarray
    if len(box.strides) * box.n_cells >= MOST_ENTRIES:
        raise ValueError(
            f"the grid has {box.n_cells} cells with its padding, more than the GPU kernels number"
        )
    place, (start, length) = box.place.astype(np.int32), _walks(box)
    return BoxOnGPU(box, asarray(place), asarray(box.edge_bits), (asarray(start), asarray(length)))


def _walks(box: Box) -> tuple[IntArray, IntArray]:
    """Return first cells and lengths of walks along the first axis, four cells wide, over all features."""
    n_cells = box.n_cells // WIDTH
    occupied = np.zeros(n_cells, dtype=bool)
    occupied[box.place // WIDTH] = True
    if len(box.strides) == 1:
        start = np.flatnonzero(occupied)
        return (WIDTH * start).astype(np.int32), np.ones(len(start), dtype=np.int32)
    longest = max(1, min(LONGEST_WALK, int(occupied.sum()) // (4 * MANY_WALKS)))
    planes = occupied.reshape(-1, int(box.strides[0]) // WIDTH)
    starts, lengths = [], []
    for top in range(0, len(planes), longest):
        part = planes[top : top + longest]
        first, behind = part.argmax(axis=0), len(part) - part[::-1].argmax(axis=0)
        column = np.flatnonzero(part.any(axis=0))
        starts.append((top + first[column]) * planes.shape[1] + column)
        lengths.append((behind - first)[column])
    return (WIDTH * np.concatenate(starts)).astype(np.int32), np.concatenate(lengths).astype(np.int32)


def operator_on_gpu(structure: Structure) -> tuple[Any, Any, Any]:
    """Copy groups and the compressed rows of A and of A' with values in float64, to the GPU."""
    matrix, asarray = structure.matrix, gpu_module().asarray
    if max(matrix.nnz, *matrix.shape) >= MOST_ENTRIES:
        raise ValueError(f"the structure has {matrix.nnz} entries, more than the GPU kernels number")
    rows, columns = (
        (asarray(half.indptr.astype(np.int32)), asarray(half.indices.astype(np.int32)), asarray(half.data))
        for half in (matrix, matrix.T.tocsr())
    )
    groups = asarray(structure.group_ptr.astype(np.int32)), np.int32(structure.n_groups)
    return groups, rows, columns
