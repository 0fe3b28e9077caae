"""One loading problem: seconds to a relative gap, every solver scored by `LoadingProblem.gap`; one thread.

A solver that returns a dual variable is scored by the gap of its own pair. One that returns none is
scored by ``gap(v, alpha*) = F(v) - D(alpha*)`` with the best dual variable known, which is its true
suboptimality up to 1e-9 of the scale. No certificate of its own could show less, so this is in its favour.

Nilearn solves proximal problems. With ``z = y / 2``

    F(v) = 1/2 ||v - y||^2 + 1/2 ||v||^2 + c s(v) + k ||v||_1
         = 2 ( 1/2 ||v - z||^2 + c/2 s(v) + k/2 ||v||_1 ) + constant

so the point z and the weights c/2 and k/2 pose the same problem. On a full box nilearn's total variation
is that of `grid`: the norm of the forward differences, those that leave the box being zero; a test checks
that both agree on the minimiser.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.cases import Case, prepare, prepare_or_skip
from benchmarks.options import SETTING, Options
from benchmarks.worker import Entrant, TimeUpError, Worker, interleave
from spcatv.problem import LoadingProblem
from spcatv.solvers import solve
from spcatv.structure import grid

TITLE = "The v-step: seconds to a relative gap, one thread"
GAPS = (1e-3, 1e-4, 1e-5, 1e-6)
REFERENCE_TOL = 1e-9
OURS = "pdhg float32"
OWN: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("pdhg", {"dtype": "float32"}),
    "pdhg float64": ("pdhg", {}),
    "dual gradient": ("dual", {}),
    "CONESTA": ("conesta", {}),
    "FISTA, fixed smoothing": ("fista", {}),
}
NILEARN = "nilearn prox_tvl1"
# Runs shorter than this many seconds are repeated more often: the minimum of three is still noise.
FAST, FAST_REPEATS = 0.1, 12
# Iterations of nilearn's operator, whose runs of more than this many seconds are not repeated.
COUNTS, REPEATED = [int(10 * 1.5**i) for i in range(25)], 2.0
Job = Callable[[float], dict[str, Any]]


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Compare our solvers on the masked volume, and the fastest with nilearn's operator on full boxes."""
    case = prepare("volume", options)
    problem = first_problem(case)
    yield from race("masked volume", problem, list(OWN)[:2] if options.quick else list(OWN), options)
    if options.quick or find_spec("nilearn") is None:
        return
    for name, data in (("full box", case), ("real maps, full box", prepare_or_skip("vbm", options))):
        if not isinstance(data, str):
            box = on_full_box(first_problem(data), data.mask)
            yield from race(name, box, [OURS], options, data.mask.shape)


def first_problem(case: Case) -> LoadingProblem:
    """Return the loading problem of the first component, at the leading left singular vector of the data."""
    X = np.load(case.path).astype(np.float64)
    X -= X.mean(axis=0)
    _, vectors = np.linalg.eigh(X @ X.T)
    l1, tv = (SETTING[name] * case.alpha for name in ("l1_ratio", "tv_ratio"))
    l2 = case.alpha - l1 - tv
    y = X.T @ vectors[:, -1] / (len(X) * l2)
    return LoadingProblem(y, case.structure, l1=l1 / l2, tv=tv / l2)


def on_full_box(problem: LoadingProblem, mask: np.ndarray) -> LoadingProblem:
    """Return the same y in the box around the mask, zero outside, for operators without masks."""
    y = np.zeros(mask.shape)
    y[mask] = problem.y
    return LoadingProblem(y.ravel(), grid(mask.shape), l1=problem.l1, tv=problem.tv)


