"""Time of a certified fit on the paper's sizes, and of an import: the least that must hold.

    python benchmarks/floor.py

Fits are timed after one that compiles; one thread.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import subprocess
import sys
import time

from data import surface_cohort, volume_cohort

from spcatv import SPCATV


def time_fit(case, repeats: int) -> tuple[float, SPCATV]:
    best = float("inf")
    for _ in range(repeats + 1):
        model = SPCATV(
            3, structure=case.structure, alpha=0.1, l1_ratio=0.25, tv_ratio=0.5, penalty_units="absolute"
        )
        started = time.perf_counter()
        model.fit(case.X)
        best = min(best, time.perf_counter() - started)
    return best, model


def time_import(statement: str, repeats: int = 5) -> float:
    code = f"import time; t = time.perf_counter(); {statement}; print(time.perf_counter() - t)"
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(repeats)
    ]
    return min(runs)


def main() -> None:
    for case, limit, repeats in (
        (volume_cohort(83, 63_966), 3.0, 3),
        (surface_cohort(50), 30.0, 1),
    ):
        seconds, model = time_fit(case, repeats)
        gaps = ", ".join(f"{record.relative_gap:.1e}" for record in model.diagnostics_)
        zeros = ", ".join(f"{100 * record.sparsity:.0f} %" for record in model.diagnostics_)
        print(f"{case.name}: K = 3 in {seconds:.2f} s (limit {limit:g} s); gaps {gaps}; zeros {zeros}")
    base = time_import("import numpy, sklearn.decomposition")
    ours = time_import("import spcatv")
    print(f"import: {ours:.2f} s against {base:.2f} s for NumPy and scikit-learn (limit: 0.5 s more)")


if __name__ == "__main__":
    main()
