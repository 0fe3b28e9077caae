"""The sections of the page beside the components: summary, variance, stability, selection, samples, run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv.report import words
from spcatv.report.components import ComponentPanel
from spcatv.report.content import Chart, Table, chart, heads
from spcatv.report.figures import plot_path, plot_stability, plot_variance
from spcatv.report.material import Material
from spcatv.report.stored import numeric

MOST_SETTINGS = 200
MOST_SAMPLES = 2000


@dataclass(frozen=True)
class Section:
    """A text, a picture and a table."""

    text: str
    chart: Chart
    table: Table


@dataclass(frozen=True)
class Samples:
    """The scores of all samples."""

    text: str
    summary: str
    table: Table


@dataclass(frozen=True)
class Run:
    """What was run."""

    facts: tuple[tuple[str, str], ...]
    files: Table
    parameters: Table
    repeat: str
    config: str | None
    versions: str


def lead(material: Material, noun: str) -> str:
    """The report in two sentences."""
    n_components, n_features = material.model.components_.shape
    variance = material.variance
    together = float(variance.own.sum() if variance.cumulative is None else variance.cumulative[-1])
    samples = "" if material.scores is None else f" in {words.count(len(material.scores.values), 'sample')}"
    ceiling = ""
    if variance.ceiling is not None:
        ceiling = (
            f" Any {n_components} components explain at most {words.percent(variance.ceiling[-1])} (PCA)."
        )
    return (
        f"{words.count(n_components, 'component')} of {n_features:,} {noun}{samples}. Together they explain "
        f"{words.percent(together)} of the variance.{ceiling}"
    )


def warnings(material: Material) -> tuple[str, ...]:
    """What a reader must know before anything else."""
    found = []
    for k, record in enumerate(material.model.diagnostics_):
        if record.n_nonzero == 0:
            found.append(f"Component {k + 1} is empty: the penalties leave no loading.")
        elif not record.converged:
            found.append(
                f"Component {k + 1} did not reach the tolerance: its relative gap is "
                f"{words.number(record.relative_gap, 2)} instead of {words.number(material.model.tol, 2)}."
            )
    return tuple(found)


def summary(material: Material, panels: tuple[ComponentPanel, ...]) -> Table:
    """One row a component."""
    rows = []
    for k, (panel, record) in enumerate(zip(panels, material.model.diagnostics_, strict=True)):
        rows.append(
            (
                str(k + 1),
                words.percent(material.variance.own[k]),
                words.percent(record.sparsity),
                f"{record.n_nonzero:,}",
                str(panel.n_regions),
                words.number(record.relative_gap, 2),
                "yes" if record.converged else "no",
            )
        )
    columns = heads(
        "Component", "Explained variance", "Zeros", "Not zero", "Regions", "Relative gap", "Converged"
    )
    return Table("The components at a glance", columns, tuple(rows), id="summary-table")


def variance_section(material: Material) -> Section:
    """What the components explain, alone and together."""
    variance = material.variance
    known = {
        "Own": variance.own,
        "Adjusted": variance.adjusted,
        "Cumulative": variance.cumulative,
        "PCA, cumulative": variance.ceiling,
    }
    shown = {name: values for name, values in known.items() if values is not None}
    rows = [
        (str(k + 1), *(words.percent(values[k]) for values in shown.values()))
        for k in range(material.n_components)
    ]
    text = "Own: what a component removes from the data in its turn."
    if variance.adjusted is not None:
        text += (
            " Adjusted: what its scores add to those of the components before it. Cumulative: what all "
            "components up to this one span together."
        )
    if variance.ceiling is not None:
        text += " PCA spans as much as any components can, but with maps that are zero nowhere."
    together = variance.own.cumsum() if variance.cumulative is None else variance.cumulative
    shares = ", ".join(words.percent(share) for share in together)
    picture = chart(
        plot_variance(variance),
        alt=f"Cumulative explained variance with 1 to {material.n_components} components: {shares}.",
        caption="Cumulative explained variance.",
    )
    table = Table(
        "Shares of the total variance", heads("Component", *shown), tuple(rows), id="variance-table"
    )
    return Section(text, picture, table)


def stability_section(material: Material) -> Section | None:
    """Whether resampled fits find the same."""
    stability = material.stability
    if stability is None:
        return None
    rows = []
    for k in range(material.n_components):
        column, frequency = stability.dice[:, k], stability.selection_frequency[k]
        rows.append(
            (
                str(k + 1),
                words.number(float(np.median(column))),
                words.number(float(column.min())),
                f"{int((frequency >= 0.5).sum()):,}",
                f"{int((frequency >= 0.9).sum()):,}",
            )
        )
    columns = heads("Component", "Dice, median", "Dice, lowest", "Selected in half", "Selected in 90 %")
    medians = ", ".join(f"component {row[0]}: {row[1]}" for row in rows)
    picture = chart(
        plot_stability(stability),
        alt=f"Median Dice index of resampled fits with the fit of all samples: {medians}.",
        caption="Every point is one resampled fit; the lines are medians.",
    )
    text = (
        f"The fit was repeated on {len(stability.dice)} resamples of the samples. The maps above can show "
        "how often each place was selected, and how consistent its sign was."
    )
    return Section(text, picture, Table("Resampled fits", columns, tuple(rows), id="stability-table"))


def selection_section(material: Material) -> Section | None:
    """The settings that were compared."""
    selection = material.selection
    if selection is None:
        return None
    names = {
        "param_alpha": "alpha",
        "param_l1_ratio": "l1 ratio",
        "param_tv_ratio": "TV ratio",
        "mean_test_error": "held-out error",
        "mean_dice": "Dice",
        "mean_sparsity": "zeros",
    }
    shown = {title: selection.columns[name] for name, title in names.items() if name in selection.columns}
    n_settings = len(selection.columns["mean_test_error"])
    best = selection.best_index
    rows = [
        (f"{k + 1} (chosen)" if k == best else str(k + 1), *(_cell(column[k]) for column in shown.values()))
        for k in _first_settings(n_settings, best)
    ]
    chosen = ", ".join(
        f"{title} {_cell(shown[title][best])}"
        for title in ("alpha", "l1 ratio", "TV ratio")
        if title in shown
    )
    folds = "" if selection.n_folds is None else f" on {selection.n_folds} folds"
    rule = f" by the rule “{selection.rule}”" if selection.rule else ""
    text = f"{words.count(n_settings, 'setting')} were compared{folds}; chosen{rule}: {chosen}."
    picture = chart(
        plot_path(selection.columns, best_index=best),
        alt=f"Held-out error and stability of {n_settings} settings over alpha. Chosen: {chosen}, with a "
        f"held-out error of {_cell(selection.columns['mean_test_error'][best])}.",
        caption="The star marks the chosen setting. Lower error and higher stability are better.",
    )
    return Section(
        text, picture, Table("Settings", heads("Setting", *shown), tuple(rows), id="selection-table")
    )


def _first_settings(n_settings: int, best: int) -> list[int]:
    """The settings to list: all, or the first ones and the chosen one."""
    return sorted({*range(min(n_settings, MOST_SETTINGS)), best})


def _cell(value: Any) -> str:
    numbers = numeric([value])
    if numbers is None:
        return str(value)
    return "–" if np.isnan(numbers[0]) else f"{numbers[0]:.4g}".replace("-", "−")


def samples_section(material: Material) -> Samples | None:
    """The scores as a table."""
    scores = material.scores
    if scores is None:
        return None
    extra = [column for column in (material.groups, material.variable) if column is not None]
    rows = []
    for row, (name, values) in enumerate(zip(scores.names[:MOST_SAMPLES], scores.values, strict=False)):
        cells = [words.plain_value(column.values[row]) for column in extra]
        rows.append((words.file_names(name), *cells, *(words.number(value, 4) for value in values)))
    names = [column.name for column in extra]
    columns = heads(
        "Sample", *names, *(f"Component {k + 1}" for k in range(material.n_components)), text=names
    )
    more = f"; the first {MOST_SAMPLES:,} are listed" if len(scores.names) > MOST_SAMPLES else ""
    return Samples(
        text="How strongly every sample shows each component. The pictures are with the components.",
        summary=f"Scores of {words.count(len(scores.names), 'sample')}{more}",
        table=Table("Scores", columns, tuple(rows), id="scores-table", long=True),
    )


def run_section(material: Material) -> Run:
    """Inputs, mask, parameters, versions, and how to repeat it."""
    model = material.model
    files = tuple(_files(material.inputs))
    facts = [("Kind", type(model).__name__)]
    if hasattr(model, "mask_report_"):
        facts.append(("Mask", model.mask_report_))
        facts.append(("Dropped", _dropped(model)))
    else:
        facts.append(("Structure", repr(model.structure_)))
    names = getattr(model, "input_names_", ())
    n_samples = len(material.scores.values) if material.scores is not None else len(names)
    if n_samples:
        facts.append(("Samples", f"{n_samples:,}"))
    confounds = getattr(getattr(model, "preparation_", None), "confounds", None)
    if confounds is not None:
        facts.append(("Confounds removed", ", ".join(confounds.names)))
    seed = material.parameters.get("random_state")
    facts.append(
        ("Seed", "none (only random starts would use one)" if seed is None else words.plain_value(seed))
    )
    weights = (("l1", model.l1_), ("l2", model.l2_), ("TV", model.tv_))
    facts.append(("Weights used", ", ".join(f"{name} {_weight(value)}" for name, value in weights)))
    parameters = tuple(
        (name, words.plain_value(value)) for name, value in sorted(material.parameters.items())
    )
    return Run(
        facts=tuple(facts),
        files=Table(
            "Files, with the beginning of the SHA-256 of their contents",
            heads("File", "What", "SHA-256", text=("What", "SHA-256")),
            files,
            id="files-table",
            summary=words.count(len(files), "input file"),
            long=True,
        ),
        parameters=Table(
            "Parameters",
            heads("Name", "Value", text=("Value",)),
            parameters,
            id="parameters-table",
            long=True,
        ),
        repeat=material.repeat,
        config=material.config,
        versions=", ".join(f"{name} {version}" for name, version in material.versions.items()),
    )


def _weight(value: Any) -> str:
    return ", ".join(f"{number:.6g}" for number in np.atleast_1d(value))


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
    """Every file that the inputs name, however deep."""
    for what, value in inputs.items():
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Mapping) and "name" in item:
                yield str(item["name"]), str(what), str(item.get("sha256", ""))[:12]
