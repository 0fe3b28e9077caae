"""The figure of loadings: the truth and every method, on one data set."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.baselines import Method
from benchmarks.report import write_atomically
from benchmarks.reproduce.simulation import Size, records
from benchmarks.reproduce.store import Store
from spcatv.datasets import make_dots
from spcatv.metrics import match_components

# Share of the brightest pixels that may be beyond the colour scale.
SCALE_QUANTILE = 0.999


def typical_data_set(mses: np.ndarray) -> int:
    """The data set whose mean loading error is the median one; shape (n, K)."""
    return int(np.argsort(mses.mean(axis=1), kind="stable")[(len(mses) - 1) // 2])


def draw_loadings(output: Path, methods: Sequence[Method], size: Size, seed: int) -> Path:
    """Draw and write ``loadings.png``: one column per method, one row per component.

    Loadings have unit norm and share one colour scale, red above and blue below zero.

    Parameters
    ----------
    output : Path
        Folder of the results; the records of all methods must be there.
    methods : sequence of Method
        Columns.
    size : Size
        Of the study.
    seed : int
        Data set to show.

    Returns
    -------
    Path
        The picture.
    """
    from matplotlib.figure import Figure

    store = Store(output / size.name)
    truth = make_dots(2, size.side, random_state=0).loadings
    columns = [("truth", truth / np.linalg.norm(truth, axis=1, keepdims=True))]
    for method in methods:
        (record,) = records(store, method, [seed])
        match = match_components(truth, record.components)
        columns.append((method.label, match.sign[:, None] * record.components[match.order]))
    limit = float(np.quantile(np.abs(columns[0][1]), SCALE_QUANTILE))
    figure = Figure(figsize=(2.1 * len(columns), 6.6), layout="constrained")
    axes = figure.subplots(len(truth), len(columns), squeeze=False)
    for column, (label, loadings) in enumerate(columns):
        axes[0, column].set_title(label.replace(", ", ",\n"), fontsize=10)
        for row, loading in enumerate(loadings):
            image = _show(axes[row, column], loading.reshape(size.side, size.side), limit)
    for row in range(len(truth)):
        axes[row, 0].set_ylabel(f"component {row + 1}", fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.5, extend="both", label="loading (unit norm)")
    path = output / "loadings.png"
    write_atomically(path, lambda draft: figure.savefig(draft, format="png", dpi=150))
    return path


def _show(axis: Any, image: np.ndarray, limit: float) -> Any:
    axis.set_xticks([])
    axis.set_yticks([])
    return axis.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
