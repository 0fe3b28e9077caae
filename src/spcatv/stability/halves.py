"""Random halves: whether both halves of a split show a component, and with the same outline.

The two halves of a split share no sample, so that noise in one cannot agree with the same noise in the other.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.data import Adjustment
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import checked_count
from spcatv.estimator.verdicts import SAME_OUTLINE, SAME_PATTERN, Reproducibility
from spcatv.metrics import dice, match_components
from spcatv.model import recordable
from spcatv.model.checkpoint import checkpointing
from spcatv.progress import StageStarted
from spcatv.selection.components import count_components
from spcatv.selection.workers import FIT_FAILURES, Failure, check_failures, failure, without_failures, workers
from spcatv.stability.refits import Reference, as_arrays, fit_samples, reference_fit, some_samples
from spcatv.structure import Structure

# Require a component to stand out of noise if the data have fewer effective independent features than this:
# there, halves of noise agree by chance.
FEW_INDEPENDENT = 10.0


@dataclass(frozen=True, eq=False)
class SplitHalves:
    """Agreement of fits of random halves about the components of a reference.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Components of the reference.
    dice : ndarray of shape (n_splits, K)
        Dice index, corrected for chance, of the matched supports of the two halves of each split.
    cosine : ndarray of shape (n_splits, K)
        Absolute cosine of the matched loadings of the two halves.
    n_half : int
        Samples in a half.
    beyond_noise : ndarray of shape (K,), bool
        As in `Reproducibility`.
    failures : tuple of Failure
        Splits that failed; the arrays above are about the others.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import split_halves
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
    >>> halves = split_halves(SPCATV(1, structure=(100,), sparsity=0.8), X, n_splits=2, random_state=0)
    >>> halves.dice.shape, halves.reproducibility[0].verdict
    ((2, 1), 'confirmed')
    """

    components: FloatArray
    dice: FloatArray
    cosine: FloatArray
    n_half: int
    beyond_noise: BoolArray
    failures: tuple[Failure, ...]

    @property
    def reproducibility(self) -> tuple[Reproducibility, ...]:
        """One record per component."""
        indices, cosines = self.dice.mean(axis=0), self.cosine.mean(axis=0)
        ranks = np.argsort(np.lexsort((-cosines, -indices))) + 1
        n_confirmed = np.count_nonzero((self.dice >= SAME_OUTLINE) | (self.cosine >= SAME_PATTERN), axis=0)
        return tuple(
            Reproducibility(
                component=k,
                rank=int(ranks[k]),
                dice=float(indices[k]),
                cosine=float(cosines[k]),
                n_confirmed=int(n_confirmed[k]),
                n_splits=len(self.dice),
                n_half=self.n_half,
                beyond_noise=bool(self.beyond_noise[k]),
            )
            for k in range(len(ranks))
        )


@recordable
@dataclass(frozen=True, eq=False)
class _Split:
    """Agreement of two halves; arrays of shape (K,) as in `SplitHalves`."""

    dice: FloatArray
    cosine: FloatArray


def split_halves(
    estimator: SPCATV,
    X: Any,
    *,
    n_splits: int = 10,
    groups: Any = None,
    standardize: bool = False,
    confounds: Any = None,
    norm_fraction: float = 0.99,
    random_state: Any = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> SplitHalves:
    """Split the samples into random halves, fit both halves of each split, and compare them.

    Parameters
    ----------
    estimator : SPCATV or XarraySPCATV
        A model, fitted to X or not. If it is fitted its components are the reference that the components of
        both halves are matched to, otherwise a fit to X is made; it is not changed.
    X : array-like of shape (n_samples, n_features), or DataArray
        Data; halves are read where they lie, and not copied.
    n_splits : int, default=10
        Splits; each costs two fits of half of the samples.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group, such as the visits of one subject, stay in one half.
    standardize, confounds, norm_fraction, random_state, n_jobs, checkpoint
        As in `bootstrap_components`, with splits in the place of resamples.

    Returns
    -------
    SplitHalves
        Agreement of the two halves of every split, with verdicts on every component.

    Warns
    -----
    FailedFitWarning
        If splits fail: they are named and left out. If all of them fail it is an error.

    Notes
    -----
    Halves have half of the samples: a component that they do not find may still be found in as many samples
    as X has. The verdict errs on the side of caution.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import split_halves
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
    >>> model = SPCATV(2, structure=(100,), sparsity=0.8)
    >>> result = split_halves(model, X, n_splits=4, random_state=0)
    >>> [(component.rank, component.verdict) for component in result.reproducibility]
    [(1, 'confirmed'), (2, 'not confirmed')]
    """
    estimator, X = as_arrays(estimator, X)
    n_fits = checked_count(n_splits, "n_splits")
    with checkpointing(checkpoint):
        reference = reference_fit(estimator, X, groups, n_jobs, standardize=standardize, confounds=confounds)
        if len(reference.blocks) < 4:
            raise ValueError(
                f"halves need at least 2 samples or groups each, but there are {len(reference.blocks)}"
            )
        tasks = reference.tasks(random_state, n_fits, norm_fraction)
        with workers(n_jobs, reference.data, StageStarted("Splitting into halves", n_fits, "splits")) as pool:
            failures: list[Failure] = []
            done = list(without_failures(pool.run(_fit_split, tasks), failures))
        check_failures(failures, n_left=len(done))
        return SplitHalves(
            reference.components,
            dice=np.stack([split.dice for split in done]),
            cosine=np.stack([split.cosine for split in done]),
            n_half=reference.data.shape[0] // 2,
            beyond_noise=_beyond_noise(estimator, reference, standardize, confounds),
            failures=tuple(failures),
        )


def _beyond_noise(estimator: SPCATV, reference: Reference, standardize: bool, confounds: Any) -> BoolArray:
    """Return which components are beyond noise as smooth as the data, shape (K,)."""
    own = {"standardize": standardize, "confounds": confounds}
    count = count_components(estimator, reference.data, **own)
    numbers = np.arange(len(reference.components))
    return np.less(numbers, count.n_outstanding) | bool(count.n_independent[0] >= FEW_INDEPENDENT)


def _fit_split(
    template: SPCATV,
    X: Any,
    structure: Structure,
    components: FloatArray,
    blocks: Sequence[IntArray],
    adjustment: Adjustment,
    seed: np.random.SeedSequence,
    number: int,
    norm_fraction: float,
) -> _Split | Failure:
    """Draw two halves, fit them, and compare their components."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(blocks))
    middle = len(order) // 2
    halves = [np.sort(np.concatenate([blocks[b] for b in half])) for half in (order[:middle], order[middle:])]
    starts = np.random.RandomState(int(rng.integers(1 << 31)))
    try:
        parts = [some_samples(template, X, samples, adjustment) for samples in halves]
        found = [fit_samples(template, part, structure, starts).components for part in parts]
        return _Split(*agreement(components, found, norm_fraction))
    except FIT_FAILURES as error:
        return failure(f"split {number}", error)


def agreement(
    components: FloatArray, found: Sequence[FloatArray], norm_fraction: float
) -> tuple[FloatArray, FloatArray]:
    """Corrected Dice index and absolute cosine of two fits, both matched to the reference; shapes (K,)."""
    pair = [loadings[match_components(components, loadings).order] for loadings in found]
    index = np.asarray(dice(*pair, norm_fraction=norm_fraction, corrected=True))
    # loadings have unit norm, or are zero
    return index, np.abs(np.einsum("kp,kp->k", *pair))
