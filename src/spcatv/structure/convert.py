"""Conversion of shapes, masks, meshes and matrices to structures."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from spcatv.structure.base import Structure, from_matrix
from spcatv.structure.graph import graph
from spcatv.structure.grid import grid, is_shape
from spcatv.structure.mesh import mesh

ACCEPTED = (
    "a Structure, None (no structure), a number of features or a shape (tuple of int), a boolean or "
    "label mask (array), a (coords, triangles) pair, a sparse adjacency matrix, or a function of the "
    "number of features that returns one of these"
)


def as_structure(x: Any, n_features: int | None = None) -> Structure:
    """Convert anything that describes a structure to a structure.

    Parameters
    ----------
    x : Structure, None, int, tuple of int, array, pair of arrays, sparse matrix or callable
        * a `Structure`: returned as it is;
        * ``None``: no groups, so that the structured penalty is 0 (needs `n_features`);
        * an int, or a tuple or list of ints: the shape of a `grid`;
        * a boolean or integer array: the mask or the labels of a `grid` (a one-dimensional array
          of integers is a mask, while a tuple of integers is a shape);
        * a pair ``(coords, triangles)``: a `mesh`;
        * a scipy sparse matrix: the adjacency matrix of a `graph`;
        * a callable: called with `n_features`, and its result is converted (``grid`` gives a chain).
    n_features : int, default=None
        Number of features that the structure must have, if known.

    Returns
    -------
    Structure
        With `n_features` features, if that is given.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.structure import as_structure, grid
    >>> as_structure((4, 5))
    GridStructure(shape=(4, 5), n_features=20)
    >>> as_structure(np.array([[True, True], [True, False]]))
    GridStructure(shape=(2, 2), n_features=3)
    >>> as_structure(grid, n_features=7)  # a function of the number of features
    GridStructure(shape=(7,), n_features=7)
    >>> as_structure(None, n_features=7).value(range(7))  # no neighbours, no penalty
    0.0
    """
    structure = _convert(x, n_features)
    if n_features is not None and structure.n_features != n_features:
        raise ValueError(f"the structure has {structure.n_features} features but X has {n_features} columns")
    return structure


def _convert(x: Any, n_features: int | None) -> Structure:
    if isinstance(x, Structure):
        return x
    if x is None:
        if n_features is None:
            raise ValueError("structure None fits any number of features: n_features must be given")
        return from_matrix(sp.csr_array((0, n_features)))
    if sp.issparse(x):
        return graph(x)
    if is_shape(x) or isinstance(x, np.ndarray):
        return grid(x)
    if _is_mesh(x):
        return mesh(*x)
    if callable(x):
        if n_features is None:
            raise ValueError("a function as structure is called with n_features, which must be given")
        return as_structure(x(n_features), n_features)
    raise TypeError(f"cannot make a structure of {type(x).__name__}; accepted are {ACCEPTED}")


def _is_mesh(x: Any) -> bool:
    """Return whether x is a pair of two-dimensional arrays, such as (coords, triangles)."""
    return isinstance(x, (tuple, list)) and len(x) == 2 and all(np.ndim(item) == 2 for item in x)
