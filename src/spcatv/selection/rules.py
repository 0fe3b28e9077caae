"""Which setting to choose, given the scores of all of them (docs/method.md section 6.5).

A rule is a function of the table that returns the number of a setting; the first one wins a tie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from spcatv._util.types import BoolArray, FloatArray
from spcatv._util.warn import warn_user
from spcatv.selection.path import setting_text
from spcatv.selection.table import SelectionTable, standard_error

# The components that the paper wants to be sparse: the second and the third.
SPARSE_COMPONENTS = slice(1, 3)


class SelectionWarning(UserWarning):
    """A choice was made, but not quite as it was asked for."""


def lowest_error(table: SelectionTable, min_sparsity: float = 0.5) -> int:
    """The paper's rule: lowest held-out error among settings with sparse second and third components.

    Parameters
    ----------
    table : SelectionTable
        Scores.
    min_sparsity : float, default=0.5
        Share of zeros, as a mean over folds, that each of the two must have; with fewer components, those
        that there are. If no setting is sparse enough, the one that comes closest is taken, with a warning.

    Returns
    -------
    int
    """
    sparsity = table.mean_sparsity[:, SPARSE_COMPONENTS].min(axis=1, initial=1.0)
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


def one_standard_error(table: SelectionTable) -> int:
    """The sparsest setting whose held-out explained share is within one standard error of the best one's.

    The best setting is that with the lowest mean error. The standard error is that of its explained share
    over folds: errors as they stand differ more between folds than between any two settings. A setting must
    also keep as many components alive as the best one.

    Parameters
    ----------
    table : SelectionTable
        Scores; at least two folds.

    Returns
    -------
    int
    """
    _check_folds(table, "one_se")
    best = _first_lowest(table.mean_error, table.eligible)
    explained = table.mean_explained[:, -1]
    threshold = explained[best] - standard_error(table.explained[best, :, -1])
    near = table.eligible & (explained >= threshold) & (table.n_live >= table.n_live[best])
    near[best] = True
    return _first_lowest(-table.mean_sparsity.mean(axis=1), near)


def stability_and_error(table: SelectionTable) -> int:
    """The setting closest to the ideal of explaining most and being perfectly reproducible.

    With ``g`` the held-out explained share over the largest one of all settings, and ``d`` the pairwise Dice
    index of matched supports over folds without what is due to chance, the distance to the ideal point is
    ``sqrt((1 - g)^2 + (1 - d)^2)``. Both are without unit, 1 at best, and 0 for a model that is no better
    than none.

    Parameters
    ----------
    table : SelectionTable
        Scores; at least two folds.

    Returns
    -------
    int
    """
    _check_folds(table, "stability")
    explained = np.where(table.eligible, table.mean_explained[:, -1], -np.inf)
    largest = explained.max()
    gain = explained / largest if largest > 0 else np.zeros_like(explained)
    return _first_lowest(np.hypot(1 - gain, 1 - table.corrected_dice), table.eligible)


RULES: tuple[str, ...] = ("paper", "one_se", "stability")


def choose(table: SelectionTable, rule: str | Callable[[dict[str, Any]], Any], min_sparsity: float) -> int:
    """Apply a rule by name, or one of the user's on ``cv_results_``, and check what it returns."""
    if not table.eligible.any():
        raise ValueError("no setting was fitted on every fold, so that none can be compared with the others")
    if rule == "paper":
        return lowest_error(table, min_sparsity)
    if rule == "one_se":
        return one_standard_error(table)
    if rule == "stability":
        return stability_and_error(table)
    if not callable(rule):
        raise ValueError(f"unknown rule {rule!r}; choose one of {', '.join(map(repr, RULES))} or a callable")
    index = rule(table.as_dict())
    if not isinstance(index, (int, np.integer)) or not 0 <= index < len(table.params):
        raise ValueError(
            f"the rule must return the number of a setting, from 0 to {len(table.params) - 1}; got {index!r}"
        )
    return int(index)


def _first_lowest(values: FloatArray, among: BoolArray) -> int:
    return int(np.argmin(np.where(among, values, np.inf)))


def _check_folds(table: SelectionTable, rule: str) -> None:
    n_folds = int(table.used_folds.sum())
    if n_folds < 2:
        raise ValueError(f"rule={rule!r} needs the scores of at least two folds, there are {n_folds}")
