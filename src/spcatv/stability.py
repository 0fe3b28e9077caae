"""Verdicts of random halves and bootstrap frequencies of resamples (docs/method.md section 6.6).

Fits of some samples, each matched to the fit of all samples: of the two halves of a split, which share no
sample, so that noise in one cannot agree with the same noise in the other; or of samples drawn with
replacement. The tests of significance are at hand here, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.utils import check_random_state

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.data import Adjustment, CentredData, Data, as_data, checked_adjustment, on_device
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data, fit_data, with_parameters
from spcatv.estimator._validation import checked_count
from spcatv.estimator.verdicts import SAME_OUTLINE, SAME_PATTERN, Reproducibility
from spcatv.metrics import dice, match_components, threshold_loadings
from spcatv.model import recordable
from spcatv.model.checkpoint import checkpointing, current_checkpoint
from spcatv.progress import StageStarted
from spcatv.selection.components import count_components
from spcatv.selection.path import checked_template
from spcatv.selection.workers import (
    FIT_FAILURES,
    Failure,
    check_failures,
    failure,
    placed,
    shareable,
    without_failures,
    workers,
)
from spcatv.significance import PairedTest, paired_t_test, sign_flip_test
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

__all__ = [
    "Bootstrap",
    "PairedTest",
    "Region",
    "Reproducibility",
    "SplitHalves",
    "bootstrap_components",
    "paired_t_test",
    "sign_flip_test",
    "split_halves",
]

# Relative gap of fits whose supports and cosines are compared: more digits of the loadings are not used.
REFIT_TOL = 1e-4
# Require a component to stand out of noise if the data have fewer effective independent features than this:
# there, halves of noise agree by chance.
FEW_INDEPENDENT = 10.0
# Titles of the progress of both kinds of refits, and the word for one of them.
TITLES = {"split": "Splitting into halves", "resample": "Resampling"}


@dataclass(frozen=True, eq=False)
class Region:
    """Connected region of the reference, and its frequency in resamples.

    Attributes
    ----------
    component : int
        Number of the component, from 0.
    features : ndarray of int
        Its features, ascending.
    sign : int
        +1 or -1, the sign of the loading there.
    share : float
        Its share of the component's sum of squares.
    selection_frequency : float
        Mean over its features of how often they are selected.
    bootstrap_frequency : float
        Share of resamples that select at least half of its features, with the region's sign.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import bootstrap_components
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
    >>> model = SPCATV(1, structure=(100,), sparsity=0.8)
    >>> region = bootstrap_components(model, X, n_resamples=2, random_state=0).regions[0]
    >>> region.component, region.features.size, region.bootstrap_frequency
    (0, 20, 1.0)
    """

    component: int
    features: IntArray
    sign: int
    share: float
    selection_frequency: float
    bootstrap_frequency: float


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Frequencies of features and regions of a reference in resampled fits.

    All arrays over features are in the order of the features of X, to be shown as the components are.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Components of the reference.
    selection_frequency : ndarray of shape (K, P)
        Share of resamples in whose matched component, cut to 99 % of its norm, the feature is not zero.
    sign_consistency : ndarray of shape (K, P)
        ``|n_positive - n_negative| / (n_positive + n_negative)`` over those, signs aligned with the
        reference: 1 if the sign is always the same, 0 if either is as frequent; 0 where never selected.
    dice : ndarray of shape (n_resamples, K)
        Dice index of each resample's matched support with that of the reference.
    signed_dice : ndarray of shape (n_resamples, K)
        The same, features with opposite signs not counted as shared.
    cosine : ndarray of shape (n_resamples, K)
        Absolute cosine of the matched loadings.
    regions : tuple of Region
        Connected regions of the reference, component after component, the heaviest first.
    failures : tuple of Failure
        Resamples that failed; the arrays above are about the others.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import bootstrap_components
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
    >>> result = bootstrap_components(SPCATV(1, structure=(100,)), X, n_resamples=2, random_state=0)
    >>> result.selection_frequency.shape, result.dice.shape, len(result.failures)
    ((1, 100), (2, 1), 0)
    """

    components: FloatArray
    selection_frequency: FloatArray
    sign_consistency: FloatArray
    dice: FloatArray
    signed_dice: FloatArray
    cosine: FloatArray
    regions: tuple[Region, ...]
    failures: tuple[Failure, ...]


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


