"""Three certified components on every data set, compared with fits of other packages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.cases import REAL, SIMULATED, Case, prepare_or_skip, surface100, volume
from benchmarks.options import Options
from benchmarks.peers import PEERS, Peer, make_spcatv
from benchmarks.tables import each, limit_of, markdown, seconds, times
from benchmarks.worker import Entrant, Worker, interleave

TITLE = "Fits of three components"
OURS, OURS_ONE, OURS_DEFAULT = "spcatv", "spcatv, one thread", "spcatv, default penalty"
THREADS = {OURS: 2, OURS_ONE: 1}
# The usual penalty of the penalised model, in units of the data.
DEFAULT_PENALTY = {"alpha": 0.2, "penalty_units": "relative"}
PEER_THREADS = 2
# Time limit of a slow peer, in seconds, on data for which nothing is promised.
SHORT_LIMIT = 20.0


def run(options: Options) -> Iterator[dict[str, Any]]:
    """All data sets, one after the other."""
    recipes = (volume, surface100) if options.quick else (*SIMULATED, *REAL)
    result: dict[str, Any] = {
        "missing": {peer.name: peer.install for peer in PEERS if not peer.is_installed},
        "threads": {**THREADS, "peers": PEER_THREADS},
        "cases": {},
    }
    for recipe in recipes:
        case = prepare_or_skip(recipe, options)
        name = recipe.__name__
        result["cases"][name] = {"skipped": case} if isinstance(case, str) else race(case, options)
        if not isinstance(case, str):
            case.path.unlink()
        yield result


def applies(peer: Peer, case: Case) -> bool:
    """Whether a peer is installed and takes this kind of data."""
    return peer.is_installed and (peer.module != "parsimony" or case.mask is not None)


def race(case: Case, options: Options) -> dict[str, Any]:
    """Run ours and the peers in turn, then let the judge score our last fit."""
    slow_limit = options.limit if case.name == "volume" else min(SHORT_LIMIT, options.limit)
    makers = {name: (partial(make_spcatv, case), n, 600.0) for name, n in THREADS.items()}
    # a quick run includes the peers once
    for peer in PEERS if not options.quick or case.name == "volume" else ():
        if applies(peer, case):
            limit = slow_limit if peer.slow else 600.0
            makers[peer.name] = (partial(peer.make, case), PEER_THREADS, limit)
    entrants = [
        Entrant(
            name,
            Worker(make, threads=threads),
            request=({},) if name in THREADS else (),
            limit=limit,
            optional=name not in THREADS,
        )
        for name, (make, threads, limit) in makers.items()
    ]
    worker = entrants[0].worker
    entrants.append(Entrant(OURS_DEFAULT, worker, (DEFAULT_PENALTY,)))
    interleave(entrants, options.repeats)
    judged = worker.call({}, True)
    for entrant in entrants:
        entrant.worker.close()
    return {
        "title": case.title,
        "shape": case.shape,
        "judged": judged,
        "methods": {entrant.name: summary(entrant) for entrant in entrants},
    }


def summary(entrant: Entrant) -> dict[str, Any]:
    """The fastest run; the first one gives the peak memory, as it also builds the structure's operator."""
    if not entrant.runs:
        return {"seconds": None, "note": entrant.note}
    first = entrant.runs[0]
    return {
        **first,
        "seconds": entrant.seconds,
        "first_seconds": first["seconds"],
        "all_seconds": [run["seconds"] for run in entrant.runs],
        "note": entrant.note,
    }


def table(result: dict[str, Any]) -> str:
    """Seconds and ratios of all methods, then details of our fits."""
    parts = [ratio_table(result), own_table(result), memory_table(result)]
    if result["missing"]:
        missing = "; ".join(f"{name} (`{install}`)" for name, install in result["missing"].items())
        parts.append(f"Missing peers: {missing}.")
    skipped = [f"{name}: {c['skipped']}" for name, c in result["cases"].items() if "skipped" in c]
    if skipped:
        parts.append(f"Left out: {'; '.join(skipped)}.")
    return "\n\n".join(parts)


def _measured(result: dict[str, Any]) -> list[dict[str, Any]]:
    return [case for case in result["cases"].values() if "skipped" not in case]


def ratio_table(result: dict[str, Any]) -> str:
    """Seconds, and in brackets the ratio to our fit (above 1: ours is faster)."""
    names = [OURS, OURS_ONE, OURS_DEFAULT, *(peer.name for peer in PEERS if peer.is_installed)]
    rows = []
    for case in _measured(result):
        ours = case["methods"][OURS]["seconds"]
        cells = []
        for name in names:
            record = case["methods"].get(name)
            if record is None:
                cells.append(None)
                continue
            value, bound = record["seconds"], limit_of(record["note"])
            text = seconds(value, record["note"])
            compared = value if value is not None else bound
            if name not in (OURS, OURS_ONE, OURS_DEFAULT) and compared is not None:
                text += f" ({times(compared / ours, at_least=value is None)})"
            cells.append(text)
        rows.append([case["title"], *cells])
    return markdown(["data", *names], rows)


def own_table(result: dict[str, Any]) -> str:
    """Iterations, certificates and sparsity of our fits."""
    header = [
        *("data", "alternations", "inner iterations", "relative gaps", "gaps found by the judge"),
        *("zeros", "zeros, default penalty", "first fit, structure new"),
    ]
    rows = []
    for case in _measured(result):
        record = case["methods"][OURS]
        rows.append(
            [
                case["title"],
                each(record["n_alternations"], "d"),
                each(record["n_inner_iter"], "d"),
                each(record["relative_gap"], ".1e"),
                each(case["judged"], ".1e"),
                each(record["sparsity"], ".0%"),
                each(case["methods"][OURS_DEFAULT]["sparsity"], ".0%"),
                seconds(record["first_seconds"]),
            ]
        )
    return markdown(header, rows)


def memory_table(result: dict[str, Any]) -> str:
    """Peak memory beyond X, as a multiple of X."""
    names = [OURS, *(peer.name for peer in PEERS if peer.is_installed)]
    rows = []
    for case in _measured(result):
        records = [case["methods"].get(name) or {} for name in names]
        rows.append([case["title"], *(f"{r['peak']:.2f}" if "peak" in r else None for r in records)])
    return "Peak memory beyond X, in units of X:\n\n" + markdown(["data", *names], rows)
