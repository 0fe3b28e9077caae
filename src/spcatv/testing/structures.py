"""Check of a structure (docs/method.md section 2)."""

from __future__ import annotations

import pickle

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import aslinearoperator, eigsh

from spcatv._util.types import FloatArray
from spcatv.structure import Structure, from_matrix
from spcatv.testing.require import require

ROUNDING = 1e-10  # largest relative error; that of sums of a few million terms is well below
NORM_SLACK = 1.05  # largest ratio of the bound and the norm: a looser bound costs iterations
DENSE_DIMENSION = 400  # rows or features up to which the norm is computed exactly
N_TRIALS = 3


def check_structure(structure: Structure, *, random_state: int | None = 0) -> None:
    """Check the properties of a structure on which solvers rely.

    * the operator and its groups have matching shapes, float64 entries and no empty group;
    * ``<A v, alpha> = <v, A' alpha>``;
    * ``value(v)`` is ``sum_g ||A_g v||_2``;
    * ``project`` returns the closest point of ``K = {alpha: ||alpha_g|| <= 1}``, and points of K as they are;
    * ``norm_squared()`` is at least ``||A||_2^2`` and at most 5 % above it;
    * the structure is immutable, and equals its pickle and the structure made from its operator.

    Parameters
    ----------
    structure : Structure
        The structure to check; it may have no rows.
    random_state : int or None, default=0
        Seed of the random vectors.

    Raises
    ------
    AssertionError
        At the first property that fails, with the figures.

    Examples
    --------
    >>> from spcatv.structure import grid
    >>> from spcatv.testing import check_structure
    >>> check_structure(grid((4, 5), periodic=(True, False)))
    """
    rng = np.random.default_rng(random_state)
    _check_shapes(structure)
    _check_immutable(structure)
    _check_round_trips(structure)
    for _ in range(N_TRIALS):
        v = rng.standard_normal(structure.n_features)
        alpha = 3.0 * rng.random() * rng.standard_normal(structure.n_rows)
        _check_adjoint(structure, v, alpha)
        _check_projection(structure, alpha)
        _check_value(structure, v)
    _check_norm(structure, rng)


def _reference_norms(structure: Structure, rows: FloatArray) -> FloatArray:
    """Group norms, computed in another way than by the structure."""
    group = np.repeat(np.arange(structure.n_groups), np.diff(structure.group_ptr))
    return np.sqrt(np.bincount(group, weights=rows * rows, minlength=structure.n_groups))


def _check_shapes(structure: Structure) -> None:
    matrix, group_ptr = structure.matrix, structure.group_ptr
    require(
        matrix.shape == (structure.n_rows, structure.n_features),
        f"matrix has shape {matrix.shape}, but n_rows={structure.n_rows}, n_features={structure.n_features}",
    )
    require(matrix.dtype == np.float64, f"matrix must hold float64, got {matrix.dtype}")
    require(np.isfinite(matrix.data).all(), "matrix holds NaN or infinite entries")
    require(
        group_ptr.ndim == 1 and group_ptr.dtype.kind == "i" and len(group_ptr) == structure.n_groups + 1,
        f"group_ptr must hold n_groups + 1 = {structure.n_groups + 1} integers, got {group_ptr.dtype} "
        f"of shape {group_ptr.shape}",
    )
    require(
        group_ptr[0] == 0 and group_ptr[-1] == structure.n_rows,
        f"group_ptr must cover the rows 0 to {structure.n_rows}, it goes from {group_ptr[0]} to "
        f"{group_ptr[-1]}",
    )
    smallest = int(np.diff(group_ptr).min(initial=1))
    require(smallest >= 1, f"every group needs a row, the smallest has {smallest}")


def _check_immutable(structure: Structure) -> None:
    matrix = structure.matrix
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    for name, array in {**arrays, "group_ptr": structure.group_ptr}.items():
        require(not array.flags.writeable, f"{name} can be written to: structures are immutable")
    try:
        setattr(structure, "n_features", structure.n_features)  # noqa: B010 - mypy knows that it is frozen
    except AttributeError:
        return
    raise AssertionError("n_features can be assigned to: structures are immutable")


