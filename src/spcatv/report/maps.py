"""Component maps: figures, the views of a model for the page, and the views of flat fields."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from sklearn.utils.validation import check_is_fitted

from spcatv._util.types import FloatArray, IntArray
from spcatv.report.brain_views import Shape, field_view, mean_image, mesh_view, surface_view, volume_view
from spcatv.report.drawing import (
    DIVERGING,
    View,
    data_uri,
    figure_style,
    line_style,
    new_figure,
    packed_steps,
)
from spcatv.report.regions import axes_of

if TYPE_CHECKING:
    from spcatv.xarray.cf_coordinates import GridAxis


def plot_components(
    model: Any,
    *,
    components: Sequence[int] | None = None,
    background: str | os.PathLike[str] | None = None,
    surface: Shape = "inflated",
    mesh: Any = None,
) -> Figure:
    """Draw the maps of the components, all with the same colour scale.

    Volumes are shown as three slices through the largest loading, surfaces from outside and inside,
    two-dimensional fields as images and one-dimensional ones as lines.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, XarraySPCATV or a search of them
        Fitted.
    components : sequence of int, default=None
        Which ones, from 0; all by default.
    background : path, "template", "mean" or None
        Picture behind volumes: by default the MNI152 template if the mask lies in its brain, otherwise the
        mean image.
    surface : {"inflated", "folded"}, default="inflated"
        Shape of surfaces with the mesh of fsaverage5; others are drawn as they were given to the fit.
    mesh : (coords, triangles), default=None
        For a model of an array whose `structure` is a mesh: positions (n_features, 3) and corners.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.datasets import make_dots
    >>> from spcatv.report import plot_components
    >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
    >>> model = SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)
    >>> plot_components(model).savefig("components.png")
    """
    model = estimator_of(model)
    loadings = np.asarray(model.components_, dtype=np.float64)
    numbers = range(len(loadings)) if components is None else [int(k) for k in components]
    views: tuple[View, ...] = views_of(model, background, surface)
    if mesh is not None:
        views = (mesh_view(mesh, loadings.shape[1]),)
    return views[0].figure(views, loadings, numbers)


def thumbnails(model: Any) -> list[str]:
    """Draw a picture of every component, 320 pixels wide, as the data URI of a PNG file.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV, XarraySPCATV or a search of them
        Fitted.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import thumbnails
    >>> model = SPCATV(2, structure=(30,)).fit(np.random.default_rng(0).standard_normal((20, 30)))
    >>> [picture[:21] for picture in thumbnails(model)]
    ['data:image/png;base64', 'data:image/png;base64']
    """
    model = estimator_of(model)
    views = views_of(model)
    pictures = []
    for loading in np.asarray(model.components_, dtype=np.float64):
        # the view that shows most of the loading
        view = max(views, key=lambda view: float(np.square(view.shown(loading)).sum()))
        if isinstance(view, ImageView):
            view.is_geographic = False  # coastlines may have to be downloaded
        top = view.top(loading[None])
        with figure_style():
            figure = Figure(figsize=(3.2, 3.2 / (view.n_panels * view.aspect)), dpi=100)
            places = {"left": 0.0, "right": 1.0, "bottom": 0.0, "top": 1.0, "wspace": 0.03}
            panels = figure.subplots(1, view.n_panels, squeeze=False, gridspec_kw=places)[0]
            view.draw(panels, loading, Normalize(-top, top))
            for axes in panels:
                axes.set_axis_off()
                axes.set_title("")
            stream = io.BytesIO()
            figure.savefig(stream, format="png", dpi=100)
        pictures.append(data_uri("png", stream))
    return pictures


def estimator_of(model: Any) -> Any:
    """Return the estimator with the loadings: the best one of a search, the inner one of an XarraySPCATV."""
    check_is_fitted(model, "components_")
    if hasattr(model, "sample_dims_"):  # XarraySPCATV
        model = model.estimator_
    return getattr(model, "best_estimator_", model)


def views_of(
    model: Any, background: str | os.PathLike[str] | None = None, surface: Shape = "inflated"
) -> tuple[View, ...]:
    """Return the views of a fitted model: one, or two if it has both surfaces and voxels."""
    mean = mean_image(model)
    space = getattr(model, "space_", None)
    if space is None or not (space.vertex_sets or space.voxel_set):
        structure = model.structure_
        if np.ndim(getattr(structure, "labels", 0)) == 3:
            return (field_view(structure, mean),)
        names = tuple(map(str, getattr(model, "feature_names_in_", ())))
        return (flat_view(structure, names, axes_of(model)),)
    views: list[View] = []
    if sets := space.vertex_sets:
        views.append(surface_view(sets, surface))
    if voxels := space.voxel_set:
        inside = mean[voxels.start : voxels.start + len(voxels.indices)]
        header = getattr(space, "header", None)
        # a NIfTI header may leave the axes without directions; spaces without a header have them
        sides_known = header is None or bool(header["sform_code"] or header["qform_code"])
        views.append(volume_view(voxels, inside, background, sides_known=sides_known))
    return tuple(views)


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
        return {"kind": self.kind, "shape": shape, "index": packed_steps(self.index), "axes": self.axes}

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
        positions = packed_steps(self.positions)
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
