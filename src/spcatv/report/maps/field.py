"""Views of one- and two-dimensional fields and of features without a place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.report.figures import DIVERGING, line_style, new_figure
from spcatv.report.maps.base import View, ViewFrame, packed_steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure

    from spcatv.xarray.cf_coordinates import GridAxis


@dataclass(frozen=True, eq=False)
class ImageView(View):
    """Image of a two-dimensional field."""

    # number of the feature at a cell, counted from 1; 0 outside the mask, shape (n_rows, n_columns)
    index: IntArray
    # name of the rows and of the columns, and their coordinates if there are any
    axes: tuple[tuple[str, tuple[str, ...]], ...] = (("row", ()), ("column", ()))
    is_geographic: bool = False  # whether rows are latitudes and columns longitudes

    kind: ClassVar[str] = "image"
    n_panels = 1

    @property
    def aspect(self) -> float:  # type: ignore[override]
        """Width over height of the field, within limits."""
        n_rows, n_columns = self.index.shape
        return float(np.clip(n_columns / n_rows, 0.3, 4))

    def payload(self) -> dict[str, Any]:
        """Return the feature at every cell, and the names of rows and columns."""
        shape = list(self.index.shape)
        return {"kind": self.kind, "shape": shape, "index": packed_steps(self.index), "axes": self.axes}

    def frame(self) -> ViewFrame:
        """Return the frame, which explains the greys."""
        return ViewFrame(self.kind, "Image", "Dark grey: outside the mask. Light grey: zero.")

    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw the field; zeros and cells outside the mask are grey."""
        (axes,) = panels
        values = np.concatenate([[0.0], loading])[self.index]
        shown = np.ma.masked_where(values == 0, values)
        axes.imshow(np.where(self.index > 0, 0.95, 0.75), cmap="gray", vmin=0, vmax=1, interpolation="none")
        axes.imshow(shown, cmap=DIVERGING, norm=norm, interpolation="none")
        if all(labels for _, labels in self.axes):
            axes.set_axis_on()
            axes.grid(False)
            _draw_ticks(axes.yaxis, *self.axes[0], "NS" if self.is_geographic else "")
            _draw_ticks(axes.xaxis, *self.axes[1], "EW" if self.is_geographic else "")
        if self.is_geographic:
            rows, columns = (np.asarray(labels, dtype=np.float64) for _, labels in self.axes)
            _draw_coastlines(axes, rows, columns)


