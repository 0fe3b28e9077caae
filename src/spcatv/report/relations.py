"""Section about a variable and groups: effect sizes and permutation tests as tables and sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spcatv._util.types import FloatArray
from spcatv.report import formatting as fmt
from spcatv.report.association import Correlations, Difference, Spread, correlations, differences
from spcatv.report.content import Table, component_table
from spcatv.report.inputs import ReportInputs
from spcatv.report.permutation import SCORES, SEED, PValues


@dataclass(frozen=True)
class Relation:
    """Result of a test: a text, a table with one row per component, and one sentence per component.

    If there is no test, the text says why, and the rest is empty.

    `method` and `p_method` are sentences for the methods section of a paper: what was compared, and how
    p-values were found.
    """

    title: str
    text: str
    table: Table | None = None
    sentences: tuple[str, ...] = ()
    method: str = ""
    p_method: str = ""


def relations(inputs: ReportInputs) -> tuple[Relation, ...]:
    """Test the scores against the variable and between the groups, as far as both are given."""
    scores = inputs.scores
    if scores is None:
        return ()
    found = []
    if inputs.variable is not None:
        name = inputs.variable.name
        result = correlations(scores.values, scores.names, inputs.variable.values)
        if isinstance(result, str):
            found.append(Relation(f"Scores and {name}", f"No test of {name}. {result}"))
        else:
            found.append(_of_variable(result, name, _confounds(inputs)))
    if inputs.groups is not None:
        name = inputs.groups.name
        other = differences(scores.values, scores.names, inputs.groups.values)
        if isinstance(other, str):
            found.append(Relation(f"Scores by {name}", f"No test of {name}. {other}"))
        elif isinstance(other, Difference):
            found.append(_of_two_groups(other, name, _confounds(inputs)))
        else:
            found.append(_of_groups(other, name, _confounds(inputs)))
    return tuple(found)


def _confounds(inputs: ReportInputs) -> tuple[str, ...]:
    fitted = getattr(getattr(inputs.model, "preparation_", None), "confounds", None)
    return () if fitted is None else tuple(fitted.columns)


def _cell(p: float) -> str:
    return fmt.p_value(p).removeprefix(f"={fmt.SPACE}")


def _bounds(ends: FloatArray) -> str:
    return "–" if math.isnan(ends[0]) else f"{fmt.fixed(ends[0])} to {fmt.fixed(ends[1])}"


def _scaled(value: float, ends: FloatArray) -> tuple[str, str]:
    """Round a difference and its interval to two digits of the interval's half width."""
    width = float(ends[1] - ends[0]) / 2
    if not width > 0:
        return fmt.number(value), "–"
    decimals = max(0, 1 - math.floor(math.log10(width)))
    texts = [fmt.fixed(number, decimals) for number in (value, *ends)]
    return texts[0], f"{texts[1]} to {texts[2]}"


def _relation(
    name: str,
    p: PValues,
    columns: dict[str, list[str]],
    *,
    kind: str,
    caption: str,
    text: str,
    method: str,
    how: str,
    confounds: Sequence[str],
    sentences: Sequence[str],
) -> Relation:
    """Put a relation together; `name` is that of the variable or groups, `how` says what was exchanged."""
    n_components = len(p.alone)
    source, seed = f"{p.n_permutations:,} random permutations", f" (seed {SEED})"
    correction = f"by the largest statistic of all {n_components} components in every permutation"
    corrected = "the maximum statistic"
    if not p.n_permutations:
        source, seed, corrected = (
            "Welch’s test, which allows for groups of unequal spread",
            "",
            "Holm’s method",
        )
        correction = f"by Holm’s method over all {n_components} components"
    said = [text, f"p-values are two-sided, from {source}{seed}."]
    if n_components > 1:
        said.append(
            f"Corrected: {correction}, which controls the probability of even one false finding among them."
        )
    corrected = f", and corrected over components by {corrected}" if n_components > 1 else ""
    said.append(how)
    if name in confounds:
        removed = f"{name} was regressed out of the images before the fit: nothing is expected here."
        said.append(removed)
        sentences = [f"{sentence} {removed}" if sentence else "" for sentence in sentences]
    return Relation(
        title=f"Scores and {name}" if kind == "variable" else f"Scores by {name}",
        text=" ".join(filter(None, said)),
        table=component_table(caption, columns, id=f"{kind}-table"),
        sentences=tuple(sentences),
        method=f"{method} {how}".strip(),
        p_method=f"p-values are two-sided, from {source}{corrected}.",
    )


def _with_p(columns: dict[str, list[str]], p: PValues, suffix: str = "") -> None:
    """Add the p-values; the corrected ones only if there is something to correct."""
    columns[f"p{suffix}"] = [_cell(value) for value in p.alone]
    if len(p.alone) > 1:
        columns[f"p{suffix}, corrected"] = [_cell(value) for value in p.corrected]


