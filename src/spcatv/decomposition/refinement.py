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

from spcatv.data import CentredData, ResidualData
from spcatv.decomposition.alternation import Limits, alternate
from spcatv.decomposition.component import Component
from spcatv.decomposition.constrained import alternate_to_sparsity
from spcatv.decomposition.continuation import ComponentStart
from spcatv.decomposition.penalty import LoadingPenalty
from spcatv.decomposition.target import TARGET_L2, SparsityTarget
from spcatv.solvers import Solver

# A block is solved again when its gap is above half of the tolerance, and then to a tenth of it, so that
# it stays within the tolerance while the others move on.
BLOCK_LIMIT = 0.5
BLOCK_SHARE = 0.1
# Components of a wanted sparsity have no joint objective that falls: most cycles for them.
MOST_CYCLES = 50


@dataclass(frozen=True, eq=False)
class Refinement:
    """What joint refinement reached."""

    # the refined components; the gap of each is for the residual of the others as they ended
    components: tuple[Component, ...]
    objectives: tuple[float, ...]  # joint objective J at the start and after every cycle; never increases
    n_cycles: int  # cycles over all components
    converged: bool  # whether every component is certified for the others as they ended

    def in_units(self, unit: float) -> Refinement:
        """The same for data that are `unit` times larger."""
        return replace(
            self,
            components=tuple(component.in_units(unit) for component in self.components),
            objectives=tuple(unit**2 * value for value in self.objectives),
        )


def refine_components(
    data: CentredData,
    penalties: Sequence[LoadingPenalty],
    components: Sequence[Component],
    *,
    limits: Limits,
    method: str | Solver,
    dtype: npt.DTypeLike,
) -> Refinement:
    """Cycle over greedy components until each is certified for the residual of the others.

    The components come in order, with their warm starts and the penalties that they were fitted with. The
    `max_iter` of the limits also bounds the cycles.
    """
    block_l2 = 0.5 / data.shape[0]
    tol = limits.tol
    # the same direction is optimal for another l2, at another length (docs/method.md section 1.3)
    blocks = [
        replace(c, v=p.weights.l2 / block_l2 * c.v) for c, p in zip(components, penalties, strict=False)
    ]
    block_penalties = [replace(p, weights=replace(p.weights, l2=block_l2)) for p in penalties[: len(blocks)]]
    solvers = {p.weights: p.solver(method, dtype) for p in block_penalties}
    objectives = [joint_objective(data, block_penalties, blocks)]
    converged, n_cycles = False, 0
    while not converged and n_cycles < limits.max_iter:
        n_cycles += 1
        converged = True
        for k, (block, penalty) in enumerate(zip(blocks, block_penalties, strict=True)):
            if block.is_null:
                continue
            residual = _residual_of_others(data, blocks, k)
            blocks[k] = _certify(residual, penalty, block, BLOCK_LIMIT * tol)
            if blocks[k].converged:
                continue
            converged = False
            solver = solvers[penalty.weights]
            solver.restart_from(block.v, block.dual)
            block_limits = replace(limits, tol=BLOCK_SHARE * tol)
            after = alternate(residual, penalty, blocks[k].u, block_limits, solver=solver)
            if after.objective <= blocks[k].objective:
                blocks[k] = _continued(after, block)
            else:
                # the loading was as good as it gets: what it lacked was the dual variable to show it
                shown = replace(blocks[k], dual=after.dual)
                blocks[k] = _certify(residual, penalty, shown, BLOCK_LIMIT * tol)
        objectives.append(joint_objective(data, block_penalties, blocks))
        if objectives[-1] >= objectives[-2]:
            # what is left is inexactness within the certificates
            break
    final = [
        block if block.is_null else _certify(_residual_of_others(data, blocks, k), penalty, block, tol)
        for k, (block, penalty) in enumerate(zip(blocks, block_penalties, strict=True))
    ]
    return Refinement(
        components=tuple(final),
        objectives=tuple(objectives),
        n_cycles=n_cycles,
        converged=all(block.converged for block in final),
    )