def _draw_ticks(axis: Any, name: str, labels: Sequence[str], sides: str) -> None:
    """Label up to five cells of an axis by their coordinates; degrees get the letters of their sides."""
    places = range(0, len(labels), max(1, -(-len(labels) // 5)))
    if sides:
        degrees = [round((float(labels[place]) + 180) % 360 - 180, 6) for place in places]
        shown = [f"{abs(d):g}°{sides[int(d < 0)] if d % 180 else ''}" for d in degrees]
    else:
        shown = [labels[place] for place in places]
        axis.set_label_text(name, fontsize=8)
    axis.set_ticks(places, shown, fontsize=8)


@cache
def _coastlines() -> list[FloatArray]:
    """Return longitudes and latitudes of coastlines, each of shape (n, 2); none without cartopy."""
    try:
        from cartopy.feature import COASTLINE

        coasts = list(COASTLINE.with_scale("110m").geometries())
    except (ImportError, OSError):  # cartopy downloads its map at the first use
        return []
    return [np.asarray(line.coords) for coast in coasts for line in getattr(coast, "geoms", [coast])]


def _draw_coastlines(axes: Axes, latitudes: FloatArray, longitudes: FloatArray) -> None:
    """Draw coastlines over a map whose cells have falling latitudes and rising longitudes."""
    west, east = (1.5 * longitudes[end] - 0.5 * longitudes[beside] for end, beside in ((0, 1), (-1, -2)))
    columns = np.r_[-0.5, np.arange(len(longitudes)), len(longitudes) - 0.5]
    for line in _coastlines():
        x, y = line.T[:2]
        x = (x - west) % 360 + west
        x = np.where(
            np.abs(np.diff(x, append=x[-1])) > 180, np.nan, x
        )  # a line that leaves at the other side
        x = np.interp(x, np.r_[west, longitudes, east], columns, right=np.nan)
        y = np.interp(y, latitudes[::-1], np.arange(len(latitudes))[::-1], left=np.nan, right=np.nan)
        axes.plot(x, y, color="0.3", linewidth=0.6, scalex=False, scaley=False)


@dataclass(frozen=True, eq=False)
class LineView(View):
    """Line plot of features."""

    positions: IntArray  # the place of each feature, shape (P,)
    joined: bool  # whether neighbours on the line are neighbours in the model
    axis: str  # label of the line
    names: tuple[str, ...] = ()  # names of the features, if they have any

    kind: ClassVar[str] = "line"
    n_panels = 1
    aspect = 3.0

    def payload(self) -> dict[str, Any]:
        """Return positions and names of the features."""
        return {
            "kind": self.kind,
            "positions": packed_steps(self.positions),
            "joined": self.joined,
            "axis": self.axis,
            "names": list(self.names),
        }

    def frame(self) -> ViewFrame:
        """Return the frame; a line needs no caption."""
        return ViewFrame(self.kind, "Line", "")

    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw the loading as a line, or as bars if the features are not joined."""
        (axes,) = panels
        axes.axhline(0, color="black", linewidth=0.6)
        colour = line_style(0)["color"]
        if self.joined:
            axes.plot(self.positions, loading, color=colour, linewidth=1.4)
        else:
            axes.vlines(self.positions, 0, loading, color=colour, linewidth=1.2)
        axes.set_ylim(norm.vmin, norm.vmax)

    def top(self, loadings: FloatArray) -> float:
        """Return the end of a scale that holds every loading."""
        return 1.05 * float(np.abs(loadings).max(initial=0.0)) or 1.0

    def figure(self, views: Sequence[View], loadings: FloatArray, numbers: Sequence[int]) -> Figure:
        """Draw the loadings over the features, one panel per component, all with one scale."""
        top = self.top(loadings[list(numbers)])
        from matplotlib.colors import Normalize

        with new_figure(7.0, 1.6 * len(numbers) + 0.6) as figure:
            panels = figure.subplots(len(numbers), 1, sharex=True, squeeze=False)[:, 0]
            for axes, k in zip(panels, numbers, strict=True):
                self.draw([axes], loadings[k], Normalize(-top, top))
                axes.set_title(f"component {k + 1}")
            figure.supylabel("loading", fontsize=9)
            panels[-1].set_xlabel(self.axis)
        return figure


def flat_view(structure: Any, names: tuple[str, ...], axes: tuple[GridAxis, ...] = ()) -> View:
    """Return the view of features that are neither in a brain nor in three dimensions.

    With coordinates, an image has north, or the largest coordinate, on top, and east on the right.
    """
    labels = getattr(structure, "labels", np.empty((0,) * 3))
    if labels.ndim == 2 and axes:
        return _map_view(structure.feature_index() + 1, *axes)
    if labels.ndim == 2:
        return ImageView(structure.feature_index() + 1)
    if labels.ndim == 1:
        if axes:
            names = tuple(f"{axes[0].name} {axes[0].labels[place]}" for place in np.flatnonzero(labels))
        return LineView(np.flatnonzero(labels), joined=True, axis="point", names=names)
    return LineView(np.arange(structure.n_features), joined=False, axis="feature", names=names)


def _map_view(index: IntArray, down: GridAxis, across: GridAxis) -> ImageView:
    """Turn a field so that its coordinates rise upwards and to the right."""
    if down.kind == "longitude" or across.kind == "latitude":
        index, down, across = index.T, across, down
    rows = slice(None, None, -1 if down.direction > 0 else 1)
    columns = slice(None, None, -1 if across.direction < 0 else 1)
    axes = (down.name, down.labels[rows]), (across.name, across.labels[columns])
    is_geographic = (down.kind, across.kind) == ("latitude", "longitude") and min(index.shape) > 1
    return ImageView(index[rows, columns], axes, is_geographic)