def _told(p: PValues, k: int) -> str:
    if len(p.alone) == 1:
        return f"p{fmt.SPACE}{fmt.p_value(p.alone[k])}"
    return f"p{fmt.SPACE}{fmt.p_value(p.corrected[k])}, corrected over {len(p.alone)} components"


def _equals(symbol: str, value: float) -> str:
    return f"{symbol}{fmt.SPACE}={fmt.SPACE}{fmt.fixed(value)}"


def _of(measure: str) -> str:
    """Name what was compared within a sentence, unless it is the scores."""
    return "" if measure == SCORES else f" of the {measure}"


def _of_variable(result: Correlations, name: str, confounds: Sequence[str]) -> Relation:
    columns = {"Pearson r": [fmt.fixed(r) for r in result.pearson]}
    if result.interval is not None:
        columns["95 % interval"] = [_bounds(ends) for ends in result.interval]
    _with_p(columns, result.pearson_p)
    columns["Spearman ρ"] = [fmt.fixed(rho) for rho in result.spearman]
    _with_p(columns, result.spearman_p, " of ρ")
    sentences = []
    for k, (r, rho) in enumerate(zip(result.pearson, result.spearman, strict=True)):
        interval = "" if result.interval is None else f" (95 % interval {_bounds(result.interval[k])})"
        sentences.append(
            ""
            if math.isnan(r)
            else f"Correlation{_of(result.measure)} with {name}: {_equals('r', r)}{interval}, "
            f"{_told(result.pearson_p, k)}; Spearman’s {_equals('ρ', rho)}, p{fmt.SPACE}"
            f"{fmt.p_value(result.spearman_p.corrected[k])}."
        )
    return _relation(
        name,
        result.pearson_p,
        columns,
        kind="variable",
        caption=f"Correlation with {name}, n = {result.n:,}",
        text=f"Correlation of the {result.measure} with {name}.",
        method=f"{result.measure.capitalize()} were related to {name} by Pearson’s and Spearman’s "
        "correlation.",
        how=result.how,
        confounds=confounds,
        sentences=sentences,
    )


def _of_two_groups(result: Difference, name: str, confounds: Sequence[str]) -> Relation:
    first, second = result.names
    pairs = zip(result.difference, result.interval, strict=True)
    differences, intervals = zip(*(_scaled(value, ends) for value, ends in pairs), strict=True)
    columns = {
        "Difference": list(differences),
        "95 % interval": list(intervals),
        "Hedges’ g": [fmt.fixed(g) for g in result.effect],
        "95 % interval of g": [_bounds(ends) for ends in result.effect_interval],
    }
    _with_p(columns, result.p)
    sentences = [
        ""
        if math.isnan(g)
        else f"{second} minus {first}{_of(result.measure)}: {differences[k]} (95 % interval {intervals[k]}); "
        f"Hedges’ {_equals('g', g)} ({_bounds(result.effect_interval[k])}), {_told(result.p, k)}."
        for k, g in enumerate(result.effect)
    ]
    if result.paired:
        unit, test = "standard deviations of the differences", "Hedges’ g of the differences"
        caption = f"{second} minus {first}, {result.n[0]:,} pairs"
    else:
        unit, test = "pooled standard deviations", "Hedges’ g, Welch’s t"
        caption = f"{second} (n = {result.n[1]:,}) minus {first} (n = {result.n[0]:,})"
    return _relation(
        name,
        result.p,
        columns,
        kind="groups",
        caption=caption,
        text=f"Difference of the mean {result.measure}: {second} minus {first}. Hedges’ g is the difference "
        f"in {unit}.",
        method=f"Mean {result.measure} were compared between {first} and {second} ({test}).",
        how=result.how,
        confounds=confounds,
        sentences=sentences,
    )


def _of_groups(result: Spread, name: str, confounds: Sequence[str]) -> Relation:
    test = "F" if result.p.n_permutations else "Welch’s F"
    shares = ["–" if math.isnan(share) else fmt.percent(share, 2) for share in result.share]
    columns = {"Between groups (η²)": shares}
    _with_p(columns, result.p)
    sentences = [
        ""
        if math.isnan(result.share[k])
        else f"{share} of the variance of the {result.measure} is between the groups, "
        f"{_told(result.p, k)} ({test} test)."
        for k, share in enumerate(shares)
    ]
    sizes = ", ".join(f"{group} {n:,}" for group, n in zip(result.names, result.n, strict=True))
    return _relation(
        name,
        result.p,
        columns,
        kind="groups",
        caption=f"{len(result.names)} groups by {name}" + (f": {sizes}" if len(result.names) <= 12 else ""),
        text=f"Share of the variance of the {result.measure} between the groups of {name}, with the "
        f"{test} test.",
        method=f"Mean {result.measure} were compared between the {len(result.names)} groups of {name} "
        f"({test} test).",
        how=result.how,
        confounds=confounds,
        sentences=sentences,
    )
