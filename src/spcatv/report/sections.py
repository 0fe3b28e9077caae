"""Sections of the page: their parts, and those about the fit: variance, stability, settings, scores, run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from spcatv.estimator._validation import parameters_in_use
from spcatv.estimator._warnings import empty_components
from spcatv.report import formatting as fmt
from spcatv.report.drawing import line_style, new_figure, svg_uri
from spcatv.report.figures import plot_path, plot_stability, plot_trade, plot_variance
from spcatv.report.inputs import ReportInputs, is_joint
from spcatv.report.regions import Cluster, noun_of
from spcatv.results import Selection
from spcatv.selection import ComponentCount

MOST_ROWS = 2000  # of a table of samples
LONG_TABLE = 15  # rows of a table that is folded
SMALLEST_REGION = 1e-3  # regions below this share of a map's weight are counted, but not listed
PARAMETERS = {
    "param_sparsity": "sparsity",
    "param_smoothness": "smoothness",
    "param_alpha": "alpha",
    "param_l1_ratio": "l1 ratio",
    "param_tv_ratio": "TV ratio",
}


@dataclass(frozen=True)
class SectionTable:
    """Table by columns, of which the first one names the rows."""

    caption: str
    columns: Mapping[str, Sequence[str]]
    id: str = ""  # for links and tests
    text: Sequence[str] = ()  # columns that hold text, which is aligned to the left
    long: bool = False  # whether the names of the rows may be long, such as file names
    features: Sequence[int] = ()  # of regions: the feature that the button of each row shows

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells, row by row."""
        return list(zip(*self.columns.values(), strict=True))


@dataclass(frozen=True)
class Chart:
    """Picture with its alternative text and caption."""

    image: str
    alt: str
    caption: str
    photo: bool = False  # whether it keeps its colours on a dark page: a brain, rather than lines and axes


@dataclass(frozen=True)
class Section:
    """Section of the page, or a part of one; what is empty is left out."""

    title: str = ""
    text: str = ""
    charts: Sequence[Chart] = ()
    table: SectionTable | None = None
    parts: Sequence[Section] = ()
    code: str = ""
    id: str = ""  # for links and tests
    link: str = ""  # title in the navigation, if it is shorter
    summary: str = ""  # makes the part foldable, and is shown while it is folded
    is_open: bool = False  # whether a foldable part starts open
    copy: str = ""  # label of a button that copies the parts


def chart(figure: Figure, alt: str, caption: str, *, photo: bool = False) -> Chart:
    """Convert a matplotlib figure to a picture for the page."""
    return Chart(svg_uri(figure), alt, caption, photo)


def component_table(caption: str, columns: Mapping[str, Sequence[str]], **options: Any) -> SectionTable:
    """Create a table with one row per component; the options are the other fields of a `SectionTable`."""
    numbers = [str(k + 1) for k in range(len(next(iter(columns.values()))))]
    return SectionTable(caption, {"Component": numbers, **columns}, **options)


def summary(inputs: ReportInputs) -> str:
    """Summarise the report in two sentences."""
    n_components, n_features = inputs.model.components_.shape
    samples = "" if inputs.scores is None else f" in {fmt.count(len(inputs.scores.values), 'sample')}"
    explain = "It explains" if n_components == 1 else "Together they explain"
    most = ""
    if inputs.variance.ceiling is not None:
        ceiling = fmt.percent(inputs.variance.ceiling[-1])
        most = f"; no {fmt.count(n_components, 'component')} can explain more than {ceiling} (PCA)"
    return (
        f"{fmt.count(n_components, 'component')} of {n_features:,} {noun_of(inputs.model)}{samples}. "
        f"{explain} {fmt.percent(inputs.variance.together[-1])} of the variance{most}."
    )


def empty_warnings(inputs: ReportInputs) -> list[str]:
    """Warn about empty components at the top of the page."""
    empty = empty_components(inputs.model)
    found = []
    for why in dict.fromkeys(empty.values()):
        numbers = [k + 1 for k, reason in empty.items() if reason == why]
        found.append(f"{fmt.components(numbers)} {'is' if len(numbers) == 1 else 'are'} empty: {why}.")
    return found


