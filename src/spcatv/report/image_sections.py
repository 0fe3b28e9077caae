"""Sections about images: the mask on the mean image, the quality of every image, and time courses of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import signal

from spcatv._util.naming import some_of
from spcatv._util.types import FloatArray, IntArray
from spcatv.report import formatting as fmt
from spcatv.report.brain_views import (
    PLANES,
    TEMPLATE,
    Grid,
    Plane,
    VolumeView,
    whole_grid,
)
from spcatv.report.drawing import LINE_COLOURS, new_figure
from spcatv.report.inputs import ReportInputs
from spcatv.report.sections import LONG_TABLE, MOST_ROWS, Chart, Section, SectionTable, chart, component_table
from spcatv.report.views import View

# axial slices at these shares of the height of the mask: the first one goes through the eyes
HEIGHTS = (0.2, 0.35, 0.8)
OF_MASK: dict[str, Any] = {"colors": LINE_COLOURS[1], "linewidths": 1.4}
OF_BRAIN: dict[str, Any] = {"colors": LINE_COLOURS[4], "linewidths": 1.0, "linestyles": "dashed"}
TINT = 0.2  # a mask that fills the box has no edge inside of it
# readable on a light and on a dark page
WRITING: dict[str, Any] = {
    "color": "white",
    "va": "top",
    "fontsize": 9,
    "bbox": {"facecolor": "black", "edgecolor": "none", "pad": 1.5},
}
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
        Section(charts=[_mask_chart(inputs, view)])
        for view in views
        if isinstance(view, VolumeView) and view.anatomical
    ]
    if quality:
        n_images = fmt.count(len(quality), "image")
        unusual = [f"{fmt.file_names(image.name)} ({image.why})" for image in quality if image.why]
        verb = "is" if len(unusual) == 1 else "are"
        sentences.append(
            f"{len(unusual)} of {n_images} {verb} unusual: {some_of(unusual)}."
            if unusual
            else "No image is unusual."
        )
        summary = f"Quality of {n_images}"
        parts.append(Section(table=_table(quality), summary=summary, is_open=len(quality) <= LONG_TABLE))
    return Section("Images and mask", " ".join(sentences), parts=parts, id="quality")


def _table(quality: Sequence[Any]) -> SectionTable:
    """List the quality of every image, outliers and large distances first."""
    listed = sorted(quality, key=lambda image: (not image.why, -image.distance))[:MOST_ROWS]
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
    return SectionTable(caption, columns, id="quality-table", text=("Unusual",), long=True)


def _mask_chart(inputs: ReportInputs, view: VolumeView) -> Chart:
    """Draw the mask on the mean image, or on the background of the view."""
    brain = view.background if view.background_name == TEMPLATE else None
    grey, name = (None if inputs.mean_img is None else whole_grid(inputs.mean_img)), "mean image"
    if grey is None:
        grey, name = view.background, view.background_name
    behind = "alone: there is no mean image" if grey is None else f"on the {name}"
    dashed = "" if brain is None else f" Dashed: the brain of the {TEMPLATE}."
    return chart(
        plot_mask(view.index, grey, brain),
        alt=f"Six slices with the outline of the mask, {behind}: {inputs.model.mask_report_}.",
        caption=f"The mask (orange) {behind}.{dashed}",
        photo=True,
    )


def plot_mask(index: Grid, grey: Grid | None = None, brain: Grid | None = None) -> Figure:
    """Draw six slices with the outlines of the mask (`index`) and of the brain of the template.

    `grey` holds the grey values behind them.
    """
    inside = np.argwhere(index.values > 0)
    middle = index.origin + inside.mean(axis=0).round() * index.spacing
    low, high = inside.min(axis=0)[2], inside.max(axis=0)[2]
    heights = [index.origin[2] + (low + share * (high - low)) * index.spacing[2] for share in HEIGHTS]
    slices = [(plane, middle) for plane in PLANES]
    slices += [(PLANES[2], np.array([*middle[:2], height])) for height in heights]
    with new_figure(5.2, 3.8) as figure:
        for axes, (plane, position) in zip(figure.subplots(2, 3).flat, slices, strict=True):
            axes.set_axis_off()
            axes.set_aspect("equal")
            if grey is not None:
                grey.draw(axes, plane, position, cmap="gray", vmin=0, vmax=255)
            _outline(axes, index, plane, position, OF_MASK, TINT)
            if brain is not None:
                _outline(axes, brain, plane, position, OF_BRAIN)
            place = f"{'xyz'[plane[0]]} = {fmt.fixed(position[plane[0]], 0)} mm"
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


def long_runs(names: Sequence[str]) -> dict[str, IntArray]:
    """Return the samples (``file[k]``) of files with enough volumes for a spectrum, ordered by volume."""
    found: dict[str, list[tuple[int, int]]] = {}
    for sample, name in enumerate(names):
        if place := VOLUME.search(name):
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
    found = long_runs(inputs.scores.names)
    if not found:
        return None
    step = inputs.model.preparation_.t_r
    unit, spacing = "Hz", f"A volume was taken every {step:g} s." if step is not None else ""
    if step is None:
        unit = "cycles per volume"
        spacing = "The time between volumes is not known, so that frequencies are in cycles per volume."
    series = [inputs.scores.values[samples] for samples in found.values()]
    frequencies, power = spectra(series, step or 1.0)
    mean = power.mean(axis=0)
    peaks = [fmt.number(frequencies[np.argmax(row)], 2) for row in mean]
    columns = {f"Peak ({unit})": peaks}
    if step is not None and frequencies[-1] > SLOW:
        slow = mean[:, frequencies <= SLOW].sum(axis=1) / np.maximum(mean.sum(axis=1), 1e-300)
        columns[f"Power up to {SLOW:g} Hz"] = [fmt.percent(share, 2) for share in slow]
    lengths = " to ".join(f"{n:,}" for n in dict.fromkeys((min(map(len, series)), max(map(len, series)))))
    text = (
        f"{fmt.count(len(series), 'run')} of {lengths} volumes. {spacing} The volumes of a file are "
        "taken as a series in time. Spectra are by Welch’s method, without linear trends, averaged over runs."
    )
    left_out = max(0, len(found) - MOST_RUNS)
    others = f" {fmt.count(left_out, 'more run')} not drawn." if left_out else ""
    labels = run_labels(list(found)[:MOST_RUNS])
    charts = [
        chart(
            plot_time_course([s[:, k] for s in series], labels, step, frequencies, power[:, k], k),
            alt=f"Time courses of component {k + 1} in {fmt.count(len(found), 'run')}, and its power "
            f"spectrum, which peaks at {peak} {unit}.",
            caption=f"Component {k + 1}: scores over time, one line per run; below, the power spectrum "
            f"(thick: mean over runs).{others}",
        )
        for k, peak in enumerate(peaks)
    ]
    table = component_table("Scores over time", columns, id="time-table")
    return Section("Time courses", text, table=table, parts=[Section(charts=charts)], id="time")


def run_labels(names: Sequence[str]) -> list[str]:
    """Shorten names of runs to the words, between underscores, that not all of them have."""
    words = [fmt.file_names(name).split("_") for name in names]
    common = set.intersection(*map(set, words))
    labels = [" ".join(word for word in own if word not in common) or "_".join(own) for own in words]
    return [fmt.shorten(label, 18) for label in labels]


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
        upper.set(
            xlabel="volume" if step is None else "time (s)", title=f"Scores on component {component + 1}"
        )
        lower.plot(frequencies, power.mean(axis=0), color="black", linewidth=1.6)
        unit = "cycles per volume" if step is None else "Hz"
        lower.set(xlabel=f"frequency ({unit})", ylabel="share of the power", xlim=(0, frequencies[-1]))
        lower.set_ylim(bottom=0)
        lower.set_yticks([])
    return figure
