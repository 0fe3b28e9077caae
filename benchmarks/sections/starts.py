"""Where the alternation starts: singular vectors alone, or also those of data diffused on the structure."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from benchmarks.options import Options
from benchmarks.tables import markdown, seconds
from benchmarks.worker import Worker
from spcatv.datasets import make_dots

TITLE = "Starts"
THREADS = 2
INITS = ("svd", "structured")
# The authors' setting for the simulation.
AUTHORS = {
    "alpha": 0.01,
    "l1_ratio": 0.25,
    "tv_ratio": 0.5,
    "penalty_units": "absolute",
    "center": False,
}


def run(options: Options) -> dict[str, Any]:
    """Both starts on ten data sets of the paper's simulation; half of the rows are held out."""
    n_sets, size, n_samples = (2, 40, 100) if options.quick else (10, 100, 500)
    with Worker(make_starts, size, n_samples, threads=THREADS) as worker:
        rows = [
            {"data": seed, "init": init, **worker.call(seed, init)}
            for seed in range(n_sets)
            for init in INITS
        ]
    means = {
        init: {
            name: float(np.mean([row[name] for row in rows if row["init"] == init]))
            for name in ("error", "loading_mse", "objective", "seconds")
        }
        for init in INITS
    }
    return {"threads": THREADS, "n_sets": n_sets, "rows": rows, "means": means}


def make_starts(size: int, n_samples: int):
    """A job that simulates a data set, fits it from one kind of start, and compares with the truth."""
    from spcatv import SPCATV
    from spcatv.metrics import loading_mse, reconstruction_error

    def job(seed: int, init: str) -> dict[str, float]:
        data = make_dots(n_samples, size, dtype=np.float32, random_state=seed)
        train, test = data.split()
        model = SPCATV(3, structure=data.shape, init=init, **AUTHORS)
        started = time.perf_counter()
        model.fit(train)
        passed = time.perf_counter() - started
        return {
            "seconds": passed,
            "error": reconstruction_error(test, model.inverse_transform(model.transform(test))),
            "loading_mse": float(np.mean(loading_mse(data.loadings, model.components_))),
            "objective": sum(record.objective for record in model.diagnostics_),
        }

    for init in INITS:
        job(1_000, init)
    return job


def table(result: dict[str, Any]) -> str:
    """Means over the data sets."""
    rows = [
        [
            init,
            f"{mean['error']:.2f}",
            f"{mean['loading_mse']:.3f}",
            f"{mean['objective']:.4f}",
            seconds(mean["seconds"]),
        ]
        for init, mean in result["means"].items()
    ]
    header = ["init", "test error", "loading MSE", "objective, summed", "seconds"]
    return f"Means over {result['n_sets']} data sets.\n\n{markdown(header, rows)}"
