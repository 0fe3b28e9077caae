"""Structures made of structures: summed, or side by side on other features (docs/method.md section 2.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from spcatv._util.types import IntArray
from spcatv.structure.base import Structure, boundaries_from_counts, checked_weights, from_matrix
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
        matrix = sp.csr_array(sp.block_diag([part.matrix for part in self.parts], format="csr"))
        return matrix, _joined_boundaries(self.parts)

    @cached_property
    def _norm_squared(self) -> float:
        # the operator is block diagonal
        return max(part.norm_squared() for part in self.parts)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


def _joined_boundaries(parts: Sequence[Structure]) -> IntArray:
    """Return the boundaries of the groups of stacked operators."""
    return boundaries_from_counts(np.concatenate([np.diff(part.group_ptr) for part in parts]))


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
    factors = checked_weights(weights, np.ones(len(parts)), "structure")
    n_features = parts[0].n_features
    for number, part in enumerate(parts):
        if part.n_features != n_features:
            raise ValueError(
                "stacked structures must have the same features: structure 0 has "
                f"{n_features} features but structure {number} has {part.n_features}"
            )
    kept = [(part, factor) for part, factor in zip(parts, factors.tolist(), strict=True) if factor > 0]
    if not kept:
        return from_matrix(sp.csr_array((0, n_features)))
    if len(kept) == 1 and kept[0][1] == 1.0:
        return kept[0][0]
    matrix = sp.vstack([part.matrix * factor for part, factor in kept], format="csr")
    return from_matrix(matrix, _joined_boundaries([part for part, _ in kept]))


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
