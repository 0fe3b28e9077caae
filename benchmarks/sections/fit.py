"""Fits of three components on every data set, beside other packages."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from benchmarks.cases import REAL, SIMULATED, Case, prepare_or_skip, volume
from benchmarks.options import Options
from benchmarks.peers import PEERS, Peer, make_spcatv
from benchmarks.tables import limit_of
from benchmarks.worker import Entrant, Worker, interleave

TITLE = "Fits of three components, two threads unless named otherwise"
OURS, ONE_THREAD, JOINT, DEFLATION, PRECISE = (
    *("spcatv", "spcatv, one thread", "spcatv, 70 % zeros, joint"),
    *("spcatv, 70 % zeros, deflation", "spcatv, float64 to 1e-9"),
)
ZEROS = {"alpha": None, "sparsity": 0.7, "penalty_units": "relative"}
# Parameters of our fits beside `benchmarks.options.SETTING`.
REQUESTS: dict[str, dict[str, Any]] = {
    OURS: {},
    ONE_THREAD: {},
    JOINT: ZEROS | {"method": "joint"},
    DEFLATION: ZEROS | {"method": "deflation"},
    PRECISE: {"tol": 1e-9},
}
# Seconds that a slow peer may take on data for which nothing is promised.
SHORT_LIMIT = 20.0
KEPT = ("peak", "n_alternations", "n_inner_iter", "gaps", "zeros")


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Run all data sets, one after the other."""
    for recipe in (volume,) if options.quick else (*SIMULATED, *REAL):
        case = prepare_or_skip(recipe, options)
        if isinstance(case, str):
            yield {"data": recipe.__name__, "method": OURS, "seconds": None, "note": case}
            continue
        yield from race(case, options)
        case.path.unlink()


def race(case: Case, options: Options) -> Iterator[dict[str, Any]]:
    """Run our fits and the peers in turn, then let the judge score our fit."""
    slow_limit = options.limit if case.name == "volume" else min(SHORT_LIMIT, options.limit)
    ours = Worker(make_spcatv, case, threads=2)
    entrants = [Entrant(name, ours, (REQUESTS[name],)) for name in (OURS, JOINT, DEFLATION)]
    entrants.append(Entrant(ONE_THREAD, Worker(make_spcatv, case, threads=1), (REQUESTS[ONE_THREAD],)))
    if case.name == "volume" and not options.quick:
        worker = Worker(make_spcatv, case, "float64", threads=2)
        entrants.append(Entrant(PRECISE, worker, (REQUESTS[PRECISE],)))
    for peer in PEERS:
        if applies(peer, case) and not (peer.slow and options.quick):
            limit = slow_limit if peer.slow else 600.0
            worker = Worker(partial(peer.make, case), threads=2)
            entrants.append(Entrant(peer.name, worker, limit=limit, optional=True))
    interleave(entrants, options.repeats)
    judged = ours.call({}, True)
    for entrant in entrants:
        entrant.worker.close()
    reference = entrants[0].seconds
    for entrant in entrants:
        taken = entrant.seconds
        compared = limit_of(entrant.note) if taken is None else taken
        first = entrant.runs[0] if entrant.runs else {}
        yield {
            "data": case.title,
            "method": entrant.name,
            "seconds": taken,
            "note": entrant.note,
            "processor": min((run["processor"] for run in entrant.runs), default=None),
            "ratio": None if compared is None else compared / reference,
            "first": first.get("seconds"),  # builds what the structure keeps; also gives the peak memory
            **{name: first.get(name) for name in KEPT},
            "judged": judged if entrant.name == OURS else None,
        }


def applies(peer: Peer, case: Case) -> bool:
    """Return whether a peer is installed and takes this kind of data."""
    return peer.is_installed and (peer.module != "parsimony" or case.mask is not None)
