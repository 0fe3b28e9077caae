"""Components of a wanted sparsity against the penalised model at the weights that were found for them."""

from __future__ import annotations

import time
import warnings
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


def run(options: Options) -> dict[str, Any]:
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
    return {"rows": rows}


def _compared(X: np.ndarray, structure: Any, sparsity: float, options: Options) -> dict[str, Any]:
    """Seconds of processor time of both fits, and what they reached."""
    wanted, fixed = [], []
    with warnings.catch_warnings(action="ignore"), threadpool_limits(1):
        for _ in range(options.repeats):
            started = time.process_time()
            model = SPCATV(N_COMPONENTS, structure=structure, sparsity=sparsity, tol=TOL).fit(X)
            wanted.append(time.process_time() - started)
            started = time.process_time()
            other = _at_weights(X, structure, model)
            fixed.append(time.process_time() - started)
    return {
        "wanted": min(wanted),
        "fixed": min(fixed),
        "gaps": [record.relative_gap for record in model.diagnostics_],
        "zeros": [record.sparsity for record in model.diagnostics_],
        "fixed_zeros": [record.sparsity for record in other.diagnostics],
    }


def _at_weights(X: np.ndarray, structure: Any, model: SPCATV) -> Decomposition:
    """The penalised model with the weights of every component of another fit."""
    found = zip(model.l1_, model.l2_, model.tv_, strict=True)
    penalties = [LoadingPenalty(structure, Weights(float(l1), float(l2), float(tv))) for l1, l2, tv in found]
    plan = Plan(tol=TOL, max_iter=500, method="auto", dtype=np.float32, init="svd", n_init=1, refine=False)
    return decompose(CentredData(as_data(X)), penalties, plan, rng=np.random.RandomState(0))


def table(result: dict[str, Any]) -> str:
    """One row per data set and share of zeros."""
    header = ["data", "wanted", "zeros", "seconds", "fixed weights", "zeros there", "ratio", "relative gaps"]
    rows = [
        [
            row["title"],
            f"{row['sparsity']:.0%}",
            each(row["zeros"], ".2f"),
            seconds(row["wanted"]),
            seconds(row["fixed"]),
            each(row["fixed_zeros"], ".2f"),
            times(row["wanted"] / row["fixed"]),
            each(row["gaps"], ".1e"),
        ]
        for row in result["rows"]
    ]
    about = f"K = {N_COMPONENTS}, float32, relative gap {TOL:g}, one thread, processor time. "
    about += "Fixed weights are l1 and tv of every component as they were found."
    return f"{about}\n\n{markdown(header, rows)}"
