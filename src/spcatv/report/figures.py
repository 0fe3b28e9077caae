"""Figures of a fit and of a search: convergence, variance, scores, stability, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from spcatv._util.tables import MISSING
from spcatv._util.types import FloatArray, IntArray
from spcatv.decomposition import ComponentDiagnostics
from spcatv.report import formatting as fmt
from spcatv.report.drawing import line_style, new_figure
from spcatv.report.inputs import Variance

MOST_GROUPS = 7


def plot_convergence(model: Any, *, components: Sequence[int] | None = None) -> Figure:
    """Draw the convergence of the objective and the bounds on the error of the loadings.

    For every component, this is the distance of the objective to its last value, and an upper bound on how
    far the loadings of every alternation are from the best ones for its scores (dotted), both relative to the
    last objective. A joint fit has one objective for all components, and no bounds before the end.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, or sequence of ComponentDiagnostics
        Fitted.
    components : sequence of int, default=None
        Which ones, from 0; all by default.

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
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        for k in chosen:
            record = records[k]
            # components that were fitted together share an objective
            alike = [other for other in chosen if records[other].objectives == record.objectives]
            if not record.objectives or alike[0] != k:
                continue
            scale = abs(record.objectives[-1]) or 1.0
            steps = np.arange(1, len(record.objectives) + 1)
            # with a wanted sparsity the weights change, and the objective may come from below
            excess = np.abs(np.asarray(record.objectives) - record.objectives[-1]) / scale
            # the last value has distance 0, which a logarithmic axis cannot show
            shown = np.where(excess[:-1] > 0, excess[:-1], np.nan)
            axes.plot(
                steps[:-1], shown, **line_style(k), label=fmt.components([other + 1 for other in alike])
            )
            slack = np.asarray(record.inexactness) / scale
            if len(slack):  # a joint fit records the objective only
                dotted = line_style(k, linestyle=":", linewidth=1)
                axes.plot(steps, np.where(slack > 0, slack, np.nan), **dotted)
        log_axis(axes.yaxis)
        title = "Objective: distance to its last value"
        if any(records[k].inexactness for k in chosen):
            title += " (lines)\nlargest possible error of the map (dotted)"
        axes.set(title=title, xlabel="alternation of scores and loadings")
        axes.set_ylabel("distance, relative to the objective")
        axes.set_xlim(left=0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        if axes.get_legend_handles_labels()[0] and len(chosen) > 1:
            axes.legend()
    return figure


def log_axis(axis: Any) -> None:
    """Make an axis logarithmic, with plain labels, since `text.parse_math` is off."""

    def power(value: float, _: Any) -> str:
        exponent = round(np.log10(value))
        return f"{value:g}" if -3 < exponent < 4 else f"10{fmt.superscript(exponent)}"

    set_scale = axis.axes.set_xscale if axis.axis_name == "x" else axis.axes.set_yscale
    set_scale("log")
    axis.set_major_formatter(FuncFormatter(power))
    low, high = sorted(axis.get_view_interval())
    if high < 100 * low:  # too few powers of ten to read the axis
        axis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
        axis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    else:  # marks between the powers of ten would have no labels, and take half the time of a report
        axis.set_minor_locator(NullLocator())


def plot_variance(variance: Variance) -> Figure:
    """Draw the cumulative explained variance, with that of PCA as the upper bound if it is known.

    Parameters
    ----------
    variance : Variance
        From `spcatv.report.inputs.variance_of`.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_variance
    >>> from spcatv.report.inputs import variance_of
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> model = SPCATV(2).fit(X)
    >>> plot_variance(variance_of(model, model.transform(X), None)).savefig("variance.svg")
    """
    numbers = np.arange(1, len(variance.own) + 1)
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        axes.plot(numbers, 100 * variance.together, **line_style(0), label="these components")
        if variance.ceiling is not None:
            style = line_style(1, linestyle="--")
            axes.plot(numbers, 100 * variance.ceiling, **style, label="PCA, the upper bound")
        axes.set_ylim(bottom=0)
        axes.set_xticks(numbers if len(numbers) <= 12 else numbers[:: len(numbers) // 8])
        axes.set_xlim(0.7, len(numbers) + 0.3)
        axes.set(xlabel="number of components", ylabel="explained variance (%)")
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
    """Draw the scores of the samples on one component, one strip per group or against a variable.

    Parameters
    ----------
    scores : array-like of shape (n_samples, K)
        From `transform`.
    component : int, default=0
        Which component.
    groups : sequence of n_samples labels, default=None
        One strip per group, each with its own colour and mark.
    variable : array-like of shape (n_samples,), default=None
        If given, the scores are drawn against it; those against dates (datetime64) as a line.
    group_name, variable_name : str
        For the axes.

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
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        if variable is None:
            _strips(axes, [(label, values[rows]) for label, rows in members])
            if groups is not None:
                axes.set_xlabel(fmt.shorten(group_name, 40))
        else:
            across = np.asarray(variable)
            is_date = across.dtype.kind == "M"
            across = across if is_date else across.astype(np.float64)
            for number, (label, rows) in enumerate(members):
                rows = rows[np.argsort(across[rows], kind="stable")]
                style: dict[str, Any] = {"marker": None} if is_date else {"linestyle": "none", "alpha": 0.75}
                axes.plot(across[rows], values[rows], **line_style(number, **style), label=label)
            axes.set_xlabel(fmt.shorten(variable_name, 40))
            if groups is not None:
                axes.legend(title=fmt.shorten(group_name, 24), loc="best")
        axes.set_ylabel(f"score on component {component + 1}")
    return figure


def group_members(groups: Sequence[Any] | None, n_samples: int) -> list[tuple[str, IntArray]]:
    """Return the samples of every group; the smallest of many groups are joined as "other"."""
    if groups is None:
        return [("all samples", np.arange(n_samples))]
    texts = [str(label) for label in groups]
    labels = np.array(["missing" if text.strip().lower() in MISSING else text for text in texts], object)
    names, counts = np.unique(labels, return_counts=True)
    if len(names) > MOST_GROUPS:
        names = names[np.sort(np.argsort(-counts, kind="stable")[: MOST_GROUPS - 1])]
    members: list[tuple[str, IntArray]] = [
        (fmt.shorten(str(name), 18), np.flatnonzero(labels == name)) for name in names
    ]
    rest = np.flatnonzero(~np.isin(labels, names))
    return [*members, ("other", rest)] if len(rest) else members


def _strips(axes: Axes, strips: Sequence[tuple[str, FloatArray]]) -> None:
    """Draw one strip of points per group, and its median."""
    for number, (_, values) in enumerate(strips):
        # a fixed spread rather than a random one, so that the same data give the same picture
        spread = 0.32 * (2 * ((np.arange(len(values)) * 0.618034) % 1) - 1)
        axes.plot(number + spread, np.sort(values), **line_style(number, linestyle="none", alpha=0.7))
        if len(values):
            axes.hlines(np.median(values), number - 0.4, number + 0.4, color="black", linewidth=2)
    axes.set_xticks(range(len(strips)), [f"{label}\n(n = {len(values)})" for label, values in strips])
    if len(strips) > 3:
        axes.tick_params(axis="x", rotation=90)
    axes.set_xlim(-0.6, len(strips) - 0.4)
    axes.grid(visible=False, axis="x")


def plot_stability(stability: Any) -> Figure:
    """Draw the Dice index of every resampled fit with the reference, and the frequency of features.

    Parameters
    ----------
    stability : Bootstrap, or any object with `dice` (n_resamples, K) and `selection_frequency` (K, P)
        From `spcatv.stability.bootstrap_components`.

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
    with new_figure(4.6, 5.6) as figure:
        upper, lower = figure.subplots(2, 1)
        _strips(upper, [(str(k + 1), column) for k, column in enumerate(dice.T)])
        upper.set(ylim=(-0.03, 1.03), ylabel="Dice index with all samples")
        upper.set_title("Agreement of resampled fits")
        for k, row in enumerate(frequency):
            kept = [100 * np.mean(row >= share) for share in shares]
            lower.plot(100 * shares, kept, **line_style(k, marker=None), label=fmt.components([k + 1]))
            lower.plot(100 * shares[9::20], kept[9::20], **line_style(k, linestyle="none"))
        lower.set(xlabel="selected in at least this share of resamples (%)", ylabel="features (%)")
        lower.set_ylim(bottom=0)
        lower.set_title("How often features are selected")
        lower.legend()
    return figure


def plot_path(results: Any, *, best_index: int | None = None) -> Figure:
    """Draw settings side by side: held-out error and stability of a selection, or a path of models.

    The axis is sparsity, with one line per smoothness, or alpha, with one line per pair of ratios. A path
    shows explained variance and share of zeros of every component.

    Parameters
    ----------
    results : SPCATVCV, mapping, or spcatv.selection.Path
        A fitted search, its ``cv_results_`` (one column per key), or the models of a path.
    best_index : int, default=None
        The chosen setting, which is marked; by default that of the fitted search.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import plot_path
    >>> from spcatv.selection import path
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> plot_path(path(SPCATV(2), X, [0.5, 0.7, 0.9])).savefig("path.svg")
    """
    return _plot_models(results) if hasattr(results, "models") else _plot_settings(*_of(results, best_index))


def _of(results: Any, best_index: int | None) -> tuple[Mapping[str, Any], int | None]:
    """Return the columns of the settings and the chosen one, of a fitted search or as they are given."""
    if not hasattr(results, "cv_results_"):
        return results, best_index
    return results.cv_results_, int(results.best_index_) if best_index is None else best_index


def _plot_models(path: Any) -> Figure:
    name = "alpha" if "alpha" in path.settings[0] else "sparsity"
    across = np.array([setting[name] for setting in path.settings])
    order = np.argsort(across, kind="stable")
    shares = np.array([model.explained_variance_ratio_ for model in path.models])[order]
    zeros = np.array([[record.sparsity for record in model.diagnostics_] for model in path.models])[order]
    with new_figure(4.6, 5.6) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True)
        for axes, table, text in ((upper, shares, "explained variance (%)"), (lower, zeros, "zeros (%)")):
            for k, column in enumerate(100 * table.T):
                axes.plot(across[order], column, **line_style(k), label=fmt.components([k + 1]))
            axes.set_ylabel(text)
            if name == "alpha":
                log_axis(axes.xaxis)
        upper.legend()
        lower.set_xlabel(name)
    return figure


def _plot_settings(columns: Mapping[str, Any], best_index: int | None) -> Figure:
    error, dice = (np.asarray(columns[name], np.float64) for name in ("mean_test_error", "mean_dice"))
    name = "sparsity" if "param_sparsity" in columns else "alpha"
    values = list(columns[f"param_{name}"])
    one_each = all(np.ndim(value) == 0 for value in values)  # rather than one alpha per component
    across = np.asarray(values, dtype=np.float64) if one_each else np.arange(1.0, len(error) + 1)
    with new_figure(4.6, 6.2) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True)
        for axes, heights, text in (
            (upper, error, "held-out error"),
            (lower, dice, "stability (Dice index)"),
        ):
            for number, (label, rows) in enumerate(setting_lines(columns, len(error)).items()):
                order = rows[np.argsort(across[rows], kind="stable")]
                axes.plot(across[order], heights[order], **line_style(number), label=label)
            if best_index is not None:
                _mark_chosen(axes, across[best_index], heights[best_index])
            axes.set_ylabel(text)
        lower.set_ylim(top=1.02)
        lower.set_xlabel(name if one_each else "setting")
        if name == "alpha" and one_each and (across > 0).all():
            log_axis(lower.xaxis)
        handles, labels = upper.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, fontsize=7)
    return figure


