"""Sections of the page: summary, variance, stability, samples, run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv.estimator._validation import parameters_in_use
from spcatv.estimator.remarks import SPARSITY_SLACK, empty_components
from spcatv.report import formatting as fmt
from spcatv.report.component import ComponentPanel
from spcatv.report.content import Section, Table, chart, component_table, heads
from spcatv.report.figures import plot_stability, plot_variance
from spcatv.report.inputs import ReportInputs, is_joint

MOST_SAMPLES = 2000
# Cell of a number that an empty component does not have.
NO_VALUE = "–"
# Columns of the summary that the penalised model does not have.
OF_TARGETS = ("Zeros wanted", "Jump", "Smoothness")


@dataclass(frozen=True)
class Run:
    """Content of the section about the run."""

    facts: tuple[tuple[str, str], ...]
    files: Table
    parameters: Table
    repeat: str
    config: str | None
    versions: str


def lead(inputs: ReportInputs, noun: str) -> str:
    """Summarise the report in two sentences."""
    n_components, n_features = inputs.model.components_.shape
    variance = inputs.variance
    together = float(variance.own.sum() if variance.cumulative is None else variance.cumulative[-1])
    samples = "" if inputs.scores is None else f" in {fmt.count(len(inputs.scores.values), 'sample')}"
    explain = "It explains" if n_components == 1 else "Together they explain"
    ceiling = ""
    if variance.ceiling is not None:
        most = fmt.percent(variance.ceiling[-1])
        ceiling = f"; no {fmt.count(n_components, 'component')} can explain more than {most} (PCA)"
    return (
        f"{fmt.count(n_components, 'component')} of {n_features:,} {noun}{samples}. {explain} "
        f"{fmt.percent(together)} of the variance{ceiling}."
    )


def warnings(inputs: ReportInputs) -> tuple[str, ...]:
    """Warn about empty components at the top of the page."""
    empty, found = empty_components(inputs.model), []
    for why in dict.fromkeys(empty.values()):
        numbers = [k + 1 for k, reason in empty.items() if reason == why]
        subject = (
            f"Component {numbers[0]} is" if len(numbers) == 1 else f"Components {fmt.ranges(numbers)} are"
        )
        found.append(f"{subject} empty: {why}.")
    return tuple(found)


def notes(inputs: ReportInputs, noun: str) -> tuple[str, ...]:
    """Describe where the computation did not reach the requested values."""
    found = []
    for k, record in enumerate(inputs.model.diagnostics_):
        if record.is_empty:
            continue
        if record.jump > 0 and abs(record.sparsity - record.target_sparsity) > SPARSITY_SLACK:
            found.append(
                f"Component {k + 1} has {fmt.percent(record.sparsity)} zeros instead of "
                f"{_asked(record.target_sparsity)}: {fmt.percent(record.jump)} of the {noun} enter "
                "or leave its map at once."
            )
        if record.smoothness is not None and record.smoothness < inputs.model.smoothness:
            found.append(
                f"Component {k + 1} has a smoothness of {record.smoothness:.3g} instead of "
                f"{inputs.model.smoothness:g}: with more, its map would be one plateau, in "
                "which no share of zeros can be chosen."
            )
        if not record.converged:
            found.append(
                f"Component {k + 1} did not reach the tolerance: its relative gap is "
                f"{fmt.number(record.relative_gap, 2)} instead of {fmt.number(inputs.model.tol, 2)}."
            )
    return tuple(found)


def summary(inputs: ReportInputs, panels: tuple[ComponentPanel, ...]) -> Table:
    """Create the table with the figures of every component."""
    records = inputs.model.diagnostics_
    columns = {
        "Explained variance": [fmt.percent(share) for share in inputs.variance.own],
        "Zeros wanted": [_asked(record.target_sparsity) for record in records],
        "Zeros": [NO_VALUE if record.is_empty else fmt.percent(record.sparsity) for record in records],
        "Jump": [fmt.percent(record.jump) if record.jump > 0 else "none" for record in records],
        "Smoothness": [f"{record.smoothness or 0:.3g}" for record in records],
        "Not zero": [f"{record.n_nonzero:,}" for record in records],
        "Regions": [
            f"{panel.n_regions} (+{panel.n_tiny} tiny)" if panel.n_tiny else str(panel.n_regions)
            for panel in panels
        ],
        "Relative gap": [
            NO_VALUE if record.is_empty else fmt.number(record.relative_gap, 2) for record in records
        ],
        "Converged": [
            "empty" if record.is_empty else "yes" if record.converged else "no" for record in records
        ],
    }
    caption = _asked_sentence(inputs)
    if inputs.model.alpha is not None:
        columns = {name: column for name, column in columns.items() if name not in OF_TARGETS}
    elif not any(record.jump > 0 for record in records):
        del columns["Jump"]
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
    alphas = ", ".join(f"{alpha:.4g}" for alpha in np.atleast_1d(model.alpha))
    return (
        f"The penalised model, with {model.penalty_units} alpha {alphas}, l1 ratio {model.l1_ratio:g} and TV "
        f"ratio {model.tv_ratio:g}."
    )


def variance_section(inputs: ReportInputs) -> Section:
    """Create the section about the variance that the components explain."""
    variance = inputs.variance
    joint = is_joint(inputs.model)
    known = {
        "Explained" if joint else "Own": variance.own,
        "Adjusted": variance.adjusted,
        "Cumulative": variance.cumulative,
        "PCA, cumulative": variance.ceiling,
    }
    columns = {
        name: [fmt.percent(share) for share in shares] for name, shares in known.items() if shares is not None
    }
    text = "Own: variance that a component removes from the data in its turn."
    if joint:
        text = "The scores are uncorrelated, so the explained variances add up."
    if variance.adjusted is not None:
        text += (
            " Adjusted: what its scores add to those of the components before it. Cumulative: what all "
            "components up to this one span together."
        )
    if variance.ceiling is not None:
        text += " PCA spans as much as any components can, but with maps that are zero nowhere."
    together = variance.own.cumsum() if variance.cumulative is None else variance.cumulative
    shares = ", ".join(fmt.percent(share) for share in together)
    picture = chart(
        plot_variance(variance),
        alt=f"Cumulative explained variance with 1 to {inputs.n_components} components: {shares}.",
        caption="Cumulative explained variance.",
    )
    return Section(
        text, picture, component_table("Shares of the total variance", columns, id="variance-table")
    )


def stability_section(inputs: ReportInputs) -> Section | None:
    """Create the section about the agreement of resampled fits."""
    stability = inputs.stability
    if stability is None:
        return None
    dice, frequency = stability.dice, stability.selection_frequency
    columns = {
        "Dice, median": [fmt.number(value, 2) for value in np.median(dice, axis=0)],
        "Dice, lowest": [fmt.number(value, 2) for value in dice.min(axis=0)],
        "Selected in half": [f"{count:,}" for count in (frequency >= 0.5).sum(axis=1)],
        "Selected in 90 %": [f"{count:,}" for count in (frequency >= 0.9).sum(axis=1)],
    }
    medians = ", ".join(f"component {k}: {text}" for k, text in enumerate(columns["Dice, median"], start=1))
    picture = chart(
        plot_stability(stability),
        alt=f"Median Dice index of resampled fits with the fit of all samples: {medians}.",
        caption="Every point is one resampled fit; the lines are medians.",
    )
    text = (
        f"The fit was repeated on {len(stability.dice)} resamples of the samples. The maps above can show "
        "how often each place was selected, and how consistent its sign was."
    )
    return Section(text, picture, component_table("Resampled fits", columns, id="stability-table"))


def halves_table(inputs: ReportInputs) -> Table | None:
    """Create the table of the agreement of random halves; one row per component."""
    if inputs.halves is None:
        return None
    columns = {
        "Verdict": [half.verdict for half in inputs.halves],
        "Dice of both halves": [fmt.fixed(half.dice) for half in inputs.halves],
        "Rank": [str(half.rank) for half in inputs.halves],
    }
    caption = (
        "Random halves of the samples. Found again: both halves show the component (Dice index, without what "
        "is due to chance, of at least 0.6, or cosine of at least 0.75). One of several equals: they do, but "
        "others of equal merit may take its place. Rank 1 is the most reproducible."
    )
    return component_table(caption, columns, id="halves-table", text=("Verdict",))


def samples_table(inputs: ReportInputs) -> Table | None:
    """Create the table of the scores of all samples."""
    scores = inputs.scores
    if scores is None:
        return None
    extra = [column for column in (inputs.groups, inputs.variable) if column is not None]
    rows = []
    for row, (name, values) in enumerate(zip(scores.names[:MOST_SAMPLES], scores.values, strict=False)):
        cells = [fmt.plain_value(column.values[row]) for column in extra]
        rows.append((fmt.file_names(name), *cells, *(fmt.number(value, 4) for value in values)))
    names = [column.name for column in extra]
    columns = heads("Sample", *names, *(f"Component {k + 1}" for k in range(inputs.n_components)), text=names)
    more = f"; the first {MOST_SAMPLES:,} are listed" if len(scores.names) > MOST_SAMPLES else ""
    summary = f"Scores of {fmt.count(len(scores.names), 'sample')}{more}"
    return Table("Scores of all samples", columns, tuple(rows), id="scores-table", summary=summary, long=True)


def run_section(inputs: ReportInputs) -> Run:
    """Collect inputs, mask, parameters, versions, and the command that repeats the run."""
    model = inputs.model
    files = tuple(_files(inputs.saved.inputs))
    facts = [("Kind", type(model).__name__)]
    if hasattr(model, "mask_report_"):
        facts.append(("Mask", model.mask_report_))
        facts.append(("Dropped", _dropped(model)))
    else:
        facts.append(("Structure", repr(model.structure_)))
    names = getattr(model, "input_names_", ())
    n_samples = len(inputs.scores.values) if inputs.scores is not None else len(names)
    if n_samples:
        facts.append(("Samples", f"{n_samples:,}"))
    confounds = getattr(getattr(model, "preparation_", None), "confounds", None)
    if confounds is not None:
        facts.append(("Confounds removed", confounds.described()))
    seed = inputs.saved.parameters.get("random_state")
    facts.append(
        ("Seed", "none (only random starts would use one)" if seed is None else fmt.plain_value(seed))
    )
    facts.append(("Asked for", _asked_sentence(inputs).removeprefix("Asked for: ")))
    facts.append(_weights(inputs))
    parameters = tuple((name, fmt.plain_value(value)) for name, value in sorted(_parameters(inputs).items()))
    return Run(
        facts=tuple(facts),
        files=Table(
            "Files, with the beginning of the SHA-256 of their contents",
            heads("File", "What", "SHA-256", text=("What", "SHA-256")),
            files,
            id="files-table",
            summary=fmt.count(len(files), "input file"),
            long=True,
        ),
        parameters=Table(
            "Parameters",
            heads("Name", "Value", text=("Value",)),
            parameters,
            id="parameters-table",
            long=True,
        ),
        repeat=inputs.repeat,
        config=inputs.config,
        versions=", ".join(f"{name} {version}" for name, version in inputs.saved.versions.items()),
    )


def _weights(inputs: ReportInputs) -> tuple[str, str]:
    """Return the weights used: one number each, or one per component where they differ."""
    model = inputs.model
    texts = {
        name: ", ".join(f"{weight:.6g}" for weight in np.atleast_1d(weights))
        for name, weights in (("l1", model.l1_), ("l2", model.l2_), ("TV", model.tv_))
    }
    title = "Weights used" if np.ndim(model.l1_) == 0 else "Weights used (one per component)"
    return title, "; ".join(f"{name} {text}" for name, text in texts.items())


def _parameters(inputs: ReportInputs) -> dict[str, Any]:
    """Return the parameters in use, with the alpha of every component where they differ."""
    used = parameters_in_use(inputs.saved.parameters)
    if inputs.alphas is not None:
        used["alpha"] = [float(f"{alpha:.4g}") for alpha in inputs.alphas]
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
