"""Tests of the scores against a variable and between groups: effect sizes, p-values and sentences."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import special, stats

from spcatv._util.tables import MISSING
from spcatv._util.types import FloatArray, IntArray
from spcatv.report import formatting as fmt
from spcatv.report.exchange import SCORES, SEED, Exchange, exchange_of, runs_of
from spcatv.report.inputs import ReportInputs
from spcatv.report.sections import Section, SectionTable, component_table

# Count a permuted statistic as equal to the observed one up to this relative rounding error.
ROUNDING = 1e-10
FEWEST_UNITS = 4
LEVEL = 0.95
ONE_FILE = (
    "All samples are volumes of one file. Volumes of a run depend on each other, so that p-values would be "
    "far too small; if these volumes are independent, such as one per person, write one file each."
)


@dataclass(frozen=True, eq=False)
class PValues:
    """p-values of K components, NaN where a component has no statistic."""

    alone: FloatArray  # of every component for itself, shape (K,)
    # corrected for K components, which controls the probability of a single false finding, shape (K,)
    corrected: FloatArray
    n_permutations: int = 0  # 0 for p-values of a distribution


@dataclass(frozen=True, eq=False)
class Effect:
    """Effect of one kind on K components."""

    value: FloatArray  # shape (K,)
    interval: FloatArray | None = None  # 95 %, shape (K, 2)
    p: PValues | None = None
    unit: str = ""  # "%" for shares, "scores" for differences of scores

    def texts(self, k: int) -> tuple[str, str]:
        """Write the effect on component `k`, and its interval."""
        value = float(self.value[k])
        ends = (math.nan, math.nan) if self.interval is None else self.interval[k]
        width = float(ends[1] - ends[0]) / 2
        if self.unit == "%":
            return fmt.percent(value, 2), "–"
        if self.unit == "scores" and not width > 0:
            return fmt.number(value), "–"
        # a difference is rounded to two digits of the half width of its interval
        decimals = max(0, 1 - math.floor(math.log10(width))) if self.unit == "scores" else 2
        low, high = (fmt.fixed(float(end), decimals) for end in ends)
        return fmt.fixed(value, decimals), "–" if math.isnan(width) else f"{low} to {high}"


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
    def p(self) -> PValues:
        """The p-values of the first effect."""
        found = next(iter(self.effects.values())).p
        assert found is not None
        return found


@dataclass(frozen=True)
class Relation:
    """Result of a test for the page; without a test, only the text is given, with the reason."""

    title: str
    text: str
    table: SectionTable | None = None
    sentences: tuple[str, ...] = ()  # one per component, empty for a component without a test
    # sentences for the methods section of a paper: what was compared, and how p-values were found
    method: str = ""
    p_method: str = ""


def relations(inputs: ReportInputs) -> tuple[Relation, ...]:
    """Test the scores against the variable and between the groups, as far as both are given."""
    scores, found = inputs.scores, []
    fitted = getattr(getattr(inputs.model, "preparation_", None), "confounds", None)
    confounds = () if fitted is None else tuple(fitted.columns)
    for column, compare, title in (
        (inputs.variable, correlations, "Scores and"),
        (inputs.groups, differences, "Scores by"),
    ):
        if scores is None or column is None:
            continue
        result = compare(scores.values, scores.names, column.values)
        title = f"{title} {column.name}"
        if isinstance(result, str):
            found.append(Relation(title, f"No test of {column.name}. {result}"))
        else:
            found.append(_relation(result, title, column.name, removed=column.name in confounds))
    return tuple(found)


def relations_section(found: Sequence[Relation]) -> Section | None:
    """Create the section about what the scores go with; None without a variable or groups."""
    parts = tuple(Section(relation.title, relation.text, table=relation.table) for relation in found)
    return Section("What the scores go with", parts=parts, id="relations") if parts else None


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
    values, measure, how = exchange.averaged(scores[known], used)
    if np.ptp(exchange.centred(numbers)) == 0:
        return "It does not vary."
    effects = {
        "Pearson’s r": _correlation(numbers, values, exchange),
        "Spearman’s ρ": _correlation(exchange.ranked(numbers), exchange.ranked(values), exchange),
    }
    if exchange.block is None:
        pearson = stats.pearsonr(numbers, _unit_columns(exchange.centred(values)), axis=0)
        ends = np.stack(pearson.confidence_interval(LEVEL), axis=1)
        effects["Pearson’s r"] = replace(effects["Pearson’s r"], interval=ends)
    return Comparison(effects, (n,), (), measure, how)


def _correlation(numbers: FloatArray, values: FloatArray, exchange: Exchange) -> Effect:
    """Correlate numbers of shape (n_units, 1) with columns within blocks, with two-sided p-values.

    Permutations compare the correlation over its standard error (DiCiccio and Romano, 2017), which keeps the
    level if the spread of the scores changes with the variable.
    """
    columns = _unit_columns(exchange.centred(values))
    line = _unit_columns(exchange.centred(numbers))[:, 0]
    squares = columns**2

    def studentised(orders: IntArray) -> FloatArray:
        permuted = line[orders]
        return np.abs(permuted @ columns) / np.sqrt(np.maximum(permuted**2 @ squares, 1e-300))

    return Effect(np.clip(line @ columns, -1, 1), p=permutation_p_values(studentised, exchange))


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
    values, measure, how = exchange.averaged(scores[known], used)
    labels = np.array(texts)[known][exchange.firsts]
    kinds, label, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(kinds) < 2:
        return f"All samples are of one group ({kinds[0]})."
    if len(kinds) > len(labels) // 2:
        return f"There are {len(kinds)} groups of {len(labels)} samples, participants or runs: too many."
    within = exchange.block is not None
    if counts.min() < 2 and not (within and len(kinds) > 2):
        return f"The group {kinds[counts.argmin()]} has a single sample, participant or run; leave it out."
    n, groups = tuple(map(int, counts)), tuple(map(str, kinds))
    if len(kinds) > 2:
        effect = _between(values, label, exchange)
        effect = effect if within else replace(effect, p=_welch(values, label))
        return Comparison({"η²": effect}, n, groups, measure, how)
    if within:
        return _paired(values, label, exchange, Comparison({}, n, groups, measure, how, paired=True))
    first, second = values[label == 0], values[label == 1]
    with _quiet():
        test = stats.ttest_ind(second, first, equal_var=False)
        ends = np.stack(test.confidence_interval(LEVEL), axis=1)
        freedom = sum(n) - 2
        pooled = (first.var(axis=0, ddof=1) * (n[0] - 1) + second.var(axis=0, ddof=1) * (n[1] - 1)) / freedom
        difference = second.mean(axis=0) - first.mean(axis=0)
        g = hedges(difference / np.sqrt(pooled), freedom, np.sqrt(n[0] * n[1] / sum(n)))
    p = PValues(test.pvalue, _holm(test.pvalue))
    effects = {"Difference": Effect(difference, ends, p, unit="scores"), "Hedges’ g": Effect(*g)}
    return Comparison(effects, n, groups, measure, how)


def _in_one_file(names: Sequence[str]) -> bool:
    """Return whether all samples are volumes of a single file."""
    runs = runs_of(names)
    return runs is not None and len(set(runs)) == 1


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence warnings about empty components, whose results are NaN."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _paired(
    values: FloatArray, label: IntArray, exchange: Exchange, comparison: Comparison
) -> Comparison | str:
    """Compare two groups within participants (or runs) that have both; the others are left out."""
    block = exchange.block
    assert block is not None
    complete = np.bincount(block) == 2  # a unit is all samples of one block and group
    n = int(complete.sum())
    if n < 2:
        return f"{n} participants or runs have both groups, some have one; a test needs 2 pairs."
    kept = np.flatnonzero(complete[block])
    kept = kept[np.lexsort((label[kept], block[kept]))]  # pair after pair
    pairs = values[kept].reshape(n, 2, -1)
    exchange = Exchange(np.arange(2 * n), np.repeat(np.arange(n), 2), False, "")
    p = _between(values[kept], label[kept], exchange).p
    assert p is not None
    with _quiet():
        ends = stats.ttest_rel(pairs[:, 1], pairs[:, 0]).confidence_interval(LEVEL)
        change = pairs[:, 1] - pairs[:, 0]
        g = hedges(change.mean(axis=0) / change.std(axis=0, ddof=1), n - 1, np.sqrt(n))
    how = comparison.how
    if n < len(complete):
        how += f" {len(complete) - n} that have one group only were left out."
    if (smallest := 2.0 ** (1 - n)) > 0.05:
        how += f" With so few of them, no p-value can be below {smallest:.2g}."
    difference = Effect(change.mean(axis=0), np.stack(ends, axis=1), p, unit="scores")
    effects = {"Difference": difference, "Hedges’ g": Effect(*g)}
    return replace(comparison, effects=effects, n=(n, n), how=how)


def _unit_columns(values: FloatArray) -> FloatArray:
    """Divide centred columns by their norms; NaN where a column is constant."""
    norms = np.sqrt(np.square(values).sum(axis=0))
    norms[norms <= 1e-12 * np.abs(values).max(initial=0.0)] = np.nan
    return values / norms


def _welch(values: FloatArray, label: IntArray) -> PValues:
    """Return the p-values of Welch's F test of independent groups (SciPy 1.15 has equal variances only)."""
    columns, counts = _unit_columns(values - values.mean(axis=0)), np.bincount(label)[:, None]
    groups = [columns[label == group] for group in range(len(counts))]
    means = np.stack([group.mean(axis=0) for group in groups])
    weights = counts / np.maximum([group.var(axis=0, ddof=1) for group in groups], 1e-30)
    shares, between = weights / weights.sum(axis=0), len(groups) - 1
    spread = (weights * (means - (shares * means).sum(axis=0)) ** 2).sum(axis=0) / between
    lack = ((1 - shares) ** 2 / (counts - 1)).sum(axis=0) / (len(groups) ** 2 - 1)
    p = stats.f.sf(spread / (1 + 2 * (between - 1) * lack), between, 1 / (3 * lack))
    return PValues(p, _holm(p))


