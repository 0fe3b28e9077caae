"""The section about a variable and groups: effect sizes and permutation tests as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spcatv._util.types import FloatArray
from spcatv.report import words
from spcatv.report.association import Correlations, Difference, Spread, correlations, differences
from spcatv.report.content import Head, Table, heads
from spcatv.report.material import Material
from spcatv.report.permutation import SEED, PValues

SMALLEST_P = 0.001


@dataclass(frozen=True)
class Relation:
    """What a test says: a text, a table with one row per component, and one sentence per component.

    `method` is a sentence for the methods section of a paper.
    """

    title: str
    text: str
    table: Table
    sentences: tuple[str, ...]
    method: str


def relations(material: Material) -> tuple[Relation, ...]:
    """The tests of the variable and of the groups, as far as they were given and can be made."""
    scores = material.scores
    if scores is None:
        return ()
    found = []
    if material.variable is not None:
        result = correlations(scores.values, scores.names, material.variable.values)
        if result is not None:
            found.append(_correlation_table(result, material.variable.name, _confounds(material)))
    if material.groups is not None:
        other = differences(scores.values, scores.names, material.groups.values)
        if isinstance(other, Difference):
            found.append(_difference_table(other, material.groups.name, _confounds(material)))
        elif other is not None:
            found.append(_spread_table(other, material.groups.name, _confounds(material)))
    return tuple(found)


def _confounds(material: Material) -> tuple[str, ...]:
    fitted = getattr(getattr(material.model, "preparation_", None), "confounds", None)
    return () if fitted is None else tuple(fitted.names)


def p_value(p: float) -> str:
    """A p-value with the digits that it deserves: "= 0.36", "= 0.036", "= 0.003", "< 0.001"."""
    if math.isnan(p):
        return "–"
    if p < SMALLEST_P:
        return f"<{words.SPACE}{SMALLEST_P:g}"
    return f"={words.SPACE}{p:.2f}" if p >= 0.0995 else f"={words.SPACE}{p:.3f}"


def _cell(p: float) -> str:
    return p_value(p).removeprefix(f"={words.SPACE}")


def _fixed(value: float) -> str:
    """A correlation or standardised effect: two decimals, which is more than samples of this size give."""
    return "–" if math.isnan(value) else f"{value:.2f}".replace("-", "−")


def _bounds(ends: FloatArray) -> str:
    return "–" if math.isnan(ends[0]) else f"{_fixed(ends[0])} to {_fixed(ends[1])}"


def _scaled(value: float, ends: FloatArray) -> tuple[str, str]:
    """A difference and its interval, rounded to two digits of the interval's half width."""
    width = float(ends[1] - ends[0]) / 2
    if not width > 0:
        return words.number(value), "–"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    texts = [f"{number:,.{decimals}f}".replace("-", "−") for number in (value, *ends)]
    return texts[0], f"{texts[1]} to {texts[2]}"


def _how(p: PValues, n_components: int, how: str, name: str, confounds: Sequence[str]) -> str:
    """How the p-values were made, for the text above a table."""
    sentences = [
        f"p-values are from {p.n_permutations:,} random permutations (seed {SEED}), two-sided.",
    ]
    if n_components > 1:
        sentences.append(
            f"Corrected: by the largest statistic of all {n_components} components in every permutation, "
            "which controls the probability of even one false finding among them."
        )
    sentences.append(how)
    if name in confounds:
        sentences.append(f"{name} was regressed out of the images before the fit: nothing is expected here.")
    return " ".join(filter(None, sentences))


def _method(what: str, p: PValues, how: str) -> str:
    corrected = ", corrected over components by the maximum statistic" if len(p.alone) > 1 else ""
    sentence = f"{what}; p-values are two-sided, from {p.n_permutations:,} random permutations{corrected}."
    return " ".join(filter(None, (sentence, how)))


def _table(caption: str, columns: dict[str, list[str]], id: str) -> Table:
    n_components = len(next(iter(columns.values())))
    rows = zip((str(k + 1) for k in range(n_components)), *columns.values(), strict=True)
    head: tuple[Head, ...] = heads("Component", *columns)
    return Table(caption, head, tuple(rows), id=id)


def _with_p(columns: dict[str, list[str]], p: PValues, suffix: str = "") -> None:
    """Add the p-values; the corrected ones only if there is something to correct."""
    columns[f"p{suffix}"] = [_cell(value) for value in p.alone]
    if len(p.alone) > 1:
        columns[f"p{suffix}, corrected"] = [_cell(value) for value in p.corrected]


