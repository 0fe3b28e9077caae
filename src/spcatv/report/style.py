"""One style for all figures: colours that are safe for colour blindness, and figures as data URIs."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# blue to white to red keeps its order for every kind of colour blindness; cividis was designed for that
DIVERGING = "RdBu_r"
SEQUENTIAL = "cividis"
# Okabe and Ito's colours, dark enough for lines on white, each with a mark: colour is never the only cue
LINE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#7A5C00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":")

RC: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 120,
    "savefig.dpi": 200,
    "svg.fonttype": "path",  # the same picture on every machine, whatever fonts it has
    "svg.hashsalt": "spca-tv",  # and the same bytes
    "text.parse_math": False,  # dollar signs in a name are just characters
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Use the style while figures are drawn and written."""
    import matplotlib

    with matplotlib.rc_context(RC):  # type: ignore[arg-type]  # its keys are texts
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, size in inches, that is not registered with pyplot; text stays inside its edges."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def line_style(number: int) -> dict[str, Any]:
    """Colour, mark and dashes of series `number`; neighbouring series differ in colour and mark."""
    return {
        "color": LINE_COLOURS[number % len(LINE_COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[(number // len(LINE_COLOURS)) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.4,
    }


def mark_chosen(axes: Axes, x: float, y: float) -> None:
    """Draw a star at the setting that was chosen."""
    axes.plot(
        x,
        y,
        marker="*",
        markersize=16,
        color="white",
        markeredgecolor="black",
        markeredgewidth=1.5,
        linestyle="none",
        label="chosen",
        zorder=5,
    )


@cache
def colour_table(name: str) -> npt.NDArray[np.uint8]:
    """256 colours, shape (256, 3)."""
    import matplotlib

    colours = matplotlib.colormaps[name](np.linspace(0, 1, 256))[:, :3]
    return np.round(255 * colours).astype(np.uint8)


def colour_top(loading: npt.ArrayLike) -> float:
    """The end of the colour scale of a loading: 99 % of those that are not zero do not exceed it.

    A single spike therefore does not use up the colours. A loading that is zero everywhere gets 0.
    """
    values = np.asarray(loading, dtype=np.float64)
    return float(np.quantile(np.abs(values[values != 0]), 0.99)) if values.any() else 0.0


def shared_top(components: npt.ArrayLike) -> float:
    """The end of the colour scale that all components share: the largest of their own."""
    return max(map(colour_top, np.asarray(components)), default=0.0) or 1.0


def svg_uri(figure: Figure) -> str:
    """The figure as a data URI (SVG) for an `img` element, in which scripts never run.

    Its background becomes transparent.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    stream = io.BytesIO()
    with figure_style():
        figure.set_dpi(RC["savefig.dpi"])
        # savefig would draw the figure twice: the first time only to find its layout
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def png_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """An array of pixels of shape (height, width, 3) as a data URI (PNG)."""
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
