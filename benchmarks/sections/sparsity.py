"""Components of a wanted sparsity against the penalised model at the same weights, and at the same zeros."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.cases import REAL, SIMULATED, prepare_or_skip
from benchmarks.options import TOL, Options
from benchmarks.tables import each, markdown, seconds, times
from spcatv import SPCATV
from spcatv.data import CentredData, as_data
from spcatv.decomposition import Decomposition, LoadingPenalty, Plan, Weights, decompose

TITLE = "A wanted sparsity"
N_COMPONENTS = 3
SPARSITIES = (0.5, 0.7, 0.9)
# The penalised model gets the same zeros by an l1 weight between these multiples of the one found, which is
# looked for by halving that range so often.
FACTORS, N_HALVINGS = (0.5, 4.0), 7


def run(options: Options) -> Iterator[dict[str, Any]]:
    """All data sets, one thread; minima of interleaved repeats."""
    rows = []
    for recipe in SIMULATED + REAL:
        case = prepare_or_skip(recipe, options)
        if isinstance(case, str):
            continue
        X = np.load(case.path).astype(np.float32)
        case.path.unlink()
        for sparsity in SPARSITIES:
            rows.append(
                {"title": case.title, "sparsity": sparsity} | _compared(X, case.structure, sparsity, options)
            )
            yield {"rows": rows}


def _compared(X: np.ndarray, structure: Any, sparsity: float, options: Options) -> dict[str, Any]:
    """Seconds of processor time of both fits, and what they reached."""
    wanted, fixed, alike = [], [], []
    with_zeros: list[Weights] = []
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        for _ in range(options.repeats):
            started = time.process_time()
            model = SPCATV(
                N_COMPONENTS, structure=structure, sparsity=sparsity, tol=TOL, method="deflation"
            ).fit(X)
            wanted.append(time.process_time() - started)
            found = zip(model.l1_, model.l2_, model.tv_, strict=True)
            weights = [Weights(*map(float, of_one)) for of_one in found]
            with_zeros = with_zeros or _weights_with_zeros(X, structure, model, weights)
            started = time.process_time()
            at_weights = _penalised(X, structure, weights)
            fixed.append(time.process_time() - started)
            started = time.process_time()
            at_zeros = _penalised(X, structure, with_zeros)
            alike.append(time.process_time() - started)
    return {
        "wanted": min(wanted),
        "fixed": min(fixed),
        "alike": min(alike),
        "gaps": [record.relative_gap for record in model.diagnostics_],
        "zeros": [record.sparsity for record in model.diagnostics_],
        "fixed_zeros": [record.sparsity for record in at_weights.diagnostics],
        "alike_zeros": [record.sparsity for record in at_zeros.diagnostics],
    }


def _penalised(X: np.ndarray, structure: Any, weights: list[Weights]) -> Decomposition:
    """The penalised model with weights of every component."""
    penalties = [LoadingPenalty(structure, of_one) for of_one in weights]
    plan = Plan(tol=TOL, max_iter=500, method="auto", dtype=np.float32, init="svd", n_init=1, joint=False)
    return decompose(CentredData(as_data(X)), penalties, plan, rng=np.random.RandomState(0))


def _weights_with_zeros(X: np.ndarray, structure: Any, model: SPCATV, found: list[Weights]) -> list[Weights]:
    """Weights with which the penalised model has the zeros of another fit, as nearly as l1 can give them."""
    chosen: list[Weights] = []
    for record, weights in zip(model.diagnostics_, found, strict=True):
        low, high = FACTORS
        trials = []
        for _ in range(N_HALVINGS):
            factor = np.sqrt(low * high)
            trial = replace(weights, l1=factor * weights.l1)
            zeros = _penalised(X, structure, [*chosen, trial]).diagnostics[-1].sparsity
            trials.append((abs(zeros - record.sparsity), len(trials), trial))
            low, high = (factor, high) if zeros < record.sparsity else (low, factor)
        chosen.append(min(trials)[-1])
    return chosen


def table(result: dict[str, Any]) -> str:
    """One row per data set and share of zeros."""
    header = ["data", "wanted", "zeros", "seconds", "relative gaps"]
    header += ["penalised, same weights", "zeros", "ratio", "penalised, same zeros", "zeros", "ratio"]
    rows = [
        [
            row["title"],
            f"{row['sparsity']:.0%}",
            each(row["zeros"], ".2f"),
            seconds(row["wanted"]),
            each(row["gaps"], ".1e"),
            seconds(row["fixed"]),
            each(row["fixed_zeros"], ".2f"),
            times(row["wanted"] / row["fixed"]),
            seconds(row["alike"]),
            each(row["alike_zeros"], ".2f"),
            times(row["wanted"] / row["alike"]),
        ]
        for row in result["rows"]
    ]
    about = f"K = {N_COMPONENTS}, float32, relative gap {TOL:g}, one thread, processor time. "
    about += (
        "The penalised model has the l1 and tv of every component that were found, or another l1 that gives "
    )
    about += "it the same zeros, as nearly as there is one: with a little more, a component may be dead."
    return f"{about}\n\n{markdown(header, rows)}"
