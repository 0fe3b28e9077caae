"""Section about the images: the mask on the mean image, and the quality of every image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.naming import some_of
from spcatv._util.types import FloatArray
from spcatv.data.outliers import SCALE
from spcatv.report import formatting as fmt
from spcatv.report.figures import LINE_COLOURS, new_figure
from spcatv.report.inputs import ReportInputs
from spcatv.report.maps.base import View
from spcatv.report.maps.volume import (
    PLANES,
    TEMPLATE,
    Grid,
    Plane,
    VolumeView,
    mean_grid,
    mean_image,
    whole_grid,
)
from spcatv.report.sections import LONG_TABLE, Chart, Section, SectionTable, chart, table_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 2000
SAME = "the same values as"  # how the remark on a repeated image begins (`spcatv.data.outliers`)
# axial slices at these shares of the height of the mask: the first one goes through the eyes
HEIGHTS = (0.2, 0.35, 0.8)
OF_MASK: dict[str, Any] = {"colors": LINE_COLOURS[1], "linewidths": 1.4}
# readable on a light and on a dark page
WRITING: dict[str, Any] = {
    "color": "white",
    "va": "top",
    "fontsize": 10,
    "bbox": {"facecolor": "black", "edgecolor": "none", "pad": 1.5},
}
TINT = 0.2  # a mask that fills the box has no edge inside of it
OF_BRAIN: dict[str, Any] = {"colors": LINE_COLOURS[4], "linewidths": 1.0, "linestyles": "dashed"}


def quality_section(inputs: ReportInputs, views: Sequence[View]) -> Section | None:
    """Create the section about the images; None for a model of an array."""
    model, quality = inputs.model, inputs.quality
    if not hasattr(model, "mask_report_"):
        return None
    sentences = [f"{model.mask_report_[:1].upper()}{model.mask_report_[1:]}."]
    if model.n_dropped_:
        sentences.append(f"{model.n_dropped_:,} of these {model.space_.noun} were dropped.")
    parts = [
        Section(charts=(_mask_chart(inputs, view),))
        for view in views
        if isinstance(view, VolumeView) and view.anatomical
    ]
    if quality:
        sentences.append(_remarks(quality))
        summary = f"Quality of {fmt.count(len(quality), 'image')}"
        parts.append(Section(table=_table(quality), summary=summary, is_open=len(quality) <= LONG_TABLE))
    return Section("Images and mask", " ".join(sentences), parts=tuple(parts), id="quality")


def _remarks(quality: Sequence[Any]) -> str:
    """Name outliers, images of another scale, and repeated images."""
    outliers = [f"{fmt.file_names(image.name)} ({image.why})" for image in quality if image.outlier]
    repeats = [fmt.file_names(image.name) for image in quality if SAME in image.why]
    scaled = [fmt.file_names(image.name) for image in quality if SCALE in image.why]
    text = "" if scaled else "No image is unlike the others."
    if outliers:
        verb = "is" if len(outliers) == 1 else "are"
        n_images = fmt.count(len(quality), "image")
        text = f"{len(outliers)} of {n_images} {verb} unlike the others: {some_of(outliers)}."
    if scaled:
        remark = next(image.why for image in quality if SCALE in image.why)
        have = f"{fmt.count(len(scaled), 'image')} {'has' if len(scaled) == 1 else 'have'} a"
        text += f" The images have two scales: {have} {remark[remark.index(SCALE) :]}: {some_of(scaled)}."
    if repeats:
        verb = "holds" if len(repeats) == 1 else "hold"
        text += f" {fmt.count(len(repeats), 'image')} {verb} {SAME} another one: {some_of(repeats)}."
    return text.strip()


def _table(quality: Sequence[Any]) -> SectionTable:
    """List the quality of every image, outliers and large distances first."""
    ordered = sorted(quality, key=lambda image: (not image.why, -image.distance))
    listed = ordered[:MOST_ROWS]
    columns = {
        "Image": [fmt.file_names(image.name) for image in listed],
        "Missing": [fmt.percent(image.share_missing) for image in listed],
        "Zeros": [fmt.percent(image.share_zero) for image in listed],
        "Distance": [fmt.fixed(image.distance) for image in listed],
        "Correlation": [fmt.fixed(image.correlation) for image in listed],
        "Unusual": [image.why or "–" for image in listed],
    }
    more = f" The first {MOST_ROWS:,} of {len(quality):,} are listed." if len(quality) > MOST_ROWS else ""
    caption = (
        "The images inside the mask. Missing: NaN or infinite. Distance: from the median image, where 1 is "
        "usual. Correlation: with the mean of the other images. Unusual: more than 4 robust standard "
        f"deviations from the median.{more}"
    )
    return table_of(caption, columns, id="quality-table", text=("Unusual",), long=True)


def _mask_chart(inputs: ReportInputs, view: VolumeView) -> Chart:
    model = inputs.model
    brain = view.background if view.background_name == TEMPLATE else None
    whole = None if inputs.mean_img is None else whole_grid(inputs.mean_img)
    inner = mean_grid(view.index, mean_image(model)[view.start : view.stop])
    grey, behind, through = next(
        (
            known
            for known in (
                (whole, "on the mean image", "the mean image"),
                (inner, "on the mean of the images inside it", "the mean image"),
                (brain, f"on the {TEMPLATE}", "the template"),
            )
            if known[0] is not None
        ),
        (None, "alone: there is no mean image", "the mask"),
    )
    corners = _box(model.space_)
    dashed = "" if brain is None else f" Dashed: the brain of the {TEMPLATE}."
    box = "" if corners is None else " Thin frame: the box of the images."
    return chart(
        plot_mask(view.index, grey, brain, corners),
        alt=f"Six slices through {through} with the outline of the mask: {model.mask_report_}.",
        caption=f"The mask (orange) {behind}.{dashed}{box}",
        photo=True,
    )


def _box(space: Any) -> FloatArray | None:
    """Return the lowest and the highest corner of a volume in mm, shape (2, 3); None for other images."""
    if space.kind != "volume":
        return None
    corners = np.indices((2, 2, 2)).reshape(3, -1).T * np.array(space.labels.shape) - 0.5
    places = corners @ space.affine[:3, :3].T + space.affine[:3, 3]
    return np.array([places.min(axis=0), places.max(axis=0)])


def plot_mask(
    index: Grid, grey: Grid | None = None, brain: Grid | None = None, box: FloatArray | None = None
) -> Figure:
    """Draw three slices through the middle of the mask and three more axial ones, with its outline.

    `index` is not 0 inside the mask, and `brain` inside the brain of the template, which is outlined, too.
    `grey` holds the grey values behind them, 0 where there are none. `box` holds the lowest and the highest
    corner of the images in mm, shape (2, 3).
    """
    inside = np.argwhere(index.values > 0)
    middle = index.origin + inside.mean(axis=0).round() * index.spacing
    low, high = inside.min(axis=0)[2], inside.max(axis=0)[2]
    heights = [index.origin[2] + (low + share * (high - low)) * index.spacing[2] for share in HEIGHTS]
    slices = [(plane, middle) for plane in PLANES]
    slices += [(PLANES[2], np.array([*middle[:2], height])) for height in heights]
    with new_figure(7.5, 5.4) as figure:
        for axes, (plane, position) in zip(figure.subplots(2, 3).flat, slices, strict=True):
            fixed, across, up = plane
            axes.set_axis_off()
            axes.set_aspect("equal")
            if grey is not None:
                grey.draw(axes, plane, position, cmap="gray", vmin=0, vmax=255)
            _outline(axes, index, plane, position, OF_MASK, TINT)
            if brain is not None:
                _outline(axes, brain, plane, position, OF_BRAIN)
            if box is not None:
                (left, right), (bottom, top) = box[:, across], box[:, up]
                corners = [left, right, right, left, left], [bottom, bottom, top, top, bottom]
                axes.plot(*corners, color="#888888", linewidth=0.8)
            place = f"{'xyz'[fixed]} = {fmt.fixed(position[fixed], 0)} mm"
            axes.text(0.03, 0.96, place, transform=axes.transAxes, **WRITING)
    return figure


def _outline(
    axes: Axes, grid: Grid, plane: Plane, position: FloatArray, style: Mapping[str, Any], tint: float = 0.0
) -> None:
    """Draw the edge of the nonzero voxels, and tint the inside."""
    inside = grid.slice(plane, position) > 0
    if not inside.any():
        return
    # a margin, so that the outline is closed at the edges
    values = np.pad(inside.astype(float), 1)
    places = [
        grid.origin[axis] + grid.spacing[axis] * np.arange(-1.0, grid.values.shape[axis] + 1)
        for axis in plane[1:]
    ]
    axes.contour(*places, values, [0.5], **style)
    if tint:
        axes.contourf(*places, values, [0.5, 1.5], colors=[style["colors"]], alpha=tint)
