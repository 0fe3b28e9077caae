"""One component, from the best of several starts or from a warm start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from spcatv._util.devices import to_host
from spcatv._util.types import FloatArray
from spcatv.data import Products
from spcatv.data.sketch import CompressedData
from spcatv.decomposition.alternation import Limits, alternate
from spcatv.decomposition.checkpoint import Recall, make_anew
from spcatv.decomposition.component import Component
from spcatv.decomposition.constrained import alternate_to_sparsity
from spcatv.decomposition.warm_start import ComponentStart
from spcatv.decomposition.weights import TARGET_L2, Request, SparsityTarget
from spcatv.problem import as_penalty
from spcatv.solvers.pdhg import WARM_TAU, WarmSolver
from spcatv.structure import Structure

# On a path, the first v-step need not beat the error that its predecessor made when its scores changed.
LOSS_SHARE = 0.5
# A row of the operator is a difference if its entries sum to no more than this share of their sizes.
ROUNDING = 1e-12


def component_from(
    data: Products,
    request: Request,
    scores: FloatArray,
    limits: Limits,
    *,
    solver: WarmSolver,
    sketch: CompressedData | None = None,
) -> Component:
    """Alternate from unit scores (N,)."""
    if isinstance(request, SparsityTarget):
        return alternate_to_sparsity(data, request, scores, limits, solver=solver, sketch=sketch)
    return alternate(data, request, scores, limits, solver=solver, sketch=sketch)


def continued_component(
    data: Products, request: Request, start: ComponentStart, limits: Limits, *, solver: WarmSolver
) -> Component:
    """Alternate from a component that was fitted with other weights, or to another sparsity.

    That is done on all data: a sketch does not hold these scores, and weak components live on paths only.
    """
    if isinstance(request, SparsityTarget):
        return alternate_to_sparsity(data, request, start, limits, solver=solver)
    v = np.maximum(start.v, 0.0) if request.positive else start.v
    solver.restart_from(v, start.dual, tau=WARM_TAU)
    problem = request.problem_at(start.y)
    return alternate(data, request, problem, limits, solver=solver, first_gap=LOSS_SHARE * start.loss)


def best_component(
    data: Products,
    request: Request,
    starts: Sequence[FloatArray],
    limits: Limits,
    *,
    solver: WarmSolver,
    sketch: CompressedData | None = None,
    recall: Recall = make_anew,
) -> Component:
    """Alternate from every start coarsely, and from the best of them to the full tolerance.

    A start is unit scores (N,). The best has the lowest penalised objective. A start that the penalty kills
    at once counts as objective 0, so that any other beats it; the component is empty if all of them are.
    Among components of the same sparsity, see `_merit`. With a sketch, on which alternations are
    cheap, starts are compared there. Without one, `recall` may know what a start led to.
    """
    if len(starts) == 1:
        solver.restart()
        return component_from(data, request, starts[0], limits, solver=solver, sketch=sketch)
    tried = []
    for number, start in enumerate(starts):
        solver.restart()
        try_out = partial(component_from, sketch or data, request, start, limits.coarse(), solver=solver)
        tried.append(try_out() if sketch else recall(f"start-{number}", try_out))
    if isinstance(request, SparsityTarget):
        # one weight for all starts: that of the strongest map
        tv = max(component.weights.tv for component in tried)
        lacking = request.structure.cached(_lacking_differences)
        best = max(tried, key=lambda component: _merit(component, request, tv, lacking, data.shape[0]))
    else:
        best = min(tried, key=lambda component: component.objective)
    if best.is_empty:
        return best
    solver.restart_from(best.v, best.dual)
    final = component_from(data, request, best.u, limits, solver=solver, sketch=sketch)
    return replace(
        final,
        n_inner_iter=final.n_inner_iter + sum(c.n_inner_iter for c in tried),
        n_passes=final.n_passes + (0 if sketch else sum(c.n_passes for c in tried)),
    )


def _merit(
    component: Component, target: SparsityTarget, tv: float, lacking: FloatArray, n_samples: int
) -> float:
    """``||X v|| / N - tv (s(v) + b(v))`` for the unit loading v, or its counterpart of a quadratic penalty.

    Both are those of docs/method.md section 4.2.

    Components of the same sparsity differ in what they explain and in how rough they are. The first
    alone would prefer a patch of noise to a weak region. ``b(v) = sum_j b_j |v_j|`` (``b_j v_j^2`` for a
    quadratic penalty) is the part of the outline of regions that s does not count (`_lacking_differences`):
    without it a patch of noise at the border, or in a corner, would be preferred. An empty component has
    minus infinity.
    """
    if component.is_empty:
        return -np.inf
    length = float(np.linalg.norm(component.v))
    explained = component.scores_norm / (length * n_samples)
    unit = np.abs(to_host(component.v)) / length
    penalty = target.with_weights(0.0, tv, component.smoothness_unit / length)
    rough = penalty.value(component.v / length)  # with l2, which is the same for all
    if as_penalty(target.penalty).quadratic:
        return explained / math.sqrt((rough + tv * float(lacking @ unit**2)) / TARGET_L2)
    return explained - rough - tv * float(lacking @ unit)


def _lacking_differences(structure: Structure) -> FloatArray:
    """Return the number of neighbours that every feature lacks beside the median, shape (P,).

    Differences are the rows of A that sum to zero. Feature j has the weight ``c_j = sum_i |A_ij|`` in them,
    and lacks ``median(c) - c_j`` if that is positive, as at the border of an image, a mask or a mesh. A
    feature without any difference lacks none.
    """
    weights = abs(structure.matrix)
    differences = np.abs(structure.matrix.sum(axis=1)) <= ROUNDING * weights.sum(axis=1)
    taken = weights.T @ differences.astype(np.float64)
    if not taken.any():
        return taken
    return np.where(taken > 0, np.maximum(np.median(taken[taken > 0]) - taken, 0.0), 0.0)
