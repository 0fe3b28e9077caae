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
from sklearn.base import clone

from spcatv.decomposition import Decomposition
from spcatv.estimator import SPCATV
from spcatv.estimator.fitting import warn_about
from spcatv.progress import SILENT, Listener, listeners, together
from spcatv.selection.grid import FIRST_SHARE, dead_alpha
from spcatv.selection.path import PathFit, PathFitter, Setting, checked_template, complete_setting

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
        One for all components together, or one per component.
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
    X : array-like or Data of shape (n_samples, n_features)
        Training data.
    sparsity : float, or sequence of float of length n_components
        Share of zeros wanted, between 0 and 1. One number: of all loadings of all components together,
        with one alpha (a component that dies counts with all its zeros). One per component: each gets an
        alpha of its own, found on what the components before it leave of the data.
    tol : float, default=0.01
        How close is close enough.
    alpha_precision : float, default=1e-3
        The search also ends when both sides of the bracket are this close, relatively: the share of zeros
        then jumps past the target.
    max_fits : int, default=40
        Most fits per search.

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
    limits = SearchLimits(tol, alpha_precision, max_fits)
    choice = find_sparsity(estimator, X, sparsity, limits, listener=together(*listeners()))
    warn_about(choice.model)
    return choice


def fit_alphas(estimator: SPCATV, X: Any, alphas: Sequence[float]) -> SPCATV:
    """Fit a copy of an estimator with one alpha per component, in the estimator's units.

    The same as ``clone(estimator).set_params(alpha=tuple(alphas)).fit(X)``.
    """
    model: SPCATV = clone(estimator).set_params(alpha=tuple(float(alpha) for alpha in alphas)).fit(X)
    return model


def find_sparsity(
    estimator: SPCATV,
    X: Any,
    sparsity: float | Sequence[float],
    limits: SearchLimits,
    *,
    listener: Listener = SILENT,
) -> SparsityChoice:
    """`alpha_for_sparsity` without a word of warning."""
    targets = checked_targets(sparsity, int(estimator.n_components))
    if estimator.l1_ratio == 0:
        raise ValueError("l1_ratio is 0: without an l1 penalty no loading becomes zero; give l1_ratio > 0")
    if estimator.refine and np.ndim(sparsity) > 0:
        raise ValueError(
            "refine=True changes all components together, so that a share of zeros per component cannot be "
            "searched for one after the other; set refine=False, or ask for one share of all zeros"
        )
    template, data, structure = checked_template(clone(estimator).set_params(alpha=1.0), X)
    fitter = PathFitter(template, data, structure, listener=listener)
    dead = dead_alpha(template, fitter) or 1.0  # data without variance are zero at any alpha
    setting = complete_setting(template, {})
    if np.ndim(sparsity) == 0:

        def fit_all(alpha: float, near: Sequence[_Trial]) -> _Trial:
            return _Trial(alpha, fitter.fit_from({**setting, "alpha": alpha}, [t.fitted for t in near]))

        search, trial = _search(fit_all, targets[0], dead, limits)
        return SparsityChoice(fitter.model(trial.fitted), (search,))
    return _one_by_one(fitter, setting, targets, dead, limits)


def _one_by_one(
    fitter: PathFitter, setting: Setting, targets: Sequence[float], dead: float, limits: SearchLimits
) -> SparsityChoice:
    """One search per component, each on what the components before it leave of the data."""
    searches: list[SparsitySearch] = []
    trial: _Trial | None = None
    for number, target in enumerate(targets):
        found = None if trial is None else trial.fitted.fit.decomposition
        alphas = tuple(search.chosen.alpha for search in searches)
        fit_next = _next_component(fitter, setting, alphas, found)
        search, trial = _search(fit_next, target, dead, limits, component=number)
        searches.append(search)
    if trial is None:
        raise RuntimeError("no component was asked for")
    return SparsityChoice(fitter.model(trial.fitted), tuple(searches))


