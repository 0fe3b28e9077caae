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
    """The loading problem of the first component, at the leading left singular vector of the data."""
    X = np.load(case.path).astype(np.float64)
    X -= X.mean(axis=0)
    _, vectors = np.linalg.eigh(X @ X.T)
    l1, l2, tv = weights(case.alpha)
    y = X.T @ vectors[:, -1] / (len(X) * l2)
    return LoadingProblem(y, case.structure, l1=l1 / l2, tv=tv / l2)


def on_full_box(problem: LoadingProblem, mask: np.ndarray, *, l1: float) -> LoadingProblem:
    """The same y in the box around the mask, zero outside: for operators that know no masks."""
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


def judge_fit(model: Any, X: np.ndarray) -> list[float]:
    """Relative gaps of a fitted model's loadings, from its public attributes alone.

    A loading keeps its direction and gets the best length, its scores are recomputed, and the problem
    they pose is solved to `JUDGE_TOL`, for a dual variable that does not come from the fit.
    """
    n_rows = len(X)
    mean = model.mean_.astype(np.float64)
    scores: list[np.ndarray] = []
    found: list[float] = []
    components = model.components_.astype(np.float64)
    for number, v in enumerate(components):
        before = list(zip(scores, components[:number], strict=True))
        product = X @ v - mean @ v - sum(t * (w @ v) for t, w in before)
        scores.append(product)
        if not v.any():
            continue
        u = product / np.linalg.norm(product)
        y = X.T @ u - mean * u.sum() - sum(w * (t @ u) for t, w in before)
        problem = LoadingProblem(
            y / (n_rows * model.l2_), model.structure_, l1=model.l1_ / model.l2_, tv=model.tv_ / model.l2_
        )
        penalty = problem.l1 * np.abs(v).sum() + problem.tv * problem.structure.value(v)
        length = max((problem.y @ v - penalty) / (2 * (v @ v)), 0.0)
        answer = solve(problem, "pdhg", tol=JUDGE_TOL, v0=length * v)
        found.append(problem.gap(length * v, answer.alpha) / problem.scale())
    return found