def setting_lines(columns: Mapping[str, Any], n_settings: int) -> dict[str, IntArray]:
    """Group settings that differ only in sparsity or alpha, by their smoothness or their ratios."""
    fixed = {"smoothness": "smoothness", "l1_ratio": "l1", "tv_ratio": "TV"}
    known = {name: title for name, title in fixed.items() if f"param_{name}" in columns}
    found: dict[str, list[int]] = {}
    for k in range(n_settings):
        texts = [f"{title} {fmt.values(columns[f'param_{name}'][k], 3)}" for name, title in known.items()]
        found.setdefault(", ".join(texts), []).append(k)
    return {name: np.array(rows, dtype=np.intp) for name, rows in found.items()}


def _mark_chosen(axes: Axes, x: float, y: float) -> None:
    """Draw a star at the setting that was chosen."""
    star: dict[str, Any] = {"marker": "*", "markersize": 16, "color": "white", "markeredgecolor": "black"}
    axes.plot(x, y, **star, markeredgewidth=1.5, linestyle="none", label="chosen", zorder=5)


def plot_trade(results: Any, *, best_index: int | None = None) -> Figure:
    """Draw every setting of a selection by its held-out error and its Dice index.

    Lines join settings of one smoothness; the numbers are sparsities. Filled points are within one standard
    error of the lowest error.

    Parameters
    ----------
    results : SPCATVCV or mapping
        A fitted search over sparsity and smoothness, or its ``cv_results_`` (one column per key).
    best_index : int, default=None
        The chosen setting, which is marked; by default that of the fitted search.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATVCV
    >>> from spcatv.report import plot_trade
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> search = SPCATVCV(1, structure=(30,), sparsity=[0.4, 0.6], smoothness=[0.5, 1.0], cv=2).fit(X)
    >>> plot_trade(search).savefig("trade.svg")
    """
    columns, best_index = _of(results, best_index)
    names = ("mean_test_error", "mean_dice", "param_sparsity", "mean_test_explained", "se_test_explained")
    error, dice, sparsity, explained, spread = (np.asarray(columns[name], np.float64) for name in names)
    lowest = int(np.nanargmin(error))
    near = explained >= explained[lowest] - spread[lowest]
    with new_figure(4.6, 4.2) as figure:
        axes = figure.subplots()
        for number, (label, rows) in enumerate(setting_lines(columns, len(error)).items()):
            style = line_style(number, linestyle="none", markersize=7)
            axes.plot(error[rows], dice[rows], color=style["color"], linewidth=1.2, alpha=0.6)
            for chosen, face in ((rows[near[rows]], style["color"]), (rows[~near[rows]], "white")):
                axes.plot(error[chosen], dice[chosen], **style, markerfacecolor=face)
            axes.plot([], [], **style, label=label)
        # lines lie close together: every sparsity is written once, above its highest point
        labels: dict[int, list[str]] = {}
        for value in np.unique(sparsity):
            k = int(np.nanargmax(np.where(sparsity == value, dice, -np.inf)))
            near = [other for other in labels if _overlap(error, dice, k, other)]
            labels.setdefault(near[0] if near else k, []).append(f"{value:g}")
        place: dict[str, Any] = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
        for k, texts in labels.items():
            axes.annotate(", ".join(texts), (error[k], dice[k]), **place, fontsize=8)
        if best_index is not None:
            _mark_chosen(axes, error[best_index], dice[best_index])
        axes.set(xlabel="held-out error (lower is better)", ylabel="Dice index over folds (higher is better)")
        axes.margins(0.1, 0.18)
        figure.legend(loc="outside lower left", ncols=2)
    return figure


def _overlap(x: FloatArray, y: FloatArray, first: int, second: int) -> bool:
    """Return whether the labels of two points would overlap."""
    return all(abs(v[first] - v[second]) < 0.07 * (np.nanmax(v) - np.nanmin(v)) for v in (x, y))
