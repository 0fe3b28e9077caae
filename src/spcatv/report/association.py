"""How the scores go with a variable or differ between groups: effect sizes, intervals, permutation tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
from scipy import special, stats

from spcatv._util.tables import MISSING
from spcatv._util.types import FloatArray, IntArray
from spcatv.report.permutation import Exchange, PValues, centred, exchange_of, permutation_p_values

FEWEST_UNITS = 4
LEVEL = 0.95
# Permutations of Welch's t keep their level if variances differ, but only roughly with fewer units than this
# in one group and many more in the other.
FEW_IN_GROUP = 10
UNEQUAL_SIZES = 2
FEW = "With {} in the smaller group, p-values are approximate if the variances of the groups differ."
UNEQUAL = "Groups of so different size may also differ in this test because their variances do."


@dataclass(frozen=True, eq=False)
class Correlations:
    """Correlation of the scores on every component with a variable; arrays have shape (K,)."""

    n: int  # units that were compared
    pearson: FloatArray
    interval: FloatArray | None  # of Pearson's r, shape (K, 2); None for correlations within blocks
    pearson_p: PValues
    spearman: FloatArray
    spearman_p: PValues
    measure: str  # what was correlated: scores, or their standard deviations
    how: str  # what was averaged and exchanged; empty if samples were exchanged freely


@dataclass(frozen=True, eq=False)
class Difference:
    """Two groups: mean of the second less mean of the first on every component; arrays have shape (K,)."""

    names: tuple[str, str]
    n: tuple[int, int]
    difference: FloatArray
    interval: FloatArray  # of the difference, by Student's t (Welch's, if the groups are independent), (K, 2)
    effect: FloatArray  # Hedges' g
    effect_interval: FloatArray  # shape (K, 2)
    p: PValues
    paired: bool  # whether both groups have the same participants
    measure: str
    how: str


@dataclass(frozen=True, eq=False)
class Spread:
    """More than two groups: the share of the scores' variance between them; arrays have shape (K,)."""

    names: tuple[str, ...]
    n: tuple[int, ...]
    share: FloatArray  # eta squared
    p: PValues  # of the F statistic
    measure: str
    how: str


def correlations(scores: FloatArray, names: Sequence[str], variable: Sequence[float]) -> Correlations | str:
    """Pearson's and Spearman's correlations with a variable, NaN where it is not known.

    The scores have shape (n_samples, K); the names tell which samples come from one participant or run. A
    sentence is returned if there is no test: fewer than four units are left, or the variable does not vary.
    The interval of r is Fisher's:
    ``tanh(atanh(r) +- 1.96 / sqrt(n - 3))``.
    """
    given = np.asarray(variable, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(given)).tolist()
    used = [names[k] for k in known]
    exchange = exchange_of(used, given[known].tolist(), labels=False)
    n = len(exchange.firsts())
    if n < FEWEST_UNITS:
        return f"It is known for {n} samples, participants or runs; a test needs {FEWEST_UNITS}."
    numbers, (values, measure, how) = given[known][exchange.firsts()], exchange.averaged(scores[known], used)
    across = centred(numbers, exchange.block)
    if np.ptp(across) == 0:
        return "It does not vary."
    pearson, pearson_p = _correlation(across, centred(values, exchange.block), exchange)
    spearman, spearman_p = _correlation(_ranks(numbers, exchange), _ranks(values, exchange), exchange)
    interval = None
    if exchange.block is None:
        with np.errstate(divide="ignore"):
            centre = np.arctanh(pearson)
        half = stats.norm.ppf((1 + LEVEL) / 2) / np.sqrt(n - 3)
        interval = np.tanh(np.stack([centre - half, centre + half], axis=1))
    return Correlations(n, pearson, interval, pearson_p, spearman, spearman_p, measure, how)


def _ranks(values: FloatArray, exchange: Exchange) -> FloatArray:
    """Ranks of the columns among all units, or among those of the same block; centred."""
    if exchange.block is None:
        return centred(stats.rankdata(values, axis=0), None)
    ranks = np.empty(values.shape)
    for number in range(exchange.block.max() + 1):
        members = exchange.block == number
        ranks[members] = stats.rankdata(values[members], axis=0)
    return centred(ranks, exchange.block)


