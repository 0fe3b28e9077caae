"""The closed form of the loading problem without a structured penalty (docs/method.md section 3.1)."""

from __future__ import annotations

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.problem import LoadingProblem
from spcatv.solvers.base import Monitor, Solution


def closed_form(
    problem: LoadingProblem,
    *,
    tol: float = 1e-6,
    max_iter: int = 1,
    v0: FloatArray | None = None,
    alpha0: FloatArray | None = None,
    **options: object,
) -> Solution:
    """Solve a loading problem that has no structured penalty: ``v = S(y, k) / 2``, gap 0, ``alpha = 0``.

    The problem has ``tv = 0``, or an operator that is zero or has no rows. The other arguments belong to the
    common interface of `spcatv.solvers.solve`, and are ignored.
    """
    if not isinstance(problem, LoadingProblem):
        raise ValueError(
            f"closed_form solves a LoadingProblem, not a {type(problem).__name__}; use 'conesta' or 'fista'"
        )
    if problem.has_structure:
        raise ValueError(
            f"closed_form needs a problem without structured penalty, but tv is {problem.tv:g} and the "
            f"structure has {problem.structure.n_rows} rows; use method='auto'"
        )
    monitor = Monitor(problem, "closed_form", tol)
    dual = np.zeros(problem.structure.n_rows)
    monitor.look(1, problem.minimizer(dual), dual)
    return monitor.finish(n_iter=1)
