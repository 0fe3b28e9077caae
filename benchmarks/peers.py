"""Fits of this package and of scikit-learn, each as a job ``make(case, ...) -> job() -> answer``.

Peers keep their own penalties, tolerances and defaults. They solve other problems: the comparison is about
the time for three components.
"""

from __future__ import annotations

import hashlib
import resource
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn.decomposition

from benchmarks.cases import Case
from benchmarks.machine import Meter
from benchmarks.options import N_COMPONENTS, SETTING, TOL, ZEROS
from spcatv import SPCATV
from spcatv.problem import LoadingProblem
from spcatv.solvers import solve

Job = Callable[..., Any]
# Title: class of scikit-learn and its parameters.
PEERS: dict[str, tuple[str, dict[str, Any]]] = {
    "PCA full": ("PCA", {"svd_solver": "full"}),
    "PCA ARPACK": ("PCA", {"svd_solver": "arpack"}),
    "PCA randomized": ("PCA", {"svd_solver": "randomized"}),
    "SparsePCA": ("SparsePCA", {}),
    "MiniBatchSparsePCA": ("MiniBatchSparsePCA", {}),
}
SLOW = ("SparsePCA", "MiniBatchSparsePCA")
# Relative gap of the reference that judges a fit, which may add as much to its score.
JUDGE_TOL = 1e-7


def timed_fit(model: Any, X: np.ndarray) -> dict[str, float]:
    """Fit once: seconds, processor seconds, and peak memory beyond X as a multiple of X."""
    with Meter() as meter, warnings.catch_warnings(action="ignore"):  # empty components show in the zeros
        model.fit(X)
    return {"seconds": meter.seconds, "processor": meter.processor, "peak": meter.bytes / X.nbytes}


def make_spcatv(case: Case, dtype: str = "float32", memory: int = 0) -> Job:
    """Make a job of this package.

    ``job(parameters)`` fits, and ``job(parameters, judge=True)`` lets `judge_fit` score that fit. With
    `memory`, X stays on the disk, and the data of the process are limited to this number of bytes. (A map
    counts against the limit of the address space, whether it is in memory or not.)
    """

    def model_of(structure: Any, parameters: dict[str, Any]) -> SPCATV:
        defaults = SETTING | {"alpha": case.alpha, "n_components": N_COMPONENTS, "tol": TOL}
        return SPCATV(structure=structure, **(defaults | parameters))

    # strong signals survive the penalty, and float32 cannot reach the gap, so that all kernels are loaded
    noise = 100 * np.random.default_rng(0).standard_normal((30, case.small.n_features))
    for parameters in ({}, ZEROS):
        timed_fit(model_of(case.small, {"tol": 1e-10} | parameters), noise.astype(dtype))
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    X = np.load(case.path, mmap_mode="r") if memory else np.load(case.path).astype(dtype, copy=False)
    fitted: dict[str, SPCATV] = {}

    def job(parameters: dict[str, Any], judge: bool = False) -> Any:
        if judge:
            return judge_fit(fitted[repr(parameters)], X)
        model = fitted[repr(parameters)] = model_of(case.structure, parameters)
        answer = timed_fit(model, X)
        records = model.diagnostics_
        return answer | {
            "n_alternations": [record.n_alternations for record in records],
            "n_inner_iter": [record.n_inner_iter for record in records],
            "gaps": [record.relative_gap for record in records],
            "zeros": [record.sparsity for record in records],
            "passes": passes_of(model),
            "bits": hashlib.sha256(model.components_.tobytes()).hexdigest(),
        }

    return job


def make_peer(case: Case, name: str) -> Job:
    """Make a job of a decomposition of scikit-learn with its defaults."""
    class_name, options = PEERS[name]

    def model_of() -> Any:
        return getattr(sklearn.decomposition, class_name)(N_COMPONENTS, random_state=0, **options)

    timed_fit(model_of(), np.random.default_rng(0).standard_normal((10, 30)).astype(np.float32))
    X = np.load(case.path)

    def job() -> dict[str, Any]:
        model = model_of()
        answer = timed_fit(model, X)
        return answer | {"zeros": [float((v == 0).mean()) for v in model.components_]}

    return job


def passes_of(model: Any) -> list[int]:
    """Return the passes over the data of every component, or one number for a joint fit."""
    counts = [record.n_passes for record in model.diagnostics_]
    return counts if model.mixing_ is None else [max(counts)]


def judge_fit(model: Any, X: np.ndarray) -> list[float]:
    """Return the relative gaps of a model's nonzero components from its public attributes alone.

    A loading keeps its direction and gets the best length, its scores are recomputed on what the earlier
    components leave of X, and the problem that these scores pose is solved to `JUDGE_TOL`, for a dual
    variable that does not come from the fit.
    """
    mean = model.mean_.astype(np.float64)
    removed: list[tuple[np.ndarray, np.ndarray]] = []  # scores and loadings
    found: list[float] = []
    for v in model.components_.astype(np.float64):
        scores = X @ v - mean @ v - sum(t * (w @ v) for t, w in removed)
        if v.any():
            u = scores / np.linalg.norm(scores)
            y = X.T @ u - mean * u.sum() - sum(w * (t @ u) for t, w in removed)
            y /= len(X) * model.l2_
            problem = LoadingProblem(y, model.structure_, l1=model.l1_ / model.l2_, tv=model.tv_ / model.l2_)
            penalty = problem.l1 * np.abs(v).sum() + problem.tv * problem.structure.value(v)
            v0 = max((y @ v - penalty) / (2 * (v @ v)), 0.0) * v
            answer = solve(problem, "pdhg", tol=JUDGE_TOL, v0=v0)
            found.append(problem.gap(v0, answer.alpha) / problem.scale())
        removed.append((scores, v))
    return found
