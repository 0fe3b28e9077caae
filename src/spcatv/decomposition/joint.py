"""All components at once, with uncorrelated scores (docs/method.md section 8).

    minimise over U'U = I and V:   sum_k { -1/N u_k'X v_k + l2 ||v_k||^2 + l1 ||v_k||_1 + tv s(v_k) }

For fixed scores the loadings are K separate problems, each with its own certificate. For fixed loadings the
best scores are the polar factor of ``X V``. With fixed weights, both half steps lower the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spcatv._util.devices import beside
from spcatv._util.types import BoolArray, FloatArray
from spcatv.data import CentredData
from spcatv.decomposition.alternation import STEP_SHARE, Limits
from spcatv.decomposition.component import Component, empty_component
from spcatv.decomposition.passes import CountedPasses
from spcatv.decomposition.starts import (
    RANK_FLOOR,
    SPARE_DIRECTIONS,
    binary_unit,
    rotated_scores,
    singular_scores,
)
from spcatv.decomposition.weights import (
    ROUNDING,
    SMOOTHNESS_FACTOR,
    TARGET_L2,
    LoadingPenalty,
    Request,
    SparsityTarget,
    Threshold,
)
from spcatv.problem import Certificate, LoadingProblem
from spcatv.progress import AlternationEnded
from spcatv.solvers.warm import WarmSolver

# A sweep stops each loading problem at this share of the gap that the problem starts with: while supports
# are looked for, and later.
SEARCH_REDUCTION, FINAL_REDUCTION = 0.3, 0.1
# Extrapolate scores along their last change by at most this multiple of it; pull them back by at most this.
LONGEST_PUSH, LONGEST_PULL = 1.0, 0.5
# Supports are found to this multiple of the tolerance, at least to the second number; then loadings to `tol`.
SUPPORT_TOL, LOOSEST_SUPPORT = 10.0, 0.01
# Sweeps after which supports that still change are taken as they are: cuts through a plateau may oscillate.
SUPPORT_SWEEPS = 60
# While supports are looked for, thresholds stay below the peak of a map by this share of its range: what a
# cut through the highest plateau leaves is nothing but its error.
CUT_PLATEAU = 0.05
# Components whose raw scores ``X v`` correlate above this are parts of one pattern.
SAME_PATTERN = 0.95


class _Block:
    """Loading of one component for fixed weights, with its certificate."""

    def __init__(self, request: Request, solver: WarmSolver, number: int) -> None:
        self.request, self.solver, self.number = request, solver, number
        self.n_iter, self.gap, self.scale, self.objective = 0, 0.0, 0.0, 0.0
        self.support: BoolArray | None = None
        self.loading: FloatArray
        self.certificate: Certificate

    @property
    def penalty(self) -> LoadingPenalty:
        """The penalty on the loading."""
        assert isinstance(self.request, LoadingPenalty)
        return self.request

    def fix_support(self, r: FloatArray, tol: float) -> None:
        """Do nothing: fixed weights decide about the support."""

    def lower_smoothness(self) -> bool:
        """Return False: weights are fixed."""
        return False

    def solve(self, r: FloatArray, tol: float, reduction: float) -> None:
        """Solve the loading problem for the map ``r = X'u / N`` (P,).

        A loading that is no better than zero is solved to the tolerance before zero takes its place.
        """
        problem = self._problem(r)
        self.scale = problem.scale()
        goal = STEP_SHARE * tol * self.scale
        step = self.solver.step(problem, goal, reduction)
        if step.value >= self.scale and step.gap > goal:
            step = self.solver.step(problem, goal)
        self.n_iter += step.n_iter
        found = step.certificate if step.value < self.scale else problem.zero_certificate(step.certificate)
        self.certificate, self.loading = found, found.v
        self.objective = self.penalty.weights.l2 * min(step.value - self.scale, 0.0)

    def judge(self, r: FloatArray) -> None:
        """Compute the gap of the loading for the map r (P,) of other scores."""
        problem = self._problem(r)
        judgement, self.scale = problem.judge(self.certificate), problem.scale()
        self.gap, self.objective = judgement.gap, self.penalty.weights.l2 * (judgement.value - self.scale)

    def component(self, scores: _Scores, k: int, *, tol: float, keep_warm_start: bool) -> Component:
        """Return the component with the k-th scores."""
        r = scores.maps[k]
        return Component(
            v=self.loading,
            u=scores.u[:, k],
            scores_norm=float(np.linalg.norm(scores.raw[:, k])),
            objective=self.objective,
            gap=self.gap,
            scale=self.scale,
            converged=self.gap <= tol * self.scale,
            objectives=(),
            inexactness=(),
            n_inner_iter=self.n_iter,
            back=len(scores.u) * r,
            dual=self.solver.dual() if keep_warm_start else np.zeros(0),
            weights=self.penalty.weights,
        )

    def _problem(self, r: FloatArray) -> LoadingProblem:
        return self.penalty.problem_at(r / self.penalty.weights.l2)


class _SparseBlock(_Block):
    """Loading of a wanted sparsity: a smoothed map, soft-thresholded, or restricted to a fixed support."""

    request: SparsityTarget

    def __init__(self, request: SparsityTarget, solver: WarmSolver, number: int) -> None:
        super().__init__(request, solver, number)
        self.smoothness, self.unit, self.l1, self.jump = request.smoothness, 1.0, 0.0, 0.0

    @property
    def penalty(self) -> LoadingPenalty:
        """The penalty with the weights of the last step; on a fixed support without l1."""
        l1 = self.l1 if self.support is None else 0.0
        return self.request.with_weights(l1, self.smoothness * self.unit, self.unit)

    def solve(self, r: FloatArray, tol: float, reduction: float) -> None:
        """Smooth the map ``r = X'u / N`` (P,), and take the loading from it."""
        self.unit = self.request.unit(r)
        problem = self._problem(r)
        goal = STEP_SHARE * tol * self.request.gap_scale(r, problem, tol)
        step = self.solver.step(problem, goal, reduction)
        self.n_iter += step.n_iter
        self.certificate, self._tol = step.certificate, tol
        self.objective = TARGET_L2 * (step.value - problem.scale())
        if self.support is None:
            magnitudes = np.abs(step.v)
            peak, least = float(magnitudes.max()), float(magnitudes.min())
            highest = peak - CUT_PLATEAU * (peak - least)
            self.l1 = min(self._threshold(problem, step.v, 0.0).l1, highest)
            self.loading = step.v - np.clip(step.v, -self.l1, self.l1)
        else:
            self.loading = np.where(self.support, step.v, 0.0)

    def judge(self, r: FloatArray) -> None:
        """Compute the gap of the smoothed map for the map r (P,) of other scores."""
        problem = self._problem(r)
        judgement = problem.judge(self.certificate)
        self.gap, self.scale = judgement.gap, self.request.gap_scale(r, problem, self._tol)
        self.objective = TARGET_L2 * (judgement.value - problem.scale())

    def lower_smoothness(self) -> bool:
        """Lower the smoothness, and return whether it could be."""
        if self.smoothness <= self.request.least_smoothness:
            return False
        self.smoothness *= SMOOTHNESS_FACTOR
        return True

    def fix_support(self, r: FloatArray, tol: float) -> None:
        """Take the support of the smoothed map of r (P,), and keep it from here on.

        A plateau of the map is zero as a whole or not at all. Where that puts the share of zeros far from the
        wanted one, the smoothness is lowered.
        """
        problem = self._problem(r)
        while True:
            z = self.certificate.v
            noise = float(np.sqrt(max(self.gap, tol * self.scale) / z.size))
            threshold = self._threshold(problem, z, noise)
            if not (threshold.is_off and problem.has_structure and self.lower_smoothness()):
                break
            self.solve(r, tol, 0.0)
            self.judge(r)
        self.l1, self.jump = threshold.l1, threshold.jump
        self.support = np.abs(z) > self.l1
        self.loading = np.where(self.support, z, 0.0)

    def component(self, scores: _Scores, k: int, *, tol: float, keep_warm_start: bool) -> Component:
        """Return the component with the k-th scores; its l1 is the threshold that gave its support."""
        found = super().component(scores, k, tol=tol, keep_warm_start=keep_warm_start)
        return replace(
            found,
            weights=replace(found.weights, l1=self.l1),
            smoothness=self.smoothness,
            jump=self.jump,
            target_sparsity=self.request.sparsity,
        )

    def _threshold(self, problem: LoadingProblem, z: FloatArray, noise: float) -> Threshold:
        """Find the threshold of a map z (P,) with this error; without structure it has that of rounding."""
        if problem.has_structure:
            return self.request.threshold(z, noise)
        return self.request.exact_threshold(z, ROUNDING)

    def _problem(self, r: FloatArray) -> LoadingProblem:
        return self.request.smoothing(r, self.smoothness, self.unit)


