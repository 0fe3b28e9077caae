"""Tests of the scores against a variable and between groups: effect sizes and p-values.

Samples of one participant, or volumes of one run, are not independent: an `Exchange` states which samples are
averaged, and which may be exchanged under the null hypothesis (docs/report.md).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special, stats

from spcatv._util.bids import PAIR, entities_of, files_of
from spcatv._util.tables import MISSING
from spcatv._util.types import FloatArray, IntArray

SEED = 0
MOST_PERMUTATIONS = 9999
FEWEST_PERMUTATIONS = 999
MOST_ENTRIES = 100_000_000  # of all permutations together
BLOCK_ENTRIES = 1 << 21  # of the permutations that are drawn at once
# Treat means of units as zero below this multiple of the deviation within units; rounding gives about 1e-7.
ZERO_MEANS = 1e-5
# Count a permuted statistic as equal to the observed one up to this relative rounding error.
ROUNDING = 1e-10
FEWEST_UNITS = 4
LEVEL = 0.95
# what is averaged over the samples of a unit, and how the sentence about it begins
SCORES, DEVIATIONS = "scores", "standard deviations of the scores in each run"
AVERAGED = {
    SCORES: "The scores were averaged over the samples",
    DEVIATIONS: f"Mean scores are zero up to rounding. The {DEVIATIONS} were averaged over the runs",
}
UNTESTED = "Components whose mean scores are zero up to rounding are not tested."
# Name of a sample that is a row of an array: such rows are no volumes of a run.
ARRAY_ROW = re.compile(r"\.(npy|npz|csv|tsv)\[\d+\]$")
ONE_FILE = (
    "All samples are volumes of one file. Volumes of a run depend on each other, so that p-values would be "
    "far too small; if these volumes are independent, such as one per person, write one file each."
)


@dataclass(frozen=True, eq=False)
class Exchange:
    """The units of a test, and which of them may be exchanged."""

    unit: IntArray  # the unit that every sample is averaged to, from 0, shape (n_samples,)
    block: IntArray | None  # the block of every unit, shape (n_units,); None if all may be exchanged
    shift: bool  # whether the units of a block are a series in time, which is shifted in a circle
    sentence: str  # the same in words, with {} for what was averaged

    @property
    def firsts(self) -> IntArray:
        """Return one sample of every unit, shape (n_units,)."""
        return _first_of_each(self.unit)

    @property
    def observed_order(self) -> IntArray:
        """Return the order of the data, shape (1, n_units)."""
        return np.arange(len(self.firsts))[None]

    @property
    def blocks(self) -> list[IntArray]:
        """Return the units of every block."""
        if self.block is None:
            return [np.arange(len(self.firsts))]
        return [np.flatnonzero(self.block == number) for number in range(self.block.max() + 1)]

    def average(self, scores: FloatArray, names: Sequence[str]) -> tuple[FloatArray, str, str]:
        """Average scores (n_samples, K) over units, or the deviations of centred runs, and say which."""
        means, runs = _means(scores, self.unit), runs_of(names)
        within = np.sqrt(np.square(scores - means[self.unit]).mean(axis=0))
        zero = means.std(axis=0) <= ZERO_MEANS * within
        if not (zero & (within > 0)).any():
            return means, SCORES, self.sentence.format(AVERAGED[SCORES])
        if zero.all() and runs is not None:
            part = _number(list(zip(self.unit.tolist(), runs, strict=True)))
            squares = np.square(scores - _means(scores, part)[part])
            deviations = _means(np.sqrt(_means(squares, part)), self.unit[_first_of_each(part)])
            return deviations, DEVIATIONS, self.sentence.format(AVERAGED[DEVIATIONS])
        return np.where(zero, 0.0, means), SCORES, f"{self.sentence.format(AVERAGED[SCORES])} {UNTESTED}"

    def apply_per_block(self, function: Callable[[FloatArray], FloatArray], values: FloatArray) -> FloatArray:
        """Apply a function to the values (n_units, K) of every block."""
        found = np.empty(values.shape)
        for members in self.blocks:
            found[members] = function(values[members])
        return found

    def standardise(self, values: FloatArray) -> FloatArray:
        """Centre columns of values (n_units, K) in blocks, to length 1; NaN where a column is constant."""
        return _unit_columns(self.apply_per_block(lambda own: own - own.mean(axis=0), values))

    def permutations(self) -> Iterator[IntArray]:
        """Yield random orders of the units in tables of shape (n, n_units), one order per row."""
        rng, n_units = np.random.default_rng(SEED), len(self.firsts)
        n_left = int(np.clip(MOST_ENTRIES // n_units, FEWEST_PERMUTATIONS, MOST_PERMUTATIONS))
        height = max(1, BLOCK_ENTRIES // n_units)
        while n_left > 0:
            n_orders = min(height, n_left)
            orders = np.empty((n_orders, n_units), dtype=np.int64)
            for members in self.blocks:
                if self.shift:
                    offset = rng.integers(len(members), size=(n_orders, 1))
                    orders[:, members] = members[(np.arange(len(members)) + offset) % len(members)]
                else:
                    orders[:, members] = rng.permuted(np.tile(members, (n_orders, 1)), axis=1)
            yield orders
            n_left -= n_orders


def runs_of(names: Sequence[str]) -> list[str] | None:
    """Return the file of every sample if some image file holds several volumes (``file[k]``), else None."""
    if any(ARRAY_ROW.search(name) for name in names):
        return None
    files = [PAIR.join(files_of(name)) for name in names]
    return files if len(set(files)) < len(files) else None


def participants_of(names: Sequence[str]) -> list[str] | None:
    """Return the participant of every sample by its file name; None if some name has none, or all differ."""
    people = [person for name in names if (person := entities_of(name).get("sub"))]
    return people if len(people) == len(names) and len(set(people)) < len(people) else None


def exchange_of(names: Sequence[str], values: Sequence[Any], *, labels: bool) -> Exchange:
    """Choose units and blocks for a test of one value per sample, by the table of docs/report.md."""
    people, runs = participants_of(names), runs_of(names)
    for noun, members in (("participant", people), ("run", runs)):
        if members is None or (labels and noun == "run" and people):
            continue
        if len(set(zip(members, values, strict=True))) > len(set(members)):  # their values differ
            continue
        unit = _number(members)
        block = None if noun == "participant" or people is None else _number(people)[_first_of_each(unit)]
        within = "" if block is None else ", and exchanged within every participant"
        return Exchange(unit, block, False, f"{{}} of every {noun} ({unit.max() + 1} {noun}s){within}.")
    if labels and (members := people or runs):
        noun = "participant" if people else "run"
        unit = _number(list(zip(members, map(str, values), strict=True)))
        text = f"{{}} of every {noun} and group, and the groups were compared within {noun}s."
        return Exchange(unit, _number(members)[_first_of_each(unit)], False, text)
    samples = np.arange(len(names))
    if runs is not None:
        text = "Correlations were computed within runs, and permutations shifted every run in a circle."
        return Exchange(samples, _number(runs), True, text)
    if people is not None:
        text = "Correlations were computed within participants, and samples were exchanged within them."
        return Exchange(samples, _number(people), False, text)
    return Exchange(samples, None, False, "")


def _number(labels: Sequence[Any]) -> IntArray:
    """Replace labels by numbers from 0, in the order of their first appearance."""
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(label, len(numbers)) for label in labels], dtype=np.int64)


def _first_of_each(numbers: IntArray) -> IntArray:
    return np.unique(numbers, return_index=True)[1]


def _means(table: FloatArray, number: IntArray) -> FloatArray:
    """Average the rows with the same number; one row per number from 0 on."""
    sums = np.stack([np.bincount(number, weights=column) for column in table.T], axis=1)
    return sums / np.bincount(number)[:, None]


def _unit_columns(values: FloatArray) -> FloatArray:
    """Divide centred columns by their norms; NaN where a column is constant."""
    norms = np.sqrt(np.square(values).sum(axis=0))
    norms[norms <= 1e-12 * np.abs(values).max(initial=0.0)] = np.nan
    return values / norms


@dataclass(frozen=True, eq=False)
class Effect:
    """Effect of one kind on K components, NaN where a component has none."""

    value: FloatArray  # shape (K,)
    interval: FloatArray | None = None  # 95 %, shape (K, 2)
    p: FloatArray | None = None  # of every component for itself, shape (K,)
    # p-values corrected for K components: the probability of a single false finding is controlled, shape (K,)
    corrected: FloatArray | None = None
    n_permutations: int = 0  # 0 for p-values of a distribution
    unit: str = ""  # "%" for shares, "scores" for differences of scores


@dataclass(frozen=True, eq=False)
class Comparison:
    """Comparison of the scores on all components with a variable, or between groups."""

    effects: dict[str, Effect]  # by their headings; the first one has p-values
    n: tuple[int, ...]  # units that were compared, by group
    groups: tuple[str, ...]  # empty for a variable
    measure: str  # what was compared: scores, or their standard deviations
    how: str  # what was averaged and exchanged; empty if samples were exchanged freely
    paired: bool = False  # whether two groups have the same participants

    @property
    def main(self) -> Effect:
        """The first effect, which has p-values."""
        return next(iter(self.effects.values()))


def correlations(scores: FloatArray, names: Sequence[str], variable: Sequence[float]) -> Comparison | str:
    """Correlate scores (n_samples, K) with a variable, NaN where it is unknown; or say why there is no test.

    The names identify samples of one participant or run.
    """
    if _in_one_file(names):
        return ONE_FILE
    given = np.asarray(variable, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(given)).tolist()
    used = [names[k] for k in known]
    exchange = exchange_of(used, given[known].tolist(), labels=False)
    n = len(exchange.firsts)
    if n < FEWEST_UNITS:
        return f"It is known for {n} samples, participants or runs; a test needs {FEWEST_UNITS}."
    numbers = given[known][exchange.firsts, None]
    values, measure, how = exchange.average(scores[known], used)
    if np.isnan(exchange.standardise(numbers)).all():
        return "It does not vary."
    pearson = _correlation(numbers, values, exchange)
    if exchange.block is None:
        ends = stats.pearsonr(numbers, exchange.standardise(values), axis=0).confidence_interval(LEVEL)
        pearson = replace(pearson, interval=np.stack(ends, axis=1))

    def ranks(table: FloatArray) -> FloatArray:
        return exchange.apply_per_block(lambda own: stats.rankdata(own, axis=0), table)

    effects = {"Pearson’s r": pearson, "Spearman’s ρ": _correlation(ranks(numbers), ranks(values), exchange)}
    return Comparison(effects, (n,), (), measure, how)


def _correlation(numbers: FloatArray, values: FloatArray, exchange: Exchange) -> Effect:
    """Correlate numbers of shape (n_units, 1) with columns within blocks, with two-sided p-values.

    Permutations compare the correlation over its standard error (DiCiccio and Romano, 2017), which keeps the
    level if the spread of the scores changes with the variable.
    """
    columns, line = exchange.standardise(values), exchange.standardise(numbers)[:, 0]
    squares = columns**2

    def studentised(orders: IntArray) -> FloatArray:
        permuted = line[orders]
        return np.abs(permuted @ columns) / np.sqrt(np.maximum(permuted**2 @ squares, 1e-300))

    return permutation_test(Effect(np.clip(line @ columns, -1, 1)), studentised, exchange)


def differences(scores: FloatArray, names: Sequence[str], groups: Sequence[Any]) -> Comparison | str:
    """Compare scores (n_samples, K) between groups; or say why there is no test.

    The names identify samples of one participant or run. Samples without a label are left out.
    """
    if _in_one_file(names):
        return ONE_FILE
    texts = [str(label) for label in groups]
    known = [k for k, text in enumerate(texts) if text.strip().lower() not in MISSING]
    if not known:
        return "No sample has a group."
    used = [names[k] for k in known]
    exchange = exchange_of(used, [texts[k] for k in known], labels=True)
    values, measure, how = exchange.average(scores[known], used)
    labels = np.array(texts)[known][exchange.firsts]
    kinds, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(kinds) < 2:
        return f"All samples are of one group ({kinds[0]})."
    if len(kinds) > len(labels) // 2:
        return f"There are {len(kinds)} groups of {len(labels)} samples, participants or runs: too many."
    within = exchange.block is not None
    if counts.min() < 2 and not (within and len(kinds) > 2):
        return f"The group {kinds[counts.argmin()]} has a single sample, participant or run; leave it out."
    found = Comparison({}, tuple(map(int, counts)), tuple(map(str, kinds)), measure, how)
    if len(kinds) > 2:
        shares = _shares_between(values, label, exchange)
        effect = Effect(shares(exchange.observed_order)[0], unit="%")
        if within:
            effect = permutation_test(effect, shares, exchange)
        else:
            groups = [values[label == group] for group in range(len(kinds))]
            with warnings.catch_warnings(action="ignore"):  # about empty components, whose results are NaN
                p = stats.f_oneway(*groups, equal_var=False).pvalue
            effect = replace(effect, p=p, corrected=_holm(p))
        return replace(found, effects={"η²": effect})
    if within:
        return _paired(values, label, exchange, found)
    first, second = values[label == 0], values[label == 1]
    with warnings.catch_warnings(action="ignore"):  # about empty components, whose results are NaN
        test = stats.ttest_ind(second, first, equal_var=False)
        ends = np.stack(test.confidence_interval(LEVEL), axis=1)
        freedom = sum(found.n) - 2
        squares = sum(group.var(axis=0) * len(group) for group in (first, second))
        difference = second.mean(axis=0) - first.mean(axis=0)
        root = np.sqrt(np.prod(found.n) / sum(found.n))
        g = hedges(difference / np.sqrt(squares / freedom), freedom, root)
    main = Effect(difference, ends, test.pvalue, _holm(test.pvalue), unit="scores")
    return replace(found, effects={"Difference": main, "Hedges’ g": Effect(*g)})


def _in_one_file(names: Sequence[str]) -> bool:
    """Return whether all samples are volumes of a single file."""
    runs = runs_of(names)
    return runs is not None and len(set(runs)) == 1


def _paired(values: FloatArray, label: IntArray, exchange: Exchange, found: Comparison) -> Comparison | str:
    """Compare two groups within participants (or runs) that have both; the others are left out."""
    block = exchange.block
    assert block is not None
    complete = np.bincount(block) == 2  # a unit is all samples of one block and group
    n = int(complete.sum())
    if n < 2:
        return f"{n} participants or runs have both groups, some have one; a test needs 2 pairs."
    kept = np.flatnonzero(complete[block])
    kept = kept[np.lexsort((label[kept], block[kept]))]  # pair after pair
    first, second = values[kept].reshape(n, 2, -1).swapaxes(0, 1)
    pairs = Exchange(np.arange(2 * n), np.repeat(np.arange(n), 2), False, "")
    with warnings.catch_warnings(action="ignore"):  # about empty components, whose results are NaN
        ends = stats.ttest_rel(second, first).confidence_interval(LEVEL)
        change = second - first
        g = hedges(change.mean(axis=0) / change.std(axis=0, ddof=1), n - 1, np.sqrt(n))
    how = found.how
    if n < len(complete):
        how += f" {len(complete) - n} that have one group only were left out."
    if (smallest := 2.0 ** (1 - n)) > 0.05:
        how += f" With so few of them, no p-value can be below {smallest:.2g}."
    main = Effect(change.mean(axis=0), np.stack(ends, axis=1), unit="scores")
    main = permutation_test(main, _shares_between(values[kept], label[kept], pairs), pairs)
    effects = {"Difference": main, "Hedges’ g": Effect(*g)}
    return replace(found, effects=effects, n=(n, n), how=how, paired=True)


def _holm(p: FloatArray) -> FloatArray:
    """Correct p-values over components by Holm's method."""
    order, n_left = np.argsort(p), np.isfinite(p).sum() - np.arange(len(p))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(np.maximum(n_left, 1) * p[order]), 1.0)
    return corrected