def _unit_columns(values: FloatArray) -> FloatArray:
    """Centred columns divided by their norms; NaN where a column is constant."""
    norms = np.sqrt(np.square(values).sum(axis=0))
    norms[norms <= 1e-12 * np.abs(values).max(initial=0.0)] = np.nan
    return values / norms


def _correlation(across: FloatArray, values: FloatArray, exchange: Exchange) -> tuple[FloatArray, PValues]:
    """Correlation of a centred variable with centred columns, and its p-values (two-sided)."""
    columns, line = _unit_columns(values), across / np.sqrt(np.square(across).sum())
    p = permutation_p_values(lambda orders: np.abs(line[orders] @ columns), exchange, len(line))
    return np.clip(line @ columns, -1, 1), p


def differences(scores: FloatArray, names: Sequence[str], groups: Sequence[Any]) -> Difference | Spread | str:
    """How the scores, of shape (n_samples, K), differ between groups: a Difference of two, a Spread of more.

    The names tell which samples come from one participant or run. Samples without a label (empty or ``n/a``)
    are left out. A sentence is returned if there is no test: there is one group only, one of two groups has a
    single unit, too few participants have both, or there are more groups than half of the units.
    """
    texts = [str(label) for label in groups]
    known = np.array([k for k, text in enumerate(texts) if text.strip().lower() not in MISSING], dtype=int)
    if len(known) == 0:
        return "No sample has a group."
    used = [names[k] for k in known]
    exchange = exchange_of(used, [texts[k] for k in known], labels=True)
    values, measure, how = exchange.averaged(scores[known], used)
    exchange = replace(exchange, sentence=how)
    labels = np.array(texts, dtype=object)[known][exchange.firsts()]
    kinds, label, counts = np.unique(labels.astype(str), return_inverse=True, return_counts=True)
    if len(kinds) < 2:
        return f"All samples are of one group ({kinds[0]})."
    if len(kinds) > len(labels) // 2:
        return f"There are {len(kinds)} groups of {len(labels)} samples, participants or runs: too many."
    if len(kinds) > 2:
        share, p = _between(values, label, exchange)
        how = f"{how} {UNEQUAL if _is_unequal(counts.tolist()) else ''}".strip()
        return Spread(tuple(map(str, kinds)), tuple(map(int, counts)), share, p, measure, how)
    if counts.min() < 2:
        return f"The group {kinds[counts.argmin()]} has a single sample, participant or run."
    compare = _independent if exchange.block is None else _paired
    return compare(values, label, (str(kinds[0]), str(kinds[1])), exchange, measure)


def _between(values: FloatArray, label: IntArray, exchange: Exchange) -> tuple[FloatArray, PValues]:
    """Share of the variance between groups, and the p-values of F, which grows with this share."""
    columns = _unit_columns(centred(values, exchange.block))
    counts = np.bincount(label)

    def share(orders: IntArray) -> FloatArray:
        permuted = label[orders]
        sums = ((permuted == group).astype(np.float64) @ columns for group in range(len(counts)))
        return sum((total**2 / n for total, n in zip(sums, counts, strict=True)), np.zeros(()))

    return share(np.arange(len(label))[None])[0], permutation_p_values(share, exchange, len(label))


