"""The answer of a conic solver to a loading problem: slow, accurate, and independent of the package."""

import warnings

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from spcatv.problem import HuberTV

TIGHT = {"tol_gap_abs": 1e-13, "tol_gap_rel": 1e-13, "tol_feas": 1e-13, "max_iter": 200}


def padded_rows(structure, v):
    """``A v`` as a cvxpy expression with one row per group, padded with zeros to one width."""
    sizes = np.diff(structure.group_ptr)
    width = int(sizes.max())
    group = np.repeat(np.arange(len(sizes)), sizes)
    within = np.arange(structure.n_rows) - structure.group_ptr[:-1][group]
    place = sp.csr_array(
        (np.ones(structure.n_rows), (group * width + within, np.arange(structure.n_rows))),
        shape=(len(sizes) * width, structure.n_rows),
    )
    return cp.reshape(sp.csr_matrix(place @ structure.matrix) @ v, (len(sizes), width), order="C")


def structured_penalty(problem, v):
    """``h(A v)`` as a cvxpy expression, which may hold variables of its own."""
    if problem.penalty == "graphnet":
        return cp.sum_squares(sp.csr_matrix(problem.structure.matrix) @ v)
    rows = padded_rows(problem.structure, v)
    if isinstance(problem.penalty, HuberTV):
        # a Huber function is the least of jump + ripple^2 / (2 delta); cp.huber of a norm costs digits
        jumps = cp.Variable(rows.shape)
        ripples = cp.sum_squares(rows - jumps) / (2 * problem.penalty.delta)
        return cp.sum(cp.norm(jumps, 2, axis=1)) + ripples
    assert problem.penalty == "tv"
    return cp.sum(cp.norm(rows, 2, axis=1))


def minimise(problem):
    """Return (v, value) of a LoadingProblem by CLARABEL."""
    v = cp.Variable(problem.y.size)
    objective = 0.5 * cp.sum_squares(v - problem.y) + 0.5 * cp.sum_squares(v)
    if problem.l1 > 0:
        objective += problem.l1 * cp.norm1(v)
    if problem.tv > 0:
        objective += problem.tv * structured_penalty(problem, v)
    conic = cp.Problem(cp.Minimize(objective), [v >= 0] if problem.positive else [])
    with warnings.catch_warnings():
        # more digits are asked for than it can promise; the callers know what it delivers
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        conic.solve(solver=cp.CLARABEL, **TIGHT)
    assert conic.status in ("optimal", "optimal_inaccurate"), conic.status
    return np.asarray(v.value), float(conic.value)