def variance_section(inputs: ReportInputs) -> Section:
    """Create the section about the variance that the components explain."""
    variance, joint = inputs.variance, is_joint(inputs.model)
    known = {
        "Explained" if joint else "Own": variance.own,
        "Adjusted": variance.adjusted,
        "Cumulative": variance.cumulative,
        "PCA, cumulative": variance.ceiling,
    }
    columns = {
        name: [fmt.percent(share) for share in shares] for name, shares in known.items() if shares is not None
    }
    text = "Own: variance removed by this component."
    if joint:
        text = "The scores are uncorrelated, so the explained variances add up."
    if variance.adjusted is not None:
        text += (
            " Adjusted: variance that its scores add to those of earlier components. Cumulative: variance "
            "that this component and all earlier ones explain together."
        )
    if variance.ceiling is not None:
        text += " PCA explains the most that any components can explain, but its maps have no zeros."
    picture = chart(
        plot_variance(variance),
        alt=f"Cumulative explained variance with 1 to {inputs.n_components} components: "
        f"{', '.join(fmt.percent(share) for share in variance.together)}.",
        caption="Cumulative explained variance.",
    )
    table = component_table("Shares of the total variance", columns, id="variance-table")
    return Section("Explained variance", text, [picture], table, id="variance")


def stability_section(inputs: ReportInputs) -> Section:
    """Create the section about random halves and resampled fits."""
    parts = []
    if check := how_to_check(inputs):
        text = (
            "Whether other samples would show these components was not checked. Do not interpret a component "
            "before that. This checks it in random halves of the samples:"
        )
        parts.append(Section(text=text, code=check, id="check"))
    if inputs.halves is not None:
        columns = {
            "Pattern": [half.verdict for half in inputs.halves],
            "Outline": [half.outline for half in inputs.halves],
            "Cosine": [fmt.fixed(half.cosine) for half in inputs.halves],
            "Dice": [fmt.fixed(half.dice) for half in inputs.halves],
            "Rank": [str(half.rank) for half in inputs.halves],
        }
        caption = (
            "Agreement of the maps of two random halves of the samples, mean over splits. Cosine: of the "
            "loadings. Dice: overlap of the supports, corrected for chance. A pattern is confirmed if the "
            "cosine is at least 0.75 or the Dice index at least 0.6; its outline is certain in the second "
            "case. Rank 1 has the highest Dice index."
        )
        table = component_table(caption, columns, id="halves-table", text=("Pattern", "Outline"))
        parts.append(Section(table=table))
    if inputs.stability is not None:
        parts.append(_resamples(inputs.stability, noun_of(inputs.model)))
    return Section("Stability", parts=parts, id="stability")


def how_to_check(inputs: ReportInputs) -> str:
    """Return the command or code that checks the stability of a model; empty if it was checked."""
    if inputs.halves is not None or inputs.stability is not None:
        return ""
    if inputs.config is not None:
        return inputs.repeat.replace(" --output", " --n-splits 10 --output")
    return "model.check_stability(X).generate_report(data=X)"


def _resamples(stability: Any, noun: str) -> Section:
    """Describe the agreement of resampled fits."""
    dice, frequency = stability.dice, stability.selection_frequency
    columns = {
        "Dice, median": [fmt.fixed(value) for value in np.median(dice, axis=0)],
        "Dice, lowest": [fmt.fixed(value) for value in dice.min(axis=0)],
        f"{noun.capitalize()} in 50 %": [f"{n:,}" for n in (frequency >= 0.5).sum(axis=1)],
        f"{noun.capitalize()} in 90 %": [f"{n:,}" for n in (frequency >= 0.9).sum(axis=1)],
    }
    medians = ", ".join(f"component {k}: {text}" for k, text in enumerate(columns["Dice, median"], start=1))
    picture = chart(
        plot_stability(stability),
        alt=f"Median Dice index of resampled fits with the fit of all samples: {medians}.",
        caption="Every point is one resampled fit; the lines are medians.",
    )
    text = (
        f"The fit was repeated on {len(dice)} resamples of the samples. The maps above can show how often "
        "each place was selected, and how consistent its sign was."
    )
    caption = (
        f"Dice index with the fit of all samples; {noun} selected in at least 50 % and 90 % of the fits."
    )
    table = component_table(caption, columns, id="stability-table")
    return Section(text=text, charts=[picture], table=table)


