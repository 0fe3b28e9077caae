"""X without its global signal: every column regressed on the mean over features of each sample."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from spcatv._util.devices import beside, to_host
from spcatv._util.types import FloatArray
from spcatv.data.operators import CentredData, Centring
from spcatv.kernels.vectors import add_multiple

# Data with less than this share of their squared norm left are rounding.
NOTHING_LEFT = 1e-13


class GlobalSignalRemoved(CentredData):
    """``X - 1 mean' - g b'`` as an operator (docs/method.md section 1.4).

    The global signal ``g = (X - 1 mean') 1 / P`` is the mean over features of each centred sample, and
    ``b = (X - 1 mean')'g / g'g`` holds the least-squares coefficients of the columns on it. X is neither
    copied nor changed. Every row of the result has mean zero.
    """

    @cached_property
    def _loading(self) -> FloatArray:
        signal = self.global_signal
        return super().transpose_dot(signal) / float(signal @ signal or 1.0)

    @property
    def centring(self) -> Centring:
        """Mean and coefficients of the columns."""
        return Centring(to_host(self.mean), to_host(self._loading))

    @property
    def column_squared_norms(self) -> FloatArray:
        """``||X_j - mean_j||^2 - ||g||^2 b_j^2``."""
        signal, loading = self.global_signal, self._loading
        return np.maximum(super().column_squared_norms - float(signal @ signal) * np.square(loading), 0.0)

    @property
    def is_empty(self) -> bool:
        """Whether the global signal was all that the data held."""
        before = float(super().column_squared_norms.sum())
        return before > 0 and self.squared_norm() <= NOTHING_LEFT * before

    def _fresh_gram(self) -> FloatArray:
        if self.shape[0] > self.shape[1]:
            return super()._fresh_gram()
        signal, loading = self.global_signal, self._loading
        mixed = np.outer(super().dot(loading) - 0.5 * float(loading @ loading) * signal, signal)
        return super()._fresh_gram() - mixed - mixed.T

    def dot(self, v: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean' - g b') v``."""
        signal, loading = self.global_signal, self._loading
        v = beside(v, loading)
        return super().dot(v) - float(loading @ v) * signal

    def dot_many(self, vectors: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean' - g b') V'``."""
        signal, loading = self.global_signal, self._loading
        vectors = beside(vectors, loading)
        return super().dot_many(vectors) - np.outer(signal, to_host(vectors @ loading))

    def first_products(self, vectors: FloatArray) -> tuple[FloatArray, FloatArray]:
        """As `there_and_back_many`: the global signal has to be known first."""
        return self.there_and_back_many(vectors)

    def shifted_many(self, vectors: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S = M V' - shift`` and ``S'M`` for ``M = X - 1 mean' - g b'``."""
        signal, loading = self.global_signal, self._loading
        scores, back = super().shifted_many(vectors, shift + np.outer(signal, to_host(vectors @ loading)))
        return scores, back - np.outer(beside(signal @ scores, loading), loading)

    def transpose_dot(self, u: FloatArray) -> FloatArray:
        """Return ``(X - 1 mean' - g b')' u``."""
        signal, loading = self.global_signal, self._loading
        back = super().transpose_dot(u)
        add_multiple(back, -float(signal @ u), loading)
        return back

    def shifted_there_and_back(self, v: FloatArray, shift: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``s = (X - 1 mean' - g b') v - shift`` and ``(X - 1 mean' - g b')' s``."""
        signal, loading = self.global_signal, self._loading
        scores, back = super().shifted_there_and_back(v, shift + float(loading @ v) * signal)
        add_multiple(back, -float(signal @ scores), loading)
        return scores, back
