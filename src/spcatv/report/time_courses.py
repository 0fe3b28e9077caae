"""Time courses and power spectra of the scores, for samples that are the volumes of runs."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

    Returns the frequencies (F,) and the power (n_series, K, F). A `step` between volumes in seconds gives a
    frequency axis in Hz, 1 gives cycles per volume. Segments are as long as the shortest series, and at most
    256 volumes. Linear trends are removed; the power of constant scores is zero.
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
