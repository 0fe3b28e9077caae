"""The judge: loading problems to race on, and `LoadingProblem.gap` as the only score.

A solver that returns a dual variable is scored by the gap of its own pair. One that returns none is
scored by ``gap(v, alpha*) = F(v) - D(alpha*)`` with the best dual variable known, which is its true
suboptimality up to 1e-9 of the scale. No certificate of its own could show less, so this is in its favour.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.cases import Case
from benchmarks.options import weights
from spcatv.problem import LoadingProblem
from spcatv.solvers import solve
from spcatv.structure import grid

REFERENCE_TOL = 1e-9
# Relative gap of the reference that judges a fit, which may add as much to its score.
JUDGE_TOL = 1e-7


def first_problem(case: Case) -> LoadingProblem:
    """Return the loading problem of the first component, at the leading left singular vector of the data."""
    X = np.load(case.path).astype(np.float64)
    X -= X.mean(axis=0)
    _, vectors = np.linalg.eigh(X @ X.T)
    l1, l2, tv = weights(case.alpha)
    y = X.T @ vectors[:, -1] / (len(X) * l2)
    return LoadingProblem(y, case.structure, l1=l1 / l2, tv=tv / l2)


def on_full_box(problem: LoadingProblem, mask: np.ndarray, *, l1: float) -> LoadingProblem:
    """Return the same y in the box around the mask, zero outside: for operators that know no masks."""
    y = np.zeros(mask.shape)
    y[mask] = problem.y
    return LoadingProblem(y.ravel(), grid(mask.shape), l1=l1, tv=problem.tv)


class Judge:
    """Scores answers to one problem.

    Parameters
    ----------
    problem : LoadingProblem
    """

    def __init__(self, problem: LoadingProblem) -> None:
        self.problem = problem
        self.reference = solve(problem, "pdhg", tol=REFERENCE_TOL)

    def score(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Replace the arrays of an answer by its relative gap."""
        v, alpha = answer.pop("v"), answer.pop("alpha", None)
        alpha = self.reference.alpha if alpha is None else self.problem.feasible(alpha)
        return {**answer, "relative_gap": self.problem.gap(v, alpha) / self.problem.scale()}


def time_to_gaps(points: list[tuple[float, float]], gaps: tuple[float, ...]) -> list[float | None]:
    """Seconds to each relative gap from runs of growing effort, given as (seconds, relative gap).

    Between the last run that misses a gap and the first that reaches it, time is interpolated on
    logarithmic scales: a solver does not pay for the step between two efforts.
    """
    times: list[float | None] = []
    for gap in gaps:
        reached = next((i for i, (_, g) in enumerate(points) if g <= gap), None)
        if reached is None:
            times.append(None)
        elif reached == 0:
            times.append(points[0][0])
        else:
            (t0, g0), (t1, g1) = points[reached - 1], points[reached]
            share = np.log(g0 / gap) / np.log(g0 / max(g1, 1e-300))
            times.append(float(np.exp(np.log(t0) + share * np.log(t1 / t0))))
    return times


class Residual:
    """What given loadings leave of X, as `transform` deflates it; from a fitted model's public attributes."""

    def __init__(self, model: Any, X: np.ndarray) -> None:
        self._X, self._mean = X, model.mean_.astype(np.float64)
        self._removed: list[tuple[np.ndarray, np.ndarray]] = []

    def dot(self, v: np.ndarray) -> np.ndarray:
        """Product with a loading vector."""
        return self._X @ v - self._mean @ v - sum(t * (w @ v) for t, w in self._removed)

    def transpose_dot(self, u: np.ndarray) -> np.ndarray:
        """Product with scores, from the left."""
        return self._X.T @ u - self._mean * u.sum() - sum(w * (t @ u) for t, w in self._removed)

    def remove(self, v: np.ndarray) -> None:
        """Deflate by a unit loading vector."""
        self._removed.append((self.dot(v), v))

    def problem(self, v: np.ndarray, model: Any) -> tuple[LoadingProblem, np.ndarray]:
        """Return the loading problem of the scores of v with a model's weights, and v at its best length."""
        scores = self.dot(v)
        y = self.transpose_dot(scores / np.linalg.norm(scores)) / (len(self._X) * model.l2_)
        problem = LoadingProblem(y, model.structure_, l1=model.l1_ / model.l2_, tv=model.tv_ / model.l2_)
        penalty = problem.l1 * np.abs(v).sum() + problem.tv * problem.structure.value(v)
        return problem, max((y @ v - penalty) / (2 * (v @ v)), 0.0) * v


def passes_of(model: Any) -> list[int]:
    """Return the passes over the data of every component, or one number for a joint fit."""
    counts = [record.n_passes for record in model.diagnostics_]
    return counts if model.mixing_ is None else [max(counts)]


def judge_fit(model: Any, X: np.ndarray) -> list[float]:
    """Relative gaps of a fitted model's loadings, from its public attributes alone.

    A loading keeps its direction and gets the best length, its scores are recomputed, and the problem
    they pose is solved to `JUDGE_TOL`, for a dual variable that does not come from the fit.
    """
    residual = Residual(model, X)
    found: list[float] = []
    for v in model.components_.astype(np.float64):
        if v.any():
            problem, v0 = residual.problem(v, model)
            answer = solve(problem, "pdhg", tol=JUDGE_TOL, v0=v0)
            found.append(problem.gap(v0, answer.alpha) / problem.scale())
        residual.remove(v)
    return found


def compare_fits(model: Any, other: Any, X: np.ndarray) -> list[float]:
    """How far the objectives of another model's components are above those of a model, as `tol` counts them.

    Both are judged on what the model's earlier components leave, in units of the scale of the loading
    problem. A component that only one of them has counts as infinite. docs/method.md section 5.1 says why
    objectives on residuals of their own tell less.
    """
    residual = Residual(model, X)
    found: list[float] = []
    for pair in zip(model.components_.astype(np.float64), other.components_.astype(np.float64), strict=True):
        if all(v.any() for v in pair):
            (own, v), (others, w) = (residual.problem(v, model) for v in pair)
            scale = own.scale()
            found.append(((others.value(w) - others.scale()) - (own.value(v) - scale)) / scale)
        else:
            found.append(np.inf if any(v.any() for v in pair) else 0.0)
        residual.remove(pair[0])
    return found
