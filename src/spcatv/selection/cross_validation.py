"""Fits of a grid of settings: on folds for cross-validation, on all samples and halves for the explorer.

The unit of work is a chain: one row of the grid on one fold. It depends on nothing but its arguments, so that
the numbers are the same on any number of workers; its training samples are a part of the data, not a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.devices import beside
from spcatv._util.parameters import EXPLORE, TARGET_PARAMETERS
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data import Adjustment, Data, as_data, checked_adjustment, on_device
from spcatv.decomposition import Decomposition, deflation_scores
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import checked_data
from spcatv.estimator._validation import checked_count
from spcatv.metrics import match_components, orthonormal_basis, pairwise_dice, threshold_loadings
from spcatv.model import recordable
from spcatv.progress import StageStarted
from spcatv.selection.path import PathFit, PathFitter, Row, Setting, path_order, row_key, setting_text
from spcatv.selection.rules import FoldOutcome, SettingScores
from spcatv.selection.workers import FIT_FAILURES, Failure, check_failures, failure, placed, run_calls
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

# Number of folds by default.
DEFAULT_FOLDS = 5
# Probability of a `SampleOrderWarning` about samples in a random order.
FALSE_ALARM = 1e-3
# Least `tol` of fits whose supports and cosines are compared: these need few digits of the loadings.
REFIT_TOL = 1e-4
# Function that makes a record of a fit, given also the held-out samples, adjusted like the training samples.
Summary = Callable[[PathFitter, PathFit, Data], Any]


class SampleOrderWarning(UserWarning):
    """Folds are consecutive parts of samples that are in an order which matters: sorted, or a time series.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.selection import SampleOrderWarning
    >>> warnings.filterwarnings("error", category=SampleOrderWarning)
    """


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of the samples."""

    name: str
    train: IntArray  # samples to fit
    test: IntArray  # samples held out


def make_folds(cv: Any, X: Any, y: Any = None, groups: Any = None) -> list[Fold]:
    """Split the samples into folds, and check that every group stays on one side.

    A number of folds (None: 5) means `GroupKFold` if there are groups, otherwise `KFold` without shuffling.
    `y` is passed to the splitter, for instance classes to stratify by.
    """
    # imported here: scikit-learn's model selection costs more to import than all of this package
    from sklearn.model_selection import GroupKFold, KFold, check_cv

    if isinstance(X, Data):
        X = np.zeros((X.shape[0], 1))  # splitters only count its samples
    n_samples = X.shape[0]
    n_folds = DEFAULT_FOLDS if cv is None else cv
    if isinstance(n_folds, (int, np.integer)):
        splitter = KFold(int(n_folds)) if groups is None else GroupKFold(int(n_folds))
    else:
        splitter = check_cv(n_folds)
    name = type(splitter).__name__
    if y is None and "Stratified" in name:
        raise ValueError(f"{name} needs y, the classes to stratify by")
    folds = []
    labels = None if groups is None else np.asarray(groups)
    for number, split in enumerate(splitter.split(X, y, groups), start=1):
        try:
            # numbers or truth values
            train, test = (np.arange(n_samples)[np.asarray(part)] for part in split)
        except IndexError as error:
            raise ValueError(f"fold {number} of {n_samples} samples: {error}") from error
        if len(train) < 2 or len(test) < 1:
            raise ValueError(
                f"fold {number} has {len(train)} training samples and {len(test)} held out; it needs at "
                "least two and one"
            )
        if np.intersect1d(train, test).size:
            raise ValueError(f"fold {number} holds out samples that it also trains on")
        torn = [] if labels is None else np.intersect1d(labels[train], labels[test]).tolist()
        if torn:
            raise ValueError(
                f"{name} puts samples of group {torn[0]!r} on both sides of fold {number}; take a splitter "
                "that keeps groups together, such as GroupKFold or LeaveOneGroupOut, or give cv as a number"
            )
        folds.append(Fold(f"fold {number}", train, test))
    if not folds:
        raise ValueError("cv has no folds; give at least two pairs of (train, test), or a number of folds")
    return folds


