"""Time courses and power spectra of the scores, for samples that are the volumes of runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import signal

from spcatv._util.bids import entity_columns
from spcatv._util.types import FloatArray, IntArray
from spcatv.report import formatting as fmt
from spcatv.report.figures import LINE_COLOURS, new_figure, shortened
from spcatv.report.inputs import ReportInputs
from spcatv.report.sections import Section, chart, component_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEWEST_VOLUMES = 16  # of a run that has a spectrum
MOST_RUNS = 6  # whose time courses are drawn
LONGEST_SEGMENT = 256  # of Welch's method, in volumes
SLOW = 0.1  # Hz: haemodynamic responses are slower
VOLUME = re.compile(r"\[(\d+)\]$")


@dataclass(frozen=True, eq=False)
class RunSamples:
    """Samples of one file, in the order of its volumes."""

    name: str
    samples: IntArray


def runs(names: Sequence[str]) -> tuple[RunSamples, ...]:
    """Return the files with enough volumes (samples named ``file[k]``) for a spectrum."""
    found: dict[str, list[tuple[int, int]]] = {}
    for sample, name in enumerate(names):
        place = VOLUME.search(name)
        if place is not None:
            found.setdefault(name[: place.start()], []).append((int(place[1]), sample))
    return tuple(
        RunSamples(name, np.array([sample for _, sample in sorted(volumes)], dtype=np.int64))
        for name, volumes in found.items()
        if len(volumes) >= FEWEST_VOLUMES
    )


def spectra(scores: FloatArray, found: Sequence[RunSamples], step: float) -> tuple[FloatArray, FloatArray]:
    """Compute power spectra of the scores (n_samples, K) by Welch's method, each with area one.

    Returns the frequencies (F,) and the power (n_runs, K, F). A `step` between volumes in seconds gives a
    frequency axis in Hz, 1 gives cycles per volume. Segments are as long as the shortest run, and at most 256
    volumes. Linear trends are removed; the power of constant scores is zero.
    """
    length = min(LONGEST_SEGMENT, *(len(run.samples) for run in found))
    power = []
    for run in found:
        frequencies, density = signal.welch(
            scores[run.samples].T, fs=1 / step, nperseg=length, detrend=signal.detrend
        )
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
    values = inputs.scores.values
    frequencies, power = spectra(values, found, step or 1.0)
    mean = power.mean(axis=0)
    unit = "cycles per volume" if step is None else "Hz"
    peaks = [frequencies[np.argmax(row)] for row in mean]
    columns = {f"Peak ({unit})": [fmt.number(peak, 2) for peak in peaks]}
    if step is not None and frequencies[-1] > SLOW:
        slow = mean[:, frequencies <= SLOW].sum(axis=1) / np.maximum(mean.sum(axis=1), 1e-300)
        columns[f"Power up to {SLOW:g} Hz"] = [fmt.percent(share, 2) for share in slow]
    columns["Correlation of neighbouring volumes"] = [
        fmt.fixed(_lag_one(values[:, k], found)) for k in range(values.shape[1])
    ]
    spacing = (
        "The time between volumes is not known, so that frequencies are in cycles per volume."
        if step is None
        else f"A volume was taken every {step:g} s."
    )
    text = (
        f"{fmt.count(len(found), 'run')} of {_lengths(found)} volumes. {spacing} The volumes of a file are "
        "taken as a series in time. Spectra are by Welch’s method, without linear trends, averaged over runs."
    )
    left_out = max(0, len(found) - MOST_RUNS)
    others = f" {fmt.count(left_out, 'more run')} not drawn." if left_out else ""
    charts = tuple(
        chart(
            plot_time_course(values[:, k], found, step, frequencies, power[:, k], k),
            alt=f"Time courses of component {k + 1} in {fmt.count(len(found), 'run')}, and its power "
            f"spectrum, which peaks at {fmt.number(peaks[k], 2)} {unit}.",
            caption=f"Component {k + 1}: scores over time, one line per run; below, the power spectrum "
            f"(thick: mean over runs).{others}",
        )
        for k in range(values.shape[1])
    )
    table = component_table("Scores over time", columns, id="time-table")
    return Section("Time courses", text, table=table, parts=(Section(charts=charts),), id="time")


def _lengths(found: Sequence[RunSamples]) -> str:
    lengths = sorted({len(run.samples) for run in found})
    return f"{lengths[0]:,}" if len(lengths) == 1 else f"{lengths[0]:,} to {lengths[-1]:,}"


def _lag_one(values: FloatArray, found: Sequence[RunSamples]) -> float:
    """Correlate the scores of neighbouring volumes within runs; 0 for constant scores."""
    series = [values[run.samples] - values[run.samples].mean() for run in found]
    total = sum(float(line @ line) for line in series)
    return sum(float(line[1:] @ line[:-1]) for line in series) / total if total > 0 else 0.0


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
    values: FloatArray,
    found: Sequence[RunSamples],
    step: float | None,
    frequencies: FloatArray,
    power: FloatArray,
    component: int,
) -> Figure:
    """Draw the scores of one component over time, one line per run, and their power spectrum.

    `values` has shape (n_samples,), `power` (n_runs, F); `step` is in seconds, or None if it is not known.
    """
    drawn = found[:MOST_RUNS]
    with new_figure(4.6, 2.6 + 0.55 * len(drawn)) as figure:
        upper, lower = figure.subplots(2, 1, height_ratios=(0.6 + 0.55 * len(drawn), 1.8))
        height = 1.1 * max(float(np.ptp(values[run.samples])) for run in drawn) or 1.0
        for number, run in enumerate(drawn):
            line, colour = values[run.samples], LINE_COLOURS[number % len(LINE_COLOURS)]
            middle = (line.max() + line.min()) / 2
            times = np.arange(len(line)) * (step or 1.0)
            upper.plot(times, line - middle - number * height, color=colour, linewidth=0.9)
            lower.plot(frequencies, power[number], color=colour, linewidth=0.6, alpha=0.6)
        places = [-number * height for number in range(len(drawn))]
        upper.set_yticks(places, run_labels([run.name for run in drawn]), fontsize=7)
        upper.set_xlabel("volume" if step is None else "time (s)")
        upper.set_title(f"Scores on component {component + 1}")
        lower.plot(frequencies, power.mean(axis=0), color="black", linewidth=1.6)
        lower.set_xlabel("frequency (cycles per volume)" if step is None else "frequency (Hz)")
        lower.set_ylabel("share of the power")
        lower.set_xlim(0, frequencies[-1])
        lower.set_ylim(bottom=0)
        lower.set_yticks([])
    return figure
