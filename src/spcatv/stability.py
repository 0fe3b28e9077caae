"""Verdicts of random halves and bootstrap frequencies of resamples (docs/method.md section 6.6).

Some of the samples are fitted, and matched to the fit of all samples: the two halves of a split, which share
no sample, so that agreement cannot come from the same noise; or samples drawn with replacement.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.data import Adjustment, Data, as_data, checked_adjustment, on_device
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data, fit_data
from spcatv.estimator._validation import checked_count
from spcatv.estimator.verdicts import SAME_OUTLINE, SAME_PATTERN, Reproducibility
from spcatv.metrics import dice, match_components, threshold_loadings
from spcatv.model.checkpoint import checkpointing, current_checkpoint
from spcatv.progress import StageStarted
from spcatv.selection.components import count_components
from spcatv.selection.cross_validation import REFIT_TOL
from spcatv.selection.path import checked_template
from spcatv.selection.workers import FIT_FAILURES, Failure, check_failures, failure, placed, run_calls
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

__all__ = [
    "Bootstrap",
    "Region",
    "Reproducibility",
    "SplitHalves",
    "bootstrap_components",
    "split_halves",
]

# Require a component to stand out of noise if the data have fewer effective independent features than this:
# there, halves of noise agree by chance.
FEW_INDEPENDENT = 10.0
# Measures of a refit, returned by `agreement` or `_likeness`.
Measures = tuple[FloatArray, ...]


@dataclass(frozen=True, eq=False)
class Region:
    """Connected region of a component, and its frequency in resamples.

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
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import bootstrap_components
    >>> X = [[3.0, 3.0, 0.0], [-3.0, -3.0, 1.0], [2.0, 2.0, 1.0], [-2.0, -2.0, 0.0]]
    >>> model = SPCATV(1, structure=(3,), sparsity=0.3)
    >>> region = bootstrap_components(model, X, n_resamples=2, random_state=0).regions[0]
    >>> region.component, region.features, region.bootstrap_frequency
    (0, array([0, 1]), 1.0)
    """

    component: int
    features: IntArray
    sign: int
    share: float
    selection_frequency: float
    bootstrap_frequency: float


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Frequencies of features and regions of K components in resampled fits.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Components of the reference.
    selection_frequency : ndarray of shape (K, P)
        Share of resamples in whose matched component, cut to 99 % of its norm, the feature is not zero.
    sign_consistency : ndarray of shape (K, P)
        ``|n_positive - n_negative| / (n_positive + n_negative)`` over those: 1 if the sign, aligned with the
        reference, is always the same; 0 where never selected.
    dice, signed_dice, cosine : ndarray of shape (n_resamples, K)
        Dice index of each resample's matched support with that of the reference; the same, features with
        opposite signs not counted as shared; and absolute cosine of the matched loadings.
    regions : tuple of Region
        Connected regions of the reference, component after component, the heaviest first.
    failures : tuple of Failure
        Resamples that failed, which the arrays above leave out.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import bootstrap_components
    >>> X = [[3.0, 3.0, 0.0], [-3.0, -3.0, 1.0], [2.0, 2.0, 1.0], [-2.0, -2.0, 0.0]]
    >>> result = bootstrap_components(SPCATV(1), X, n_resamples=2, random_state=0)
    >>> result.selection_frequency.shape, result.dice.shape, len(result.failures)
    ((1, 3), (2, 1), 0)
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
    """Agreement of fits of random halves about K components.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Components of the reference.
    dice, cosine : ndarray of shape (n_splits, K)
        Dice index, corrected for chance, of the matched supports of the two halves of each split, and
        absolute cosine of their loadings.
    n_half : int
        Samples in a half.
    beyond_noise : ndarray of shape (K,), bool
        As in `Reproducibility`.
    failures : tuple of Failure
        Splits that failed, which the arrays above leave out.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.stability import split_halves
    >>> X = [[3.0, 3.0, 0.0], [-3.0, -3.0, 1.0], [2.0, 2.0, 1.0], [-2.0, -2.0, 0.0]]
    >>> halves = split_halves(SPCATV(1), X, n_splits=2, random_state=0)
    >>> halves.dice.shape, len(halves.reproducibility)
    ((2, 1), 1)
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
        confirmed = np.count_nonzero((self.dice >= SAME_OUTLINE) | (self.cosine >= SAME_PATTERN), axis=0)
        columns = (values.tolist() for values in (ranks, indices, cosines, confirmed, self.beyond_noise))
        return tuple(
            Reproducibility(k, rank, index, cosine, n_confirmed, len(self.dice), self.n_half, beyond_noise)
            for k, (rank, index, cosine, n_confirmed, beyond_noise) in enumerate(zip(*columns, strict=True))
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
    """Fit samples drawn with replacement, and compare with the fit of all samples.

    Parameters
    ----------
    estimator : SPCATV or XarraySPCATV
        A model; it is not changed. Its components are the reference; if it is not fitted, a copy is.
    X : array-like of shape (n_samples, n_features), or DataArray
        Data.
    n_resamples : int, default=100
        Resamples of N samples.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group, such as the visits of one subject, are drawn together.
    standardize, confounds
        As in `SPCATVCV`, with coefficients of the samples of each fit.
    norm_fraction : float, default=0.99
        The share of a loading's norm that makes its support (`spcatv.metrics.threshold_loadings`).
    random_state : int, RandomState instance or None, default=None
        For the draws, and for random starts of the fits.
    n_jobs : int or None, default=None
        Workers, as in `SPCATVCV`; any number gives the same numbers.
    checkpoint : path, default=None
        Folder that keeps every resample as soon as it is done (`spcatv.selection.checkpointing`); needs a
        `random_state`.

    Returns
    -------
    Bootstrap
        How often features and regions are selected.

    Notes
    -----
    Resamples are fitted to a relative gap of 1e-4, or to the estimator's `tol` if that is larger. Those that
    fail are named in a `FailedFitWarning` and left out; it is an error if all of them fail.

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
    options = (groups, standardize, confounds, norm_fraction, random_state, n_jobs)
    with checkpointing(checkpoint):
        fitted, _, results = _refits("resample", estimator, X, n_resamples, *options)
        return _summary(results, fitted, norm_fraction)


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

    A half has half of the samples, so that the verdicts err on the side of caution.

    Parameters
    ----------
    estimator, X
        As in `bootstrap_components`; the components of both halves are matched to the reference.
    n_splits : int, default=10
        Splits; each costs two fits of half of the samples.
    groups : array-like of shape (n_samples,), default=None
        Samples of one group, such as the visits of one subject, stay in one half.
    standardize, confounds, norm_fraction, random_state, n_jobs, checkpoint
        As in `bootstrap_components`.

    Returns
    -------
    SplitHalves
        Agreement of the two halves of every split, with verdicts on every component.

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
    options = (groups, standardize, confounds, norm_fraction, random_state, n_jobs)
    with checkpointing(checkpoint):
        fitted, data, results = _refits("split", estimator, X, n_splits, *options)
        found = list(results)
    failures = [result for result in found if isinstance(result, Failure)]
    done = [result for result in found if not isinstance(result, Failure)]
    check_failures(failures, n_left=len(done))
    dices, cosines = map(np.stack, zip(*done, strict=True))
    count = count_components(fitted, data, standardize=standardize, confounds=confounds)
    numbers = np.arange(len(fitted.components_))
    return SplitHalves(
        fitted.components_,
        dices,
        cosines,
        n_half=data.shape[0] // 2,
        beyond_noise=(numbers < count.n_outstanding) | bool(count.n_independent[0] >= FEW_INDEPENDENT),
        failures=tuple(failures),
    )


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
) -> tuple[SPCATV, Data, Iterator[Measures | Failure]]:
    """Check the arguments, fit all samples unless that is done, and return the refits as they come."""
    if hasattr(estimator, "as_arrays"):  # of a DataArray
        estimator, X = estimator.as_arrays(X)
    n_refits = checked_count(n_refits, f"n_{kind}s")
    template, data, structure = checked_template(clone(estimator), X)
    data, shared = placed(data, template, n_jobs)
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
    template.set_params(structure=None, tol=max(template.tol, REFIT_TOL))
    inputs = (kind, template, shared, structure, adjustment)
    compared = (fitted.components_, blocks, norm_fraction)
    items = [(*inputs, *compared, seed, number) for number, seed in enumerate(seeds, start=1)]
    title = "Resampling" if kind == "resample" else "Splitting into halves"
    stage = StageStarted(title, n_refits, f"{kind}s")
    return fitted, data, run_calls(_refit, items, n_jobs, data, stage)


def _kept_together(n_samples: int, groups: Any) -> list[IntArray]:
    """Return the samples that are drawn together: those of one group, or every sample alone."""
    if groups is None:
        return list(np.arange(n_samples)[:, None])
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise ValueError(f"groups must have one label per sample, shape ({n_samples},); got {labels.shape}")
    return [np.flatnonzero(labels == label) for label in np.unique(labels)]


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
    adjustment: Adjustment,
    components: FloatArray,
    blocks: Sequence[IntArray],
    norm_fraction: float,
    seed: np.random.SeedSequence,
    number: int,
) -> Measures | Failure:
    """Draw samples, fit them, and compare their components."""
    rng = np.random.default_rng(seed)
    if kind == "resample":
        drawn = rng.integers(0, len(blocks), size=len(blocks))
        draws = [np.concatenate([blocks[block] for block in drawn])]
    else:
        order = rng.permutation(len(blocks))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        draws = [np.sort(np.concatenate([blocks[block] for block in half])) for half in halves]
    starts = np.random.RandomState(int(rng.integers(1 << 31)))
    try:
        with one_blas_thread():
            data = on_device(as_data(X), template.device, int(template.n_components))
            adjusted = [adjustment.adjusted(data, samples)[0] for samples in draws]
        parts = [centred_data(template, part) for part in adjusted]
        with one_blas_thread():
            found = [fit_data(template, part, structure, rng=starts).components for part in parts]
        compare = _likeness if kind == "resample" else agreement
        return compare(components, found, norm_fraction)
    except FIT_FAILURES as error:
        return failure(f"{kind} {number}", error)


def agreement(components: FloatArray, found: Sequence[FloatArray], norm_fraction: float) -> Measures:
    """Return Dice indices and cosines (K,) of two fits, both matched to the reference."""
    pair = [loadings[match_components(components, loadings).order] for loadings in found]
    index = np.asarray(dice(*pair, norm_fraction=norm_fraction, corrected=True))
    # loadings have unit norm, or are zero
    return index, np.abs(np.einsum("kp,kp->k", *pair))


def _likeness(components: FloatArray, found: Sequence[FloatArray], norm_fraction: float) -> Measures:
    """Return Dice indices, signed ones and cosines (K,) with the reference, and signs of supports (K, P)."""
    match = match_components(components, found[0])
    matched = match.sign[:, None] * threshold_loadings(found[0][match.order], norm_fraction)
    wanted = threshold_loadings(components, norm_fraction)
    indices = (np.asarray(dice(wanted, matched, signed=signed)) for signed in (False, True))
    return *indices, match.cosine, np.sign(matched).astype(np.int8)


def _summary(results: Iterable[Measures | Failure], fitted: SPCATV, norm_fraction: float) -> Bootstrap:
    """Count over the resamples one by one, without keeping them."""
    components = fitted.components_
    wanted = threshold_loadings(components, norm_fraction)
    regions = [
        (number, features)
        for number, row in enumerate(wanted)
        for features in connected_regions(fitted.structure_, row)
    ]
    positive, negative = np.zeros(components.shape, np.int64), np.zeros(components.shape, np.int64)
    found = np.zeros(len(regions), np.int64)
    done: list[Measures] = []
    failures: list[Failure] = []
    for result in results:
        if isinstance(result, Failure):
            failures.append(result)
            continue
        *measures, signs = result
        done.append(tuple(measures))
        positive += signs > 0
        negative += signs < 0
        for index, (number, features) in enumerate(regions):
            same = signs[number, features] == np.sign(wanted[number, features[0]])
            found[index] += 2 * int(same.sum()) >= len(features)
    check_failures(failures, n_left=len(done))
    selected = positive + negative
    frequency = selected / len(done)
    dices, signed_dices, cosines = map(np.stack, zip(*done, strict=True))
    return Bootstrap(
        components,
        frequency,
        np.abs(positive - negative) / np.maximum(selected, 1),
        dices,
        signed_dices,
        cosines,
        regions=tuple(
            Region(
                component=number,
                features=features,
                sign=int(np.sign(wanted[number, features[0]])),
                share=float(np.square(wanted[number, features]).sum() / np.square(wanted[number]).sum()),
                selection_frequency=float(frequency[number, features].mean()),
                bootstrap_frequency=float(share),
            )
            for (number, features), share in zip(regions, found / len(done), strict=True)
        ),
        failures=tuple(failures),
    )
