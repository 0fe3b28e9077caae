"""Fits of every setting of a grid on all samples and on random halves, for the settings explorer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.parameters import EXPLORE, TARGET_PARAMETERS
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray, IntArray
from spcatv.data import Adjustment, as_data, checked_adjustment, on_device
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import checked_data
from spcatv.estimator._validation import checked_count
from spcatv.metrics import match_components, pairwise_dice
from spcatv.model import recordable
from spcatv.progress import StageStarted
from spcatv.selection.cross_validation import FoldOutcome, fit_chain, held_out
from spcatv.selection.folds import Fold, make_folds
from spcatv.selection.path import PathFitter, Row
from spcatv.selection.workers import check_failures, placed, shareable, workers
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

# Relative gap of fits to halves, of which only the supports are compared.
HALVES_TOL = 1e-4


@dataclass(frozen=True, eq=False)
class Exploration:
    """Results of every setting of a grid: S settings, K components, P features.

    Settings come by smoothness, then by sparsity. The components of every setting are matched to those of the
    recommended one, so that component k is the same pattern at all settings as far as it exists there.
    """

    settings: Row  # sparsity and smoothness of every setting
    components: FloatArray  # matched loadings of a fit to all samples, float32, shape (S, K, P)
    order: IntArray  # the number of each in its own fit, from 0, shape (S, K)
    similarity: FloatArray  # absolute cosine with the component of the recommended setting, shape (S, K)
    variance: FloatArray  # share of the variance that the scores of each explain, shape (S, K)
    explained: FloatArray  # share of the sum of squares of all samples that all K maps explain, shape (S,)
    held_out: FloatArray  # the same for held-out samples; NaN if unknown, shape (S,)
    agreement: FloatArray  # corrected Dice index of random halves, mean over splits, shape (S, K)
    n_regions: IntArray | None  # connected regions, shape (S, K); None if features have no neighbours
    n_folds: int  # of the cross-validation of the search
    recommended: int  # number of the setting that the rule of the search chooses
    reason: str  # why, in words


@recordable
@dataclass(frozen=True, eq=False)
class _RowFit:
    """All settings of a row, fitted to all samples; arrays have one entry per setting."""

    components: FloatArray
    variance: FloatArray
    explained: FloatArray
    n_regions: IntArray


def explore_settings(
    search: Any,
    X: Any,
    *,
    confounds: Any = None,
    n_splits: int = EXPLORE.n_splits,
    random_state: int = 0,
) -> Exploration:
    """Fit every setting that a search has compared to all samples, and to random halves of them.

    `search` is an SPCATVCV that was fitted to X with these `confounds`, or an ImageSPCATVCV of the matrix X.
    As in the search, every fit is that of `SPCATV.fit`: a map is the one that a fit with this setting finds.
    """
    params = search.cv_results_["params"]
    if set(params[0]) != set(TARGET_PARAMETERS):
        raise ValueError("only values of sparsity and smoothness can be explored; leave out alpha")
    n_splits = checked_count(n_splits, "n_splits")
    best = getattr(search.best_estimator_, "estimator_", search.best_estimator_)  # of images, or of an array
    template, structure = clone(best).set_params(structure=None), best.structure_
    data = placed(checked_data(clone(template), X, reset=True, min_samples=2), template, search.n_jobs)
    adjustment = checked_adjustment(search.standardize, confounds, data.shape[0])
    sparsity, smoothness = (sorted({setting[name] for setting in params}) for name in TARGET_PARAMETERS)
    rows = [tuple({"sparsity": s, "smoothness": value} for s in sparsity) for value in smoothness]
    settings = tuple(setting for row in rows for setting in row)
    halves = _halves(shareable(data), search.groups_, n_splits, random_state)
    stage = StageStarted("Exploring settings", len(rows) * (1 + len(halves)), "chains of fits")
    shared = (template, shareable(data), structure)
    with workers(search.n_jobs, data, stage) as pool:
        fits = list(pool.run(fit_row, [(*shared, row, adjustment) for row in rows]))
        coarse = clone(template).set_params(tol=max(template.tol, HALVES_TOL))
        chains = [(coarse, *shared[1:], half, row, adjustment) for row in rows for half in halves]
        found = list(pool.run(fit_chain, chains))
    check_failures([failure for result in found for failure in result.failures], n_left=len(found))
    components, variance, explained, n_regions = (
        np.concatenate([getattr(fit, name) for fit in fits]) for name in _RowFit.__dataclass_fields__
    )
    recommended = settings.index(search.best_params_)
    with one_blas_thread():
        matches = [match_components(components[recommended], loadings) for loadings in components]
    order = np.stack([match.order for match in matches])
    sign = np.stack([match.sign for match in matches])
    components = np.take_along_axis(components, order[..., None], 1) * sign[..., None].astype(np.float32)
    # results come by row, then by half; a chain has one outcome per setting
    by_setting = [
        [found[k * len(halves) + half].outcomes[place] for half in range(len(halves))]
        for k, row in enumerate(rows)
        for place in range(len(row))
    ]
    shares = {
        tuple(params[k].items()): share for k, share in enumerate(search.cv_results_["mean_test_explained"])
    }
    return Exploration(
        settings,
        components,
        order,
        np.stack([match.cosine for match in matches]),
        np.take_along_axis(variance, order, 1),
        explained,
        np.array([shares.get(tuple(setting.items()), np.nan) for setting in settings]),
        np.stack([_agreement(*each) for each in zip(components, by_setting, strict=True)]),
        None if structure.n_rows == 0 else np.take_along_axis(n_regions, order, 1),
        search.n_splits_,
        recommended,
        search.choice_reason_,
    )


def _halves(X: Any, groups: Any, n_splits: int, random_state: int) -> list[Fold]:
    """Return random halves in pairs, each as the training samples of a fold; groups stay together."""
    # imported here: scikit-learn's model selection costs more to import than all of this package
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    kind = ShuffleSplit if groups is None else GroupShuffleSplit
    folds = make_folds(kind(n_splits, test_size=0.5, random_state=random_state), X, groups=groups)
    return [half for fold in folds for half in (fold, Fold(fold.number, fold.test, fold.train))]


def fit_row(template: SPCATV, X: Any, structure: Structure, row: Row, adjustment: Adjustment) -> _RowFit:
    """Fit the settings of a row to all samples, each as `SPCATV.fit` does."""
    with one_blas_thread():
        data = adjustment.whole(on_device(as_data(X), template.device, int(template.n_components)))
    fitter = PathFitter(template, data, structure)
    models, shares = [], []
    for setting in row:
        fitted = fitter.fit_from(setting, ())
        fit = fitted.fit
        projects = fit.decomposition.mixing is not None or template.transform_method == "projection"
        with one_blas_thread():
            shares.append(held_out(fit.components, fit.centring, data, projects=projects).shares[-1])
        models.append(fitter.model(fitted))
    counts = [[len(connected_regions(structure, one)) for one in model.components_] for model in models]
    return _RowFit(
        np.stack([model.components_ for model in models]).astype(np.float32),
        np.stack([model.explained_variance_ratio_ for model in models]).astype(np.float64),
        np.array(shares),
        np.array(counts),
    )


def _agreement(components: FloatArray, halves: Sequence[FoldOutcome | None]) -> FloatArray:
    """Corrected Dice index of the halves of every split, both matched to the components, shape (K,)."""
    pairs = [pair for pair in zip(halves[::2], halves[1::2], strict=True) if None not in pair]
    if not pairs:
        return np.full(len(components), np.nan)
    with one_blas_thread():
        found = [
            pairwise_dice(
                [half.supports for half in pair if half is not None],
                norm_fraction=None,
                corrected=True,
                reference=components,
            )
            for pair in pairs
        ]
    return np.concatenate(found).mean(axis=0)
