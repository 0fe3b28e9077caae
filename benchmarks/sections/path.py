"""A warm-started path of twenty settings compared with single fits: cost and agreement."""

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
COMMON = {"n_components": 3, "penalty_units": "absolute", "tol": TOL}
Settings = list[dict[str, float]]


def _settings(alphas: Any, ratios: tuple[tuple[float, float], ...]) -> Settings:
    return [
        {"alpha": float(alpha), "l1_ratio": l1_ratio, "tv_ratio": tv_ratio}
        for l1_ratio, tv_ratio in ratios
        for alpha in alphas
    ]


# Twenty settings each: one weight after the other, close together and far apart, and a grid as a search
# would take it.
PATHS: dict[str, Settings] = {
    "20 alphas": _settings(np.geomspace(0.2, 0.05, 20), ((0.25, 0.5),)),
    "20 tv_ratios": _settings((0.1,), tuple((0.2, float(tv)) for tv in np.linspace(0.05, 0.7, 20))),
    "20 alphas, a factor of 100": _settings(np.geomspace(0.5, 0.005, 20), ((0.25, 0.5),)),
    "5 alphas x 4 ratios": _settings(
        np.geomspace(0.2, 0.05, 5), ((0.25, 0.5), (0.1, 0.5), (0.25, 0.25), (0.1, 0.25))
    ),
}


def fit_path(X: np.ndarray, structure: Any, settings: Settings) -> list[Any]:
    """Fitted models along the path; the only function that calls `spcatv.selection.path`."""
    from spcatv import SPCATV
    from spcatv.selection import path

    return list(path(SPCATV(structure=structure, **COMMON), X, settings).models)


def run(options: Options) -> dict[str, Any]:
    """Repeat cold fits and the path in one process; minima count."""
    if find_spec("spcatv.selection") is None:
        return {"skipped": "spcatv.selection is not there yet"}
    case = prepare(volume, options)
    with Worker(make_path, case, threads=THREADS) as worker:
        measured = {name: worker.call(settings, options.repeats) for name, settings in PATHS.items()}
    return {"threads": THREADS, "title": case.title, "paths": measured}


def make_path(case: Case):
    """A job that does both and compares what they found."""
    from spcatv import SPCATV

    noise = 100 * np.random.default_rng(0).standard_normal((20, case.small.n_features)).astype(np.float32)
    fit_path(noise, case.small, PATHS["20 alphas"][:2])
    X = np.load(case.path)

    def job(settings: Settings, repeats: int) -> dict[str, Any]:
        cold_seconds = path_seconds = np.inf
        for _ in range(repeats):
            started = time.perf_counter()
            cold = [SPCATV(structure=case.structure, **COMMON, **setting).fit(X) for setting in settings]
            cold_seconds = min(cold_seconds, time.perf_counter() - started)
            started = time.perf_counter()
            warm = fit_path(X, case.structure, settings)
            path_seconds = min(path_seconds, time.perf_counter() - started)
        return {
            "cold_seconds": cold_seconds,
            "path_seconds": path_seconds,
            "single_fits": path_seconds / (cold_seconds / len(settings)),
            "rows": [
                {**setting, **compare(a, b)} for setting, a, b in zip(settings, cold, warm, strict=True)
            ],
        }

    return job


def compare(cold: Any, warm: Any) -> dict[str, Any]:
    """Certificates of both, and the distance of their answers."""
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
    """The cost of each path, and the worst agreement among its settings."""
    header = [
        *("path", "seconds", "20 cold fits", "in single fits", "largest gap, cold", "largest gap, path"),
        *("objective of the path, relative difference", "least overlap of loadings"),
    ]
    rows = []
    for name, record in result["paths"].items():
        column = {key: [row[key] for row in record["rows"]] for key in record["rows"][0]}
        differences = column["objective_difference"]
        rows.append(
            [
                name,
                seconds(record["path_seconds"]),
                seconds(record["cold_seconds"]),
                f"{record['single_fits']:.2f}",
                f"{max(column['cold_gap']):.1e}",
                f"{max(column['warm_gap']):.1e}",
                f"{min(differences):+.1e} to {max(differences):+.1e}",
                f"{min(column['least_overlap']):.6f}",
            ]
        )
    return f"K = 3, {result['title']}\n\n{markdown(header, rows)}"
