"""Where the alternation starts: singular vectors of X, and of X diffused on the structure.

The problem of a component is bi-convex and has local minima; a start decides which one is found
(docs/method.md section 4.2). Every function returns unit scores, one row a start, best guess first.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh
from scipy.special import ive

from spcatv.matrix import Matrix, gram_pays, row_blocks
from spcatv.structure import Structure

FloatArray = npt.NDArray[np.floating[Any]]

# A start needs no more digits than the alternation will look at.
LANCZOS_TOL = 1e-9
# The heat kernel exp(-t A'A) that X is diffused by, with t in units of 1 / ||A||^2: on an image it
# is a Gaussian of 3 pixels, on a volume one of 2.4 voxels.
DIFFUSION_TIME = 36.0
# Entries of X that are diffused together: each block reads the data once more.
DIFFUSED_ENTRIES = 1 << 21
# Terms of the Chebyshev series below this are left out.
SERIES_CUTOFF = 1e-4


def singular_scores(matrix: Matrix, n_starts: int) -> FloatArray:
    """Leading left singular vectors of the data, shape (n, N), n <= n_starts.

    Directions without variance beyond rounding are left out.
    """
    if gram_pays(matrix.shape):
        values, vectors = _leading_eigenvectors(matrix.gram(), n_starts)
        if matrix.shape[0] > matrix.shape[1]:
            vectors = np.stack([matrix.dot(v) for v in vectors])
    else:
        values, vectors = _lanczos(matrix, n_starts)
    vectors = vectors[values > 0]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors[lengths[:, 0] > 0] / lengths[lengths[:, 0] > 0]


def _leading_eigenvectors(gram: FloatArray, n_vectors: int) -> tuple[FloatArray, FloatArray]:
    """Largest eigenvalues (descending) and eigenvectors (as rows) of a symmetric matrix."""
    size = len(gram)
    first = max(size - n_vectors, 0)
    values, vectors = eigh(gram, subset_by_index=(first, size - 1))
    return values[::-1], vectors.T[::-1]


def _lanczos(matrix: Matrix, n_vectors: int) -> tuple[FloatArray, FloatArray]:
    """The same for ``X X'`` through products with X alone."""
    n_rows = matrix.shape[0]
    product = LinearOperator(
        (n_rows, n_rows), matvec=lambda u: matrix.dot(matrix.transpose_dot(u.ravel())), dtype=np.float64
    )
    # a fixed start that no symmetry of the rows can make orthogonal to the answer
    start = np.random.default_rng(0).standard_normal(n_rows)
    values, vectors = eigsh(product, k=min(n_vectors, n_rows - 1), which="LA", v0=start, tol=LANCZOS_TOL)
    return values[::-1], vectors.T[::-1]


def diffused_scores(matrix: Matrix, structure: Structure, n_starts: int) -> FloatArray:
    """Leading left singular vectors of ``X W``, W the heat kernel of the structure; shape (n, N).

    ``W = exp(-t A'A / ||A||^2)`` smooths along the structure, so that what is noise from one feature
    to the next weighs less than what neighbours share. Only ``X W^2 X'`` is formed, block by block.
    """
    n_rows = matrix.shape[0]
    if structure.norm_squared() == 0:
        return singular_scores(matrix, n_starts)
    laplacian = (structure.matrix.T @ structure.matrix).tocsr() * (2.0 / structure.norm_squared())
    gram = np.empty((n_rows, n_rows))
    for first, last in row_blocks(matrix.shape, DIFFUSED_ENTRIES):
        smooth = _diffuse(laplacian, matrix.rows(first, last).T, 2 * DIFFUSION_TIME)
        for other_first, other_last in row_blocks(matrix.shape, DIFFUSED_ENTRIES):
            gram[other_first:other_last, first:last] = matrix.rows(other_first, other_last) @ smooth
    values, vectors = _leading_eigenvectors(0.5 * (gram + gram.T), n_starts)
    return vectors[values > 0]


def _diffuse(laplacian: sp.csr_array, columns: FloatArray, time: float) -> FloatArray:
    """``exp(-time * A'A / ||A||^2)`` times columns (P, n), by its Chebyshev series.

    `laplacian` is ``2 A'A / ||A||^2``. With ``x = laplacian - 1`` in [-1, 1] and z = time / 2,
    ``exp(-z (1 + x)) = sum_k c_k T_k(x)`` where c_k = (-1)^k (2 - [k = 0]) I_k(z) exp(-z).
    """
    z = 0.5 * time
    orders = np.arange(int(z) + 50)
    coefficients = (-1.0) ** orders * np.where(orders == 0, 1.0, 2.0) * ive(orders, z)
    coefficients = coefficients[: np.flatnonzero(np.abs(coefficients) > SERIES_CUTOFF)[-1] + 1]
    before, current = columns, laplacian @ columns - columns
    total = coefficients[0] * before + coefficients[1] * current
    for coefficient in coefficients[2:]:
        before, current = current, 2.0 * (laplacian @ current - current) - before
        total += coefficient * current
    return np.asarray(total)


def random_scores(n_rows: int, n_starts: int, rng: np.random.RandomState) -> FloatArray:
    """Random unit scores, shape (n_starts, N)."""
    scores = rng.standard_normal((n_starts, n_rows))
    return np.asarray(scores / np.linalg.norm(scores, axis=1, keepdims=True))


def scores_of_loading(matrix: Matrix, loading: FloatArray) -> FloatArray:
    """Unit scores of a given loading vector, shape (1, N); none if it explains nothing."""
    scores = matrix.dot(loading)
    length = np.linalg.norm(scores)
    return scores[None] / length if length > 0 else np.zeros((0, matrix.shape[0]))


def with_both_signs(scores: FloatArray) -> FloatArray:
    """Every start and its negative, shape (2 n, N): for non-negative loadings they are different."""
    return np.stack([scores, -scores], axis=1).reshape(-1, scores.shape[1])