def _independent(
    values: FloatArray, label: IntArray, names: tuple[str, str], exchange: Exchange, measure: str
) -> Difference:
    """Welch's t, which permutations of groups with unequal variances call for, and Hedges' g."""
    first, second = values[label == 0], values[label == 1]
    n, m = len(first), len(second)
    errors = first.var(axis=0, ddof=1) / n, second.var(axis=0, ddof=1) / m
    error = errors[0] + errors[1]
    difference = second.mean(axis=0) - first.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = error**2 / (errors[0] ** 2 / (n - 1) + errors[1] ** 2 / (m - 1))
        half = stats.t.ppf((1 + LEVEL) / 2, freedom) * np.sqrt(error)
        pooled = np.sqrt((errors[0] * n * (n - 1) + errors[1] * m * (m - 1)) / (n + m - 2))
        standardised = difference / pooled
    effect, interval = hedges(standardised, n + m - 2, np.sqrt(n * m / (n + m)))
    columns = _unit_columns(centred(values, None))
    squares = columns**2

    def welch(orders: IntArray) -> FloatArray:
        inside = label[orders].astype(np.float64)
        high, high_squares = inside @ columns, inside @ squares
        low, low_squares = columns.sum(axis=0) - high, squares.sum(axis=0) - high_squares
        variance = (high_squares - high**2 / m) / (m - 1) / m + (low_squares - low**2 / n) / (n - 1) / n
        return np.abs(high / m - low / n) / np.sqrt(np.maximum(variance, 1e-300))

    p = permutation_p_values(welch, exchange, n + m)
    bounds = np.stack([difference - half, difference + half], axis=1)
    how = _with_limit(exchange.sentence, (2 if n == m else 1) / comb(n + m, n))
    if _is_unequal((n, m)) and min(n, m) < FEW_IN_GROUP:
        how = f"{how} {FEW.format(min(n, m))}".strip()
    return Difference(names, (n, m), difference, bounds, effect, interval, p, False, measure, how)


def _paired(
    values: FloatArray, label: IntArray, names: tuple[str, str], exchange: Exchange, measure: str
) -> Difference | str:
    """Compare the groups within participants (or runs) that have both; the others are left out."""
    block = exchange.block
    assert block is not None
    complete = np.bincount(block) == 2  # a unit is all samples of one block and group
    if complete.sum() < 2:
        return f"{complete.sum()} participants or runs have both groups, some have one; a test needs 2 pairs."
    keep = complete[block]
    values, label = values[keep], label[keep]
    block = np.unique(block[keep], return_inverse=True)[1]
    exchange = replace(exchange, block=block)
    n = int(complete.sum())
    change = np.empty((n, values.shape[1]))
    change[block[label == 1]] = values[label == 1]
    change[block[label == 0]] -= values[label == 0]
    mean, deviation = change.mean(axis=0), change.std(axis=0, ddof=1)
    half = stats.t.ppf((1 + LEVEL) / 2, n - 1) * deviation / np.sqrt(n)
    with np.errstate(divide="ignore", invalid="ignore"):
        standardised = mean / deviation
    effect, interval = hedges(standardised, n - 1, np.sqrt(n))
    _, p = _between(values, label, exchange)
    bounds = np.stack([mean - half, mean + half], axis=1)
    left_out = f" {len(complete) - n} that have one group only were left out." if n < len(complete) else ""
    how = _with_limit(exchange.sentence + left_out, 2.0 ** (1 - n))
    return Difference(names, (n, n), mean, bounds, effect, interval, p, True, measure, how)


def _is_unequal(counts: Sequence[int]) -> bool:
    return max(counts) >= UNEQUAL_SIZES * min(counts)


def _with_limit(how: str, smallest: float) -> str:
    """Add that groups are too small for any small p-value, if they are."""
    limit = f"With so few of them, no p-value can be below {smallest:.2g}." if smallest > 0.05 else ""
    return f"{how} {limit}".strip()


def hedges(standardised: FloatArray, freedom: int, root: float) -> tuple[FloatArray, FloatArray]:
    """Hedges' g of standardised mean differences d of shape (K,), and its 95 % interval of shape (K, 2).

    ``g = J d`` with ``J = Gamma(f/2) / (sqrt(f/2) Gamma((f-1)/2))`` and f the degrees of freedom, which makes
    g unbiased. ``root * d`` has a noncentral t distribution with noncentrality ``root * delta``: the ends of
    the interval are the values of delta for which d is the 97.5 % or the 2.5 % quantile.
    """
    factor = 1.0
    if freedom > 1:
        log = special.gammaln(freedom / 2) - special.gammaln((freedom - 1) / 2)
        factor = float(np.exp(log) / np.sqrt(freedom / 2))
    # SciPy's inverse loses digits for negative t; the distributions mirror each other
    t, sign = root * np.abs(standardised), np.where(standardised < 0, -1.0, 1.0)
    low, high = (sign * special.nctdtrinc(freedom, q, t) / root for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    ends = np.sort(np.stack([low, high], axis=1), axis=1)
    return factor * standardised, ends
