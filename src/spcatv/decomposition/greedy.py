"""K components: all at once, or one after the other with deflation (docs/method.md sections 5 and 8)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.devices import beside, to_host
from spcatv._util.parameters import Init
from spcatv._util.types import FloatArray
from spcatv.data import CentredData, DeflatedData
from spcatv.decomposition.alternation import Limits
from spcatv.decomposition.best_start import best_component, continued_component
from spcatv.decomposition.checkpoint import Journal, Recall, RecalledComponent
from spcatv.decomposition.component import (
    Component,
    ComponentDiagnostics,
    diagnose,
    empty_component,
    unit_loading,
)
from spcatv.decomposition.joint import JointFit, JointFitter
from spcatv.decomposition.starts import (
    DIFFUSED_DIRECTIONS,
    RANK_FLOOR,
    SPARE_DIRECTIONS,
    JointStart,
    diffused_scores,
    given_start,
    random_scores,
    scores_of_loading,
    singular_scores,
    varimax,
    with_both_signs,
)
from spcatv.decomposition.support_refit import refit_on_support
from spcatv.decomposition.warm_start import WarmStart
from spcatv.decomposition.weights import (
    TARGET_L2,
    LoadingPenalty,
    Request,
    SparsityTarget,
    Weights,
)
from spcatv.progress import SILENT, ComponentEnded, ComponentStarted, Listener
from spcatv.solvers import Solver
from spcatv.solvers.pdhg import WarmSolver

# Singular vectors of X, and of X diffused, that init="structured" compares.
STRUCTURED_STARTS = 3
# Where the penalty kills the leading singular vector, this many further ones are tried.
SPARE_STARTS = 2


@dataclass(frozen=True)
class Plan:
    """Settings of a fit other than data and penalties."""

    tol: float  # largest duality gap relative to the scale of each loading problem
    max_iter: int  # most alternations per component
    method: str | Solver  # loading solver
    dtype: npt.DTypeLike  # working precision of the loading solver
    init: Init | FloatArray  # where the alternation starts: a rule, loadings (K, P), or scores (K, N)
    n_init: int  # starts compared
    joint: bool  # whether all components are fitted at once
    refit: bool = (
        False  # whether loadings of a deflation are fitted again on their supports, without penalties
    )
    keep_warm_start: bool = False  # whether the components keep what fits with other weights start from

    @property
    def n_starts(self) -> int:
        """Number of singular vectors of a residual that are starts, without spare ones."""
        return max(self.n_init, STRUCTURED_STARTS) if self._is_structured else self.n_init

    @property
    def n_directions(self) -> int:
        """Singular vectors of a residual that starts are taken from."""
        n_directions = self.n_starts + (2 * SPARE_DIRECTIONS if self.joint else SPARE_STARTS)
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
    # norms of the scores of a deflation, or of the patterns of a joint fit, shape (K,)
    singular_values: FloatArray
    patterns: FloatArray  # ``X'u`` for the unit scores of every component, shape (K, P)
    # C such that the training scores of a joint fit are ``X V' C``, shape (K, K); None for a deflation
    mixing: FloatArray | None
    # one record per component; objective and certificate are those of the penalised loading
    diagnostics: tuple[ComponentDiagnostics, ...]
    weights: tuple[Weights, ...]  # absolute weights of the penalties, one per component
    # the components with their warm starts; empty unless the plan keeps them
    fitted: tuple[Component, ...]
    start: JointStart | None = None  # what a joint fit started from, if the plan keeps warm starts

    def in_units(self, unit: float) -> Decomposition:
        """Return the components of data that are `unit` times larger, without warm starts.

        Where the l2 of a loading problem grows with the data, the length of the loading stays. Where it is
        fixed (a wanted sparsity), the loading grows as well. Objectives are l2 times the square of that
        length, gaps are the square of it.
        """
        if unit == 1.0:
            return self
        is_fixed = [record.target_sparsity is not None for record in self.diagnostics]
        return replace(
            self,
            singular_values=unit * self.singular_values,
            patterns=unit * self.patterns,
            diagnostics=tuple(
                record.in_units(unit, grows=fixed)
                for record, fixed in zip(self.diagnostics, is_fixed, strict=True)
            ),
            weights=tuple(
                Weights(unit * own.l1, own.l2 if fixed else unit * own.l2, unit * own.tv)
                for own, fixed in zip(self.weights, is_fixed, strict=True)
            ),
            fitted=(),
            start=None,
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
    """Fit K components, all at once or by deflation.

    A request says what a component is asked for: weights, or a share of zeros. Random starts come from `rng`;
    `warm_start` are fits of the same data with other weights to start from, ahead of the plan's `init`. The
    components of `found`, of the same data, come first and stay as they are; they keep their warm starts. The
    listener is told of components and alternations, and may stop early: only then are there fewer than K. The
    journal keeps components, and starts that are compared, as soon as they are done.
    """
    if plan.joint:
        return _decompose_jointly(
            data,
            requests,
            plan,
            rng=rng,
            warm_start=warm_start,
            found=found,
            listener=listener,
            journal=journal,
        )
    keep = plan.keep_warm_start
    fitted: list[Component] = [] if found is None else list(found.fitted)
    records: list[ComponentDiagnostics] = [] if found is None else list(found.diagnostics)
    weights: list[Weights] = [] if found is None else list(found.weights)
    positive = requests[0].positive
    deflation = _Deflation(data, len(requests), refit=plan.refit, positive=positive)
    patterns: list[FloatArray] = []
    for earlier in fitted:
        deflation.take(earlier)
        patterns.append(deflation.pattern(earlier))
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
        patterns.append(deflation.pattern(component))
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


def _decompose_jointly(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    *,
    rng: np.random.RandomState,
    warm_start: WarmStart | None,
    found: Decomposition | None,
    listener: Listener,
    journal: Journal | None,
) -> Decomposition:
    n_components = len(requests)
    listener.hear(ComponentStarted(1, n_components, plan.tol))
    prepare(data, plan, n_components)
    known = () if found is None else found.fitted

    def fit() -> tuple[JointFit, float, Any]:
        started = time.perf_counter()
        limits = Limits(plan.tol, plan.max_iter, plan.keep_warm_start, listener)
        fitter = JointFitter(
            data,
            limits,
            lambda request: request.solver(plan.method, plan.dtype),
            plan.n_directions + n_components,
        )
        start = None if known else _joint_start(data, plan, requests, rng, warm_start)
        warm = () if known or warm_start is None else warm_start.last
        result = fitter.fit(requests, start=start, warm=warm, found=known)
        return result, (time.perf_counter() - started) / n_components, rng.get_state()

    result, seconds, state = fit() if journal is None else journal.recall("components", fit)
    rng.set_state(state)
    return _joint_decomposition(data, requests, plan, result, seconds, listener, n_known=len(known))


def _joint_start(
    data: CentredData,
    plan: Plan,
    requests: Sequence[Request],
    rng: np.random.RandomState,
    warm_start: WarmStart | None,
) -> JointStart | None:
    """Return what to start from, or None for the default.

    A fit with given weights goes on from the scores of the last one. A wanted sparsity always starts from the
    same scores, so that its result does not depend on other settings.
    """
    n_components, structure = len(requests), requests[0].structure
    if warm_start is not None and isinstance(requests[0], SparsityTarget):
        return warm_start.start
    last = () if warm_start is None else warm_start.last
    if len(last) == n_components and not any(component.is_empty for component in last):
        return given_start(data, np.column_stack([component.u for component in last]), structure)
    if isinstance(plan.init, np.ndarray):
        given = data.dot_many(plan.init) if _are_loadings(plan.init, data.shape) else plan.init.T
    elif plan.init == "svd":
        leading = singular_scores(data, n_components).T
        given = leading @ varimax(to_host(data.maps(leading)))
    elif plan.init == "random":
        given = random_scores(data.shape[0], n_components, rng).T
    else:
        return None
    left, lengths, right = np.linalg.svd(given, full_matrices=False)
    return given_start(
        data, (left @ right)[:, : np.count_nonzero(lengths > RANK_FLOOR * lengths[0])], structure
    )


def _are_loadings(init: FloatArray, shape: tuple[int, int]) -> bool:
    """Whether the rows of an array given as `init` are loadings (K, P), and not scores (K, N)."""
    return init.shape[1] == shape[1]


def _joint_decomposition(
    data: CentredData,
    requests: Sequence[Request],
    plan: Plan,
    result: JointFit,
    seconds: float,
    listener: Listener,
    *,
    n_known: int,
) -> Decomposition:
    """Put components in order behind the known ones, with unit loadings, and describe them."""
    found, raw = list(result.components), result.raw_scores
    lengths = np.array([float(np.linalg.norm(to_host(c.back))) for c in found])
    order = np.arange(len(found))
    if len({r.weights if isinstance(r, LoadingPenalty) else r.sparsity for r in requests}) == 1:
        order[n_known:] = n_known + np.argsort(-lengths[n_known:], kind="stable")
    found, raw, lengths = [found[k] for k in order], raw[:, order], lengths[order]
    loadings = np.stack([unit_loading(to_host(component.v)) for component in found])
    # the length of every loading, negative if its sign was turned
    factors = np.array([float(to_host(c.v) @ unit) for c, unit in zip(found, loadings, strict=True)])
    signs = np.where(factors < 0, -1.0, 1.0)
    scores = np.column_stack([c.u for c in found]) * signs * lengths
    of_units = raw / np.where(factors == 0, 1.0, factors)
    mixing = np.linalg.lstsq(of_units, scores, rcond=None)[0]
    patterns = np.stack([_filled(to_host(c.back), data.shape[1]) for c in found]) * signs[:, None]
    records = []
    for k, component in enumerate(found):
        records.append(diagnose(component, seconds, data, loadings[k], scores[:, k], patterns[k]))
        if k > 0:
            listener.hear(ComponentStarted(k + 1, len(found), plan.tol))
        listener.hear(ComponentEnded(k + 1, len(found), records[-1], loadings, mixing))
    return Decomposition(
        components=loadings,
        singular_values=lengths,
        patterns=patterns,
        mixing=mixing,
        diagnostics=tuple(records),
        weights=tuple(component.weights for component in found),
        fitted=tuple(found) if plan.keep_warm_start else (),
        start=result.start if plan.keep_warm_start else None,
    )


def _filled(vector: FloatArray, length: int) -> FloatArray:
    """Return the vector, or zeros for the empty one of an empty component."""
    return vector if len(vector) else np.zeros(length)


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

    def residual(self) -> CentredData:
        """Return the data without the components removed so far."""
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

    def pattern(self, component: Component) -> FloatArray:
        """Return ``X'u`` for the unit scores of the component taken last, shape (P,)."""
        if component.back.size and not self.refits:
            return component.back  # of the scores that the alternation ended with
        scores = self.scores[-1]
        return self._data.transpose_dot(scores / (float(np.linalg.norm(scores)) or 1.0))

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

    def fit(self, residual: CentredData, warm_start: WarmStart | None, killed: Weights | None) -> Component:
        """Fit; `killed` are the weights that have just killed a component of this residual, if so."""
        fixed = self.request.weights if isinstance(self.request, LoadingPenalty) else None
        empty = empty_component(residual.shape, self.request)
        if residual.squared_norm() <= RANK_FLOOR * self.data.squared_norm():
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
            if not found.is_empty:
                break
        return empty_component(residual.shape) if found is None else found

    def _start_rounds(self, residual: CentredData) -> list[FloatArray]:
        """Return starts to compare, and spare ones for when the penalty kills all of those."""
        init, n_init, n_samples = self.plan.init, self.plan.n_init, residual.shape[0]
        if isinstance(init, np.ndarray):
            given = init[self.number]
            is_loading = _are_loadings(init, residual.shape)
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