def _told(p: PValues, k: int) -> str:
    if len(p.alone) == 1:
        return f"p{words.SPACE}{p_value(p.alone[k])}"
    return f"p{words.SPACE}{p_value(p.corrected[k])}, corrected over {len(p.alone)} components"


def _correlation_table(result: Correlations, name: str, confounds: Sequence[str]) -> Relation:
    n_components = len(result.pearson)
    columns = {"Pearson r": [_fixed(r) for r in result.pearson]}
    if result.interval is not None:
        columns["95 % interval"] = [_bounds(ends) for ends in result.interval]
    _with_p(columns, result.pearson_p)
    columns["Spearman ρ"] = [_fixed(rho) for rho in result.spearman]
    _with_p(columns, result.spearman_p, " of ρ")
    sentences = []
    for k in range(n_components):
        if math.isnan(result.pearson[k]):
            sentences.append("")
            continue
        interval = "" if result.interval is None else f" (95 % interval {_bounds(result.interval[k])})"
        sentences.append(
            f"Correlation with {name}: r{words.SPACE}={words.SPACE}{_fixed(result.pearson[k])}{interval}, "
            f"{_told(result.pearson_p, k)}; Spearman’s ρ{words.SPACE}={words.SPACE}"
            f"{_fixed(result.spearman[k])}, p{words.SPACE}{p_value(result.spearman_p.corrected[k])}."
        )
    how = _how(result.pearson_p, n_components, result.how, name, confounds)
    text = f"Correlation of the scores with {name}. {how}"
    caption = f"Correlation with {name}, n = {result.n:,}"
    method = _method(
        f"Scores were related to {name} by Pearson’s and Spearman’s correlation", result.pearson_p, result.how
    )
    return Relation(
        f"Scores and {name}", text, _table(caption, columns, "variable-table"), tuple(sentences), method
    )


def _difference_table(result: Difference, name: str, confounds: Sequence[str]) -> Relation:
    first, second = result.names
    differences, intervals = zip(
        *(_scaled(value, ends) for value, ends in zip(result.difference, result.interval, strict=True)),
        strict=True,
    )
    columns = {
        "Difference": list(differences),
        "95 % interval": list(intervals),
        "Hedges’ g": [_fixed(g) for g in result.effect],
        "95 % interval of g": [_bounds(ends) for ends in result.effect_interval],
    }
    _with_p(columns, result.p)
    sentences = tuple(
        ""
        if math.isnan(result.effect[k])
        else f"{second} less {first}: {differences[k]} (95 % interval {intervals[k]}); Hedges’ "
        f"g{words.SPACE}={words.SPACE}{_fixed(result.effect[k])} ({_bounds(result.effect_interval[k])}), "
        f"{_told(result.p, k)}."
        for k in range(len(result.effect))
    )
    if result.paired:
        measure = "Hedges’ g is the mean difference in standard deviations of the differences"
        test = "Hedges’ g of the differences"
        caption = f"{second} less {first}, {result.n[0]:,} pairs"
    else:
        measure = "Hedges’ g is the difference in pooled standard deviations"
        test = "Hedges’ g, Welch’s t"
        caption = f"{second} (n = {result.n[1]:,}) less {first} (n = {result.n[0]:,})"
    text = (
        f"Difference of the mean scores by {name}: {second} less {first}. {measure}. "
        f"{_how(result.p, len(result.effect), result.how, name, confounds)}"
    )
    method = _method(f"Mean scores were compared between {first} and {second} ({test})", result.p, result.how)
    return Relation(f"Scores by {name}", text, _table(caption, columns, "groups-table"), sentences, method)


def _spread_table(result: Spread, name: str, confounds: Sequence[str]) -> Relation:
    columns = {"Between groups (η²)": ["–" if math.isnan(s) else words.percent(s, 2) for s in result.share]}
    _with_p(columns, result.p)
    sentences = tuple(
        ""
        if math.isnan(result.share[k])
        else f"{words.percent(result.share[k], 2)} of the variance of the scores lies between the groups, "
        f"{_told(result.p, k)} (F statistic)."
        for k in range(len(result.share))
    )
    sizes = ", ".join(f"{group} {n:,}" for group, n in zip(result.names, result.n, strict=True))
    text = (
        f"Share of the scores’ variance between the groups of {name}, tested by its F statistic. "
        f"{_how(result.p, len(result.share), result.how, name, confounds)}"
    )
    caption = f"{len(result.names)} groups by {name}" + (f": {sizes}" if len(result.names) <= 12 else "")
    method = _method(
        f"Mean scores were compared between the {len(result.names)} groups of {name} (F statistic)",
        result.p,
        result.how,
    )
    return Relation(f"Scores by {name}", text, _table(caption, columns, "groups-table"), sentences, method)
