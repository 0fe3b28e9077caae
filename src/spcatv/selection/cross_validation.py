"""Cross-validation of a grid of settings: fits of folds, scores of held-out samples, and the table of all.

The unit of work is a chain: one row of the grid on one fold. It depends on nothing but its arguments, so that
the numbers are the same on any number of workers; its training samples are a part of the data, not a copy.
Chains come back in order. The loadings of a row of the grid are reduced to scores, and dropped, as soon as
its last fold is done.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import beside
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import BoolArray, FloatArray
from spcatv.data import Adjustment, Centring, Data, as_data, on_device
from spcatv.decomposition import deflation_scores
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import Fit
from spcatv.metrics import orthonormal_basis, pairwise_dice, threshold_loadings
from spcatv.model import recordable
from spcatv.selection.folds import Fold
from spcatv.selection.path import PathFitter, Row, Setting, path_order, row_key, setting_text
from spcatv.selection.workers import FIT_FAILURES, Failure, Workers, failure
from spcatv.structure import Structure


@recordable
@dataclass(frozen=True, eq=False)
class HeldOut:
    """Sums of squares of held-out samples."""

    total: float  # ``||X||_F^2`` of the samples, centred as those of the fit
    explained: FloatArray  # how much of it the first 1, ..., K components explain, shape (K,)

    @property
    def errors(self) -> FloatArray:
        """Reconstruction errors ``||X - X_hat||_F`` with 1, ..., K components, shape (K,)."""
        return np.sqrt(np.maximum(self.total - self.explained, 0.0))

    @property
    def shares(self) -> FloatArray:
        """Explained shares of the sum of squares with 1, ..., K components, shape (K,)."""
        return self.explained / self.total if self.total > 0 else np.zeros_like(self.explained)


def held_out(components: FloatArray, centring: Centring, data: Data, *, projects: bool = False) -> HeldOut:
    """Score samples for the first 1, ..., K components at once.

    The components are unit loadings (K, P), the centring is that of the training samples. Every step of a
    deflation is a projection (docs/method.md section 5.1), so component k explains the squares of its scores.
    If scores come from a projection or a joint fit (`projects`), component k explains the squares that the
    span of the first k loadings adds.
    """
    basis = orthonormal_basis(components) if projects else components
    if data.on_gpu:
        total, products = _by_products(basis, centring, data)
        scores = products if projects else deflation_scores(products, components)
        return HeldOut(total, np.cumsum(np.square(scores).sum(axis=0)))

    def sums(_: slice, block: FloatArray) -> tuple[None, FloatArray]:
        """Return the sum of squares of some samples, and what every component explains of it."""
        centred = centring.apply(block)
        products = centred @ basis.T
        scores = products if projects else deflation_scores(products, components)
        return None, np.r_[np.einsum("ij,ij->", centred, centred), np.square(scores).sum(axis=0)]

    total, *explained = data.each_block(sums)[1]
    return HeldOut(float(total), np.cumsum(explained))


def _by_products(basis: FloatArray, centring: Centring, data: Data) -> tuple[float, FloatArray]:
    """Return the sum of squares of centred samples and their products with a basis, by products with X."""
    n_samples, n_features = data.shape
    own = data.column_statistics(True)
    mean = beside(centring.mean, own.mean)
    off = own.mean - mean
    total = float(own.squared_norms.sum()) + n_samples * float(off @ off)
    products = data.dot_many(beside(basis, mean)) - basis @ centring.mean
    loading = centring.global_loading
    if loading is not None:
        sides = np.stack([np.full(n_features, 1.0 / n_features), loading])
        signal, along = (data.dot_many(beside(sides, mean)) - sides @ centring.mean).T
        total += float(loading @ loading) * float(signal @ signal) - 2.0 * float(signal @ along)
        products -= np.outer(signal, basis @ loading)
    return total, products


@recordable
@dataclass(frozen=True, eq=False)
class FoldOutcome:
    """One setting on one fold."""

    held_out: HeldOut  # sums of squares of the held-out samples
    sparsity: FloatArray  # shares of the loadings that are exactly zero, shape (K,)
    # loadings cut to 99 % of their norm (`spcatv.metrics.threshold_loadings`), shape (K, P)
    supports: FloatArray
    converged: bool  # whether every component has reached the tolerance
    seconds: float  # wall-clock time of the fit


@recordable
@dataclass(frozen=True, eq=False)
class ChainResult:
    """Results of a chain."""

    outcomes: tuple[FoldOutcome | None, ...]  # one per setting, in the order given; None if the fit failed
    failures: tuple[Failure, ...]  # those that failed


def fit_chain(
    estimator: SPCATV,
    X: Any,
    structure: Structure,
    fold: Fold,
    settings: Sequence[Setting],
    adjustment: Adjustment,
) -> ChainResult:
    """Fit all settings to the training samples of a fold, and score the samples that it holds out.

    The settings are a row of the grid: values of sparsity with one smoothness, or of alpha with the same
    ratios. Values of alpha are fitted each from the one before. Components of a wanted sparsity are fitted
    alone, as `SPCATV.fit` does: from those of another sparsity, other components may be found. The structure
    is an argument of its own, so that it travels to a worker once. The adjustment is made with coefficients
    of the training samples.
    """
    outcomes: list[FoldOutcome | None] = [None] * len(settings)
    try:
        with one_blas_thread():
            data = on_device(as_data(X), estimator.device, int(estimator.n_components))
            train, test = adjustment.adjusted(data, fold.train, fold.test)
    except FIT_FAILURES as error:
        return ChainResult(tuple(outcomes), (failure(f"fold {fold.number + 1}", error),))
    fitter = PathFitter(estimator, train, structure)
    failures: list[Failure] = []
    for k in path_order(settings):
        started = time.perf_counter()
        try:
            alone = "sparsity" in settings[k]
            fitted = fitter.fit_from(settings[k], ()) if alone else fitter.fit(settings[k])
        except FIT_FAILURES as error:
            # the next setting starts from the last one that went well
            failures.append(failure(place(fold, settings[k]), error))
            continue
        seconds = time.perf_counter() - started
        outcomes[k] = _outcome(fitted.fit, test, estimator.transform_method, seconds)
    return ChainResult(tuple(outcomes), tuple(failures))


def _outcome(fit: Fit, test: Data, transform_method: str, seconds: float) -> FoldOutcome:
    components = fit.components
    with one_blas_thread():
        projects = fit.decomposition.mixing is not None or transform_method == "projection"
        scores = held_out(components, fit.centring, test, projects=projects)
    return FoldOutcome(
        held_out=scores,
        sparsity=np.mean(components == 0, axis=1),
        supports=threshold_loadings(components).astype(fit.dtype),
        converged=all(record.converged for record in fit.decomposition.diagnostics),
        seconds=seconds,
    )


def place(fold: Fold, setting: Setting) -> str:
    """Describe a fold and a setting."""
    return f"fold {fold.number + 1}, {setting_text(setting)}"


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """All settings on all folds: S settings, F folds, K components; NaN where a fit has failed.

    A fold on which every fit has failed is left out for all settings alike. A setting that has failed on one
    of the others cannot be compared: folds differ more from each other than settings do. Its means are NaN.
    """

    params: tuple[Setting, ...]  # sparsity and smoothness of every setting, or alpha and the ratios
    # held-out reconstruction errors ``||X - X_hat||_F`` with all components, shape (S, F)
    fold_errors: FloatArray
    # shares of the held-out sum of squares that the first 1, ..., K components explain, shape (S, F, K)
    fold_explained: FloatArray
    fold_sparsity: FloatArray  # shares of zeros of every component, shape (S, F, K)
    # mean pairwise Dice index of matched supports over folds, shape (S, K) (`spcatv.metrics.pairwise_dice`);
    # NaN with fewer than two fits. Components are numbered as on the first fold.
    dice: FloatArray
    corrected: FloatArray  # the same, corrected for chance, shape (S, K)
    n_unconverged: FloatArray  # fits that did not reach their tolerance, shape (S,)
    seconds: FloatArray  # wall-clock times of the fits, shape (S, F)

    @classmethod
    def of(cls, params: Sequence[Setting], scores: Sequence[tuple[FloatArray, ...]]) -> Self:
        """Return the table of settings with their scores, the other fields of one setting each."""
        return cls(tuple(params), *map(np.stack, zip(*scores, strict=True)))

    def with_settings(self, other: SelectionTable) -> SelectionTable:
        """Return a table of the settings of both, row by row, each with rising sparsity."""
        params = self.params + other.params
        order = sorted(range(len(params)), key=lambda k: (row_key(params[k]), params[k]["sparsity"]))
        names = [field.name for field in fields(self)][1:]
        arrays = (np.concatenate([getattr(self, name), getattr(other, name)])[order] for name in names)
        return SelectionTable(tuple(params[k] for k in order), *arrays)

    @property
    def used_folds(self) -> BoolArray:
        """Folds on which any fit went well, shape (n_folds,)."""
        return np.asarray(np.isfinite(self.fold_errors).any(axis=0))

    @property
    def fitted(self) -> BoolArray:
        """Settings that were fitted on all of those, shape (n_settings,)."""
        used = self.used_folds
        return np.asarray(np.isfinite(self.fold_errors[:, used]).all(axis=1) & used.any())

    @property
    def least_nonempty(self) -> FloatArray:
        """Fewest nonempty components on a fold, shape (n_settings,); -1 for settings that were not fitted."""
        nonempty = np.sum(self.fold_sparsity < 1, axis=2)
        fewest = nonempty[:, self.used_folds].min(axis=1, initial=self.dice.shape[1])
        return np.where(self.fitted, fewest, -1)

    @property
    def all_nonempty(self) -> bool:
        """True if some setting keeps every component nonempty on every fold."""
        return bool(self.least_nonempty.max() == self.dice.shape[1])

    @property
    def eligible(self) -> BoolArray:
        """Settings with the most nonempty components on all folds, shape (n_settings,)."""
        return np.asarray(self.fitted & (self.least_nonempty == self.least_nonempty.max()))

    @property
    def mean_error(self) -> FloatArray:
        """Mean held-out error, shape (n_settings,); NaN for those that were not fitted on all folds."""
        return self._mean(self.fold_errors)

    @property
    def explained(self) -> FloatArray:
        """Explained shares of every fold that is used, shape (n_settings, n_used, K)."""
        return self.fold_explained[:, self.used_folds]

    @property
    def mean_explained(self) -> FloatArray:
        """Mean explained share with 1, ..., K components, shape (n_settings, K)."""
        return self._mean(self.fold_explained)

    @property
    def mean_sparsity(self) -> FloatArray:
        """Mean share of zeros of every component where it is not empty, shape (n_settings, K).

        NaN for a component that is empty on all folds, and for settings that were not fitted on all.
        """
        zeros = self.fold_sparsity[:, self.used_folds]
        means = _mean_of_nonempty(np.where(zeros < 1, zeros, np.nan))
        return np.where(self.fitted[:, None], means, np.nan)

    @property
    def overall_sparsity(self) -> FloatArray:
        """Mean share of zeros over the nonempty components, shape (n_settings,); NaN if none does."""
        return _mean_of_nonempty(self.mean_sparsity)

    @property
    def n_nonempty(self) -> FloatArray:
        """Mean number of components that are not zero, shape (n_settings,)."""
        nonempty = np.where(np.isnan(self.fold_sparsity), np.nan, self.fold_sparsity < 1)
        return self._mean(nonempty.sum(axis=2))

    @property
    def corrected_dice(self) -> FloatArray:
        """Stability without what is due to chance, mean over components, shape (n_settings,)."""
        return np.asarray(self.corrected.mean(axis=1))

    def _mean(self, values: FloatArray) -> FloatArray:
        """Return the mean over the folds that are used; a NaN among them makes a NaN."""
        return np.asarray(values[:, self.used_folds].mean(axis=1))

    def as_dict(self) -> dict[str, Any]:
        """Return columns of one length, as scikit-learn's ``cv_results_``: what `pandas.DataFrame` takes."""
        columns: dict[str, Any] = {"params": [dict(setting) for setting in self.params]}
        for name in self.params[0]:
            columns[f"param_{name}"] = np.array([setting[name] for setting in self.params], dtype=np.float64)
        for fold, errors in enumerate(self.fold_errors.T):
            columns[f"split{fold}_test_error"] = errors
        columns["mean_test_error"] = self.mean_error
        columns["std_test_error"] = self.fold_errors[:, self.used_folds].std(axis=1)
        columns["mean_test_score"] = -self.mean_error
        columns["rank_test_score"] = _ranks(self.mean_error)
        columns["mean_test_explained"] = self.mean_explained[:, -1]
        columns["se_test_explained"] = standard_error(self.explained[:, :, -1])
        for k in range(self.mean_explained.shape[1]):
            columns[f"mean_test_explained_{k + 1}"] = self.mean_explained[:, k]
            columns[f"mean_sparsity_{k + 1}"] = self.mean_sparsity[:, k]
            columns[f"mean_dice_{k + 1}"] = self.dice[:, k]
        columns["mean_sparsity"] = self.overall_sparsity
        columns["mean_n_nonempty"] = self.n_nonempty
        columns["mean_dice"] = self.dice.mean(axis=1)
        columns["mean_corrected_dice"] = self.corrected_dice
        columns["n_unconverged"] = self.n_unconverged
        columns["mean_fit_time"] = self._mean(self.seconds)
        return columns


