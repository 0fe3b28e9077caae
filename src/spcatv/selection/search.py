"""Cross-validation of a grid: which settings, on which folds, and what they give.

Chains (`spcatv.selection.chains`) run in parallel and come back in order; the loadings of a row of the grid
are reduced to scores, and dropped, as soon as its last fold is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv.data import Adjustment, as_data
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import check_parameters
from spcatv.progress import Listener, StageAdvanced
from spcatv.selection.chains import ChainResult, fit_chain
from spcatv.selection.folds import Fold
from spcatv.selection.grid import all_zero_alpha, grid_below
from spcatv.selection.path import Setting, setting_text, with_setting
from spcatv.selection.table import SelectionTable, SettingScores, score_setting
from spcatv.selection.workers import Failure, Workers
from spcatv.structure import Structure

Pair = tuple[float, float]
LEAVE_OUT = "leave it out for the default values"
# Settings of a grid that differ in sparsity alone, or in alpha alone.
Row = tuple[Setting, ...]


def values(name: str, given: Any) -> tuple[float, ...]:
    """A parameter that may be one number or several, as a tuple of different numbers."""
    numbers = (given,) if isinstance(given, Real) else tuple(given) if np.ndim(given) == 1 else ()
    if not numbers or any(isinstance(value, bool) or not isinstance(value, Real) for value in numbers):
        remedy = "take 'grid' for values that suit the data" if name == "alpha" else LEAVE_OUT
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {given!r}; {remedy}")
    return tuple(dict.fromkeys(float(value) for value in numbers))


def target_rows(template: SPCATV, sparsity: Any, smoothness: Any) -> list[Row]:
    """Every sparsity with every smoothness, one row per smoothness; checked."""
    shares = values("sparsity", sparsity)
    rows: list[Row] = [
        tuple({"sparsity": share, "smoothness": value} for share in shares)
        for value in values("smoothness", smoothness)
    ]
    for setting in (setting for row in rows for setting in row):
        check_parameters(with_setting(template, setting))
    return rows


def ratio_pairs(template: SPCATV, l1_ratio: Any, tv_ratio: Any) -> list[Pair]:
    """All pairs (l1_ratio, tv_ratio) that leave something for the l2 norm."""
    every = list(product(values("l1_ratio", l1_ratio), values("tv_ratio", tv_ratio)))
    pairs = [(l1, tv) for l1, tv in every if l1 + tv < 1] or every[:1]
    for l1, tv in pairs:
        check_parameters(clone(template).set_params(l1_ratio=l1, tv_ratio=tv))
    return pairs


def alpha_rows(pairs: Sequence[Pair], alphas: Sequence[float]) -> list[Row]:
    """Every alpha with every pair of ratios, one row per pair."""
    return [tuple({"alpha": alpha, "l1_ratio": l1, "tv_ratio": tv} for alpha in alphas) for l1, tv in pairs]


def row_below_all_zero(
    template: SPCATV,
    X: Any,
    structure: Structure,
    pair: Pair,
    adjustment: Adjustment,
    n_alphas: int,
    smallest: float,
) -> Row:
    """The row of a pair of ratios, with values of alpha that suit all samples (`alpha_grid`)."""
    estimator = clone(template).set_params(structure=structure, l1_ratio=pair[0], tv_ratio=pair[1])
    grid = grid_below(all_zero_alpha(estimator, adjustment.whole(as_data(X))), n_alphas, smallest)
    return alpha_rows([pair], grid.tolist())[0]


def cross_validate(
    pool: Workers,
    template: SPCATV,
    X: Any,
    structure: Structure,
    folds: Sequence[Fold],
    rows: Sequence[Row],
    *,
    adjustment: Adjustment,
    listener: Listener,
) -> tuple[SelectionTable, list[Failure]]:
    """Fit every setting of the grid on every fold; returns scores in the order given, and fits that failed.

    The template has everything but the settings and the structure. The listener hears of every chain that is
    done (`StageAdvanced`).
    """
    chains = [(template, X, structure, fold, row, adjustment) for row in rows for fold in folds]
    results = pool.run(fit_chain, chains)
    scores: list[SettingScores] = []
    failures: list[Failure] = []
    for number, row in enumerate(rows):
        of_row: list[ChainResult] = []
        for fold in folds:
            of_row.append(next(results))
            chain = f"chain {number * len(folds) + len(of_row)} of {len(chains)}"
            listener.hear(StageAdvanced(f"{chain}: fold {fold.number + 1}, {_row_text(row)}"))
        failures += [item for result in of_row for item in result.failures]
        by_setting = zip(*(result.outcomes for result in of_row), strict=True)
        scores += [score_setting(outcomes, int(template.n_components)) for outcomes in by_setting]
    return SelectionTable(tuple(setting for row in rows for setting in row), tuple(scores)), failures


def _row_text(row: Row) -> str:
    """A row in words: what its settings have in common, and how many there are."""
    varied, *fixed = row[0]
    return f"{setting_text({name: row[0][name] for name in fixed})}, {len(row)} values of {varied}"