class Judge:
    """Scores answers to one problem."""

    def __init__(self, problem: LoadingProblem) -> None:
        self.problem = problem
        self.reference = solve(problem, "pdhg", tol=REFERENCE_TOL)

    def score(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Replace the arrays of an answer by its relative gap."""
        v, alpha = answer.pop("v"), answer.pop("alpha", None)
        alpha = self.reference.alpha if alpha is None else self.problem.feasible(alpha)
        return {**answer, "relative_gap": self.problem.gap(v, alpha) / self.problem.scale()}


def race(
    name: str, problem: LoadingProblem, own: list[str], options: Options, shape: tuple[int, ...] | None = None
) -> Iterator[dict[str, Any]]:
    """Run our solvers to every gap, in turn; then nilearn with growing effort if `shape` is that of a box."""
    judge = Judge(problem)
    workers = {solver: Worker(make_own, problem, *OWN[solver], threads=1) for solver in own}
    entrants = {
        (solver, gap): Entrant(solver, workers[solver], (gap,), limit=options.limit)
        for gap in GAPS
        for solver in own
    }
    interleave(list(entrants.values()), options.repeats, judge.score)
    fast = [entrant for entrant in entrants.values() if (entrant.seconds or FAST) < FAST]
    interleave(fast, FAST_REPEATS, judge.score)
    for worker in workers.values():
        worker.close()
    found = {key: (_seconds_if_reached(entrant), entrant.note) for key, entrant in entrants.items()}
    if shape is not None:
        with Worker(make_nilearn, problem, shape, threads=1) as worker:
            points = climb(worker, judge, options)
        bound = f"> {points[-1][0]:.3g} s" if points else f"> {options.limit:g} s"
        found |= {(NILEARN, gap): (t, bound) for gap, t in zip(GAPS, time_to_gaps(points, GAPS), strict=True)}
    for (solver, gap), (seconds, note) in found.items():
        ours, _ = found[OURS, gap]
        compared = seconds or (float(note.split()[1]) if note.startswith(">") else None)
        yield {
            "problem": f"{name}, {problem.structure.n_features:,} cells",
            "solver": solver,
            "gap": f"{gap:g}",
            "seconds": seconds,
            "note": note or "not reached",
            "ratio": compared / ours if compared and ours else None,
        }


def make_own(problem: LoadingProblem, method: str, options: dict[str, Any]) -> Job:
    """Make a job of a solver of this package; the effort is the relative gap to reach."""

    def job(tol: float) -> dict[str, Any]:
        started = time.perf_counter()
        with warnings.catch_warnings(action="ignore"):  # the score shows a gap that is missed
            answer = solve(problem, method, tol=tol, **options)
        return {"seconds": time.perf_counter() - started, "v": answer.v, "alpha": answer.alpha}

    job(1e-3)  # loads the kernels, and lets the structure compute what it keeps
    return job


def make_nilearn(problem: LoadingProblem, shape: tuple[int, ...]) -> Job:
    """Make a job of nilearn's TV-l1 operator on a full box; the effort is the number of iterations.

    Its penalty is ``weight ( (1 - l1_ratio) TV + l1_ratio ||.||_1 )``.
    """
    from nilearn.decoding._proximal_operators import prox_tvl1

    image = 0.5 * problem.y.reshape(shape)
    both = problem.tv + problem.l1

    def job(n_iter: float) -> dict[str, Any]:
        # a tolerance that is never met: only the number of iterations stops it
        limits = {"dgap_tol": -np.inf, "max_iter": int(n_iter)}
        started = time.perf_counter()
        v, _ = prox_tvl1(image, l1_ratio=problem.l1 / both, weight=0.5 * both, **limits)
        return {"seconds": time.perf_counter() - started, "v": v.ravel()}

    job(2)
    return job


def _seconds_if_reached(entrant: Entrant) -> float | None:
    """Return the fastest run, None if a gap was missed; rounding may move certificates by the last digits."""
    reached = all(run["relative_gap"] <= 1.001 * entrant.request[0] for run in entrant.runs)
    return entrant.seconds if reached else None


def climb(worker: Worker, judge: Judge, options: Options) -> list[tuple[float, float]]:
    """Return seconds and relative gaps of growing effort, until the last gap is reached or the time is up."""
    points: list[tuple[float, float]] = []
    for count in COUNTS:
        try:
            answer = judge.score(worker.call(count, limit=options.limit))
            repeats = options.repeats - 1 if answer["seconds"] < REPEATED else 0
            again = [worker.call(count, limit=options.limit)["seconds"] for _ in range(repeats)]
        except TimeUpError:
            break
        points.append((min([answer["seconds"], *again]), answer["relative_gap"]))
        if answer["relative_gap"] <= GAPS[-1] or sum(seconds for seconds, _ in points) > options.limit:
            break
    return points


def time_to_gaps(points: list[tuple[float, float]], gaps: Sequence[float]) -> list[float | None]:
    """Return the seconds to each relative gap, from runs of growing effort given as (seconds, relative gap).

    Between the last run that misses a gap and the first that reaches it, time is interpolated on
    logarithmic scales: a solver does not pay for the step between two efforts.
    """
    if not points:
        return [None] * len(gaps)
    seconds, reached = np.log(np.maximum(np.transpose(points), 1e-300))
    smallest = np.minimum.accumulate(reached)
    found = np.interp(-np.log(gaps), -smallest, seconds, right=np.nan)
    return [None if np.isnan(time) else float(np.exp(time)) for time in found]
