"""The section about the number of components: what each of them explains of samples held out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spcatv.report import words
from spcatv.report.content import Table, chart, heads
from spcatv.report.sections import Section
from spcatv.report.style import figure_style, line_style, new_figure
from spcatv.selection import ComponentCurve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def curve_section(curve: ComponentCurve | None, n_chosen: int) -> Section | None:
    """The curve with the choice in words; None if the number of components was given."""
    if curve is None:
        return None
    rows = tuple(
        (f"{k} (chosen)" if k == n_chosen else str(k), words.percent(share), words.percent(gain))
        for k, share, gain in zip(curve.n_components, curve.mean, curve.gain, strict=True)
    )
    one = len(curve.explained) == 1
    spread = "One fold, without a standard error." if one else "Mean over folds, with one standard error."
    picture = chart(
        plot_curve(curve, n_chosen),
        alt=f"Explained share of held-out samples with 1 to {len(rows)} components; {n_chosen} chosen.",
        caption=f"{spread} The vertical line marks the chosen number.",
    )
    columns = heads("Components", "Held-out variance explained", "Added by the last")
    caption = "Held-out variance by number of components"
    return Section(curve.choice.reason, picture, Table(caption, columns, rows, id="curve-table"))


def plot_curve(curve: ComponentCurve, n_chosen: int) -> Figure:
    """Explained share of held-out samples against the number of components."""
    with figure_style():
        figure = new_figure(4.6, 3.2)
        axes = figure.subplots()
        axes.errorbar(
            curve.n_components, 100 * curve.mean, 100 * curve.standard_error, **line_style(0), capsize=3
        )
        axes.axvline(n_chosen, color="0.5", linestyle=":")
        axes.set_ylim(bottom=0)
        axes.set_xticks(curve.n_components)
        axes.set_xlabel("components")
        axes.set_ylabel("held-out variance explained, %")
    return figure