def _shares_between(
    values: FloatArray, label: IntArray, exchange: Exchange
) -> Callable[[IntArray], FloatArray]:
    """Return a function of orders: the share of the variance between groups, with which F grows."""
    columns, counts = exchange.standardise(values), np.bincount(label)

    def shares(orders: IntArray) -> FloatArray:
        permuted = label[orders]
        sums = ((permuted == group).astype(np.float64) @ columns for group in range(len(counts)))
        return sum((total**2 / n for total, n in zip(sums, counts, strict=True)), np.zeros(()))

    return shares


def permutation_test(
    effect: Effect, statistic: Callable[[IntArray], FloatArray], exchange: Exchange
) -> Effect:
    """Add p-values: compare a statistic with its values under random orders of the units.

    `statistic` takes orders of shape (n, n_units) and returns one row per order and one column per component;
    larger values are more extreme. With B orders, ``p = (1 + #{as extreme}) / (1 + B)`` (Phipson and Smyth,
    2010). `scipy.stats.permutation_test` neither keeps blocks nor shifts series.
    """
    observed = statistic(exchange.observed_order)[0]
    least = observed - ROUNDING * np.abs(observed)
    alone, corrected, n_drawn = np.zeros(len(observed)), np.zeros(len(observed)), 0
    for orders in exchange.permutations():
        values = np.nan_to_num(statistic(orders), nan=-np.inf)
        alone += (values >= least).sum(axis=0)
        corrected += (values.max(axis=1, keepdims=True) >= least).sum(axis=0)
        n_drawn += len(orders)
    missing = np.where(np.isnan(observed), np.nan, 0.0)
    p, corrected = ((1 + counts) / (1 + n_drawn) + missing for counts in (alone, corrected))
    return replace(effect, p=p, corrected=corrected, n_permutations=n_drawn)


def hedges(standardised: FloatArray, freedom: int, root: float) -> tuple[FloatArray, FloatArray]:
    """Hedges' g of standardised mean differences d of shape (K,), and its 95 % interval of shape (K, 2).

    ``g = J d`` with ``J = Gamma(f/2) / (sqrt(f/2) Gamma((f-1)/2))`` and f the degrees of freedom, which makes
    g unbiased. ``root * d`` has a noncentral t distribution with noncentrality ``root * delta``: the ends of
    the interval are the values of delta for which d is the 97.5 % or the 2.5 % quantile.
    """
    factor = 1.0
    if freedom > 1:
        factor = float(special.poch((freedom - 1) / 2, 0.5) / np.sqrt(freedom / 2))
    # SciPy's inverse loses digits for negative t; the distributions mirror each other
    t, sign = root * np.abs(standardised), np.where(standardised < 0, -1.0, 1.0)
    low, high = (sign * special.nctdtrinc(freedom, q, t) / root for q in ((1 + LEVEL) / 2, (1 - LEVEL) / 2))
    return factor * standardised, np.sort(np.stack([low, high], axis=1), axis=1)