def bootstrap_components(
    estimator: SPCATV,
    X: Any,
    *,
    n_resamples: int = 100,
    groups: Any = None,
    standardize: bool = False,
    confounds: Any = None,
    norm_fraction: float = 0.99,
    random_state: Any = None,
    n_jobs: int | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Bootstrap:
    """Fit resampled data again and again, and compare with the fit of all samples.

    Parameters
    ----------
    estimator : SPCATV or XarraySPCATV
        A model, fitted to X or not. If it is fitted its components are the reference, otherwise a fit to X
        is made; it is not changed.
    X : array-like of shape (n_samples, n_features), or DataArray
        Data.
    n_resamples : int, default=100
        Resamples: N samples drawn with replacement.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group, such as the visits of one subject, are drawn together: as many groups as there
        are, with replacement.
    standardize, confounds
        As in `SPCATVCV`: features scaled and confounds removed with coefficients of the samples of each fit.
    norm_fraction : float, default=0.99
        The share of a loading's norm that makes its support (`spcatv.metrics.threshold_loadings`).
    random_state : int, RandomState instance or None, default=None
        For the draws; every resample has a seed of its own, so that any number of workers gives the same.
        Random starts of the fits follow it, too.
    n_jobs : int or None, default=None
        Workers, as in joblib.
    checkpoint : path, default=None
        Folder that keeps every resample as soon as it is done (`spcatv.selection.checkpointing`); needs a
        `random_state`.

    Returns
    -------
    Bootstrap
        How often features and regions are selected.

    Warns
    -----
    FailedFitWarning
        If resamples fail: they are named and left out. If all of them fail it is an error.

    Notes
    -----
    Resamples are fitted to a relative gap of 1e-4, or to the estimator's `tol` if that is larger.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import bootstrap_components
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
    >>> model = SPCATV(1, structure=(100,), sparsity=0.8)
    >>> result = bootstrap_components(model, X, n_resamples=10, random_state=0)
    >>> [(region.features[[0, -1]].tolist(), region.bootstrap_frequency) for region in result.regions]
    [([20, 39], 1.0)]
    """
    arguments = (groups, standardize, confounds, norm_fraction, random_state, n_jobs, checkpoint)
    with _refits("resample", estimator, X, n_resamples, *arguments) as (reference, results):
        return _summary(results, reference, norm_fraction)


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
    arguments = (groups, standardize, confounds, norm_fraction, random_state, n_jobs, checkpoint)
    failures: list[Failure] = []
    with _refits("split", estimator, X, n_splits, *arguments) as (reference, results):
        done = list(without_failures(results, failures))
    check_failures(failures, n_left=len(done))
    return SplitHalves(
        reference.components,
        dice=np.stack([split.dice for split in done]),
        cosine=np.stack([split.cosine for split in done]),
        n_half=reference.data.shape[0] // 2,
        beyond_noise=_beyond_noise(reference, standardize, confounds),
        failures=tuple(failures),
    )


def _beyond_noise(reference: _Reference, standardize: bool, confounds: Any) -> BoolArray:
    """Return which components are beyond noise as smooth as the data, shape (K,)."""
    own = {"standardize": standardize, "confounds": confounds}
    count = count_components(reference.estimator, reference.data, **own)
    numbers = np.arange(len(reference.components))
    return np.less(numbers, count.n_outstanding) | bool(count.n_independent[0] >= FEW_INDEPENDENT)


@dataclass(frozen=True, eq=False)
class _Reference:
    """Fit of all samples."""

    estimator: SPCATV  # as given
    data: Data  # all samples
    structure: Structure
    components: FloatArray  # shape (K, P)


@recordable
@dataclass(frozen=True, eq=False)
class _Refit:
    """Comparison of one refit with the reference, or of both halves with each other; shapes (K,)."""

    dice: FloatArray
    cosine: FloatArray
    signed_dice: FloatArray  # of a resample
    signs: npt.NDArray[np.int8]  # of the supports of a resample, shape (K, P)


@contextmanager
def _refits(
    kind: str,
    estimator: Any,
    X: Any,
    n_refits: int,
    groups: Any,
    standardize: bool,
    confounds: Any,
    norm_fraction: float,
    random_state: Any,
    n_jobs: int | None,
    checkpoint: str | os.PathLike[str] | None,
) -> Iterator[tuple[_Reference, Iterator[_Refit | Failure]]]:
    """Check the arguments, fit all samples unless that is done, and yield the refits as they come."""
    if hasattr(estimator, "as_arrays"):  # of a DataArray
        estimator, X = estimator.as_arrays(X)
    n_refits = checked_count(n_refits, f"n_{kind}s")
    with checkpointing(checkpoint):
        template, data, structure = checked_template(clone(estimator), X)
        data = placed(data, template, n_jobs)
        blocks = _kept_together(data.shape[0], groups)
        if kind == "split" and len(blocks) < 4:
            raise ValueError(f"halves need at least 2 samples or groups each, but there are {len(blocks)}")
        adjustment = checked_adjustment(standardize, confounds, data.shape[0])
        seeds = _seeds(random_state, n_refits)
        fitted = estimator
        if not hasattr(estimator, "components_"):
            fitted = clone(estimator).fit(adjustment.whole(data))
        elif data.shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {data.shape[1]} features, but the model was fitted to {estimator.n_features_in_}; "
                "give the data of the fit"
            )
        reference = _Reference(estimator, data, structure, fitted.components_)
        template.set_params(structure=None)
        shared = (kind, template, shareable(data), structure, reference.components, blocks, adjustment)
        tasks = [(*shared, norm_fraction, seed, number) for number, seed in enumerate(seeds, start=1)]
        with workers(n_jobs, data, StageStarted(TITLES[kind], n_refits, f"{kind}s")) as pool:
            yield reference, pool.run(_refit, tasks)


