"""Random halves: whether both halves of a split show a component, and with the same outline.

The two halves of a split share no sample, so that noise in one cannot agree with the same noise in the other.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.data import Adjustment
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import checked_count
from spcatv.metrics import dice, match_components
from spcatv.model import recordable
from spcatv.model.checkpoint import checkpointing
from spcatv.progress import StageStarted
from spcatv.selection.components import count_components
from spcatv.selection.workers import FIT_FAILURES, Failure, check_failures, failure, without_failures, workers
from spcatv.stability.refits import Reference, as_arrays, fit_samples, reference_fit, some_samples
from spcatv.structure import Structure

CONFIRMED, NOT_CONFIRMED = "confirmed", "not confirmed"
CERTAIN, UNCERTAIN = "certain", "uncertain"
# Least Dice index, corrected for chance, of supports that have the same outline.
SAME_OUTLINE = 0.6
# Least absolute cosine of loadings that show the same pattern, whatever their outlines.
SAME_PATTERN = 0.75
# Require a component to stand out of noise if the data have fewer effective independent features than this:
# there, halves of noise agree by chance.
FEW_INDEPENDENT = 10.0
WHAT_HELPS = (
    'What may help: fewer components, another sparsity, or more samples (page "Nothing is confirmed: what '
    'now?" of the documentation).'
)


@dataclass(frozen=True)
class Reproducibility:
    """Agreement of random halves about one component.

    Attributes
    ----------
    component : int
        Number of the component, from 0.
    rank : int
        1 for the component with the highest `dice`.
    dice : float
        Mean over splits of the Dice index of both halves' supports, corrected for chance.
    cosine : float
        Mean over splits of the absolute cosine of both halves' loadings.
    n_confirmed : int
        Splits whose halves both show the pattern: Dice index at least 0.6, or absolute cosine at least 0.75.
    n_splits : int
        Splits that were fitted.
    n_half : int
        Samples in a half.
    beyond_noise : bool, default=True
        False if halves of noise as smooth as these data would agree as well: there are fewer than 10
        effective independent features, and the component does not stand out (`count_components`).

    Examples
    --------
    >>> from spcatv.stability import Reproducibility
    >>> first = Reproducibility(0, rank=1, dice=0.5, cosine=0.9, n_confirmed=9, n_splits=10, n_half=30)
    >>> first.verdict, first.outline
    ('confirmed', 'uncertain')
    >>> first.sentence
    'Pattern confirmed (9 of 10 splits), outline uncertain.'
    """

    component: int
    rank: int
    dice: float
    cosine: float
    n_confirmed: int
    n_splits: int
    n_half: int
    beyond_noise: bool = True

    @property
    def verdict(self) -> str:
        """Verdict on the pattern.

        It is "confirmed" if `dice` is at least 0.6 or `cosine` at least 0.75, and `beyond_noise`, and
        otherwise "not confirmed".
        """
        agree = self.dice >= SAME_OUTLINE or self.cosine >= SAME_PATTERN
        return CONFIRMED if agree and self.beyond_noise else NOT_CONFIRMED

    @property
    def outline(self) -> str:
        """Verdict on the support: "certain" if confirmed with a `dice` of at least 0.6, else "uncertain"."""
        return CERTAIN if self.verdict == CONFIRMED and self.dice >= SAME_OUTLINE else UNCERTAIN

    @property
    def sentence(self) -> str:
        """Both verdicts and the count of splits, in one sentence."""
        if self.verdict == CONFIRMED:
            return (
                f"Pattern confirmed ({self.n_confirmed} of {self.n_splits} splits), outline {self.outline}."
            )
        if not self.beyond_noise:
            return "Not confirmed: halves of noise as smooth as these data agree as well."
        splits = f"{self.n_confirmed} of {self.n_splits} splits agree"
        return f"Not confirmed by halves of {self.n_half} samples ({splits})."


def verdict_lines(records: Iterable[Reproducibility]) -> list[str]:
    """Describe the verdicts, one line per component or per run of components that are not confirmed."""
    lines, missed = [], False
    for (verdict, _), run in groupby(records, key=lambda record: (record.verdict, record.beyond_noise)):
        own = list(run)
        if verdict == CONFIRMED or len(own) == 1:
            lines += [f"Component {record.component + 1}: {_lower(record.sentence)}" for record in own]
        else:
            # the record with most agreement speaks for all
            most = max(own, key=lambda record: record.n_confirmed)
            sentence = _lower(most.sentence).replace("(", "(at most " if most.n_confirmed else "(")
            join = "and" if len(own) == 2 else "to"
            lines.append(f"Components {own[0].component + 1} {join} {own[-1].component + 1}: {sentence}")
        missed |= verdict == NOT_CONFIRMED
    return [*lines, WHAT_HELPS] if missed else lines


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


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
