"""Promises about speed and memory, with the figures of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.options import TOL
from benchmarks.sections import fit, path, startup
from benchmarks.tables import cell

Row = dict[str, Any]
Results = dict[str, list[Row]]


@dataclass(frozen=True)
class Promise:
    """A bound on a column of the rows of a section whose texts begin as wanted."""

    what: str
    section: str
    column: str
    at_least: float | None = None
    at_most: float | None = None
    wanted: dict[str, str] | None = None
    counts: Callable[[Row], bool] = bool

    def figures(self, results: Results) -> list[tuple[float, str]]:
        """Return the figures of the rows, and how tables show them."""
        wanted = (self.wanted or {}).items()
        rows = [
            row
            for row in results.get(self.section, ())
            if all(row[name].startswith(text) for name, text in wanted) and self.counts(row)
        ]
        values = [row[self.column] for row in rows]
        worst = [max(value, default=None) if isinstance(value, list) else value for value in values]
        return [
            (value, str(cell(row, self.column)))
            for value, row in zip(worst, rows, strict=True)
            if value is not None
        ]

    def verdict(self, results: Results, *, quick: bool) -> Row:
        """Compare the worst figure with the bound; a quick run is not judged."""
        upper = self.at_least is None
        bound = f"at most {self.at_most:g}" if upper else f"at least {self.at_least:g}"
        row: Row = {"what": self.what, "bound": bound, "measured": None, "verdict": "not measured"}
        if figures := self.figures(results):
            value, row["measured"] = max(figures) if upper else min(figures)
            kept = value <= self.at_most if upper else value >= self.at_least
            row["verdict"] = "not judged" if quick else "pass" if kept else "miss"
        return row


def _against(peer: str, least: float) -> Promise:
    wanted = {"data": "ellipsoid volume", "method": peer}
    return Promise(f"K = 3 on 83 x 63,966: times of {peer}", "fit", "ratio", least, wanted=wanted)


def _step_against(problem: str, solver: str, least: float) -> Promise:
    wanted = {"problem": problem, "solver": solver, "gap": "1e-05"}
    return Promise(f"v-step to 1e-5, {problem}: times of {solver}", "vstep", "ratio", least, wanted=wanted)


def _fit_under(data: str, most: float, method: str = fit.ONE_THREAD) -> Promise:
    wanted = {"data": data, "method": method}
    return Promise(f"K = 3 on {data}, {method}: seconds", "fit", "seconds", at_most=most, wanted=wanted)


PROMISES = (
    _against("SparsePCA", 100),
    _against("MiniBatchSparsePCA", 15),
    _against("PCA full", 1),
    _against("PCA ARPACK", 1 / 8),
    _step_against("masked volume", "CONESTA", 50),
    _step_against("full box", "nilearn", 100),
    _fit_under("real grey-matter", 1.0),
    _fit_under("two icospheres, 100", 2.0),
    _fit_under("ellipsoid volume", 10.0, fit.PRECISE),
    Promise(
        "gaps of fits, judged from outside", "fit", "judged", at_most=1.2 * TOL, wanted={"method": fit.OURS}
    ),
    Promise("gaps of fits in float64", "fit", "gaps", at_most=1e-9, wanted={"method": fit.PRECISE}),
    Promise(
        "peak memory beyond X, N >= 100, as a multiple of X",
        *("fit", "peak"),
        at_most=0.5,
        counts=lambda row: row["method"] == fit.OURS and row["samples"] >= 100,
    ),
    Promise(
        "kernel on 2 M voxels, share of the copy bandwidth",
        *("kernel", "share", 0.6),
        wanted={"structure": "box", "features": "2,000,376", "dtype": "float32"},
    ),
    Promise(
        "first fit in a fresh process: seconds",
        *("startup", "seconds"),
        at_most=3.0,
        wanted={"process": startup.FIRST_FIT},
    ),
    Promise(
        "import beyond NumPy and scikit-learn: seconds",
        *("startup", "seconds"),
        at_most=0.5,
        wanted={"process": startup.BEYOND},
    ),
    Promise(
        "a path of 20 settings, in single fits",
        *("path", "single fits"),
        at_most=6.0,
        wanted={"path": path.ALPHAS},
    ),
    Promise("a file larger than memory: speed of plain passes", "disk", "share", 0.7),
    Promise("fits with the bits of one thread", "threads", "same bits", 1),
)


def verdicts(results: Results, *, quick: bool) -> list[Row]:
    """Return every promise with its figure and verdict."""
    return [promise.verdict(results, quick=quick) for promise in PROMISES]
