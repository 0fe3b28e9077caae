"""Held-out error against stability: what is lost and what is gained from one setting to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.types import BoolArray, FloatArray
from spcatv.report.figures import setting_lines
from spcatv.report.style import figure_style, line_style, mark_chosen, new_figure
from spcatv.results.read import numeric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def plot_trade(results: Any, *, best_index: int | None = None) -> Figure:
    """Draw every setting of a selection by its held-out error and its Dice index.

    Parameters
    ----------
    results : SPCATVCV or mapping
        A fitted search over sparsity and smoothness, or its ``cv_results_`` (one column per key).
    best_index : int, default=None
        The chosen setting, which is marked; by default that of the fitted search.

    Returns
    -------
    matplotlib Figure
        One line per smoothness; the number at a point is its sparsity. Low error is left, high stability is
        up. Filled points are within one standard error of the lowest error.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATVCV
    >>> from spcatv.report import plot_trade
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> search = SPCATVCV(1, structure=(30,), sparsity=[0.4, 0.6], smoothness=[0.5, 1.0], cv=2).fit(X)
    >>> plot_trade(search).savefig("trade.svg")
    """
    if hasattr(results, "cv_results_"):
        best_index = int(results.best_index_) if best_index is None else best_index
        results = results.cv_results_
    error, dice, sparsity = (
        _column(results, name) for name in ("mean_test_error", "mean_dice", "param_sparsity")
    )
    near = _near_the_lowest(results, error)
    with figure_style():
        figure = new_figure(5.4, 4.4)
        axes = figure.subplots()
        for number, (label, rows) in enumerate(setting_lines(results, len(error)).items()):
            _draw_line(axes, error[rows], dice[rows], near[rows], number, label)
            # numbers of one line above its points, those of the next below: lines lie close together
            _draw_numbers(axes, error[rows], dice[rows], sparsity[rows], above=number % 2 == 0)
        if best_index is not None:
            mark_chosen(axes, error[best_index], dice[best_index])
        axes.set_xlabel("held-out error (lower is better)")
        axes.set_ylabel("stability over folds, Dice index (higher is better)")
        axes.margins(0.1, 0.18)
        figure.legend(loc="outside lower left", ncols=3)
    return figure


def _draw_line(
    axes: Axes, error: FloatArray, dice: FloatArray, near: BoolArray, number: int, label: str
) -> None:
    """A line with filled marks where `near` is true, and hollow ones elsewhere."""
    style = line_style(number)
    colour = style["color"]
    axes.plot(error, dice, color=colour, linewidth=1.2, alpha=0.6)
    marks = {"linestyle": "none", "marker": style["marker"], "markersize": 7, "color": colour}
    axes.plot(error[near], dice[near], **marks, label=label if near.any() else None)
    axes.plot(
        error[~near], dice[~near], **marks, markerfacecolor="white", label=None if near.any() else label
    )


def _draw_numbers(
    axes: Axes, error: FloatArray, dice: FloatArray, numbers: FloatArray, *, above: bool
) -> None:
    for x, y, value in zip(error, dice, numbers, strict=True):
        axes.annotate(
            f"{value:g}",
            (x, y),
            xytext=(0, 9 if above else -9),
            textcoords="offset points",
            ha="center",
            va="bottom" if above else "top",
            fontsize=8,
            color="#222222",
        )


def has_trade(columns: Mapping[str, Any]) -> bool:
    """Whether a table of settings holds what `plot_trade` draws."""
    names = ("param_sparsity", "param_smoothness", "mean_test_error", "mean_dice")
    known = [numeric(columns.get(name, ())) for name in names]
    return all(values is not None and len(values) > 0 and np.isfinite(values).any() for values in known)


def _column(columns: Mapping[str, Any], name: str) -> FloatArray:
    values = numeric(columns[name])
    if values is None:
        raise ValueError(f"{name} must hold numbers")
    return values


def _near_the_lowest(columns: Mapping[str, Any], error: FloatArray) -> BoolArray:
    """Settings whose explained share is within one standard error of that of the lowest error."""
    explained, spread = (
        numeric(columns.get(name, ())) for name in ("mean_test_explained", "se_test_explained")
    )
    if explained is None or spread is None or not len(explained) == len(spread) == len(error):
        return np.ones(len(error), dtype=bool)
    lowest = int(np.nanargmin(error))
    return np.asarray(explained >= explained[lowest] - spread[lowest])