def warn_of_order(scores: FloatArray, folds: list[Fold]) -> None:
    """Warn if leading scores (K, N) differ between folds by more than chance: then the order matters.

    The test is that of Kruskal and Wallis, on ranks: one strange sample does not decide.
    """
    from scipy.stats import kruskal

    found = [kruskal(*(own[fold.test] for fold in folds)).pvalue for own in scores if np.ptp(own) > 0]
    if not found or min(found) * len(found) >= FALSE_ALARM:
        return
    n_folds = len(folds)
    warn_user(
        f"the samples are in an order that matters: the scores of principal component {np.argmin(found) + 1} "
        f"differ between the {n_folds} folds, which are consecutive parts of the samples (p = "
        f"{min(found):.0e}). If the samples are sorted, such as by age or site, no fold is like the others: "
        f"shuffle them with cv=KFold({n_folds}, shuffle=True, random_state=0). If they are a "
        f"time series, keep consecutive folds: confirm them with cv=KFold({n_folds}).",
        SampleOrderWarning,
    )


def fit_chain(
    estimator: SPCATV,
    X: Any,
    structure: Structure,
    adjustment: Adjustment,
    fold: Fold,
    settings: Row,
    summary: Summary,
) -> tuple[Any, ...]:
    """Fit all settings to the training samples of a fold; return a record of each fit, or its `Failure`.

    The settings are a row of the grid: values of sparsity with one smoothness, or of alpha with the same
    ratios. Values of alpha are fitted each from the one before. A wanted sparsity is fitted alone, as
    `SPCATV.fit` does: a start from another sparsity may lead to other components.
    """
    try:
        with one_blas_thread():
            data = on_device(as_data(X), estimator.device, int(estimator.n_components))
            train, test = adjustment.adjusted(data, fold.train, fold.test)
        fitter = PathFitter(estimator, train, structure)
    except FIT_FAILURES as error:
        return (failure(fold.name, error),) * len(settings)
    records: dict[int, Any] = {}
    for k in path_order(settings):
        try:
            fitted = fitter.fit(settings[k], alone="sparsity" in settings[k])
        except FIT_FAILURES as error:
            # the next setting starts from the last one without an error
            records[k] = failure(f"{fold.name}, {setting_text(settings[k])}", error)
            continue
        with one_blas_thread():
            records[k] = summary(fitter, fitted, test)
    return tuple(records[k] for k in range(len(settings)))


def fold_outcome(fitter: PathFitter, fitted: PathFit, test: Data) -> FoldOutcome:
    """Score the held-out samples, and keep what folds are compared by."""
    found = fitted.decomposition
    error, explained = held_out(fitter, found, test)
    return FoldOutcome(
        error,
        explained,
        sparsity=np.mean(found.components == 0, axis=1),
        supports=supports(fitter, fitted, test),
        converged=all(record.converged for record in found.diagnostics),
        seconds=fitted.seconds,
    )


def supports(fitter: PathFitter, fitted: PathFit, _: Data) -> FloatArray:
    """Return the loadings cut to 99 % of their norm (`spcatv.metrics.threshold_loadings`), shape (K, P)."""
    return threshold_loadings(fitted.decomposition.components).astype(fitter.data.data.dtype)


def held_out(fitter: PathFitter, found: Decomposition, data: Data) -> tuple[float, FloatArray]:
    """Return the reconstruction error of samples, and the shares that 1, ..., K components explain.

    Every step of a deflation is a projection (docs/method.md section 5.1), so component k explains the
    squares of its scores. If scores come from a projection or a joint fit, component k explains the squares
    that the span of the first k loadings adds.
    """
    projects = found.mixing is not None or fitter.template.transform_method == "projection"
    basis = orthonormal_basis(found.components) if projects else found.components
    centring = fitter.data.centring
    own = data.column_statistics(True)
    mean = beside(centring.mean, own.mean)
    off = own.mean - mean
    # sums and products of the centred samples, without making these
    total = float(own.squared_norms.sum()) + data.shape[0] * float(off @ off)
    products = data.dot_many(beside(basis, mean)) - basis @ centring.mean
    if centring.global_loading is not None:
        loading = centring.global_loading
        sides = np.stack([np.full_like(loading, 1.0 / len(loading)), loading])
        signal, along = (data.dot_many(beside(sides, mean)) - sides @ centring.mean).T
        total += float(loading @ loading) * float(signal @ signal) - 2.0 * float(signal @ along)
        products -= np.outer(signal, basis @ loading)
    scores = products if projects else deflation_scores(products, found.components)
    explained = np.cumsum(np.square(scores).sum(axis=0))
    error = float(np.sqrt(max(total - explained[-1], 0.0)))
    return error, explained / total if total > 0 else np.zeros_like(explained)


