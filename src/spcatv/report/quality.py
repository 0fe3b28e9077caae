"""The section on the images: the mask on the mean image, and how every image compares with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.report import words
from spcatv.report.content import Chart, Table, chart, heads
from spcatv.report.material import Material
from spcatv.report.style import LINE_COLOURS, figure_style, new_figure
from spcatv.report.view import View
from spcatv.report.volume import PLANES, TEMPLATE, VolumeView, mean_grid, mean_image, slice_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 2000
LONG = 15  # rows of a table that is folded
MOST_NAMED = 5


@dataclass(frozen=True)
class Quality:
    """What the page says about the images."""

    text: str
    mask: Chart | None
    table: Table | None
    folded: bool  # whether the table is


def quality_section(material: Material, views: Sequence[View]) -> Quality | None:
    """The mask of images on their mean, and the table of quality; None for a model of an array."""
    model = material.model
    if not hasattr(model, "mask_report_"):
        return None
    sentences = [f"{model.mask_report_[:1].upper()}{model.mask_report_[1:]}."]
    if model.n_dropped_:
        sentences.append(f"{model.n_dropped_:,} of these {model.space_.noun} were dropped.")
    if material.quality:
        sentences.append(_outliers(material.quality))
    slices = [view for view in views if isinstance(view, VolumeView) and view.anatomical]
    return Quality(
        text=" ".join(sentences),
        mask=_mask_chart(model, slices[0]) if slices else None,
        table=_table(material.quality) if material.quality else None,
        folded=len(material.quality) > LONG,
    )


def _outliers(quality: Sequence[Any]) -> str:
    found = [f"{words.file_names(image.name)} ({image.why})" for image in quality if image.outlier]
    if not found:
        return "No image is unlike the others."
    more = f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    verb = "is" if len(found) == 1 else "are"
    return (
        f"{len(found)} of {words.count(len(quality), 'image')} {verb} unlike the others: "
        f"{', '.join(found[:MOST_NAMED])}{more}."
    )


def _table(quality: Sequence[Any]) -> Table:
    """One row per image, outliers and large distances first."""
    ordered = sorted(quality, key=lambda image: (not image.outlier, -image.distance))
    rows = tuple(
        (
            words.file_names(image.name),
            words.percent(image.share_missing),
            words.percent(image.share_zero),
            f"{image.distance:.2f}",
            "n/a" if np.isnan(image.correlation) else f"{image.correlation:.2f}",
            image.why or "-",
        )
        for image in ordered[:MOST_ROWS]
    )
    more = f" The first {MOST_ROWS:,} of {len(quality):,} are listed." if len(quality) > MOST_ROWS else ""
    caption = (
        "The images inside the mask. Missing: NaN or infinite. Distance: from the median image, where 1 is "
        "usual. Correlation: with the mean of the other images. Unusual: more than 4 robust standard "
        f"deviations from the median.{more}"
    )
    columns = heads("Image", "Missing", "Zeros", "Distance", "Correlation", "Unusual", text=("Unusual",))
    summary = f"Quality of {words.count(len(quality), 'image')}"
    return Table(caption, columns, rows, id="quality-table", summary=summary, long=True)


def _mask_chart(model: Any, view: VolumeView) -> Chart:
    mean = mean_image(model)
    corners = _box(model.space_)
    on_template = view.background_name == TEMPLATE
    behind, through = "on the mean of the images inside it", "the mean image"
    if not np.ptp(mean[view.start : view.stop]):
        behind, through = ("on the MNI152 template", "the template") if on_template else ("alone", "the mask")
        behind += ": every run was centred, so that there is no mean image"
    brain = " Dashed: the brain of the MNI152 template." if on_template else ""
    box = "" if corners is None else " Thin frame: the box of the images."
    return chart(
        plot_mask(view, mean, corners),
        alt=f"Three slices through {through} with the outline of the mask: {model.mask_report_}.",
        caption=f"The outline of the mask {behind}.{brain}{box}",
        photo=True,
    )


def _box(space: Any) -> FloatArray | None:
    """The lowest and the highest corner of the box of volumes in mm, shape (2, 3); None for other images."""
    if space.kind != "volume":
        return None
    corners = np.indices((2, 2, 2)).reshape(3, -1).T * np.array(space.labels.shape) - 0.5
    places = corners @ space.affine[:3, :3].T + space.affine[:3, 3]
    return np.array([places.min(axis=0), places.max(axis=0)])


def plot_mask(view: VolumeView, mean: FloatArray, box: FloatArray | None = None) -> Figure:
    """Three slices through the middle of the mask, with its outline on the mean image.

    Parameters
    ----------
    view : VolumeView
        Where the voxels lie.
    mean : array of shape (n_features,)
        The mean image; the MNI152 template of the view is drawn instead if it is constant.
    box : array of shape (2, 3), default=None
        The lowest and the highest corner of the images, in mm.
    """
    index = view.index
    grey = mean_grid(index, mean[view.start : view.stop])
    middle = np.argwhere(index.values > 0).mean(axis=0).round().astype(int)
    position = index.origin + middle * index.spacing
    outlines = [(index, index.values > 0, {"colors": LINE_COLOURS[1], "linewidths": 1.4})]
    if view.background is not None and view.background_name == TEMPLATE:
        grey = grey or view.background
        dashed = {"colors": LINE_COLOURS[0], "linewidths": 1.0, "linestyles": "dashed"}
        outlines.append((view.background, view.background.values > 0, dashed))
    with figure_style():
        figure = new_figure(7.5, 2.9)
        for axes, (fixed, across, up) in zip(figure.subplots(1, 3), PLANES, strict=True):
            axes.set_axis_off()
            axes.set_aspect("equal")
            if grey is not None:
                shown, ends = slice_of(grey, grey.values, position, fixed, across, up)
                pixels = np.ma.masked_equal(shown, 0)
                axes.imshow(pixels, cmap="gray", vmin=0, vmax=255, extent=ends, origin="lower")
            for grid, inside, style in outlines:
                place = int(np.round((position[fixed] - grid.origin[fixed]) / grid.spacing[fixed]))
                if 0 <= place < inside.shape[fixed]:
                    # a margin, so that the outline is closed at the edges
                    plane = np.pad(np.take(inside, place, axis=fixed).T.astype(float), 1)
                    axes.contour(*(_centres(grid, axis) for axis in (across, up)), plane, [0.5], **style)
            if box is not None:
                (left, right), (low, high) = box[:, across], box[:, up]
                axes.plot(
                    [left, right, right, left, left],
                    [low, low, high, high, low],
                    color="#888888",
                    linewidth=0.8,
                )
            axes.set_title(f"{'xyz'[fixed]} = {position[fixed]:.0f}", fontsize=10, loc="center")
    return figure


def _centres(grid: Any, axis: int) -> FloatArray:
    """The centres of the voxels along an axis, with one more at either end."""
    return grid.origin[axis] + grid.spacing[axis] * np.arange(-1.0, grid.values.shape[axis] + 1)
