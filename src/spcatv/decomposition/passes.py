"""Products with the data: counted, and replaced by those with a sketch while that is good enough."""

from __future__ import annotations

from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData

# On a sketch alternations are cheap. They end well within the tolerance, as the scores in all data differ a
# little.
SKETCH_SHARE = 0.5
# Passes of one component that its sketch learns from. Scores that have not settled after so many of them are
# looked for in all data.
MOST_LEARNT = 12


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

    def __init__(self, data: Products, sketch: CompressedData | None = None) -> None:
        self._data, self._sketch = data, sketch
        self.n_samples, self.n_passes = data.shape[0], 0

    @property
    def has_sketch(self) -> bool:
        """Whether `there_and_back` is a projection."""
        return self._sketch is not None

    @property
    def share(self) -> float:
        """Share of the tolerance that the present products call for."""
        return 1.0 if self._sketch is None else SKETCH_SHARE

    def forget_sketch(self) -> None:
        """Take all products with the data themselves from here on."""
        self._sketch = None

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """``X'u``, shape (P,); with a sketch, that of u projected."""
        if self._sketch is not None:
            return self._sketch.transpose_dot(u)
        self.n_passes += 1
        return self._data.transpose_dot(u)

    def there_and_back(self, v: FloatArray, *, exactly: bool) -> tuple[FloatArray, FloatArray]:
        """``s = X v`` and ``X's``, in one pass; with a sketch, unless exactly, s is projected without one."""
        if self._sketch is not None and not exactly:
            return self._sketch.there_and_back(v)
        self.n_passes += 1
        scores, back = self._data.there_and_back(v)
        if self._sketch is not None:
            learns = self.n_passes <= MOST_LEARNT
            self._sketch = self._sketch.extended(scores, back) if learns else None
        return scores, back
