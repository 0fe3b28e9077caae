"""A warm-started path: twenty settings on one data set against single fits, and the same answers."""

from __future__ import annotations

import time
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.cases import Case, prepare, volume
from benchmarks.options import TOL, Options
from benchmarks.tables import markdown, seconds
from benchmarks.worker import Worker

TITLE = "A path of twenty settings"
THREADS = 2
ALPHAS = (0.2, 0.14, 0.1, 0.07, 0.05)
RATIOS = ((0.25, 0.5), (0.1, 0.5), (0.25, 0.25), (0.1, 0.25))  # l1, tv
COMMON = {"n_components": 3, "penalty_units": "absolute", "tol": TOL}


def settings() -> list[dict[str, float]]:
    """The twenty settings, from strong to weak penalties."""
    return [
        {"alpha": alpha, "l1_ratio": l1_ratio, "tv_ratio": tv_ratio}
        for l1_ratio, tv_ratio in RATIOS
        for alpha in ALPHAS
    ]


def fit_path(X: np.ndarray, structure: Any, grid_of_settings: list[dict[str, float]]) -> list[Any]:
    """Fitted models along the path; the only place that knows how the path is called."""
    from spcatv.selection import path

    return list(path(X, structure=structure, settings=grid_of_settings, **COMMON))


def run(options: Options) -> dict[str, Any]:
    """Cold fits one by one, then the path, in one process."""
    if find_spec("spcatv.selection") is None:
        return {"skipped": "spcatv.selection is not there yet"}
    case = prepare(volume, options)
    with Worker(make_path, case, threads=THREADS) as worker:
        return {"threads": THREADS, "title": case.title, **worker.call()}


def make_path(case: Case):
    """A job that does both and compares what they found."""
    from spcatv import SPCATV

    noise = np.random.default_rng(0).standard_normal((20, case.small.n_features)).astype(np.float32)
    fit_path(noise, case.small, settings()[:2])
    X = np.load(case.path)

    def job() -> dict[str, Any]:
        cold, cold_seconds = [], []
        for setting in settings():
            started = time.perf_counter()
            cold.append(SPCATV(structure=case.structure, **COMMON, **setting).fit(X))
            cold_seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
        warm = fit_path(X, case.structure, settings())
        path_seconds = time.perf_counter() - started
        return {
            "cold_seconds": cold_seconds,
            "path_seconds": path_seconds,
            "single_fits": path_seconds / float(np.mean(cold_seconds)),
            "rows": [
                {**setting, **compare(a, b)} for setting, a, b in zip(settings(), cold, warm, strict=True)
            ],
        }

    return job


def compare(cold: Any, warm: Any) -> dict[str, Any]:
    """Certificates of both, and how far apart their answers are."""
    objectives = [sum(record.objective for record in model.diagnostics_) for model in (cold, warm)]
    overlap = np.abs(np.sum(cold.components_ * warm.components_, axis=1, dtype=np.float64))
    both_null = ~cold.components_.any(axis=1) & ~warm.components_.any(axis=1)
    return {
        "cold_gap": max(record.relative_gap for record in cold.diagnostics_),
        "warm_gap": max(record.relative_gap for record in warm.diagnostics_),
        "objective_difference": (objectives[1] - objectives[0]) / max(abs(objectives[0]), 1e-300),
        "least_overlap": float(np.where(both_null, 1.0, overlap).min()),
    }


def table(result: dict[str, Any]) -> str:
    """The cost of the path, and the worst agreement of all settings."""
    rows = [
        ["path of 20 settings", seconds(result["path_seconds"])],
        ["20 cold fits", seconds(sum(result["cold_seconds"]))],
        ["path in single fits (their mean)", f"{result['single_fits']:.2f}"],
        ["largest relative gap, cold / path", _extremes(result, "cold_gap", "warm_gap")],
        [
            "objective of the path, relative difference",
            f"{min(row['objective_difference'] for row in result['rows']):.1e} to "
            f"{max(row['objective_difference'] for row in result['rows']):.1e}",
        ],
        ["least overlap of loadings", f"{min(row['least_overlap'] for row in result['rows']):.6f}"],
    ]
    return f"{result['title']}\n\n{markdown(['what', 'figure'], rows)}"


def _extremes(result: dict[str, Any], *names: str) -> str:
    return " / ".join(f"{max(row[name] for row in result['rows']):.1e}" for name in names)
