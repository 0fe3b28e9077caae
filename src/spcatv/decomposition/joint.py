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
    JointStart,
    binary_unit,
    rotated_start,
    singular_scores,
)
from spcatv.decomposition.weights import (
    ROUNDING,
    SMOOTHNESS_FACTOR,
    TARGET_L2,
    LoadingPenalty,
    Request,
    SparsityTarget,
)
from spcatv.kernels.vectors import absolute_sum, counts, order_statistic
from spcatv.problem import Certificate, LoadingProblem
from spcatv.progress import AlternationEnded
from spcatv.solvers.pdhg import WarmSolver

# End the search for supports when the squared relative change of every loading and its relative gap are below
# this, or after so many sweeps.
SETTLED, SEARCH_SWEEPS = 0.01, 15
# Relative gap of the smoothed maps that supports are taken from, unless the tolerance is larger.
SUPPORT_TOL = 1e-4
# A sweep stops each loading problem at this share of its first gap: during the search, and later.
SEARCH_REDUCTION, FINAL_REDUCTION = 0.3, 0.1
# Weight of the l1 norm in a smoothed map, per wanted share of zeros, in units of the map's mean deviation.
FLOOR = 0.1
# Largest threshold of the search, as a share of the largest entry, so that a flat map keeps something.
HIGHEST_CUT = 0.95
# Entries of a map that differ by less than this share of the largest enter a support together.
TIED = 1e-5
# Components whose raw scores ``X v`` correlate above this are parts of one pattern.
SAME_PATTERN = 0.95
# Extrapolate scores along their last change by at most this multiple of it; pull them back by at most this.
LONGEST_PUSH, LONGEST_PULL = 2.0, 0.5
# Shorten the longest push by this factor after one that was too long.
SHORTER = 0.3


