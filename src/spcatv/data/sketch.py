"""Sketch of the data: their leading left singular directions, found in a few passes (docs/method.md 4.4).

With an orthonormal basis U (N x r) of these directions the data are compressed to ``B = U'X`` (r x P).
Alternations of scores and loadings on ``U B`` cost no pass over X.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh

from spcatv._util.devices import beside, to_host
from spcatv._util.types import FloatArray
from spcatv.data.memory import LEARNT_VECTORS

if TYPE_CHECKING:
    from spcatv.data.operator import CentredData

# Directions beyond the requested ones, which make those exact.
FURTHER = 6
# Passes over the data, each of which adds a block of directions, X'X times the last one.
PASSES, MOST_PASSES = 3, 50
# Directions of a block that are shorter than this share of the longest are rounding.
NEW = 1e-6


@dataclass(frozen=True, eq=False)
class CompressedData:
    """``U B`` as an operator of the shape of the data."""

    # U, orthonormal columns: leading left singular vectors, the first one first, shape (N, r)
    basis: FloatArray
    rows: FloatArray  # B, shape (r, P)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples N and of features P."""
        return len(self.basis), self.rows.shape[1]

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``B'U'u``, shape (P,)."""
        return beside(self.basis.T @ u, self.rows) @ self.rows

    def there_and_back_many(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S = U B V'`` (N, K) and ``S'U B`` (K, P) for the rows of V (K, P)."""
        inner = beside(vectors, self.rows) @ self.rows.T
        return self.basis @ to_host(inner).T, inner @ self.rows

    def maps(self, scores: FloatArray) -> FloatArray:
        """Return ``T'U B`` for scores T (N, K), shape (K, P)."""
        return beside(scores.T @ self.basis, self.rows) @ self.rows

    def add_removed(self, u: FloatArray, factor: float, out: FloatArray) -> None:
        """Do nothing: nothing was removed."""

    def remainder(self, u: FloatArray, back: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``w = u - U U'u``, and ``X'w`` for a known ``back = X'u`` (P,)."""
        inner = self.basis.T @ u
        return u - self.basis @ inner, back - beside(inner, self.rows) @ self.rows

    def extended(self, u: FloatArray, back: FloatArray) -> CompressedData:
        """Return the same with unit scores u (N,) orthogonal to U, of which ``X'u`` (P,) is known."""
        return CompressedData(
            np.concatenate([self.basis, u[:, None]], axis=1), np.concatenate([self.rows, back[None]])
        )

    def without(self, scores: FloatArray, loadings: FloatArray) -> CompressedData:
        """``U (B - U'T'V)``: compressed data less ``T'V`` for scores T (K, N) and loadings V (K, P)."""
        removed = beside((scores @ self.basis).T, loadings) @ loadings
        return CompressedData(self.basis, np.subtract(self.rows, removed, out=removed))

    @cached_property
    def _spectrum(self) -> tuple[FloatArray, FloatArray]:
        values, vectors = eigh(to_host(self.rows @ self.rows.T))
        return np.maximum(values[::-1], 0.0), vectors[:, ::-1]

    def leading_squares(self, n_vectors: int) -> tuple[FloatArray, FloatArray]:
        """Largest squared singular values, descending, and unit left singular vectors as rows (n, N)."""
        values, vectors = self._spectrum
        return values[:n_vectors], (self.basis @ vectors[:, :n_vectors]).T


class CountedPasses:
    """Products of N x P data with vectors, and how many passes over the data they took (docs/method.md 4.4).

    With a sketch, ``X'u`` is exact for scores u in its span, and ``X v`` is projected onto it. Every pass
    extends the span by the scores that were found.

    Attributes
    ----------
    n_samples : int
        N.
    n_passes : int
        Passes over the data so far.
    """

    def __init__(self, data: CentredData | CompressedData, sketch: CompressedData | None = None) -> None:
        self._data = data
        # the sketch of all components, and what was learnt for this one: beside it, as it is large
        self._sketches = [] if sketch is None else [sketch]
        self.n_samples, self.n_passes = data.shape[0], 0

    @property
    def has_sketch(self) -> bool:
        """Return whether products may be projections."""
        return bool(self._sketches)

    def give_up_sketch(self) -> None:
        """Take all products with the data from here on."""
        self._sketches = []

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``X'u``, shape (P,); with a sketch, that of u projected, before anything is learnt."""
        if self._sketches:
            return self._sketches[0].transpose_dot(u)
        self.n_passes += 1
        return self._data.transpose_dot(u)

    def there_and_back(self, v: FloatArray, *, exactly: bool) -> tuple[FloatArray, FloatArray]:
        """Return ``s = X v`` and ``X's`` as `there_and_back_many`, for one vector (P,)."""
        scores, back = self.there_and_back_many(v[np.newaxis], exactly=exactly)
        return scores[:, 0], back[0]

    def maps(self, scores: FloatArray) -> FloatArray:
        """Return ``U'X`` for scores U (N, K), shape (K, P); with a sketch, of U projected onto it."""
        if self._sketches:
            return sum(sketch.maps(scores) for sketch in self._sketches)  # type: ignore[return-value]
        self.n_passes += 1
        return self._data.maps(scores)

    def there_and_back_many(self, vectors: FloatArray, *, exactly: bool) -> tuple[FloatArray, FloatArray]:
        """Return ``S = X V'`` (N, K) and ``S'X`` (K, P) for the rows of V (K, P), in one pass.

        With a sketch, unless exactly, S is projected, without a pass.
        """
        if self._sketches and not exactly:
            products = [sketch.there_and_back_many(vectors) for sketch in self._sketches]
            return sum(scores for scores, _ in products), sum(back for _, back in products)  # type: ignore[return-value]
        self.n_passes += 1
        scores, back = self._data.there_and_back_many(vectors)
        if self.n_passes * len(vectors) > LEARNT_VECTORS:  # scores that have not settled by now
            self.give_up_sketch()
        elif self._sketches:
            for k in range(len(vectors)):
                self._learn(scores[:, k], back[k])
        return scores, back

    def _learn(self, u: FloatArray, back: FloatArray) -> None:
        """Take scores u (N,), of which ``X'u`` (P,) is known, into the span; nothing if they lie in it."""
        whole = float(np.linalg.norm(u))
        for _ in range(2):  # once is not enough in floating point
            for sketch in self._sketches:
                u, back = sketch.remainder(u, back)
        length = float(np.linalg.norm(u))
        if length <= NEW * whole:
            return
        u, back = u / length, back / length
        new = [learnt.extended(u, back) for learnt in self._sketches[1:]]
        self._sketches[1:] = new or [CompressedData(u[:, None], back[None])]


def compress(data: CentredData, n_directions: int, tol: float | None = None) -> CompressedData:
    """Compress data to a block Krylov space of their leading directions, from a fixed random start.

    The basis holds more than the `n_directions` leading left singular vectors. The passes end when the sum of
    their squared singular values changes by at most the share `tol`; by default there are `PASSES` passes.
    """
    scores, images = _krylov_products(data, n_directions, tol)
    back = np.concatenate(images)
    images.clear()  # there is no room for them twice
    # B = U'X for the basis U = S W / sqrt(lambda) of the scores S, from S'X
    values, rotation = eigh(scores.T @ scores)
    kept = values > values[-1] * len(values) * np.finfo(data.data.dtype).eps
    turn = rotation[:, kept][:, ::-1] / np.sqrt(values[kept][::-1])
    return CompressedData(scores @ turn, beside(turn.T, back) @ back)


def _krylov_products(
    data: CentredData, n_directions: int, tol: float | None
) -> tuple[FloatArray, list[FloatArray]]:
    """Scores ``S = X V'`` (N, r) of an orthonormal basis V of the space, and ``S'X`` (r, P) in blocks."""
    width = min(n_directions + FURTHER, *data.shape)
    block: FloatArray = data.vectors(_random_signs(width, data.shape[1])).astype(np.float64)
    krylov: FloatArray = np.zeros_like(block, shape=(0, data.shape[1]))
    scores: FloatArray = np.zeros((data.shape[0], 0))
    images: list[FloatArray] = []
    before = 0.0
    for number in range(1, MOST_PASSES + 1):
        block = _new_directions(block, krylov)
        if len(block) == 0:
            break
        is_last = tol is None and number == PASSES
        if is_last:
            del krylov  # the products need the room
        products = data.first_products if number == 1 else data.there_and_back_many
        of_block, image = products(block)
        images.append(image)
        scores = np.concatenate([scores, of_block], axis=1)
        if is_last:
            break
        if tol is not None:
            found = float(np.linalg.eigvalsh(scores.T @ scores)[-n_directions:].sum())
            if found - before <= tol * found:
                break
            before = found
        krylov, block = np.concatenate([krylov, block]), image
    return scores, images


def _random_signs(n_vectors: int, length: int) -> npt.NDArray[np.int8]:
    """Return vectors of random signs, which find a range as well as normal numbers do, and faster."""
    n_bytes = -(-n_vectors * length // 8)
    bits = np.unpackbits(np.random.default_rng(0).integers(0, 256, n_bytes, dtype=np.uint8))
    return (2 * bits[: n_vectors * length].view(np.int8) - 1).reshape(n_vectors, length)


def _new_directions(block: FloatArray, known: FloatArray) -> FloatArray:
    """Return orthonormal rows that span a block beside what is known; fewer where there is nothing more."""
    room = min(len(block), block.shape[1] - len(known))
    for _ in range(2):  # once is not enough in floating point
        block = block - (block @ known.T) @ known
        squares, turn = eigh(to_host(block @ block.T), check_finite=False)
        room = min(room, int(np.count_nonzero(squares > NEW**2 * squares.max(initial=0.0))))
        turn = turn[:, len(squares) - room :] / np.sqrt(squares[len(squares) - room :])
        block = beside(turn.T, block) @ block
    return block
