"""One loading problem: seconds to a relative gap, every solver scored by `LoadingProblem.gap`; one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from benchmarks import operators
from benchmarks.cases import prepare, prepare_or_skip, vbm, volume
from benchmarks.options import GAP, GAPS, Options
from benchmarks.scoring import Judge, first_problem, on_full_box, time_to_gaps
from benchmarks.worker import Entrant, TimeUpError, Worker, WorkerDiedError, interleave

TITLE = f"The v-step: seconds to a relative gap of {GAP:g}, one thread"
# A second thread would only serve BLAS for sums of vectors, which is slower on a busy machine.
THREADS = 1
OURS = "pdhg float32"
OWN: dict[str, tuple[str, dict[str, Any]]] = {
    OURS: ("pdhg", {"dtype": "float32"}),
    "pdhg float64": ("pdhg", {}),
    "dual gradient": ("dual", {}),
    "CONESTA": ("conesta", {}),
    "FISTA, fixed smoothing": ("fista", {}),
}
# Runs shorter than this many seconds are repeated more often.
FAST, FAST_REPEATS = 0.1, 12
# Runs of a peer that take more seconds than this are not repeated.
REPEATED = 2.0
# Growing efforts: precisions for the authors' package, iterations for the other peers.
PRECISIONS = [10.0 ** (-0.5 * i) for i in range(4, 14)]
COUNTS = [int(10 * 1.5**i) for i in range(25)]


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Race on the masked volume, on full boxes, and on a full box without the l1 norm."""
    case = prepare(volume, options)
    problem = first_problem(case)
    own = {name: OWN[name] for name in (OURS, "pdhg float64")} if options.quick else OWN
    peer = ("authors' CONESTA", "parsimony", operators.make_authors, case.mask, PRECISIONS)
    yield from race("masked volume", problem, own, peer, options)
    if options.quick:
        return
    ours = {OURS: OWN[OURS]}
    box = on_full_box(problem, case.mask, l1=problem.l1)
    nilearn = ("nilearn prox_tvl1", "nilearn", operators.make_nilearn)
    yield from race("full box", box, ours, (*nilearn, case.mask.shape, COUNTS), options)
    box = on_full_box(problem, case.mask, l1=0.0)
    peer = ("scikit-image Chambolle", "skimage", operators.make_chambolle, case.mask.shape, COUNTS)
    yield from race("full box, no l1", box, ours, peer, options)
    maps = prepare_or_skip(vbm, options)
    if not isinstance(maps, str):
        problem = first_problem(maps)
        box = on_full_box(problem, maps.mask, l1=problem.l1)
        yield from race("real maps, full box", box, ours, (*nilearn, maps.mask.shape, COUNTS), options)


def race(
    name: str,
    problem: Any,
    own: dict[str, tuple[str, dict[str, Any]]],
    peer: tuple[str, str, Callable[..., Any], Any, list[Any]],
    options: Options,
) -> Iterator[dict[str, Any]]:
    """Run our solvers to every gap, in turn; then a peer with growing effort."""
    judge = Judge(problem)
    records = race_own(judge, own, options)
    solver, module, make, argument, efforts = peer
    if find_spec(module) is None:
        records[solver] = {"seconds": len(GAPS) * [None], "note": "not installed"}
    else:
        try:
            with Worker(make, problem, argument, threads=THREADS) as worker:
                records[solver] = climb(worker, efforts, judge.score, options)
        except WorkerDiedError as error:
            records[solver] = {"seconds": len(GAPS) * [None], "note": str(error)}
    position = GAPS.index(GAP)
    ours = records[OURS]["seconds"][position]
    for solver, record in records.items():
        taken, bound = record["seconds"][position], record.get("bound")
        compared = bound if taken is None else taken
        yield {
            "problem": f"{name}, {problem.structure.n_features:,} cells",
            "solver": solver,
            "seconds": taken,
            "note": record.get("note", "not reached"),
            "ratio": None if None in (compared, ours) else compared / ours,
            **{f"to {g:g}": s for g, s in zip(GAPS, record["seconds"], strict=True) if g != GAP},
            "iterations": record.get("n_iter", [None] * len(GAPS))[position],
        }


def race_own(judge: Judge, own: dict[str, tuple[str, dict[str, Any]]], options: Options) -> dict[str, Any]:
    """Solve to every gap, all solvers in turn, repeated; the minimum of each counts."""
    workers = {
        name: Worker(operators.make_own, judge.problem, method, extra, threads=THREADS)
        for name, (method, extra) in own.items()
    }
    entrants = [
        Entrant(name, worker, (gap,), limit=options.limit) for gap in GAPS for name, worker in workers.items()
    ]
    interleave(entrants, options.repeats, judge.score)
    # short runs are repeated more often: the minimum of three is still noise
    interleave([e for e in entrants if (e.seconds or FAST) < FAST], FAST_REPEATS, judge.score)
    for worker in workers.values():
        worker.close()
    found: dict[str, Any] = {}
    for name in own:
        mine = [entrant for entrant in entrants if entrant.name == name]
        reached = [entrant.seconds if _reached(entrant) else None for entrant in mine]
        found[name] = {
            # a run to a tighter gap reaches the looser ones as well
            "seconds": [min((s for s in reached[i:] if s), default=None) for i in range(len(mine))],
            "n_iter": [entrant.runs[0]["n_iter"] if entrant.runs else None for entrant in mine],
        }
    return found


def _reached(entrant: Entrant) -> bool:
    # rounding may move a certificate by its last digits between the solver and the judge
    gap = entrant.request[0]
    return bool(entrant.runs) and all(run["relative_gap"] <= 1.001 * gap for run in entrant.runs)


def climb(
    worker: Worker, efforts: list[Any], score: Callable[..., dict[str, Any]], options: Options
) -> dict[str, Any]:
    """Run a peer with growing effort until the last gap is reached or the time is up."""
    points: list[tuple[float, float]] = []
    n_iters: list[int] = []
    spent = 0.0
    for effort in efforts:
        try:
            answer = score(worker.call(effort, limit=options.limit))
            fastest = answer["seconds"]
            for _ in range(options.repeats - 1 if fastest < REPEATED else 0):
                fastest = min(fastest, worker.call(effort, limit=options.limit)["seconds"])
        except TimeUpError:
            break
        points.append((fastest, answer["relative_gap"]))
        n_iters.append(answer["n_iter"])
        spent += fastest
        if answer["relative_gap"] <= GAPS[-1] or spent > options.limit:
            break
    longest = points[-1][0] if points else options.limit
    first = [next((n for n, (_, g) in zip(n_iters, points, strict=True) if g <= gap), None) for gap in GAPS]
    return {
        "seconds": time_to_gaps(points, GAPS),
        "n_iter": first,
        "bound": longest,
        "note": f"> {longest:.3g} s",
    }
