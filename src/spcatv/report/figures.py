"""Figures of a fit: convergence, stability, selection, explained variance, scores (matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray, IntArray
from spcatv.decomposition import ComponentDiagnostics
from spcatv.report.style import figure_style, line_style, mark_chosen, new_figure
from spcatv.report.words import superscript
from spcatv.results.read import numeric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from spcatv.report.variance import Variance


MOST_GROUPS = 7
# a setting is left out of the panel if it explains less than this share of what the best one explains or, if
# that is not known, if more than this share of its loadings are zero
LEAST_EXPLAINED = 0.1
MOST_ZEROS = 0.995


def plot_convergence(model: Any, *, components: Sequence[int] | None = None) -> Figure:
    """How the objective fell from one alternation to the next, and what the certificates say.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, or sequence of ComponentDiagnostics
        Fitted.
    components : sequence of int, default=None
        Which ones, from 0; all by default.

    Returns
    -------
    matplotlib Figure
        For every component the distance of the objective to its last value, and an upper bound on how far
        the loadings of every alternation are from the best ones for its scores (dotted). Both are relative
        to the last objective and on a logarithmic axis. A joint fit has one objective for all components, and
        no bounds before the end.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_convergence
    >>> model = SPCATV(2).fit(np.random.default_rng(0).standard_normal((20, 30)))
    >>> plot_convergence(model).savefig("convergence.svg")
    """
    records: Sequence[ComponentDiagnostics] = getattr(model, "diagnostics_", model)
    chosen = range(len(records)) if components is None else components
    with figure_style():
        figure = new_figure(4.6, 3.2)
        axes = figure.subplots()
        longest = 1
        for k in chosen:
            record = records[k]
            # components that were fitted together share an objective
            alike = [other for other in chosen if records[other].objectives == record.objectives]
            if not record.objectives or alike[0] != k:
                continue
            label = _name(*alike)
            scale = abs(record.objectives[-1]) or 1.0
            steps = np.arange(1, len(record.objectives) + 1)
            longest = max(longest, len(steps))
            # with a wanted sparsity the weights change, and the objective may come from below
            excess = np.abs(np.asarray(record.objectives) - record.objectives[-1]) / scale
            style = line_style(k)
            # the last value has distance 0, which a logarithmic axis cannot show
            axes.plot(steps[:-1], np.where(excess[:-1] > 0, excess[:-1], np.nan), **style, label=label)
            slack = np.asarray(record.inexactness) / scale
            if len(slack):  # a joint fit records the objective only
                dotted = {**style, "linestyle": ":", "linewidth": 1}
                axes.plot(steps, np.where(slack > 0, slack, np.nan), **dotted)
            if len(steps) == 1:
                axes.plot([], [], **style, label=label)
        _log_axis(axes.yaxis)
        axes.set_xlabel("alternation of scores and loadings")
        axes.set_ylabel("distance, relative to the objective")
        title = "Objective: distance to its last value"
        if any(records[k].inexactness for k in chosen):
            title += " (lines)\nlargest possible error of the map (dotted)"
        axes.set_title(title)
        _whole_numbers(axes, longest)
        if axes.get_legend_handles_labels()[0] and len(chosen) > 1:
            axes.legend()
    return figure


def _name(*numbers: int) -> str:
    return f"component{'s' if len(numbers) > 1 else ''} {', '.join(str(k + 1) for k in numbers)}"


def _log_axis(axis: Any) -> None:
    """A logarithmic axis with plain labels, since these figures do not parse mathematics."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log")
    axis.set_major_formatter(FuncFormatter(lambda value, _: _power(value)))
    low, high = sorted(axis.get_view_interval())
    if high < 30 * low:  # too few powers of ten to read the axis
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:  # marks between the powers of ten would have no labels, and take half the time of a report
        axis.set_minor_locator(NullLocator())


def _power(value: float) -> str:
    exponent = round(np.log10(value))
    return f"{value:g}" if -3 < exponent < 4 else f"10{superscript(exponent)}"


def _whole_numbers(axes: Axes, longest: int) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.5, longest + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))


