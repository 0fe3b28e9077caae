"""The numbers that a choice is made from: settings by folds by components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import BoolArray, FloatArray
from spcatv.metrics import pairwise_dice
from spcatv.selection.chains import FoldOutcome
from spcatv.selection.path import Setting, row_key


@dataclass(frozen=True, eq=False)
class SettingScores:
    """What one setting gives on all folds; NaN where its fit has failed."""

    # held-out reconstruction errors ``||X - X_hat||_F`` with all components, shape (n_folds,)
    error: FloatArray
    # shares of the held-out sum of squares, shape (n_folds, K), that the first 1, ..., K components explain
    explained: FloatArray
    sparsity: FloatArray  # shares of zeros of every component, shape (n_folds, K)
    # mean pairwise Dice index of matched supports over folds, shape (K,) (`spcatv.metrics.pairwise_dice`);
    # NaN with fewer than two fits. Components are numbered as on the first fold.
    dice: FloatArray
    corrected_dice: FloatArray  # the same without what is due to chance, shape (K,)
    n_unconverged: int  # fits that did not reach their tolerance
    seconds: FloatArray  # wall-clock times of the fits, shape (n_folds,)


def score_setting(outcomes: Sequence[FoldOutcome | None], n_components: int) -> SettingScores:
    """Reduce the fits of one setting, one per fold, to their scores; the loadings are not kept."""
    nothing = np.full(n_components, np.nan)
    done = [outcome for outcome in outcomes if outcome is not None]
    dice, corrected = nothing, nothing
    if len(done) >= 2:
        supports = [outcome.supports for outcome in done]
        # one thread: matching must not depend on how a machine rounds its sums
        with one_blas_thread():
            dice = pairwise_dice(supports, norm_fraction=None).mean(axis=0)
            corrected = pairwise_dice(supports, norm_fraction=None, corrected=True).mean(axis=0)
    return SettingScores(
        error=np.array([np.nan if item is None else item.held_out.errors[-1] for item in outcomes]),
        explained=np.stack([nothing if item is None else item.held_out.shares for item in outcomes]),
        sparsity=np.stack([nothing if item is None else item.sparsity for item in outcomes]),
        dice=dice,
        corrected_dice=corrected,
        n_unconverged=sum(not outcome.converged for outcome in done),
        seconds=np.array([np.nan if item is None else item.seconds for item in outcomes]),
    )


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """All settings on all folds.

    A fold on which every fit has failed is left out for all settings alike. A setting that has failed on one
    of the others cannot be compared: folds differ more from each other than settings do. Its means are NaN.
    """

    params: tuple[Setting, ...]  # sparsity and smoothness of every setting, or alpha and the ratios
    scores: tuple[SettingScores, ...]  # in the same order

    def with_settings(self, other: SelectionTable) -> SelectionTable:
        """Return a table of the settings of both, row by row, each with rising sparsity."""
        both = [*zip(self.params, self.scores, strict=True), *zip(other.params, other.scores, strict=True)]
        both.sort(key=lambda pair: (row_key(pair[0]), pair[0]["sparsity"]))
        params, scores = zip(*both, strict=True)
        return SelectionTable(params, scores)

    @property
    def fold_errors(self) -> FloatArray:
        """Held-out errors, shape (n_settings, n_folds)."""
        return np.stack([scores.error for scores in self.scores])

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
        nonempty = [np.sum(scores.sparsity < 1, axis=1) for scores in self.scores]
        fewest = np.stack(nonempty)[:, self.used_folds].min(axis=1, initial=len(self.scores[0].dice))
        return np.where(self.fitted, fewest, -1)

    @property
    def all_nonempty(self) -> bool:
        """Whether some setting keeps every component nonempty on every fold."""
        return bool(self.least_nonempty.max() == len(self.scores[0].dice))

    @property
    def eligible(self) -> BoolArray:
        """Settings with the most nonempty components on all folds, shape (n_settings,)."""
        return np.asarray(self.fitted & (self.least_nonempty == self.least_nonempty.max()))

    @property
    def mean_error(self) -> FloatArray:
        """Mean held-out error, shape (n_settings,); NaN for those that were not fitted on all folds."""
        return self._mean([scores.error for scores in self.scores])

    @property
    def explained(self) -> FloatArray:
        """Explained shares of every fold that is used, shape (n_settings, n_used, K)."""
        return np.stack([scores.explained for scores in self.scores])[:, self.used_folds]

    @property
    def mean_explained(self) -> FloatArray:
        """Mean explained share with 1, ..., K components, shape (n_settings, K)."""
        return self._mean([scores.explained for scores in self.scores])

    @property
    def mean_sparsity(self) -> FloatArray:
        """Mean share of zeros of every component where it is not empty, shape (n_settings, K).

        NaN for a component that is empty on all folds, and for settings that were not fitted on all.
        """
        zeros = np.stack([scores.sparsity for scores in self.scores])[:, self.used_folds]
        means = _mean_of_nonempty(np.where(zeros < 1, zeros, np.nan))
        return np.where(self.fitted[:, None], means, np.nan)

    @property
    def overall_sparsity(self) -> FloatArray:
        """Mean share of zeros over the nonempty components, shape (n_settings,); NaN if none does."""
        return _mean_of_nonempty(self.mean_sparsity)

    @property
    def n_nonempty(self) -> FloatArray:
        """Mean number of components that are not zero, shape (n_settings,)."""
        nonempty = [
            np.where(np.isnan(scores.sparsity), np.nan, scores.sparsity < 1) for scores in self.scores
        ]
        return self._mean([np.sum(item, axis=1) for item in nonempty])

    @property
    def corrected_dice(self) -> FloatArray:
        """Stability without what is due to chance, mean over components, shape (n_settings,)."""
        return np.array([scores.corrected_dice.mean() for scores in self.scores])

    def _mean(self, values: Sequence[FloatArray]) -> FloatArray:
        """Mean over the folds that are used; a NaN among them makes a NaN."""
        return np.stack(values)[:, self.used_folds].mean(axis=1)

    def as_dict(self) -> dict[str, Any]:
        """Columns of one length, as scikit-learn's ``cv_results_``: what `pandas.DataFrame` takes."""
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
            columns[f"mean_dice_{k + 1}"] = np.array([scores.dice[k] for scores in self.scores])
        columns["mean_sparsity"] = self.overall_sparsity
        columns["mean_n_nonempty"] = self.n_nonempty
        columns["mean_dice"] = np.array([scores.dice.mean() for scores in self.scores])
        columns["mean_corrected_dice"] = self.corrected_dice
        columns["n_unconverged"] = np.array([scores.n_unconverged for scores in self.scores])
        columns["mean_fit_time"] = self._mean([scores.seconds for scores in self.scores])
        return columns


def _mean_of_nonempty(shares: FloatArray) -> FloatArray:
    """Mean along the second axis without NaN; NaN where there is nothing else."""
    known = np.isfinite(shares)
    count = known.sum(axis=1)
    total = np.where(known, shares, 0.0).sum(axis=1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def standard_error(values: FloatArray) -> FloatArray:
    """Standard error of the mean over folds, the last axis; NaN with a single fold."""
    n_folds = values.shape[-1]
    if n_folds < 2:
        return np.full(values.shape[:-1], np.nan)
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(n_folds))


def _ranks(error: FloatArray) -> npt.NDArray[np.int32]:
    """1 for the lowest error, equal ones alike; those without an error last."""
    filled = np.where(np.isnan(error), np.inf, error)
    return np.array([1 + int((filled < value).sum()) for value in filled], dtype=np.int32)
