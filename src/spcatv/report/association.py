"""Effect sizes, intervals and tests of scores against a variable and between groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special, stats

from spcatv._util.tables import MISSING
from spcatv._util.types import FloatArray, IntArray
from spcatv.report.permutation import (
    Exchange,
    PValues,
    centred,
    exchange_of,
    permutation_p_values,
    volumes_of_one_file,
)

FEWEST_UNITS = 4
LEVEL = 0.95
ONE_FILE = (
    "All samples are volumes of one file. Volumes of a run depend on each other, so that p-values would be "
    "far too small; if these volumes are independent, such as one per person, write one file each."
)


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
    p: PValues  # of Welch's F, or of F within blocks
    measure: str
    how: str


def correlations(scores: FloatArray, names: Sequence[str], variable: Sequence[float]) -> Correlations | str:
    """Pearson's and Spearman's correlations with a variable, NaN where it is not known.

    The scores have shape (n_samples, K); the names tell which samples come from one participant or run. A
    sentence is returned if there is no test: all samples are volumes of one file, fewer than four units are
    left, or the variable does not vary. The interval of r is Fisher's:
    ``tanh(atanh(r) +- 1.96 / sqrt(n - 3))``.
    """
    if volumes_of_one_file(names):
        return ONE_FILE
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
    """Correlation of a centred variable with centred columns, and its p-values (two-sided).

    Permutations compare the correlation over its standard error (DiCiccio and Romano, 2017), which keeps the
    level if the spread of the scores changes with the variable.
    """
    columns, line = _unit_columns(values), across / np.sqrt(np.square(across).sum())
    squares = columns**2

    def studentised(orders: IntArray) -> FloatArray:
        permuted = line[orders]
        return np.abs(permuted @ columns) / np.sqrt(np.maximum(permuted**2 @ squares, 1e-300))

    return np.clip(line @ columns, -1, 1), permutation_p_values(studentised, exchange, len(line))


def differences(scores: FloatArray, names: Sequence[str], groups: Sequence[Any]) -> Difference | Spread | str:
    """Compare the scores, shape (n_samples, K), between groups: a Difference of two, a Spread of more.

    The names tell which samples come from one participant or run. Samples without a label (empty or ``n/a``)
    are left out. A sentence is returned if there is no test: all samples are volumes of one file, there is
    one group only, a group has a single unit, too few participants have both, or there are more groups than
    half of the units.
    """
    if volumes_of_one_file(names):
        return ONE_FILE
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
    within = exchange.block is not None
    if counts.min() < 2 and not (within and len(kinds) > 2):
        return f"The group {kinds[counts.argmin()]} has a single sample, participant or run; leave it out."
    if len(kinds) > 2:
        share, p = _between(values, label, exchange)
        p = p if within else _welch(values, label)
        return Spread(tuple(map(str, kinds)), tuple(map(int, counts)), share, p, measure, how)
    compare = _paired if within else _independent
    return compare(values, label, (str(kinds[0]), str(kinds[1])), exchange, measure)


def _welch(values: FloatArray, label: IntArray) -> PValues:
    """Welch's F test of independent groups, corrected over components by Holm's method."""
    columns, counts = _unit_columns(centred(values, None)), np.bincount(label)[:, None]
    groups = [columns[label == group] for group in range(len(counts))]
    means = np.stack([group.mean(axis=0) for group in groups])
    weights = counts / np.maximum([group.var(axis=0, ddof=1) for group in groups], 1e-30)
    shares, between = weights / weights.sum(axis=0), len(groups) - 1
    spread = (weights * (means - (shares * means).sum(axis=0)) ** 2).sum(axis=0) / between
    lack = ((1 - shares) ** 2 / (counts - 1)).sum(axis=0) / (len(groups) ** 2 - 1)
    p = stats.f.sf(spread / (1 + 2 * (between - 1) * lack), between, 1 / (3 * lack))
    order, n_left = np.argsort(p), np.isfinite(p).sum() - np.arange(len(p))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(np.maximum(n_left, 1) * p[order]), 1.0)
    return PValues(p, corrected, 0)


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
    """Compare two independent groups by Welch's t and Hedges' g."""
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
    bounds = np.stack([difference - half, difference + half], axis=1)
    p = _welch(values, label)
    return Difference(
        names, (n, m), difference, bounds, effect, interval, p, False, measure, exchange.sentence
    )


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