def _holm(p: FloatArray) -> FloatArray:
    """Correct p-values over components by Holm's method."""
    order, n_left = np.argsort(p), np.isfinite(p).sum() - np.arange(len(p))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(np.maximum(n_left, 1) * p[order]), 1.0)
    return corrected


def _between(values: FloatArray, label: IntArray, exchange: Exchange) -> Effect:
    """Return the share of the variance between groups, with p-values of F, which grows with this share."""
    columns, counts = _unit_columns(exchange.centred(values)), np.bincount(label)

    def share(orders: IntArray) -> FloatArray:
        permuted = label[orders]
        sums = ((permuted == group).astype(np.float64) @ columns for group in range(len(counts)))
        return sum((total**2 / n for total, n in zip(sums, counts, strict=True)), np.zeros(()))

    return Effect(share(np.arange(len(label))[None])[0], p=permutation_p_values(share, exchange), unit="%")


def permutation_p_values(statistic: Callable[[IntArray], FloatArray], exchange: Exchange) -> PValues:
    """Compare a statistic with its values under random orders of the units.

    `statistic` takes orders of shape (n, n_units) and returns one row per order and one column per component;
    larger values are more extreme. With B orders, ``p = (1 + #{as extreme}) / (1 + B)`` (Phipson and Smyth,
    2010). `scipy.stats.permutation_test` neither keeps blocks nor shifts series.
    """
    observed = statistic(np.arange(len(exchange.firsts))[None])[0]
    least = observed - ROUNDING * np.abs(observed)
    alone, corrected, n_drawn = np.zeros(len(observed)), np.zeros(len(observed)), 0
    for orders in exchange.permutations():
        values = np.nan_to_num(statistic(orders), nan=-np.inf)
        alone += (values >= least).sum(axis=0)
        corrected += (values.max(axis=1, keepdims=True) >= least).sum(axis=0)
        n_drawn += len(orders)
    missing = np.where(np.isnan(observed), np.nan, 0.0)
    return PValues((1 + alone) / (1 + n_drawn) + missing, (1 + corrected) / (1 + n_drawn) + missing, n_drawn)


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


