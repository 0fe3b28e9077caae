"""Random halves: what one half of the samples shows, and whether the other half shows it, too.

The two halves of a split share no sample, so their agreement is not a matter of chance in the data. Where
regions of equal merit compete for a component, one half may show one region first and the other half
another; with a few more components both show all of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.data import Adjustment
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import checked_count
from spcatv.metrics import dice, match_components
from spcatv.model import recordable
from spcatv.model.checkpoint import checkpointing
from spcatv.progress import StageStarted
from spcatv.selection.workers import FIT_FAILURES, Failure, check_failures, failure, without_failures, workers
from spcatv.stability.refits import fit_samples, further_components, reference_fit, some_samples
from spcatv.structure import Structure

FOUND_AGAIN = "found again"
ONE_OF_EQUALS = "one of several equals"
NOT_REPRODUCIBLE = "not reproducible"
# Mean Dice index, corrected for chance, from which on halves agree. Components of white and of smooth noise
# have at most 0.45, and with further components 0.5 but for 2 of 56 (0.61); true regions have 0.65 and more.
AGREEMENT = 0.6
# Absolute cosine from which on halves show the same pattern, however their supports overlap: a support larger
# than the pattern is noise in part.
SAME_PATTERN = 0.75
# Further components among which a region may be found that lost against others.
N_FURTHER = 2


@dataclass(frozen=True)
class Reproducibility:
    """Whether one component is found again in other samples.

    Attributes
    ----------
    component : int
        Number of the component, from 0.
    dice : float
        Mean over splits of the Dice index of both halves' supports, corrected for chance.
    cosine : float
        Mean over splits of the absolute cosine of both halves' loadings.
    further_dice : float
        As `dice`, if each half may show the component among two further ones.
    rank : int
        1 for the most reproducible component, by `dice`.
    n_found : int
        Splits whose halves both show the component: their Dice index is at least 0.6, or their absolute
        cosine at least 0.75.
    n_splits : int
        All splits that could be fitted.

    Examples
    --------
    >>> from spcatv.stability import Reproducibility
    >>> first = Reproducibility(0, dice=0.8, cosine=0.9, further_dice=0.8, rank=1, n_found=9, n_splits=10)
    >>> first.verdict
    'found again'
    >>> first.sentence
    'Found again in both halves of 9 of 10 random splits.'
    """

    component: int
    dice: float
    cosine: float
    further_dice: float
    rank: int
    n_found: int
    n_splits: int

    @property
    def verdict(self) -> str:
        """In words.

        * "found again": `dice` is at least 0.6, or `cosine` at least 0.75;
        * "one of several equals": it is not, but `further_dice` is: both halves know the component, but other
          components of equal merit may take its place;
        * "not reproducible": neither.
        """
        if self.dice >= AGREEMENT or self.cosine >= SAME_PATTERN:
            return FOUND_AGAIN
        return ONE_OF_EQUALS if self.further_dice >= AGREEMENT else NOT_REPRODUCIBLE

    @property
    def sentence(self) -> str:
        """The verdict with its count, as a sentence for people."""
        return verdict_sentence(self.verdict, self.n_found, self.n_splits)


def verdict_sentence(verdict: str, n_found: int | None, n_splits: int | None) -> str:
    """What a verdict tells people to do, with the number of splits that found the component.

    The counts are None where they are not known. A text that is no verdict comes back as a sentence.
    """
    known = n_found is not None and n_splits is not None
    count = f"{n_found} of {n_splits} " if known else ""
    # the verdict is that of the mean over splits, which a few splits without any agreement pull down
    mostly = n_found is not None and n_splits is not None and 2 * n_found > n_splits
    rest = ", but the others are too unlike" if mostly else ""
    aside = f" (found again in {count}splits{rest})" if known else ""
    sentences = {
        FOUND_AGAIN: f"Found again in both halves of {count}random splits.",
        ONE_OF_EQUALS: f"One of several equals{aside}: another may take its place, do not read it alone.",
        NOT_REPRODUCIBLE: f"Not reproducible{aside}: do not interpret.",
    }
    return sentences.get(verdict, f"{verdict[:1].upper()}{verdict[1:]}.")


@dataclass(frozen=True, eq=False)
class SplitHalves:
    """What fits of random halves say about the components of a reference.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Components of the reference.
    dice : ndarray of shape (n_splits, K)
        Dice index, corrected for chance, of the matched supports of the two halves of each split.
    cosine : ndarray of shape (n_splits, K)
        Absolute cosine of the matched loadings of the two halves.
    further_dice : ndarray of shape (n_splits, K)
        As `dice`, if each half may show the component among two further ones; never below `dice`.
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
    ((2, 1), 'found again')
    """

    components: FloatArray
    dice: FloatArray
    cosine: FloatArray
    further_dice: FloatArray
    failures: tuple[Failure, ...]

    @property
    def reproducibility(self) -> tuple[Reproducibility, ...]:
        """One record per component."""
        indices, cosines, further = (v.mean(axis=0) for v in (self.dice, self.cosine, self.further_dice))
        ranks = np.argsort(np.lexsort((-cosines, -indices))) + 1
        is_found = (self.dice >= AGREEMENT) | (self.cosine >= SAME_PATTERN)
        counts, n_splits = np.count_nonzero(is_found, axis=0), len(self.dice)
        return tuple(
            Reproducibility(
                component=k,
                dice=float(indices[k]),
                cosine=float(cosines[k]),
                further_dice=float(further[k]),
                rank=int(ranks[k]),
                n_found=int(counts[k]),
                n_splits=n_splits,
            )
            for k in range(len(ranks))
        )


@recordable
@dataclass(frozen=True, eq=False)
class _Split:
    """How alike the components of two halves are; arrays of shape (K,) as in `SplitHalves`."""

    dice: FloatArray
    cosine: FloatArray
    further_dice: FloatArray


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
    estimator : SPCATV
        A model, fitted to X or not. If it is fitted its components are the reference that the components of
        both halves are matched to, otherwise a fit to X is made; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Data; halves are read where they lie, and not copied.
    n_splits : int, default=10
        Splits; each costs two fits of half of the samples, and two further components where they disagree.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group, such as the visits of one subject, stay in one half.
    standardize, confounds, norm_fraction, random_state, n_jobs, checkpoint
        As in `bootstrap_components`, with splits in the place of resamples.

    Returns
    -------
    SplitHalves
        How alike the two halves of every split are, with a verdict for every component.

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
    >>> model = SPCATV(2, structure=(100,), alpha=None, sparsity=0.8)
    >>> result = split_halves(model, X, n_splits=4, random_state=0)
    >>> [(component.rank, component.verdict) for component in result.reproducibility]
    [(1, 'found again'), (2, 'not reproducible')]
    """
    n_fits = checked_count(n_splits, "n_splits")
    with checkpointing(checkpoint):
        reference = reference_fit(estimator, X, groups, n_jobs, standardize=standardize, confounds=confounds)
        if len(reference.blocks) < 4:
            raise ValueError(
                f"halves need at least 2 samples or groups each, but there are {len(reference.blocks)}"
            )
        tasks = reference.tasks(random_state, n_fits, norm_fraction)
        with workers(n_jobs, reference.data, StageStarted("Splitting into halves", n_fits, "splits")) as pool:
            return _summary(pool.run(_fit_split, tasks), reference.components)


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
        fits = [fit_samples(template, part, structure, starts) for part in parts]
        found = [fit.components for fit in fits]
        indices, cosine = agreement(components, found, norm_fraction)
        further = indices
        if (indices < AGREEMENT).any():
            found = [
                further_components(template, part, fit, N_FURTHER, starts)
                for part, fit in zip(parts, fits, strict=True)
            ]
            further = np.maximum(indices, agreement(components, found, norm_fraction)[0])
    except FIT_FAILURES as error:
        return failure(f"split {number}", error)
    return _Split(indices, cosine, further)


def agreement(
    components: FloatArray, found: Sequence[FloatArray], norm_fraction: float
) -> tuple[FloatArray, FloatArray]:
    """Corrected Dice index and absolute cosine of two fits, both matched to the reference; shapes (K,)."""
    pair = [loadings[match_components(components, loadings).order] for loadings in found]
    index = np.asarray(dice(*pair, norm_fraction=norm_fraction, corrected=True))
    # loadings have unit norm, or are zero
    return index, np.abs(np.einsum("kp,kp->k", *pair))


def _summary(results: Iterable[_Split | Failure], components: FloatArray) -> SplitHalves:
    failures: list[Failure] = []
    done = list(without_failures(results, failures))
    check_failures(failures, n_left=len(done))
    return SplitHalves(
        components,
        dice=np.stack([split.dice for split in done]),
        cosine=np.stack([split.cosine for split in done]),
        further_dice=np.stack([split.further_dice for split in done]),
        failures=tuple(failures),
    )
