"""Twenty settings along a path with warm starts, compared with single fits: cost and agreement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.cases import Case, prepare, volume
from benchmarks.options import TOL, Options
from benchmarks.worker import Worker

TITLE = "Paths of twenty settings, deflation, two threads"
COMMON = {"n_components": 3, "penalty_units": "absolute", "tol": TOL}
Settings = list[dict[str, float]]


def _settings(alphas: Any, ratios: tuple[tuple[float, float], ...]) -> Settings:
    return [
        {"alpha": float(alpha), "l1_ratio": l1_ratio, "tv_ratio": tv_ratio}
        for l1_ratio, tv_ratio in ratios
        for alpha in alphas
    ]


ALPHAS = "20 alphas"
PATHS: dict[str, Settings] = {
    ALPHAS: _settings(np.geomspace(0.2, 0.05, 20), ((0.25, 0.5),)),
    "20 tv_ratios": _settings((0.1,), tuple((0.2, float(tv)) for tv in np.linspace(0.05, 0.7, 20))),
    "20 alphas, a factor of 100": _settings(np.geomspace(0.5, 0.005, 20), ((0.25, 0.5),)),
    "5 alphas x 4 ratios": _settings(
        np.geomspace(0.2, 0.05, 5), ((0.25, 0.5), (0.1, 0.5), (0.25, 0.25), (0.1, 0.25))
    ),
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Repeat cold fits and the path in one process; minima count."""
    case = prepare(volume, options)
    with Worker(make_path, case, threads=2) as worker:
        for name in (ALPHAS,) if options.quick else PATHS:
            yield {"path": name, **worker.call(PATHS[name], options.repeats)}


def make_path(case: Case) -> Callable[[Settings, int], dict[str, Any]]:
    """Return a job that does both and compares the answers."""
    from spcatv import SPCATV
    from spcatv.selection import path

    def fit_path(X: np.ndarray, structure: Any, settings: Settings) -> list[Any]:
        return list(path(SPCATV(structure=structure, **COMMON), X, settings).models)

    noise = 100 * np.random.default_rng(0).standard_normal((20, case.small.n_features)).astype(np.float32)
    fit_path(noise, case.small, PATHS[ALPHAS][:2])
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
        pairs = list(zip(cold, warm, strict=True))
        return {
            "seconds": path_seconds,
            "single fits": path_seconds / (cold_seconds / len(settings)),
            "largest gap": max(record.relative_gap for model in warm for record in model.diagnostics_),
            "objective apart by": max(_difference(*pair) for pair in pairs),
            "least overlap": min(_overlap(*pair) for pair in pairs),
        }

    return job


def _difference(cold: Any, warm: Any) -> float:
    first, second = (sum(record.objective for record in model.diagnostics_) for model in (cold, warm))
    return abs(second - first) / max(abs(first), 1e-300)


def _overlap(cold: Any, warm: Any) -> float:
    overlap = np.abs(np.sum(cold.components_ * warm.components_, axis=1, dtype=np.float64))
    both_empty = ~cold.components_.any(axis=1) & ~warm.components_.any(axis=1)
    return float(np.where(both_empty, 1.0, overlap).min())