def count_section(count: ComponentCount | None, n_chosen: int) -> Section | None:
    """Create the section about the number of components; None if the number was given."""
    if count is None:
        return None
    numbers = np.arange(1, len(count.share) + 1)
    columns = {
        "Component": [f"{k} (last one kept)" if k == n_chosen else str(k) for k in numbers],
        "Share of the remaining variance": [fmt.percent(share) for share in count.share],
        "Noise reaches": [fmt.percent(limit) for limit in count.limit],
    }
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        axes.plot(numbers, 100 * count.share, **line_style(0), label="data")
        axes.plot(numbers, 100 * count.limit, **line_style(1), label="noise as smooth")
        axes.axvline(n_chosen + 0.5, color="0.5", linestyle=":")
        axes.set_ylim(bottom=0)
        axes.set_xticks(numbers)
        axes.set(xlabel="component", ylabel="share of the remaining variance, %")
        axes.legend()
    picture = chart(
        figure,
        alt=f"Share of the remaining variance of {len(numbers)} components, and what noise reaches; "
        f"{n_chosen} kept.",
        caption="Components above the line of noise stand out, and so do those before them. The vertical "
        "line marks the number kept.",
    )
    table = SectionTable("Components of the lightly smoothed samples", columns, id="count-table")
    return Section("Number of components", count.reason, [picture], table, id="count")


def selection_section(selection: Selection | None) -> Section | None:
    """Create the section about the settings that were compared; None if none were."""
    if selection is None:
        return None
    shown = _settings(selection.columns)
    n_settings = len(selection.columns["mean_test_error"])
    best = selection.best_index
    numbers = [f"{k + 1} (chosen)" if k == best else str(k + 1) for k in range(n_settings)]
    chosen = ", ".join(f"{title} {shown[title][best]}" for title in PARAMETERS.values() if title in shown)
    folds = "" if selection.n_folds is None else f" on {selection.n_folds} folds"
    verb = "was" if n_settings == 1 else "were"
    text = f"{fmt.count(n_settings, 'setting')} {verb} compared{folds}; chosen: {chosen}."
    if selection.reason:
        text += f" Why: {selection.reason}."
    if selection.rule:
        what = chosen_by(selection)
        text += (
            f" The rule “{selection.rule}” takes {what}." if what else f" The rule was “{selection.rule}”."
        )
    alt = f" Chosen: {chosen}, with a held-out error of {shown['held-out error'][best]}."
    if "param_sparsity" in selection.columns:
        picture = chart(
            plot_trade(selection.columns, best_index=best),
            alt=f"Stability of {n_settings} settings against their held-out error.{alt}",
            caption="Every point is a setting; numbers are sparsities, each above its most stable setting. "
            "Settings up and to the left are better. The star marks the chosen setting; filled points are "
            "within one standard error of the lowest error.",
        )
    else:
        picture = chart(
            plot_path(selection.columns, best_index=best),
            alt=f"Held-out error and stability of {n_settings} settings.{alt}",
            caption="The star marks the chosen setting. Lower error and higher stability are better.",
        )
    table = SectionTable("Settings", {"Setting": numbers, **shown}, id="selection-table")
    details = Section(table=table, summary="All settings", is_open=n_settings <= LONG_TABLE)
    title = "Selection of the setting"
    return Section(title, text, [picture], parts=[details], id="selection", link="Selection")


