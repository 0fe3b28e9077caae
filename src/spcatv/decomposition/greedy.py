"""K components: one after the other with deflation, then all together (docs/method.md section 5)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from spcatv._util.types import FloatArray
from spcatv.data.centred import CentredMatrix, DeflatedMatrix, Matrix
from spcatv.decomposition.alternation import (
    Component,
    Neighbour,
    PenaltyModel,
    best_component,
    continued_component,
    null_component,
)
from spcatv.decomposition.refinement import Refinement, refine_components
from spcatv.decomposition.starts import (
    diffused_scores,
    random_scores,
    scores_of_loading,
    singular_scores,
    with_both_signs,
)
from spcatv.kernels.vectors import count_above, weighted_sum
from spcatv.progress import SILENT, ComponentEnded, ComponentStarted, Listener
from spcatv.solvers import Solver
from spcatv.solvers.warm import WarmSolver

Init = Literal["svd", "structured", "random"]
INITS: tuple[Init, ...] = ("svd", "structured", "random")

# A residual with less than this share of the data's squared norm is rounding, not signal.
RANK_FLOOR = 1e-13
# Singular vectors of X, and of X diffused, that init="structured" compares.
STRUCTURED_STARTS = 3
# Where the penalty kills the leading singular vector, this many further ones are tried.
SPARE_STARTS = 2


@dataclass(frozen=True)
class Plan:
    """What to fit and how far: everything but the data and the penalty.

    Attributes
    ----------
    n_components : int
        K.
    tol : float
        Largest duality gap relative to the scale of each loading problem.
    max_iter : int
        Most alternations a component.
    method : str or callable
        Loading solver.
    dtype : dtype
        Working precision of the loading solver.
    init : {"svd", "structured", "random"} or ndarray of shape (K, P)
        Where the alternation starts.
    n_init : int
        Starts compared.
    refine : bool
        Whether the components are refined jointly.
    on_path : bool
        Whether other settings will start from this one, and need its dual variables.
    trail : Trail or None
        Decompositions of the same data with other weights to start from, ahead of `init`.
    """

    n_components: int
    tol: float
    max_iter: int
    method: str | Solver
    dtype: npt.DTypeLike
    init: Init | FloatArray
    n_init: int
    refine: bool
    on_path: bool = False
    trail: Trail | None = None

    @property
    def to_go_on(self) -> bool:
        """Whether anything will start from the components of this fit."""
        return self.refine or self.on_path


@dataclass(frozen=True)
class ComponentDiagnostics:
    """What is known about one fitted component.

    Attributes
    ----------
    objective : float
        Penalised objective ``f(u, v)`` (docs/method.md section 1.2).
    gap, relative_gap : float
        Exact duality gap of the loading vector for its scores, and its share of the scale.
    error_bound : float
        Upper bound on the distance of the unit loading vector to that of the best one for its scores.
    n_alternations, n_inner_iter : int
        Alternations of u and v; iterations of the loading solver in all of them.
    seconds : float
        Wall-clock time.
    converged : bool
        Whether the relative gap is within the tolerance.
    sparsity : float
        Share of the loadings that are exactly zero.
    n_nonzero, n_certain : int
        Loadings that are not zero, and those that are surely not zero in the exact solution for
        these scores (``|v_j| > sqrt(gap)``).
    objectives, inexactness : tuple of float
        Objective after every alternation, and the certified inexactness of its loading vector.
    """

    objective: float
    gap: float
    relative_gap: float
    error_bound: float
    n_alternations: int
    n_inner_iter: int
    seconds: float
    converged: bool
    sparsity: float
    n_nonzero: int
    n_certain: int
    objectives: tuple[float, ...]
    inexactness: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Decomposition:
    """K components of a data matrix.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Unit loading vectors with a deterministic sign; zeros where the penalty killed one.
    singular_values : ndarray of shape (K,)
        Norms of the scores, each after the components before it have been removed.
    diagnostics : tuple of ComponentDiagnostics
        One a component.
    refinement : Refinement or None
        What joint refinement did, if it was asked for.
    greedy : tuple of Component
        The components as the alternation left them, before refinement; unit loadings, without what another
        alternation would start from, unless the plan says that there will be one.
    l2 : float
        The l2 weight, which set their lengths.
    """

    components: FloatArray
    singular_values: FloatArray
    diagnostics: tuple[ComponentDiagnostics, ...]
    refinement: Refinement | None
    greedy: tuple[Component, ...]
    l2: float


@dataclass(frozen=True, eq=False)
class Trail:
    """Where a path of settings has been.

    Attributes
    ----------
    last : Decomposition
        The setting before the present one.
    older : Decomposition or None
        The one before that, if the path runs straight.
    ahead : float
        The step to the present setting over the last step, both in log(alpha).
    """

    last: Decomposition
    older: Decomposition | None = None
    ahead: float = 0.0

    def neighbour(self, number: int, residual: Matrix, model: PenaltyModel) -> Neighbour | None:
        """Where component `number` starts on a residual with other weights; None if it has vanished.

        Straight on through two settings: u and with it X'u, v in the length that l2 gives it, and the dual
        variable all change smoothly along a path.
        """
        if number >= len(self.last.greedy) or self.last.greedy[number].is_null:
            return None
        last, l2 = self.last.greedy[number], model.weights.l2
        before, far = self._before(number)
        older, near = before.greedy[number], 1.0 - far
        u = weighted_sum(near, last.u, far, older.u)
        unit = 1.0 / (model.back_scale(u.size) * float(np.linalg.norm(u)))
        y = weighted_sum(near * unit, last.back, far * unit, older.back)
        residual.add_taken_away(u, -unit, y)
        return Neighbour(
            y=y,
            v=weighted_sum(near * self.last.l2 / l2, last.v, far * before.l2 / l2, older.v),
            alpha=weighted_sum(near, last.alpha, far, older.alpha),
            loss=last.first_loss,
        )

    def _before(self, number: int) -> tuple[Decomposition, float]:
        """The other setting on the line to component `number`, and its weight there."""
        if self.older is not None and number < len(self.older.greedy):
            older = self.older.greedy[number]
            if not older.is_null and older.u @ self.last.greedy[number].u >= 0:
                return self.older, -self.ahead
        return self.last, 0.0


def decompose(
    matrix: CentredMatrix,
    model: PenaltyModel,
    plan: Plan,
    *,
    rng: np.random.RandomState,
    listener: Listener = SILENT,
) -> Decomposition:
    """Fit K components by deflation, refined jointly if the plan says so.

    Parameters
    ----------
    matrix : CentredMatrix
        The data, N x P.
    model : PenaltyModel
        The penalty, the same for all components.
    plan : Plan
        What to fit.
    rng : RandomState
        Source of random starts.
    listener : Listener
        Hears of every component and alternation, and may stop after one of them.

    Returns
    -------
    Decomposition
        With fewer than K components only if the listener stopped it.
    """
    fitted: list[Component] = []
    records: list[ComponentDiagnostics] = []
    deflation = _Deflation(matrix, plan.n_components)
    # one for all components: the memory layout and the step sizes are worth keeping
    solver = model.solver(plan.method, plan.dtype)
    for number in range(plan.n_components):
        started = time.perf_counter()
        listener.hear(ComponentStarted(number + 1, plan.n_components, plan.tol))
        before = fitted[-1] if fitted else None
        component = _fit_one(deflation.residual(), matrix, model, plan, number, before, solver, rng, listener)
        direction = deflation.take(component)
        # a copy of the loading in another length would be as large as all the rest
        fitted.append(component if plan.to_go_on else replace(component, v=direction))
        records.append(_diagnose(component, time.perf_counter() - started))
        del component  # its arrays would stay beside those of the next one
        ended = ComponentEnded(number + 1, plan.n_components, records[-1], deflation.components)
        if listener.hear(ended):
            break
    components, singular_values = deflation.components, np.linalg.norm(deflation.scores, axis=1)
    refinement = None
    if plan.refine:
        refinement = refine_components(
            matrix, model, fitted, method=plan.method, dtype=plan.dtype, tol=plan.tol, max_iter=plan.max_iter
        )
        components = np.stack([unit_loading(component.v) for component in refinement.components])
        singular_values = _score_norms(matrix, components)
        records = [
            replace(
                _diagnose(after, record.seconds), objectives=record.objectives, inexactness=record.inexactness
            )
            for after, record in zip(refinement.components, records, strict=True)
        ]
    return Decomposition(
        components=components,
        singular_values=singular_values,
        diagnostics=tuple(records),
        refinement=refinement,
        greedy=tuple(fitted),
        l2=model.weights.l2,
    )


class _Deflation:
    """Unit loadings and scores taken away so far (docs/method.md section 5.1)."""

    def __init__(self, matrix: CentredMatrix, n_components: int) -> None:
        self._matrix = matrix
        self._n_taken = 0
        self._scores = np.zeros((n_components, matrix.shape[0]))
        self._components = np.zeros((n_components, matrix.shape[1]))

    @property
    def scores(self) -> FloatArray:
        """Scores of the components so far, shape (n, N)."""
        return self._scores[: self._n_taken]

    @property
    def components(self) -> FloatArray:
        """Unit loadings so far, shape (n, P)."""
        return self._components[: self._n_taken]

    def residual(self) -> Matrix:
        """What is left of the data."""
        if self._n_taken == 0:
            return self._matrix
        return DeflatedMatrix(self._matrix, self.scores, self.components)

    def take(self, component: Component) -> FloatArray:
        """Take a component away and return its unit loading.

        Its scores, ``X v`` for the unit v, follow from those that the alternation ended with.
        """
        direction = self._components[self._n_taken]
        unit_loading(component.v, out=direction)
        length = float(component.v @ direction)
        if length != 0:
            self._scores[self._n_taken] = component.scores_norm / length * component.u
        self._n_taken += 1
        return direction


def _fit_one(
    residual: Matrix,
    matrix: CentredMatrix,
    model: PenaltyModel,
    plan: Plan,
    number: int,
    before: Component | None,
    solver: WarmSolver,
    rng: np.random.RandomState,
    listener: Listener,
) -> Component:
    if before is not None and before.is_null and isinstance(plan.init, str) and plan.init != "random":
        # nothing was taken away, and nothing else would be tried
        return before
    nothing_left = residual.squared_norm() <= RANK_FLOOR * matrix.squared_norm()
    if nothing_left or model.weights.l1 * matrix.shape[0] >= matrix.largest_column_norm:
        return null_component(matrix)
    found = _continue_neighbour(residual, model, plan, number, solver, listener)
    if not found.is_null:
        return found
    for starts in _start_rounds(residual, model, plan, number, rng):
        if len(starts) == 0:
            continue
        candidates = with_both_signs(starts) if model.positive else starts
        found = best_component(
            residual,
            model,
            list(candidates),
            solver=solver,
            tol=plan.tol,
            max_iter=plan.max_iter,
            listener=listener,
            to_go_on=plan.to_go_on,
        )
        if not found.is_null:
            break
    return found


def _continue_neighbour(
    residual: Matrix,
    model: PenaltyModel,
    plan: Plan,
    number: int,
    solver: WarmSolver,
    listener: Listener,
) -> Component:
    """The component that the neighbour's leads to; null if there is none to start from."""
    neighbour = None if plan.trail is None else plan.trail.neighbour(number, residual, model)
    if neighbour is None:
        return null_component(residual)
    return continued_component(
        residual,
        model,
        neighbour,
        solver=solver,
        tol=plan.tol,
        max_iter=plan.max_iter,
        listener=listener,
        to_go_on=plan.to_go_on,
    )


