"""Sections about images: the mask on the mean image, the quality of every image, and time courses of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import signal

from spcatv._util.bids import entity_columns
from spcatv._util.naming import some_of
from spcatv._util.types import FloatArray, IntArray
from spcatv.data.outliers import SCALE
from spcatv.report import formatting as fmt
from spcatv.report.figures import LINE_COLOURS, new_figure, shortened
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
from spcatv.report.sections import LONG_TABLE, Chart, Section, SectionTable, chart, component_table, table_of

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
    "fontsize": 9,
    "bbox": {"facecolor": "black", "edgecolor": "none", "pad": 1.5},
}
TINT = 0.2  # a mask that fills the box has no edge inside of it
OF_BRAIN: dict[str, Any] = {"colors": LINE_COLOURS[4], "linewidths": 1.0, "linestyles": "dashed"}
FEWEST_VOLUMES = 16  # of a run that has a spectrum
MOST_RUNS = 6  # whose time courses are drawn
LONGEST_SEGMENT = 256  # of Welch's method, in volumes
SLOW = 0.1  # Hz: haemodynamic responses are slower
VOLUME = re.compile(r"\[(\d+)\]$")


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

    def named(remark: str) -> list[str]:
        return [fmt.file_names(image.name) for image in quality if remark in image.why]

    texts = []
    outliers = [f"{fmt.file_names(image.name)} ({image.why})" for image in quality if image.outlier]
    if outliers:
        verb = "is" if len(outliers) == 1 else "are"
        n_images = fmt.count(len(quality), "image")
        texts.append(f"{len(outliers)} of {n_images} {verb} unlike the others: {some_of(outliers)}.")
    if scaled := named(SCALE):
        remark = next(image.why for image in quality if SCALE in image.why)
        have = f"{fmt.count(len(scaled), 'image')} {'has' if len(scaled) == 1 else 'have'} a"
        texts.append(
            f"The images have two scales: {have} {remark[remark.index(SCALE) :]}: {some_of(scaled)}."
        )
    if repeats := named(SAME):
        verb = "holds" if len(repeats) == 1 else "hold"
        texts.append(f"{fmt.count(len(repeats), 'image')} {verb} {SAME} another one: {some_of(repeats)}.")
    if not outliers and not scaled:
        texts.insert(0, "No image is unlike the others.")
    return " ".join(texts)


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
    pictures: list[tuple[Grid | None, str, str]] = [
        (whole, "on the mean image", "the mean image"),
        (inner, "on the mean of the images inside it", "the mean image"),
        (brain, f"on the {TEMPLATE}", "the template"),
    ]
    alone = (None, "alone: there is no mean image", "the mask")
    grey, behind, through = next((known for known in pictures if known[0] is not None), alone)
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
    """Draw six slices with the outlines of mask (`index`), brain of the template, and box of the images.

    `grey` holds the grey values behind them, `box` the lowest and the highest corner in mm, shape (2, 3).
    """
    inside = np.argwhere(index.values > 0)
    middle = index.origin + inside.mean(axis=0).round() * index.spacing
    low, high = inside.min(axis=0)[2], inside.max(axis=0)[2]
    heights = [index.origin[2] + (low + share * (high - low)) * index.spacing[2] for share in HEIGHTS]
    slices = [(plane, middle) for plane in PLANES]
    slices += [(PLANES[2], np.array([*middle[:2], height])) for height in heights]
    with new_figure(5.2, 3.8) as figure:
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


def runs(names: Sequence[str]) -> dict[str, IntArray]:
    """Return the samples (``file[k]``) of files with enough volumes for a spectrum, ordered by volume."""
    found: dict[str, list[tuple[int, int]]] = {}
    for sample, name in enumerate(names):
        place = VOLUME.search(name)
        if place is not None:
            found.setdefault(name[: place.start()], []).append((int(place[1]), sample))
    return {
        name: np.array([sample for _, sample in sorted(volumes)], dtype=np.int64)
        for name, volumes in found.items()
        if len(volumes) >= FEWEST_VOLUMES
    }


def spectra(series: Sequence[FloatArray], step: float) -> tuple[FloatArray, FloatArray]:
    """Compute power spectra of series of scores (n_volumes, K) by Welch's method, each with area one.

    Returns the frequencies (F,) and the power (n_series, K, F). The power of constant scores is zero.
    """
    length = min(LONGEST_SEGMENT, *map(len, series))
    power = []
    for scores in series:
        frequencies, density = signal.welch(scores.T, fs=1 / step, nperseg=length, detrend=signal.detrend)
        area = density.sum(axis=1, keepdims=True) * (frequencies[1] - frequencies[0])
        power.append(np.divide(density, area, out=np.zeros_like(density), where=area > 0))
    return frequencies, np.array(power)


def time_courses_section(inputs: ReportInputs) -> Section | None:
    """Create the section about time courses; None if the samples are not volumes of images."""
    if inputs.scores is None or not hasattr(inputs.model, "preparation_"):
        return None
    found = runs(inputs.scores.names)
    if not found:
        return None
    step = inputs.model.preparation_.t_r
    series = [inputs.scores.values[samples] for samples in found.values()]
    n_components = inputs.n_components
    frequencies, power = spectra(series, step or 1.0)
    mean = power.mean(axis=0)
    unit = "cycles per volume" if step is None else "Hz"
    peaks = [frequencies[np.argmax(row)] for row in mean]
    columns = {f"Peak ({unit})": [fmt.number(peak, 2) for peak in peaks]}
    if step is not None and frequencies[-1] > SLOW:
        slow = mean[:, frequencies <= SLOW].sum(axis=1) / np.maximum(mean.sum(axis=1), 1e-300)
        columns[f"Power up to {SLOW:g} Hz"] = [fmt.percent(share, 2) for share in slow]
    columns["Correlation of neighbouring volumes"] = [
        fmt.fixed(_lag_one([scores[:, k] for scores in series])) for k in range(n_components)
    ]
    lengths = " to ".join(f"{n:,}" for n in dict.fromkeys((min(map(len, series)), max(map(len, series)))))
    spacing = (
        "The time between volumes is not known, so that frequencies are in cycles per volume."
        if step is None
        else f"A volume was taken every {step:g} s."
    )
    text = (
        f"{fmt.count(len(series), 'run')} of {lengths} volumes. {spacing} The volumes of a file are "
        "taken as a series in time. Spectra are by Welch’s method, without linear trends, averaged over runs."
    )
    left_out = max(0, len(found) - MOST_RUNS)
    others = f" {fmt.count(left_out, 'more run')} not drawn." if left_out else ""
    labels = run_labels(list(found)[:MOST_RUNS])
    charts = tuple(
        chart(
            plot_time_course([s[:, k] for s in series], labels, step, frequencies, power[:, k], k),
            alt=f"Time courses of component {k + 1} in {fmt.count(len(found), 'run')}, and its power "
            f"spectrum, which peaks at {fmt.number(peaks[k], 2)} {unit}.",
            caption=f"Component {k + 1}: scores over time, one line per run; below, the power spectrum "
            f"(thick: mean over runs).{others}",
        )
        for k in range(n_components)
    )
    table = component_table("Scores over time", columns, id="time-table")
    return Section("Time courses", text, table=table, parts=(Section(charts=charts),), id="time")


def _lag_one(series: Sequence[FloatArray]) -> float:
    """Correlate the scores of neighbouring volumes within runs; 0 for constant scores."""
    centred = [scores - scores.mean() for scores in series]
    total = sum(float(line @ line) for line in centred)
    return sum(float(line[1:] @ line[:-1]) for line in centred) / total if total > 0 else 0.0


def run_labels(names: Sequence[str]) -> list[str]:
    """Shorten names of runs to the entities in which the file names differ, or to the file names."""
    columns = entity_columns(names)
    differing = {key: cells for key, cells in columns.items() if len(set(cells)) > 1}
    labels = [
        " ".join(
            cell if key.endswith("_id") else f"{key}-{cell}"
            for key, cell in zip(differing, cells, strict=True)
            if cell is not None
        )
        for cells in zip(*differing.values(), strict=True)
    ]
    if len(set(labels)) < len(names):
        labels = [fmt.file_names(name) for name in names]
    return [shortened(label, 18) for label in labels]


def plot_time_course(
    series: Sequence[FloatArray],
    labels: Sequence[str],
    step: float | None,
    frequencies: FloatArray,
    power: FloatArray,
    component: int,
) -> Figure:
    """Draw the scores of one component over time, one line per run, and their power spectrum.

    Only the first series, each of shape (n_volumes,), have labels and are drawn; `power` (n_runs, F) is that
    of all. `step` is in seconds, or None if it is not known.
    """
    drawn = series[: len(labels)]
    with new_figure(4.6, 2.6 + 0.55 * len(drawn)) as figure:
        upper, lower = figure.subplots(2, 1, height_ratios=(0.6 + 0.55 * len(drawn), 1.8))
        height = 1.1 * max(float(np.ptp(line)) for line in drawn) or 1.0
        for number, line in enumerate(drawn):
            colour = LINE_COLOURS[number % len(LINE_COLOURS)]
            middle = (line.max() + line.min()) / 2
            times = np.arange(len(line)) * (step or 1.0)
            upper.plot(times, line - middle - number * height, color=colour, linewidth=0.9)
            lower.plot(frequencies, power[number], color=colour, linewidth=0.6, alpha=0.6)
        upper.set_yticks([-number * height for number in range(len(drawn))], labels, fontsize=7)
        upper.set_xlabel("volume" if step is None else "time (s)")
        upper.set_title(f"Scores on component {component + 1}")
        lower.plot(frequencies, power.mean(axis=0), color="black", linewidth=1.6)
        lower.set_xlabel("frequency (cycles per volume)" if step is None else "frequency (Hz)")
        lower.set_ylabel("share of the power")
        lower.set_xlim(0, frequencies[-1])
        lower.set_ylim(bottom=0)
        lower.set_yticks([])
    return figure