def _mean_of_nonempty(shares: FloatArray) -> FloatArray:
    """Return the mean along the second axis without NaN; NaN where there is nothing else."""
    known = np.isfinite(shares)
    count = known.sum(axis=1)
    total = np.where(known, shares, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of the mean over folds, the last axis; NaN with a single fold."""
    n_folds = values.shape[-1]
    if n_folds < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n_folds))


def _ranks(error: FloatArray) -> npt.NDArray[np.int32]:
    """Return 1 for the lowest error, equal ones alike; those without an error last."""
    filled = np.where(np.isnan(error), np.inf, error)
    return np.array([1 + int((filled < value).sum()) for value in filled], dtype=np.int32)


def _score(outcomes: Sequence[FoldOutcome | None], n_components: int) -> tuple[FloatArray, ...]:
    """Reduce the fits of one setting, one per fold, to columns of the table; loadings are not kept."""
    nothing = np.full(n_components, np.nan)
    done = [outcome for outcome in outcomes if outcome is not None]
    dice, corrected = nothing, nothing
    if len(done) >= 2:
        supports = [outcome.supports for outcome in done]
        # one thread: matching must not depend on how a machine rounds its sums
        with one_blas_thread():
            dice = pairwise_dice(supports, norm_fraction=None).mean(axis=0)
            corrected = pairwise_dice(supports, norm_fraction=None, corrected=True).mean(axis=0)
    return (
        np.array([np.nan if item is None else item.held_out.errors[-1] for item in outcomes]),
        np.stack([nothing if item is None else item.held_out.shares for item in outcomes]),
        np.stack([nothing if item is None else item.sparsity for item in outcomes]),
        dice,
        corrected,
        np.array(sum(not outcome.converged for outcome in done)),
        np.array([np.nan if item is None else item.seconds for item in outcomes]),
    )


def cross_validate(
    pool: Workers,
    template: SPCATV,
    X: Any,
    structure: Structure,
    folds: Sequence[Fold],
    adjustment: Adjustment,
    rows: Sequence[Row],
) -> tuple[SelectionTable, list[Failure]]:
    """Fit every setting of the grid on every fold; return scores in the order given, and fits that failed.

    The template has everything but the settings and the structure.
    """
    chains = [(template, X, structure, fold, row, adjustment) for row in rows for fold in folds]
    notes = [f"fold {fold.number + 1}, {_row_text(row)}" for row in rows for fold in folds]
    results = pool.run(
        fit_chain, chains, [f"chain {k} of {len(chains)}: {note}" for k, note in enumerate(notes, start=1)]
    )
    scores: list[tuple[FloatArray, ...]] = []
    failures: list[Failure] = []
    for _ in rows:
        of_row = [next(results) for _ in folds]
        failures += [item for result in of_row for item in result.failures]
        by_setting = zip(*(result.outcomes for result in of_row), strict=True)
        scores += [_score(outcomes, int(template.n_components)) for outcomes in by_setting]
    return SelectionTable.of([setting for row in rows for setting in row], scores), failures


def _row_text(row: Row) -> str:
    """Describe a row: the values that its settings have in common, and the number of others."""
    varied, *fixed = row[0]
    return f"{setting_text({name: row[0][name] for name in fixed})}, {len(row)} values of {varied}"