def _start_rounds(
    residual: Matrix, model: PenaltyModel, plan: Plan, number: int, rng: np.random.RandomState
) -> list[FloatArray]:
    """Starts to compare, and spare ones for when the penalty kills all of those."""
    if isinstance(plan.init, np.ndarray):
        first = scores_of_loading(residual, plan.init[number])
        if plan.n_init > 1:
            first = np.concatenate([first, singular_scores(residual, plan.n_init - 1)])
        return [first, singular_scores(residual, SPARE_STARTS)]
    if plan.init == "random":
        return [random_scores(residual.shape[0], plan.n_init, rng)]
    n_starts = max(plan.n_init, STRUCTURED_STARTS) if plan.init == "structured" else plan.n_init
    leading = singular_scores(residual, n_starts + SPARE_STARTS)
    first, spare = leading[:n_starts], leading[n_starts:]
    if plan.init == "structured":
        first = np.concatenate([first, diffused_scores(residual, model.structure, n_starts)])
    elif len(first) < n_starts:
        first = np.concatenate([first, random_scores(residual.shape[0], n_starts - len(first), rng)])
    return [first, spare]


def unit_loading(v: FloatArray, out: FloatArray | None = None) -> FloatArray:
    """Scale v to unit norm, the first entry of largest magnitude positive; zeros stay zeros."""
    length = np.linalg.norm(v) or 1.0
    top, bottom = int(v.argmax()), int(v.argmin())
    rises = (v[top], -top) >= (-v[bottom], -bottom)
    return np.divide(v, length if rises else -length, out=out)