def _relation(found: Comparison, title: str, name: str, *, removed: bool) -> Relation:
    """Describe a comparison; `removed`: the variable was a confound of the fit."""
    n_components = len(found.p.alone)
    caption, text, method, subject = _words(found, name)
    sentences = [_sentence(found, subject, k) for k in range(n_components)]
    source, correction = f"{found.p.n_permutations:,} random permutations", "the maximum statistic"
    corrected = f"by the largest statistic of all {n_components} components in every permutation"
    seed = f" (seed {SEED})"
    if not found.p.n_permutations:
        source, correction = "Welch’s test, which allows for groups of unequal spread", "Holm’s method"
        corrected, seed = f"by Holm’s method over all {n_components} components", ""
    texts = [text, f"p-values are two-sided, from {source}{seed}."]
    p_method = f"p-values are two-sided, from {source}."
    if n_components > 1:
        texts.append(
            f"Corrected: {corrected}, which controls the probability of even one false finding among them."
        )
        p_method = f"{p_method[:-1]}, and corrected over components by {correction}."
    texts.append(found.how)
    if removed:
        remark = f"{name} was regressed out of the images before the fit: no relation is expected."
        texts.append(remark)
        sentences = [f"{sentence} {remark}" if sentence else "" for sentence in sentences]
    return Relation(
        title,
        " ".join(filter(None, texts)),
        component_table(caption, _columns(found), id="groups-table" if found.groups else "variable-table"),
        tuple(sentences),
        f"{method} {found.how}".strip(),
        p_method,
    )


