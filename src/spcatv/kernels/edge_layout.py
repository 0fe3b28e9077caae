"""Memory layout of a mesh or a graph: vertices in blocks, their edges in slots of equal width.

Vertices are put in an order that keeps neighbours together (reverse Cuthill-McKee) and then, within short
windows, sorted by how many edges they own. So the vertices of a block own about the same number of edges,
which fill a small table, slot by slot, lane by lane. A missing edge leads from a vertex to itself, where
the difference is zero; a missing incoming edge refers to a slot that is always zero. No masks are needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from spcatv._util.types import FloatArray, IntArray
from spcatv.kernels.compiled import kernel
from spcatv.structure import EdgeStructure

# Vertices per block: one vector of float32, two of float64.
BLOCK = 16
# Vertices per window that is sorted by the number of edges; more would tear neighbours apart.
WINDOW = 256

Index = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Incidence:
    """An `EdgeStructure` laid out in blocks."""

    tail: IntArray  # the vertex that owns each edge, as in the structure, shape (n_edges,)
    n_places: int  # length of the vertex arrays
    n_slots: int  # length of the edge arrays; the last BLOCK slots are always zero
    place: Index  # place of every vertex, shape (n_features,)
    # place that the edge in a slot leads to, shape (n_slots,); the place of its owner where there is no edge
    head: Index
    # weight of the edge in a slot, shape (n_slots,), 0 where there is none; None: all edges weigh 1
    weight: FloatArray | None
    out_ptr: Index  # slots of block b are ``out_ptr[b]:out_ptr[b + 1]``, BLOCK lanes at a time
    incoming: Index  # slots of the edges that lead to a vertex, laid out like the slots themselves
    in_ptr: Index  # entries of `incoming` that belong to block b
    near_ptr: Index  # blocks next to block b are ``near[near_ptr[b]:near_ptr[b + 1]]``
    near: Index

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.out_ptr) - 1

    @cached_property
    def slot(self) -> Index:
        """Slot of every edge, int32, shape (n_edges,); needed only to read or set a dual variable."""
        return slots(self.place[self.tail], self.n_blocks)[1]


def fits_incidence(structure: Any) -> bool:
    """Return whether `arrange` can lay out a structure: it has edges, and places fit into 32 bits."""
    return isinstance(structure, EdgeStructure) and BLOCK * len(structure.tail) + structure.n_features < 2**31


def arrange(structure: EdgeStructure) -> Incidence:
    """Lay out a mesh or a graph in blocks."""
    place = _places(structure)
    n_blocks = -(-structure.n_features // BLOCK)
    near_ptr, near = _neighbouring_blocks(structure, place, n_blocks)
    out_ptr, slot = slots(place[structure.tail], n_blocks)
    n_slots = int(out_ptr[-1]) + BLOCK
    target = place[structure.head]
    owners = np.arange(n_blocks * BLOCK, dtype=np.int32).reshape(n_blocks, BLOCK)
    head = np.zeros(n_slots, dtype=np.int32)
    head[:-BLOCK] = np.repeat(owners, np.diff(out_ptr) // BLOCK, axis=0).ravel()
    head[slot] = target
    in_ptr, position = slots(target, n_blocks)
    del target
    incoming = np.full(int(in_ptr[-1]), n_slots - BLOCK, dtype=np.int32)
    incoming[position] = slot
    weight = None
    if (structure.weight != 1).any():
        weight = np.zeros(n_slots)
        weight[slot] = structure.weight
    return Incidence(
        tail=structure.tail,
        n_places=n_blocks * BLOCK,
        n_slots=n_slots,
        place=place,
        head=head,
        weight=weight,
        out_ptr=out_ptr,
        incoming=incoming,
        in_ptr=in_ptr,
        near_ptr=near_ptr,
        near=near,
    )


def _places(structure: EdgeStructure) -> Index:
    """Return the place of every vertex."""
    n = structure.n_features
    n_owned = np.bincount(structure.tail, minlength=n)
    # the edges are sorted by tail: they are half of a symmetric matrix in compressed rows already
    first = np.concatenate([[0], np.cumsum(n_owned)]).astype(np.int32)
    ones = np.broadcast_to(np.int8(1), len(structure.tail))
    half = sp.csr_array((ones, structure.head, first), shape=(n, n))
    order = reverse_cuthill_mckee((half + half.T).tocsr(), symmetric_mode=True)
    order = order[np.lexsort((n_owned[order], np.arange(n) // WINDOW))]
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    return place


def slots(vertex: Index, n_blocks: int) -> tuple[Index, Index]:
    """Return block boundaries and the slot of every edge, for edges that belong to the given places."""
    count = np.bincount(vertex, minlength=n_blocks * BLOCK).astype(np.int32)
    width = count.reshape(n_blocks, BLOCK).max(axis=1)
    ptr = np.concatenate([[0], np.cumsum(width * BLOCK)]).astype(np.int32)
    slot = np.empty(len(vertex), dtype=np.int32)
    count[:] = 0
    _fill_slots(vertex, ptr, count, slot)
    return ptr, slot


@kernel
def _fill_slots(vertex: Any, ptr: Any, taken: Any, slot: Any) -> None:
    """Fill in the slot of every edge: the edges of one vertex are one block width apart."""
    for e in range(len(vertex)):
        place = vertex[e]
        slot[e] = ptr[place // BLOCK] + taken[place] * BLOCK + place % BLOCK
        taken[place] += 1


def _neighbouring_blocks(structure: EdgeStructure, place: Index, n_blocks: int) -> tuple[Index, Index]:
    """Return the neighbours of each block: the blocks at the other ends of its edges."""
    a, b = place[structure.tail] // BLOCK, place[structure.head] // BLOCK
    apart = a != b
    a, b = a[apart], b[apart]
    ones = np.broadcast_to(True, len(a))
    half = sp.csr_array((ones, (a, b)), shape=(n_blocks, n_blocks), dtype=bool)
    near = (half + half.T).tocsr()
    return near.indptr.astype(np.int32), near.indices.astype(np.int32)


@kernel
def spread_blocks(busy: Any, near_ptr: Any, near: Any) -> Any:
    """Return the busy blocks and all blocks next to one, in order."""
    active = busy.copy()
    for block in range(len(busy)):
        if busy[block]:
            for k in range(near_ptr[block], near_ptr[block + 1]):
                active[near[k]] = True
    return np.flatnonzero(active)
