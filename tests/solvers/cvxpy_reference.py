"""A conic solver's answer to a loading problem: slow, accurate, and written without any of our code."""

import warnings

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13, "max_iter": 200}


def structured_penalty(structure, v):
    """``sum_g ||A_g v||_2`` as a cvxpy expression: groups padded to one width, so that it is one norm."""
    sizes = np.diff(structure.group_ptr)
    width = int(sizes.max())
    group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(structure.n_rows) - structure.group_ptr[:-1][group]
    place = sp.csr_array(
        (np.ones(structure.n_rows), (group * width + within, np.arange(structure.n_rows))),
        shape=(len(sizes) * width, structure.n_rows),
    )
    rows = cp.reshape(sp.csr_matrix(place @ structure.matrix) @ v, (len(sizes), width), order="C")
    return cp.sum(cp.norm(rows, 2, axis=1))


def minimise(problem):
    """Return (v, value) of a LoadingProblem by CLARABEL."""
    v = cp.Variable(problem.y.size)
    objective = 0.5 * cp.sum_squares(v - problem.y) + 0.5 * cp.sum_squares(v)
    if problem.l1 > 0:
        objective += problem.l1 * cp.norm1(v)
    if problem.tv > 0:
        if problem.penalty == "graphnet":
            objective += problem.tv * cp.sum_squares(sp.csr_matrix(problem.structure.matrix) @ v)
        else:
            objective += problem.tv * structured_penalty(problem.structure, v)
    conic = cp.Problem(cp.Minimize(objective), [v >= 0] if problem.positive else [])
    with warnings.catch_warnings():
        # more digits are asked for than it can promise; the callers know what it delivers
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        conic.solve(solver=cp.CLARABEL, **TIGHT)
    assert conic.status in ("optimal", "optimal_inaccurate"), conic.status
    return np.asarray(v.value), float(conic.value)
