"""All components at once, with uncorrelated scores (docs/method.md section 8).

    minimise over U'U = I and V:   sum_k { -1/N u_k'X v_k + l2 ||v_k||^2 + l1 ||v_k||_1 + tv s(v_k) }

For fixed scores the loadings are K separate problems, each with its own certificate. For fixed loadings the
best scores are the polar factor of ``X V``. With fixed weights, both half steps lower the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from spcatv._util.devices import beside, to_host
from spcatv._util.types import BoolArray, FloatArray
from spcatv.data import CentredData
from spcatv.data.diffusion import binary_unit, diffusion_on
from spcatv.data.leading import singular_scores
from spcatv.data.sketch import CountedPasses
from spcatv.decomposition.alternation import COARSE_TOL, STEP_SHARE, Limits, certified_step
from spcatv.decomposition.component import Component, empty_component
from spcatv.decomposition.extrapolation import Extrapolation
from spcatv.decomposition.starts import SPARE_DIRECTIONS, JointStart, rotated_start
from spcatv.decomposition.weights import (
    ROUNDING,
    SMOOTHNESS_FACTOR,
    LoadingPenalty,
    Request,
    SparsityTarget,
)
from spcatv.kernels.vectors import absolute_sum, counts, order_statistic
from spcatv.problem import Certificate, LoadingProblem
from spcatv.progress import AlternationEnded
from spcatv.solvers.pdhg import WarmSolver
from spcatv.structure import Structure

# End the search for supports when the squared relative change of every loading and its relative gap are below
# this, or after so many sweeps.
SETTLED, SEARCH_SWEEPS = 0.01, 15
# Share of the largest relative gap of a sweep to which the next sweep solves every loading problem, and the
# largest share of one goal that the next goal may be: without it, loose sweeps could repeat for ever.
SWEEP_REDUCTION, GOAL_DECAY = 0.1, 0.9
# Weight of the l1 norm in a smoothed map, per wanted share of zeros, in units of the map's mean deviation.
FLOOR = 0.1
# Largest threshold of the search, as a share of the largest entry, so that a flat map keeps something.
HIGHEST_CUT = 0.95
# Time of the diffusion of smoothed maps before their largest entries are taken: a Gaussian of one pixel.
OUTLINE_DIFFUSION_TIME = 5.0
# Entries of a smoothed map that differ by less than this share of the largest enter a support together.
TIED = 1e-5
# Components whose raw scores ``X v`` correlate above this are parts of one pattern.
SAME_PATTERN = 0.95
# Longest map of the weakest direction that such a pair spans, as a multiple of that of a spare direction.
BEYOND_SPARE = 1.5


class _Block:
    """Loading of one component for fixed weights, with its certificate."""

    loading: FloatArray
    certificate: Certificate

    def __init__(self, penalty: LoadingPenalty, solver: WarmSolver, number: int, tol: float) -> None:
        self.penalty, self.solver, self.number, self._tol = penalty, solver, number, tol
        self.n_iter, self.objective = 0, 0.0
        self.forget_gap()

    @property
    def relative_gap(self) -> float:
        """Gap over the scale, for the last map that the loading was judged by."""
        return self.gap / self.scale if self.scale > 0 else 0.0

    def forget_gap(self) -> None:
        """Let the next map be solved in any case."""
        self.gap, self.scale = np.inf, 1.0

    def solve(self, r: FloatArray, tol: float, goal: float) -> None:
        """Solve the loading problem for the map ``r = X'u / N`` (P,), unless it is certified for it.

        The relative gap falls to `tol`, or to the `goal` of the sweep if that is larger.
        """
        if self.relative_gap <= self._tol:
            return
        self._weigh(r)
        problem = self._problem(r)
        scale = self._gap_scale(r, problem)
        first_goal = None if goal == np.inf else goal * scale
        step = certified_step(self.solver, problem, STEP_SHARE * tol * scale, first_goal)
        self.n_iter += step.n_iter
        self.certificate = step.certificate
        self.objective = self.penalty.weights.l2 * (step.value - problem.scale())
        self.loading = self._loading(step.v)

    def judge(self, r: FloatArray) -> None:
        """Compute the gap of the loading for the map r (P,) of other scores."""
        problem = self._problem(r)
        judgement, self.scale = problem.judge(self.certificate), self._gap_scale(r, problem)
        self.gap = judgement.gap
        self.objective = self.penalty.weights.l2 * (judgement.value - problem.scale())

    def lower_smoothness(self, r: FloatArray) -> bool:
        """Return False: weights are fixed."""
        return False

    def free_support(self) -> None:
        """Do nothing: fixed weights decide about the support."""

    def fix_support(self) -> None:
        """Do nothing: fixed weights decide about the support."""

    def component(self, scores: _Scores, k: int, *, tol: float, keep_warm_start: bool) -> Component:
        """Return the component with the k-th scores."""
        return Component(
            v=self.loading,
            u=scores.u[:, k],
            scores_norm=float(np.linalg.norm(scores.raw[:, k])),
            objective=self.objective,
            gap=self.gap,
            scale=self.scale,
            converged=self.gap <= tol * self.scale,
            n_inner_iter=self.n_iter,
            back=len(scores.u) * scores.maps[k],
            dual=self.solver.dual() if keep_warm_start else np.zeros(0),
            weights=self.penalty.weights,
        )

    def _weigh(self, r: FloatArray) -> None:
        """Set the weights for the map r (P,)."""

    def _loading(self, z: FloatArray) -> FloatArray:
        return z

    def _problem(self, r: FloatArray) -> LoadingProblem:
        return self.penalty.problem_at(r / self.penalty.weights.l2)

    def _gap_scale(self, r: FloatArray, problem: LoadingProblem) -> float:
        return problem.scale()


class _SparseBlock(_Block):
    """Loading of a wanted sparsity: a smoothed map, soft-thresholded until its support is fixed.

    Under a penalty on differences, a small l1 weight in the smoothing problem makes flat parts of the map
    without signal exactly zero. Without it they would be zero up to noise, and cost most of the iterations.
    Loadings on a fixed support get back what it takes away.
    """

    def __init__(
        self, target: SparsityTarget, solver: WarmSolver, number: int, first_map: FloatArray, tol: float
    ) -> None:
        super().__init__(target.with_weights(0.0, 0.0, 1.0), solver, number, tol)
        self._target = target
        self._first_map = first_map  # diffused map of the scores that the fit starts from, shape (P,)
        self._fixed: FloatArray | None = None  # loading when its support was fixed, shape (P,)
        self._smoothness, self._jump = target.smoothness, 0.0

    def lower_smoothness(self, r: FloatArray) -> bool:
        """Smooth the map r (P,) less, and return whether that was possible."""
        if self._smoothness <= self._target.least_smoothness:
            return False
        self._smoothness *= SMOOTHNESS_FACTOR
        self.forget_gap()
        self.solve(r, max(COARSE_TOL, self._tol), 0.0)
        return True

    def fix_support(self) -> None:
        """Take the support of the wanted size from the mean of the first and the present map, both diffused.

        The mean changes less from one sample of the data to the next than either, and orders the entries
        of a flat part of the smoothed map; outlines of diffused maps change less, too. Features without any
        entry stay zero, and tied ones, such as copies of one, enter together or not at all, whichever is
        closer to the wanted size.
        """
        z, l1 = self.certificate.v, self.penalty.weights.l1
        present = self._target.structure.cached(diffusion_on)(z[np.newaxis], OUTLINE_DIFFUSION_TIME)[0]
        key = sum(row / (float(np.linalg.norm(row)) or 1.0) for row in (present, self._first_map))
        size = np.where(
            (z != 0) | (l1 > 0), np.maximum(key, 0.0) if self._target.positive else np.abs(key), 0.0
        )
        n_zeros = self._target.n_zeros
        if n_zeros == 0:
            return
        cut, largest = order_statistic(size, n_zeros - 1)
        if cut > 0:
            tied = largest * (TIED if self._problem(z).has_structure else ROUNDING)
            below, upto = np.nextafter(cut - tied, -np.inf), cut + tied
            n_below, n_upto = counts(size, below, upto)
            self._jump = (n_upto - n_below) / size.size if n_upto - n_below > 1 else 0.0
            cut = below if n_zeros - n_below < n_upto - n_zeros or n_upto == size.size else upto
        self.loading = self._fixed = np.where(size > cut, z + l1 * np.sign(np.where(z == 0, key, z)), 0.0)

    def free_support(self) -> None:
        """Let the support follow the map again."""
        self._fixed = None
        self.forget_gap()

    def component(self, scores: _Scores, k: int, *, tol: float, keep_warm_start: bool) -> Component:
        """Return the component with the k-th scores."""
        return replace(
            super().component(scores, k, tol=tol, keep_warm_start=keep_warm_start),
            smoothness=self._smoothness,
            jump=self._jump,
            target_sparsity=self._target.sparsity,
        )

    def _weigh(self, r: FloatArray) -> None:
        target, unit = self._target, self._target.unit(r)
        l1 = 0.0
        if self._smoothness > 0 and _has_differences_only(target.structure):
            l1 = FLOOR * target.sparsity * absolute_sum(r - r.mean()) / r.size
        self.penalty = target.with_weights(l1, self._smoothness * unit, unit)

    def _loading(self, z: FloatArray) -> FloatArray:
        if self._target.n_zeros == 0:
            return z
        if self._fixed is not None:
            if float(z @ self._fixed) <= 0:  # it turned around, or nothing is left of it
                return np.zeros_like(z)
            return np.where(self._fixed != 0, z + self.penalty.weights.l1 * np.sign(self._fixed), 0.0)
        cut, largest = order_statistic(np.abs(z), self._target.n_zeros - 1)
        cut = min(cut, HIGHEST_CUT * largest)
        return z - np.clip(z, -cut, cut)

    def _gap_scale(self, r: FloatArray, problem: LoadingProblem) -> float:
        return self._target.gap_scale(r, problem, self._tol)


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

    def repeated(self, spare_length: float) -> int | None:
        """Return the stronger of the two components that are most clearly parts of one pattern, or None.

        Raw scores of such a pair hardly differ, and the weakest direction that its scores span explains
        little more than a direction beyond the components, whose map has the length `spare_length`.
        """
        pairs = combinations(range(len(self.maps)), 2)
        alike = [pair for pair in pairs if self.correlation[pair] > SAME_PATTERN]
        for pair in sorted(alike, key=lambda pair: -self.correlation[pair]):
            weakest = np.linalg.svd(to_host(self.maps[list(pair)]), compute_uv=False)[-1]
            if weakest <= BEYOND_SPARE * spare_length:
                return int(max(pair, key=lambda k: self.strength[k]))
        return None


@dataclass(frozen=True, eq=False)
class JointFit:
    """Components with uncorrelated scores, in the order of their requests."""

    components: tuple[Component, ...]
    raw_scores: FloatArray  # ``X v`` of the loadings, shape (N, K)
    start: JointStart | None  # what the fit started from; None if it had nothing to fit


class JointFitter:
    """Fit components jointly.

    `limits.max_iter` counts sweeps over all components; data with many samples are compressed to
    `n_directions` directions.
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
        self, requests: Sequence[Request], start: JointStart | None = None, warm: Sequence[Component] = ()
    ) -> JointFit:
        """Fit one component for every request; empty ones where the data have no further dimension.

        The fit begins at `start`, by default `rotated_start`, and the loading solvers at the solutions of
        `warm`, components of similar requests.
        """
        fitted: dict[int, tuple[Component, FloatArray]] = {}
        left, first = dict(enumerate(requests)), start
        while left:
            begin, start = start or self._start(left), None
            first = first or begin
            begin = begin.upright() if requests[0].positive else begin
            new = self._fit_blocks(self._blocks(left, begin, warm), begin)
            fitted |= new
            for number, (component, _) in new.items():
                self._fix(component)
                del left[number]
            if not new:
                break
        empty = np.zeros(self._data.shape[0])
        every = [
            fitted.get(number, (empty_component(self._data.shape, request), empty))
            for number, request in enumerate(requests)
        ]
        return JointFit(tuple(found for found, _ in every), np.column_stack([raw for _, raw in every]), first)

    def _blocks(
        self, requests: dict[int, Request], start: JointStart, warm: Sequence[Component]
    ) -> list[_Block]:
        """Return a block for every start; its solver starts from the component with the closest scores."""
        blocks: list[_Block] = []
        for (number, request), u, first_map in zip(
            requests.items(), start.scores.T, start.smooth_maps, strict=False
        ):
            solver = self._make_solver(request)
            inner = [float(component.u @ u) for component in warm]
            k = int(np.argmax(np.abs(inner))) if inner else 0
            if inner and warm[k].dual.size:
                sign = -1.0 if inner[k] < 0 else 1.0
                solver.restart_from(sign * warm[k].v, sign * warm[k].dual)
            if isinstance(request, SparsityTarget):
                blocks.append(_SparseBlock(request, solver, number, first_map, self._limits.tol))
            else:
                blocks.append(_Block(request, solver, number, self._limits.tol))
        return blocks

    def _fix(self, component: Component) -> None:
        """Keep all further scores orthogonal to those of a component."""
        if not component.is_empty:
            self._known = np.column_stack([self._known, component.u])
            self._known_maps = np.concatenate(
                [self._known_maps, beside(component.back, self._known_maps)[None]]
            )

    def _start(self, left: dict[int, Request]) -> JointStart:
        structure, products = next(iter(left.values())).structure, self._sketch or self._data
        n_leading = len(left) + self._known.shape[1] + SPARE_DIRECTIONS * (1 if self._sketch is None else 2)
        leading = singular_scores(self._data, n_leading).T
        return rotated_start(products, leading, structure, len(left), self._known, self._known_maps)

    def _fit_blocks(self, blocks: list[_Block], start: JointStart) -> dict[int, tuple[Component, FloatArray]]:
        """Fit blocks from their start; only one of them if two are parts of one pattern."""
        if not blocks:
            return {}
        tol, scores = self._limits.tol, None
        maps: FloatArray = self._passes.maps(start.scores) / len(start.scores)
        if isinstance(blocks[0], _SparseBlock):
            blocks, scores = self._with_supports(blocks, maps)
            strongest = None if self._stopped or scores is None else scores.repeated(start.spare_length)
            if strongest is not None and scores is not None:
                unit = scores.raw[:, [strongest]]
                unit = unit - self._known @ (self._known.T @ unit)
                maps = self._passes.maps(unit / np.linalg.norm(unit)) / len(unit)
                blocks, scores = self._with_supports([blocks[strongest]], maps)
            if scores is None:
                return {}
            maps = scores.maps
        if not self._stopped or scores is None:
            worst, ahead = np.inf, Extrapolation(tol=tol) if isinstance(blocks[0], _SparseBlock) else None
            for sweep in self._sweeps(blocks, maps, tol, self._limits.max_iter, ahead):
                blocks, scores, worst = sweep
                if worst <= tol:
                    break
            if scores is None:
                return {}
            if self._passes.has_sketch and worst > tol:
                scores, _ = self._judged(blocks, exactly=True)
        keep = self._limits.keep_warm_start
        found = [block.component(scores, k, tol=tol, keep_warm_start=keep) for k, block in enumerate(blocks)]
        objectives, n_passes = tuple(self.objectives[1::2]), self._passes.n_passes
        return {
            block.number: (replace(component, objectives=objectives, n_passes=n_passes), scores.raw[:, k])
            for k, (block, component) in enumerate(zip(blocks, found, strict=True))
        }

    def _with_supports(self, blocks: list[_Block], maps: FloatArray) -> tuple[list[_Block], _Scores | None]:
        """Alternate with soft-thresholded loadings until they settle, fix the supports, and score them."""
        for block in blocks:
            block.free_support()
        tol, scores = max(COARSE_TOL, self._limits.tol), None
        loadings: list[FloatArray] = []
        for sweep in self._sweeps(blocks, maps, tol, min(SEARCH_SWEEPS, self._limits.max_iter)):
            blocks, scores, worst = sweep
            before, loadings = loadings, [block.loading for block in blocks]
            if scores is None or _largest_change(before, loadings) <= SETTLED >= worst:
                break
        if scores is None:
            return [], None
        for block, r in zip(blocks, scores.maps, strict=True):
            if not self._stopped:
                block.solve(r, tol, 0.0)
            block.fix_support()
        return blocks, self._judged(blocks, exactly=self._stopped or not self._passes.has_sketch)[0]

    def _sweeps(
        self,
        blocks: list[_Block],
        maps: FloatArray,
        tol: float,
        most: int,
        ahead: Extrapolation | None = None,
    ) -> Iterator[tuple[list[_Block], _Scores | None, float]]:
        """Yield, sweep by sweep, the blocks that have scores, their best scores and the largest relative gap.

        Every sweep solves the loadings for the maps (K, P) of the last scores. After a
        requested stop there is one sweep, so that every component has a loading.
        """
        scores, worst, goal = None, np.inf, np.inf
        for _ in range(1 if self._stopped else most):
            if scores is not None:
                goal = min(SWEEP_REDUCTION * worst, GOAL_DECAY * goal)
                maps = scores.maps if ahead is None else ahead.next_maps(scores.u, scores.maps, worst)
                if maps is not scores.maps:
                    for block in blocks:
                        block.forget_gap()
            for block, r in zip(blocks, maps, strict=True):
                block.solve(r, tol, goal)
            self.objectives.append(sum(block.objective for block in blocks))
            scores, worst = self._judged(blocks, exactly=not self._passes.has_sketch)
            while scores.is_empty.any():
                empty = scores.is_empty
                kept = [not empty[k] or block.lower_smoothness(maps[k]) for k, block in enumerate(blocks)]
                blocks, maps = [block for block, keeps in zip(blocks, kept, strict=True) if keeps], maps[kept]
                if not blocks:
                    yield [], None, 0.0
                    return
                scores, worst = self._judged(blocks, exactly=not self._passes.has_sketch)
            if worst <= self._limits.tol and self._passes.has_sketch:
                scores, worst = self._judged(blocks, exactly=True)
            self.objectives.append(sum(block.objective for block in blocks))
            self._n_sweeps += 1
            if not self._stopped:
                ended = AlternationEnded(self._n_sweeps, self.objectives[-1], worst)
                self._stopped = self._limits.listener.hear(ended)
            yield blocks, scores, worst
            if self._stopped:
                return

    def _judged(self, blocks: Sequence[_Block], *, exactly: bool) -> tuple[_Scores, float]:
        """Return the best scores for the loadings, and the largest relative gap of a loading for them.

        The scores are the polar factor of ``X V`` without the known scores.
        """
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
        most = np.sqrt(self._data.squared_norm()) * np.array([float(np.linalg.norm(v)) for v in loadings])
        is_empty = norms <= np.sqrt(ROUNDING) * most
        norms = np.where(is_empty, 1.0, norms)
        scores = _Scores(
            u=left @ right,
            maps=beside(turn.T / len(raw), back) @ back,
            raw=raw,
            strength=np.array([float(np.linalg.norm(row / n)) for row, n in zip(back, norms, strict=True)]),
            correlation=np.abs(free.T @ free) / np.outer(norms, norms),
            is_empty=is_empty,
        )
        for block, r in zip(blocks, scores.maps, strict=True):
            block.judge(r)
        return scores, max(block.relative_gap for block in blocks)


def _has_differences_only(structure: Structure) -> bool:
    """Return whether the structured penalty of a constant map is zero, and that of some other map is not."""
    return bool(structure.norm_squared() > 0 and structure.is_difference.all())


def _largest_change(before: Sequence[FloatArray], loadings: Sequence[FloatArray]) -> float:
    """Return the largest squared relative change of a loading; infinity if there were others before."""
    if len(before) != len(loadings):
        return np.inf
    pairs = zip(before, loadings, strict=True)
    return max(float(np.sum(np.square(v - old))) / (float(np.sum(np.square(v))) or 1.0) for old, v in pairs)