def _columns(found: Comparison) -> dict[str, list[str]]:
    """Return the columns of the table; columns of further effects are named after the effect."""
    columns: dict[str, list[str]] = {}
    numbers = range(len(found.p.alone))
    for place, (heading, effect) in enumerate(found.effects.items()):
        of = f" of {heading.split()[-1]}" if place else ""
        columns[heading] = [effect.texts(k)[0] for k in numbers]
        if effect.interval is not None:
            columns[f"95 % interval{of}"] = [effect.texts(k)[1] for k in numbers]
        if effect.p is not None:
            columns[f"p{of}"] = [_p_cell(p) for p in effect.p.alone]
            if len(numbers) > 1:  # else there is nothing to correct
                columns[f"p{of}, corrected"] = [_p_cell(p) for p in effect.p.corrected]
    return columns


def _p_cell(p: float) -> str:
    return fmt.p_value(p).removeprefix(f"={fmt.SPACE}")


def _words(found: Comparison, name: str) -> tuple[str, str, str, str]:
    """Return a caption and a text for the table, a sentence for a paper, and a subject for sentences."""
    measure = found.measure
    of = "" if measure == SCORES else f" of the {measure}"
    if not found.groups:
        return (
            f"Correlation with {name}, n = {found.n[0]:,}",
            f"Correlation of the {measure} with {name}.",
            f"{measure.capitalize()} were related to {name} by Pearson’s and Spearman’s correlation.",
            f"Correlation{of} with {name}",
        )
    if len(found.groups) > 2:
        test = "F" if found.p.n_permutations else "Welch’s F"
        sizes = ", ".join(f"{group} {n:,}" for group, n in zip(found.groups, found.n, strict=True))
        groups = f"{len(found.groups)} groups"
        return (
            f"{groups} by {name}" + (f": {sizes}" if len(found.groups) <= 12 else ""),
            f"Share of the variance of the {measure} between the groups of {name}, with the {test} test.",
            f"Mean {measure} were compared between the {groups} of {name} ({test} test).",
            f"Share of the variance of the {measure} between groups by {name} ({test} test)",
        )
    first, second = found.groups
    caption = f"{second} (n = {found.n[1]:,}) minus {first} (n = {found.n[0]:,})"
    unit, test = "pooled standard deviations", "Hedges’ g, Welch’s t"
    if found.paired:
        caption = f"{second} minus {first}, {found.n[0]:,} pairs"
        unit, test = "standard deviations of the differences", "Hedges’ g of the differences"
    return (
        caption,
        f"Difference of the mean {measure}: {second} minus {first}. Hedges’ g is the difference in {unit}.",
        f"Mean {measure} were compared between {first} and {second} ({test}).",
        f"{second} minus {first}{of}",
    )


def _sentence(found: Comparison, subject: str, k: int) -> str:
    """Describe the effects on component `k`; empty if it has none."""
    texts = []
    for heading, effect in found.effects.items():
        if math.isnan(effect.value[k]):
            return ""
        value, interval = effect.texts(k)
        text = value if effect.unit == "scores" else f"{heading}{fmt.SPACE}={fmt.SPACE}{value}"
        if interval != "–":
            text += f" (95{fmt.SPACE}% interval {interval})"
        if effect.p is not None:
            text += f", p{fmt.SPACE}{fmt.p_value(effect.p.corrected[k])}"
        texts.append(text)
    n_components = len(found.p.alone)
    corrected = f"; p corrected over {n_components} components" if n_components > 1 else ""
    return f"{subject}: {'; '.join(texts)}{corrected}."
