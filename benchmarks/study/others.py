"""Data sets of your own, with and without smoothing: ``python -m benchmarks.study.others a.npz b.npz ...``.

A file holds X, one sample per row, and what the neighbours of its columns are: ``mask`` (or ``labels``), an
array in the shape of the grid; ``edges`` of a graph, shape (n, 2); or ``coords`` and ``triangles`` of a mesh.
Samples with the same entry of ``groups``, if there is one, stay on one side of every split.

Every fit is that of `benchmarks.reproduce.real`: three components of a wanted share of zeros on five shuffled
folds, columns standardised on the training rows. Prints Markdown tables.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce.methods import N_COMPONENTS, spcatv_at
from benchmarks.reproduce.real import fit_rows
from benchmarks.reproduce.realdata import RealData, Rows, all_rows, folds, read
from benchmarks.study.measures import of_folds
from benchmarks.tables import markdown, seconds
from spcatv import SPCATV
from spcatv._util.threads import one_blas_thread
from spcatv.stability import split_halves

SHARES = (0.5, 0.7, 0.9)
# The share of zeros of the last table: the default.
USUAL = 0.7
SMOOTHNESS = (0.0, 1.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables of the files that are named."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, metavar="DATA.npz")
    with one_blas_thread():
        measured = [measure(file) for file in parser.parse_args(arguments).files]
    header = ["data", *(f"{key}, {share:.0%}" for key in ("Dice", "explained") for share in SHARES)]
    rows = (
        [name(one), *(_pair(one["cells"], share, key) for key in ("dice", "explained") for share in SHARES)]
        for one in measured
    )
    print("Smoothness 0 → 1:\n\n" + markdown(header, rows))
    counts = (f"{_n_higher(measured, key)} ({key})" for key in ("dice", "explained"))
    print(f"\nHigher with smoothness in {' and '.join(counts)} of {len(measured) * len(SHARES)}.")
    header = ["data", "zeros reached", "largest gap", "regions", "time of a fit", "halves", "warnings"]
    rows = ([name(one), *_details(one)] for one in measured)
    print(f"\nSmoothness 1, {USUAL:.0%} zeros:\n\n" + markdown(header, rows))


def measure(file: Path) -> dict[str, Any]:
    """All numbers of one data set; its ``cells`` by smoothness and share of zeros."""
    data = read(file)
    parts = folds(len(data.X), data.groups)
    norms = np.array([np.linalg.norm(rows.standardised(data.X)[1]) for rows in parts])
    cells = {
        (smoothness, share): _cell(data, parts, norms, share, smoothness)
        for smoothness in SMOOTHNESS
        for share in SHARES
    }
    verdicts, said = _default_fit(data)
    return {"title": file.stem, "shape": data.X.shape, "cells": cells, "verdicts": verdicts, "said": said}


def _cell(
    data: RealData, parts: Sequence[Rows], norms: np.ndarray, share: float, smoothness: float
) -> dict[str, Any]:
    """One setting on all rows and on all folds."""
    method = spcatv_at(share, smoothness)
    whole = fit_rows(method, all_rows(len(data.X)), data)
    found = [fit_rows(method, rows, data) for rows in parts]
    cell = of_folds(whole, found, norms)
    zeros = np.array([record.values["sparsity"] for record in found])
    return {
        "dice": float(np.mean(cell["dice_folds"])),
        "explained": cell["explained"],
        "zeros": (float(zeros.min()), float(zeros.max())),
        "gap": max(max(record.values["notes"]["relative_gap"]) for record in found),
        "regions": cell["regions"],
        "seconds": float(np.median(cell["seconds"])),
    }


def _default_fit(data: RealData) -> tuple[list[str], list[str]]:
    """Return the verdicts of random halves and the warnings of a default fit to all rows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = SPCATV(N_COMPONENTS, structure=data.structure)
        model.fit(all_rows(len(data.X)).standardised(data.X)[0])
    halves = split_halves(model, data.X, standardize=True, groups=data.groups, random_state=0)
    said = sorted({warning.category.__name__ for warning in caught})
    return [component.verdict for component in halves.reproducibility], said


def name(measured: dict[str, Any]) -> str:
    """Return the name of a data set with its size."""
    n_rows, n_columns = measured["shape"]
    return f"{measured['title']}, {n_rows:,} × {n_columns:,}"


def _pair(cells: dict[tuple[float, float], dict[str, Any]], share: float, key: str) -> str:
    return " → ".join(f"{cells[smoothness, share][key]:.2f}" for smoothness in SMOOTHNESS)


def _n_higher(measured: Sequence[dict[str, Any]], key: str) -> int:
    """In how many data sets and shares of zeros smoothing gives the higher number."""
    rough, smooth = SMOOTHNESS
    cells = [one["cells"] for one in measured]
    return sum(found[smooth, share][key] > found[rough, share][key] for found in cells for share in SHARES)


def _details(measured: dict[str, Any]) -> list[str]:
    cell = measured["cells"][SMOOTHNESS[-1], USUAL]
    low, high = cell["zeros"]
    return [
        f"{low:.1%} to {high:.1%}",
        f"{cell['gap']:.0e}",
        ", ".join(f"{count:.0f}" for count in cell["regions"]),
        seconds(cell["seconds"]),
        ", ".join(measured["verdicts"]),
        ", ".join(measured["said"]) or "–",
    ]


if __name__ == "__main__":
    main()
