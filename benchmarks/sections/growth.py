"""How the time of a fit grows with the columns P, the rows N and the components K."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import Options
from benchmarks.peers import make_spcatv
from benchmarks.tables import each, markdown, seconds
from benchmarks.worker import Entrant, Worker, interleave
from spcatv.structure import grid

TITLE = "Growth with P, N and K"
THREADS = 2
FULL = {
    "P": (16_000, 64_000, 256_000, 1_000_000, 2_000_000),
    "N": (50, 100, 200, 400, 800),
    "K": (1, 2, 3, 5, 10),
}
QUICK = {"P": (1_000, 4_000), "N": (10, 20), "K": (1, 2)}
N_FOR_P, K = 20, 3
# Relative to the data, so that it means the same for every N and leaves every component.
PENALTY = {"alpha": 0.1, "penalty_units": "relative"}


def run(options: Options) -> dict[str, Any]:
    """Grow one of P, N and K at a time."""
    sizes = QUICK if options.quick else FULL
    rows, columns = (20, 4_000) if options.quick else (83, 64_000)
    by_columns = [measure(N_FOR_P, n, (K,), options) for n in sizes["P"]]
    by_rows = [measure(n, columns, (K,), options) for n in sizes["N"]]
    return {
        "threads": THREADS,
        "P": [point for points in by_columns for point in points],
        "N": [point for points in by_rows for point in points],
        "K": measure(rows, columns, sizes["K"], options),
    }


def measure(n_rows: int, n_columns: int, numbers: tuple[int, ...], options: Options) -> list[dict[str, Any]]:
    """Fit a simulated volume of this size with every number of components."""
    mask = ellipsoid_mask(n_columns)
    path = options.scratch / "growth.npy"
    np.save(path, volume_cohort(n_rows, mask))
    case = Case("growth", "", path, (n_rows, n_columns), grid(mask), grid((6, 6, 6)), mask)
    with Worker(make_spcatv, case, threads=THREADS) as worker:
        entrants = [Entrant(str(k), worker, ({"n_components": k, **PENALTY},)) for k in numbers]
        interleave(entrants, options.repeats)
    path.unlink()
    kept = ("n_alternations", "n_inner_iter", "relative_gap", "converged")
    return [
        {"N": n_rows, "P": n_columns, "K": k, "seconds": entrant.seconds}
        | {name: entrant.runs[0][name] for name in kept}
        for k, entrant in zip(numbers, entrants, strict=True)
    ]


def table(result: dict[str, Any]) -> str:
    """One row per size."""
    rows = [
        [
            f"{variable} = {point[variable]:,}",
            f"{point['N']} x {point['P']:,}, K = {point['K']}",
            seconds(point["seconds"]),
            each(point["n_inner_iter"], "d"),
            f"{1e9 * point['seconds'] / (point['P'] * sum(point['n_inner_iter'])):.3g}",
        ]
        for variable in ("P", "N", "K")
        for point in result[variable]
    ]
    header = ["grown", "fit", "seconds", "inner iterations", "ns per voxel and iteration"]
    return f"alpha = 0.1, relative to the data.\n\n{markdown(header, rows)}"
