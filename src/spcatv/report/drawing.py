"""Style of all figures, colours of maps, and pictures and arrays as text for the page."""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
import numpy as np
import numpy.typing as npt
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.image import imsave

from spcatv._util.types import Array

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
    with matplotlib.rc_context(RC):  # type: ignore[arg-type]  # its keys are texts
        yield


class NotebookFigure(Figure):
    """Figure that a notebook shows at the end of a cell, also if pyplot was never imported."""

    def _repr_png_(self) -> bytes:
        stream = io.BytesIO()
        self.savefig(stream, format="png", dpi=RC["figure.dpi"])
        return stream.getvalue()


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """Yield an empty figure in the common style, size in inches, without registering it with pyplot."""
    with figure_style():
        yield NotebookFigure(figsize=(width, height), layout="constrained")


def line_style(number: int, **changes: Any) -> dict[str, Any]:
    """Return colour, mark and dashes of series `number`; neighbouring series differ in colour and mark."""
    return {
        "color": LINE_COLOURS[number % len(LINE_COLOURS)],
        "marker": MARKERS[number % len(MARKERS)],
        "linestyle": LINES[(number // len(LINE_COLOURS)) % len(LINES)],
        "markersize": 4,
        "linewidth": 1.4,
        **changes,
    }


@cache
def colour_table(name: str) -> npt.NDArray[np.uint8]:
    """Return 256 colours of a colour map, shape (256, 3)."""
    colours = matplotlib.colormaps[name](np.linspace(0, 1, 256))[:, :3]
    return np.round(255 * colours).astype(np.uint8)


@cache
def legend(name: str) -> str:
    """Return a picture of the colours of a table, from low to high."""
    stream = io.BytesIO()
    imsave(stream, np.repeat(colour_table(name)[None], 2, axis=0), format="png")
    return data_uri("png", stream)


def colour_top(loading: npt.ArrayLike) -> float:
    """Return the end of the colour scale of a map: the 99 % quantile of its nonzero absolute values, or 0."""
    values = np.asarray(loading, dtype=np.float64)
    return float(np.quantile(np.abs(values[values != 0]), 0.99)) if values.any() else 0.0


def shared_top(components: npt.ArrayLike) -> float:
    """Return the end of the colour scale that all components share: the largest of their ends."""
    return max(map(colour_top, np.asarray(components)), default=0.0) or 1.0


def svg_uri(figure: Figure) -> str:
    """Convert a figure to a data URI (SVG) for an `img` element; its background becomes transparent."""
    for patch in (figure.patch, *(axes.patch for axes in figure.axes)):
        patch.set(facecolor="none", edgecolor="none")
    stream = io.BytesIO()
    with figure_style():
        figure.set_dpi(RC["savefig.dpi"])
        # savefig would draw the figure twice: the first time only to find its layout
        FigureCanvasSVG(figure).print_svg(stream, metadata={"Date": None})  # type: ignore[no-untyped-call]
    return data_uri("svg+xml", stream)


def data_uri(kind: str, stream: io.BytesIO) -> str:
    """Return a picture as the text of a data URI."""
    return f"data:image/{kind};base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def pack(array: Array) -> str:
    """Compress the bytes of an array (little-endian, C order) with zlib, and encode them in base64."""
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(plain.tobytes(), 9)).decode("ascii")


def pack_steps(array: Array) -> str:
    """Pack integers as differences from one to the next, which compress far better for long runs."""
    values = np.ascontiguousarray(array, dtype=np.int32).ravel()
    return pack(np.diff(values, prepend=np.int32(0)).astype(np.int32))


def pack_map(values: npt.ArrayLike, bits: int = 16) -> dict[str, Any]:
    """Pack a map as 16-bit or 8-bit multiples of a step; zeros stay zero, and nothing else becomes zero.

    Values above half a step are off by at most half a step.
    """
    kind = np.dtype(f"i{bits // 8}")
    exact = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(exact).max(initial=0.0))
    step = largest / np.iinfo(kind).max if largest > 0 else 1.0
    whole = np.round(exact / step)
    whole = np.where((whole == 0) & (exact != 0), np.sign(exact), whole)
    return {"step": step, "bits": bits, "values": pack(whole.astype(kind))}