def refine_to_sparsity(
    data: CentredData,
    targets: Sequence[SparsityTarget],
    components: Sequence[Component],
    *,
    limits: Limits,
    method: str | Solver,
    dtype: npt.DTypeLike,
) -> Refinement:
    """Cycle over components of a wanted sparsity, each fitted anew to the residual of the others.

    As `refine_components`, with the targets that the components were fitted to. Ends when all of them are
    certified as they stand. The share of zeros stays as wanted; no objective falls from one cycle to the
    next, and the one that is recorded is J for the weights of that moment.
    """
    n_samples = data.shape[0]
    # the loss sets the length of a loading: v = S(z, l) for z in units of X'u, not of X'u / N
    blocks = [replace(c, v=n_samples * c.v) for c in components]
    targets = [
        replace(t, smoothness=c.smoothness or 0.0, asked_smoothness=t.smoothness)
        for t, c in zip(targets, components, strict=False)
    ]
    solver = targets[0].solver(method, dtype)
    limits = replace(limits, keep_warm_start=True)

    def objective() -> float:
        penalties = [
            t.with_weights(c.weights.l1, c.weights.tv, n_samples * c.smoothness_unit)
            for t, c in zip(targets, blocks, strict=True)
        ]
        return joint_objective(data, penalties, blocks)

    objectives = [objective()]
    converged, n_cycles = False, 0
    while not converged and n_cycles < min(MOST_CYCLES, limits.max_iter):
        n_cycles += 1
        converged = True
        for k, (block, target) in enumerate(zip(blocks, targets, strict=True)):
            if block.is_null:
                continue
            residual = _residual_of_others(data, blocks, k)
            y = residual.transpose_dot(block.u) / (n_samples * TARGET_L2)
            start = ComponentStart(y, block.v, block.dual, block.first_loss)
            after = alternate_to_sparsity(residual, target, start, limits, solver=solver)
            converged = converged and after.n_alternations == 1 and after.converged
            blocks[k] = _continued(_longer(after, n_samples), block)
        objectives.append(objective())
    return Refinement(tuple(blocks), tuple(objectives), n_cycles, converged)


def _residual_of_others(data: CentredData, blocks: Sequence[Component], k: int) -> ResidualData:
    return _residual(data, [block for j, block in enumerate(blocks) if j != k])


def _residual(data: CentredData, blocks: Sequence[Component]) -> ResidualData:
    nothing = np.zeros_like(data.mean, shape=(0, data.shape[1]))
    scores = np.array([block.u for block in blocks]).reshape(-1, data.shape[0])
    loadings = np.stack([block.v for block in blocks]) if blocks else nothing
    return ResidualData(data, scores, loadings)


def _certify(residual: ResidualData, penalty: LoadingPenalty, block: Component, tol: float) -> Component:
    """The same loading with its best scores on this residual, and the gap that it has there."""
    scores = residual.dot(block.v)
    length = np.linalg.norm(scores)
    u = scores / length if length > 0 else block.u
    problem = penalty.problem(residual, u)
    gap, scale = problem.gap(block.v, block.dual), problem.scale()
    objective = penalty.weights.l2 * (problem.value(block.v) - scale)
    return replace(
        block,
        u=u,
        scores_norm=float(length),
        gap=gap,
        scale=scale,
        objective=objective,
        converged=bool(gap <= tol * scale),
    )


def _longer(component: Component, factor: float) -> Component:
    """The same component of the problem whose l2 is that much smaller, and its loading that much longer."""
    return replace(
        component,
        v=factor * component.v,
        objective=factor * component.objective,
        gap=factor**2 * component.gap,
        scale=factor**2 * component.scale,
    )


def _continued(after: Component, before: Component) -> Component:
    return replace(
        after,
        objectives=before.objectives + after.objectives,
        inexactness=before.inexactness + after.inexactness,
        n_inner_iter=before.n_inner_iter + after.n_inner_iter,
    )


def joint_objective(
    data: CentredData, penalties: Sequence[LoadingPenalty], blocks: Sequence[Component]
) -> float:
    """``J(U, V)`` of docs/method.md section 5.3."""
    loss = _residual(data, blocks).squared_norm() / (2 * data.shape[0])
    without_ridge = [replace(penalty, weights=replace(penalty.weights, l2=0.0)) for penalty in penalties]
    return loss + sum(p.value(block.v) for p, block in zip(without_ridge, blocks, strict=True))