def cross_validate(
    template: SPCATV,
    X: Any,
    structure: Structure,
    adjustment: Adjustment,
    folds: Sequence[Fold],
    rows: Sequence[Row],
    title: str,
    n_jobs: int | None,
    data: Data,
) -> Iterator[SettingScores]:
    """Fit every setting of the grid on every fold; yield the scores of the settings, in the order given.

    The template has everything but the settings and the structure. Supports are dropped as soon as the last
    fold of a row is done.
    """
    chains = [(fold, row) for row in rows for fold in folds]
    items = [(template, X, structure, adjustment, *chain, fold_outcome) for chain in chains]
    notes = []
    for number, (fold, row) in enumerate(chains, start=1):
        varied, *fixed = row[0]
        text = setting_text({name: row[0][name] for name in fixed})
        notes.append(f"chain {number} of {len(chains)}: {fold.name}, {text}, {len(row)} values of {varied}")
    stage = StageStarted(title, len(chains), "chains of fits")
    results = run_calls(fit_chain, items, n_jobs, data, stage, notes)
    failures: list[Failure] = []
    n_left = 0
    for row in rows:
        of_row = [next(results) for _ in folds]
        for setting, outcomes in zip(row, zip(*of_row, strict=True), strict=True):
            failures += [outcome for outcome in outcomes if isinstance(outcome, Failure)]
            n_left += sum(isinstance(outcome, FoldOutcome) for outcome in outcomes)
            yield _scores(setting, outcomes, int(template.n_components))
    check_failures(failures, n_left)


def _scores(setting: Setting, outcomes: Sequence[FoldOutcome | Failure], n_components: int) -> SettingScores:
    """Compare the supports of one setting on all folds, and drop them."""
    supports = [outcome.supports for outcome in outcomes if isinstance(outcome, FoldOutcome)]
    nothing = np.full(n_components, np.nan)
    dice, corrected = nothing, nothing
    if len(supports) >= 2:
        # one thread: matching must not depend on how a machine rounds its sums
        with one_blas_thread():
            dice = pairwise_dice(supports, norm_fraction=None).mean(axis=0)
            corrected = pairwise_dice(supports, norm_fraction=None, corrected=True).mean(axis=0)
    dropped = np.zeros(0)
    missing = FoldOutcome(np.nan, nothing, nothing, dropped, converged=True, seconds=np.nan)
    folds = [missing if isinstance(own, Failure) else replace(own, supports=dropped) for own in outcomes]
    return SettingScores(setting, folds, dice, corrected)


@dataclass(frozen=True, eq=False)
class Exploration:
    """Results of every setting of a grid: S settings, K components, P features.

    Settings are ordered by smoothness, then by sparsity. All components are matched to the components of the
    recommended setting, so that component k is the same pattern at all settings where it exists.
    """

    settings: Row  # sparsity and smoothness of every setting
    components: FloatArray  # matched loadings of a fit to all samples, float32, shape (S, K, P)
    order: IntArray  # the number of each in its own fit, from 0, shape (S, K)
    similarity: FloatArray  # absolute cosine with the component of the recommended setting, shape (S, K)
    variance: FloatArray  # share of the variance that the scores of each explain, shape (S, K)
    explained: FloatArray  # share of the sum of squares of all samples that all K maps explain, shape (S,)
    held_out: FloatArray  # the same for held-out samples; NaN if a fit has failed, shape (S,)
    agreement: FloatArray  # corrected Dice index of random halves, mean over splits, shape (S, K)
    n_regions: IntArray | None  # connected regions, shape (S, K); None if features have no neighbours
    n_folds: int  # of the cross-validation of the search
    recommended: int  # number of the setting that the rule of the search chooses
    reason: str  # why, in words


@recordable
@dataclass(frozen=True, eq=False)
class WholeFit:
    """One setting, fitted to all samples."""

    components: FloatArray  # float32, shape (K, P)
    variance: FloatArray  # shape (K,)
    explained: float
    n_regions: IntArray | None  # None if features have no neighbours


