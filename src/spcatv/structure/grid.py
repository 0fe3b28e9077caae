"""Regular grids of any dimension with a mask: images, volumes, time courses (docs/method.md section 2.1)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.ndimage import maximum_filter1d, minimum_filter1d

from spcatv._util.types import Array, BoolArray, IntArray
from spcatv.structure.base import Structure, boundaries_from_counts, difference_matrix, immutable, index_dtype
from spcatv.structure.bounds import spectral_norm_squared

# 4 cos^2(pi / 16) = 3.85 is within 4 % of the 4 of an endless line.
CUBE = 8


@dataclass(frozen=True, eq=False, repr=False)
class GridStructure(Structure):
    """Forward differences on the voxels of a mask; use `grid`, which checks its input, to make one.

    Row "voxel g, axis a" of the operator is ``axis_weights[a] * (v[next voxel along a] - v[g])``. It
    exists only if both voxels have the same label. Features are the labelled voxels in C order;
    rows are ordered by voxel, then by axis.

    Examples
    --------
    >>> from spcatv.structure import grid
    >>> ring = grid((1, 3), periodic=(False, True))
    >>> ring.n_features, ring.n_rows
    (3, 3)
    >>> ring.edges_along(1), ring.wraps(1)
    (array([[ True,  True,  True]]), True)
    >>> grid([[True, False, True]]).feature_index()
    array([[ 0, -1,  1]], dtype=int32)
    """

    # the box; 0 is outside the mask, and differences are taken only within a label
    labels: IntArray  # int32, shape (n_0, n_1, ...)
    axis_weights: tuple[float, ...]  # ``1 / voxel size`` along every axis
    # whether the rows of a voxel form one group; otherwise every row is a group of its own
    isotropic: bool = True
    periodic: tuple[bool, ...] = ()  # whether the last voxel along an axis is followed by the first

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", immutable(np.ascontiguousarray(self.labels, dtype=np.int32)))
        if not self.periodic:
            object.__setattr__(self, "periodic", (False,) * self.labels.ndim)

    @cached_property
    def n_features(self) -> int:
        """Number of labelled voxels P."""
        return int(np.count_nonzero(self.labels))

    @cached_property
    def n_rows(self) -> int:
        """Number of edges."""
        return sum(int(np.count_nonzero(self.edges_along(axis))) for axis in range(self.labels.ndim))

    def feature_index(self) -> IntArray:
        """Return the feature index of every voxel, -1 outside the mask; in the shape of the box."""
        inside = self.labels != 0
        index = np.full(self.labels.shape, -1, dtype=index_dtype(self.n_features))
        index[inside] = np.arange(self.n_features, dtype=index.dtype)
        return index

    def edges_along(self, axis: int) -> BoolArray:
        """Mark the voxels that have a forward edge along `axis`; in the shape of the box.

        The edge of the last voxel of a periodic axis leads to the first one. An axis of one or two
        voxels does not wrap: a voxel is not its own neighbour, and the only pair is counted once.
        """
        labels = np.moveaxis(self.labels, axis, 0)
        edges = np.zeros(self.labels.shape, dtype=bool)
        along = np.moveaxis(edges, axis, 0)
        along[:-1] = (labels[:-1] == labels[1:]) & (labels[:-1] != 0)
        if self.wraps(axis):
            along[-1] = (labels[-1] == labels[0]) & (labels[-1] != 0)
        return edges

    def wraps(self, axis: int) -> bool:
        """Return whether the axis is periodic and has the three voxels for that to matter."""
        return self.periodic[axis] and self.labels.shape[axis] > 2

    def _build(self) -> tuple[sp.csr_array, IntArray]:
        inside = self.labels != 0
        index = self.feature_index()
        axes = range(self.labels.ndim)
        has_edge = np.stack([self.edges_along(axis)[inside] for axis in axes], axis=1)
        next_index = np.stack([np.roll(index, -1, axis)[inside] for axis in axes], axis=1)
        tail, axis_of_row = np.nonzero(has_edge)
        weight = np.asarray(self.axis_weights)[axis_of_row]
        matrix = difference_matrix(
            tail.astype(index.dtype), next_index[has_edge], weight, n_features=self.n_features
        )
        counts = has_edge.sum(axis=1) if self.isotropic else np.ones(len(tail), dtype=np.int64)
        return matrix, boundaries_from_counts(counts)

    @cached_property
    def _norm_squared(self) -> float:
        # A'A is a sum over the axes of Laplacians of paths and cycles, whose spectra are known
        bound = math.fsum(
            weight**2 * _largest_path_eigenvalue(self.edges_along(axis), axis)
            for axis, weight in enumerate(self.axis_weights)
        )
        if _holds_a_cube(self.labels):
            return bound
        two_coloured = all(not self.wraps(axis) or n % 2 == 0 for axis, n in enumerate(self.labels.shape))
        return spectral_norm_squared(self.matrix, upper=bound, bipartite=two_coloured)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.labels.shape}, n_features={self.n_features})"


def _holds_a_cube(labels: IntArray) -> bool:
    """Return whether a cube with a side of `CUBE` voxels (or the axis, if shorter) lies within one label.

    The norm of such a cube is within 4 % of the analytic bound, and that of the grid is not smaller.
    """
    low = high = labels
    for axis, n in enumerate(labels.shape):
        size = min(CUBE, n)
        low = minimum_filter1d(low, size, axis=axis, mode="constant", cval=0)
        high = maximum_filter1d(high, size, axis=axis, mode="constant", cval=0)
    return bool(((low == high) & (low > 0)).any())


def _largest_path_eigenvalue(edges: BoolArray, axis: int) -> float:
    """Return the largest eigenvalue of the Laplacian of the paths and cycles along one axis.

    It is ``4 cos^2(pi / (2 n))`` for a path of n voxels and for a cycle of odd length n, and 4 for a
    cycle of even length.
    """
    lines = np.moveaxis(edges, axis, -1).reshape(-1, edges.shape[axis])
    n = lines.shape[1]
    if lines.all(axis=1).any():
        return 4.0 if n % 2 == 0 else 4.0 * math.cos(math.pi / (2 * n)) ** 2
    # a run may cross the end of a periodic axis: append every line to itself, and end it with a gap
    twice = np.concatenate([lines, lines, np.zeros((len(lines), 1), dtype=bool)], axis=1).ravel()
    changes = np.flatnonzero(np.diff(twice, prepend=False))
    longest = int((changes[1::2] - changes[::2]).max(initial=0))
    return 4.0 * math.cos(math.pi / (2 * (longest + 1))) ** 2 if longest else 0.0


def grid(
    mask_or_shape: Any,
    *,
    voxel_size: float | Sequence[float] | None = None,
    isotropic: bool = True,
    periodic: bool | Sequence[bool] = False,
) -> GridStructure:
    """Total variation on a grid of any number of dimensions, with a mask (docs/method.md section 2.1).

    ``s(v) = sum_g sqrt( sum_a ((v[g + e_a] - v[g]) / voxel_size[a])^2 )`` over the voxels g and the
    axes a along which the next voxel is in the mask and has the same label.

    Parameters
    ----------
    mask_or_shape : int, tuple of int, or array-like of bool or int
        A number of features in a chain; the shape of a full box (a tuple or a list of integers); a
        boolean mask; or an array of labels >= 0, where 0 is outside and differences are taken only
        within a label. The features are the voxels of the mask in C order. A NumPy array is always a
        mask or labels, never a shape.
    voxel_size : float or sequence of float, default=None
        Distance between neighbours, one for all axes or one per axis; 1 by default.
    isotropic : bool, default=True
        Whether the differences of a voxel form one group (``True``) or every difference a group of its
        own (``False``: the sum of absolute differences).
    periodic : bool or sequence of bool, default=False
        Whether the last voxel along an axis is followed by the first (longitudes, hours of a day), for
        all axes or one per axis. An axis of one or two voxels gets no extra neighbour.

    Returns
    -------
    GridStructure

    Examples
    --------
    >>> from spcatv.structure import grid
    >>> grid((2, 3)).value([0, 0, 1, 0, 0, 1])
    2.0
    """
    labels = _labels(mask_or_shape)
    ndim = labels.ndim
    return GridStructure(
        labels=immutable(labels),
        axis_weights=_axis_weights(voxel_size, ndim),
        isotropic=bool(isotropic),
        periodic=_periodic(periodic, ndim),
    )


def is_shape(x: Any) -> bool:
    """Return whether x is an integer, or a tuple or list of integers; booleans do not count."""
    if isinstance(x, (tuple, list)):
        return len(x) > 0 and all(_is_integer(item) for item in x)
    return _is_integer(x)


def _is_integer(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _labels(mask_or_shape: Any) -> IntArray:
    if is_shape(mask_or_shape):
        shape = mask_or_shape if isinstance(mask_or_shape, (tuple, list)) else (mask_or_shape,)
        if min(shape) < 1:
            raise ValueError(f"every side of a grid must be at least 1, got shape {tuple(map(int, shape))}")
        return np.ones(shape, dtype=np.int32)
    mask = np.asarray(mask_or_shape)
    if mask.ndim == 0:
        raise TypeError(
            f"a grid is made from a shape (int or tuple of int) or a mask (array), got {mask_or_shape!r}"
        )
    labels = _as_labels(mask)
    if not labels.any():
        raise ValueError(f"the mask of shape {mask.shape} is empty: no voxel is inside")
    return labels


def _as_labels(mask: Array) -> IntArray:
    """Convert a boolean, integer or 0/1-valued float mask to labels in int32."""
    if mask.dtype.kind == "f":
        wrong = ~((mask == 0) | (mask == 1))
        if wrong.any():
            place = tuple(int(i) for i in np.argwhere(wrong)[0])
            raise ValueError(
                f"a mask of floats may hold 0 and 1 only, got {mask[place]} at {place} ({wrong.sum()} such "
                "voxels); give a boolean mask (e.g. image > threshold) or integer labels"
            )
    elif mask.dtype.kind not in "biu":
        raise TypeError(f"a mask must be boolean or of integer labels, got dtype {mask.dtype}")
    elif mask.dtype.kind == "i" and mask.size and mask.min() < 0:
        raise ValueError(f"labels must be >= 0 (0 is outside the mask), got {mask.min()}")
    if mask.dtype.kind in "iu" and mask.size and mask.max() > np.iinfo(np.int32).max:
        # only equality of labels matters: renumber them, and keep 0 for outside
        inverse = np.unique(np.append(mask, 0), return_inverse=True)[1]
        return inverse[:-1].reshape(mask.shape).astype(np.int32)
    return mask.astype(np.int32)


def _axis_weights(voxel_size: float | Sequence[float] | None, ndim: int) -> tuple[float, ...]:
    sizes = np.asarray(1.0 if voxel_size is None else voxel_size, dtype=np.float64)
    if sizes.ndim > 1 or (sizes.ndim == 1 and len(sizes) != ndim):
        raise ValueError(
            f"voxel_size must be one number or one per axis ({ndim}), got an array of shape {sizes.shape}"
        )
    if not (np.isfinite(sizes).all() and (sizes > 0).all() and np.isfinite(1 / sizes**2).all()):
        raise ValueError(f"voxel_size must be positive and finite, got {voxel_size}")
    return tuple(float(1.0 / size) for size in np.broadcast_to(sizes, (ndim,)))


def _periodic(periodic: bool | Sequence[bool], ndim: int) -> tuple[bool, ...]:
    flags = np.asarray(periodic)
    if flags.dtype.kind != "b" or flags.ndim > 1 or (flags.ndim == 1 and len(flags) != ndim):
        raise ValueError(f"periodic must be True, False or one of these per axis ({ndim}), got {periodic!r}")
    return tuple(bool(flag) for flag in np.broadcast_to(flags, (ndim,)))
