"""Tables of the study on real data: errors, stability, regions, and the tests between methods."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce import nino
from benchmarks.reproduce.comparison import Scores, compare, difference_text
from benchmarks.reproduce.matched import ZEROS_TOL, matched_methods
from benchmarks.reproduce.progress import run_all
from benchmarks.reproduce.real import SHARES, fit_data, fit_missing, store_of
from benchmarks.reproduce.realdata import ALL_ROWS, DATA, QUICK_DATA, RealData
from benchmarks.reproduce.store import Record, Store
from benchmarks.tables import each, markdown
from spcatv.metrics import pairwise_dice

HEADER = ("method", "held-out error", "Dice", "Dice by component", "zeros", "regions by component", "seconds")


def real_report(
    output: Path,
    names: Sequence[str] | None,
    *,
    jobs: int,
    quick: bool = False,
    say: Callable[[str], None] = print,
) -> str:
    """Run the fits that are missing on every data set that is there, and report in Markdown.

    Parameters
    ----------
    output : Path
        Folder of the results of all studies.
    names : sequence of str or None
        Data sets; None for all.
    jobs : int
        Processes.
    quick : bool
        Tiny simulated data.
    say : callable
        Receives progress.

    Returns
    -------
    str
    """
    known = QUICK_DATA if quick else DATA
    unknown = set(names or ()) - set(known)
    if unknown:
        raise SystemExit(f"unknown data {', '.join(sorted(unknown))}; choose among {', '.join(known)}")
    parts = [
        "# Real data, five folds",
        f"Methods brought to the same share of zeros on the training rows of every fold (±{ZEROS_TOL:.0%}): "
        "in each component, or in all together for Sparse PCA, which has one strength for all. Columns "
        "standardised; errors are Frobenius norms of held-out folds; the Dice index is over pairs of folds, "
        "of supports that hold 99 % of the norm; regions are connected pieces of a support; seconds include "
        "the search for the share of zeros.",
    ]
    present = {}
    for name in names or known:
        try:
            present[name] = known[name]()
        except FileNotFoundError as missing:
            parts.append(f"## {name}\n\nLeft out: {missing.filename} is not there.")
            say(f"{name} is left out: {missing.filename} is not there")
    pieces = [(output, name, zeros, quick) for name in present for zeros in SHARES]
    run_all(fit_data, pieces, jobs=jobs, say=say)
    parts += [_section(store_of(output, name), name, data) for name, data in present.items()]
    return "\n\n".join(parts)


def _section(store: Store, name: str, data: RealData) -> str:
    parts = [f"## {name}: {data.title}, {data.X.shape[0]} x {data.X.shape[1]:,}"]
    for zeros in SHARES:
        records = fit_missing(store, data, zeros)
        scores = {label: _scores(label, found) for label, found in records.items()}
        parts += [
            f"### {zeros:.0%} zeros",
            markdown(HEADER, [_row(scores[label], found) for label, found in records.items()]),
            _tests(scores, matched_methods(zeros)[-1].label),
        ]
        if name == "sst":
            parts.append(nino.report({label: found[ALL_ROWS] for label, found in records.items()}, data.X))
    return "\n\n".join(parts)


def _tests(scores: Mapping[str, Scores], ours: str) -> str:
    rows = []
    for label, other in scores.items():
        if label != ours:
            result = compare(scores[ours], other)
            rows.append([label, difference_text(result.error, 2), difference_text(result.dice)])
    return markdown([f"{ours} against", "error, paired t-test", "Dice, sign flips"], rows)


def _scores(label: str, found: Mapping[str, Record]) -> Scores:
    held_out = [record for fold, record in found.items() if fold != ALL_ROWS]
    return Scores(
        label,
        errors=np.array([record.values["error"] for record in held_out]),
        dice=pairwise_dice([r.components for r in held_out], reference=found[ALL_ROWS].components),
    )


def _row(score: Scores, found: Mapping[str, Record]) -> list[Any]:
    values = [record.values for fold, record in found.items() if fold != ALL_ROWS]
    return [
        score.label,
        f"{score.errors.mean():.2f}",
        f"{score.dice.mean():.3f}",
        each(score.dice.mean(axis=0), ".2f"),
        each(np.mean([value["sparsity"] for value in values], axis=0), ".0%"),
        each(np.mean([value["regions"] for value in values], axis=0), ".0f"),
        f"{np.mean([value['seconds'] for value in values]):.1f}",
    ]