def whole_fit(fitter: PathFitter, fitted: PathFit, data: Data) -> WholeFit:
    """Return what the explorer shows of a fit to all samples, which `data` holds."""
    model, structure = fitter.model(fitted), fitter.structure
    n_regions = [len(connected_regions(structure, one)) for one in model.components_ if structure.n_rows]
    return WholeFit(
        model.components_.astype(np.float32),
        model.explained_variance_ratio_.astype(np.float64),
        float(held_out(fitter, fitted.decomposition, data)[1][-1]),
        np.array(n_regions) if n_regions else None,
    )


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
    coarse = clone(template).set_params(tol=max(template.tol, REFIT_TOL))
    data = checked_data(clone(template), X, reset=True, min_samples=2)
    data, shared = placed(data, template, search.n_jobs)
    inputs = (shared, structure, checked_adjustment(search.standardize, confounds, data.shape[0]))
    order = sorted(range(len(params)), key=lambda k: (row_key(params[k]), params[k]["sparsity"]))
    rows = [tuple(row) for _, row in groupby((params[k] for k in order), key=row_key)]
    whole = Fold("all samples", np.arange(data.shape[0]), np.arange(data.shape[0]))
    halves = _halves(shared, search.groups_, n_splits, random_state)
    chains: list[tuple[Any, ...]] = []
    for row in rows:
        chains.append((template, *inputs, whole, row, whole_fit))
        chains += [(coarse, *inputs, half, row, supports) for half in halves]
    stage = StageStarted("Exploring settings", len(chains), "chains of fits")
    found = run_calls(fit_chain, chains, search.n_jobs, data, stage)
    by_row = [[next(found) for _ in range(1 + len(halves))] for _ in rows]
    # of every setting the fit to all samples, and those to halves
    records = [of_setting for of_row in by_row for of_setting in zip(*of_row, strict=True)]
    for of_all, *_ in records:
        if isinstance(of_all, Failure):
            raise ValueError(f"a setting cannot be explored: {of_all}")
    failures = [record for of_setting in records for record in of_setting if isinstance(record, Failure)]
    check_failures(failures, n_left=len(records))
    return _exploration(search, order, records)


def _exploration(search: Any, numbers: Sequence[int], records: Sequence[tuple[Any, ...]]) -> Exploration:
    """Match the components of all settings, given by their numbers in the search and the records of fits."""
    recommended = numbers.index(search.best_index_)
    fits = [of_setting[0] for of_setting in records]
    with one_blas_thread():
        matches = [match_components(fits[recommended].components, fit.components) for fit in fits]
    order, sign, similarity = (
        np.stack([getattr(match, name) for match in matches]) for name in ("order", "sign", "cosine")
    )

    def matched(name: str) -> Any:
        return np.stack([getattr(fit, name)[own] for fit, own in zip(fits, order, strict=True)])

    components = matched("components") * sign[..., None].astype(np.float32)
    return Exploration(
        settings=tuple(search.cv_results_["params"][number] for number in numbers),
        components=components,
        order=order,
        similarity=similarity,
        variance=matched("variance"),
        explained=np.array([fit.explained for fit in fits]),
        held_out=search.cv_results_["mean_test_explained"][numbers],
        agreement=np.stack([_agreement(*each) for each in zip(components, records, strict=True)]),
        n_regions=None if fits[0].n_regions is None else matched("n_regions"),
        n_folds=search.n_splits_,
        recommended=recommended,
        reason=search.choice_reason_,
    )


def _halves(X: Any, groups: Any, n_splits: int, random_state: int) -> list[Fold]:
    """Return random halves in pairs, each as the training samples of a fold; groups stay together."""
    # imported here: scikit-learn's model selection costs more to import than all of this package
    from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

    kind = ShuffleSplit if groups is None else GroupShuffleSplit
    folds = make_folds(kind(n_splits, test_size=0.5, random_state=random_state), X, groups=groups)
    return [
        Fold(f"a half of split {number}", *samples)
        for number, fold in enumerate(folds, start=1)
        for samples in ((fold.train, fold.test), (fold.test, fold.train))
    ]


def _agreement(components: FloatArray, records: tuple[Any, ...]) -> FloatArray:
    """Corrected Dice index of the halves of every split, both matched to the components, shape (K,)."""
    splits = zip(records[1::2], records[2::2], strict=True)
    pairs = [pair for pair in splits if not any(isinstance(half, Failure) for half in pair)]
    if not pairs:
        return np.full(len(components), np.nan)
    options: Any = {"norm_fraction": None, "corrected": True, "reference": components}
    with one_blas_thread():
        return np.concatenate([pairwise_dice(pair, **options) for pair in pairs]).mean(axis=0)
