"""Many samples: the time of a fit beside randomised PCA, and passes over the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import Options
from benchmarks.peers import make_sklearn, make_spcatv
from benchmarks.worker import Entrant, Worker, interleave
from spcatv.structure import grid

TITLE = "Many samples of 20,000 voxels, three components, two threads"
SIZES, QUICK_SIZES = (2_000, 8_000, 20_000, 40_000), (2_000,)
N_COLUMNS = 20_000
PEER = "PCA randomized"
ZEROS = {"alpha": None, "sparsity": 0.9, "penalty_units": "relative"}
SETTINGS: dict[str, dict[str, Any]] = {
    "90 % zeros, joint": ZEROS | {"method": "joint"},
    "90 % zeros, deflation": ZEROS | {"method": "deflation"},
    "alpha 0.1, deflation": {"alpha": 0.1, "penalty_units": "relative"},
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Fit ever more samples of one simulated volume."""
    mask = ellipsoid_mask(N_COLUMNS)
    path = options.scratch / "samples.npy"
    for n_rows in QUICK_SIZES if options.quick else SIZES:
        np.save(path, volume_cohort(n_rows, mask))
        case = Case("samples", "", path, (n_rows, N_COLUMNS), grid(mask), grid((6, 6, 6)), mask)
        with (
            Worker(make_spcatv, case, threads=2) as ours,
            Worker(make_sklearn, case, "PCA", {"svd_solver": "randomized"}, threads=2) as theirs,
        ):
            entrants = [Entrant(name, ours, (setting,)) for name, setting in SETTINGS.items()]
            entrants.append(Entrant(PEER, theirs))
            interleave(entrants, options.repeats)
        for entrant in entrants:
            first = entrant.runs[0]
            yield {
                "samples": f"{n_rows:,}",
                "fit": entrant.name,
                "seconds": entrant.seconds,
                "PCA / this": entrants[-1].seconds / entrant.seconds,
                "us per sample": 1e6 * entrant.seconds / n_rows,
                "passes": first.get("n_passes"),
                "peak": first["peak"],
            }
        path.unlink()
