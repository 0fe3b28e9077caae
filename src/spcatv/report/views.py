"""Base class of the views of a model, and the views of flat fields: images and lines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from spcatv._util.types import FloatArray, IntArray
from spcatv.report.drawing import DIVERGING, line_style, new_figure, pack_steps, shared_top

if TYPE_CHECKING:
    from spcatv.xarray.cf_coordinates import GridAxis

# inches
PANEL_WIDTH = 2.3
IMAGE_WIDTH = 4.4


class View(ABC):
    """Picture of features in their places: interactive on the page, and `n_panels` panels in a figure."""

    kind: ClassVar[str]  # of the viewer in the script of the page
    caption = ""
    planes: Sequence[str] = ()  # names of the directions of slices
    ends: Mapping[str, tuple[str, str]] = {}  # names of the left and right edge of each slice
    presets: Sequence[str] = ()  # names of the directions from which a surface can be seen
    shapes: Sequence[str] = ()  # names of the shapes in which a surface can be seen
    n_panels = 1
    aspect = 1.15  # width over height of a panel

    @abstractmethod
    def payload(self) -> dict[str, Any]:
        """Return the data from which the script of the page draws."""

    @abstractmethod
    def draw(self, panels: Sequence[Axes], loading: FloatArray, norm: Normalize) -> None:
        """Draw a loading of shape (P,) into `n_panels` panels."""

    def shown(self, loading: FloatArray) -> FloatArray:
        """Return the entries of a loading that the view shows."""
        return loading

    def top(self, loadings: FloatArray) -> float:
        """Return the end of a scale for loadings of shape (n, P)."""
        return shared_top(loadings)

    def figure(self, views: Sequence[View], loadings: FloatArray, numbers: Sequence[int]) -> Figure:
        """Draw components with one colour scale: one row each, or several per row if each is one panel."""
        per_component = sum(view.n_panels for view in views)
        alone = per_component == 1
        side_by_side = max(1, round(len(numbers) ** 0.5)) if alone else 1
        n_rows, n_columns = -(-len(numbers) // side_by_side), per_component * side_by_side
        width = min(10.0, (IMAGE_WIDTH if alone else PANEL_WIDTH) * n_columns + 0.6)
        side = (width - 0.6) / n_columns if alone else PANEL_WIDTH
        top = self.top(loadings[list(numbers)])
        norm = Normalize(-top, top)
        with new_figure(width, (side / self.aspect + 0.25) * n_rows + 0.7) as figure:
            grid = figure.subplots(n_rows, n_columns, squeeze=False)
            for axes in grid.flat:
                axes.set_axis_off()
            for own, k in zip(grid.reshape(-1, per_component), numbers, strict=False):
                panels = iter(own)
                for view in views:
                    view.draw([next(panels) for _ in range(view.n_panels)], loadings[k], norm)
                name = f"component {k + 1}"
                if alone:
                    own[0].set_title(name)
                else:  # beside the first panel
                    place: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "fontsize": 10}
                    own[0].text(-0.04, 0.5, name, transform=own[0].transAxes, **place)
            shape: dict[str, Any] = {"orientation": "horizontal", "shrink": 0.5, "aspect": 30, "pad": 0.02}
            bar = figure.colorbar(ScalarMappable(norm, DIVERGING), ax=list(grid.flat), extend="both", **shape)
            bar.set_label("loading (zero is not coloured)")
        return figure


def flat_view(structure: Any, names: Sequence[str], axes: Sequence[GridAxis] = ()) -> View:
    """Return the view of features that are neither in a brain nor in three dimensions.

    With coordinates, an image has north, or the largest coordinate, on top, and east on the right.
    """
    labels = getattr(structure, "labels", np.empty((0,) * 3))
    if labels.ndim == 1:
        if axes:
            names = [f"{axes[0].name} {axes[0].labels[place]}" for place in np.flatnonzero(labels)]
        return LineView(np.flatnonzero(labels), joined=True, axis="point", names=names)
    if labels.ndim != 2:
        return LineView(np.arange(structure.n_features), joined=False, axis="feature", names=names)
    index = structure.feature_index() + 1
    if not axes:
        return ImageView(index)
    down, across = axes
    if down.kind == "longitude" or across.kind == "latitude":
        index, down, across = index.T, across, down
    rows = slice(None, None, -1 if down.direction > 0 else 1)
    columns = slice(None, None, -1 if across.direction < 0 else 1)
    is_geographic = (down.kind, across.kind) == ("latitude", "longitude") and min(index.shape) > 1
    named = (down.name, down.labels[rows]), (across.name, across.labels[columns])
    return ImageView(index[rows, columns], named, is_geographic=is_geographic)


class ImageView(View):
    """Image of a two-dimensional field.

    `index` (n_rows, n_columns) holds the number of the feature at a cell, counted from 1, and 0 outside the
    mask; `axes` the names of rows and columns, and their coordinates if there are any. If it `is_geographic`,
    rows are latitudes and columns longitudes.
    """

    kind = "image"
    caption = "Dark grey: outside the mask. Light grey: zero."

    def __init__(
        self,
        index: IntArray,
        axes: tuple[tuple[str, tuple[str, ...]], ...] = (("row", ()), ("column", ())),
        *,
        is_geographic: bool = False,
    ) -> None:
        self.index, self.axes, self.is_geographic = index, axes, is_geographic
        self.aspect = float(np.clip(index.shape[1] / index.shape[0], 0.3, 4))

    def payload(self) -> dict[str, Any]:
        """Return the feature at every cell, and the names of rows and columns."""
        shape = list(self.index.shape)
        return {"kind": self.kind, "shape": shape, "index": pack_steps(self.index), "axes": self.axes}

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
        leaves = np.abs(np.diff(x, append=x[-1])) > 180  # at the other side of the map
        x = np.interp(np.where(leaves, np.nan, x), np.r_[west, longitudes, east], columns, right=np.nan)
        y = np.interp(y, latitudes[::-1], np.arange(len(latitudes))[::-1], left=np.nan, right=np.nan)
        axes.plot(x, y, color="0.3", linewidth=0.6, scalex=False, scaley=False)


class LineView(View):
    """Line plot of features, at `positions` of shape (P,) on the line, which has the label `axis`.

    They are `joined` if neighbours on the line are neighbours in the model.
    """

    kind = "line"
    aspect = 3.0

    def __init__(self, positions: IntArray, *, joined: bool, axis: str, names: Sequence[str] = ()) -> None:
        self.positions, self.joined, self.axis, self.names = positions, joined, axis, tuple(names)

    def payload(self) -> dict[str, Any]:
        """Return positions and names of the features."""
        positions = pack_steps(self.positions)
        line = {"kind": self.kind, "positions": positions, "joined": self.joined}
        return {**line, "axis": self.axis, "names": self.names}

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
        with new_figure(7.0, 1.6 * len(numbers) + 0.6) as figure:
            panels = figure.subplots(len(numbers), 1, sharex=True, squeeze=False)[:, 0]
            for axes, k in zip(panels, numbers, strict=True):
                self.draw([axes], loadings[k], Normalize(-top, top))
                axes.set_title(f"component {k + 1}")
            figure.supylabel("loading", fontsize=9)
            panels[-1].set_xlabel(self.axis)
        return figure
