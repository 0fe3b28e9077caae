"""alpha from the share of zeros that is wanted: a bisection of which every step is a certified fit.

The share of zeros grows with alpha, but neither strictly nor continuously: a flat region leaves a loading
as a whole. What a search proves is a bracket, two fits on both sides of the target (docs/method.md section
6.3), and it says so if the target lies in a jump between them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.decomposition import ComponentDiagnostics
from spcatv.estimator import SPCATV, NullComponentWarning
from spcatv.selection.each_component import fit_one_by_one
from spcatv.selection.grid import FIRST_SHARE
from spcatv.selection.warm_path import PathWalker, Setting, Step, complete_setting, plain, quiet

# Below this share of the alpha that kills everything the search gives up: the penalty has no effect left.
SMALLEST_SHARE = 1e-7
# Factor from one alpha to the next until the target lies between two of them.
STRIDE = 2.0


@dataclass(frozen=True)
class Evaluation:
    """What one value of alpha gives.

    Attributes
    ----------
    alpha : float
        In the estimator's units.
    sparsity : float
        Share of the loadings that are exactly zero.
    sparsity_bound : float
        Share that can be zero at most in the exact solution for the same scores: the others are larger than
        the certified error (docs/method.md section 3.3).
    relative_gap : float
        Largest relative duality gap of its components.
    alive : bool
        Whether its first component is not zero.
    """

    alpha: float
    sparsity: float
    sparsity_bound: float
    relative_gap: float
    alive: bool


@dataclass(frozen=True)
class SparsitySearch:
    """A search for one alpha.

    Attributes
    ----------
    target : float
        Share of zeros wanted.
    chosen : Evaluation
        The one that came closest, among those with a component that is not zero where there are any.
    reached : bool
        Whether it is within the tolerance of the target.
    below : Evaluation or None
        The largest alpha found with fewer zeros than wanted; None if the weakest penalty tried has more.
    above : Evaluation
        The smallest alpha found beyond it with at least as many; at the far end the alpha at which all
        loadings are zero, which needs no fit.
    evaluations : tuple of Evaluation
        All fits, in the order they were made.
    """

    target: float
    chosen: Evaluation
    reached: bool
    below: Evaluation | None
    above: Evaluation
    evaluations: tuple[Evaluation, ...]


@dataclass(frozen=True, eq=False)
class SparsityChoice:
    """A model with the share of zeros that was asked for, or as close as it gets.

    Attributes
    ----------
    model : SPCATV
        The fitted model.
    searches : tuple of SparsitySearch
        One for all components together, or one a component.
    """

    model: SPCATV
    searches: tuple[SparsitySearch, ...]

    @property
    def alphas(self) -> tuple[float, ...]:
        """The value of alpha of every search."""
        return tuple(search.chosen.alpha for search in self.searches)

    @property
    def sparsity(self) -> tuple[float, ...]:
        """The share of zeros of every search."""
        return tuple(search.chosen.sparsity for search in self.searches)

    @property
    def reached(self) -> bool:
        """Whether every search has come within the tolerance of its target."""
        return all(search.reached for search in self.searches)


def alpha_for_sparsity(
    estimator: SPCATV,
    X: Any,
    sparsity: float | Sequence[float],
    *,
    tol: float = 0.01,
    alpha_precision: float = 1e-3,
    max_fits: int = 40,
) -> SparsityChoice:
    """Find alpha such that a given share of the loadings is zero.

    Parameters
    ----------
    estimator : SPCATV
        Everything but alpha; it is not changed. ``l1_ratio`` must be above 0.
    X : array-like of shape (n_samples, n_features)
        Training data.
    sparsity : float, or sequence of float of length n_components
        Share of zeros wanted, between 0 and 1. One number: of all loadings of all components together,
        with one alpha (a component that dies counts with all its zeros). One a component: each gets an
        alpha of its own, found on what the components before it leave of the data.
    tol : float, default=0.01
        How close is close enough.
    alpha_precision : float, default=1e-3
        The search also ends when both sides of the bracket are this close, relatively: the share of zeros
        then jumps past the target.
    max_fits : int, default=40
        Most fits a search.

    Returns
    -------
    SparsityChoice
        With the fitted model, what was reached, and every step on the way.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import alpha_for_sparsity
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> choice = alpha_for_sparsity(SPCATV(1), X, 0.8)
    >>> choice.reached, int((choice.model.components_ == 0).sum())
    (True, 80)
    """
    choice = find_sparsity(estimator, X, sparsity, SearchLimits(tol, alpha_precision, max_fits))
    warn_of_model(choice.model)
    return choice


def find_sparsity(
    estimator: SPCATV, X: Any, sparsity: float | Sequence[float], limits: SearchLimits
) -> SparsityChoice:
    """`alpha_for_sparsity` without a word of warning."""
    targets = checked_targets(sparsity, int(estimator.n_components))
    if estimator.l1_ratio == 0:
        raise ValueError("l1_ratio is 0: without an l1 penalty no loading becomes zero; give l1_ratio > 0")
    if np.ndim(sparsity) == 0:
        search, step = _search(PathWalker(quiet(estimator), X), estimator, targets[0], limits)
        return SparsityChoice(plain(step.model), (search,))
    searches = []

    def with_its_zeros(number: int, single: SPCATV, residual: FloatArray) -> SPCATV:
        search, step = _search(
            PathWalker(single, residual), single, targets[number], limits, unit=float(single.alpha)
        )
        searches.append(search)
        return step.model

    model = fit_one_by_one(estimator, X, with_its_zeros)
    return SparsityChoice(model, tuple(searches))


def warn_of_model(model: SPCATV) -> None:
    """Warn of components that have not converged, and of those that are zero."""
    missed = [str(k + 1) for k, record in enumerate(model.diagnostics_) if not record.converged]
    if missed:
        warn_user(
            f"tol={model.tol:g} was not reached by component {', '.join(missed)}; diagnostics_ holds the "
            f"gaps that were. Raise max_iter (now {model.max_iter}) or tol.",
            ConvergenceWarning,
        )
    null = [str(k + 1) for k, component in enumerate(model.components_) if not component.any()]
    if null:
        warn_user(
            f"{len(null)} of {len(model.components_)} components are zero (number {', '.join(null)}): at "
            "this share of zeros the penalties leave nothing of them, or the data have no variance left. Ask "
            "for a share of zeros a component, or lower n_components.",
            NullComponentWarning,
        )


def checked_targets(sparsity: Any, n_components: int) -> tuple[float, ...]:
    """The targets as a tuple: one for all components, or one each."""
    alone = np.ndim(sparsity) == 0
    targets = np.atleast_1d(np.asarray(sparsity, dtype=np.float64))
    if targets.ndim != 1 or (not alone and len(targets) != n_components):
        raise ValueError(
            f"sparsity must be one number, or one for each of the {n_components} components; got {sparsity!r}"
        )
    if not ((targets > 0) & (targets < 1)).all():
        raise ValueError(f"sparsity is a share of zeros, above 0 and below 1; got {sparsity!r}")
    return tuple(targets.tolist())


@dataclass(frozen=True)
class SearchLimits:
    """When a search ends: see `alpha_for_sparsity`."""

    tol: float = 0.01
    alpha_precision: float = 1e-3
    max_fits: int = 40

    def __post_init__(self) -> None:
        if not 0 < self.tol < 1:
            raise ValueError(f"tol is a share of the loadings, between 0 and 1; got {self.tol}")
        if not self.alpha_precision > 0:
            raise ValueError(f"alpha_precision must be above 0, got {self.alpha_precision}")
        if self.max_fits < 1:
            raise ValueError(f"max_fits must be at least 1, got {self.max_fits}")


def _search(
    walker: PathWalker, estimator: SPCATV, target: float, limits: SearchLimits, unit: float = 1.0
) -> tuple[SparsitySearch, Step]:
    """Search for one alpha, told in units of `unit`; the model is that of the chosen evaluation."""
    setting = complete_setting(estimator, {"alpha": 1.0})
    # data without variance are zero at any alpha
    scale = walker.unit() or walker.alpha_unit() or 1.0
    dead = scale / setting["l1_ratio"] / (walker.alpha_unit() or 1.0)
    bisection = _Bisection(walker.fit, setting, target, dead, limits, unit)
    bisection.run()
    return bisection.result(), bisection.chosen_step


class _Bisection:
    """State of a search: the two sides of the target, and the best fit so far."""

    def __init__(
        self,
        fit: Callable[[Setting, Sequence[Step]], Step],
        setting: Setting,
        target: float,
        dead: float,
        limits: SearchLimits,
        unit: float,
    ) -> None:
        self._fit, self._setting, self._target, self._limits, self._unit = fit, setting, target, limits, unit
        self._dead = dead
        self._below: tuple[Evaluation, Step] | None = None
        self._above: tuple[Evaluation, Step | None] = (Evaluation(dead / unit, 1.0, 1.0, 0.0, False), None)
        self._evaluations: list[Evaluation] = []
        self._chosen: tuple[Evaluation, Step] | None = None

    @property
    def chosen_step(self) -> Step:
        """The fit that came closest."""
        return self._best()[1]

    def _best(self) -> tuple[Evaluation, Step]:
        if self._chosen is None:
            raise RuntimeError("the search has not begun")
        return self._chosen

    def run(self) -> None:
        """Fit until the target is met, or the bracket is small, or the fits are used up."""
        alpha: float | None = FIRST_SHARE * self._dead
        while alpha is not None:
            self._evaluate(alpha)
            alpha = self._next()

    def _evaluate(self, alpha: float) -> None:
        step = self._fit({**self._setting, "alpha": alpha}, self._nearest(alpha))
        evaluation = _evaluation(step.model, alpha / self._unit)
        self._evaluations.append(evaluation)
        if evaluation.sparsity < self._target:
            self._below = (evaluation, step)
        else:
            self._above = (evaluation, step)
        if self._chosen is None or self._distance(evaluation) < self._distance(self._chosen[0]):
            self._chosen = (evaluation, step)

    def _distance(self, evaluation: Evaluation) -> tuple[bool, float]:
        """How far from the target; a model without components is farther than any other."""
        return not evaluation.alive, abs(evaluation.sparsity - self._target)

    def _nearest(self, alpha: float) -> list[Step]:
        """The side of the bracket to start from: the nearer one in log(alpha) that has a component."""
        sides = [
            step
            for side in (self._below, self._above)
            if side is not None and (step := side[1]) is not None and side[0].alive
        ]
        return sorted(sides, key=lambda step: abs(np.log(step.setting["alpha"] / alpha)))[:1]

    def _next(self) -> float | None:
        """The next alpha to look at; None at the end."""
        at_end = len(self._evaluations) >= self._limits.max_fits
        if at_end or self._reached(self._evaluations[-1]):
            return None
        above = self._above[0].alpha * self._unit
        if self._below is None:
            lower = above / STRIDE
            return lower if lower > SMALLEST_SHARE * self._dead else None
        below = self._below[0].alpha * self._unit
        if above / below <= 1 + self._limits.alpha_precision:
            return None
        return float(min(STRIDE * below, np.sqrt(below * above)))

    def _reached(self, evaluation: Evaluation) -> bool:
        return evaluation.alive and abs(evaluation.sparsity - self._target) <= self._limits.tol

    def result(self) -> SparsitySearch:
        """What was found."""
        chosen = self._best()[0]
        return SparsitySearch(
            target=self._target,
            chosen=chosen,
            reached=self._reached(chosen),
            below=None if self._below is None else self._below[0],
            above=self._above[0],
            evaluations=tuple(self._evaluations),
        )


def _evaluation(model: SPCATV, alpha: float) -> Evaluation:
    n_features = model.n_features_in_
    records: tuple[ComponentDiagnostics, ...] = model.diagnostics_
    return Evaluation(
        alpha=alpha,
        sparsity=float(np.mean(model.components_ == 0)),
        sparsity_bound=float(np.mean([1 - record.n_certain / n_features for record in records])),
        relative_gap=max(record.relative_gap for record in records),
        alive=bool(model.components_[0].any()),
    )
