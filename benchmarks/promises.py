"""Promises about speed and memory, with the figures of a run."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any, NamedTuple

from benchmarks.options import TOL
from benchmarks.sections import fit, path, startup
from benchmarks.tables import cell

Row = dict[str, Any]
Results = dict[str, list[Row]]
# How a figure is compared with a bound, and which of several figures is the worst.
COMPARISONS = {"at least": (operator.ge, min), "at most": (operator.le, max)}


class Promise(NamedTuple):
    """A bound on a column of the rows of a section whose texts begin as wanted."""

    what: str
    section: str
    column: str
    comparison: str
    bound: float
    wanted: Mapping[str, str] = {}


def verdict(promise: Promise, results: Results, *, quick: bool) -> Row:
    """Compare the worst figure with the bound; a quick run is not judged."""
    reached, worst = COMPARISONS[promise.comparison]
    figures = [
        (worst(value) if isinstance(value, list) else value, cell(row, promise.column))
        for row in results.get(promise.section, ())
        if (value := row.get(promise.column)) not in (None, [])
        and all(row[key].startswith(text) for key, text in promise.wanted.items())
    ]
    found = {"what": promise.what, "bound": f"{promise.comparison} {promise.bound:g}"}
    if not figures:
        return found | {"measured": None, "verdict": "not measured"}
    value, text = worst(figures)
    judged = "not judged" if quick else "pass" if reached(value, promise.bound) else "miss"
    return found | {"measured": str(text), "verdict": judged}


def _against(peer: str, bound: float) -> Promise:
    wanted = {"data": "ellipsoid volume", "method": peer}
    return Promise(f"K = 3 on 83 x 63,966: times of {peer}", "fit", "ratio", "at least", bound, wanted)


def _step_against(problem: str, solver: str, bound: float) -> Promise:
    wanted = {"problem": problem, "solver": solver, "gap": "1e-05"}
    return Promise(f"v-step, {problem}: times of {solver}", "vstep", "ratio", "at least", bound, wanted)


def _seconds(data: str, bound: float, method: str = fit.ONE_THREAD) -> Promise:
    wanted = {"data": data, "method": method}
    return Promise(f"K = 3 on {data}, {method}: seconds", "fit", "seconds", "at most", bound, wanted)


LARGEST_BOX = {"structure": "box", "features": "2,000,376", "dtype": "float32"}
LARGEST_FIT = {"data": "two icospheres, 100", "method": fit.OURS}
FIRST_FIT, IMPORTS = {"process": startup.FIRST_FIT}, {"process": startup.BEYOND}
PROMISES = (
    _against("SparsePCA", 100),
    _against("MiniBatchSparsePCA", 15),
    _against("PCA full", 1),
    _against("PCA ARPACK", 1 / 8),
    _step_against("masked volume", "CONESTA", 50),
    _step_against("full box", "nilearn", 100),
    _seconds("real grey-matter", 1.0),
    _seconds("two icospheres, 100", 2.0),
    _seconds("ellipsoid volume", 10.0, fit.PRECISE),
    Promise("joint fits, in fits by deflation", "fit", fit.COMPARED, "at most", 1.3, {"data": fit.ALL}),
    Promise("gaps of fits, judged from outside", "fit", "judged", "at most", 1.2 * TOL),
    Promise("gaps in float64", "fit", "gaps", "at most", 1e-9, {"method": fit.PRECISE}),
    Promise("peak memory beyond X, 100 x 327,684, in X", "fit", "peak", "at most", 0.5, LARGEST_FIT),
    Promise("kernel on 2 M voxels, share of a copy", "kernel", "share", "at least", 0.6, LARGEST_BOX),
    Promise("first fit in a fresh process: seconds", "startup", "seconds", "at most", 3.0, FIRST_FIT),
    Promise("import beyond NumPy and scikit-learn: seconds", "startup", "seconds", "at most", 0.5, IMPORTS),
    Promise("path of 20 settings, in fits", "path", "single fits", "at most", 6.0, {"path": path.ALPHAS}),
    Promise("a file larger than memory: speed of plain passes", "disk", "share", "at least", 0.7),
    Promise("fits with the bits of one thread", "threads", "same bits", "at least", 1),
)


def verdicts(results: Results, *, quick: bool) -> list[Row]:
    """Return every promise with its figure and verdict."""
    return [verdict(promise, results, quick=quick) for promise in PROMISES]