class _Block:
    """Loading of one component for fixed weights, with its certificate."""

    def __init__(self, request: Request, solver: WarmSolver, number: int) -> None:
        self.request, self.solver, self.number = request, solver, number
        self.n_iter, self.gap, self.scale, self.objective = 0, 0.0, 0.0, 0.0
        self.loading: FloatArray
        self.certificate: Certificate

    @property
    def penalty(self) -> LoadingPenalty:
        """The penalty on the loading."""
        assert isinstance(self.request, LoadingPenalty)
        return self.request

    @property
    def relative_gap(self) -> float:
        """Gap over the scale."""
        return self.gap / self.scale if self.scale > 0 else 0.0

    def lower_smoothness(self) -> bool:
        """Return False: weights are fixed."""
        return False

    def free_support(self) -> None:
        """Do nothing: fixed weights decide about the support."""

    def fix_support(self) -> None:
        """Do nothing: fixed weights decide about the support."""

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
    """Loading of a wanted sparsity: a smoothed map, soft-thresholded until its support is fixed.

    A small l1 weight in the smoothing problem makes flat parts of the map without signal exactly zero.
    Without it they would be zero up to noise, and cost most of the iterations. Loadings on a fixed support
    get back what it takes away.
    """

    request: SparsityTarget

    def __init__(
        self, request: SparsityTarget, solver: WarmSolver, number: int, first_map: FloatArray
    ) -> None:
        super().__init__(request, solver, number)
        self._first_map = first_map  # diffused map of the scores that the fit starts from, shape (P,)
        self._signs: FloatArray | None = None  # of the entries of a fixed support, 0 outside it; shape (P,)
        self.smoothness, self.unit, self.l1, self.jump = request.smoothness, 1.0, 0.0, 0.0

    @property
    def penalty(self) -> LoadingPenalty:
        """The penalty of the smoothing problem, with the weights of the last step."""
        return self.request.with_weights(self.l1, self.smoothness * self.unit, self.unit)

    def solve(self, r: FloatArray, tol: float, reduction: float) -> None:
        """Smooth the map ``r = X'u / N`` (P,), and take the loading from it."""
        self.unit = self.request.unit(r)
        self.l1 = 0.0
        problem = self._problem(r)
        if problem.has_structure:
            self.l1 = FLOOR * self.request.sparsity * absolute_sum(r - r.mean()) / r.size
            problem = self._problem(r)
        goal = STEP_SHARE * tol * self.request.gap_scale(r, problem, tol)
        step = self.solver.step(problem, goal, reduction)
        self.n_iter += step.n_iter
        self.certificate, self._tol = step.certificate, tol
        self.objective = TARGET_L2 * (step.value - problem.scale())
        if self._signs is None:
            n_zeros = self.request.n_zeros
            cut, largest = order_statistic(np.abs(step.v), max(n_zeros - 1, 0))
            cut = min(cut, HIGHEST_CUT * largest) if n_zeros > 0 else 0.0
            self.loading = step.v - np.clip(step.v, -cut, cut)
        else:
            self.loading = np.where(self._signs != 0, step.v + self.l1 * self._signs, 0.0)

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

    def fix_support(self) -> None:
        """Take the support of the wanted size from the mean of the first and the present map.

        The mean changes less from one sample of the data to the next than either. It also says which
        entries of a flat part of the smoothed map come first. Entries that are zero in the smoothed map stay
        zero, and tied entries enter together or not at all, whichever is closer to the wanted size.
        """
        z = self.certificate.v
        key = z / (float(np.linalg.norm(z)) or 1.0)
        key = key + self._first_map / (float(np.linalg.norm(self._first_map)) or 1.0)
        size = np.where(z != 0, np.maximum(key, 0.0) if self.request.positive else np.abs(key), 0.0)
        n_zeros = self.request.n_zeros
        cut = 0.0
        if n_zeros > 0:
            cut, largest = order_statistic(size, n_zeros - 1)
            tied = largest * (TIED if self.l1 > 0 else ROUNDING)
            below, upto = np.nextafter(cut - tied, -np.inf), cut + tied
            n_below, n_upto = counts(size, below, upto)
            keep = cut > 0 and (n_zeros - n_below < n_upto - n_zeros or n_upto == size.size)
            cut = below if keep else upto if cut > 0 else 0.0
            self.jump = (n_upto - n_below) / size.size if n_upto - n_below > 1 and cut > 0 else 0.0
        self._signs = np.where(size > cut, np.sign(z), 0.0)
        self.loading = np.where(self._signs != 0, z + self.l1 * self._signs, 0.0)

    def free_support(self) -> None:
        """Let the support follow the map again."""
        self._signs = None

    def component(self, scores: _Scores, k: int, *, tol: float, keep_warm_start: bool) -> Component:
        """Return the component with the k-th scores."""
        found = super().component(scores, k, tol=tol, keep_warm_start=keep_warm_start)
        return replace(
            found, smoothness=self.smoothness, jump=self.jump, target_sparsity=self.request.sparsity
        )

    def _problem(self, r: FloatArray) -> LoadingProblem:
        return self.penalty.problem_at(r / TARGET_L2)


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
    start: JointStart | None  # what the fit started from; None if it had nothing to fit


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
        start: JointStart | None = None,
        warm: Sequence[Component] = (),
        found: Sequence[Component] = (),
    ) -> JointFit:
        """Fit one component for every request.

        Parameters
        ----------
        requests : sequence of LoadingPenalty or SparsityTarget
            One per component, those of `found` first.
        start : JointStart, default=None
            What to start from; by default `rotated_start`.
        warm : sequence of Component
            Components of similar requests: the loading solvers start from their solutions.
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
        first: JointStart | None = None
        while left:
            begin = start or self._start(left)
            first, start = first or begin, None
            if next(iter(left.values())).positive:
                begin = begin.upright()
            if begin.scores.shape[1] == 0:
                break
            blocks = [
                self._block(request, number, first_map)
                for (number, request), first_map in zip(left.items(), begin.smooth_maps, strict=False)
            ]
            _start_solvers(blocks, begin.scores, warm)
            new = self._fit_blocks(blocks, begin.scores)
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
            first,
        )

    def _block(self, request: Request, number: int, first_map: FloatArray) -> _Block:
        solver = self._make_solver(request)
        if isinstance(request, SparsityTarget):
            return _SparseBlock(request, solver, number, first_map)
        return _Block(request, solver, number)

    def _fix(self, component: Component) -> None:
        """Keep all further scores orthogonal to those of a component."""
        if component.is_empty:
            return
        self._known = np.column_stack([self._known, component.u])
        self._known_maps = np.concatenate([self._known_maps, beside(component.back, self._known_maps)[None]])

    def _start(self, left: dict[int, Request]) -> JointStart:
        structure = next(iter(left.values())).structure
        n_spare = SPARE_DIRECTIONS if self._sketch is None else 2 * SPARE_DIRECTIONS
        n_leading = len(left) + self._known.shape[1] + n_spare
        known = self._known, self._known_maps
        if self._sketch is None:
            leading = singular_scores(self._data, n_leading).T
            return rotated_start(self._data, leading, structure, len(left), *known)
        leading = self._sketch.leading_squares(n_leading)[1].T
        return rotated_start(self._sketch, leading, structure, len(left), *known)

    def _fit_blocks(self, blocks: list[_Block], first: FloatArray) -> dict[int, tuple[Component, FloatArray]]:
        """Fit blocks from their first scores (N, K); only one of them if two are parts of one pattern."""
        tol, scores = self._limits.tol, None
        maps: FloatArray = self._passes.maps(first) / len(first)
        if isinstance(blocks[0], _SparseBlock):
            blocks, scores = self._search(blocks, maps)
            strongest = None if self._stopped else _repeated(scores)
            if strongest is not None and scores is not None:
                unit = scores.raw[:, [strongest]]
                unit = unit - self._known @ (self._known.T @ unit)
                maps = self._passes.maps(unit / np.linalg.norm(unit)) / len(unit)
                blocks, scores = self._search([blocks[strongest]], maps)
            if scores is None:
                return {}
            maps = scores.maps
        if not self._stopped or scores is None:
            blocks, scores = self._certify(blocks, maps, scores is not None)
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

    def _search(self, blocks: list[_Block], maps: FloatArray) -> tuple[list[_Block], _Scores | None]:
        """Alternate with soft-thresholded loadings until they settle, fix the supports, and score them."""
        for block in blocks:
            block.free_support()
        tol = max(SUPPORT_TOL, self._limits.tol)
        before: list[FloatArray] = []
        first = maps
        for _ in range(1 if self._stopped else min(SEARCH_SWEEPS, self._limits.max_iter)):
            for block, r in zip(blocks, maps, strict=True):
                block.solve(r, tol, SEARCH_REDUCTION)
            blocks, scores, worst = self._scored(blocks, maps)
            if scores is None:
                return [], None
            loadings = [block.loading for block in blocks]
            change = _largest_change(before, loadings)
            before, maps = loadings, scores.maps
            if self._stopped or (change <= SETTLED and worst <= max(SETTLED, tol)):
                break
        else:
            if len(blocks) == len(first):
                maps = first
        for block, r in zip(blocks, maps, strict=True):
            if not self._stopped:
                block.solve(r, tol, 0.0)
            block.fix_support()
        scores = self._scores(blocks, exactly=self._stopped or not self._passes.has_sketch)
        _judge(blocks, scores)
        return blocks, scores

    def _certify(
        self, blocks: list[_Block], maps: FloatArray, judged: bool
    ) -> tuple[list[_Block], _Scores | None]:
        """Alternate loadings and scores until every loading is certified for its own scores.

        `judged` tells that the blocks have a gap for these maps. After a stop was asked for, components that
        have no loading get one from a single sweep.
        """
        tol, scores, ahead = self._limits.tol, None, _Extrapolation()
        for _ in range(1 if self._stopped else self._limits.max_iter):
            for block, r in zip(blocks, maps, strict=True):
                if not judged or block.relative_gap > tol:
                    block.solve(r, tol, FINAL_REDUCTION)
            n_blocks = len(blocks)
            blocks, scores, worst = self._scored(blocks, maps)
            if scores is None:
                return [], None
            if self._stopped or worst <= tol:
                break
            if len(blocks) < n_blocks:
                ahead = _Extrapolation()
            maps = (
                ahead.next_maps(scores, self.objectives[-1])
                if isinstance(blocks[0], _SparseBlock)
                else scores.maps
            )
            judged = maps is scores.maps
        if self._passes.has_sketch and worst > tol:
            scores = self._scores(blocks, exactly=True)
            _judge(blocks, scores)
        return blocks, scores

    def _scored(self, blocks: list[_Block], maps: FloatArray) -> tuple[list[_Block], _Scores | None, float]:
        """Return the blocks that have scores, the best scores of their loadings, and the largest gap.

        A sweep ends with it: the loadings were solved for these maps.
        """
        self.objectives.append(sum(block.objective for block in blocks))
        scores: _Scores | None = self._scores(blocks, exactly=not self._passes.has_sketch)
        while scores is not None and scores.is_empty.any():
            blocks, maps, scores = self._without_empty(blocks, maps, scores)
        if scores is None:
            return [], None, 0.0
        worst = _judge(blocks, scores)
        if worst <= self._limits.tol and self._passes.has_sketch:
            scores = self._scores(blocks, exactly=True)
            worst = _judge(blocks, scores)
        self.objectives.append(sum(block.objective for block in blocks))
        self._n_sweeps += 1
        if not self._stopped:
            ended = AlternationEnded(self._n_sweeps, self.objectives[-1], worst)
            self._stopped = self._limits.listener.hear(ended)
        return blocks, scores, worst

    def _without_empty(
        self, blocks: list[_Block], maps: FloatArray, scores: _Scores
    ) -> tuple[list[_Block], FloatArray, _Scores | None]:
        """Solve blocks without scores again at a lower smoothness, or leave them out."""
        lowered = [k for k in np.flatnonzero(scores.is_empty) if blocks[k].lower_smoothness()]
        for k in lowered:
            blocks[k].solve(maps[k], max(SUPPORT_TOL, self._limits.tol), SEARCH_REDUCTION)
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
        self._longest, self._push, self._objective = LONGEST_PUSH, 0.0, np.inf

    def next_maps(self, scores: _Scores, objective: float) -> FloatArray:
        """Return the maps (K, P) to start the next sweep from; they are linear in the scores.

        A push that raised the objective was too long: there is none now, and later ones are shorter.
        """
        start, last = self._from, self._last
        was_too_long = self._push > 0 and objective > self._objective
        self._from, self._last, self._push, self._objective = scores.u, None, 0.0, objective
        if start is None:
            return scores.maps
        move = scores.u - start
        self._last = move, scores
        if was_too_long:
            self._longest *= SHORTER
        elif last is not None:
            self._push = min(_secant(move, last[0]), self._longest)
        if last is None or self._push == 0.0:
            return scores.maps
        push, before = self._push, last[1]
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


def _start_solvers(blocks: Sequence[_Block], scores: FloatArray, warm: Sequence[Component]) -> None:
    """Start every solver from the solution of the component whose scores are closest to its own (N, K)."""
    for block, u in zip(blocks, scores.T, strict=False):
        inner = [float(component.u @ u) for component in warm]
        if inner:
            k = int(np.argmax(np.abs(inner)))
            sign = -1.0 if inner[k] < 0 else 1.0
            if warm[k].dual.size:
                block.solver.restart_from(sign * warm[k].v, sign * warm[k].dual)


def _largest_change(before: Sequence[FloatArray], loadings: Sequence[FloatArray]) -> float:
    """Return the largest squared relative change of a loading; 1 if there were others before."""
    if len(before) != len(loadings):
        return 1.0
    pairs = zip(before, loadings, strict=True)
    return max(float(np.sum(np.square(v - old))) / (float(np.sum(np.square(v))) or 1.0) for old, v in pairs)


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
    return max(block.relative_gap for block in blocks)
