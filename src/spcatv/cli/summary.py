"""Summary that `spca-tv fit` and `spca-tv select` print at the end, and cells of its table of components."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.bids import group_noun
from spcatv._util.tables import aligned
from spcatv.cli.display import in_options
from spcatv.results import SampleSet
from spcatv.results.layout import CEILING_COLUMN, EXPLORER
from spcatv.selection import SPCATVCV
from spcatv.selection.path import setting_text

if TYPE_CHECKING:
    from spcatv.cli.pipeline import Groups, Outcome

# Share of the variance below which nothing is left to explain.
FULL_RANK = 1e-6
PLURAL = {"year": "years", "person": "people", "file": "files"}


def summary_text(outcome: Outcome, metrics: Sequence[Mapping[str, Any]], folder: Path) -> str:
    """Return the summary of a run: remarks, a table of components, verdicts, and the results folder."""
    model, search, stability = outcome.model, outcome.search, outcome.stability
    lines = [*_groups_text(outcome.samples, outcome.groups)]
    if outcome.count is not None:
        lines.append(f"Number of components: {outcome.count.n_components}. {outcome.count.reason}")
    if search is not None:
        lines.append(_choice_text(search))
    if stability is not None:
        by_component = ", ".join(f"{value:.2f}" for value in stability.dice.mean(axis=0))
        lines.append(f"Resampled {len(stability.dice)} times: mean Dice index by component {by_component}")
    remarks = [_rank_remark(metrics)]
    remarks += [record.global_remark(k) for k, record in enumerate(model.diagnostics_, start=1)]
    said = [outcome.verdict, ""] if outcome.verdict else []
    shown = [in_options(remark) for remark in remarks if remark]
    last = [f"Results: {folder}"]
    if outcome.exploration is not None:
        last.append(f"Explorer: {folder / EXPLORER}")
    return "\n".join([*lines, "", components_table(metrics), "", *said, *shown, *last])


def components_table(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of components, 80 columns wide; an empty one has neither zeros nor a certificate."""
    header = (
        *("component", "variance", "zeros", "wanted", "smoothness", "regions", "alternations"),
        *("gap", "converged"),
    )
    rows = []
    for record in records:
        is_empty = record["n_nonzero"] == 0
        wanted, smoothness = record.get("target_sparsity"), record.get("smoothness")
        rows.append(
            (
                str(record["component"]),
                f"{100 * record['explained_variance_ratio']:.2f} %",
                "-" if is_empty else f"{100 * record['sparsity']:.1f} %",
                "-" if wanted is None else f"{100 * wanted:.1f} %",
                "-" if smoothness is None else f"{smoothness:.3g}",
                str(record.get("n_clusters") or "-"),
                str(record["n_alternations"]),
                "-" if is_empty else f"{record['relative_gap']:.1e}",
                "empty" if is_empty else "yes" if record["converged"] else "NO",
            )
        )
    left_out = "regions" if "n_clusters" not in records[0] else "alternations"
    kept = [place for place, name in enumerate(header) if name != left_out]
    return aligned([header[k] for k in kept], [[row[k] for k in kept] for row in rows])


def _rank_remark(metrics: Sequence[Mapping[str, Any]]) -> str:
    """Return a remark on components beyond the rank of the data; a warning has told of empty ones."""
    rank = 1 + sum(row[CEILING_COLUMN] < 1 - FULL_RANK for row in metrics)
    if rank >= sum(row["n_nonzero"] > 0 for row in metrics):
        return ""
    explain = "1 component of PCA explains" if rank == 1 else f"{rank} components of PCA explain"
    return (
        f"{explain} all of the variance: the data have rank {rank}, or a few samples outweigh all others "
        "(look at them). More components than that only divide it anew. Lower --n-components (now "
        f"{len(metrics)}) to {rank}."
    )


def _groups_text(samples: SampleSet, groups: Groups) -> list[str]:
    """Return a line about the samples that stay together in splits and resamples, if any do."""
    if groups.column is not None:
        line = f"Groups: samples of one {groups.column} stay together in folds, resamples and halves"
        return [f"{line} ({groups.remark})" if groups.remark else line]
    labels = samples.groups
    if labels is None:
        return []
    kind = group_noun(samples.names, labels)
    return [
        f"Groups: {len(labels)} samples of {len(set(labels))} {PLURAL[kind]}; those of one {kind} stay "
        "together in folds, resamples and halves"
    ]


def _span(values: Any) -> str:
    """Return the smallest and the largest value of a parameter: "0.1 to 0.95"."""
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _choice_text(search: SPCATVCV) -> str:
    """Return the chosen setting and the reason, in two lines."""
    best, results = search.best_index_, search.cv_results_
    explained = 100 * results["mean_test_explained"][best]
    above = 100 * (results["mean_test_error"][best] / np.nanmin(results["mean_test_error"]) - 1)
    n_settings, chosen = len(results["params"]), setting_text(search.best_params_)
    grid = ", ".join(f"{name} {_span(results[f'param_{name}'])}" for name in search.best_params_)
    compared = f"Compared {n_settings} settings ({grid}) on {search.n_splits_} folds, chosen: {chosen}"
    if n_settings == 1:
        compared = f"One setting, {chosen}, on {search.n_splits_} folds: there was nothing to choose from"
    return (
        f"{compared}\n"
        f"Why (rule {search.rule}): {search.choice_reason_}; held-out error {above:.1f} % above the lowest, "
        f"{explained:.1f} % of the held-out variance explained"
    )
