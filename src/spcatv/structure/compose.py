"""Structures made of structures: summed, or side by side on other features (docs/method.md section 2.4)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spcatv._util.types import IntArray
from spcatv.structure.base import MatrixStructure, Structure, from_matrix, index_dtype
from spcatv.structure.graph import EdgeStructure


@dataclass(frozen=True, eq=False, repr=False)
class ConcatStructure(Structure):
    """Feature sets side by side, each with a structure of its own; use `concat` to make one.

    Examples
    --------
    >>> from spcatv.structure import concat, grid, groups
    >>> both = concat([grid(3), groups([[0, 1]], 2)])
    >>> both
    ConcatStructure(GridStructure(shape=(3,), n_features=3), MatrixStructure(n_features=2))
    >>> both.n_features, [type(part).__name__ for part in both.parts]
    (5, ['GridStructure', 'MatrixStructure'])
    """

    parts: tuple[Structure, ...]  # in the order of their features, rows and groups

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))

    @cached_property
    def n_features(self) -> int:
        """Number of features of all parts together."""
        return sum(part.n_features for part in self.parts)

    def _build(self) -> tuple[sp.csr_array, IntArray]:
        matrices = [part.matrix for part in self.parts]
        first_column = np.cumsum([0, *(part.n_features for part in self.parts)])
        return (
            _pile(matrices, first_column[:-1].tolist(), self.n_features),
            _joined_boundaries([part.group_ptr for part in self.parts]),
        )

    @cached_property
    def _norm_squared(self) -> float:
        # the operator is block diagonal
        return max(part.norm_squared() for part in self.parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


def _pile(matrices: Sequence[sp.csr_array], first_column: Sequence[int], n_features: int) -> sp.csr_array:
    """Stack matrices vertically, each starting at its own column."""
    dtype = index_dtype(max(n_features, sum(matrix.nnz for matrix in matrices)))
    indices = [
        np.asarray(m.indices, dtype) + column for m, column in zip(matrices, first_column, strict=True)
    ]
    indptr = _joined_boundaries([matrix.indptr for matrix in matrices]).astype(dtype)
    data = np.concatenate([matrix.data for matrix in matrices])
    return sp.csr_array((data, np.concatenate(indices), indptr), shape=(len(indptr) - 1, n_features))


def _joined_boundaries(pointers: Sequence[IntArray]) -> IntArray:
    """Return the boundaries (of groups or of sparse rows) of stacked operators."""
    counts = np.concatenate([np.diff(pointer) for pointer in pointers])
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)])


def stack(structures: Iterable[Structure], weights: npt.ArrayLike | None = None) -> Structure:
    """Add penalties on the same features: ``s(v) = sum_i w_i s_i(v)`` (docs/method.md section 2.4).

    Parameters
    ----------
    structures : iterable of Structure
        All with the same number of features.
    weights : array-like of shape (n_structures,), default=None
        ``w_i >= 0``, 1 by default. A structure of weight 0 is left out.

    Returns
    -------
    Structure
        On the same features.

    Examples
    --------
    >>> from spcatv.structure import grid, groups, stack
    >>> stack([grid(3), groups([[0, 1, 2]], 3, weights=[1])], weights=[1, 0.5]).value([0, 0, 4])
    6.0
    """
    parts = _structures(structures, "stack")
    factors = _stack_weights(weights, len(parts))
    n_features = parts[0].n_features
    for number, part in enumerate(parts):
        if part.n_features != n_features:
            raise ValueError(
                "stacked structures must have the same features: structure 0 has "
                f"{n_features} features but structure {number} has {part.n_features}"
            )
    kept = [(part, factor) for part, factor in zip(parts, factors, strict=True) if factor > 0]
    if len(kept) == 1 and kept[0][1] == 1.0:
        return kept[0][0]
    return _weighted_stack(kept, n_features)


def _weighted_stack(kept: Sequence[tuple[Structure, float]], n_features: int) -> MatrixStructure:
    if not kept:
        return from_matrix(sp.csr_array((0, n_features)))
    matrices = [part.matrix * factor for part, factor in kept]
    matrix = _pile(matrices, [0] * len(matrices), n_features)
    return from_matrix(matrix, _joined_boundaries([part.group_ptr for part, _ in kept]))


def concat(structures: Iterable[Structure]) -> Structure:
    """Put feature sets side by side, such as two hemispheres and a volume (docs/method.md section 2.4).

    ``s(v) = s_1(v_1) + s_2(v_2) + ...``, where v is divided into consecutive parts.

    Parameters
    ----------
    structures : iterable of Structure
        In the order of their features.

    Returns
    -------
    Structure
        An `EdgeStructure` if all parts are (and all or none are isotropic), otherwise a `ConcatStructure`,
        in which neighbouring edge structures are joined.

    Examples
    --------
    >>> from spcatv.structure import concat, grid
    >>> concat([grid(2), grid(2)]).value([0, 1, 5, 5])
    1.0
    """
    flat: list[Structure] = []
    for part in _structures(structures, "concat"):
        flat.extend(part.parts if isinstance(part, ConcatStructure) else [part])
    joined: list[Structure] = []
    for _, run in groupby(flat, key=_edge_kind):
        joined.extend(_join_edges(list(run)))
    return joined[0] if len(joined) == 1 else ConcatStructure(tuple(joined))


def _edge_kind(structure: Structure) -> bool | None:
    """Return whether an edge structure is isotropic; None for any other structure."""
    return structure.isotropic if isinstance(structure, EdgeStructure) else None


def _join_edges(run: list[Structure]) -> list[Structure]:
    """Join structures of one kind into a single one if they are edge structures."""
    parts = [part for part in run if isinstance(part, EdgeStructure)]
    if len(run) == 1 or not parts:
        return run
    first = np.cumsum([0, *(part.n_features for part in parts)])
    joined = EdgeStructure(
        feature_count=int(first[-1]),
        tail=np.concatenate([part.tail + start for part, start in zip(parts, first, strict=False)]),
        head=np.concatenate([part.head + start for part, start in zip(parts, first, strict=False)]),
        weight=np.concatenate([part.weight for part in parts]),
        isotropic=parts[0].isotropic,
    )
    return [joined]


def _structures(structures: Iterable[Structure], name: str) -> list[Structure]:
    if isinstance(structures, Structure):
        raise TypeError(f"{name} takes a list of structures, got a single {type(structures).__name__}")
    parts = list(structures)
    if not parts:
        raise ValueError(f"{name} needs at least one structure, got an empty list")
    for number, part in enumerate(parts):
        if not isinstance(part, Structure):
            raise TypeError(
                f"{name} takes structures only, but item {number} is a {type(part).__name__}; "
                "convert it with as_structure"
            )
    return parts


def _stack_weights(weights: npt.ArrayLike | None, n_structures: int) -> list[float]:
    if weights is None:
        return [1.0] * n_structures
    factors = np.asarray(weights, dtype=np.float64)
    if factors.shape != (n_structures,):
        raise ValueError(
            f"weights must hold one number per structure ({n_structures}), got shape {factors.shape}"
        )
    for number, factor in enumerate(factors.tolist()):
        if not (math.isfinite(factor) and factor >= 0):
            raise ValueError(f"weights must be finite and >= 0; structure {number} has {factor}")
    return [float(factor) for factor in factors]
