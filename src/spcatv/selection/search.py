"""Cross-validation of a grid: which settings, on which folds, and what they give.

Chains (`spcatv.selection.chains`) run in parallel and come back in order; the loadings of a pair of ratios
are reduced to scores, and dropped, as soon as its last fold is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters
from spcatv.progress import Listener, StageAdvanced
from spcatv.selection.chains import ChainResult, fit_chain
from spcatv.selection.folds import Fold
from spcatv.selection.grid import all_zero_alpha, grid_below
from spcatv.selection.path import Setting
from spcatv.selection.sparsity import SearchLimits, SparsityChoice, find_sparsity
from spcatv.selection.table import SelectionTable, SettingScores, score_setting
from spcatv.selection.workers import Failure, Workers
from spcatv.structure import Structure

Pair = tuple[float, float]


@dataclass(frozen=True, eq=False)
class AlphaPlan:
    """Where the values of alpha come from.

    Attributes
    ----------
    given : tuple of float or None
        Values given, the same for all ratios.
    sparsity : float, tuple of float or None
        Share of zeros wanted, from which each pair of ratios gets its own alpha.
    n_alphas, smallest
        Otherwise a grid for each pair of ratios, see `alpha_grid`.
    """

    given: tuple[float, ...] | None
    sparsity: float | tuple[float, ...] | None
    n_alphas: int
    smallest: float


@dataclass(frozen=True, eq=False)
class PairSettings:
    """The settings of one pair of ratios.

    Attributes
    ----------
    settings : tuple of mapping
        One per value of alpha.
    choice : SparsityChoice or None
        How alpha was found, if a share of zeros was asked for.
    """

    settings: tuple[Setting, ...]
    choice: SparsityChoice | None = None


def values(name: str, given: Any) -> tuple[float, ...]:
    """A parameter that may be one number or several, as a tuple of different numbers."""
    numbers = (given,) if isinstance(given, Real) else tuple(given) if np.ndim(given) == 1 else ()
    if not numbers or any(isinstance(value, bool) or not isinstance(value, Real) for value in numbers):
        raise ValueError(f"{name} must be a number or a sequence of numbers, got {given!r}")
    return tuple(dict.fromkeys(float(value) for value in numbers))


def ratio_pairs(template: SPCATV, l1_ratio: Any, tv_ratio: Any) -> list[Pair]:
    """All pairs (l1_ratio, tv_ratio) that leave something for the l2 norm."""
    every = list(product(values("l1_ratio", l1_ratio), values("tv_ratio", tv_ratio)))
    pairs = [(l1, tv) for l1, tv in every if l1 + tv < 1] or every[:1]
    for l1, tv in pairs:
        check_parameters(clone(template).set_params(l1_ratio=l1, tv_ratio=tv))
    return pairs


def plan_pair(template: SPCATV, X: Any, structure: Structure, pair: Pair, alphas: AlphaPlan) -> PairSettings:
    """The settings of a pair of ratios; alpha found on all samples where it is not given."""
    ratios = {"l1_ratio": pair[0], "tv_ratio": pair[1]}
    estimator = clone(template).set_params(structure=structure, **ratios)
    if alphas.given is not None:
        return PairSettings(tuple({"alpha": alpha, **ratios} for alpha in alphas.given))
    if alphas.sparsity is None:
        grid = grid_below(all_zero_alpha(estimator, X), alphas.n_alphas, alphas.smallest)
        return PairSettings(tuple({"alpha": float(alpha), **ratios} for alpha in grid))
    choice = find_sparsity(estimator, X, alphas.sparsity, SearchLimits())
    alpha = choice.alphas if isinstance(alphas.sparsity, tuple) else choice.alphas[0]
    return PairSettings(({"alpha": alpha, **ratios},), choice)


def cross_validate(
    pool: Workers,
    template: SPCATV,
    X: Any,
    structure: Structure,
    folds: Sequence[Fold],
    pairs: Sequence[PairSettings],
    listener: Listener,
) -> tuple[SelectionTable, list[Failure]]:
    """Fit every setting on every fold.

    Parameters
    ----------
    pool : Workers
        Where the chains run.
    template : SPCATV
        Everything but the weights and the structure.
    X : ndarray or Data of shape (n_samples, n_features)
        Checked data.
    structure : Structure
        On the features.
    folds : sequence of Fold
        Splits of the samples.
    pairs : sequence of PairSettings
        Settings, those with the same ratios together.
    listener : Listener
        Hears of every chain that is done (`StageAdvanced`).

    Returns
    -------
    table : SelectionTable
        Scores of all settings, in the order given.
    failures : list of Failure
        Fits that failed.
    """
    chains = [(template, X, structure, fold, pair.settings) for pair in pairs for fold in folds]
    results = pool.run(fit_chain, chains)
    scores: list[SettingScores] = []
    failures: list[Failure] = []
    for number, pair in enumerate(pairs):
        of_pair: list[ChainResult] = []
        for fold in folds:
            of_pair.append(next(results))
            note = (
                f"chain {number * len(folds) + len(of_pair)} of {len(chains)}: fold {fold.number + 1}, "
                f"l1_ratio={pair.settings[0]['l1_ratio']:g}, tv_ratio={pair.settings[0]['tv_ratio']:g}, "
                f"{len(pair.settings)} values of alpha"
            )
            listener.hear(StageAdvanced(note))
        failures += [item for result in of_pair for item in result.failures]
        by_setting = zip(*(result.outcomes for result in of_pair), strict=True)
        scores += [score_setting(outcomes, int(template.n_components)) for outcomes in by_setting]
    params = tuple(setting for pair in pairs for setting in pair.settings)
    return SelectionTable(params, tuple(scores)), failures
