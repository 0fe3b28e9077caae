"""Where the alternation starts.

Singular vectors alone, or also those of data diffused on the structure; from a sketch of the data, or exact.
"""

from __future__ import annotations

import time
import warnings
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.cases import REAL, SIMULATED, prepare_or_skip
from benchmarks.options import SETTING, TOL, Options
from benchmarks.scoring import compare_fits
from benchmarks.tables import each, markdown, seconds
from benchmarks.worker import Worker
from spcatv import SPCATV
from spcatv.data import operators
from spcatv.datasets import make_dots

TITLE = "Starts"
THREADS = 2
INITS = ("svd", "structured")
# Always a Gram matrix, and never.
GRAM_SHARES = (1.0, 0.0)
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
    sketched = [found for recipe in SIMULATED + REAL if (found := _sketched(recipe, options))]
    return {"threads": THREADS, "n_sets": n_sets, "rows": rows, "means": means, "sketched": sketched}


def _sketched(recipe: Any, options: Options) -> dict[str, Any] | None:
    """Fits from a sketch, as data with many samples get it, against fits from exact singular vectors."""
    case = prepare_or_skip(recipe, options)
    if isinstance(case, str):
        return None
    X = np.load(case.path)
    case.path.unlink()
    found: dict[str, Any] = {"title": case.title, "shape": X.shape}
    for name, setting in {"alpha": SETTING | {"alpha": case.alpha}, "sparsity": {}}.items():
        exact, sketched = (
            _fit(SPCATV(3, structure=case.structure, tol=TOL, **setting), X, share) for share in GRAM_SHARES
        )
        pairs = zip(exact.diagnostics_, sketched.diagnostics_, strict=True)
        cosines = np.abs(np.sum(exact.components_ * sketched.components_, axis=1))
        found[name] = {
            "off": [(b.objective - a.objective) / (abs(a.objective) or 1.0) for a, b in pairs],
            # components of a wanted sparsity have weights of their own, and no common objective
            "judged": compare_fits(exact, sketched, X) if name == "alpha" else [],
            "cosines": [float(cosine) for cosine in cosines],
        }
    return found


def _fit(model: SPCATV, X: np.ndarray, gram_share: float) -> SPCATV:
    """Fit; a Gram matrix, whose eigenvectors are exact, may have this share of the longer side."""
    with (
        mock.patch.multiple(operators, SMALL_GRAM=0, GRAM_SHARE=gram_share),
        warnings.catch_warnings(action="ignore"),
    ):
        return model.fit(X)


def make_starts(size: int, n_samples: int):
    """A job that simulates a data set, fits it from one kind of start, and compares with the truth."""
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
    about = f"Means over {result['n_sets']} data sets.\n\n{markdown(header, rows)}"
    rows = [
        [
            found["title"],
            " x ".join(f"{n:,}" for n in found["shape"]),
            name,
            each(found[name]["judged"], ".1e"),
            each(found[name]["off"], ".1e"),
            each(found[name]["cosines"], ".6f"),
        ]
        for found in result["sketched"]
        for name in ("alpha", "sparsity")
    ]
    header = [
        "data",
        "size",
        "setting",
        "on the same residual, of the scale",
        "relative, on residuals of their own",
    ]
    about += "\n\nObjectives from a sketch, above those from exact singular vectors:"
    return f"{about}\n\n{markdown([*header, 'cosines'], rows)}"
