"""Memory layout of a mesh or a graph: vertices in blocks, their edges in slots of equal width.

Vertices are put in an order that keeps neighbours together (reverse Cuthill-McKee), and, inside short
windows of it, in the order of how many edges they own: so the vertices of a block own about the same
number, and a block's edges fill a small table, slot by slot, lane by lane. Missing edges lead from a
vertex to itself with weight zero, missing incoming ones to a slot that is always zero: no masks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from spcatv.kernels.compiled import kernel
from spcatv.structure import EdgeStructure

# Vertices a block: one vector of float32, two of float64.
BLOCK = 16
# Vertices that are sorted by their number of edges together; more would tear neighbours apart.
WINDOW = 256

Index = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Incidence:
    """An `EdgeStructure` laid out in blocks.

    Attributes
    ----------
    n_places, n_slots : int
        Length of the vertex arrays and of the edge arrays; the last BLOCK slots are always zero.
    place : ndarray of int32, shape (n_features,)
        Where every vertex is.
    slot : ndarray of int32, shape (n_edges,)
        Where every edge is.
    head : ndarray of int32, shape (n_slots,)
        Place that the edge in a slot leads to; its owner's place where there is no edge.
    weight : ndarray of float32 or float64, shape (n_slots,)
        Weight of the edge in a slot, 0 where there is none; float32 if that holds the weights exactly.
    out_ptr : ndarray of int32, shape (n_blocks + 1,)
        Slots of block b are ``out_ptr[b]:out_ptr[b + 1]``, BLOCK lanes at a time.
    incoming : ndarray of int32
        Slots of the edges that lead to a vertex, laid out like the slots themselves.
    in_ptr : ndarray of int32, shape (n_blocks + 1,)
        Entries of `incoming` that belong to block b.
    near_ptr, near : ndarray of int32
        Blocks next to block b are ``near[near_ptr[b]:near_ptr[b + 1]]``.
    """

    n_places: int
    n_slots: int
    place: Index
    slot: Index
    head: Index
    weight: npt.NDArray[np.floating[Any]]
    out_ptr: Index
    incoming: Index
    in_ptr: Index
    near_ptr: Index
    near: Index

    @property
    def n_blocks(self) -> int:
        """Number of blocks."""
        return len(self.out_ptr) - 1


def fits_incidence(structure: Any) -> bool:
    """Whether a structure can be laid out by `arrange`: edges grouped by their owner, 32-bit places."""
    return isinstance(structure, EdgeStructure) and BLOCK * len(structure.tail) + structure.n_features < 2**31


def arrange(structure: EdgeStructure) -> Incidence:
    """Lay a mesh or a graph out in blocks."""
    n_features = structure.n_features
    place = _places(structure)
    n_blocks = -(-n_features // BLOCK)
    owner, target = place[structure.tail], place[structure.head]
    near_ptr, near = _neighbouring_blocks(owner // BLOCK, target // BLOCK, n_blocks)

    out_ptr, slot = _slots(owner, n_blocks)
    n_slots = int(out_ptr[-1]) + BLOCK
    head = _own_places(out_ptr, n_slots)
    head[slot] = target
    exact = (structure.weight.astype(np.float32) == structure.weight).all()
    weight: npt.NDArray[Any] = np.zeros(n_slots, dtype=np.float32 if exact else np.float64)
    weight[slot] = structure.weight

    in_ptr, position = _slots(target, n_blocks)
    incoming = np.full(int(in_ptr[-1]), n_slots - BLOCK, dtype=np.int32)
    incoming[position] = slot

    return Incidence(
        n_places=n_blocks * BLOCK,
        n_slots=n_slots,
        place=place,
        slot=slot,
        head=head,
        weight=weight,
        out_ptr=out_ptr,
        incoming=incoming,
        in_ptr=in_ptr,
        near_ptr=near_ptr,
        near=near,
    )


def _places(structure: EdgeStructure) -> Index:
    """Where every vertex goes."""
    n = structure.n_features
    ones = np.ones(len(structure.tail), dtype=np.int8)
    half = sp.csr_array((ones, (structure.tail, structure.head)), shape=(n, n))
    order = reverse_cuthill_mckee((half + half.T).tocsr(), symmetric_mode=True)
    n_owned = np.bincount(structure.tail, minlength=n)[order]
    order = order[np.lexsort((n_owned, np.arange(n) // WINDOW))]
    place = np.empty(n, dtype=np.int32)
    place[order] = np.arange(n, dtype=np.int32)
    return place


def _slots(vertex: Index, n_blocks: int) -> tuple[Index, Index]:
    """Block boundaries, and the slot of every edge, for edges that belong to the given places."""
    count = np.bincount(vertex, minlength=n_blocks * BLOCK)
    width = count.reshape(n_blocks, BLOCK).max(axis=1)
    ptr = np.concatenate([[0], np.cumsum(width * BLOCK)]).astype(np.int32)
    by_vertex = np.argsort(vertex, kind="stable")
    first = (np.cumsum(count) - count).astype(np.int32)
    rank = np.empty(len(vertex), dtype=np.int32)
    rank[by_vertex] = np.arange(len(vertex), dtype=np.int32) - first[vertex[by_vertex]]
    return ptr, ptr[vertex // BLOCK] + rank * BLOCK + vertex % BLOCK


def _neighbouring_blocks(a: Index, b: Index, n_blocks: int) -> tuple[Index, Index]:
    """The blocks next to each block, from the blocks at the two ends of every edge."""
    apart = a != b
    low, high = np.minimum(a, b)[apart], np.maximum(a, b)[apart]
    pairs = np.unique(low.astype(np.int64) * n_blocks + high)
    low, high = (pairs // n_blocks).astype(np.int32), (pairs % n_blocks).astype(np.int32)
    ends = np.concatenate([low, high]), np.concatenate([high, low])
    near = sp.csr_array((np.ones(2 * len(pairs), dtype=bool), ends), shape=(n_blocks, n_blocks))
    return near.indptr.astype(np.int32), near.indices.astype(np.int32)


def _own_places(out_ptr: Index, n_slots: int) -> Index:
    """For every slot the place of its owner."""
    n_blocks = len(out_ptr) - 1
    block = np.repeat(np.arange(n_blocks), np.diff(out_ptr))
    own = np.zeros(n_slots, dtype=np.int32)
    own[: out_ptr[-1]] = block * BLOCK + (np.arange(out_ptr[-1]) - out_ptr[block]) % BLOCK
    return own


@kernel
def spread_blocks(busy: Any, near_ptr: Any, near: Any) -> Any:
    """Busy blocks and all blocks next to one, in order."""
    active = busy.copy()
    for block in range(len(busy)):
        if busy[block]:
            for k in range(near_ptr[block], near_ptr[block + 1]):
                active[near[k]] = True
    return np.flatnonzero(active)
