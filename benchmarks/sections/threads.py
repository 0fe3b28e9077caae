"""The same work on 1, 2, 4, ... threads: seconds, and whether the bits are those of one thread."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.data import ellipsoid_mask, volume_cohort
from benchmarks.options import FITS, Options
from benchmarks.peers import make_spcatv
from benchmarks.worker import Entrant, Worker, interleave
from spcatv.structure import grid

TITLE = "Threads: three components of 20 samples of an ellipsoid"
N_SAMPLES, N_VOXELS, QUICK_VOXELS = 20, 1_000_000, 200_000


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Run every setting on all numbers of threads, in turn."""
    mask = ellipsoid_mask(QUICK_VOXELS if options.quick else N_VOXELS)
    X = volume_cohort(N_SAMPLES, mask)
    case = Case("", options.scratch / "threads.npy", X.shape, grid(mask), mask)
    np.save(case.path, X)
    with ExitStack() as stack:
        workers = {
            count: stack.enter_context(Worker(make_spcatv, case, threads=count))
            for count in (1, 2, 4, 8, 16, 32)
            if count <= (os.cpu_count() or 1)
        }
        for name, setting in FITS.items():
            entrants = [Entrant(str(count), worker, (setting,)) for count, worker in workers.items()]
            interleave(entrants, options.repeats)
            one = entrants[0]
            for entrant in entrants:
                yield {
                    "fit": name,
                    "threads": entrant.name,
                    "seconds": entrant.seconds,
                    "faster": one.seconds / entrant.seconds,
                    "same bits": entrant.runs[0]["bits"] == one.runs[0]["bits"],
                }
    case.path.unlink()