@dataclass(frozen=True, eq=False)
class _Scores:
    """Orthonormal scores of some loadings, and their products with the data."""

    u: FloatArray  # shape (N, K)
    maps: FloatArray  # ``u'X / N``, shape (K, P)
    raw: FloatArray  # ``X v`` of the loadings, shape (N, K)
    # strengths and correlations of the raw scores without the known ones, shapes (K,) and (K, K)
    strength: FloatArray
    correlation: FloatArray
    is_empty: BoolArray  # whether there are no scores beyond rounding, shape (K,)


@dataclass(frozen=True, eq=False)
class JointFit:
    """Components with uncorrelated scores, in the order of their requests."""

    components: tuple[Component, ...]
    raw_scores: FloatArray  # ``X v`` of the loadings, shape (N, K)


class JointFitter:
    """Fit components jointly, beside components whose scores are known.

    Parameters
    ----------
    data : CentredData
        N x P data.
    limits : Limits
        Stopping criteria and progress callback; `max_iter` counts sweeps over all components.
    make_solver : callable
        Returns a warm solver for a request.
    n_directions : int
        Directions of the sketch of data with many samples.
    """

    def __init__(
        self,
        data: CentredData,
        limits: Limits,
        make_solver: Callable[[Request], WarmSolver],
        n_directions: int,
    ) -> None:
        self._data, self._limits, self._make_solver = data, limits, make_solver
        self._sketch = None if data.gram_pays else data.compressed(n_directions)
        self._passes = CountedPasses(data, self._sketch)
        self._known = np.zeros((data.shape[0], 0))
        self._known_maps: FloatArray = np.zeros_like(data.mean, shape=(0, data.shape[1]))
        self._n_sweeps, self._stopped = 0, False
        # sum of the objectives after every half step; for a wanted sparsity, those of the smoothed maps
        self.objectives: list[float] = []

    def fit(
        self,
        requests: Sequence[Request],
        *,
        start: FloatArray | None = None,
        duals: Sequence[tuple[FloatArray, FloatArray]] = (),
        found: Sequence[Component] = (),
    ) -> JointFit:
        """Fit one component for every request.

        Parameters
        ----------
        requests : sequence of LoadingPenalty or SparsityTarget
            One per component, those of `found` first.
        start : ndarray of shape (N, K), default=None
            Scores to start from; by default those of `rotated_scores`.
        duals : sequence of (loading, dual variable)
            Solutions of similar problems, one per component, to start the loading solver from.
        found : sequence of Component
            Components that stay as they are; all other scores are uncorrelated with theirs.

        Returns
        -------
        JointFit
            With empty components where the data have no further dimension.
        """
        n_samples = self._data.shape[0]
        fitted: dict[int, tuple[Component, FloatArray]] = {}
        for number, component in enumerate(found):
            self._fix(component)
            fitted[number] = component, self._data.dot(component.v)
        left = {number: request for number, request in enumerate(requests) if number not in fitted}
        while left:
            first = self._first_scores(left) if start is None else start
            if first.shape[1] == 0:
                break
            blocks = [
                self._block(request, number)
                for (number, request), _ in zip(left.items(), first.T, strict=False)
            ]
            for block, (loading, dual) in zip(blocks, duals, strict=False):
                block.solver.restart_from(loading, dual)
            new = self._fit_blocks(blocks, first)
            start, duals = None, ()
            fitted |= new
            left = {number: request for number, request in left.items() if number not in new}
            if not new:
                break
            for component, _ in new.values():
                self._fix(component)
        nothing = np.zeros(n_samples)
        all_of_them = [
            fitted.get(number, (empty_component(self._data.shape, request), nothing))
            for number, request in enumerate(requests)
        ]
        return JointFit(
            tuple(component for component, _ in all_of_them),
            np.column_stack([raw for _, raw in all_of_them]),
        )

    def _block(self, request: Request, number: int) -> _Block:
        solver = self._make_solver(request)
        if isinstance(request, SparsityTarget):
            return _SparseBlock(request, solver, number)
        return _Block(request, solver, number)

    def _fix(self, component: Component) -> None:
        """Keep all further scores orthogonal to those of a component."""
        if component.is_empty:
            return
        self._known = np.column_stack([self._known, component.u])
        self._known_maps = np.concatenate([self._known_maps, beside(component.back, self._known_maps)[None]])

    def _first_scores(self, left: dict[int, Request]) -> FloatArray:
        structure = next(iter(left.values())).structure
        n_spare = SPARE_DIRECTIONS if self._sketch is None else 2 * SPARE_DIRECTIONS
        n_leading = len(left) + self._known.shape[1] + n_spare
        known = self._known, self._known_maps
        if self._sketch is None:
            leading = singular_scores(self._data, n_leading).T
            return rotated_scores(self._data, leading, structure, len(left), *known)
        leading = self._sketch.leading_squares(n_leading)[1].T
        return rotated_scores(self._sketch, leading, structure, len(left), *known)

    def _fit_blocks(self, blocks: list[_Block], first: FloatArray) -> dict[int, tuple[Component, FloatArray]]:
        """Fit blocks from their first scores (N, K); only one of them if two are parts of one pattern."""
        tol, scores = self._limits.tol, None
        maps: FloatArray = self._passes.maps(first) / len(first)
        if blocks[0].request.positive:
            maps = np.stack([r if float(np.sum(r * np.abs(r))) >= 0 else -r for r in maps])
        if isinstance(blocks[0], _SparseBlock):
            blocks, scores = self._find_supports(blocks, maps)
            strongest = None if self._stopped else _repeated(scores)
            if strongest is not None and scores is not None:
                unit = scores.raw[:, [strongest]]
                unit = unit - self._known @ (self._known.T @ unit)
                maps = self._passes.maps(unit / np.linalg.norm(unit)) / len(unit)
                blocks, scores = self._find_supports([blocks[strongest]], maps)
            if scores is None:
                return {}
            maps = scores.maps
        if self._stopped and scores is not None:
            _judge(blocks, scores)
        else:
            blocks, scores = self._alternate(blocks, maps, tol, self._limits.max_iter, final=True)
        if scores is None:
            return {}
        return {
            block.number: (
                replace(
                    block.component(scores, k, tol=tol, keep_warm_start=self._limits.keep_warm_start),
                    objectives=tuple(self.objectives[1::2]),
                    n_passes=self._passes.n_passes,
                ),
                scores.raw[:, k],
            )
            for k, block in enumerate(blocks)
        }

    def _find_supports(self, blocks: list[_Block], maps: FloatArray) -> tuple[list[_Block], _Scores | None]:
        """Alternate with soft-thresholded loadings, fix the supports, and score the unshrunk loadings."""
        for block in blocks:
            block.support = None
        tol = min(SUPPORT_TOL * self._limits.tol, LOOSEST_SUPPORT)
        n_sweeps = min(SUPPORT_SWEEPS, self._limits.max_iter)
        blocks, scores = self._alternate(blocks, maps, tol, n_sweeps, final=False)
        if scores is None:
            return blocks, None
        for block, r in zip(blocks, scores.maps, strict=True):
            block.fix_support(r, self._limits.tol)
        return blocks, self._scores(blocks, exactly=self._stopped or not self._passes.has_sketch)

    def _alternate(
        self, blocks: list[_Block], maps: FloatArray, tol: float, n_sweeps: int, *, final: bool
    ) -> tuple[list[_Block], _Scores | None]:
        """Alternate loadings and scores until every loading is certified for its own scores.

        After a stop was asked for, components that have none get a loading from a single sweep.
        """
        scores: _Scores | None = None
        reduction = FINAL_REDUCTION if final else SEARCH_REDUCTION
        ahead = _Extrapolation()
        for _ in range(1 if self._stopped else n_sweeps):
            for block, r in zip(blocks, maps, strict=True):
                block.solve(r, tol, reduction)
            self.objectives.append(sum(block.objective for block in blocks))
            scores = self._scores(blocks, exactly=not self._passes.has_sketch)
            while scores is not None and scores.is_empty.any():
                blocks, maps, scores = self._without_empty(blocks, maps, scores, tol)
                ahead = _Extrapolation()
            if scores is None:
                return [], None
            worst = _judge(blocks, scores)
            if worst <= tol and self._passes.has_sketch:
                scores = self._scores(blocks, exactly=True)
                worst = _judge(blocks, scores)
            maps = ahead.next_maps(scores) if isinstance(blocks[0], _SparseBlock) else scores.maps
            self.objectives.append(sum(block.objective for block in blocks))
            self._n_sweeps += 1
            if not self._stopped:
                ended = AlternationEnded(self._n_sweeps, self.objectives[-1], worst)
                self._stopped = self._limits.listener.hear(ended)
            if self._stopped or worst <= tol:
                break
        if self._passes.has_sketch and worst > tol:
            scores = self._scores(blocks, exactly=True)
            _judge(blocks, scores)
        return blocks, scores

    def _without_empty(
        self, blocks: list[_Block], maps: FloatArray, scores: _Scores, tol: float
    ) -> tuple[list[_Block], FloatArray, _Scores | None]:
        """Solve blocks without scores again at a lower smoothness, or leave them out."""
        lowered = [k for k in np.flatnonzero(scores.is_empty) if blocks[k].lower_smoothness()]
        for k in lowered:
            blocks[k].solve(maps[k], tol, SEARCH_REDUCTION)
        kept = sorted({*lowered, *np.flatnonzero(~scores.is_empty)})
        blocks, maps = [blocks[k] for k in kept], maps[kept]
        return blocks, maps, self._scores(blocks, exactly=not self._passes.has_sketch) if blocks else None

    def _scores(self, blocks: list[_Block], *, exactly: bool) -> _Scores:
        """Return the best scores for the loadings: the polar factor of ``X V`` without the known scores."""
        loadings = np.stack([block.loading for block in blocks])
        raw, back = self._passes.there_and_back_many(loadings, exactly=exactly)
        inner = self._known.T @ raw
        free, back = raw - self._known @ inner, back - beside(inner.T, back) @ self._known_maps
        unit = binary_unit(free)
        left, lengths, right = np.linalg.svd(free / unit, full_matrices=False)
        lengths = unit * lengths
        lengths = np.maximum(lengths, ROUNDING * lengths[0] or 1.0)
        turn = (right.T / lengths) @ right
        norms = np.linalg.norm(free, axis=0)
        most = float(np.sqrt(self._data.squared_norm())) * np.array(
            [float(np.linalg.norm(v)) for v in loadings]
        )
        is_empty = norms <= np.sqrt(RANK_FLOOR) * most
        norms = np.where(is_empty, 1.0, norms)
        return _Scores(
            u=left @ right,
            maps=beside(turn.T / len(raw), back) @ back,
            raw=raw,
            strength=np.array([float(np.linalg.norm(row / n)) for row, n in zip(back, norms, strict=True)]),
            correlation=np.abs(free.T @ free) / np.outer(norms, norms),
            is_empty=is_empty,
        )


