"""K components: one after the other with deflation, then all together (docs/method.md section 5)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import beside, to_host
from spcatv._util.parameters import Init
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, DataOperator, DeflatedData
from spcatv.decomposition.alternation import Limits
from spcatv.decomposition.component import (
    Component,
    ComponentDiagnostics,
    diagnose,
    null_component,
    unit_loading,
)
from spcatv.decomposition.continuation import WarmStart
from spcatv.decomposition.journal import Journal, Recall, RecalledComponent
from spcatv.decomposition.penalty import LoadingPenalty, Weights
from spcatv.decomposition.refinement import Refinement, refine_components, refine_to_sparsity
from spcatv.decomposition.refit import refit_on_support
from spcatv.decomposition.search import Request, best_component, continued_component
from spcatv.decomposition.starts import (
    DIFFUSED_DIRECTIONS,
    diffused_scores,
    random_scores,
    scores_of_loading,
    singular_scores,
    with_both_signs,
)
from spcatv.decomposition.target import TARGET_L2, SparsityTarget
from spcatv.progress import SILENT, ComponentEnded, ComponentStarted, Listener
from spcatv.solvers import Solver
from spcatv.solvers.warm import WarmSolver

# A residual with less than this share of the data's squared norm is rounding, not signal.
RANK_FLOOR = 1e-13
# Singular vectors of X, and of X diffused, that init="structured" compares.
STRUCTURED_STARTS = 3
# Where the penalty kills the leading singular vector, this many further ones are tried.
SPARE_STARTS = 2


@dataclass(frozen=True)
class Plan:
    """How to fit: everything but the data and the penalties."""

    tol: float  # largest duality gap relative to the scale of each loading problem
    max_iter: int  # most alternations per component
    method: str | Solver  # loading solver
    dtype: npt.DTypeLike  # working precision of the loading solver
    init: Init | FloatArray  # where the alternation starts: a rule, or loadings of shape (K, P)
    n_init: int  # starts compared
    refine: bool  # whether the components are refined jointly
    # whether loadings are fitted again on their supports, without penalties; refinement comes first
    refit: bool = False
    keep_warm_start: bool = False  # whether the components keep what fits with other weights start from

    @property
    def n_starts(self) -> int:
        """Singular vectors of a residual that are starts, without spare ones."""
        return max(self.n_init, STRUCTURED_STARTS) if self._is_structured else self.n_init

    @property
    def n_directions(self) -> int:
        """Singular vectors of a residual that starts are taken from."""
        n_directions = self.n_starts + SPARE_STARTS
        return max(n_directions, DIFFUSED_DIRECTIONS) if self._is_structured else n_directions

    @property
    def _is_structured(self) -> bool:
        return isinstance(self.init, str) and self.init == "structured"


@dataclass(frozen=True, eq=False)
class Decomposition:
    """K components of a data matrix."""

    # unit loading vectors with a deterministic sign, shape (K, P); zeros where the penalty killed one.
    # Unshrunk if the plan asks for it.
    components: FloatArray
    # norms of the scores, each after the components before it have been removed, shape (K,)
    singular_values: FloatArray
    # one record per component; objective and certificate are those of the penalised loading
    diagnostics: tuple[ComponentDiagnostics, ...]
    refinement: Refinement | None  # what joint refinement did, if it was asked for
    weights: tuple[Weights, ...]  # absolute weights of the penalties, one per component
    # the penalised components before refinement, for warm starts; empty unless the plan keeps them
    fitted: tuple[Component, ...]

    def in_units(self, unit: float) -> Decomposition:
        """The components of data that are `unit` times larger, for a homogeneous penalty; no warm starts.

        Where the l2 of a loading problem grows with the data, the length of the loading stays. Where it is
        fixed (a wanted sparsity, joint refinement), the loading grows as well. Objectives are l2 times the
        square of that length, gaps are the square of it.
        """
        if unit == 1.0:
            return self
        is_fixed = [record.target_sparsity is not None for record in self.diagnostics]
        return replace(
            self,
            singular_values=unit * self.singular_values,
            diagnostics=tuple(
                record.in_units(unit, grows=fixed, grew=fixed or self.refinement is not None)
                for record, fixed in zip(self.diagnostics, is_fixed, strict=True)
            ),
            refinement=None if self.refinement is None else self.refinement.in_units(unit),
            weights=tuple(
                Weights(unit * own.l1, own.l2 if fixed else unit * own.l2, unit * own.tv)
                for own, fixed in zip(self.weights, is_fixed, strict=True)
            ),
            fitted=(),
        )


def prepare(data: CentredData, plan: Plan, n_components: int) -> None:
    """Compress large data, once for all components; what is not known of them yet is found on the way."""
    if not data.gram_pays:
        data.compressed(plan.n_directions + n_components)


def decompose(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    *,
    rng: np.random.RandomState,
    warm_start: WarmStart | None = None,
    found: Decomposition | None = None,
    listener: Listener = SILENT,
    journal: Journal | None = None,
) -> Decomposition:
    """Fit K components by deflation, refined jointly if the plan says so.

    A request says what a component is asked for: weights, or a share of zeros. Random starts come from `rng`;
    `warm_start` are fits of the same data with other weights to start from, ahead of the plan's `init`. The
    components of `found`, of the same data, come first and stay as they are; they keep their warm starts. The
    listener is told of components and alternations, and may stop early: only then are there fewer than K. The
    journal keeps components, and starts that are compared, as soon as they are done.
    """
    keep = plan.refine or plan.keep_warm_start
    fitted: list[Component] = [] if found is None else list(found.fitted)
    records: list[ComponentDiagnostics] = [] if found is None else list(found.diagnostics)
    weights: list[Weights] = [] if found is None else list(found.weights)
    positive = requests[0].positive
    deflation = _Deflation(data, len(requests), refit=plan.refit and not plan.refine, positive=positive)
    for earlier in fitted:
        deflation.take(earlier)
    limits = Limits(plan.tol, plan.max_iter, keep, listener)
    # one for all components: its memory layout and step sizes are worth keeping
    solver = requests[0].solver(plan.method, plan.dtype)
    prepare(data, plan, len(requests))
    for number in range(len(records), len(requests)):
        listener.hear(ComponentStarted(number + 1, len(requests), plan.tol))
        recalled = RecalledComponent(number, journal, data, solver, rng)
        fitter = _ComponentFitter(number, data, requests[number], plan, limits, solver, rng, recalled.start)
        killed = weights[-1] if records and records[-1].n_nonzero == 0 else None
        component, seconds = recalled(partial(fitter.fit, deflation.residual(), warm_start, killed))
        started = time.perf_counter()
        deflation.take(component)
        if keep:
            fitted.append(component)
        weights.append(component.weights)
        seconds += time.perf_counter() - started
        final = deflation.components[-1], deflation.scores[-1]
        records.append(diagnose(component, seconds, data, *final, is_final=not deflation.refits))
        del component  # its arrays would stay beside those of the next one
        if listener.hear(ComponentEnded(number + 1, len(requests), records[-1], deflation.components)):
            break
    result = Decomposition(
        components=to_host(deflation.components),
        singular_values=np.linalg.norm(deflation.scores, axis=1),
        diagnostics=tuple(records),
        refinement=None,
        weights=tuple(weights),
        fitted=tuple(fitted),
    )
    return _refined(data, requests, plan, result) if plan.refine else result


def _refined(
    data: CentredData, requests: Sequence[Request], plan: Plan, greedy: Decomposition
) -> Decomposition:
    targets = [request for request in requests if isinstance(request, SparsityTarget)]
    penalties = [request for request in requests if isinstance(request, LoadingPenalty)]
    limits = Limits(plan.tol, plan.max_iter)
    if targets:
        refinement = refine_to_sparsity(
            data, targets, greedy.fitted, limits=limits, method=plan.method, dtype=plan.dtype
        )
    else:
        refinement = refine_components(
            data, penalties, greedy.fitted, limits=limits, method=plan.method, dtype=plan.dtype
        )
    components = np.stack([unit_loading(to_host(component.v)) for component in refinement.components])
    if plan.refit:
        components = _refitted(data, components, positive=requests[0].positive)
    scores = deflation_scores(data.dot_many(components), components)
    return replace(
        greedy,
        components=components,
        singular_values=np.linalg.norm(scores, axis=0),
        diagnostics=tuple(
            replace(
                diagnose(after, before.seconds, data, components[k], scores[:, k], is_final=False),
                objectives=before.objectives,
                inexactness=before.inexactness,
            )
            for k, (after, before) in enumerate(zip(refinement.components, greedy.diagnostics, strict=True))
        ),
        refinement=refinement,
        weights=tuple(
            replace(before, l1=after.weights.l1, tv=after.weights.tv)
            for before, after in zip(greedy.weights, refinement.components, strict=True)
        ),
    )


def _refitted(data: CentredData, components: FloatArray, *, positive: bool) -> FloatArray:
    """Unit loadings fitted again on their supports, each after deflation by those before; shape (K, P)."""
    deflation = _Deflation(data, len(components), refit=True, positive=positive)
    for loading in components:
        deflation.refit(loading)
    return to_host(deflation.components)


class _Deflation:
    """Unit loadings and scores removed so far (docs/method.md section 5.1)."""

    def __init__(self, data: CentredData, n_components: int, *, refit: bool, positive: bool) -> None:
        self.refits = refit
        self._data, self._positive = data, positive
        self._n_removed = 0
        self._scores = np.zeros((n_components, data.shape[0]))
        self._components = np.zeros_like(data.mean, shape=(n_components, data.shape[1]))

    @property
    def scores(self) -> FloatArray:
        """Scores of the components so far, shape (n, N)."""
        return self._scores[: self._n_removed]

    @property
    def components(self) -> FloatArray:
        """Unit loadings so far, shape (n, P)."""
        return self._components[: self._n_removed]

    def residual(self) -> DataOperator:
        """What is left of the data."""
        if self._n_removed == 0:
            return self._data
        return DeflatedData(self._data, self.scores, self.components)

    def take(self, component: Component) -> None:
        """Remove a component: as it is, or fitted again on its support.

        As it is, its scores, ``X v`` for the unit v, follow from those that the alternation ended with.
        """
        if self.refits:
            self.refit(component.v)
            return
        direction = self._components[self._n_removed]
        loading = beside(component.v, direction)
        unit_loading(loading, out=direction)
        length = float(loading @ direction)
        if length != 0:
            self._scores[self._n_removed] = component.scores_norm / length * component.u
        self._n_removed += 1

    def refit(self, loading: FloatArray) -> None:
        """Remove the unshrunk loading on the support of a given one."""
        if bool(loading.any()):
            residual = self.residual()
            direction = unit_loading(refit_on_support(residual, loading, positive=self._positive))
            self._components[self._n_removed] = direction
            self._scores[self._n_removed] = residual.dot(direction)
        self._n_removed += 1


@dataclass(frozen=True, eq=False)
class _ComponentFitter:
    """Fits one component to a residual: from a warm start, else from the plan's starts."""

    number: int
    data: CentredData
    request: Request
    plan: Plan
    limits: Limits
    solver: WarmSolver
    rng: np.random.RandomState
    recall: Recall  # knows what became of starts before an interruption

    def fit(self, residual: DataOperator, warm_start: WarmStart | None, killed: Weights | None) -> Component:
        """Fit; `killed` are the weights that have just killed a component of this residual, if so."""
        fixed = self.request.weights if isinstance(self.request, LoadingPenalty) else None
        if residual.squared_norm() <= RANK_FLOOR * self.data.squared_norm():
            return self._null(residual.shape)
        if fixed is not None:
            tried = killed == fixed and isinstance(self.plan.init, str) and self.plan.init != "random"
            # nothing was removed and nothing else would be tried, or no scores would do
            if tried or fixed.l1 * self.data.shape[0] >= self.data.largest_column_norm:
                return self._null(residual.shape)
        l2 = TARGET_L2 if fixed is None else fixed.l2
        start = None if warm_start is None else warm_start.start(self.number, residual, l2)
        if start is not None:
            continued = continued_component(residual, self.request, start, self.limits, solver=self.solver)
            if not continued.is_null:
                return continued
        found = self._from_starts(residual)
        return self._null(residual.shape) if found.is_null and fixed is None else found

    def _null(self, shape: tuple[int, int]) -> Component:
        """The component of data that have nothing left to explain."""
        request = self.request
        if isinstance(request, LoadingPenalty):
            return null_component(shape, request.weights)
        return replace(null_component(shape), target_sparsity=request.sparsity, smoothness=request.smoothness)

    def _from_starts(self, residual: DataOperator) -> Component:
        found: Component | None = None
        for number, starts in enumerate(self._start_rounds(residual)):
            if len(starts) == 0:
                continue
            candidates = with_both_signs(starts) if self.request.positive else starts
            found = best_component(
                residual,
                self.request,
                list(candidates),
                self.limits,
                solver=self.solver,
                sketch=None if residual.gram_pays else residual.compressed(self.plan.n_directions),
                recall=lambda name, make: self.recall(f"round-{number}-{name}", make),  # noqa: B023 (called at once),
            )
            if not found.is_null:
                break
        return null_component(residual.shape) if found is None else found

    def _start_rounds(self, residual: DataOperator) -> list[FloatArray]:
        """Starts to compare, and spare ones for when the penalty kills all of those."""
        init, n_init, n_samples = self.plan.init, self.plan.n_init, residual.shape[0]
        if isinstance(init, np.ndarray):
            first = scores_of_loading(residual, init[self.number])
            if n_init > 1:
                first = np.concatenate([first, singular_scores(residual, n_init - 1)])
            return [first, singular_scores(residual, SPARE_STARTS)]
        if init == "random":
            return [random_scores(n_samples, n_init, self.rng)]
        n_starts = self.plan.n_starts
        leading = singular_scores(residual, n_starts + SPARE_STARTS)
        first, spare = leading[:n_starts], leading[n_starts:]
        if init == "structured":
            first = np.concatenate([first, diffused_scores(residual, self.request.structure, n_starts)])
        elif len(first) < n_starts:
            first = np.concatenate([first, random_scores(n_samples, n_starts - len(first), self.rng)])
        return [first, spare]


def deflation_scores(products: FloatArray, components: FloatArray) -> FloatArray:
    """Scores (n, K) by successive deflation, from the products ``X V'`` of centred samples with all loadings.

    ``t_k = x_k v_k`` with ``x_{k+1} = x_k - t_k v_k'`` is the unit triangular system
    ``t_k = x v_k - sum_{i < k} t_i (v_i'v_k)`` (docs/method.md section 5.2).
    """
    overlap = components @ components.T
    scores = np.array(products)
    for k in range(1, scores.shape[1]):
        scores[:, k] -= scores[:, :k] @ overlap[:k, k]
    return scores