def _unit_distance(distance: float, length: float) -> float:
    """How far a unit vector may be from another when a vector of that length may be by that distance."""
    if length == 0:
        return 0.0
    # the angle between the two is largest for a tangent
    return 2.0 * float(np.sin(0.5 * np.arcsin(distance / length))) if distance < length else 2.0


def _diagnose(component: Component, seconds: float) -> ComponentDiagnostics:
    n_features = component.v.size
    distance = float(np.sqrt(component.gap))
    n_nonzero, n_certain = count_above(component.v, distance)
    length = float(np.linalg.norm(component.v))
    return ComponentDiagnostics(
        objective=component.objective,
        gap=component.gap,
        relative_gap=component.gap / component.scale if component.scale > 0 else 0.0,
        error_bound=_unit_distance(distance, length),
        n_alternations=component.n_alternations,
        n_inner_iter=component.n_inner_iter,
        seconds=seconds,
        converged=component.converged,
        sparsity=1.0 - n_nonzero / n_features,
        n_nonzero=n_nonzero,
        n_certain=n_certain,
        objectives=component.objectives,
        inexactness=component.inexactness,
    )


def _score_norms(matrix: CentredMatrix, components: FloatArray) -> FloatArray:
    """Norm of every component's scores after deflation by those before it, shape (K,)."""
    products = np.stack([matrix.dot(component) for component in components], axis=1)
    return np.asarray(np.linalg.norm(deflation_scores(products, components), axis=0))


def deflation_scores(products: FloatArray, components: FloatArray) -> FloatArray:
    """Scores by successive deflation from the products with all loadings (docs/method.md section 5.2).

    ``t_k = x_k v_k`` with ``x_{k+1} = x_k - t_k v_k'`` is the unit triangular system
    ``t_k = x v_k - sum_{i < k} t_i (v_i'v_k)``.

    Parameters
    ----------
    products : ndarray of shape (n, K)
        ``X V'`` for centred rows.
    components : ndarray of shape (K, P)
        Unit loading vectors V.

    Returns
    -------
    ndarray of shape (n, K)
    """
    overlap = components @ components.T
    scores = np.array(products)
    for k in range(1, scores.shape[1]):
        scores[:, k] -= scores[:, :k] @ overlap[:k, k]
    return scores