class _Extrapolation:
    """Scores pushed on along their last change, or pulled back where they oscillate (a secant step).

    A sweep leads from scores X to U. From its last two moves ``F = U - X`` follows how far X would have to go
    until the moves vanish, if they changed linearly.
    """

    def __init__(self) -> None:
        self._from: FloatArray | None = None  # the scores that the last sweep started from, shape (N, K)
        self._last: tuple[FloatArray, _Scores] | None = None  # the last move, and the scores that it led to

    def next_maps(self, scores: _Scores) -> FloatArray:
        """Return the maps (K, P) to start the next sweep from; they are linear in the scores."""
        start, last = self._from, self._last
        self._from, self._last = scores.u, None
        if start is None:
            return scores.maps
        move = scores.u - start
        self._last = move, scores
        push = 0.0 if last is None else _secant(move, last[0])
        if last is None or push == 0.0:
            return scores.maps
        before = last[1]
        left, lengths, right = np.linalg.svd((1 + push) * scores.u - push * before.u, full_matrices=False)
        self._from = left @ right
        turn = beside((right.T / lengths) @ right, scores.maps)
        return turn @ ((1 + push) * scores.maps - push * before.maps)


def _secant(move: FloatArray, last: FloatArray) -> float:
    """Return the multiple of the last change of the scores by which to push them on."""
    change = move - last
    step = -float(np.sum(change * move)) / (float(np.sum(change * change)) or 1.0)
    if float(np.sum(move * last)) < 0:
        return max(step, -LONGEST_PULL)
    # moves that grow say nothing about where they end
    return min(step, LONGEST_PUSH) if step > 0 else LONGEST_PUSH


def _repeated(scores: _Scores | None) -> int | None:
    """Return the stronger of the two components that are most clearly parts of one pattern, or None."""
    if scores is None or len(scores.strength) < 2:
        return None
    pairs = np.triu(scores.correlation, 1)
    if pairs.max() <= SAME_PATTERN:
        return None
    pair = np.unravel_index(int(np.argmax(pairs)), pairs.shape)
    return int(max(pair, key=lambda k: scores.strength[k]))


def _judge(blocks: Sequence[_Block], scores: _Scores) -> float:
    """Judge all loadings by their own scores, and return the largest relative gap."""
    for block, r in zip(blocks, scores.maps, strict=True):
        block.judge(r)
    return max(block.gap / block.scale if block.scale > 0 else 0.0 for block in blocks)
