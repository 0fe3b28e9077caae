"""`spca-tv fit`: from files to components, scores and a model on disk."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.devices import check_device
from spcatv._util.tables import aligned
from spcatv.cli.groups import groups_text
from spcatv.cli.halves import verdicts
from spcatv.cli.inputs import Source
from spcatv.cli.interruption import rerun_hint_on_interrupt
from spcatv.cli.kinds import input_errors
from spcatv.cli.number import check_number, number_text, with_number
from spcatv.cli.options import FitOptions
from spcatv.cli.progress import show_warnings
from spcatv.cli.request import checked_request
from spcatv.cli.saying import say
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters, check_some_left
from spcatv.estimator.remarks import dead_components
from spcatv.progress import listening
from spcatv.results import SampleSet, write_curve, write_results, writing_results
from spcatv.results.layout import CEILING_COLUMN

# Share of the variance below which nothing is left to explain.
FULL_RANK = 1e-6
ZEROS_HEADER = ("zeros", "wanted", "smoothness")


def run(arguments: argparse.Namespace) -> None:
    """Fit, and write the results."""
    request = checked_request(arguments, FitOptions, _checked)
    if request.finished():
        return
    display = request.display()
    with rerun_hint_on_interrupt(request.output, arguments.argv), request.claimed() as folder:
        with show_warnings(), display, listening(display):
            samples = request.read()
            _check_sparsity(request.options, samples)
            request.announce(samples)
            options, curve = with_number(request.options, samples, samples.groups)
            parameters = options.model_parameters()
            model = SPCATV(structure=samples.structure, dtype=samples.dtype, **parameters)
            model.fit(samples.matrix)
            halves, verdict = verdicts(options, samples, model, samples.groups)
        with show_warnings(), writing_results(request.output):
            metrics = write_results(folder, samples, model, config=request.config, halves=halves)
            if curve is not None:
                write_curve(folder, curve)
    if not request.quiet:
        lines = [*groups_text(samples), *number_text(curve)]
        say(summary_text(lines, metrics, request.output, model, verdict))


def _checked(options: FitOptions, sources: Sequence[Source]) -> FitOptions:
    check_number(options)
    check_parameters(SPCATV(**options.model_parameters(), dtype=options.dtype))
    check_device(options.device)
    return options


def _check_sparsity(options: FitOptions, samples: SampleSet) -> None:
    """Refuse a share of zeros that leaves no feature."""
    if options.sparsity is not None:
        with input_errors(ValueError):
            check_some_left(np.atleast_1d(options.sparsity), samples.matrix.shape[1])


def zeros_cells(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """The share of zeros, the share that was wanted, and the smoothness used, for a table."""
    wanted, smoothness = record.get("target_sparsity"), record.get("smoothness")
    return (
        "-" if record["n_nonzero"] == 0 else f"{100 * record['sparsity']:.1f} %",
        "-" if wanted is None else f"{100 * wanted:.1f} %",
        "-" if smoothness is None else f"{smoothness:.3g}",
    )


def certificate_cells(record: Mapping[str, Any]) -> tuple[str, str]:
    """The relative gap, and whether it is within the tolerance; neither says anything of a dead component."""
    if record["n_nonzero"] == 0:
        return "-", "dead"
    return f"{record['relative_gap']:.1e}", "yes" if record["converged"] else "NO"


def _count_remarks(metrics: Sequence[Mapping[str, Any]], model: SPCATV) -> list[str]:
    """What to say of dead components, and of components beyond the rank of the data."""
    dead = dead_components(model)
    remarks = [f"Component {k + 1} is dead: {why}." for k, why in dead.items()]
    rank = 1 + sum(row[CEILING_COLUMN] < 1 - FULL_RANK for row in metrics)
    if rank < len(metrics) - len(dead):
        explain = "1 component of PCA explains" if rank == 1 else f"{rank} components of PCA explain"
        remarks.append(
            f"{explain} all of the variance: the data have rank {rank}, or a few samples outweigh all "
            "others (look at them). More components than that only divide it anew. Lower --n-components (now "
            f"{len(metrics)}) to {rank}."
        )
    return remarks


def summary_text(
    lines: Sequence[str], metrics: Sequence[Mapping[str, Any]], folder: Path, model: SPCATV, verdict: str
) -> str:
    """What to print at the end: what was read and done, the components, and where the results are."""
    header = (
        *("component", "variance", *ZEROS_HEADER),
        *("clusters", "relative gap", "converged", "seconds"),
    )
    rows = [
        (
            str(row["component"]),
            f"{100 * row['explained_variance_ratio']:.2f} %",
            *zeros_cells(row),
            str(row["n_clusters"] or "-"),
            *certificate_cells(row),
            f"{row['seconds']:.2f}",
        )
        for row in metrics
    ]
    remarks = [record.global_remark(k + 1) for k, record in enumerate(model.diagnostics_) if record.is_global]
    remarks = [*_count_remarks(metrics, model), *remarks]
    said = [verdict, ""] if verdict else []
    return "\n".join([*lines, "", aligned(header, rows), "", *said, *remarks, f"Results: {folder}"])
