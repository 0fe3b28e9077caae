"""Sections about the choice of a setting and of the number of components, with their figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.report import formatting as fmt
from spcatv.report.figures import (
    component_name,
    line_style,
    log_axis,
    mark_chosen,
    new_figure,
)
from spcatv.report.inputs import ReportError
from spcatv.report.sections import LONG_TABLE, Section, SectionTable, chart, table_of
from spcatv.results import Selection
from spcatv.results.read import numeric
from spcatv.selection import ComponentCount

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Leave a setting out of the panel if it explains less than this share of what the best setting explains.
LEAST_EXPLAINED = 0.1
# Rows of the table of settings, besides the chosen setting.
MOST_SETTINGS = 200
PARAMETERS = {
    "param_sparsity": "sparsity",
    "param_smoothness": "smoothness",
    "param_alpha": "alpha",
    "param_l1_ratio": "l1 ratio",
    "param_tv_ratio": "TV ratio",
}
# Significant digits of the held-out errors.
DIGITS = range(4, 10)


def selection_section(selection: Selection | None) -> Section | None:
    """Create the section about the settings that were compared; None if none were."""
    if selection is None:
        return None
    shown = _columns(selection.columns)
    n_settings = len(selection.columns["mean_test_error"])
    best = selection.best_index
    rows = tuple(
        (f"{k + 1} (chosen)" if k == best else str(k + 1), *(column[k] for column in shown.values()))
        for k in sorted({*range(min(n_settings, MOST_SETTINGS)), best})
    )
    table = SectionTable("Settings", ("Setting", *shown), rows, id="selection-table")
    chosen = ", ".join(f"{title} {shown[title][best]}" for title in PARAMETERS.values() if title in shown)
    folds = "" if selection.n_folds is None else f" on {selection.n_folds} folds"
    verb = "was" if n_settings == 1 else "were"
    text = f"{fmt.count(n_settings, 'setting')} {verb} compared{folds}; chosen: {chosen}."
    if selection.reason:
        text += f" Why: {selection.reason}."
    if selection.rule:
        what = chosen_by(selection)
        text += (
            f" The rule “{selection.rule}” takes {what}." if what else f" The rule was “{selection.rule}”."
        )
    alt = f" Chosen: {chosen}, with a held-out error of {shown['held-out error'][best]}."
    if "param_sparsity" in selection.columns:
        picture = chart(
            plot_trade(selection.columns, best_index=best),
            alt=f"Stability of {n_settings} settings against their held-out error.{alt}",
            caption="Every point is a setting; numbers are sparsities, each above its most stable setting. "
            "Settings up and to the left are better. The star marks the chosen setting; filled points are "
            "within one standard error of the lowest error.",
        )
    else:
        picture = chart(
            plot_path(selection.columns, best_index=best),
            alt=f"Held-out error and stability of {n_settings} settings.{alt}",
            caption="The star marks the chosen setting. Lower error and higher stability are better.",
        )
    details = Section(table=table, summary="All settings", is_open=len(rows) <= LONG_TABLE)
    title = "Selection of the setting"
    return Section(title, text, (picture,), parts=(details,), id="selection", link="Selection")


def chosen_by(selection: Selection) -> str:
    """Describe the setting that the rule takes; empty if the rule is not known."""
    least = selection.min_sparsity
    sparse = "sparse" if least is None else f"sparse (at least {fmt.percent(least, 2)} zeros)"
    rules = {
        "one_se": "the sparsest setting as smooth as the one with the lowest held-out error whose explained "
        "share is at most one standard error over the folds, and at most 5 %, below that of the best one; of "
        "equally sparse ones the most stable",
        "error": "the setting with the lowest held-out error",
        "stability": "the setting that finds the same places on every fold most often (Dice index, corrected "
        "for chance)",
        "paper": f"the setting with the lowest held-out error whose second and third components are "
        f"{sparse}, or the one that comes closest to that where none is",
    }
    return rules.get(selection.rule, "")


def _columns(columns: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the columns of the table as strings, by their headings."""
    shown = {
        title: [setting_value(value) for value in columns[name]]
        for name, title in PARAMETERS.items()
        if name in columns
    }
    errors = _numbers(columns, "mean_test_error")
    shown["held-out error"] = distinct(errors)
    if (lowest := float(np.nanmin(errors))) > 0:
        shown["above the lowest"] = [fmt.percent(error / lowest - 1) for error in errors]
    shown["Dice"] = [setting_value(value) for value in columns["mean_dice"]]
    shown["zeros"] = [fmt.percent(share) for share in _numbers(columns, "mean_sparsity")]
    return shown