def plot_variance(variance: Variance) -> Figure:
    """Cumulative explained variance, with that of PCA as the ceiling if it is known.

    Parameters
    ----------
    variance : Variance
        From `spcatv.report.variance.variance_of`.

    Returns
    -------
    matplotlib Figure
        One point per number of components.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_variance
    >>> from spcatv.report.variance import variance_of
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> model = SPCATV(2).fit(X)
    >>> plot_variance(variance_of(model, model.transform(X), None)).savefig("variance.svg")
    """
    numbers = np.arange(1, len(variance.own) + 1)
    with figure_style():
        figure = new_figure(4.6, 3.2)
        axes = figure.subplots()
        cumulative = np.cumsum(variance.own) if variance.cumulative is None else variance.cumulative
        axes.plot(numbers, 100 * cumulative, **line_style(0), label="these components")
        if variance.ceiling is not None:
            style = {**line_style(1), "linestyle": "--"}
            axes.plot(numbers, 100 * variance.ceiling, **style, label="PCA, the ceiling")
        axes.set_ylim(bottom=0)
        axes.set_xticks(numbers if len(numbers) <= 12 else numbers[:: len(numbers) // 8])
        axes.set_xlim(0.7, len(numbers) + 0.3)
        axes.set_xlabel("number of components")
        axes.set_ylabel("explained variance (%)")
        axes.legend(loc="lower right")
    return figure


def plot_scores(
    scores: npt.ArrayLike,
    component: int = 0,
    *,
    groups: Sequence[Any] | None = None,
    variable: npt.ArrayLike | None = None,
    group_name: str = "group",
    variable_name: str = "variable",
) -> Figure:
    """The scores of the samples on one component.

    Parameters
    ----------
    scores : array-like of shape (n_samples, K)
        From `transform`.
    component : int, default=0
        Which component.
    groups : sequence of n_samples labels, default=None
        One strip per group, each with its own colour and mark.
    variable : array-like of shape (n_samples,), default=None
        If given, the scores are drawn against it.
    group_name, variable_name : str
        For the axes.

    Returns
    -------
    matplotlib Figure
        One strip per group, or a scatter plot against the variable.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.report import plot_scores
    >>> scores = np.random.default_rng(0).standard_normal((20, 2))
    >>> age = np.arange(20, 40)
    >>> figure = plot_scores(scores, component=1, variable=age, variable_name="age in years")
    >>> figure.axes[0].get_xlabel()
    'age in years'
    """
    values = np.asarray(scores, dtype=np.float64)[:, component]
    members = group_members(groups, len(values))
    with figure_style():
        figure = new_figure(4.6, 3.2)
        axes = figure.subplots()
        if variable is None:
            _strips(axes, values, members)
            if groups is not None:
                axes.set_xlabel(shortened(group_name, 40))
        else:
            across = np.asarray(variable, dtype=np.float64)
            for number, (label, rows) in enumerate(members):
                style = {**line_style(number), "linestyle": "none", "alpha": 0.75}
                axes.plot(across[rows], values[rows], **style, label=label)
            axes.set_xlabel(shortened(variable_name, 40))
            if groups is not None:
                axes.legend(title=shortened(group_name, 24), loc="best")
        axes.set_ylabel(f"score on component {component + 1}")
    return figure


def group_members(groups: Sequence[Any] | None, n_samples: int) -> list[tuple[str, IntArray]]:
    """The samples of every group; if there are many groups, the smallest are joined as "other"."""
    if groups is None:
        return [("all samples", np.arange(n_samples))]
    labels = np.array([str(label) for label in groups], dtype=object)
    names, counts = np.unique(labels, return_counts=True)
    kept = list(names)
    if len(names) > MOST_GROUPS:
        largest = np.argsort(-counts, kind="stable")[: MOST_GROUPS - 1]
        kept = [names[k] for k in sorted(largest)]
    members: list[tuple[str, IntArray]] = [
        (shortened(str(name), 18), np.flatnonzero(labels == name)) for name in kept
    ]
    rest = np.flatnonzero(~np.isin(labels, kept))
    return [*members, ("other", rest)] if len(rest) else members


def shortened(text: str, length: int) -> str:
    """The text on one line, shortened in the middle if it is longer than `length`."""
    line = " ".join(text.split())
    half = (length - 1) // 2
    return line if len(line) <= length else f"{line[:half]}…{line[-half:]}"


def _strips(axes: Axes, values: FloatArray, members: list[tuple[str, IntArray]]) -> None:
    """Draw points beside each other so that they do not overlap, and the median of every strip."""
    for number, (_, rows) in enumerate(members):
        order = np.argsort(values[rows], kind="stable")
        # a fixed spread rather than a random one, so that the same data give the same picture
        spread = 0.32 * (2 * ((np.arange(len(rows)) * 0.618034) % 1) - 1)
        across = np.empty(len(rows))
        across[order] = number + spread
        style = {**line_style(number), "linestyle": "none", "alpha": 0.7}
        axes.plot(across, values[rows], **style)
        if len(rows):
            axes.hlines(np.median(values[rows]), number - 0.4, number + 0.4, color="black", linewidth=2)
    axes.set_xticks(range(len(members)), [f"{label}\n(n = {len(rows)})" for label, rows in members])
    if len(members) > 3:
        axes.tick_params(axis="x", rotation=90)
    axes.set_xlim(-0.6, len(members) - 0.4)
    axes.grid(visible=False, axis="x")


def plot_stability(stability: Any) -> Figure:
    """Draw how well resampled fits agree with the components.

    Parameters
    ----------
    stability : Bootstrap, or any object with `dice` (n_resamples, K) and `selection_frequency` (K, P)
        From `spcatv.stability.bootstrap_components`.

    Returns
    -------
    matplotlib Figure
        Dice index of every resample with the reference, by component; and how many features are selected
        in at least a given share of the resamples.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_stability
    >>> from spcatv.stability import bootstrap_components
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> plot_stability(bootstrap_components(SPCATV(1), X, n_resamples=2)).savefig("stability.svg")
    """
    dice = np.asarray(stability.dice, dtype=np.float64)
    frequency = np.asarray(stability.selection_frequency, dtype=np.float64)
    shares = np.linspace(0.01, 1, 100)
    with figure_style():
        figure = new_figure(4.6, 5.6)
        upper, lower = figure.subplots(2, 1)
        _strips(upper, dice.T.ravel(), _columns(dice))
        upper.set_ylim(-0.03, 1.03)
        upper.set_ylabel("Dice index with all samples")
        upper.set_title("Agreement of resampled fits")
        for k, row in enumerate(frequency):
            style = {**line_style(k), "marker": None}
            kept = [100 * np.mean(row >= share) for share in shares]
            lower.plot(100 * shares, kept, **style, label=_name(k))
            lower.plot(100 * shares[9::20], kept[9::20], **{**line_style(k), "linestyle": "none"})
        lower.set_xlabel("selected in at least this share of resamples (%)")
        lower.set_ylabel("features (%)")
        lower.set_ylim(bottom=0)
        lower.set_title("How often features are selected")
        lower.legend()
    return figure


def _columns(table: FloatArray) -> list[tuple[str, IntArray]]:
    """The places of every column of a table in the concatenation of its columns."""
    n_rows, n_columns = table.shape
    return [(f"{k + 1}", k * n_rows + np.arange(n_rows)) for k in range(n_columns)]


def plot_path(results: Any, *, best_index: int | None = None) -> Figure:
    """Draw settings side by side: held-out error and stability of a selection, or a path of models.

    Parameters
    ----------
    results : SPCATVCV, mapping, or spcatv.selection.Path
        A fitted search, its ``cv_results_`` (one column per key), or the models of a path.
    best_index : int, default=None
        The chosen setting, which is marked; by default that of the fitted search.

    Returns
    -------
    matplotlib Figure
        Held-out error and Dice index over sparsity, one line per smoothness; or over alpha, one line per
        pair of ratios. For a path: explained variance and share of zeros of every component.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_path
    >>> from spcatv.selection import path
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> plot_path(path(SPCATV(2), X, [0.5, 0.7, 0.9])).savefig("path.svg")
    """
    if hasattr(results, "models"):
        return _plot_models(results)
    if hasattr(results, "cv_results_"):
        best_index = int(results.best_index_) if best_index is None else best_index
        results = results.cv_results_
    return _plot_selection(results, best_index)


def _plot_models(path: Any) -> Figure:
    name = "alpha" if "alpha" in path.settings[0] else "sparsity"
    across = np.array([setting[name] for setting in path.settings])
    order = np.argsort(across, kind="stable")
    shares = np.array([model.explained_variance_ratio_ for model in path.models])[order]
    zeros = np.array([[record.sparsity for record in model.diagnostics_] for model in path.models])[order]
    with figure_style():
        figure = new_figure(4.6, 5.6)
        panels = figure.subplots(2, 1, sharex=True)
        for axes, table, text in zip(
            panels, (shares, zeros), ("explained variance (%)", "zeros (%)"), strict=True
        ):
            for k, column in enumerate(100 * table.T):
                axes.plot(across[order], column, **line_style(k), label=_name(k))
            axes.set_ylabel(text)
            if name == "alpha":
                _log_axis(axes.xaxis)
        panels[0].legend()
        panels[1].set_xlabel(name)
    return figure


def _plot_selection(columns: Mapping[str, Any], best_index: int | None) -> Figure:
    error, dice = numeric(columns["mean_test_error"]), numeric(columns.get("mean_dice", ()))
    if error is None:
        raise ValueError("mean_test_error must hold numbers")
    name = "sparsity" if "param_sparsity" in columns else "alpha"
    known = numeric(columns[f"param_{name}"])
    across = np.arange(1.0, len(error) + 1) if known is None else known
    lines = setting_lines(columns, len(error))
    with_dice = dice is not None and len(dice) == len(error) and np.isfinite(dice).any()
    with figure_style():
        figure = new_figure(4.6, 6.2 if with_dice else 3.6)
        panels = figure.subplots(2 if with_dice else 1, 1, sharex=True, squeeze=False)[:, 0]
        _plot_lines(panels[0], across, error, lines, best_index)
        panels[0].set_ylabel("held-out error")
        _limit_to_models(panels[0], columns, error, best_index)
        if with_dice and dice is not None:
            _plot_lines(panels[1], across, dice, lines, best_index)
            panels[1].set_ylabel("stability (Dice index)")
            panels[1].set_ylim(top=1.02)
        panels[-1].set_xlabel("setting" if known is None else name)
        if name == "alpha" and known is not None and (known > 0).all():
            _log_axis(panels[-1].xaxis)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, fontsize=7)
    return figure


def _limit_to_models(
    axes: Axes, columns: Mapping[str, Any], error: FloatArray, best_index: int | None
) -> None:
    """Leave settings that explain next to nothing above the panel: they would squeeze the others."""
    explained = numeric(columns.get("mean_test_explained", ()))
    zeros = numeric(columns.get("mean_sparsity", ()))
    if explained is not None and len(explained) == len(error) and np.isfinite(explained).any():
        nothing = explained < LEAST_EXPLAINED * np.nanmax(explained)
    elif zeros is not None and len(zeros) == len(error):
        nothing = ~(zeros <= MOST_ZEROS)  # NaN: no component lives
    else:
        return
    if best_index is not None:
        nothing[best_index] = False
    kept = error[~nothing & np.isfinite(error)]
    if len(kept) < 2 or kept.max() <= kept.min():
        return
    margin = 0.08 * (kept.max() - kept.min())
    n_above = int((error[nothing] > kept.max() + margin).sum())
    if n_above:
        axes.set_ylim(kept.min() - margin, kept.max() + margin)
        axes.set_title(f"{n_above} with next to no loadings left: above", fontsize=8)


def setting_lines(columns: Mapping[str, Any], n_settings: int) -> dict[str, IntArray]:
    """Groups of settings that differ only in sparsity or alpha, by their smoothness or their ratios."""
    fixed = {"smoothness": "smoothness", "l1_ratio": "l1", "tv_ratio": "TV"}
    found: dict[str, list[int]] = {}
    for k in range(n_settings):
        texts = [
            f"{title} {_short(str(columns[f'param_{name}'][k]))}"
            for name, title in fixed.items()
            if f"param_{name}" in columns
        ]
        found.setdefault(", ".join(texts), []).append(k)
    return {name: np.array(rows, dtype=np.intp) for name, rows in found.items()}


def _short(text: str) -> str:
    try:
        return f"{float(text):.3g}"
    except ValueError:
        return shortened(text, 12)


def _plot_lines(
    axes: Axes, across: FloatArray, values: FloatArray, lines: Mapping[str, IntArray], best_index: int | None
) -> None:
    for number, (label, rows) in enumerate(lines.items()):
        order = rows[np.argsort(across[rows], kind="stable")]
        axes.plot(across[order], values[order], **line_style(number), label=label)
    if best_index is not None:
        mark_chosen(axes, across[best_index], values[best_index])
