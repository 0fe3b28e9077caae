"""Twenty settings along a path with warm starts, compared with single fits: cost and agreement."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from benchmarks.cases import Case, prepare
from benchmarks.options import TOL, Options
from benchmarks.worker import Worker
from spcatv import SPCATV
from spcatv.selection import path

TITLE = "Paths of twenty settings, deflation, two threads"
COMMON = {"n_components": 3, "penalty_units": "absolute", "tol": TOL}
Settings = list[dict[str, float]]


def _settings(alphas: Any, l1_ratios: Any = (0.25,), tv_ratios: Any = (0.5,)) -> Settings:
    return [
        {"alpha": float(alpha), "l1_ratio": float(l1_ratio), "tv_ratio": float(tv_ratio)}
        for tv_ratio, l1_ratio, alpha in product(tv_ratios, l1_ratios, alphas)
    ]


ALPHAS = "20 alphas"
PATHS: dict[str, Settings] = {
    ALPHAS: _settings(np.geomspace(0.2, 0.05, 20)),
    "20 tv_ratios": _settings([0.1], [0.2], np.linspace(0.05, 0.7, 20)),
    "20 alphas, a factor of 100": _settings(np.geomspace(0.5, 0.005, 20)),
    "5 alphas x 4 ratios": _settings(np.geomspace(0.2, 0.05, 5), (0.25, 0.1), (0.5, 0.25)),
}


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Repeat cold fits and the path in one process; minima count."""
    with Worker(make_path, prepare("volume", options), threads=2) as worker:
        for name in (ALPHAS,) if options.quick else PATHS:
            yield {"path": name, **worker.call(PATHS[name], options.repeats)}


def make_path(case: Case) -> Callable[[Settings, int], dict[str, Any]]:
    """Return a job that does both and compares the answers."""

    def fit_path(X: np.ndarray, structure: Any, settings: Settings) -> list[SPCATV]:
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
        objectives = np.array([[_objective(model) for model in models] for models in (cold, warm)])
        return {
            "seconds": path_seconds,
            "single fits": path_seconds / (cold_seconds / len(settings)),
            "largest gap": max(record.relative_gap for model in warm for record in model.diagnostics_),
            "objective apart by": float(np.abs(np.diff(objectives, axis=0)).max() / np.abs(objectives).max()),
        }

    return job


def _objective(model: SPCATV) -> float:
    return sum(record.objective for record in model.diagnostics_)
