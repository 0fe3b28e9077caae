"""Plots of the results, PNG and SVG: time to a gap, growth, the iteration's bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.sections.vstep import OURS, races

Results = dict[str, Any]


def gap_curves(plt: Any, result: Results) -> Any:
    """Relative gap over seconds, one panel per problem."""
    raced = races(result)
    size = (4.3 * len(raced), 4.2)
    figure, axes = plt.subplots(1, len(raced), figsize=size, sharey=True, layout="constrained")
    # the same solver has the same colour in every panel
    solvers = list(dict.fromkeys(s for race in raced.values() for s in race["solvers"]))
    for axis, (name, race) in zip(axes, raced.items(), strict=True):
        for solver, record in race["solvers"].items():
            if record.get("points"):
                time, gap = np.array(frontier(record["points"])).T
                style = {"linewidth": 2.5} if solver == OURS else {"linewidth": 1.2}
                axis.loglog(time, gap, "o-", ms=4, label=solver, color=f"C{solvers.index(solver)}", **style)
        axis.set(xlabel="seconds", title=f"{name}, {race['n_features']:,} cells")
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(fontsize=8, frameon=False)
    axes[0].set_ylabel("relative gap, scored by LoadingProblem")
    return figure


def frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The runs that no faster run beats."""
    kept: list[tuple[float, float]] = []
    for time, gap in sorted(points):
        if not kept or gap < kept[-1][1]:
            kept.append((time, gap))
    return kept


def short(number: float) -> str:
    """A whole number as a tick label: 64k, 2M."""
    for unit, letter in ((1e6, "M"), (1e3, "k")):
        if number >= unit:
            return f"{number / unit:g}{letter}"
    return f"{number:g}"


def growth_curves(plt: Any, result: Results) -> Any:
    """Seconds of a fit over P, N and K, with the slope of linear growth."""
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    labels = {"P": "columns P", "N": "rows N", "K": "components K"}
    for axis, (variable, label) in zip(axes, labels.items(), strict=True):
        points = result[variable]
        values = np.array([point[variable] for point in points], dtype=float)
        times = np.array([point["seconds"] for point in points])
        axis.loglog(values, times, "o-", label="fit")
        axis.loglog(values, times[0] * values / values[0], "--", color="0.6", label="linear")
        axis.set_xticks(values, [short(value) for value in values])
        axis.minorticks_off()
        axis.yaxis.set_major_locator(plt.matplotlib.ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.yaxis.set_major_formatter("{x:g}")
        fixed = ", ".join(f"{name} = {points[0][name]:,}" for name in "NPK" if name != variable)
        axis.set(xlabel=label, title=fixed)
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(frameon=False)
    axes[0].set_ylabel("seconds")
    return figure


def kernel_curves(plt: Any, result: Results) -> Any:
    """Nanoseconds per voxel and bandwidth over the number of voxels."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")
    for number, dtype in enumerate(("float32", "float64")):
        for kind, marker in (("box", "o-"), ("ellipsoid", "s:"), ("icosphere", "^")):
            rows = [r for r in result["rows"] if r["dtype"] == dtype and r["structure"].startswith(kind)]
            size, time, rate, copy = np.array(
                [
                    (r["n_features"], r["seconds"], r["bytes_per_second"], r["copy_bytes_per_second"])
                    for r in rows
                ]
            ).T
            color = f"C{number}"
            left.loglog(size, 1e9 * time / size, marker, color=color, label=f"{kind}, {dtype}")
            if kind != "ellipsoid":
                right.semilogx(size, rate / 1e9, marker, color=color, label=f"{kind}, {dtype}")
            if kind == "box":
                right.semilogx(size, copy / 1e9, "--", color=color, alpha=0.5, label=f"copy, size of {dtype}")
    left.set(xlabel="voxels or vertices", ylabel="ns per voxel and iteration")
    right.set(xlabel="voxels or vertices", ylabel="GB/s, bytes that must move")
    right.set_ylim(bottom=0)
    for axis in (left, right):
        axis.grid(visible=True, which="major", alpha=0.3)
        axis.legend(fontsize=7, frameon=False)
    return figure


PLOTS: dict[str, tuple[str, Callable[[Any, Results], Any]]] = {
    "time_to_gap": ("v-step", gap_curves),
    "growth": ("growth", growth_curves),
    "kernel": ("kernel", kernel_curves),
}


def draw(results: Results, save: Callable[[str, Callable[[Path], None]], None]) -> str:
    """Draw whatever the results allow; return a remark if nothing can be drawn."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return "No plots: matplotlib is missing (`pip install matplotlib`)."
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    for name, (section, plot) in PLOTS.items():
        if section not in results:
            continue
        figure = plot(plt, results[section])
        for suffix in ("png", "svg"):
            save(f"{name}.{suffix}", lambda path, figure=figure: figure.savefig(path, dpi=150))
        plt.close(figure)
    return ""
