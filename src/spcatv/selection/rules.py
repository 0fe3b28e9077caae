"""Rules that choose a setting by the scores of all of them, with the reason (docs/method.md section 6.5).

A rule is a function of the table that returns the number of a setting; the first one wins a tie. The rules
here choose among eligible settings only: fitted on every fold, with every component nonempty on every fold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.parameters import RULES
from spcatv._util.types import BoolArray, FloatArray
from spcatv._util.warn import warn_user
from spcatv.selection.cross_validation import SelectionTable, standard_error
from spcatv.selection.path import Setting, row_key, setting_text

# The components that the paper wants to be sparse: the second and the third.
SPARSE_COMPONENTS = slice(1, 3)
# Settings whose shares of zeros differ by no more than this are equally sparse.
SAME_SPARSITY = 0.01
# Largest loss of explained held-out share for a sparser setting, as a share of that of the best one.
MOST_LOSS = 0.05
# Fewest values of sparsity or alpha that make a grid with an edge.
FEWEST_VALUES = 3


class SelectionWarning(UserWarning):
    """A choice was made, but not quite as it was asked for.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.selection import SelectionWarning
    >>> warnings.filterwarnings("error", category=SelectionWarning)
    """


@dataclass(frozen=True)
class Choice:
    """The setting that a rule chooses."""

    index: int  # its number
    reason: str  # why, in words


def paper_rule(table: SelectionTable, min_sparsity: float = 0.5) -> int:
    """Return the setting with the lowest error whose second and third components are sparse.

    `min_sparsity` is the share of zeros, as a mean over folds, that each of the two must have; with fewer
    components, those that there are. If no setting is sparse enough, the one that comes closest is taken,
    with a warning.
    """
    # empty components are left out
    sparsity = np.fmin.reduce(table.mean_sparsity[:, SPARSE_COMPONENTS], axis=1, initial=1.0)
    sparse = table.eligible & (sparsity >= min_sparsity)
    if sparse.any():
        return _first_lowest(table.mean_error, sparse)
    closest = _first_lowest(-sparsity, table.eligible)
    warn_user(
        f"no setting has second and third components of which {min_sparsity:.0%} are zero; taken is the one "
        f"that comes closest, {setting_text(table.params[closest])}, with {sparsity[closest]:.0%}. Add "
        "larger values of alpha or l1_ratio, or lower min_sparsity.",
        SelectionWarning,
    )
    return closest


def lowest_error(table: SelectionTable) -> int:
    """Return the setting with the lowest mean held-out error."""
    return _first_lowest(table.mean_error, table.eligible)


def one_standard_error(table: SelectionTable) -> int:
    """Return the sparsest setting as smooth as the best one that explains about as much.

    The best setting has the lowest mean error. A sparser one with the same smoothness (with alpha: the same
    ratios) may explain less of the held-out samples, by at most one standard error of the best one's share
    over folds, and at most 5 % of this share. Of settings that are equally sparse, the most stable is taken.
    """
    check_folds(int(table.used_folds.sum()), "one_se")
    best = lowest_error(table)
    explained = table.mean_explained[:, -1]
    error = float(standard_error(table.explained[best, :, -1]))
    loss = min(error, MOST_LOSS * max(float(explained[best]), 0.0))
    as_smooth = np.array([row_key(setting) == row_key(table.params[best]) for setting in table.params])
    near = table.eligible & as_smooth & (explained >= explained[best] - loss)
    near[best] = True
    sparsity = np.nan_to_num(table.overall_sparsity)  # a model without components is not sparse
    sparsest = near & (sparsity >= sparsity[near].max() - SAME_SPARSITY)
    return _first_lowest(-_reproducibility(table), sparsest)


def highest_stability(table: SelectionTable) -> int:
    """Return the most stable setting: highest Dice index over folds, corrected for chance."""
    check_folds(int(table.used_folds.sum()), "stability")
    return _first_lowest(-_reproducibility(table), table.eligible)


def choose(table: SelectionTable, rule: str | Callable[[dict[str, Any]], Any], min_sparsity: float) -> Choice:
    """Apply a rule by name, or one of the user's on ``cv_results_``, and check what it returns."""
    if not table.fitted.any():
        raise ValueError("no setting was fitted on every fold, so that none can be compared with the others")
    if not table.all_nonempty:
        n_components = table.mean_sparsity.shape[1]
        warn_user(
            f"no setting keeps all {n_components} components nonempty on every fold; compared are those with "
            "most of them. The data may have no more to explain: lower n_components.",
            SelectionWarning,
        )
    if callable(rule):
        index = rule(table.as_dict())
        if not isinstance(index, (int, np.integer)) or not 0 <= index < len(table.params):
            last = len(table.params) - 1
            raise ValueError(f"the rule must return the number of a setting, from 0 to {last}; got {index!r}")
        return Choice(int(index), f"chosen by the given function; {_overlap(table, int(index))}")
    if rule == "one_se":
        index = one_standard_error(table)
        why = "sparsest setting, as smooth as the one with the lowest error, that explains about as much"
    elif rule == "error":
        index, why = lowest_error(table), "lowest held-out error"
    elif rule == "stability":
        index, why = highest_stability(table), "most stable setting"
    elif rule == "paper":
        index = paper_rule(table, min_sparsity)
        why = f"lowest error with second and third components at least {min_sparsity:.0%} zero"
    else:
        raise ValueError(f"unknown rule {rule!r}; choose one of {', '.join(map(repr, RULES))} or a callable")
    return Choice(index, f"{why}; {_overlap(table, index)}")


def edge_of(settings: Sequence[Setting], chosen: Setting) -> str:
    """Return on which edge of the grid the chosen sparsity or alpha lies: "lowest", "highest" or empty."""
    name = next(iter(chosen))
    tried = {setting[name] for setting in settings}
    if len(tried) < FEWEST_VALUES or chosen[name] not in (min(tried), max(tried)):
        return ""
    return "lowest" if chosen[name] == min(tried) else "highest"


def warn_of_edge(settings: Sequence[Setting], chosen: Setting) -> None:
    """Warn if the chosen sparsity or alpha lies on the edge of the grid."""
    name, which = next(iter(chosen)), edge_of(settings, chosen)
    if which:
        warn_user(
            f"the choice lies on the edge of the grid: {name}={chosen[name]:.4g} is the {which} value "
            "compared. Add values beyond it.",
            SelectionWarning,
        )


def _overlap(table: SelectionTable, index: int) -> str:
    dice = table.dice[index].mean()
    return "no second fold to compare with" if np.isnan(dice) else f"mean Dice index over folds {dice:.2f}"


def _reproducibility(table: SelectionTable) -> FloatArray:
    """Return the corrected Dice index of every setting, -1 for settings without one."""
    return np.nan_to_num(table.corrected_dice, nan=-1.0)


def _first_lowest(values: FloatArray, among: BoolArray) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))


def check_folds(n_folds: int, rule: Any) -> None:
    """Raise a ValueError for a rule that compares folds, if there are too few of them."""
    if n_folds < 2 and rule in ("one_se", "stability"):
        raise ValueError(
            f"rule={rule!r} needs the scores of at least two folds, there are {n_folds}; give more, or take "
            "rule='error'"
        )
