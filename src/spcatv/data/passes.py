"""Products with the data that are counted, and taken with a sketch where one exists."""

from __future__ import annotations

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import CentredData
from spcatv.data.memory import LEARNT_VECTORS
from spcatv.data.sketch import NEW, CompressedData


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
        """Return ``U'X`` for scores U (N, K), shape (K, P); with a sketch, those of U projected."""
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
