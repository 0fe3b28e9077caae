"""Whether neighbours vary together more than other features do, as smoothing takes for granted."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data import ArrayData, Data
from spcatv.structure import Structure
from spcatv.structure.neighbours import neighbour_pairs

# Samples and pairs that are looked at; a choice of them is the same for the same data.
MOST_SAMPLES, MOST_PAIRS, SEED = 200, 1000, 0
# Fewer pairs say little.
FEWEST_PAIRS = 20
# Features vary together if their mean squared correlation is this many times that of white noise.
BEYOND_NOISE = 1.5
# Neighbours are not alike if their mean correlation exceeds that of strangers by fewer standard errors than
# this, and by less than this share of what is left to 1 even if so many standard errors are added. Thirteen
# real data sets in their own order have 7 standard errors and more.
STANDARD_ERRORS = 2.0
NOTABLE = 0.2


class NeighbourWarning(UserWarning):
    """Neighbours vary together no more than other features: the structure may not be that of the columns.

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
    """Warn if neighbours vary together no more than pairs of features at random, although features do.

    Then the columns of X are in another order than the structure says, or neighbours do not belong together,
    and smoothing removes what the data show. Only arrays in memory are looked at: in all others, single
    columns are slow to read.
    """
    remedy = _remedy(estimator)
    if not remedy or not isinstance(data, ArrayData) or min(data.shape[0] - 1, data.shape[1]) < 2:
        return
    rng = np.random.default_rng(SEED)
    n_samples = min(len(data.samples), MOST_SAMPLES)
    samples = data.samples[np.sort(rng.choice(len(data.samples), n_samples, replace=False))]
    strangers = _correlations(data.array, samples, _random_pairs(structure.n_features, rng))
    if len(strangers) < FEWEST_PAIRS or np.square(strangers).mean() < BEYOND_NOISE / (n_samples - 1):
        return
    kinds = {
        kind: _correlations(data.array, samples, pairs)
        for kind, pairs in neighbour_pairs(structure, MOST_PAIRS, rng).items()
    }
    known = {kind: found for kind, found in kinds.items() if len(found) >= FEWEST_PAIRS}
    unlike = {kind: found for kind, found in known.items() if _are_unlike(found, strangers)}
    if unlike:
        where = "" if len(unlike) == len(known) else f" {' and '.join(unlike)}"
        warn_user(_message(where, np.concatenate(list(unlike.values())), strangers, remedy), NeighbourWarning)


def _random_pairs(n_features: int, rng: np.random.Generator) -> IntArray:
    """Pairs of different features, shape (MOST_PAIRS, 2)."""
    first = rng.integers(n_features, size=MOST_PAIRS)
    step = rng.integers(1, n_features, size=MOST_PAIRS)
    return np.stack([first, (first + step) % n_features], axis=1)


def _correlations(X: FloatArray, samples: IntArray, pairs: IntArray) -> FloatArray:
    """Correlations over these samples of the pairs of columns that vary."""
    ends = [X[samples[:, None], pairs[:, side]].astype(np.float64) for side in (0, 1)]
    centred = [end - end.mean(axis=0) for end in ends]
    # one after the other: products of very large or small numbers have no room
    units = [end / np.where(end.any(axis=0), np.abs(end).max(axis=0), 1.0) for end in centred]
    lengths = [np.sqrt(np.square(unit).sum(axis=0)) for unit in units]
    vary = (lengths[0] > 0) & (lengths[1] > 0)
    dots = np.einsum("np,np->p", units[0], units[1])
    return np.asarray(dots[vary] / (lengths[0] * lengths[1])[vary])


def _are_unlike(neighbours: FloatArray, strangers: FloatArray) -> bool:
    """Whether neighbours vary together no more than strangers, and there are enough of them to tell."""
    margin = STANDARD_ERRORS * float(
        np.sqrt(sum(group.var() / len(group) for group in (neighbours, strangers)))
    )
    mean = float(strangers.mean())
    excess = float(neighbours.mean()) - mean
    return excess < margin and excess + margin < NOTABLE * (1.0 - mean)


def _message(where: str, neighbours: FloatArray, strangers: FloatArray, remedy: str) -> str:
    means = f"{neighbours.mean():.2f} against {strangers.mean():.2f}"
    return (
        f"neighbours{where} vary together no more than features taken at random (mean correlation {means}). "
        "Smoothing makes neighbours alike, and takes away what sets them apart: look whether the columns of "
        f"X are in the order of the structure. If they are, {remedy} leaves neighbours alone."
    )


def _remedy(estimator: Any) -> str:
    """The parameter and the option that turn smoothing off; empty if it is off."""
    name = "smoothness" if estimator.alpha is None else "tv_ratio"
    smooths = np.any(np.asarray(getattr(estimator, name), dtype=np.float64) > 0)
    return f"{name}=0 (--{name.replace('_', '-')} 0)" if smooths else ""
