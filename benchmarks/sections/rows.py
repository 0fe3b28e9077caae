"""Many samples: the time of a fit against that of randomised PCA, and passes over the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import Options
from benchmarks.peers import make_sklearn, make_spcatv
from benchmarks.tables import each, markdown, seconds, times
from benchmarks.worker import Entrant, Worker, interleave
from spcatv.structure import grid

TITLE = "Many samples"
THREADS = 2
FULL, QUICK = (2_000, 8_000, 20_000, 40_000), (1_500,)
N_COLUMNS, QUICK_COLUMNS = 20_000, 1_000
SETTINGS: dict[str, dict[str, Any]] = {
    "90 % zeros": {"alpha": None, "sparsity": 0.9, "penalty_units": "relative"},
    "alpha 0.1": {"alpha": 0.1, "penalty_units": "relative"},
}
# Passes beside those of the alternation: column statistics, three of the sketch, the global signal. In a file
# they are three: the first pass of the sketch finds all of this.
SHARED_PASSES = 5


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Fit ever more samples of one simulated volume."""
    sizes = QUICK if options.quick else FULL
    n_columns = QUICK_COLUMNS if options.quick else N_COLUMNS
    points = []
    for n_rows in sizes:
        points.append(measure(n_rows, n_columns, options))
        yield {"threads": THREADS, "columns": n_columns, "sizes": points}


def measure(n_rows: int, n_columns: int, options: Options) -> dict[str, Any]:
    """All methods on N rows, in turn."""
    mask = ellipsoid_mask(n_columns)
    path = options.scratch / "rows.npy"
    np.save(path, volume_cohort(n_rows, mask))
    case = Case("rows", "", path, (n_rows, n_columns), grid(mask), grid((6, 6, 6)), mask)
    with (
        Worker(make_spcatv, case, threads=THREADS) as ours,
        Worker(make_sklearn, case, "PCA", {"svd_solver": "randomized"}, threads=THREADS) as theirs,
    ):
        fits = [Entrant(name, ours, (setting,)) for name, setting in SETTINGS.items()]
        pca = Entrant("randomised PCA", theirs)
        interleave([*fits, pca], options.repeats)
    path.unlink()
    return {
        "N": n_rows,
        "pca": pca.seconds,
        "fits": [
            {"name": fit.name, "seconds": fit.seconds}
            | {name: fit.runs[0][name] for name in ("n_passes", "n_inner_iter", "converged", "peak")}
            for fit in fits
        ],
    }


def table(result: dict[str, Any]) -> str:
    """One row per number of samples and setting."""
    rows = [
        [
            f"{point['N']:,}",
            fit["name"],
            seconds(fit["seconds"]),
            seconds(point["pca"]),
            times(point["pca"] / fit["seconds"]),
            f"{1e6 * fit['seconds'] / point['N']:.0f}",
            f"{sum(fit['n_passes']) + SHARED_PASSES} ({each(fit['n_passes'], 'd')} + {SHARED_PASSES})",
            f"{fit['peak']:.2f}",
        ]
        for point in result["sizes"]
        for fit in point["fits"]
    ]
    header = [
        *("N", "setting", "SPCATV", "randomised PCA", "PCA / SPCATV", "microseconds per sample"),
        *("passes over X", "memory beyond X, in X"),
    ]
    return (
        f"{result['columns']:,} voxels, K = 3, relative gap 1e-6, float32, {result['threads']} threads for "
        f'both; scikit-learn\'s PCA(svd_solver="randomized").\n\n{markdown(header, rows)}'
    )
