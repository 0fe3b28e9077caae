"""Many samples: the time of a fit beside randomised PCA, and passes over the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import FITS, Options
from benchmarks.peers import make_peer, make_spcatv
from benchmarks.worker import Entrant, Worker, interleave
from spcatv.structure import grid

TITLE = "Many samples of 20,000 voxels, three components, two threads"
SIZES, QUICK_SIZES = (2_000, 8_000, 20_000, 40_000), (2_000,)
N_VOXELS = 20_000
PEER = "PCA randomized"


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Fit ever more samples of one simulated volume."""
    mask = ellipsoid_mask(N_VOXELS)
    for n_samples in QUICK_SIZES if options.quick else SIZES:
        case = Case("", options.scratch / "samples.npy", (n_samples, N_VOXELS), grid(mask), mask)
        np.save(case.path, volume_cohort(n_samples, mask))
        with Worker(make_spcatv, case, threads=2) as ours, Worker(make_peer, case, PEER, threads=2) as theirs:
            entrants = [Entrant(name, ours, (setting,)) for name, setting in FITS.items()]
            entrants.append(Entrant(PEER, theirs))
            interleave(entrants, options.repeats)
        for entrant in entrants:
            first = entrant.runs[0]
            yield {
                "samples": f"{n_samples:,}",
                "fit": entrant.name,
                "seconds": entrant.seconds,
                "PCA / this": entrants[-1].seconds / entrant.seconds,
                "us per sample": 1e6 * entrant.seconds / n_samples,
                "passes": first.get("passes"),
                "peak": first["peak"],
            }
        case.path.unlink()
