"""Panel of one component on the page: verdict, sentence, regions, scores, certificate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from spcatv._util.bids import dates_of
from spcatv.data.outliers import outweighing
from spcatv.decomposition import ComponentDiagnostics
from spcatv.estimator.verdicts import CERTAIN, CONFIRMED, SAME_OUTLINE
from spcatv.metrics import threshold_loadings
from spcatv.report import formatting as fmt
from spcatv.report.figures import group_members, plot_convergence, plot_scores
from spcatv.report.inputs import ReportInputs, is_joint
from spcatv.report.regions import Cluster, noun_of, region_noun
from spcatv.report.relations import Relation
from spcatv.report.sections import SMALLEST_REGION, Chart, SectionTable, chart

MOST_REGIONS = 15
FEWEST_POINTS = 3  # of a convergence curve
LEAST_SPARSE = 0.5  # a map with fewer zeros than this is not called sparse
UNITS_OF_BRAINS = {"mm³", "mm²"}
# Levels of a verdict, also its class names in the style sheet, and their signs.
GOOD, UNSURE, BAD, UNKNOWN = "good", "unsure", "bad", "unknown"
MARKS = {GOOD: "✓", UNSURE: "?", BAD: "✗", UNKNOWN: "–"}
# Shares of resamples that must show a component.
MOST, HALF = 0.9, 0.5


def component_panel(
    inputs: ReportInputs, k: int, clusters: Sequence[Cluster], tests: Sequence[Relation]
) -> SimpleNamespace:
    """Collect what the template shows of component `k`, from 0."""
    record, region = inputs.model.diagnostics_[k], region_noun(inputs.model)
    heavy = [cluster for cluster in clusters if cluster.share >= SMALLEST_REGION]
    listed = heavy[:MOST_REGIONS]
    rest = ""
    if left := clusters[len(listed) :]:
        weight = fmt.percent(sum(cluster.share for cluster in left), 2)
        rest = f"{fmt.count(len(left), f'more {region}')} with {weight} of the weight together, not listed."
    return SimpleNamespace(
        number=k + 1,
        what=_what(heavy, record.sparsity, region),
        share=f"{fmt.percent(inputs.variance.own[k])} of the variance",
        verdict=verdict_of(inputs, k),
        sentence=_sentence(inputs, k, len(heavy), len(clusters) - len(heavy)),
        remark=record.global_remark(k + 1),
        alt=_alternative_text(heavy, region),
        regions=_features(listed) if region == "feature" else _regions(listed),
        rest=rest,
        peaks=[cluster.peak for cluster in clusters[:MOST_REGIONS]],
        certificate=certificate(inputs.model, k),
        convergence=_convergence(inputs, k),
        scores=_scores(inputs, k),
        relations=[test.sentences[k] for test in tests if test.sentences and test.sentences[k]],
    )


def _sentence(inputs: ReportInputs, k: int, n_regions: int, n_tiny: int) -> str:
    """Describe the share of the variance, the regions above and below `SMALLEST_REGION`, and the zeros."""
    if n_regions == 0:
        return "An empty component: no variance is left for it, or the penalty leaves no loading."
    tiny = f" (and {n_tiny:,} of less than {fmt.percent(SMALLEST_REGION, 1)} of its weight)" if n_tiny else ""
    region = "feature" if region_noun(inputs.model) == "feature" else "connected region"
    sparsity = inputs.model.diagnostics_[k].sparsity
    zeros = f"{fmt.percent(sparsity)} of the"
    if sparsity < LEAST_SPARSE:
        zeros = f"the map is not sparse: {'no' if sparsity == 0 else f'only {zeros}'}"
    return (
        f"Explains {fmt.percent(inputs.variance.own[k])} of the variance with "
        f"{fmt.count(n_regions, region)}{tiny}; {zeros} {noun_of(inputs.model)} have a loading "
        "of exactly zero."
    )


def _what(clusters: Sequence[Cluster], sparsity: float, region: str) -> str:
    """Name the place of the heaviest region, or the whole brain if the map is not sparse."""
    if not clusters:
        return "Nowhere"
    main = clusters[0]
    in_brain = main.part.unit in UNITS_OF_BRAINS
    if sparsity < LEAST_SPARSE:
        return f"{'Brain-wide' if in_brain else 'Everywhere'}: not sparse"
    name = main.label or (main.composition[0][0] if main.composition else "")
    if not name and in_brain:
        peak = "peak at" if main.side == "both sides" else "near"
        name = f"{main.side}, {peak} {main.place}{fmt.SPACE}mm"
    more = "" if len(clusters) == 1 else f", and {fmt.count(len(clusters) - 1, f'more {region}')}"
    if not name and region == "feature":
        return f"{main.place}{more}"
    name = name or f"near {main.place}"
    return f"{name[:1].upper()}{name[1:]}{more}"


def _alternative_text(clusters: Sequence[Cluster], region: str) -> str:
    if not clusters:
        return "The map is empty."
    main = clusters[0]
    label = f", {main.label}" if main.label else ""
    return (
        f"{fmt.count(len(clusters), region)}; the heaviest one, in the {main.part.name}{label}, has its "
        f"peak at {main.place} and holds {fmt.percent(main.share, 2)} of the map's weight. The table below "
        f"lists the {region}s."
    )


def _features(listed: Sequence[Cluster]) -> SectionTable:
    """List features without neighbours in a table."""
    columns = {
        "Feature": [cluster.place for cluster in listed],
        "Loading": [fmt.number(cluster.peak_loading) for cluster in listed],
        "Weight": [fmt.percent(cluster.share, 2) for cluster in listed],
    }
    caption = "Features with a loading that is not zero, heaviest first. Weight: share of the sum of squares."
    return SectionTable(caption, columns, features=[cluster.peak for cluster in listed])


def _regions(listed: Sequence[Cluster]) -> SectionTable:
    """List regions in a table."""
    caption = (
        "Connected regions of one sign, heaviest first. Size and mean count every loading that is not zero. "
        "Weight: share of the map's sum of squares."
    )
    columns = {"Region": [str(number) for number in range(1, len(listed) + 1)]}
    if {cluster.part.name for cluster in listed} - {"volume", "field", "features"}:
        columns["Where"] = [cluster.part.name for cluster in listed]
    in_brain = any(cluster.part.unit in UNITS_OF_BRAINS for cluster in listed)
    columns |= {
        "Peak (x, y, z in mm)" if in_brain else "Peak": [cluster.place for cluster in listed],
        "Size": [fmt.quantity(cluster.size, cluster.part.unit) for cluster in listed],
        "Mean loading": [fmt.number(cluster.mean_loading) for cluster in listed],
        "Peak loading": [fmt.number(cluster.peak_loading) for cluster in listed],
        "Weight": [fmt.percent(cluster.share, 2) for cluster in listed],
    }
    if any(math.isfinite(cluster.found) for cluster in listed):
        columns["Bootstrap frequency"] = [fmt.percent(cluster.found, 2) for cluster in listed]
        caption += (
            " Bootstrap frequency: share of resampled fits that select at least half of the region, with its "
            "sign. Features without which the map still has 99 % of its norm do not count; a region that "
            "falls apart without them is judged by its heaviest part."
        )
    if any(cluster.label or cluster.composition for cluster in listed):
        columns["At the peak"] = [cluster.label or "–" for cluster in listed]
        columns["Made of"] = [
            ", ".join(f"{name} {fmt.percent(share, 2)}" for name, share in cluster.composition) or "–"
            for cluster in listed
        ]
    features = [cluster.peak for cluster in listed]
    return SectionTable(caption, columns, text=("Where", "At the peak", "Made of"), features=features)


def share_above_optimum(record: ComponentDiagnostics, l2: float) -> float:
    """Bound the excess of the objective over the optimum, as a share of the optimum.

    With ``f = l2 (F - 1/2 ||y||^2)`` and ``F - F* <= gap``, ``(f - f*) / |f*| <= l2 gap / |f|`` because
    ``f* <= f < 0``: an empty map has the objective 0.
    """
    if record.objective >= 0:
        return 0.0 if record.gap == 0 else math.inf
    return l2 * record.gap / abs(record.objective)


def certificate(model: Any, k: int) -> list[str]:
    """Describe the distance of loading map `k` from the exact one in sentences."""
    record, joint = model.diagnostics_[k], is_joint(model)
    l2 = float(np.broadcast_to(model.l2_, len(model.diagnostics_))[k])
    if record.n_nonzero == 0:
        return ["This component is empty, and not a result: its map and its scores are zero."]
    sentences = []
    if model.refit is not None:
        sentences.append(
            "The loadings shown were fitted again on their support, without penalties. What follows is about "
            "the penalised map that the support comes from."
        )
    whose, exact = "Its duality gap", "The exact map for these scores"
    if record.target_sparsity is not None:
        kind = "smoothed map" if model.structure_.n_rows else "map"
        whose = f"The duality gap of the {kind}"
        limited = "on the same support" if joint else f"after the threshold {fmt.number(record.l1, 2)}"
        exact = f"The exact {kind} for these scores, {limited},"
        then = "set to zero outside its support" if joint else "thresholded"
        first = "smoothed, then " if model.structure_.n_rows else ""
        sentences.append(f"Given its scores, the map is {first}{then}.")
    elif math.isfinite(above := share_above_optimum(record, l2)):
        optimum = "of the optimum of its problem, given the scores"
        sentences.append(f"This map is within {fmt.percent(above, 2)} {optimum}.")
    reached = "within" if record.converged else "above"
    if not record.converged:
        sentences.append("The fit was stopped before the tolerance was reached: raise max_iter.")
    return [
        *sentences,
        f"{whose}, which bounds the distance to the optimum, is {fmt.number(record.relative_gap, 2)} of "
        f"the problem's scale, {reached} the tolerance of {fmt.number(model.tol, 2)}.",
        f"{exact} is at most {fmt.percent(record.error_bound, 2)} of the map's own length away from this "
        "one.",
        f"Of the {record.n_nonzero:,} loadings that are not zero, {record.n_certain:,} are certainly not "
        "zero in the exact map either.",
    ]


def _convergence(inputs: ReportInputs, k: int) -> Chart | str | None:
    """Draw the convergence of the objective, or describe it if it has too few points."""
    record = inputs.model.diagnostics_[k]
    if not record.objectives:
        return None
    alternations = fmt.count(record.n_alternations, "alternation")
    objective = f"the objective is {fmt.number(record.objective, 6)}"
    if len(record.objectives) < FEWEST_POINTS:
        return f"The fit took {alternations} of scores and loadings; {objective}."
    joint = is_joint(inputs.model)
    caption = "Objective of all components together" if joint else "Objective"
    caption += " after each alternation of scores and loadings, as the distance to its last value."
    if record.target_sparsity is not None:
        caption += " The weights change between alternations, so it may rise."
    if not joint:
        caption += " Dotted: upper bound on the distance of each map to the best one for its scores."
    return chart(
        plot_convergence(inputs.model, components=[k]),
        alt=f"Convergence of component {k + 1}: after {alternations} {objective}, with a relative gap of "
        f"{fmt.number(record.relative_gap, 2)}.",
        caption=caption,
    )


def _scores(inputs: ReportInputs, k: int) -> Chart | None:
    """Draw the scores of the samples, and name the extreme ones."""
    if inputs.scores is None:
        return None
    names, values = inputs.scores.names, inputs.scores.values[:, k]
    groups, variable = inputs.groups, inputs.variable
    dates = dates_of(names) if groups is None and variable is None else None
    figure = plot_scores(
        inputs.scores.values,
        k,
        groups=None if groups is None else groups.values,
        variable=dates if variable is None else variable.values,
        group_name="" if groups is None else groups.name,
        variable_name="time" if variable is None else variable.name,
    )
    low, high = int(np.argmin(values)), int(np.argmax(values))
    counted = f"{len(values)} samples" + ("" if dates is None else " over time")
    caption = (
        f"{counted}. Highest: {fmt.file_names(names[high])} ({fmt.number(values[high])}); "
        f"lowest: {fmt.file_names(names[low])} ({fmt.number(values[low])})."
    )
    if variable is not None and (missing := int(np.isnan(variable.values).sum())):
        caption += f" Not drawn: {missing} without {variable.name}."
    if (found := outweighing(values)) is not None:
        top, share = found
        name = fmt.file_names(names[top])
        caption += f" {name} alone has {fmt.percent(share, 2)} of the variance: check this sample."
    if groups is not None:
        members = group_members(groups.values, len(values))
        medians = [f"{name} {fmt.number(float(np.median(values[rows])))}" for name, rows in members]
        caption += f" Medians by {groups.name}: {', '.join(medians)}."
    elif variable is None and dates is None:
        caption += " The line is the median."
    alt = (
        f"Scores of {len(values)} samples on component {k + 1}, from {fmt.number(values.min())} to "
        f"{fmt.number(values.max())}, median {fmt.number(float(np.median(values)))}."
    )
    return chart(figure, alt=alt, caption=caption)


class Verdict(NamedTuple):
    """Sentence on whether a component may be interpreted, and its level."""

    text: str
    level: str

    @property
    def mark(self) -> str:
        """Sign beside the text, so that colour is not the only cue."""
        return MARKS[self.level]


def verdict_of(inputs: ReportInputs, k: int) -> Verdict:
    """Judge component `k`, from 0, by random halves, or else by resamples with the same outline."""
    if inputs.model.diagnostics_[k].is_empty:
        return Verdict("Empty: there is nothing to interpret.", BAD)
    if inputs.halves is not None:
        half = inputs.halves[k]
        level = (GOOD if half.outline == CERTAIN else UNSURE) if half.verdict == CONFIRMED else BAD
        return Verdict(half.sentence, level)
    if inputs.stability is None:
        return Verdict("Stability not checked.", UNKNOWN)
    dice = inputs.stability.dice[:, k]
    # by chance, two supports that hold a share E of the features have the Dice index E
    chance = float(np.mean(threshold_loadings(inputs.model.components_[k]) != 0))
    found = int((dice - chance >= SAME_OUTLINE * (1 - chance)).sum()) if chance < 1 else 0
    share, counted = found / len(dice), f"{found} of {len(dice)} bootstrap resamples"
    if share >= MOST:
        return Verdict(f"Selected in {counted}.", GOOD)
    if share >= HALF:
        return Verdict(f"Selected in only {counted}: interpret with care.", UNSURE)
    return Verdict(f"Selected in only {counted}: do not interpret.", BAD)


def verdict_summary(verdicts: Sequence[Verdict], *, by_halves: bool) -> str:
    """Summarise all verdicts, by halves or by resamples, for the top of the page."""
    if all(verdict.level == UNKNOWN for verdict in verdicts):
        return "Whether other samples would show these components was not checked."
    words = {GOOD: "confirmed", UNSURE: "confirmed with an uncertain outline", BAD: "not confirmed"}
    if not by_halves:
        words = {GOOD: "selected in most resamples", UNSURE: "uncertain", BAD: "selected in few resamples"}
    sentences = []
    for level, word in words.items():
        if found := [k for k, verdict in enumerate(verdicts, start=1) if verdict.level == level]:
            sentences.append(f"{fmt.components(found)} {'is' if len(found) == 1 else 'are'} {word}.")
    return " ".join(sentences)
