"""Sections of the page: their parts, and those about variance, stability, scores, computation and run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv.estimator._validation import parameters_in_use
from spcatv.estimator._warnings import SPARSITY_SLACK, empty_components
from spcatv.report import formatting as fmt
from spcatv.report.figures import plot_stability, plot_variance, svg_uri
from spcatv.report.inputs import ReportInputs, is_joint

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from spcatv.report.component import ComponentPanel

MOST_SAMPLES = 2000
LONG_TABLE = 15  # rows of a table that is folded
# Columns of the summary that the penalised model does not have.
OF_TARGETS = ("Zeros wanted", "Jump", "Smoothness")


@dataclass(frozen=True)
class SectionTable:
    """Table whose first column names its rows."""

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    id: str = ""  # for links and tests
    text: tuple[str, ...] = ()  # columns that hold text, which is aligned to the left
    long: bool = False  # whether the names of the rows may be long, such as file names
    features: tuple[int, ...] = ()  # of regions: the feature that the button of each row shows


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
    charts: tuple[Chart, ...] = ()
    table: SectionTable | None = None
    parts: tuple[Section, ...] = ()
    code: str = ""
    id: str = ""  # for links and tests
    link: str = ""  # title in the navigation, if it is shorter
    summary: str = ""  # makes the part foldable, and is shown while it is folded
    is_open: bool = False  # whether a foldable part starts open
    is_note: bool = False  # whether the text is a warning
    copy: str = ""  # label of a button that copies the parts


def chart(figure: Figure, alt: str, caption: str, *, photo: bool = False) -> Chart:
    """Convert a matplotlib figure to a picture for the page."""
    return Chart(svg_uri(figure), alt, caption, photo)


def table_of(caption: str, columns: Mapping[str, Sequence[str]], **options: Any) -> SectionTable:
    """Create a table from its columns; the options are the other fields of a SectionTable."""
    return SectionTable(caption, tuple(columns), tuple(zip(*columns.values(), strict=True)), **options)


def component_table(caption: str, columns: Mapping[str, Sequence[str]], **options: Any) -> SectionTable:
    """Create a table with one row per component from its columns."""
    numbers = [str(k + 1) for k in range(len(next(iter(columns.values()))))]
    return table_of(caption, {"Component": numbers, **columns}, **options)


def lead(inputs: ReportInputs, noun: str) -> str:
    """Summarise the report in two sentences."""
    n_components, n_features = inputs.model.components_.shape
    samples = "" if inputs.scores is None else f" in {fmt.count(len(inputs.scores.values), 'sample')}"
    explain = "It explains" if n_components == 1 else "Together they explain"
    most = ""
    if inputs.variance.ceiling is not None:
        ceiling = fmt.percent(inputs.variance.ceiling[-1])
        most = f"; no {fmt.count(n_components, 'component')} can explain more than {ceiling} (PCA)"
    return (
        f"{fmt.count(n_components, 'component')} of {n_features:,} {noun}{samples}. {explain} "
        f"{fmt.percent(inputs.variance.together[-1])} of the variance{most}."
    )


def warnings(inputs: ReportInputs) -> tuple[str, ...]:
    """Warn about empty components at the top of the page."""
    empty = empty_components(inputs.model)
    found = []
    for why in dict.fromkeys(empty.values()):
        numbers = [k + 1 for k, reason in empty.items() if reason == why]
        found.append(f"{fmt.components(numbers)} {'is' if len(numbers) == 1 else 'are'} empty: {why}.")
    return tuple(found)


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
    return Section("Explained variance", text, (picture,), table, id="variance")


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
        parts.append(Section(table=halves_table(inputs)))
    if inputs.stability is not None:
        parts.append(_resamples(inputs))
    return Section("Stability", parts=tuple(parts), id="stability")


def how_to_check(inputs: ReportInputs) -> str:
    """Return the command or code that checks the stability of a model; empty if it was checked."""
    if inputs.halves is not None or inputs.stability is not None:
        return ""
    if inputs.config is not None:
        return inputs.repeat.replace(" --output", " --n-splits 10 --output")
    return "model.check_stability(X).generate_report(data=X)"


def halves_table(inputs: ReportInputs) -> SectionTable:
    """Create the table of the agreement of random halves; one row per component."""
    assert inputs.halves is not None
    columns = {
        "Pattern": [half.verdict for half in inputs.halves],
        "Outline": [half.outline for half in inputs.halves],
        "Cosine of both halves": [fmt.fixed(half.cosine) for half in inputs.halves],
        "Dice of both halves": [fmt.fixed(half.dice) for half in inputs.halves],
        "Rank": [str(half.rank) for half in inputs.halves],
    }
    caption = (
        "Random halves of the samples. A pattern is confirmed if both halves show it: cosine of at least "
        "0.75, or Dice index of the supports, without what is due to chance, of at least 0.6. The outline is "
        "certain if this Dice index is at least 0.6. Rank 1 has the highest."
    )
    return component_table(caption, columns, id="halves-table", text=("Pattern", "Outline"))


def _resamples(inputs: ReportInputs) -> Section:
    """Describe the agreement of resampled fits."""
    assert inputs.stability is not None
    dice, frequency = inputs.stability.dice, inputs.stability.selection_frequency
    columns = {
        "Dice, median": [fmt.number(value, 2) for value in np.median(dice, axis=0)],
        "Dice, lowest": [fmt.number(value, 2) for value in dice.min(axis=0)],
        "Selected in half": [f"{count:,}" for count in (frequency >= 0.5).sum(axis=1)],
        "Selected in 90 %": [f"{count:,}" for count in (frequency >= 0.9).sum(axis=1)],
    }
    medians = ", ".join(f"component {k}: {text}" for k, text in enumerate(columns["Dice, median"], start=1))
    picture = chart(
        plot_stability(inputs.stability),
        alt=f"Median Dice index of resampled fits with the fit of all samples: {medians}.",
        caption="Every point is one resampled fit; the lines are medians.",
    )
    text = (
        f"The fit was repeated on {len(dice)} resamples of the samples. The maps above can show how often "
        "each place was selected, and how consistent its sign was."
    )
    table = component_table("Resampled fits", columns, id="stability-table")
    return Section(text=text, charts=(picture,), table=table)


def samples_section(inputs: ReportInputs) -> Section | None:
    """Create the section with the scores of all samples."""
    scores = inputs.scores
    if scores is None:
        return None
    extra = [column for column in (inputs.groups, inputs.variable) if column is not None]
    names = tuple(column.name for column in extra)
    rows = tuple(
        (
            fmt.file_names(name),
            *(fmt.plain_value(column.values[row]) for column in extra),
            *(fmt.number(value, 4) for value in scores.values[row]),
        )
        for row, name in enumerate(scores.names[:MOST_SAMPLES])
    )
    columns = ("Sample", *names, *(f"Component {k + 1}" for k in range(inputs.n_components)))
    more = f"; the first {MOST_SAMPLES:,} are listed" if len(scores.names) > MOST_SAMPLES else ""
    summary = f"Scores of {fmt.count(len(scores.names), 'sample')}{more}"
    table = SectionTable("Scores of all samples", columns, rows, id="scores-table", text=names, long=True)
    text = "The score of every sample on each component. The plots are in the panels of the components."
    return Section("Scores", text, parts=(Section(table=table, summary=summary),), id="samples")


def computation_section(inputs: ReportInputs, panels: Sequence[ComponentPanel], noun: str) -> Section:
    """Create the section about the exactness of the computation."""
    text = (
        "These numbers describe the exactness of the computation. They do not show whether other samples "
        "have the same components."
    )
    parts = [Section(text=note, is_note=True) for note in _notes(inputs, noun)]
    table = Section(table=_summary(inputs, panels))
    return Section("The computation", text, parts=(*parts, table), id="computation", link="Computation")


def _notes(inputs: ReportInputs, noun: str) -> Iterator[str]:
    """Describe where the computation did not reach the requested values."""
    for k, record in enumerate(inputs.model.diagnostics_):
        if record.is_empty:
            continue
        if record.jump > 0 and abs(record.sparsity - record.target_sparsity) > SPARSITY_SLACK:
            yield (
                f"Component {k + 1} has {fmt.percent(record.sparsity)} zeros instead of "
                f"{_asked(record.target_sparsity)}: {fmt.percent(record.jump)} of the {noun} enter "
                "or leave its map at once."
            )
        if record.smoothness is not None and record.smoothness < inputs.model.smoothness:
            yield (
                f"Component {k + 1} has a smoothness of {record.smoothness:.3g} instead of "
                f"{inputs.model.smoothness:g}: with more, its map would be one plateau, in "
                "which no share of zeros can be chosen."
            )
        if not record.converged:
            yield (
                f"Component {k + 1} did not reach the tolerance: its relative gap is "
                f"{fmt.number(record.relative_gap, 2)} instead of {fmt.number(inputs.model.tol, 2)}."
            )


def _summary(inputs: ReportInputs, panels: Sequence[ComponentPanel]) -> SectionTable:
    """Create the table with the figures of every component."""
    records = inputs.model.diagnostics_

    def unless_empty(texts: Iterator[str]) -> list[str]:
        return ["–" if record.is_empty else text for record, text in zip(records, texts, strict=True)]

    columns = {
        "Explained variance": [fmt.percent(share) for share in inputs.variance.own],
        "Zeros wanted": [_asked(record.target_sparsity) for record in records],
        "Zeros": unless_empty(fmt.percent(record.sparsity) for record in records),
        "Jump": [fmt.percent(record.jump) if record.jump > 0 else "none" for record in records],
        "Smoothness": [f"{record.smoothness or 0:.3g}" for record in records],
        "Not zero": [f"{record.n_nonzero:,}" for record in records],
        "Regions": [f"{p.n_regions} (+{p.n_tiny} tiny)" if p.n_tiny else str(p.n_regions) for p in panels],
        "Relative gap": unless_empty(fmt.number(record.relative_gap, 2) for record in records),
        "Converged": unless_empty("yes" if record.converged else "no" for record in records),
    }
    if inputs.model.alpha is not None:
        columns = {name: column for name, column in columns.items() if name not in OF_TARGETS}
    elif not any(record.jump > 0 for record in records):
        del columns["Jump"]
    caption = _asked_sentence(inputs)
    if any(panel.n_tiny for panel in panels):
        caption += f" Tiny regions hold less than {fmt.percent(fmt.SMALLEST_REGION, 1)} of a map's weight."
    return component_table(caption, columns, id="summary-table")


def _asked(share: float | None) -> str:
    return "" if share is None else f"{100 * share:g}{fmt.SPACE}%"


def _asked_sentence(inputs: ReportInputs) -> str:
    """Describe the requested sparsity and smoothness, or the weights."""
    model = inputs.model
    if model.alpha is None:
        shares = ", ".join(_asked(share) for share in np.atleast_1d(model.sparsity))
        return f"Asked for: {shares} zeros and a smoothness of {model.smoothness:g}."
    return (
        f"The penalised model, with {model.penalty_units} alpha {fmt.values(model.alpha)}, l1 ratio "
        f"{model.l1_ratio:g} and TV ratio {model.tv_ratio:g}."
    )


def run_section(inputs: ReportInputs) -> Section:
    """Create the section about inputs, mask, parameters, versions, and the command that repeats the run."""
    files = tuple(_files(inputs.saved.inputs))
    parameters = {name: fmt.plain_value(value) for name, value in sorted(_parameters(inputs).items())}
    parts = [Section("Data", table=_pairs("Data and weights", _facts(inputs), "facts-table"))]
    if files:
        columns = ("File", "What", "SHA-256")
        caption = "Files, with the beginning of the SHA-256 of their contents"
        table = SectionTable(caption, columns, files, id="files-table", text=columns[1:], long=True)
        parts.append(Section(table=table, summary=fmt.count(len(files), "input file")))
    parts += [
        Section("Settings", table=_pairs("Parameters", parameters, "parameters-table")),
        Section("To repeat it", code=inputs.repeat, id="repeat"),
    ]
    if inputs.config:
        parts.append(Section(code=inputs.config, summary="The configuration that took effect"))
    versions = ", ".join(f"{name} {version}" for name, version in inputs.saved.versions.items())
    parts.append(Section("Versions", versions, id="versions"))
    return Section("What was run", parts=tuple(parts), id="run")


def _pairs(caption: str, pairs: Mapping[str, str], id: str) -> SectionTable:
    return SectionTable(caption, ("Name", "Value"), tuple(pairs.items()), id=id, text=("Value",), long=True)


def _facts(inputs: ReportInputs) -> dict[str, str]:
    """Describe data, mask and weights."""
    model = inputs.model
    facts = {"Kind": type(model).__name__}
    if hasattr(model, "mask_report_"):
        facts |= {"Mask": model.mask_report_, "Dropped": _dropped(model)}
    else:
        facts["Structure"] = repr(model.structure_)
    names = getattr(model, "input_names_", ())
    if n_samples := len(names if inputs.scores is None else inputs.scores.values):
        facts["Samples"] = f"{n_samples:,}"
    confounds = getattr(getattr(model, "preparation_", None), "confounds", None)
    if confounds is not None:
        facts["Confounds removed"] = confounds.described()
    one_each = np.ndim(model.l1_) == 0
    weights = {"l1": model.l1_, "l2": model.l2_, "TV": model.tv_}
    facts["Weights used" if one_each else "Weights used (one per component)"] = "; ".join(
        f"{name} {fmt.values(weight, 6)}" for name, weight in weights.items()
    )
    return facts


def _parameters(inputs: ReportInputs) -> dict[str, Any]:
    """Return the parameters in use, with the alpha of every component where they differ."""
    used = parameters_in_use(inputs.saved.parameters)
    if np.ndim(alphas := inputs.model.alpha):
        used["alpha"] = [float(f"{alpha:.4g}") for alpha in alphas]
    return used


def _dropped(model: Any) -> str:
    report = model.dropped_
    if report.n_dropped == 0:
        return "none"
    return (
        f"{report.n_dropped:,} of {report.n_features:,}: {report.n_constant:,} constant, "
        f"{report.n_not_finite:,} NaN or infinite in some image, {report.n_explained:,} explained by "
        "confounds"
    )


def _files(inputs: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield name, role and checksum of every input file."""
    for what, value in inputs.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping) and "name" in item:
                yield str(item["name"]), str(what), str(item.get("sha256", ""))[:12]
