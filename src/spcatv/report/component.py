"""Panel of one component on the page: verdict, sentence, regions, scores, certificate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data.outliers import outweighing
from spcatv.estimator.verdicts import CERTAIN, CONFIRMED, SAME_OUTLINE, WHAT_HELPS
from spcatv.metrics import threshold_loadings
from spcatv.report import formatting as fmt
from spcatv.report.figures import group_members, plot_convergence, plot_scores
from spcatv.report.inputs import ReportInputs, is_joint
from spcatv.report.regions import MIDLINE, Cluster, FeatureLabels, Part, cluster_table
from spcatv.report.sections import Chart, SectionTable, chart, table_of
from spcatv.report.statistics import Relation
from spcatv.stability import Bootstrap

MOST_REGIONS = 15
FEWEST_POINTS = 3  # of a convergence curve
UNITS_OF_BRAINS = {"mm³", "mm²"}
# Levels of a verdict, also its class names in the style sheet.
GOOD, UNSURE, BAD, UNKNOWN = "good", "unsure", "bad", "unknown"
MARKS = {GOOD: "✓", UNSURE: "?", BAD: "✗", UNKNOWN: "–"}
# Shares of resamples that must show a component.
MOST, HALF = 0.9, 0.5


@dataclass(frozen=True)
class Verdict:
    """Sentence on whether a component may be interpreted, and its level."""

    text: str
    level: str

    @property
    def mark(self) -> str:
        """Sign beside the text, so that colour is not the only cue."""
        return MARKS[self.level]


@dataclass(frozen=True)
class ComponentPanel:
    """Content of the page about one component."""

    number: int
    what: str  # where it is, in a few words
    share: str  # of the variance
    verdict: Verdict
    sentence: str
    remark: str
    alt: str
    regions: SectionTable
    rest: str  # about the regions that are not listed
    n_regions: int
    n_tiny: int
    peaks: tuple[int, ...]
    certificate: tuple[str, ...]
    convergence: Chart | str | None
    scores: Chart | None
    relations: tuple[str, ...]  # what the scores go with


def component_panel(
    inputs: ReportInputs,
    k: int,
    parts: tuple[Part, ...],
    labels: FeatureLabels | None,
    noun: str,
    tests: Sequence[Relation],
) -> ComponentPanel:
    """Collect what the page shows of component `k`, from 0."""
    model = inputs.model
    record = model.diagnostics_[k]
    stability = inputs.stability
    frequency = None if stability is None else stability.selection_frequency[k]
    found = None if stability is None else _region_frequency(stability, k)
    clusters = cluster_table(model.structure_, model.components_[k], parts, labels, frequency, found)
    heavy = tuple(cluster for cluster in clusters if cluster.share >= fmt.SMALLEST_REGION)
    n_tiny = len(clusters) - len(heavy)
    share = float(inputs.variance.own[k])
    return ComponentPanel(
        number=k + 1,
        what=_what(heavy, record.sparsity),
        share=f"{fmt.percent(share)} of the variance",
        verdict=verdict_of(inputs, k),
        sentence=fmt.component_sentence(record.sparsity, len(heavy), n_tiny, noun, share),
        remark=record.global_remark(k + 1),
        alt=_alternative_text(heavy),
        regions=_regions(heavy[:MOST_REGIONS], len({cluster.part for cluster in clusters}) > 1, labels),
        rest=_rest(clusters[len(heavy[:MOST_REGIONS]) :]),
        n_regions=len(heavy),
        n_tiny=n_tiny,
        peaks=tuple(cluster.peak_feature for cluster in clusters[:MOST_REGIONS]),
        certificate=fmt.certificate(
            record,
            float(np.broadcast_to(model.l2_, inputs.n_components)[k]),
            float(model.tol),
            refitted=model.refit is not None,
            joint=is_joint(model),
        ),
        convergence=_convergence(inputs, k),
        scores=_scores(inputs, k),
        relations=tuple(test.sentences[k] for test in tests if test.sentences and test.sentences[k]),
    )


def _region_frequency(stability: Bootstrap, k: int) -> FloatArray:
    """Return the share of resamples that select the region of each feature; NaN outside regions."""
    values = np.full(stability.components.shape[1], np.nan)
    for region in stability.regions:
        if region.component == k:
            values[region.features] = region.bootstrap_frequency
    return values


def _place(cluster: Cluster) -> str:
    if cluster.place:
        return cluster.place
    values = f",{fmt.SPACE}".join(f"{value:.0f}".replace("-", "−") for value in cluster.peak)
    return f"({values})" if len(cluster.peak) > 1 else values


def _what(clusters: tuple[Cluster, ...], sparsity: float) -> str:
    """Name the place of the heaviest region, or the whole brain if the map is not sparse."""
    if not clusters:
        return "Nowhere"
    main = clusters[0]
    in_brain = main.unit in UNITS_OF_BRAINS
    if not fmt.is_sparse(sparsity):
        return f"{'Brain-wide' if in_brain else 'Everywhere'}: not sparse"
    side = main.part
    if main.both_sides:
        side = "both sides"
    elif main.unit == "mm³":
        side = "midline" if abs(main.peak[0]) <= MIDLINE else "left" if main.peak[0] < 0 else "right"
    name = main.label or (main.composition[0][0] if main.composition else "")
    if not name:
        peak = "peak at" if main.both_sides else "near"
        name = f"{side}, {peak} {_place(main)}{f'{fmt.SPACE}mm' if in_brain else ''}"
    more = "" if len(clusters) == 1 else f", and {fmt.count(len(clusters) - 1, 'more region')}"
    return f"{name[:1].upper()}{name[1:]}{more}"


def _alternative_text(clusters: tuple[Cluster, ...]) -> str:
    if not clusters:
        return "The map is empty."
    main = clusters[0]
    label = f", {main.label}" if main.label else ""
    return (
        f"{fmt.count(len(clusters), 'region')}; the heaviest one, in the {main.part}{label}, has its peak "
        f"at {_place(main)} and holds {fmt.percent(main.share, 2)} of the map's weight. The table below "
        "lists the regions."
    )


def _regions(listed: tuple[Cluster, ...], with_parts: bool, labels: FeatureLabels | None) -> SectionTable:
    """List regions in a table."""
    caption = (
        "Connected regions of one sign, heaviest first. Size and mean count every loading that is not zero. "
        "Weight: share of the map's sum of squares."
    )
    columns = {"Region": [str(number) for number in range(1, len(listed) + 1)]}
    if with_parts:
        columns["Where"] = [cluster.part for cluster in listed]
    in_brain = any(cluster.unit in UNITS_OF_BRAINS for cluster in listed)
    named = any(cluster.place for cluster in listed)
    peak = "Peak" if named else "Peak (x, y, z in mm)" if in_brain else "Peak (index)"
    columns |= {
        peak: [_place(cluster) for cluster in listed],
        "Size": [fmt.quantity(cluster.size, cluster.unit) for cluster in listed],
        "Mean loading": [fmt.number(cluster.mean_loading) for cluster in listed],
        "Peak loading": [fmt.number(cluster.peak_loading) for cluster in listed],
        "Weight": [fmt.percent(cluster.share, 2) for cluster in listed],
    }
    if any(cluster.selected is not None for cluster in listed):
        columns["Selected in resamples"] = [fmt.percent(cluster.selected, 2) for cluster in listed]
        caption += (
            " Selected in resamples: mean share of resampled fits that select a feature of the region, over "
            "the features that hold 99 % of the map's norm."
        )
    if any(cluster.found is not None for cluster in listed):
        columns["Bootstrap frequency"] = [fmt.percent(cluster.found, 2) for cluster in listed]
        caption += (
            " Bootstrap frequency: share of resampled fits that select at least half of these features, with "
            "the sign of the region. If they are not connected, the heaviest part of them counts."
        )
    if labels is not None:
        columns["At the peak"] = [cluster.label or "–" for cluster in listed]
        columns["Made of"] = [
            ", ".join(f"{name} {fmt.percent(share, 2)}" for name, share in cluster.composition) or "–"
            for cluster in listed
        ]
    features = tuple(cluster.peak_feature for cluster in listed)
    return table_of(caption, columns, text=("Where", "At the peak", "Made of"), features=features)


def _rest(left: tuple[Cluster, ...]) -> str:
    """Count the regions that are not listed; empty if there are none."""
    if not left:
        return ""
    weight = fmt.percent(sum(cluster.share for cluster in left), 2, least=1e-4)
    return f"{fmt.count(len(left), 'more region')} with {weight} of the weight together, not listed."


def _convergence(inputs: ReportInputs, k: int) -> Chart | str | None:
    """Draw the convergence of the objective, or describe it if it has too few points."""
    record = inputs.model.diagnostics_[k]
    if not record.objectives:
        return None
    if len(record.objectives) < FEWEST_POINTS:
        return (
            f"The fit took {fmt.count(record.n_alternations, 'alternation')} of scores and loadings; the "
            f"objective is {fmt.number(record.objective, 6)}."
        )
    joint = is_joint(inputs.model)
    caption = "Objective of all components together" if joint else "Objective"
    caption += " after each alternation of scores and loadings, as the distance to its last value."
    if record.target_sparsity is not None:
        caption += " The weights change between alternations, so it may rise."
    if not joint:
        caption += " Dotted: upper bound on the distance of each map to the best one for its scores."
    return chart(
        plot_convergence(inputs.model, components=[k]),
        alt=f"Convergence of component {k + 1}: after {fmt.count(record.n_alternations, 'alternation')} "
        f"the objective is {fmt.number(record.objective, 6)}, with a relative gap of "
        f"{fmt.number(record.relative_gap, 2)}.",
        caption=caption,
    )


def _scores(inputs: ReportInputs, k: int) -> Chart | None:
    """Draw the scores of the samples, and name the extreme ones."""
    if inputs.scores is None:
        return None
    names, values = inputs.scores.names, inputs.scores.values[:, k]
    groups, variable = inputs.groups, inputs.variable
    figure = plot_scores(
        inputs.scores.values,
        k,
        groups=None if groups is None else groups.values,
        variable=None if variable is None else variable.values,
        group_name="" if groups is None else groups.name,
        variable_name="" if variable is None else variable.name,
    )
    low, high = int(np.argmin(values)), int(np.argmax(values))
    caption = (
        f"{len(values)} samples. Highest: {fmt.file_names(names[high])} ({fmt.number(values[high])}); "
        f"lowest: {fmt.file_names(names[low])} ({fmt.number(values[low])})."
    )
    if (found := outweighing(values)) is not None:
        top, share = found
        name = fmt.file_names(names[top])
        caption += f" {name} alone has {fmt.percent(share, 2)} of the variance: check this sample."
    if groups is not None:
        members = group_members(groups.values, len(values))
        medians = [f"{name} {fmt.number(float(np.median(values[rows])))}" for name, rows in members]
        caption += f" Medians by {groups.name}: {', '.join(medians)}."
    elif variable is None:
        caption += " The line is the median."
    alt = (
        f"Scores of {len(values)} samples on component {k + 1}, from {fmt.number(values.min())} to "
        f"{fmt.number(values.max())}, median {fmt.number(float(np.median(values)))}."
    )
    return chart(figure, alt=alt, caption=caption)


def verdict_of(inputs: ReportInputs, k: int) -> Verdict:
    """Judge component `k`, from 0, by random halves, or else by resamples."""
    if inputs.model.diagnostics_[k].is_empty:
        return Verdict("Empty: there is nothing to interpret.", BAD)
    if inputs.halves is not None:
        half = inputs.halves[k]
        level = (GOOD if half.outline == CERTAIN else UNSURE) if half.verdict == CONFIRMED else BAD
        return Verdict(half.sentence, level)
    if inputs.stability is not None:
        return _by_resamples(inputs, k)
    return Verdict("Stability not checked.", UNKNOWN)


def _by_resamples(inputs: ReportInputs, k: int) -> Verdict:
    """Judge component `k` by the number of resampled fits with the same outline."""
    assert inputs.stability is not None
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


def verdict_summary(verdicts: tuple[Verdict, ...], *, by_halves: bool) -> str:
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
    helps = (WHAT_HELPS,) if by_halves and any(verdict.level == BAD for verdict in verdicts) else ()
    return " ".join((*sentences, *helps))
