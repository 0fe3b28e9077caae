"""Relations of the scores to a variable and to groups: tables, and sentences for the page and for a paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spcatv.report import formatting as fmt
from spcatv.report.inputs import ReportInputs
from spcatv.report.sections import Section, component_table
from spcatv.report.statistics import SCORES, SEED, Comparison, Effect, correlations, differences


@dataclass(frozen=True)
class Relation:
    """Result of a test for the page; without a test, the section gives the reason."""

    section: Section
    sentences: Sequence[str] = ()  # one per component, empty for a component without a test
    method: str = ""  # sentences for the methods section of a paper


def relations(inputs: ReportInputs) -> list[Relation]:
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
            found.append(Relation(Section(title, f"No test of {column.name}. {result}")))
        else:
            found.append(_relation(result, title, column.name, removed=column.name in confounds))
    return found


def relations_section(found: Sequence[Relation]) -> Section | None:
    """Create the section about what the scores go with; None without a variable or groups."""
    parts = [relation.section for relation in found]
    return Section("What the scores go with", parts=parts, id="relations") if parts else None


def _relation(found: Comparison, title: str, name: str, *, removed: bool) -> Relation:
    """Describe a comparison; `removed`: the variable was a confound of the fit."""
    components, n_permutations = range(len(found.main.value)), found.main.n_permutations
    caption, method, subject = _words(found, name)
    source, correction = "Welch’s test, which allows for groups of unequal spread", "Holm’s method"
    if n_permutations:
        source, correction = f"{n_permutations:,} random permutations (seed {SEED})", "the maximum statistic"
    corrected = ""
    if len(components) > 1:
        corrected = f", and corrected over components by {correction} (family-wise error)"
    method = " ".join(filter(None, (method, found.how, f"Two-sided p-values are from {source}{corrected}.")))
    remark = f" {name} was regressed out of the images before the fit: no relation is expected."
    remark = remark if removed else ""
    sentences = [_sentence(found, subject, k) for k in components]
    columns: dict[str, list[str]] = {}
    for place, (heading, effect) in enumerate(found.effects.items()):
        of = f" of {heading.split()[-1]}" if place else ""
        columns[heading] = [_value(effect, k) for k in components]
        if effect.interval is not None:
            columns[f"95 % interval{of}"] = [_interval(effect, k) or "–" for k in components]
        for p, head in ((effect.p, f"p{of}"), (effect.corrected if corrected else None, f"p{of}, corrected")):
            if p is not None:
                columns[head] = [fmt.p_value(value).removeprefix(f"={fmt.SPACE}") for value in p]
    table = component_table(caption, columns, id="groups-table" if found.groups else "variable-table")
    return Relation(
        Section(title, f"{method}{remark}", table=table),
        [f"{sentence}{remark}" if sentence else "" for sentence in sentences],
        method,
    )


def _words(found: Comparison, name: str) -> tuple[str, str, str]:
    """Return a caption for the table, a sentence for a paper, and a subject for sentences."""
    measure = found.measure
    of = "" if measure == SCORES else f" of the {measure}"
    if not found.groups:
        return (
            f"Correlation with {name}, n = {found.n[0]:,}",
            f"{measure.capitalize()} were related to {name} by Pearson’s and Spearman’s correlation.",
            f"Correlation{of} with {name}",
        )
    if len(found.groups) > 2:
        test = "F" if found.main.n_permutations else "Welch’s F"
        sizes = ", ".join(f"{group} {n:,}" for group, n in zip(found.groups, found.n, strict=True))
        groups = f"{len(found.groups)} groups"
        share = f"Share of the variance of the {measure} between"
        return (
            f"{share} {groups} by {name}" + (f": {sizes}" if len(found.groups) <= 12 else ""),
            f"Mean {measure} were compared between the {groups} of {name} ({test} test).",
            f"{share} groups by {name} ({test} test)",
        )
    first, second = found.groups
    caption = f"{second} (n = {found.n[1]:,}) minus {first} (n = {found.n[0]:,})"
    unit, test = "pooled standard deviations", "Hedges’ g, Welch’s t"
    if found.paired:
        caption = f"{second} minus {first}, {found.n[0]:,} pairs"
        unit, test = "standard deviations of the differences", "Hedges’ g of the differences"
    return (
        f"{caption}; Hedges’ g is the difference in {unit}",
        f"Mean {measure} were compared between {first} and {second} ({test}).",
        f"{second} minus {first}{of}",
    )


def _sentence(found: Comparison, subject: str, k: int) -> str:
    """Describe the effects on component `k`; empty if it has none."""
    texts = []
    for heading, effect in found.effects.items():
        if math.isnan(effect.value[k]):
            return ""
        value = _value(effect, k)
        text = value if effect.unit == "scores" else f"{heading}{fmt.SPACE}={fmt.SPACE}{value}"
        if interval := _interval(effect, k):
            text += f" (95{fmt.SPACE}% interval {interval})"
        if effect.corrected is not None:
            text += f", p{fmt.SPACE}{fmt.p_value(effect.corrected[k])}"
        texts.append(text)
    n_components = len(found.main.value)
    corrected = f"; p corrected over {n_components} components" if n_components > 1 else ""
    return f"{subject}: {'; '.join(texts)}{corrected}."


def _value(effect: Effect, k: int) -> str:
    """Write an effect on component `k`."""
    value = float(effect.value[k])
    return fmt.percent(value, 2) if effect.unit == "%" else fmt.fixed(value, _decimals(effect, k))


def _interval(effect: Effect, k: int) -> str:
    """Write the interval of an effect on component `k`; empty if there is none."""
    if effect.interval is None or not np.isfinite(effect.interval[k]).all():
        return ""
    low, high = (fmt.fixed(float(end), _decimals(effect, k)) for end in effect.interval[k])
    return f"{low} to {high}"


def _decimals(effect: Effect, k: int) -> int:
    """Return the decimals of an effect: a difference gets two digits of the half width of its interval."""
    if effect.unit != "scores" or effect.interval is None:
        return 2
    width = float(np.diff(effect.interval[k])[0]) / 2
    return max(0, 1 - math.floor(math.log10(width))) if width > 0 else 2
