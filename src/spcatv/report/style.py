"""One look for all figures: colour-blind safe colours, readable text, and how figures become files."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# blue to white to red keeps its order for every kind of colour blindness; cividis was made for it
DIVERGING = "RdBu_r"
SEQUENTIAL = "cividis"
# Okabe and Ito's colours, dark enough for lines on white, and a mark each: colour is never the only sign
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
    "text.parse_math": False,  # a name with dollar signs is a name
}


@contextmanager
def figure_style() -> Iterator[None]:
    """The settings under which figures are drawn and written."""
    import matplotlib

    with matplotlib.rc_context(RC):  # type: ignore[arg-type]  # its keys are texts
        yield


def new_figure(width: float, height: float, **options: Any) -> Figure:
    """An empty figure that belongs to nobody else, in inches; texts never overlap its edges."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained", **options)


def line_style(number: int) -> dict[str, Any]:
    """Colour, mark and dashes of the series `number`, all three different from its neighbours."""
    return {
        "color": LINE_COLOURS[number % len(LINE_COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[(number // len(LINE_COLOURS)) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.4,
    }


def colour_table(name: str) -> npt.NDArray[np.uint8]:
    """256 colours, shape (256, 3)."""
    import matplotlib

    colours = matplotlib.colormaps[name](np.linspace(0, 1, 256))[:, :3]
    return np.round(255 * colours).astype(np.uint8)


def shared_top(components: npt.ArrayLike) -> float:
    """The end of the colour scale that all components share.

    The largest, over components, of the loading that 99 % of the non-zero ones do not exceed in absolute
    value: a single spike does not take the colours from everything else.
    """
    tops = [
        float(np.quantile(np.abs(row[row != 0]), 0.99)) for row in np.asarray(components, float) if row.any()
    ]
    return max(tops, default=1.0)


def svg_uri(figure: Figure) -> str:
    """The figure as an address that an `img` element shows without any file; scripts in it never run."""
    stream = io.BytesIO()
    with figure_style():
        figure.savefig(stream, format="svg", metadata={"Date": None}, transparent=True)
    return "data:image/svg+xml;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def png_uri(pixels: npt.NDArray[np.uint8]) -> str:
    """An array of pixels (rows, columns, 3) as such an address."""
    from matplotlib.image import imsave

    stream = io.BytesIO()
    imsave(stream, pixels, format="png")
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")