def _numbers(columns: Mapping[str, Any], name: str) -> FloatArray:
    found = numeric(columns[name])
    if found is None:
        raise ReportError(f"{name} must hold numbers")
    return found


def distinct(values: FloatArray) -> list[str]:
    """Write numbers with as many significant digits as distinguish them, within `DIGITS`."""
    texts = [[fmt.number(value, digits) for value in values] for digits in DIGITS]
    return next(found for found in texts if len(set(found)) == len(set(texts[-1])))


def setting_value(value: Any, digits: int = 4) -> str:
    """Write a value of a setting; one alpha per component is a list, or a string "0.1,0.2"."""
    parts: Sequence[Any] = value.split(",") if isinstance(value, str) else np.atleast_1d(value).tolist()
    numbers = numeric(parts)
    if numbers is None:
        return str(value)
    return ", ".join(
        "–" if np.isnan(number) else f"{number:.{digits}g}".replace("-", "−") for number in numbers
    )


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
        panels = figure.subplots(2, 1, sharex=True)
        for axes, table, text in zip(
            panels, (shares, zeros), ("explained variance (%)", "zeros (%)"), strict=True
        ):
            for k, column in enumerate(100 * table.T):
                axes.plot(across[order], column, **line_style(k), label=component_name(k))
            axes.set_ylabel(text)
            if name == "alpha":
                log_axis(axes.xaxis)
        panels[0].legend()
        panels[1].set_xlabel(name)
    return figure


def _plot_settings(columns: Mapping[str, Any], best_index: int | None) -> Figure:
    error, dice = _numbers(columns, "mean_test_error"), _numbers(columns, "mean_dice")
    name = "sparsity" if "param_sparsity" in columns else "alpha"
    known = numeric(columns[f"param_{name}"])  # none if there is one alpha per component
    across = np.arange(1.0, len(error) + 1) if known is None else known
    with new_figure(4.6, 6.2) as figure:
        panels = figure.subplots(2, 1, sharex=True)
        for axes, values, text in zip(
            panels, (error, dice), ("held-out error", "stability (Dice index)"), strict=True
        ):
            for number, (label, rows) in enumerate(setting_lines(columns, len(error)).items()):
                order = rows[np.argsort(across[rows], kind="stable")]
                axes.plot(across[order], values[order], **line_style(number), label=label)
            if best_index is not None:
                mark_chosen(axes, across[best_index], values[best_index])
            axes.set_ylabel(text)
        _limit_to_models(panels[0], columns, error, best_index)
        panels[1].set_ylim(top=1.02)
        panels[1].set_xlabel("setting" if known is None else name)
        if name == "alpha" and known is not None and (known > 0).all():
            log_axis(panels[1].xaxis)
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower left", ncols=2, fontsize=7)
    return figure


def _limit_to_models(
    axes: Axes, columns: Mapping[str, Any], error: FloatArray, best_index: int | None
) -> None:
    """Leave settings that explain next to nothing above the panel, so that it stays readable."""
    explained = _numbers(columns, "mean_test_explained")
    nothing = explained < LEAST_EXPLAINED * np.nanmax(explained)
    if best_index is not None:
        nothing[best_index] = False
    kept = error[~nothing & np.isfinite(error)]
    margin = 0.08 * np.ptp(kept) if len(kept) else 0
    if margin > 0 and (n_above := int((error[nothing] > kept.max() + margin).sum())):
        axes.set_ylim(kept.min() - margin, kept.max() + margin)
        axes.set_title(f"{n_above} with next to no loadings left: above", fontsize=8)


