"""One loading problem: seconds to a relative gap, every solver scored by `LoadingProblem.gap`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from benchmarks import operators
from benchmarks.cases import prepare, prepare_or_skip, vbm, volume
from benchmarks.options import GAPS, Options
from benchmarks.scoring import Judge, first_problem, on_full_box, time_to_gaps
from benchmarks.tables import markdown, seconds, times
from benchmarks.worker import Entrant, TimeUpError, Worker, WorkerDiedError, interleave

TITLE = "The v-step: time to a relative gap"
# No solver gains from a second thread here: BLAS would use it for sums of vectors only, which is slower on a
# busy machine.
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
# Runs of a black box that take longer than this are not repeated.
REPEATED = 2.0
INSTALL = {
    "nilearn": "pip install nilearn",
    "skimage": "pip install scikit-image",
    "parsimony": "pip install six git+https://github.com/neurospin/pylearn-parsimony",
}


def run(options: Options) -> dict[str, Any]:
    """Race on the masked volume, on full boxes, and on a full box without the l1 norm."""
    case = prepare(volume, options)
    problem = first_problem(case)
    box, smooth_box = (on_full_box(problem, case.mask, l1=l1) for l1 in (problem.l1, 0.0))
    shape = case.mask.shape
    own = {name: OWN[name] for name in (OURS, "CONESTA")} if options.quick else OWN
    precisions = [10.0 ** (-0.5 * i) for i in range(4, 14)]
    result = {
        "threads": THREADS,
        "gaps": GAPS,
        "masked volume": race(
            problem,
            own,
            {"authors' CONESTA": ("parsimony", operators.make_authors, case.mask, precisions)},
            options,
        ),
        "full box": race(
            box,
            {OURS: OWN[OURS]},
            {"nilearn prox_tvl1": ("nilearn", operators.make_nilearn, shape, list(counts()))},
            options,
        ),
        "full box, no l1": race(
            smooth_box,
            {OURS: OWN[OURS]},
            {"scikit-image Chambolle": ("skimage", operators.make_chambolle, shape, list(counts()))},
            options,
        ),
    }
    maps = prepare_or_skip(vbm, options)
    if not isinstance(maps, str):
        problem = first_problem(maps)
        result["real maps, full box"] = race(
            on_full_box(problem, maps.mask, l1=problem.l1),
            {OURS: OWN[OURS]},
            {"nilearn prox_tvl1": ("nilearn", operators.make_nilearn, maps.mask.shape, list(counts()))},
            options,
        )
    return result


def counts(first: int = 10, factor: float = 1.5, last: int = 200_000) -> Iterator[int]:
    """Iteration counts that grow geometrically."""
    count = float(first)
    while count <= last:
        yield int(count)
        count *= factor


def race(
    problem: Any, own: dict[str, tuple[str, dict[str, Any]]], others: dict[str, Any], options: Options
) -> dict[str, Any]:
    """Our solvers at every gap, in turn; then the black boxes with growing effort."""
    judge = Judge(problem)
    result = {
        "n_features": problem.structure.n_features,
        "reference_gap": judge.reference.relative_gap,
        "solvers": race_own(judge, own, options),
    }
    for name, (module, make, argument, efforts) in others.items():
        if find_spec(module) is None:
            result["solvers"][name] = {"missing": INSTALL[module]}
            continue
        try:
            with Worker(make, problem, argument, threads=THREADS) as worker:
                result["solvers"][name] = climb(worker, efforts, judge.score, options)
        except WorkerDiedError as error:
            result["solvers"][name] = {"failed": str(error)}
    return result


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
    solvers: dict[str, Any] = {}
    for name in own:
        mine = [entrant for entrant in entrants if entrant.name == name]
        reached = [entrant.seconds if _reached(entrant) else None for entrant in mine]
        solvers[name] = {
            # a run to a tighter gap reaches the looser ones as well
            "seconds": [min((s for s in reached[i:] if s), default=None) for i in range(len(mine))],
            "n_iter": [entrant.runs[0]["n_iter"] if entrant.runs else None for entrant in mine],
            "points": [
                (entrant.seconds, entrant.runs[0]["relative_gap"]) for entrant in mine if entrant.runs
            ],
            "notes": [entrant.note or ("" if _reached(entrant) else "not reached") for entrant in mine],
        }
    return solvers


def _reached(entrant: Entrant) -> bool:
    # rounding may move a certificate by its last digits between the solver and the judge
    return bool(entrant.runs) and all(
        run["relative_gap"] <= 1.001 * entrant.request[0] for run in entrant.runs
    )


def climb(
    worker: Worker, efforts: list[float], score: Callable[..., dict[str, Any]], options: Options
) -> dict[str, Any]:
    """Run a black box with growing effort until the last gap is reached or the time is up."""
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
    found = time_to_gaps(points, GAPS)
    return {
        "seconds": found,
        "n_iter": [
            next((n for n, (_, g) in zip(n_iters, points, strict=True) if g <= gap), None) for gap in GAPS
        ],
        "points": points,
        "notes": ["" if value is not None else f"> {longest:.3g} s" for value in found],
    }


def races(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The problems raced on, by name."""
    return {name: part for name, part in result.items() if isinstance(part, dict)}


def table(result: dict[str, Any]) -> str:
    """Seconds and iterations to each gap, and the ratio to ours at 1e-5."""
    parts = []
    for name, race_result in races(result).items():
        ours = race_result["solvers"][OURS]["seconds"]
        header = ["solver", *(f"{gap:.0e}" for gap in GAPS), "ratio at 1e-5", "iterations"]
        rows = []
        for solver, record in race_result["solvers"].items():
            if "seconds" not in record:
                rows.append([solver, absence(record), *[None] * (len(GAPS) + 1)])
                continue
            cells = [seconds(s, n) for s, n in zip(record["seconds"], record["notes"], strict=True)]
            iterations = ", ".join("–" if n is None else f"{n:,}" for n in record["n_iter"])
            rows.append([solver, *cells, ratio(record, ours, GAPS.index(1e-5))[0], iterations])
        title = f"**{name}**, {race_result['n_features']:,} cells, one thread"
        parts.append(f"{title}\n\n{markdown(header, rows)}")
    return "\n\n".join(parts)


def absence(record: dict[str, Any]) -> str:
    """Why a solver has no figures."""
    return f"missing: `{record['missing']}`" if "missing" in record else record["failed"]


def ratio(record: dict[str, Any], ours: list[float | None], position: int) -> tuple[str | None, float | None]:
    """How many times slower than ours, as text and as a number (a lower bound if the time ran out)."""
    if "seconds" not in record or ours[position] is None:
        return None, None
    value, note = record["seconds"][position], record["notes"][position]
    at_least = value is None
    if at_least:
        if not note.startswith(">"):
            return None, None
        value = float(note.split()[1])
    return times(value / ours[position], at_least=at_least), value / ours[position]
