"""Joint refinement: cycle over the components against the residual of the others.

The greedy components minimise one rank-one objective after another. Together they are judged by the
joint objective of docs/method.md section 5.3,

    J(U, V) = 1/(2N) ||X - sum_k u_k v_k'||_F^2 + sum_k { l1 ||v_k||_1 + ltv s(v_k) },

whose block for one component is its rank-one problem on the residual R_k of the others, with the l2
that the loss itself supplies, ``1/(2N)``. A ridge of its own would reward components that repeat each
other; it only ever sets a loading's length. Every step lowers J, or leaves it where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from spcatv.data.centred import CentredMatrix, ResidualMatrix
from spcatv.decomposition.alternation import Component, PenaltyModel, alternate
from spcatv.solvers import Solver

# A block is solved again when its gap is above half of the tolerance, and then to a tenth of it, so that
# it stays within the tolerance while the others move on.
BLOCK_LIMIT = 0.5
BLOCK_SHARE = 0.1


@dataclass(frozen=True, eq=False)
class Refinement:
    """What joint refinement reached.

    Attributes
    ----------
    components : tuple of Component
        The refined components; the gap of each is for the residual of the others as they ended.
    objectives : tuple of float
        Joint objective J at the start and after every cycle; never increases.
    n_cycles : int
        Cycles over all components.
    converged : bool
        Whether every component is certified for the others as they ended.
    """

    components: tuple[Component, ...]
    objectives: tuple[float, ...]
    n_cycles: int
    converged: bool


def refine_components(
    matrix: CentredMatrix,
    model: PenaltyModel,
    components: Sequence[Component],
    *,
    method: str | Solver,
    dtype: npt.DTypeLike,
    tol: float,
    max_iter: int,
) -> Refinement:
    """Cycle over greedy components until each is certified for the residual of the others.

    Parameters
    ----------
    matrix : CentredMatrix
        The data, N x P.
    model : PenaltyModel
        The penalty the components were fitted with.
    components : sequence of Component
        Greedy components, in order.
    method, dtype, tol, max_iter
        As in `alternate`.

    Returns
    -------
    Refinement
    """
    block_l2 = 0.5 / matrix.shape[0]
    block_model = replace(model, weights=replace(model.weights, l2=block_l2))
    # the same direction is optimal for another l2, at another length (docs/method.md section 1.3)
    blocks = [replace(c, v=model.weights.l2 / block_l2 * c.v) for c in components]
    objectives = [joint_objective(matrix, model, blocks)]
    solver = block_model.solver(method, dtype)
    converged, n_cycles = False, 0
    while not converged and n_cycles < max_iter:
        n_cycles += 1
        converged = True
        for k, block in enumerate(blocks):
            if block.is_null:
                continue
            residual = _residual_of_others(matrix, blocks, k)
            blocks[k] = _certify(residual, block_model, block, BLOCK_LIMIT * tol)
            if blocks[k].converged:
                continue
            converged = False
            solver.restart_from(block.v, block.alpha)
            after = alternate(
                residual,
                block_model,
                blocks[k].u,
                solver=solver,
                tol=BLOCK_SHARE * tol,
                max_iter=max_iter,
            )
            if after.objective <= blocks[k].objective:
                blocks[k] = _continued(after, block)
            else:
                # the loading was as good as it gets: what it lacked was the dual variable to show it
                shown = replace(blocks[k], alpha=after.alpha)
                blocks[k] = _certify(residual, block_model, shown, BLOCK_LIMIT * tol)
        objectives.append(joint_objective(matrix, model, blocks))
        if objectives[-1] >= objectives[-2]:
            # what is left is inexactness within the certificates
            break
    final = [
        block if block.is_null else _certify(_residual_of_others(matrix, blocks, k), block_model, block, tol)
        for k, block in enumerate(blocks)
    ]
    return Refinement(
        components=tuple(final),
        objectives=tuple(objectives),
        n_cycles=n_cycles,
        converged=all(block.converged for block in final),
    )


def _residual_of_others(matrix: CentredMatrix, blocks: Sequence[Component], k: int) -> ResidualMatrix:
    others = [block for j, block in enumerate(blocks) if j != k]
    n_rows, n_columns = matrix.shape
    scores = np.array([block.u for block in others]).reshape(-1, n_rows)
    loadings = np.array([block.v for block in others]).reshape(-1, n_columns)
    return ResidualMatrix(matrix, scores, loadings)


def _certify(residual: ResidualMatrix, model: PenaltyModel, block: Component, tol: float) -> Component:
    """The same loading with its best scores on this residual, and the gap that it has there."""
    scores = residual.dot(block.v)
    length = np.linalg.norm(scores)
    u = scores / length if length > 0 else block.u
    problem = model.problem(residual, u)
    gap, scale = problem.gap(block.v, block.alpha), problem.scale()
    objective = model.weights.l2 * (problem.value(block.v) - scale)
    return replace(
        block,
        u=u,
        scores_norm=float(length),
        gap=gap,
        scale=scale,
        objective=objective,
        converged=bool(gap <= tol * scale),
    )


def _continued(after: Component, before: Component) -> Component:
    return replace(
        after,
        objectives=before.objectives + after.objectives,
        inexactness=before.inexactness + after.inexactness,
        n_inner_iter=before.n_inner_iter + after.n_inner_iter,
    )


def joint_objective(matrix: CentredMatrix, model: PenaltyModel, blocks: Sequence[Component]) -> float:
    """``J(U, V)`` of docs/method.md section 5.3."""
    n_rows, n_columns = matrix.shape
    scores = np.array([block.u for block in blocks]).reshape(-1, n_rows)
    loadings = np.array([block.v for block in blocks]).reshape(-1, n_columns)
    loss = ResidualMatrix(matrix, scores, loadings).squared_norm() / (2 * n_rows)
    without_ridge = replace(model, weights=replace(model.weights, l2=0.0))
    return loss + sum(without_ridge.value(block.v) for block in blocks)
