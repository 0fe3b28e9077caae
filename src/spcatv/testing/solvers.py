"""Check of a solver of the loading problem, by closed forms and stored references."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from spcatv._util.types import FloatArray
from spcatv.problem import LoadingProblem
from spcatv.solvers import Solution, solve
from spcatv.structure import Structure, from_matrix, graph, grid
from spcatv.testing.require import require

MAX_ITER = 1_000_000
# Errors of the stored answers of the conic solver: of the objective (relative) and of v (absolute).
REFERENCE_VALUE = 1e-9
REFERENCE_V = 1e-5


class KnownAnswer(NamedTuple):
    """Problem with its answer, which is exact or a stored reference."""

    name: str
    problem: LoadingProblem
    v: FloatArray
    value: float
    exact: bool


def check_solver(method: str | Callable[..., Solution], *, tol: float = 1e-8) -> None:
    """Check that a solver of the loading problem is right and that its certificate holds.

    The solver is run on problems with known answers: closed forms (no structured penalty, a penalty so large
    that the answer is a mean, two features solved by hand, an l1 norm so large that the answer is 0, y = 0)
    and references from a conic solver (grids with and without a mask, a graph, overlapping groups,
    positivity, "graphnet"). For each answer:

    * the solver converged, and the objective is within 1e-6 (relative) of the least;
    * ``||v - v*||`` is within the reported error bound;
    * the reported gap is the problem's own, and not below the true ``F(v) - min F``;
    * entries that must be exactly zero or non-negative are.

    Parameters
    ----------
    method : str or callable
        As in `spcatv.solvers.solve`.
    tol : float, default=1e-8
        Relative gap to reach; at most 1e-7, or the objective is not as accurate as asserted.

    Raises
    ------
    AssertionError
        With the case and the figures.

    Examples
    --------
    >>> from spcatv.testing import check_solver
    >>> check_solver("pdhg")
    """
    for answer in known_answers():
        _check(answer, solve(answer.problem, method, tol=tol, max_iter=MAX_ITER), tol)


def known_answers() -> Iterator[KnownAnswer]:
    """Yield every closed form, then every stored reference."""
    yield from _closed_forms()
    for name, record in _references().items():
        settings = {key: record[key] for key in ("l1", "tv", "positive", "penalty")}
        problem = LoadingProblem(record["y"], STRUCTURES[name](), **settings)
        yield KnownAnswer(name, problem, np.array(record["v"]), record["value"], exact=False)


@cache
def _references() -> dict[str, Any]:
    text = files("spcatv.testing").joinpath("solver_references.json").read_text(encoding="utf-8")
    records: dict[str, Any] = json.loads(text)
    return records


def _closed_forms() -> Iterator[KnownAnswer]:
    y = np.array([3.0, -1.0, 0.2, 0.5, -2.0, 1.5])
    chain = grid((6,))

    def known(name: str, problem: LoadingProblem, v: FloatArray) -> KnownAnswer:
        return KnownAnswer(name, problem, v, problem.value(v), exact=True)

    shrunk = np.sign(y) * np.maximum(np.abs(y) - 0.4, 0) / 2
    yield known("no structured penalty", LoadingProblem(y, chain, l1=0.4), shrunk)
    positive = LoadingProblem(y, chain, l1=0.4, positive=True)
    yield known("no structured penalty, positive", positive, np.maximum(shrunk, 0))
    flat = LoadingProblem(y[:4], grid((2, 2)), tv=3.0)
    yield known("a mean: l1 = 0 and tv large on a connected grid", flat, np.full(4, y[:4].mean() / 2))
    # v1 > v2 > 0: 2 v1 - 3 + k + c = 0 and 2 v2 - 1 + k - c = 0
    two = LoadingProblem(np.array([3.0, 1.0]), grid((2,)), l1=0.2, tv=0.5)
    yield known("two features by hand", two, np.array([1.15, 0.65]))
    # the two merge as soon as c >= (3 - 1) / 2: v = (mean(y) - k) / 2
    merged = LoadingProblem(np.array([3.0, 1.0]), grid((2,)), l1=0.2, tv=1.3)
    yield known("two features merged", merged, np.array([0.9, 0.9]))
    yield known("zero: l1 above max |y|", LoadingProblem(y, chain, l1=3.5, tv=0.7), np.zeros(6))
    yield known("y = 0", LoadingProblem(np.zeros(6), chain, l1=0.1, tv=0.7), np.zeros(6))


def _masked(shape: tuple[int, ...], holes: list[int]) -> Structure:
    mask = np.ones(shape, dtype=bool)
    mask.ravel()[holes] = False
    return grid(mask)


def _ring() -> Structure:
    """Make a ring of 12 nodes with two chords, weighted."""
    tail = np.array([*range(12), 0, 3])
    head = np.array([*((np.arange(12) + 1) % 12), 6, 9])
    weight = np.linspace(0.5, 1.5, 14)
    return graph(
        sp.csr_array((np.r_[weight, weight], (np.r_[tail, head], np.r_[head, tail])), shape=(12, 12))
    )


def _overlapping_groups() -> Structure:
    """Make five groups of four features, each of which shares two with the next."""
    members = np.concatenate([np.arange(2 * g, 2 * g + 4) for g in range(5)])
    picks = sp.csr_array((np.full(20, 2.0), (np.arange(20), members)), shape=(20, 12))
    return from_matrix(picks, np.arange(0, 21, 4))


STRUCTURES: dict[str, Callable[[], Structure]] = {
    "chain without l1": lambda: grid((20,)),
    "masked 2-D grid": lambda: _masked((5, 6), [0, 1, 8, 14, 29]),
    "masked 3-D grid, positive": lambda: _masked((3, 3, 3), [0, 13, 26]),
    "weighted graph": _ring,
    "overlapping groups, positive": _overlapping_groups,
    "graphnet on a grid": lambda: grid((4, 5)),
    "graphnet on a graph, positive": _ring,
}


def _check(answer: KnownAnswer, solution: Solution, tol: float, objective: float = 1e-6) -> None:
    problem, v = answer.problem, solution.v
    label = f"{solution.method} on '{answer.name}'"
    scale = problem.scale()
    require(solution.status.success, f"{label} did not converge: {solution.message}")
    require(v.shape == answer.v.shape, f"{label}: v has shape {v.shape}, not {answer.v.shape}")
    value, gap = problem.value(v), problem.gap(v, solution.alpha)
    rounding = 1e-13 * scale
    require(
        abs(gap - solution.gap) <= 1e-6 * gap + rounding, f"{label}: gap {solution.gap:.6g}, truly {gap:.6g}"
    )
    require(abs(value - solution.value) <= rounding, f"{label}: value {solution.value}, not {value}")
    require(gap <= tol * scale * (1 + 1e-9), f"{label}: converged with gap {gap:.3g} > {tol * scale:.3g}")
    excess = value - answer.value
    slack = rounding if answer.exact else REFERENCE_VALUE * answer.value
    require(excess <= gap + slack, f"{label}: the gap {gap:.3g} is below the true excess {excess:.3g}")
    require(
        abs(excess) <= objective * answer.value + slack,
        f"{label}: objective {value:.12g}, but the least is {answer.value:.12g}",
    )
    distance = float(np.linalg.norm(v - answer.v))
    slack = 1e-7 * np.sqrt(scale) if answer.exact else REFERENCE_V
    require(
        distance <= solution.error_bound + slack,
        f"{label}: ||v - v*|| is {distance:.3g}, beyond the error bound {solution.error_bound:.3g}",
    )
    if problem.positive:
        require(bool((v >= 0).all()), f"{label}: v has an entry {v.min():.3g} although it must be >= 0")
    if answer.exact:
        wrong = int(((answer.v == 0) & (v != 0)).sum())
        require(wrong == 0, f"{label}: {wrong} entries that are exactly 0 in the answer are not")
