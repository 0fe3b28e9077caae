"""Component maps as figures: slices, surfaces, images and lines with one colour scale (matplotlib)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spcatv._util.types import Array, FloatArray
from spcatv.report.flat import ImageView, LineView
from spcatv.report.style import DIVERGING, figure_style, line_style, new_figure, shared_top
from spcatv.report.surface import HemisphereView, SurfaceView
from spcatv.report.views import View, views_of
from spcatv.report.volume import Grid, VolumeView

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap, Normalize
    from matplotlib.figure import Figure


# inches
PANEL_WIDTH = 2.3
IMAGE_WIDTH = 4.4
# fixed axis, axis to the right, axis up
PLANES = ((0, 1, 2), (1, 0, 2), (2, 0, 1))
# direction of the eye along x, as seen from outside and from inside
SIDES = {"left": (-1.0, 1.0), "right": (1.0, -1.0)}


def plot_components(
    model: Any,
    *,
    components: Sequence[int] | None = None,
    background: str | os.PathLike[str] | None = None,
) -> Figure:
    """The maps of the components, all with the same colours: a row each, images side by side.

    Parameters
    ----------
    model : SPCATV, ImageSPCATV or SPCATVCV
        Fitted. Volumes are shown as three slices through the largest loading, surfaces from outside and
        inside, fields of two dimensions as images and of one as lines.
    components : sequence of int, default=None
        Which ones, from 0; all by default.
    background : path, "template", "mean" or None
        Picture behind volumes: the MNI152 template where the mask lies in its brain, else the mean image.

    Returns
    -------
    matplotlib Figure
        Save it with ``figure.savefig("components.svg")`` or ``.png``.
    """
    check_is_fitted(model, "components_")
    model = getattr(model, "best_estimator_", model)
    rows = np.asarray(model.components_, dtype=np.float64)
    chosen = list(range(len(rows))) if components is None else [int(k) for k in components]
    views = views_of(model, background)
    top = shared_top(rows[chosen])
    if isinstance(views[0], LineView):
        return _line_figure(views[0], rows, chosen)
    per_component = sum(_n_columns(view) for view in views)
    is_image = isinstance(views[0], ImageView)
    # a component of one picture leaves room for others beside it
    side_by_side = max(1, round(len(chosen) ** 0.5)) if is_image else 1
    n_rows, n_columns = -(-len(chosen) // side_by_side), per_component * side_by_side
    with figure_style():
        from matplotlib.colors import Normalize

        width = min(10.0, (IMAGE_WIDTH if is_image else PANEL_WIDTH) * n_columns + 0.6)
        side = (width - 0.6) / n_columns if is_image else PANEL_WIDTH
        figure = new_figure(width, (side / _aspect(views[0]) + 0.25) * n_rows + 0.7)
        grid = figure.subplots(n_rows, n_columns, squeeze=False)
        panels = grid.reshape(-1, per_component)
        norm = Normalize(-top, top)
        for own, k in zip(panels, chosen, strict=False):
            left = iter(own)
            for view in views:
                _draw(view, [next(left) for _ in range(_n_columns(view))], rows[k], norm)
            _name_row(own[0], f"component {k + 1}", above=is_image)
        for axes in panels[len(chosen) :].ravel():
            axes.set_axis_off()
        from matplotlib.cm import ScalarMappable

        bar = figure.colorbar(
            ScalarMappable(norm, DIVERGING),
            ax=grid.ravel().tolist(),
            orientation="horizontal",
            shrink=0.5,
            aspect=30,
            pad=0.02,
            extend="both",
        )
        bar.set_label("loading (zero is not coloured)")
    return figure


def _n_columns(view: View) -> int:
    if isinstance(view, VolumeView):
        return 3
    return 2 * len(view.hemispheres) if isinstance(view, SurfaceView) else 1


def _aspect(view: View) -> float:
    """Width over height of a panel."""
    if isinstance(view, ImageView):
        n_rows, n_columns = view.index.shape
        return float(np.clip(n_columns / n_rows, 0.3, 4))
    return 1.15


def _name_row(axes: Axes, name: str, *, above: bool) -> None:
    """The name of a row, beside its first panel or above it."""
    if above:
        axes.set_title(name)
        return
    place: dict[str, Any] = {"rotation": 90, "ha": "right", "va": "center", "transform": axes.transAxes}
    axes.text(-0.04, 0.5, name, fontsize=10, **place)


def _draw(view: View, panels: list[Axes], loading: FloatArray, norm: Normalize) -> None:
    for axes in panels:
        axes.set_axis_off()
    if isinstance(view, VolumeView):
        _draw_volume(view, panels, loading, norm)
    elif isinstance(view, SurfaceView):
        for number, side in enumerate(view.hemispheres):
            for place, direction in enumerate(SIDES[side.name]):
                axes = panels[2 * number + place]
                _draw_hemisphere(side, axes, loading, norm, direction)
                axes.set_title(f"{side.name}, {('outside', 'inside')[place]}", fontsize=8, loc="center")
    elif isinstance(view, ImageView):
        values = np.concatenate([[0.0], loading])[view.index]
        shown = np.ma.masked_where(values == 0, values)
        panels[0].imshow(
            np.where(view.index > 0, 0.95, 0.75), cmap="gray", vmin=0, vmax=1, interpolation="none"
        )
        panels[0].imshow(shown, cmap=DIVERGING, norm=norm, interpolation="none")


def _draw_volume(view: VolumeView, panels: list[Axes], loading: FloatArray, norm: Normalize) -> None:
    """Three slices through the voxel with the largest loading."""
    own = loading[view.start : view.stop]
    peak = np.argwhere(view.index.values == 1 + int(np.argmax(np.abs(own))))
    voxel = peak[0] if len(peak) else np.array(view.index.values.shape) // 2
    position = view.index.origin + voxel * view.index.spacing
    values = np.concatenate([[0.0], own])[view.index.values]
    if not own.any():
        place: dict[str, Any] = {"ha": "center", "va": "top", "transform": panels[1].transAxes}
        panels[1].text(0.5, -0.02, "no loading of this component here", fontsize=8, **place)
    for axes, (fixed, across, up) in zip(panels, PLANES, strict=True):
        if view.background is not None:
            grey, extent = _slice(view.background, view.background.values, position, fixed, across, up)
            shown = np.ma.masked_where(grey == 0, 0.15 + 0.0028 * grey)
            axes.imshow(shown, cmap="gray", vmin=0, vmax=1, extent=extent, origin="lower")
        found, extent = _slice(view.index, values, position, fixed, across, up)
        picture = np.ma.masked_where(found == 0, found)
        axes.imshow(picture, cmap=DIVERGING, norm=norm, extent=extent, origin="lower", interpolation="none")
        frame = view.background or view.index
        low = frame.origin - frame.spacing / 2
        high = low + frame.spacing * frame.values.shape
        axes.set_xlim(low[across], high[across])
        axes.set_ylim(low[up], high[up])
        axes.set_title(f"{'xyz'[fixed]} = {position[fixed]:.0f}", fontsize=8, loc="center")


def _slice(
    grid: Grid, values: Array, position: FloatArray, fixed: int, across: int, up: int
) -> tuple[Array, tuple[float, float, float, float]]:
    """A slice with `up` along its rows, and the place of its edges."""
    place = int(np.round((position[fixed] - grid.origin[fixed]) / grid.spacing[fixed]))
    low = grid.origin - grid.spacing / 2
    high = low + grid.spacing * grid.values.shape
    extent = (float(low[across]), float(high[across]), float(low[up]), float(high[up]))
    if not 0 <= place < grid.values.shape[fixed]:
        return np.zeros((grid.values.shape[up], grid.values.shape[across])), extent
    picture = np.take(values, place, axis=fixed)
    return picture.T, extent


def _draw_hemisphere(
    side: HemisphereView, axes: Axes, loading: FloatArray, norm: Normalize, direction: float
) -> None:
    """Triangles that face the eye, the farthest first; the eye looks along x."""
    import matplotlib
    from matplotlib.collections import PolyCollection

    corners = np.asarray(side.coords, dtype=np.float64)[side.triangles]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    values = np.zeros(len(side.coords))
    values[side.vertices] = loading[side.start : side.stop]
    on_triangles = values[side.triangles]
    colours = _face_colours(on_triangles, matplotlib.colormaps[DIVERGING], norm)
    shade = 0.45 + 0.55 * np.abs(normals[:, 0])
    colours[:, :3] *= shade[:, None]
    order = np.argsort(direction * corners[:, :, 0].mean(axis=1), kind="stable")
    # seen from +x, the front (+y) is to the right; from -x it is to the left
    flat = np.stack([direction * corners[:, :, 1], corners[:, :, 2]], axis=2)[order]
    axes.add_collection(
        PolyCollection(
            list(flat), facecolors=colours[order], edgecolors=colours[order], linewidths=0.2, rasterized=True
        )
    )
    axes.set_xlim(flat[..., 0].min(), flat[..., 0].max())
    axes.set_ylim(flat[..., 1].min(), flat[..., 1].max())
    axes.set_aspect("equal")


def _face_colours(values: FloatArray, table: Colormap, norm: Normalize) -> FloatArray:
    """Colours of triangles by the mean of their corners; grey where all corners are zero."""
    means = values.mean(axis=1)
    colours = np.asarray(table(norm(means)), dtype=np.float64)
    colours[(values == 0).all(axis=1), :3] = 0.82
    return colours


def _line_figure(view: LineView, rows: FloatArray, chosen: list[int]) -> Figure:
    """Loadings over the features, a panel a component, with one scale."""
    top = 1.05 * float(np.abs(rows[chosen]).max(initial=0.0)) or 1.0
    with figure_style():
        figure = new_figure(7.0, 1.6 * len(chosen) + 0.6)
        panels = figure.subplots(len(chosen), 1, sharex=True, squeeze=False)[:, 0]
        for axes, k in zip(panels, chosen, strict=True):
            axes.axhline(0, color="black", linewidth=0.6)
            if view.joined:
                axes.plot(view.positions, rows[k], color=line_style(0)["color"], linewidth=1.4)
            else:
                axes.vlines(view.positions, 0, rows[k], color=line_style(0)["color"], linewidth=1.2)
            axes.set_ylim(-top, top)
            axes.set_title(f"component {k + 1}")
        figure.supylabel("loading", fontsize=9)
        panels[-1].set_xlabel(view.axis)
    return figure