def _next_component(
    fitter: PathFitter, setting: Setting, alphas: tuple[float, ...], found: Decomposition | None
) -> Callable[[float, Sequence[_Trial]], _Trial]:
    """Fits one component more with a given alpha; those found stay as they are."""

    def fit(alpha: float, near: Sequence[_Trial]) -> _Trial:
        own = {**setting, "n_components": len(alphas) + 1, "alpha": (*alphas, alpha)}
        return _Trial(alpha, fitter.fit_from(own, [trial.fitted for trial in near], found))

    return fit


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


@dataclass(frozen=True, eq=False)
class _Trial:
    """A fit with one value of alpha."""

    alpha: float
    fitted: PathFit


# Fits a value of alpha from the trials given.
_FitAlpha = Callable[[float, Sequence[_Trial]], _Trial]


def _search(
    fit: _FitAlpha, target: float, dead: float, limits: SearchLimits, component: int | None = None
) -> tuple[SparsitySearch, _Trial]:
    """Search for one alpha by the zeros of one component, or of all of them."""
    bisection = _Bisection(fit, target, dead, limits, component)
    bisection.run()
    return bisection.result(), bisection.chosen_trial


class _Bisection:
    """State of a search: the two sides of the target, and the best fit so far."""

    def __init__(
        self, fit: _FitAlpha, target: float, dead: float, limits: SearchLimits, component: int | None
    ) -> None:
        self._fit, self._target, self._dead, self._limits = fit, target, dead, limits
        self._component = component
        self._below: tuple[Evaluation, _Trial] | None = None
        self._above: tuple[Evaluation, _Trial | None] = (Evaluation(dead, 1.0, 1.0, 0.0, False), None)
        self._evaluations: list[Evaluation] = []
        self._chosen: tuple[Evaluation, _Trial] | None = None

    @property
    def chosen_trial(self) -> _Trial:
        """The fit that came closest."""
        return self._best()[1]

    def _best(self) -> tuple[Evaluation, _Trial]:
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
        trial = self._fit(alpha, self._nearest(alpha))
        evaluation = _evaluation(trial, self._component)
        self._evaluations.append(evaluation)
        if evaluation.sparsity < self._target:
            self._below = (evaluation, trial)
        else:
            self._above = (evaluation, trial)
        if self._chosen is None or self._distance(evaluation) < self._distance(self._chosen[0]):
            self._chosen = (evaluation, trial)

    def _distance(self, evaluation: Evaluation) -> tuple[bool, float]:
        """How far from the target; a fit without components is farther than any other."""
        return not evaluation.alive, abs(evaluation.sparsity - self._target)

    def _nearest(self, alpha: float) -> list[_Trial]:
        """The side of the bracket to start from: the nearer one in log(alpha) that has a component."""
        sides = [
            trial
            for side in (self._below, self._above)
            if side is not None and (trial := side[1]) is not None and side[0].alive
        ]
        return sorted(sides, key=lambda trial: abs(np.log(trial.alpha / alpha)))[:1]

    def _next(self) -> float | None:
        """The next alpha to look at; None at the end."""
        at_end = len(self._evaluations) >= self._limits.max_fits
        if at_end or self._reached(self._evaluations[-1]):
            return None
        above = self._above[0].alpha
        if self._below is None:
            lower = above / STRIDE
            return lower if lower > SMALLEST_SHARE * self._dead else None
        below = self._below[0].alpha
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


def _evaluation(trial: _Trial, component: int | None) -> Evaluation:
    """What a fit gives: for one of its components, or for all together."""
    fit = trial.fitted.fit
    which = slice(None) if component is None else slice(component, component + 1)
    components, records = fit.components[which], fit.decomposition.diagnostics[which]
    return Evaluation(
        alpha=trial.alpha,
        sparsity=float(np.mean(components == 0)),
        sparsity_bound=float(np.mean([1 - record.n_certain / components.shape[1] for record in records])),
        relative_gap=max(record.relative_gap for record in records),
        alive=bool(components[0].any()),
    )