def setting_lines(columns: Mapping[str, Any], n_settings: int) -> dict[str, IntArray]:
    """Group settings that differ only in sparsity or alpha, by their smoothness or their ratios."""
    fixed = {"smoothness": "smoothness", "l1_ratio": "l1", "tv_ratio": "TV"}
    known = {name: title for name, title in fixed.items() if f"param_{name}" in columns}
    found: dict[str, list[int]] = {}
    for k in range(n_settings):
        texts = [f"{title} {setting_value(columns[f'param_{name}'][k], 3)}" for name, title in known.items()]
        found.setdefault(", ".join(texts), []).append(k)
    return {name: np.array(rows, dtype=np.intp) for name, rows in found.items()}


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
        One line per smoothness; the numbers are sparsities. Low error is left, high stability is up. Filled
        points are within one standard error of the lowest error.

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
    error, dice, sparsity, explained, spread = (_numbers(columns, name) for name in names)
    lowest = int(np.nanargmin(error))
    near = explained >= explained[lowest] - spread[lowest]
    with new_figure(4.6, 4.2) as figure:
        axes = figure.subplots()
        for number, (label, rows) in enumerate(setting_lines(columns, len(error)).items()):
            colour, marker = (line_style(number)[key] for key in ("color", "marker"))
            axes.plot(error[rows], dice[rows], color=colour, linewidth=1.2, alpha=0.6)
            marks = {"linestyle": "none", "marker": marker, "markersize": 7, "color": colour}
            for chosen, face in ((rows[near[rows]], colour), (rows[~near[rows]], "white")):
                axes.plot(error[chosen], dice[chosen], **marks, markerfacecolor=face)
            axes.plot([], [], **marks, label=label)
        # lines lie close together: every sparsity is written once, above its highest point
        for value in np.unique(sparsity):
            k = int(np.nanargmax(np.where(sparsity == value, dice, -np.inf)))
            place: dict[str, Any] = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"{value:g}", (error[k], dice[k]), **place, fontsize=8)
        if best_index is not None:
            mark_chosen(axes, error[best_index], dice[best_index])
        axes.set_xlabel("held-out error (lower is better)")
        axes.set_ylabel("Dice index over folds (higher is better)")
        axes.margins(0.1, 0.18)
        figure.legend(loc="outside lower left", ncols=2)
    return figure


def count_section(count: ComponentCount | None, n_chosen: int) -> Section | None:
    """Create the section about the number of components; None if the number was given."""
    if count is None:
        return None
    numbers = range(1, len(count.share) + 1)
    columns = {
        "Component": [f"{k} (last one kept)" if k == n_chosen else str(k) for k in numbers],
        "Share of the remaining variance": [fmt.percent(share) for share in count.share],
        "Noise reaches": [fmt.percent(limit) for limit in count.limit],
    }
    picture = chart(
        plot_count(count, n_chosen),
        alt=f"Share of the remaining variance of {len(numbers)} components, and what noise reaches; "
        f"{n_chosen} kept.",
        caption="Components above the line of noise stand out, and so do those before them. The vertical "
        "line marks the number kept.",
    )
    table = table_of("Components of the lightly smoothed samples", columns, id="count-table")
    return Section("Number of components", count.reason, (picture,), table, id="count")


def plot_count(count: ComponentCount, n_chosen: int) -> Figure:
    """Draw the shares of the components beside those that noise reaches."""
    numbers = np.arange(1, len(count.share) + 1)
    with new_figure(4.6, 3.2) as figure:
        axes = figure.subplots()
        axes.plot(numbers, 100 * count.share, **line_style(0), label="data")
        axes.plot(numbers, 100 * count.limit, **line_style(1), label="noise as smooth")
        axes.axvline(n_chosen + 0.5, color="0.5", linestyle=":")
        axes.set_ylim(bottom=0)
        axes.set_xticks(numbers)
        axes.set_xlabel("component")
        axes.set_ylabel("share of the remaining variance, %")
        axes.legend()
    return figure
