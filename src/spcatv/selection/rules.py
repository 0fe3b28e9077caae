"""Table of the settings on all folds, and rules that choose one of them (docs/method.md section 6.5).

A rule takes the table and returns the number of a setting; the first one wins a tie. The rules here choose
among eligible settings only: fitted on every fold, with every component nonempty on every fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.parameters import RULES
from spcatv._util.types import BoolArray, FloatArray
from spcatv._util.warn import warn_user
from spcatv.model import recordable
from spcatv.selection.path import Setting, row_key, setting_text

# Settings whose shares of zeros differ by no more than this are equally sparse.
SAME_SPARSITY = 0.01
# Largest loss of explained held-out share for a sparser setting, as a share of that of the best one.
MOST_LOSS = 0.05
# Fewest values of sparsity or alpha that make a grid with an edge.
FEWEST_VALUES = 3


class SelectionWarning(UserWarning):
    """The choice of a setting deviates from the request, or lies on the edge of the grid.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.selection import SelectionWarning
    >>> warnings.filterwarnings("error", category=SelectionWarning)
    """


@recordable
@dataclass(frozen=True, eq=False)
class FoldOutcome:
    """One setting on one fold; NaN if the fit has failed."""

    error: float  # reconstruction error ``||X - X_hat||_F`` of the held-out samples
    explained: FloatArray  # share of their sum of squares that the first 1, ..., K components explain
    sparsity: FloatArray  # shares of the loadings that are exactly zero, shape (K,)
    supports: FloatArray  # loadings cut to 99 % of their norm, shape (K, P)
    converged: bool  # whether every component has reached the tolerance
    seconds: float  # wall-clock time of the fit


@dataclass(frozen=True, eq=False)
class SettingScores:
    """One setting on all folds."""

    setting: Setting
    folds: Sequence[FoldOutcome]
    # mean Dice index of matched supports over pairs of folds, and the same corrected for chance, shape (K,);
    # NaN with fewer than two fits. Components are numbered as on the first fold.
    dice: FloatArray
    corrected: FloatArray


@dataclass(frozen=True, eq=False)
class SelectionTable:
    """Comparison of S settings.

    A fold on which every fit has failed is left out for all settings. A setting that has failed on another
    fold has means of NaN: it cannot be compared, because folds differ more than settings do.
    """

    # columns of one length, as scikit-learn's ``cv_results_``: what `pandas.DataFrame` takes
    results: dict[str, Any]
    n_folds: int  # folds that are not left out
    # fewest nonempty components on a fold, shape (S,); -1 for settings that were not fitted on all folds
    least_nonempty: FloatArray
    n_components: int  # K

    @property
    def eligible(self) -> BoolArray:
        """Settings with the most nonempty components on all folds, shape (S,)."""
        most = self.least_nonempty.max()
        return np.asarray((self.least_nonempty == most) & (most >= 0))

    def first_lowest(self, values: FloatArray, among: BoolArray | None = None) -> int:
        """Return the first setting with the lowest value, by default among all eligible ones."""
        return int(np.argmin(np.where(self.eligible if among is None else among, values, np.inf)))


def selection_table(scores: Sequence[SettingScores]) -> SelectionTable:
    """Return the table of settings with their scores."""
    errors, explained, sparsity, converged, seconds = (
        np.array([[getattr(fold, name) for fold in own.folds] for own in scores])
        for name in ("error", "explained", "sparsity", "converged", "seconds")
    )
    dice, corrected = np.stack([own.dice for own in scores]), np.stack([own.corrected for own in scores])
    params = [dict(own.setting) for own in scores]
    used = np.isfinite(errors).any(axis=0)
    errors_used, explained = errors[:, used], explained[:, used]
    fitted = np.isfinite(errors_used).all(axis=1) & used.any()
    zeros = np.where(fitted[:, None, None], sparsity[:, used], np.nan)
    nonempty = zeros < 1
    n_nonempty = nonempty.sum(axis=2)
    mean_error, mean_explained = errors_used.mean(axis=1), explained.mean(axis=1)
    mean_sparsity = np.ma.masked_array(zeros, ~nonempty).mean(axis=1).filled(np.nan)
    n_folds = int(used.sum())
    spread = explained[:, :, -1].std(axis=1, ddof=min(1, n_folds - 1))
    known_error = np.where(np.isnan(mean_error), np.inf, mean_error)
    results: dict[str, Any] = {
        "params": params,
        **{f"param_{name}": np.array([setting[name] for setting in params], float) for name in params[0]},
        **{f"split{fold}_test_error": column for fold, column in enumerate(errors.T)},
        "mean_test_error": mean_error,
        "std_test_error": errors_used.std(axis=1),
        "mean_test_score": -mean_error,
        "rank_test_score": np.array([1 + (known_error < own).sum() for own in known_error], np.int32),
        "mean_test_explained": mean_explained[:, -1],
        "se_test_explained": spread / np.sqrt(n_folds) if n_folds > 1 else np.full(len(scores), np.nan),
    }
    for k in range(dice.shape[1]):
        results[f"mean_test_explained_{k + 1}"] = mean_explained[:, k]
        results[f"mean_sparsity_{k + 1}"] = mean_sparsity[:, k]
        results[f"mean_dice_{k + 1}"] = dice[:, k]
    results |= {
        "mean_sparsity": np.ma.masked_invalid(mean_sparsity).mean(axis=1).filled(np.nan),
        "mean_n_nonempty": np.where(fitted, n_nonempty.mean(axis=1), np.nan),
        "mean_dice": dice.mean(axis=1),
        "mean_corrected_dice": corrected.mean(axis=1),
        "n_unconverged": np.sum(~converged, axis=1),
        "mean_fit_time": seconds[:, used].mean(axis=1),
    }
    fewest = np.where(fitted, n_nonempty.min(axis=1, initial=dice.shape[1]), -1)
    return SelectionTable(results, n_folds, fewest, dice.shape[1])


def paper_rule(table: SelectionTable, min_sparsity: float = 0.5) -> int:
    """Return the setting with the lowest error whose second and third components are sparse.

    `min_sparsity` is the share of zeros, as a mean over folds, that each of them must have. If no setting is
    sparse enough, the one that comes closest is taken, with a warning.
    """
    shares = [table.results[f"mean_sparsity_{k}"] for k in (2, 3) if k <= table.n_components]
    # empty components are left out
    sparsity = np.fmin.reduce([np.ones(len(table.eligible)), *shares])
    sparse = table.eligible & (sparsity >= min_sparsity)
    if sparse.any():
        return table.first_lowest(table.results["mean_test_error"], sparse)
    closest = table.first_lowest(-sparsity)
    warn_user(
        f"no setting has second and third components of which {min_sparsity:.0%} are zero; taken is the one "
        f"that comes closest, {setting_text(table.results['params'][closest])}, with "
        f"{sparsity[closest]:.0%}. Add larger values of alpha or l1_ratio, or lower min_sparsity.",
        SelectionWarning,
    )
    return closest


def lowest_error(table: SelectionTable) -> int:
    """Return the setting with the lowest mean held-out error."""
    return table.first_lowest(table.results["mean_test_error"])


def one_standard_error(table: SelectionTable) -> int:
    """Return the sparsest setting as smooth as the best one that explains about as much.

    The best setting has the lowest mean error. A sparser one with the same smoothness (with alpha: the same
    ratios) may explain less of the held-out samples, by at most one standard error of the best one's share
    over folds, and at most 5 % of this share. Of settings that are equally sparse, the most stable is taken.
    """
    results, best = table.results, lowest_error(table)
    explained = results["mean_test_explained"]
    loss = min(float(results["se_test_explained"][best]), MOST_LOSS * max(float(explained[best]), 0.0))
    row = row_key(results["params"][best])
    as_smooth = np.array([row_key(setting) == row for setting in results["params"]])
    near = table.eligible & as_smooth & (explained >= explained[best] - loss)
    near[best] = True
    sparsity = np.nan_to_num(results["mean_sparsity"])  # a model without components is not sparse
    return highest_stability(table, near & (sparsity >= sparsity[near].max() - SAME_SPARSITY))


def highest_stability(table: SelectionTable, among: BoolArray | None = None) -> int:
    """Return the most stable setting: highest Dice index over folds, corrected for chance."""
    return table.first_lowest(-np.nan_to_num(table.results["mean_corrected_dice"], nan=-1.0), among)


# Rules by their names in `spcatv._util.parameters.RULES`, and what they choose.
NAMED: dict[str, tuple[Callable[[SelectionTable], int], str]] = {
    "one_se": (
        one_standard_error,
        "sparsest setting that explains about as much as the best one of the same smoothness",
    ),
    "error": (lowest_error, "lowest held-out error"),
    "stability": (highest_stability, "most stable setting"),
}


def choose(
    table: SelectionTable, rule: str | Callable[[dict[str, Any]], Any], min_sparsity: float
) -> tuple[int, str]:
    """Apply a rule by name, or one of the user's on ``cv_results_``; return the setting and the reason.

    Warns if components are empty, or if the setting lies on the edge of the grid.
    """
    if table.least_nonempty.max() < 0:
        raise ValueError("no setting was fitted on every fold, so that none can be compared with the others")
    if table.least_nonempty.max() < table.n_components:
        warn_user(
            f"no setting keeps all {table.n_components} components nonempty on every fold; compared are "
            "those with most of them. The data may have no more to explain: lower n_components.",
            SelectionWarning,
        )
    if callable(rule):
        index = rule(table.results)
        last = len(table.eligible) - 1
        if not isinstance(index, (int, np.integer)) or not 0 <= index <= last:
            raise ValueError(f"the rule must return the number of a setting, from 0 to {last}; got {index!r}")
        index, why = int(index), "chosen by the given function"
    elif rule == "paper":
        index = paper_rule(table, min_sparsity)
        why = f"lowest error with second and third components at least {min_sparsity:.0%} zero"
    else:
        check_rule(rule, table.n_folds)
        function, why = NAMED[rule]
        index = function(table)
    _warn_of_edge(table.results["params"], index)
    dice = table.results["mean_dice"][index]
    overlap = "no second fold to compare with" if np.isnan(dice) else f"mean Dice index over folds {dice:.2f}"
    return index, f"{why}; {overlap}"


def check_rule(rule: Any, n_folds: int | None = None) -> None:
    """Raise a ValueError for an unknown rule, or one that compares folds, if there are too few of them."""
    if not callable(rule) and rule not in RULES:
        raise ValueError(
            f"unknown rule {rule!r}; choose one of {', '.join(map(repr, RULES))}, or give a function of "
            "cv_results_ that returns the number of a setting"
        )
    if n_folds is not None and n_folds < 2 and rule in ("one_se", "stability"):
        raise ValueError(
            f"rule={rule!r} needs the scores of at least two folds, there are {n_folds}; give more, or take "
            "rule='error'"
        )


def edge_of(settings: Sequence[Setting], chosen: Setting) -> str:
    """Return on which edge of the grid the chosen sparsity or alpha lies: "lowest", "highest" or empty."""
    name = next(iter(chosen))
    tried = {setting[name] for setting in settings}
    if len(tried) < FEWEST_VALUES or chosen[name] not in (min(tried), max(tried)):
        return ""
    return "lowest" if chosen[name] == min(tried) else "highest"


def _warn_of_edge(settings: Sequence[Setting], index: int) -> None:
    chosen = settings[index]
    name, which = next(iter(chosen)), edge_of(settings, chosen)
    if which:
        warn_user(
            f"the choice lies on the edge of the grid: {name}={chosen[name]:.4g} is the {which} value "
            "compared. Add values beyond it.",
            SelectionWarning,
        )
