"""Fits of three components on every data set, beside scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.cases import REAL, SIMULATED, prepare_or_skip
from benchmarks.options import ZEROS, Options
from benchmarks.peers import PEERS, SLOW, make_peer, make_spcatv
from benchmarks.worker import LIMIT, Entrant, Worker, interleave

TITLE = "Fits of three components, two threads unless named otherwise"
OURS, ONE_THREAD, PRECISE = "spcatv, alpha", "spcatv, one thread", "spcatv, float64 to 1e-9"
JOINT, DEFLATION = "spcatv, 70 % zeros, joint", "spcatv, 70 % zeros, deflation"
COMPARED, ALL = "joint / deflation", "geometric mean"
# Parameters of our fits beside `benchmarks.options.SETTING`.
REQUESTS: dict[str, dict[str, Any]] = {
    OURS: {},
    JOINT: ZEROS | {"method": "joint"},
    DEFLATION: ZEROS | {"method": "deflation"},
}
# Data that the promises are about, and seconds that a slow peer may take on any other data.
PROMISED, SHORT_LIMIT = "volume", 20.0
KEPT = ("peak", "n_alternations", "n_inner_iter", "gaps", "zeros")


def run(options: Options) -> Iterator[dict[str, Any]]:
    """Run all data sets, one after the other, then compare joint fits with deflation."""
    taken: dict[tuple[str, str], float] = {}
    for name in (PROMISED,) if options.quick else (*SIMULATED, *REAL):
        for row in race(name, options):
            taken[row["data"], row["method"]] = row["seconds"]
            yield row
    ratios = {data: taken[data, JOINT] / taken[data, DEFLATION] for data, method in taken if method == JOINT}
    for data, ratio in {**ratios, ALL: float(np.exp(np.mean(np.log(list(ratios.values())))))}.items():
        yield {"data": data, "method": COMPARED, COMPARED: ratio}


def race(name: str, options: Options) -> Iterator[dict[str, Any]]:
    """Run our fits and the peers in turn, then let the judge score our fit."""
    case = prepare_or_skip(name, options)
    if isinstance(case, str):
        yield {"data": name, "method": OURS, "seconds": None, "note": case}
        return
    slow_limit = options.limit if name == PROMISED else min(SHORT_LIMIT, options.limit)
    ours = Worker(make_spcatv, case, threads=2)
    entrants = [Entrant(title, ours, (request,)) for title, request in REQUESTS.items()]
    entrants.append(Entrant(ONE_THREAD, Worker(make_spcatv, case, threads=1), ({},)))
    if name == PROMISED and not options.quick:
        entrants.append(Entrant(PRECISE, Worker(make_spcatv, case, "float64", threads=2), ({"tol": 1e-9},)))
    for peer in PEERS:
        if not (peer in SLOW and options.quick):
            worker = Worker(make_peer, case, peer, threads=2)
            entrants.append(Entrant(peer, worker, (), slow_limit if peer in SLOW else LIMIT, optional=True))
    interleave(entrants, options.repeats)
    judged = ours.call({}, True)
    for entrant in entrants:
        entrant.worker.close()
    for entrant in entrants:
        taken = entrant.limit if entrant.note.startswith(">") else entrant.seconds
        first = entrant.runs[0] if entrant.runs else {}
        yield {
            "data": case.title,
            "method": entrant.name,
            "seconds": entrant.seconds,
            "note": entrant.note,
            "processor": min((run["processor"] for run in entrant.runs), default=None),
            "ratio": None if taken is None else taken / entrants[0].seconds,
            "first": first.get("seconds"),  # builds what the structure keeps; also gives the peak memory
            **{key: first.get(key) for key in KEPT},
            "judged": judged if entrant.name == OURS else None,
        }
    case.path.unlink()
