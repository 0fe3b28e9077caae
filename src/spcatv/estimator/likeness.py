"""Whether neighbours vary together more than other features do, as smoothing takes for granted."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import betaincinv

from spcatv._util.types import FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data import ArrayData, Data
from spcatv.structure import Structure
from spcatv.structure.regions import neighbour_pairs

# Samples and pairs that are looked at: few, so that small data take no longer to fit. A choice of them is the
# same for the same data.
MOST_SAMPLES, MOST_PAIRS, SEED = 100, 500, 0
# Fewer samples and pairs say little.
FEWEST_SAMPLES, FEWEST_PAIRS = 5, 20
# Features vary together if the median of their squared correlations is this many times that of white noise.
BEYOND_NOISE = 1.5
# A column of which less is left than this share is rounding.
ROUNDING = 1e-6
# Neighbours are not alike if their mean correlation, with so many standard errors on top, exceeds that of
# strangers by less than this share of what is left to 1. In sixteen real data sets in their own order it
# exceeds it by 0.3 and more.
STANDARD_ERRORS, NOTABLE = 2.0, 0.15


class NeighbourWarning(UserWarning):
    """Neighbours vary together hardly more than other features: the columns may be in another order.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.estimator import NeighbourWarning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 2)) @ np.repeat(np.eye(2), 50, axis=1) + rng.standard_normal((50, 100))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", NeighbourWarning)
    ...     _ = SPCATV(2, structure=(100,)).fit(X)
    ...     _ = SPCATV(2, structure=(100,)).fit(X[:, rng.permutation(100)])  # columns in another order
    >>> [warning.category.__name__ for warning in caught]
    ['NeighbourWarning']
    """


def warn_of_neighbours(estimator: Any, data: Data, structure: Structure) -> None:
    """Warn if neighbours vary together hardly more than features at random, although features do.

    Then the columns of X are in another order than the structure says, or neighbours do not belong together,
    and smoothing removes what the data show. What all features share does not count. Only arrays in memory
    are looked at: in all others, single columns are slow to read.
    """
    remedy = _remedy(estimator)
    if not remedy or not isinstance(data, ArrayData) or data.shape[0] < FEWEST_SAMPLES:
        return
    rng = np.random.default_rng(SEED)
    n_samples = min(len(data.samples), MOST_SAMPLES)
    samples = data.samples[np.sort(rng.choice(len(data.samples), n_samples, replace=False))]
    columns = _Columns(data.array, samples)
    pairs = _random_pairs(structure.n_features, rng)
    columns.without_what_these_share(pairs.ravel())
    strangers = columns.correlations(pairs)
    # squared cosines of random vectors, orthogonal to a constant and to what is shared
    noise = betaincinv(0.5, 0.5 * (n_samples - 3), 0.5)
    if len(strangers) < FEWEST_PAIRS or np.median(np.square(strangers)) < BEYOND_NOISE * noise:
        return
    kinds = {
        kind: columns.correlations(pairs)
        for kind, pairs in neighbour_pairs(structure, MOST_PAIRS, rng).items()
    }
    known = {kind: found for kind, found in kinds.items() if len(found) >= FEWEST_PAIRS}
    unlike = {kind: found for kind, found in known.items() if _are_unlike(found, strangers)}
    if unlike:
        where = "" if len(unlike) == len(known) else f" {' and '.join(unlike)}"
        warn_user(_message(where, np.concatenate(list(unlike.values())), strangers, remedy), NeighbourWarning)


def _random_pairs(n_features: int, rng: np.random.Generator) -> IntArray:
    """Pairs of different features, shape (MOST_PAIRS, 2), if there are two."""
    first = rng.integers(n_features, size=MOST_PAIRS)
    step = rng.integers(1, max(n_features, 2), size=MOST_PAIRS)
    return np.stack([first, (first + step) % n_features], axis=1)


class _Columns:
    """Columns of X (N, P) over some samples, of mean 0 and unit length, or zero."""

    def __init__(self, X: FloatArray, samples: IntArray) -> None:
        self._X, self._samples = X, samples
        self._shared: FloatArray | None = None  # the unit direction that is taken out, shape (n_samples,)

    def without_what_these_share(self, features: IntArray) -> None:
        """Take the mean of these features out of all: it makes strangers as alike as neighbours."""
        shared = self._of(features).mean(axis=1)
        length = float(np.linalg.norm(shared))
        self._shared = shared / length if length > 0 else None

    def correlations(self, pairs: IntArray) -> FloatArray:
        """Correlations of the pairs of features (n, 2) that vary."""
        first, second = self._of(pairs[:, 0]), self._of(pairs[:, 1])
        return np.asarray(np.einsum("np,np->p", first, second)[first.any(axis=0) & second.any(axis=0)])

    def _of(self, features: IntArray) -> FloatArray:
        columns: FloatArray = self._X[self._samples[:, None], features].astype(np.float64)
        largest = np.abs(columns).max(axis=0)
        columns -= columns.mean(axis=0)
        # first to ordinary numbers: squares of very large or small ones have no room
        spread = np.abs(columns).max(axis=0)
        columns = _divided(columns, np.where(spread > ROUNDING**2 * largest, spread, 0.0))
        columns = _divided(columns, np.linalg.norm(columns, axis=0))
        if self._shared is None:
            return columns
        columns -= np.outer(self._shared, self._shared @ columns)
        lengths = np.linalg.norm(columns, axis=0)
        return _divided(columns, np.where(lengths > ROUNDING, lengths, 0.0))


def _divided(columns: FloatArray, units: FloatArray) -> FloatArray:
    """Columns over their units; zero where a unit is."""
    return np.divide(columns, units, out=np.zeros_like(columns), where=units > 0)


def _are_unlike(neighbours: FloatArray, strangers: FloatArray) -> bool:
    """Whether neighbours vary together hardly more than strangers, and there are enough of them to tell."""
    variance = sum(float(group.var()) / len(group) for group in (neighbours, strangers))
    mean = float(strangers.mean())
    most = float(neighbours.mean()) - mean + STANDARD_ERRORS * np.sqrt(variance)
    return bool(most < NOTABLE * (1.0 - mean))


def _message(where: str, neighbours: FloatArray, strangers: FloatArray, remedy: str) -> str:
    means = f"{neighbours.mean():.2f} against {strangers.mean():.2f}"
    return (
        f"neighbours{where} vary together hardly more than features taken at random (mean correlation "
        f"{means}, without what all features share). Smoothing makes neighbours alike, and takes away what "
        "sets them apart: look whether the columns of X are in the order of the structure. If they are, "
        f"{remedy} leaves neighbours alone."
    )


def _remedy(estimator: Any) -> str:
    """Return the parameter that turns smoothing off; empty if it is off."""
    name = "smoothness" if estimator.alpha is None else "tv_ratio"
    smooths = np.any(np.asarray(getattr(estimator, name), dtype=np.float64) > 0)
    return f"{name}=0" if smooths else ""