def _kept_together(n_samples: int, groups: Any) -> list[IntArray]:
    """Return the samples that are drawn together: those of one group, or every sample alone."""
    if groups is None:
        return list(np.arange(n_samples)[:, None])
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise ValueError(f"groups must have one label per sample, shape ({n_samples},); got {labels.shape}")
    _, number = np.unique(labels, return_inverse=True)
    return [np.flatnonzero(number == group) for group in range(number.max() + 1)]


def _seeds(random_state: Any, n_seeds: int) -> list[np.random.SeedSequence]:
    """Return a seed for every refit, so that any number of workers gives the same."""
    if random_state is None and current_checkpoint() is not None:
        raise ValueError(
            "a checkpoint needs a random_state: without one, no run draws the same samples again"
        )
    if random_state is not None and not isinstance(random_state, (int, np.integer)):
        random_state = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.SeedSequence(random_state).spawn(n_seeds)


def _refit(
    kind: str,
    template: SPCATV,
    X: Any,
    structure: Structure,
    components: FloatArray,
    blocks: Sequence[IntArray],
    adjustment: Adjustment,
    norm_fraction: float,
    seed: np.random.SeedSequence,
    number: int,
) -> _Refit | Failure:
    """Draw samples, fit them, and compare their components."""
    rng = np.random.default_rng(seed)
    draws = _draws(kind, rng, blocks)
    starts = np.random.RandomState(int(rng.integers(1 << 31)))
    refitted = with_parameters(template, {"tol": max(template.tol, REFIT_TOL)})
    try:
        parts = [some_samples(template, X, samples, adjustment) for samples in draws]
        with one_blas_thread():
            found = [fit_data(refitted, part, structure, rng=starts).components for part in parts]
        if kind == "split":
            return agreement(components, found, norm_fraction)
        return _likeness(components, found[0], norm_fraction)
    except FIT_FAILURES as error:
        return failure(f"{kind} {number}", error)


