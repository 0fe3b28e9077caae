"""How far float64 goes: a relative gap of 1e-9 on the paper's size."""

from __future__ import annotations

from typing import Any

from benchmarks.cases import prepare, volume
from benchmarks.options import Options
from benchmarks.peers import make_spcatv
from benchmarks.tables import each, markdown, seconds
from benchmarks.worker import Entrant, Worker, interleave

TITLE = "High precision"
THREADS = 2
TOLERANCES = (1e-6, 1e-7, 1e-8, 1e-9)


def run(options: Options) -> dict[str, Any]:
    """Three components in float64, with smaller and smaller tolerances."""
    case = prepare(volume, options)
    with Worker(make_spcatv, case, "float64", threads=THREADS) as worker:
        entrants = [Entrant(f"{tol:.0e}", worker, ({"tol": tol},)) for tol in TOLERANCES]
        interleave(entrants, options.repeats)
    kept = ("relative_gap", "n_alternations", "n_inner_iter", "converged")
    rows = [
        {"tol": tol, "seconds": entrant.seconds, **{name: entrant.runs[0][name] for name in kept}}
        for tol, entrant in zip(TOLERANCES, entrants, strict=True)
    ]
    return {"threads": THREADS, "title": case.title, "rows": rows}


def table(result: dict[str, Any]) -> str:
    """One row per tolerance."""
    rows = [
        [
            f"{row['tol']:.0e}",
            seconds(row["seconds"]),
            each(row["relative_gap"], ".1e"),
            each(row["n_alternations"], "d"),
            each(row["n_inner_iter"], "d"),
        ]
        for row in result["rows"]
    ]
    header = ["tolerance", "seconds", "relative gaps", "alternations", "inner iterations"]
    return f"K = 3, float64, {result['title']}\n\n{markdown(header, rows)}"