def _check_round_trips(structure: Structure) -> None:
    copies = {
        "its pickle": pickle.loads(pickle.dumps(structure)),
        "from_matrix(matrix, group_ptr)": from_matrix(structure.matrix, structure.group_ptr),
    }
    for name, copy in copies.items():
        require(copy == structure, f"{structure!r} does not equal {name}")
        require(hash(copy) == hash(structure), f"{structure!r} and {name} have different hashes")


def _check_adjoint(structure: Structure, v: FloatArray, alpha: FloatArray) -> None:
    rows, pull = structure.forward(v), structure.adjoint(alpha)
    require(
        rows.shape == (structure.n_rows,), f"forward(v) has shape {rows.shape}, not ({structure.n_rows},)"
    )
    require(
        pull.shape == (structure.n_features,),
        f"adjoint(alpha) has shape {pull.shape}, not ({structure.n_features},)",
    )
    left, right = float(rows @ alpha), float(v @ pull)
    scale = np.linalg.norm(rows) * np.linalg.norm(alpha) + np.linalg.norm(v) * np.linalg.norm(pull)
    require(
        abs(left - right) <= ROUNDING * scale,
        f"not adjoint: <A v, alpha> = {left!r} but <v, A' alpha> = {right!r}",
    )
    off = float(np.abs(rows - structure.matrix @ v).max(initial=0.0))
    require(off <= ROUNDING * np.linalg.norm(rows), f"forward(v) is not matrix @ v: off by {off}")


def _check_projection(structure: Structure, alpha: FloatArray) -> None:
    point = structure.project(alpha)
    require(point.shape == alpha.shape, f"project changed the shape {alpha.shape} to {point.shape}")
    largest = float(_reference_norms(structure, point).max(initial=0.0))
    require(largest <= 1 + ROUNDING, f"the projection is not feasible: a group has norm {largest!r} > 1")
    again = float(np.abs(structure.project(point) - point).max(initial=0.0))
    require(again <= ROUNDING, f"the projection is not idempotent: projecting again moves it by {again}")
    # closest in a convex set: <alpha - point, q - point> <= 0 for every q in K; this is the worst q
    residual = alpha - point
    worst = float(_reference_norms(structure, residual).sum() - residual @ point)
    require(
        worst <= ROUNDING * max(1.0, float(alpha @ alpha)),
        f"the projection is not the closest point of K: <alpha - p, q - p> reaches {worst} > 0",
    )


def _check_value(structure: Structure, v: FloatArray) -> None:
    value, expected = structure.value(v), float(_reference_norms(structure, structure.matrix @ v).sum())
    require(
        abs(value - expected) <= ROUNDING * expected,
        f"value(v) = {value!r} is not the sum of the group norms {expected!r}",
    )


def _check_norm(structure: Structure, rng: np.random.Generator) -> None:
    bound = structure.norm_squared()
    truth = _norm_squared(structure.matrix, rng)
    require(
        bound >= truth * (1 - ROUNDING),
        f"norm_squared() = {bound!r} is too small: ||A||_2^2 is at least {truth!r}",
    )
    require(
        bound <= NORM_SLACK * truth,
        f"norm_squared() = {bound!r} is more than 5 % above ||A||_2^2 = {truth!r}",
    )


def _norm_squared(matrix: sp.csr_array, rng: np.random.Generator) -> float:
    """Return ``||A||_2^2``, exact if A is small, otherwise a Ritz value, which is never above it."""
    n_rows, n_features = matrix.shape
    if matrix.nnz == 0:
        return 0.0
    if min(n_rows, n_features) <= DENSE_DIMENSION:
        gram = matrix @ matrix.T if n_rows < n_features else matrix.T @ matrix
        return float(np.linalg.eigvalsh(gram.toarray())[-1])
    start = rng.standard_normal(n_features)
    gram = aslinearoperator(matrix.T.tocsr()) @ aslinearoperator(matrix)
    return float(eigsh(gram, k=1, which="LA", v0=start, tol=1e-3, return_eigenvectors=False)[0])