def chosen_by(selection: Selection) -> str:
    """Describe the setting that the rule takes; empty if the rule is not known."""
    least = selection.min_sparsity
    sparse = "sparse" if least is None else f"sparse (at least {fmt.percent(least, 2)} zeros)"
    rules = {
        "one_se": "the sparsest setting that is as smooth as the one with the lowest held-out error and "
        "explains little less (at most one standard error over the folds, and at most 5 %; the most stable "
        "one of equally sparse settings)",
        "error": "the setting with the lowest held-out error",
        "stability": "the setting that finds the same places on every fold most often (Dice index, corrected "
        "for chance)",
        "paper": f"the setting with the lowest held-out error whose second and third components are "
        f"{sparse}, or the one that comes closest to that where none is",
    }
    return rules.get(selection.rule, "")


def _settings(columns: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the columns of the table of settings as strings, by their headings."""
    shown = {
        title: [fmt.values(value) for value in columns[name]]
        for name, title in PARAMETERS.items()
        if name in columns
    }
    errors = np.asarray(columns["mean_test_error"], dtype=np.float64)
    shown["held-out error"] = [fmt.number(error, 5) for error in errors]
    if (lowest := float(np.nanmin(errors))) > 0:
        shown["above the lowest"] = [fmt.percent(error / lowest - 1) for error in errors]
    shown["Dice"] = [fmt.fixed(value) for value in np.asarray(columns["mean_dice"], dtype=np.float64)]
    shown["zeros"] = [fmt.percent(share) for share in columns["mean_sparsity"]]
    return shown


def samples_section(inputs: ReportInputs) -> Section | None:
    """Create the section with the scores of all samples."""
    scores = inputs.scores
    if scores is None:
        return None
    names = scores.names[:MOST_ROWS]
    extra = {
        column.name: [fmt.plain_value(value) for value in column.values[:MOST_ROWS]]
        for column in (inputs.groups, inputs.variable)
        if column is not None
    }
    columns = {"Sample": [fmt.file_names(name) for name in names], **extra}
    for k, values in enumerate(scores.values[:MOST_ROWS].T, start=1):
        columns[f"Component {k}"] = [fmt.number(value, 4) for value in values]
    more = f"; the first {MOST_ROWS:,} are listed" if len(scores.names) > MOST_ROWS else ""
    summary = f"Scores of {fmt.count(len(scores.names), 'sample')}{more}"
    table = SectionTable("Scores of all samples", columns, id="scores-table", text=tuple(extra), long=True)
    text = "The score of every sample on each component. The plots are in the panels of the components."
    return Section("Scores", text, parts=[Section(table=table, summary=summary)], id="samples")


def computation_section(inputs: ReportInputs, clusters: Sequence[Sequence[Cluster]]) -> Section:
    """Create the section about the exactness of the computation; `clusters` of every component."""
    text = (
        "These numbers describe the exactness of the computation. They do not show whether other samples "
        "have the same components."
    )
    model, records = inputs.model, inputs.model.diagnostics_
    n_regions, regions = [len(found) for found in clusters], []
    n_heavy = [sum(cluster.share >= SMALLEST_REGION for cluster in found) for found in clusters]
    for n_all, n in zip(n_regions, n_heavy, strict=True):
        regions.append(str(n) if n == n_all else f"{n} (+{n_all - n} tiny)")
    columns = {"Explained variance": [fmt.percent(share) for share in inputs.variance.own]}
    if model.alpha is None:
        columns["Zeros wanted"] = [_plain_percent(record.target_sparsity) for record in records]
    columns["Zeros"] = ["–" if record.is_empty else fmt.percent(record.sparsity) for record in records]
    if model.alpha is None:
        if any(record.jump > 0 for record in records):
            columns["Jump"] = [fmt.percent(record.jump) if record.jump > 0 else "none" for record in records]
        if model.structure_.n_rows:
            columns["Smoothness"] = [f"{record.smoothness or 0:.3g}" for record in records]
    columns |= {
        "Not zero": [f"{record.n_nonzero:,}" for record in records],
        "Regions": regions,
        "Relative gap": ["–" if r.is_empty else fmt.number(r.relative_gap, 2) for r in records],
        "Converged": ["–" if r.is_empty else "yes" if r.converged else "no" for r in records],
    }
    if model.alpha is None:
        zeros = ", ".join(map(_plain_percent, np.atleast_1d(model.sparsity)))
        smoothness = f" and a smoothness of {model.smoothness:g}" if model.structure_.n_rows else ""
        caption = f"Asked for: {zeros} zeros{smoothness}."
    else:
        caption = (
            f"The penalised model, with {model.penalty_units} alpha {fmt.values(model.alpha)}, l1 ratio "
            f"{model.l1_ratio:g} and TV ratio {model.tv_ratio:g}."
        )
    if n_heavy != n_regions:
        caption += f" Tiny regions hold less than {fmt.percent(SMALLEST_REGION, 1)} of a map's weight."
    table = component_table(caption, columns, id="summary-table")
    return Section("The computation", text, table=table, id="computation", link="Computation")


def _plain_percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:g}{fmt.SPACE}%"


def run_section(inputs: ReportInputs) -> Section:
    """Create the section about inputs, mask, parameters, versions, and the command that repeats the run."""
    model, saved = inputs.model, inputs.saved
    used = parameters_in_use(saved.parameters)
    if np.ndim(model.alpha):
        used["alpha"] = [float(f"{alpha:.4g}") for alpha in model.alpha]
    parameters = {name: fmt.plain_value(value) for name, value in sorted(used.items())}
    parts = [Section("Data", table=_pairs("Data and weights", _facts(inputs), "facts-table"))]
    files = [
        (str(item["name"]), str(what), str(item.get("sha256", ""))[:12])
        for what, value in saved.inputs.items()
        for item in (value if isinstance(value, list) else [value])
        if isinstance(item, Mapping) and "name" in item
    ]
    if files:
        columns = dict(zip(("File", "What", "SHA-256"), map(list, zip(*files, strict=True)), strict=True))
        caption = "Files, with the beginning of the SHA-256 of their contents"
        table = SectionTable(caption, columns, id="files-table", text=("What", "SHA-256"), long=True)
        parts.append(Section(table=table, summary=fmt.count(len(files), "input file")))
    parts += [
        Section("Settings", table=_pairs("Parameters", parameters, "parameters-table")),
        Section("To repeat it", code=inputs.repeat, id="repeat"),
    ]
    if inputs.config:
        parts.append(Section(code=inputs.config, summary="The configuration that took effect"))
    versions = ", ".join(f"{name} {version}" for name, version in saved.versions.items())
    parts.append(Section("Versions", versions, id="versions"))
    return Section("What was run", parts=parts, id="run")


def _pairs(caption: str, pairs: Mapping[str, str], id: str) -> SectionTable:
    return SectionTable(
        caption, {"Name": list(pairs), "Value": list(pairs.values())}, id, ("Value",), long=True
    )


def _facts(inputs: ReportInputs) -> dict[str, str]:
    """Describe data, mask and weights."""
    model = inputs.model
    facts = {"Kind": type(model).__name__}
    if hasattr(model, "mask_report_"):
        dropped = model.dropped_
        facts["Mask"] = model.mask_report_
        facts["Dropped"] = (
            f"{dropped.n_dropped:,} of {dropped.n_features:,}: {dropped.n_constant:,} constant, "
            f"{dropped.n_not_finite:,} NaN or infinite in some image, {dropped.n_explained:,} explained by "
            "confounds"
            if dropped.n_dropped
            else "none"
        )
    else:
        facts["Structure"] = repr(model.structure_)
    one_each = np.ndim(model.l1_) == 0
    weights = {"l1": model.l1_, "l2": model.l2_, "TV": model.tv_}
    facts["Weights used" if one_each else "Weights used (one per component)"] = "; ".join(
        f"{name} {fmt.values(weight, 6)}" for name, weight in weights.items()
    )
    return facts
