"""One component after the other, each from the residual of those before (docs/method.md section 5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from spcatv._util.devices import beside, to_host
from spcatv._util.types import BoolArray, FloatArray
from spcatv.data import CentredData, DeflatedData, Products
from spcatv.data.leading import singular_scores
from spcatv.data.sketch import CompressedData
from spcatv.decomposition.alternation import COARSE_ALTERNATIONS, COARSE_TOL, Limits, alternate
from spcatv.decomposition.component import (
    Component,
    ComponentDiagnostics,
    diagnose,
    empty_component,
    unit_loading,
)
from spcatv.decomposition.constrained import alternate_to_sparsity
from spcatv.decomposition.plan import SPARE_STARTS, Decomposition, Journal, Plan
from spcatv.decomposition.starts import diffused_scores, random_scores, scores_of_loading
from spcatv.decomposition.warm_start import ComponentStart, WarmStart
from spcatv.decomposition.weights import (
    ROUNDING,
    TARGET_L2,
    LoadingPenalty,
    Request,
    SparsityTarget,
    Weights,
)
from spcatv.problem import as_penalty
from spcatv.progress import ComponentEnded, ComponentStarted, Listener
from spcatv.progress.compilation import working_seconds
from spcatv.solvers.pdhg import WARM_TAU, WarmSolver
from spcatv.structure import Structure

# On a path, the first v-step need not beat the error that its predecessor made when its scores changed.
LOSS_SHARE = 0.5
# Error of a refitted unit loading, and the most power iterations for a non-negative one.
REFIT_TOL, MOST_POWER_STEPS = 1e-7, 500
# Lanczos vectors between restarts: every one costs a pass over the data.
LANCZOS_VECTORS = 8


def deflate(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    rng: np.random.RandomState,
    warm_start: WarmStart | None,
    listener: Listener,
    journal: Journal | None,
) -> Decomposition:
    """Fit one component after the other, as `spcatv.decomposition.decompose` does."""
    fitted: list[Component] = []
    records: list[ComponentDiagnostics] = []
    weights: list[Weights] = []
    patterns: list[FloatArray] = []
    deflation = _Deflation(data, len(requests), refit=plan.refit, positive=requests[0].positive)
    limits = Limits(plan.tol, plan.max_iter, plan.keep_warm_start, listener)
    # one for all components: its memory layout and step sizes are worth keeping
    solver = requests[0].solver(plan.method, plan.dtype)
    for number in range(len(requests)):
        listener.hear(ComponentStarted(number + 1, len(requests), plan.tol))
        name = f"component-{number + 1}"
        recall = partial(_recalled, journal=journal, data=data, solver=solver, rng=rng)
        fitter = _ComponentFitter(number, data, requests[number], plan, limits, solver, rng, recall)
        killed = weights[-1] if records and records[-1].n_nonzero == 0 else None
        make = partial(fitter.fit, deflation.residual(), warm_start, killed)
        component, seconds = recall(name, make)
        if journal is not None:
            journal.forget(f"{name}-")
        started = working_seconds()
        patterns.append(deflation.take(component))
        if plan.keep_warm_start:
            fitted.append(component)
        weights.append(component.weights)
        seconds += working_seconds() - started
        final = deflation.components[-1], deflation.scores[-1], patterns[-1]
        records.append(diagnose(component, seconds, data, *final))
        del component  # its arrays would stay beside those of the next one
        if listener.hear(ComponentEnded(number + 1, len(requests), records[-1], deflation.components)):
            break
    return Decomposition(
        components=to_host(deflation.components),
        singular_values=np.linalg.norm(deflation.scores, axis=1),
        patterns=np.stack([to_host(pattern) for pattern in patterns]),
        mixing=None,
        diagnostics=tuple(records),
        weights=tuple(weights),
        fitted=tuple(fitted),
    )


class _Deflation:
    """Unit loadings and scores removed so far (docs/method.md section 5.1)."""

    def __init__(self, data: CentredData, n_components: int, *, refit: bool, positive: bool) -> None:
        self._data, self._refits, self._positive = data, refit, positive
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

    def residual(self) -> CentredData:
        """Return the data without the components removed so far."""
        if self._n_removed == 0:
            return self._data
        return DeflatedData(self._data, self.scores, self.components)

    def take(self, component: Component) -> FloatArray:
        """Remove a component, and return ``X'u`` for its unit scores, shape (P,).

        As it is, its scores, ``X v`` for the unit v, follow from those that the alternation ended with. Or
        its loading is fitted again on its support.
        """
        direction, scores = self._components[self._n_removed], self._scores[self._n_removed]
        loading = beside(component.v, direction)
        if not self._refits:
            unit_loading(loading, out=direction)
            length = float(loading @ direction)
            if length != 0:
                scores[:] = component.scores_norm / length * component.u
        elif not component.is_empty:
            residual = self.residual()
            direction[:] = unit_loading(refit_on_support(residual, component.v, positive=self._positive))
            scores[:] = residual.dot(direction)
        self._n_removed += 1
        if component.back.size and not self._refits:
            return component.back
        return self._data.transpose_dot(scores / (float(np.linalg.norm(scores)) or 1.0))


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
    recall: Callable[..., tuple[Component, float]]  # also of starts before an interruption

    def fit(self, residual: CentredData, warm_start: WarmStart | None, killed: Weights | None) -> Component:
        """Fit; `killed` are the weights that have just killed a component of this residual, if so."""
        fixed = self.request.weights if isinstance(self.request, LoadingPenalty) else None
        empty = empty_component(residual.shape, self.request)
        if residual.squared_norm() <= ROUNDING * self.data.squared_norm():
            return empty
        if fixed is not None:
            tried = killed == fixed and isinstance(self.plan.init, str) and self.plan.init != "random"
            # nothing was removed and nothing else would be tried, or no scores would do
            if tried or fixed.l1 * self.data.shape[0] >= self.data.largest_column_norm:
                return empty
        l2 = TARGET_L2 if fixed is None else fixed.l2
        start = None if warm_start is None else warm_start.component_start(self.number, residual, l2)
        if start is not None:
            continued = continued_component(residual, self.request, start, self.limits, solver=self.solver)
            if not continued.is_empty:
                return continued
        found = self._from_starts(residual)
        return empty if found.is_empty and fixed is None else found

    def _from_starts(self, residual: CentredData) -> Component:
        found: Component | None = None
        for number, starts in enumerate(filter(len, self._start_rounds(residual))):
            # for non-negative loadings, a start and its negative are different
            both = np.stack([starts, -starts], axis=1).reshape(-1, starts.shape[1])
            found = best_component(
                residual,
                self.request,
                list(both if self.request.positive else starts),
                self.limits,
                solver=self.solver,
                sketch=None if residual.gram_pays else residual.compressed(self.plan.n_directions),
                recall=partial(self._recall_start, f"component-{self.number + 1}-round-{number}"),
            )
            if not found.is_empty:
                break
        return empty_component(residual.shape) if found is None else found

    def _recall_start(self, name: str, number: int, make: Callable[[], Component]) -> Component:
        return self.recall(f"{name}-start-{number}", make)[0]

    def _start_rounds(self, residual: CentredData) -> list[FloatArray]:
        """Return starts to compare, and spare ones for when the penalty kills all of those."""
        init, n_init, n_samples = self.plan.init, self.plan.n_init, residual.shape[0]
        if isinstance(init, np.ndarray):
            given = init[self.number]
            is_loading = self.plan.gives_loadings(residual.shape)
            first = scores_of_loading(residual, given) if is_loading else given[None] / np.linalg.norm(given)
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


def refit_on_support(data: CentredData, loading: FloatArray, *, positive: bool) -> FloatArray:
    """Return the unit loading (P,) that explains most of the data among those with the same zeros.

    It is the leading right singular vector of the data (centred and deflated) restricted to the support, up
    to its sign. Non-negative loadings are found by power iterations from the given one, each of which
    explains more than the one before; some of them may become zero.
    """
    support, size = loading != 0, int(np.count_nonzero(to_host(loading)))
    if positive or size == 1:
        return _non_negative(data, loading, support)
    whole = np.zeros_like(loading)

    def squared(v: FloatArray) -> FloatArray:
        whole[support] = beside(v, whole)
        return to_host(data.there_and_back(whole)[1][support])

    product = LinearOperator((size, size), matvec=squared, dtype=np.float64)
    start = to_host(loading[support])
    _, found = eigsh(product, k=1, v0=start, ncv=min(LANCZOS_VECTORS, size), tol=REFIT_TOL)
    whole[support] = beside(found[:, 0], whole)
    return whole


def _non_negative(data: CentredData, loading: FloatArray, support: BoolArray) -> FloatArray:
    """Maximise ``||X v||`` over unit ``v >= 0`` on the support, from the given loading."""
    v = loading / np.linalg.norm(loading)
    for _ in range(MOST_POWER_STEPS):
        # the best v for a linear function that touches ||X v||^2 from below
        back = support * np.maximum(data.there_and_back(v)[1], 0.0)
        length = float(np.linalg.norm(back))
        if length == 0:
            break
        before, v = v, back / length
        if np.linalg.norm(v - before) <= REFIT_TOL:
            break
    return v


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
    recall: Callable[[int, Callable[[], Component]], Component] = lambda _, make: make(),
) -> Component:
    """Alternate from every start coarsely, and from the best of them to the full tolerance.

    A start is unit scores (N,). The best has the lowest penalised objective. A start that the penalty kills
    at once counts as objective 0, so that any other beats it; the component is empty if all of them are.
    Among components of the same sparsity, see `_merit`. With a sketch, on which alternations are
    cheap, starts are compared there. Without one, `recall` may return the stored result of a start.
    """
    fit: Callable[..., Component] = (
        alternate_to_sparsity if isinstance(request, SparsityTarget) else alternate
    )
    if len(starts) == 1:
        solver.restart()
        return fit(data, request, starts[0], limits, solver=solver, sketch=sketch)
    tried = []
    coarse = Limits(max(limits.tol, COARSE_TOL), min(limits.max_iter, COARSE_ALTERNATIONS))
    for number, start in enumerate(starts):
        solver.restart()
        make = partial(fit, sketch or data, request, start, coarse, solver=solver)
        tried.append(make() if sketch else recall(number, make))
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
    final = fit(data, request, best.u, limits, solver=solver, sketch=sketch)
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
    contrast = component.weights.tv / component.smoothness if component.smoothness else 0.0
    penalty = target.with_weights(0.0, tv, contrast / length)
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
    taken = weights.T @ structure.is_difference.astype(np.float64)
    if not taken.any():
        return taken
    return np.where(taken > 0, np.maximum(np.median(taken[taken > 0]) - taken, 0.0), 0.0)


def _recalled(
    name: str,
    make: Callable[[], Component],
    journal: Journal | None,
    data: CentredData,
    solver: WarmSolver,
    rng: np.random.RandomState,
) -> tuple[Component, float]:
    """Return a component from the journal or a new one, and the seconds that it took, then or now.

    What comes after a component depends on the step sizes of the solver and on the random generator, too:
    they are kept and restored with it, so that the fit goes on to the same bits.
    """

    def timed() -> tuple[Component, float]:
        started = working_seconds()
        return make(), working_seconds() - started

    if journal is None:
        return timed()
    component, seconds, steps, state = journal.recall(
        name, lambda: (*timed(), solver.steps(), rng.get_state())
    )
    solver.set_steps(steps)
    rng.set_state(state)
    v, back, dual = map(data.vectors, (component.v, component.back, component.dual))
    return replace(component, v=v, back=back, dual=dual), seconds
