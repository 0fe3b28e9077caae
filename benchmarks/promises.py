"""Promises about speed and memory, with the figures of a run."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from benchmarks.machine import last_cache
from benchmarks.options import TOL
from benchmarks.sections import fit, path, startup
from benchmarks.tables import seconds

Row = dict[str, Any]
Results = dict[str, list[Row]]
# The figure as text, and whether the promise is kept.
Verdict = tuple[str, bool]


class NotMeasuredError(Exception):
    """A promise without a figure in the results; the message says why."""


def rows_of(results: Results, section: str, **wanted: str) -> list[Row]:
    """Return the measured rows of a section whose texts begin as wanted."""
    if section not in results:
        raise NotMeasuredError(f"section {section} was not run")
    found = [row for row in results[section] if all(row[k].startswith(v) for k, v in wanted.items())]
    found = [row for row in found if row.get("seconds") is not None or row.get("ratio") is not None]
    if not found:
        raise NotMeasuredError(f"not among the rows of {section}: {', '.join(wanted.values())}")
    return found


def certified(row: Row) -> bool:
    """Return whether the fit and the judge, to its own precision, find all gaps within the tolerance."""
    return max(row["gaps"]) <= TOL and max(row["judged"] or [0.0]) <= 1.2 * TOL


def fit_against(peer: str, least: float) -> Callable[[Results], Verdict]:
    """Compare with a peer on the volume."""

    def check(results: Results) -> Verdict:
        ours = rows_of(results, "fit", data="ellipsoid", method=fit.OURS)[0]
        row = rows_of(results, "fit", data="ellipsoid", method=peer)[0]
        bound = "> " if row["seconds"] is None else ""
        return f"{bound}{row['ratio']:.3g}x", row["ratio"] >= least and certified(ours)

    return check


def step_against(problem: str, solver: str, least: float) -> Callable[[Results], Verdict]:
    """Compare with another solver of the loading problem."""

    def check(results: Results) -> Verdict:
        row = rows_of(results, "vstep", problem=problem, solver=solver)[0]
        if row["ratio"] is None:
            raise NotMeasuredError("the gap was not reached")
        return f"{row['ratio']:.3g}x", row["ratio"] >= least

    return check


def fit_under(data: str, most: float) -> Callable[[Results], Verdict]:
    """Check the seconds of a fit on one thread."""

    def check(results: Results) -> Verdict:
        row = rows_of(results, "fit", data=data, method=fit.ONE_THREAD)[0]
        text = f"{seconds(row['seconds'])} (first fit: {seconds(row['first'])})"
        return text, row["seconds"] < most and max(row["gaps"]) <= TOL

    return check


def kernel_share(results: Results) -> Verdict:
    """Check the bandwidth on the largest box."""
    rows = {row["dtype"]: row for row in rows_of(results, "kernel", structure="box")}  # the last ones
    text = ", ".join(f"{row['share']:.0%} ({dtype})" for dtype, row in rows.items())
    return text, rows["float32"]["share"] >= 0.6


def kernel_growth(results: Results) -> Verdict:
    """Check the growth of the time per voxel, without the step from the last cache to memory."""
    boxes = [r for r in rows_of(results, "kernel", structure="box") if r["dtype"] == "float32"]
    cache = last_cache() / 1e6
    steps = [
        b["ns per feature"] / a["ns per feature"]
        for a, b in pairwise(boxes)
        if a["features"] >= 60_000 and not a["MB of arrays"] <= cache < b["MB of arrays"]
    ]
    if not steps:
        raise NotMeasuredError("too few boxes")
    return f"{math.prod(steps):.2f} times linear", math.prod(steps) <= 1.5


def memory(results: Results) -> Verdict:
    """Check the peak memory of fits of at least 100 samples."""
    rows = rows_of(results, "fit", method=fit.OURS)
    tall = [r for r in rows if r["method"] == fit.OURS and int(re.findall(r"(\d+) x", r["data"])[0]) >= 100]
    if not tall:
        raise NotMeasuredError("no data of 100 samples")
    worst = max(tall, key=lambda row: row["peak"])
    return f"{worst['peak']:.2f} times X at most ({worst['data']})", worst["peak"] < 0.5


def first_fit(results: Results) -> Verdict:
    """Check the slowest first fit, whole process."""
    slowest = max(rows_of(results, "startup", process=startup.FIRST_FIT), key=lambda row: row["seconds"])
    return seconds(slowest["seconds"]), slowest["seconds"] < 3.0


def import_time(results: Results) -> Verdict:
    """Check the import beyond that of NumPy and scikit-learn."""
    ours, theirs = (
        rows_of(results, "startup", process=name)[0]["seconds"] for name in (startup.OURS, startup.LIBRARIES)
    )
    return f"{ours - theirs:+.2f} s", ours - theirs < 0.5


def precise(results: Results) -> Verdict:
    """Check a fit in float64 to a gap of 1e-9."""
    row = rows_of(results, "fit", method=fit.PRECISE)[0]
    worst = max(row["gaps"])
    return f"{worst:.1e} in {seconds(row['seconds'])}", worst <= 1e-9 and row["seconds"] < 10.0


def path_cost(results: Results) -> Verdict:
    """Check the cost of the path of alphas."""
    row = rows_of(results, "path", path=path.ALPHAS)[0]
    return f"{row['single fits']:.1f}", row["single fits"] <= 6.0 and row["largest gap"] <= TOL


def larger_than_memory(results: Results) -> Verdict:
    """Check fits of a file against plain passes."""
    rows = rows_of(results, "disk")
    text = ", ".join(f"{row['share']:.0%} ({row['fit']})" for row in rows)
    return text, min(row["share"] for row in rows) >= 0.7


def same_bits(results: Results) -> Verdict:
    """Check that the number of threads changes no bit."""
    rows = rows_of(results, "threads")
    return f"{sum(row['same bits'] for row in rows)} of {len(rows)} fits", all(r["same bits"] for r in rows)


PROMISES: tuple[tuple[str, str, Callable[[Results], Verdict]], ...] = (
    ("K = 3 on 83 x 63,966, against SparsePCA", "100x faster", fit_against("SparsePCA", 100)),
    ("same, against MiniBatchSparsePCA", "15x faster", fit_against("MiniBatchSparsePCA", 15)),
    ("same, against PCA, full SVD", "faster", fit_against("PCA full", 1)),
    ("same, against PCA, ARPACK", "at most 8x slower", fit_against("PCA ARPACK", 1 / 8)),
    ("v-step to 1e-5, against CONESTA", "50x faster", step_against("masked volume", "CONESTA", 50)),
    ("v-step to 1e-5, against nilearn", "100x faster", step_against("full box,", "nilearn", 100)),
    ("K = 3 on 306 x 63,982 real maps, one thread", "under 1 s", fit_under("real grey-matter", 1.0)),
    ("K = 3 on 327,684 vertices, N = 100, one thread", "under 2 s", fit_under("two icospheres, 100", 2.0)),
    ("kernel on the largest box, share of the copy bandwidth", "60 %", kernel_share),
    ("growth of an iteration, 64 k to 2 M voxels", "linear within 1.5x", kernel_growth),
    ("peak memory beyond X, N >= 100", "under 0.5 times X", memory),
    ("first fit in a fresh process", "under 3 s", first_fit),
    ("import beyond NumPy and scikit-learn", "under 0.5 s", import_time),
    ("relative gap of 1e-9 in float64, 83 x 63,966", "reached, under 10 s", precise),
    ("a path of 20 settings", "at most 6 single fits", path_cost),
    ("a file larger than memory, against plain passes", "70 % of the speed", larger_than_memory),
    ("fits on several threads", "the bits of one thread", same_bits),
)


def verdicts(results: Results, *, quick: bool) -> list[Row]:
    """Return every promise with its figure and verdict; a quick run is not judged."""
    return list(_verdicts(results, quick))


def _verdicts(results: Results, quick: bool) -> Iterator[Row]:
    for what, least, check in PROMISES:
        try:
            figure, passed = check(results)
            verdict = "not judged" if quick else "pass" if passed else "miss"
        except NotMeasuredError as reason:
            figure, verdict = str(reason), "not measured"
        yield {"what": what, "at least": least, "measured": figure, "verdict": verdict}
