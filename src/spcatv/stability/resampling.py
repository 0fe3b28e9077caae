"""Resamples: samples drawn with replacement, fitted, and matched to the fit of all samples."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray, IntArray
from spcatv.data import Adjustment
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import checked_count
from spcatv.metrics import dice, match_components, threshold_loadings
from spcatv.model import recordable
from spcatv.model.checkpoint import checkpointing
from spcatv.progress import StageStarted
from spcatv.selection.workers import FIT_FAILURES, Failure, check_failures, failure, without_failures, workers
from spcatv.stability.refits import as_arrays, fit_samples, reference_fit, some_samples
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

SignArray = npt.NDArray[np.int8]


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


@recordable
@dataclass(frozen=True, eq=False)
class _Resample:
    """One resampled fit, matched: signs of its supports (K x P), and how alike it is to the reference."""

    signs: SignArray
    dice: FloatArray
    signed_dice: FloatArray
    cosine: FloatArray


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
    estimator, X = as_arrays(estimator, X)
    n_fits = checked_count(n_resamples, "n_resamples")
    with checkpointing(checkpoint):
        reference = reference_fit(estimator, X, groups, n_jobs, standardize=standardize, confounds=confounds)
        tasks = reference.tasks(random_state, n_fits, norm_fraction)
        with workers(n_jobs, reference.data, StageStarted("Resampling", n_fits, "resamples")) as pool:
            results = pool.run(_fit_resample, tasks)
            return _summary(results, reference.components, reference.structure, norm_fraction)


def _fit_resample(
    template: SPCATV,
    X: Any,
    structure: Structure,
    components: FloatArray,
    blocks: Sequence[IntArray],
    adjustment: Adjustment,
    seed: np.random.SeedSequence,
    number: int,
    norm_fraction: float,
) -> _Resample | Failure:
    """Draw samples, fit them, and match the components to those of the reference."""
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([blocks[block] for block in rng.integers(0, len(blocks), size=len(blocks))])
    starts = np.random.RandomState(int(rng.integers(1 << 31)))
    try:
        data = some_samples(template, X, drawn, adjustment)
        loadings = fit_samples(template, data, structure, starts).components
        match = match_components(components, loadings)
    except FIT_FAILURES as error:
        return failure(f"resample {number}", error)
    matched = match.sign[:, None] * threshold_loadings(loadings[match.order], norm_fraction)
    wanted = threshold_loadings(components, norm_fraction)
    return _Resample(
        signs=np.sign(matched).astype(np.int8),
        dice=np.asarray(dice(wanted, matched)),
        signed_dice=np.asarray(dice(wanted, matched, signed=True)),
        cosine=match.cosine,
    )


def _summary(
    results: Iterable[_Resample | Failure], components: FloatArray, structure: Structure, norm_fraction: float
) -> Bootstrap:
    """Count over the resamples as they come; none of them is kept."""
    reference = threshold_loadings(components, norm_fraction)
    regions = [
        (number, features)
        for number, row in enumerate(reference)
        for features in connected_regions(structure, row)
    ]
    positive, negative = np.zeros(components.shape, np.int64), np.zeros(components.shape, np.int64)
    found = np.zeros(len(regions), np.int64)
    done: list[_Resample] = []
    failures: list[Failure] = []
    for result in without_failures(results, failures):
        positive += result.signs > 0
        negative += result.signs < 0
        for index, (number, features) in enumerate(regions):
            sign = np.sign(reference[number, features[0]])
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
            _region(number, features, reference[number], frequency[number], share)
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