def _draws(kind: str, rng: np.random.Generator, blocks: Sequence[IntArray]) -> list[IntArray]:
    """Return the samples of both halves of a split, or those of a resample."""
    if kind == "resample":
        return [np.concatenate([blocks[block] for block in rng.integers(0, len(blocks), size=len(blocks))])]
    order = rng.permutation(len(blocks))
    middle = len(order) // 2
    return [np.sort(np.concatenate([blocks[b] for b in half])) for half in (order[:middle], order[middle:])]


def some_samples(template: SPCATV, X: Any, samples: IntArray, adjustment: Adjustment) -> CentredData:
    """Return some samples, as often as given, adjusted with their own coefficients; X is not copied."""
    with one_blas_thread():
        data = on_device(as_data(X), template.device, int(template.n_components))
        (adjusted,) = adjustment.adjusted(data, samples)
    return centred_data(template, adjusted)


def agreement(components: FloatArray, found: Sequence[FloatArray], norm_fraction: float) -> _Refit:
    """Compare two fits with each other, both matched to the reference."""
    pair = [loadings[match_components(components, loadings).order] for loadings in found]
    index = np.asarray(dice(*pair, norm_fraction=norm_fraction, corrected=True))
    # loadings have unit norm, or are zero
    cosine = np.abs(np.einsum("kp,kp->k", *pair))
    return _Refit(index, cosine, np.zeros(0), np.zeros((0, 0), np.int8))


def _likeness(components: FloatArray, loadings: FloatArray, norm_fraction: float) -> _Refit:
    """Compare a resampled fit with the reference."""
    match = match_components(components, loadings)
    matched = match.sign[:, None] * threshold_loadings(loadings[match.order], norm_fraction)
    wanted = threshold_loadings(components, norm_fraction)
    return _Refit(
        dice=np.asarray(dice(wanted, matched)),
        cosine=match.cosine,
        signed_dice=np.asarray(dice(wanted, matched, signed=True)),
        signs=np.sign(matched).astype(np.int8),
    )


def _summary(results: Iterable[_Refit | Failure], reference: _Reference, norm_fraction: float) -> Bootstrap:
    """Count over the resamples as they come; none of them is kept."""
    components, structure = reference.components, reference.structure
    wanted = threshold_loadings(components, norm_fraction)
    regions = [
        (number, features)
        for number, row in enumerate(wanted)
        for features in connected_regions(structure, row)
    ]
    positive, negative = np.zeros(components.shape, np.int64), np.zeros(components.shape, np.int64)
    found = np.zeros(len(regions), np.int64)
    done: list[_Refit] = []
    failures: list[Failure] = []
    for result in without_failures(results, failures):
        positive += result.signs > 0
        negative += result.signs < 0
        for index, (number, features) in enumerate(regions):
            sign = np.sign(wanted[number, features[0]])
            found[index] += 2 * int((result.signs[number, features] == sign).sum()) >= len(features)
        done.append(replace(result, signs=np.zeros((0, 0), np.int8)))
    check_failures(failures, n_left=len(done))
    selected = positive + negative
    frequency = selected / len(done)
    return Bootstrap(
        components=components,
        selection_frequency=frequency,
        sign_consistency=np.abs(positive - negative) / np.maximum(selected, 1),
        dice=np.stack([result.dice for result in done]),
        signed_dice=np.stack([result.signed_dice for result in done]),
        cosine=np.stack([result.cosine for result in done]),
        regions=tuple(
            _region(number, features, wanted[number], frequency[number], share)
            for (number, features), share in zip(regions, found / len(done), strict=True)
        ),
        failures=tuple(failures),
    )


def _region(
    number: int, features: IntArray, loading: FloatArray, frequency: FloatArray, found: float
) -> Region:
    return Region(
        component=number,
        features=features,
        sign=int(np.sign(loading[features[0]])),
        share=float(np.square(loading[features]).sum() / np.square(loading).sum()),
        selection_frequency=float(frequency[features].mean()),
        bootstrap_frequency=float(found),
    )
