"""`spca-tv fit`: from files to components, scores and a model on disk."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.devices import check_device
from spcatv._util.tables import aligned
from spcatv.cli.config import Options
from spcatv.cli.display import safe_print
from spcatv.cli.parser import input_errors
from spcatv.cli.pipeline import (
    check_number,
    groups_text,
    make_request,
    model_parameters,
    number_text,
    verdicts,
    with_number,
)
from spcatv.estimator import SPCATV
from spcatv.estimator._validation import check_parameters, check_some_left
from spcatv.estimator.remarks import empty_components
from spcatv.results import SampleSet, write_results
from spcatv.results.layout import CEILING_COLUMN

# Share of the variance below which nothing is left to explain.
FULL_RANK = 1e-6
ZEROS_HEADER = ("zeros", "wanted", "smoothness")


def run(arguments: argparse.Namespace) -> None:
    """Fit, and write the results."""
    request = make_request(arguments, _checked)
    if request.is_finished():
        return
    with request.claimed() as folder:
        with request.working():
            samples = request.read()
            _check_sparsity(request.options, samples)
            request.announce(samples)
            options, count = with_number(request.options, samples)
            parameters = model_parameters(options)
            model = SPCATV(structure=samples.structure, dtype=samples.dtype, **parameters)
            model.fit(samples.matrix)
            halves, verdict = verdicts(options, samples, model, samples.groups)
        with request.writing():
            metrics = write_results(folder, samples, model, config=request.config, halves=halves, count=count)
    if not options.quiet:
        lines = [*groups_text(samples), *number_text(count)]
        safe_print(summary_text(lines, metrics, options.output, model, verdict))


def _checked(options: Options) -> Options:
    check_number(options)
    check_parameters(SPCATV(**model_parameters(options), dtype=options.dtype))
    check_device(options.device)
    return options


def _check_sparsity(options: Options, samples: SampleSet) -> None:
    """Refuse a share of zeros that leaves no feature."""
    if options.sparsity is not None:
        with input_errors(ValueError):
            check_some_left(np.atleast_1d(options.sparsity), samples.matrix.shape[1])


def zeros_cells(record: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the share of zeros, the wanted share, and the smoothness used, as cells of a table."""
    wanted, smoothness = record.get("target_sparsity"), record.get("smoothness")
    return (
        "-" if record["n_nonzero"] == 0 else f"{100 * record['sparsity']:.1f} %",
        "-" if wanted is None else f"{100 * wanted:.1f} %",
        "-" if smoothness is None else f"{smoothness:.3g}",
    )


def certificate_cells(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the relative gap, and whether it is within the tolerance; an empty component has neither."""
    if record["n_nonzero"] == 0:
        return "-", "empty"
    return f"{record['relative_gap']:.1e}", "yes" if record["converged"] else "NO"


def _count_remarks(metrics: Sequence[Mapping[str, Any]], model: SPCATV) -> list[str]:
    """Return remarks on empty components, and on components beyond the rank of the data."""
    empty = empty_components(model)
    remarks = [f"Component {k + 1} is empty: {why}." for k, why in empty.items()]
    rank = 1 + sum(row[CEILING_COLUMN] < 1 - FULL_RANK for row in metrics)
    if rank < len(metrics) - len(empty):
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
    """Return the summary of a run: remarks, a table of components, verdicts, and the results folder."""
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
