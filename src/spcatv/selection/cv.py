"""SPCATVCV: the weights of SPCATV chosen by cross-validation, the scikit-learn face."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from spcatv._util.parameters import (
    FURTHER_SPARSITY,
    RULES,
    SEARCH,
    TARGET_PARAMETERS,
    SearchParameters,
    StructureParameter,
)
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import Adjustment, Data, checked_adjustment
from spcatv.data.leading import singular_scores
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data, checked_data
from spcatv.estimator._validation import check_parameters
from spcatv.estimator._warnings import warn_about, warn_of_count, warn_of_neighbours, warn_of_weights
from spcatv.estimator.components_mixin import ComponentsMixin
from spcatv.model.checkpoint import checkpointing
from spcatv.progress import StageStarted, printing
from spcatv.selection.cross_validation import SelectionTable, cross_validate
from spcatv.selection.folds import are_consecutive, make_folds, warn_of_order
from spcatv.selection.grid import (
    alpha_rows,
    check_largest_alpha,
    ratio_pairs,
    row_below_all_zero,
    target_rows,
    values,
)
from spcatv.selection.path import WEIGHTS, PathFitter, Row, way_to
from spcatv.selection.rules import SelectionWarning, check_folds, choose, edge_of, warn_of_edge
from spcatv.selection.workers import Workers, check_failures, placed, shareable, workers
from spcatv.structure import Structure, as_structure

# Parameters of SPCATV that are the same for every setting.
SHARED = tuple(
    name for name in signature(SPCATV).parameters if name not in (*TARGET_PARAMETERS, *WEIGHTS, "verbose")
)


@dataclass(eq=False, repr=False)
class SPCATVCV(ComponentsMixin, TransformerMixin, BaseEstimator, SearchParameters, StructureParameter):
    """SPCATV with its sparsity and smoothness, or its penalties, chosen by cross-validation.

    Every setting of the grid is fitted to the training samples of every fold, and judged by how well it
    reconstructs the samples held out and by how alike its components are from fold to fold. The setting
    that the rule chooses is then fitted to all samples. Fits run in parallel over folds and rows of the grid.

    Parameters
    ----------
    n_components : int, default=3
        Number of components K; `count_components` finds how many stand out of noise.
    structure : Structure, shape, mask, (coords, triangles), sparse matrix, callable or None, default=None
        As in `SPCATV`.
    sparsity : float or sequence of float, default=(0.5, 0.7, 0.8, 0.9, 0.95)
        Shares of zeros to try; each is that of every component. A choice on the edge of the default grid
        extends it once, to 0.1 and 0.3 or to 0.98.
    smoothness : float or sequence of float, default=(0.5, 1.0, 2.0)
        Values to try. One value is chosen for the data set, not one per fold.
    alpha : float, sequence of float, "grid" or None, default=None
        ``None``: components of a wanted sparsity. Otherwise the penalised model, with these values of alpha.
        "grid": for every pair of ratios `n_alphas` values from just below the one that kills everything down
        to `smallest_alpha` times it (`alpha_grid`), found on all samples.
    l1_ratio : float or sequence of float, default=(0.1, 0.25)
        With `alpha`: values to try.
    tv_ratio : float or sequence of float, default=(0.25, 0.5, 0.7)
        With `alpha`: values to try. Pairs with ``l1_ratio + tv_ratio >= 1`` are left out.
    n_alphas : int, default=8
        With ``alpha="grid"``: values of alpha for each pair of ratios.
    smallest_alpha : float, default=0.02
        With ``alpha="grid"``: the last of them as a share of the first.
    cv : int, scikit-learn splitter or iterable of (train, test), default=None
        Folds; ``None`` is 5. A number makes `GroupKFold` if `fit` is given groups, otherwise `KFold`, whose
        folds are consecutive: a `SampleOrderWarning` says where that matters, and what to give instead.
    rule : {"one_se", "error", "stability", "paper"} or callable, default="one_se"
        * "one_se": the sparsest setting as smooth as the one with the lowest error that explains as much of
          the held-out samples, up to one standard error and 5 %; of equally sparse ones, the most stable;
        * "error": lowest mean reconstruction error;
        * "stability": most stable, by the Dice index over folds, corrected for chance;
        * "paper" (with `alpha` only): lowest mean reconstruction error among settings whose second and third
          components are, on average over folds, zero in at least `min_sparsity` of the features;
        * a function of ``cv_results_`` that returns the number of a setting.

        All but a function choose among settings that keep every component nonempty on every fold.
    min_sparsity : float, default=0.5
        See `rule`.
    standardize : bool, default=False
        Whether every feature is divided by its standard deviation over the samples of each fit: those of a
        fold, and all samples at the end.
    n_jobs : int or None, default=None
        Workers, as in joblib; -1 is one per core. Any number gives the same numbers.
    penalty_units : {"relative", "absolute"}, default="relative"
        "relative": alpha counts in units of ``max_j ||X_j||_2 / N`` over the samples of each fit, those of a
        fold as well as all samples at the end. The unit shrinks with the number of samples as the variance
        explained by a component does, so that a setting chosen on folds means the same on all samples, and
        no fit knows of the samples held out. An "absolute" alpha weighs more on all samples than on a fold,
        by the square root of the ratio of their numbers.
    penalty, positive, center, global_signal, tol, max_iter, solver, n_init, method, refit, \
transform_method, init, dtype, memory_limit, device, random_state
        As in `SPCATV`.
    checkpoint : path, default=None
        Folder that keeps every chain of fits, and every component of the last fit, as soon as it is done:
        after an interruption, the same call goes on from there (`checkpointing`).
    verbose : int, default=0
        1: one line per chain of fits, those of one row of the grid on one fold.

    Attributes
    ----------
    cv_results_ : dict of arrays
        One row per setting, for `pandas.DataFrame`: ``params``, ``param_sparsity``, ``param_smoothness`` (or
        ``param_alpha``, ``param_l1_ratio``, ``param_tv_ratio``); held-out errors ``split<i>_test_error``,
        ``mean_test_error``, ``std_test_error``, ``mean_test_score`` (minus the error),
        ``rank_test_score``; explained shares of the held-out sum of
        squares ``mean_test_explained``, ``se_test_explained`` and, with the first k components,
        ``mean_test_explained_<k>``; ``mean_n_nonempty`` (components that are not zero), and their shares of
        zeros ``mean_sparsity`` and ``mean_sparsity_<k>``; ``mean_dice``, ``mean_dice_<k>`` and
        ``mean_corrected_dice`` over pairs of folds; ``n_unconverged``; ``mean_fit_time`` in seconds. NaN
        where a fit has failed.
    best_index_ : int
        The row chosen.
    best_params_ : dict
        Its ``sparsity`` and ``smoothness``, or its ``alpha``, ``l1_ratio`` and ``tv_ratio``.
    choice_reason_ : str
        Why it was chosen, in words.
    best_score_ : float
        Minus its mean held-out reconstruction error.
    best_estimator_ : SPCATV
        Fitted to all samples with it, after confounds are removed and features scaled if so wanted. With
        `alpha`, it is fitted along the same values of alpha as on the folds: a strong penalty that is
        reached from weaker ones may leave nothing to a fit that begins with it.
    adjustment_ : FittedAdjustment or None
        How samples are adjusted before `best_estimator_` sees them: coefficients of all samples for
        confounds and scale. None without either.
    n_splits_ : int
        Number of folds.
    groups_ : tuple of length n_samples, or None
        The groups that folds kept together.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has names that are all strings.

    Notes
    -----
    Memory: X once. Worker processes share one memory map, and the samples of a fold are a part of it. An X in
    a file is read by every worker. Fits of a Dask array run one after the other, each on all workers that
    hold its blocks.

    A fit that fails is named in a `FailedFitWarning`, its scores are NaN, and the others stand. A fold on
    which all fits fail is left out; a setting that fails on another fold cannot be chosen. It is an error
    if nothing is left.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.selection import SPCATVCV
    >>> rng = np.random.default_rng(0)
    >>> X = 0.5 * rng.standard_normal((40, 60))
    >>> X[:, 10:20] += rng.standard_normal((40, 1))
    >>> search = SPCATVCV(1, structure=(60,), sparsity=[0.5, 0.8], smoothness=1.0).fit(X)
    >>> search.best_params_
    {'sparsity': 0.8, 'smoothness': 1.0}
    >>> search.components_.shape, search.n_iter_ > 0
    ((1, 60), True)
    >>> scores = search.transform(X[:5])
    >>> scores.shape, search.inverse_transform(scores).shape
    ((5, 1), (5, 60))
    >>> search.score(X) == search.best_estimator_.score(X)
    True
    >>> search.choice_reason_
    'sparsest setting, as smooth as the one with the lowest error, that explains about as much; mean Dice \
index over folds 1.00'
    """

    _: KW_ONLY
    standardize: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def fit(self, X: Any, y: Any = None, groups: Any = None, confounds: Any = None) -> SPCATVCV:
        """Choose a setting and fit all samples with it.

        Parameters
        ----------
        X : array-like, Dask array, array in a file, or Data, of shape (n_samples, n_features)
            Data.
        y : array-like of shape (n_samples,), default=None
            For the splitter only, which may stratify by it.
        groups : array-like of shape (n_samples,), default=None
            Samples of one group stay together: on one side of every split.
        confounds : array-like of shape (n_samples, n_confounds), default=None
            Numbers that are regressed out of every feature, with the coefficients of the samples of each fit.

        Returns
        -------
        self : SPCATVCV
            Fitted.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv import SPCATVCV
        >>> X = np.random.default_rng(0).standard_normal((20, 30))
        >>> X[:, :10] += 2 * np.random.default_rng(1).standard_normal((20, 1))
        >>> subject = np.repeat(np.arange(10), 2)  # two visits per subject stay together
        >>> search = SPCATVCV(1, structure=(30,), sparsity=[0.4, 0.6], smoothness=1.0, cv=2)
        >>> search.fit(X, groups=subject).best_params_
        {'sparsity': 0.6, 'smoothness': 1.0}
        """
        with checkpointing(self.checkpoint), printing("SPCATVCV", self.verbose, 1):
            return self._fit(X, y, groups, confounds)

    def _fit(self, X: Any, y: Any, groups: Any, confounds: Any) -> SPCATVCV:
        template = self._template()
        rows = self._known_rows(template)
        data = checked_data(self, X, reset=True, min_samples=2)
        warn_of_count(self, data.shape)
        data = placed(data, self, self.n_jobs)
        shared = shareable(data)
        adjustment = checked_adjustment(self.standardize, confounds, data.shape[0])
        structure = as_structure(self.structure, n_features=data.shape[1])
        warn_of_weights(self, structure)
        warn_of_neighbours(self, data, structure)
        folds = make_folds(self.cv, shared, y, groups)
        check_folds(len(folds), self.rule)
        worker_template = clone(template).set_params(structure=None)
        self.adjustment_ = adjustment.fit(data, np.arange(data.shape[0]))
        adjusted = self._adjusted(data, adjustment.confounds)
        if are_consecutive(self.cv, groups):
            with one_blas_thread():
                centred = centred_data(template, adjusted)
                warn_of_order(singular_scores(centred, int(self.n_components)), folds)
        with workers(self.n_jobs, data) as pool:
            if rows is None:
                rows = self._rows_for(pool, worker_template, shared, structure, adjustment)
            parts = (pool, worker_template, shared, structure, folds, adjustment)
            pool.begin(StageStarted("Comparing settings", len(rows) * len(folds), "chains of fits"))
            table, failures = cross_validate(*parts, rows)
            further = self._further_rows(template, table)
            if further:
                n_further = len(further) * len(folds)
                pool.begin(StageStarted("Comparing settings beyond the edge", n_further, "chains of fits"))
                more, more_failures = cross_validate(*parts, further)
                table, failures = table.with_settings(more), [*failures, *more_failures]
        check_failures(failures, n_left=int(np.isfinite(table.fold_errors).sum()))
        self._store(table)
        self._refit(template, adjusted, structure)
        self.n_splits_ = len(folds)
        self.groups_ = None if groups is None else tuple(groups)
        return self

    def check(self) -> None:
        """Raise a ValueError or TypeError for the first parameter that is wrong, whatever the data.

        Examples
        --------
        >>> from spcatv import SPCATVCV
        >>> SPCATVCV(sparsity=[0.5, 1.5]).check()
        Traceback (most recent call last):
            ...
        ValueError: sparsity is a share of zeros, at least 0 and below 1; got 1.5
        """
        self._known_rows(self._template())

    def _template(self) -> SPCATV:
        """Return the checked parameters that all settings share, as an SPCATV."""
        template = SPCATV(**{name: getattr(self, name) for name in SHARED}, alpha=None, verbose=0)
        check_parameters(template)
        if not callable(self.rule) and self.rule not in RULES:
            raise ValueError(
                f"unknown rule {self.rule!r}; choose one of {', '.join(map(repr, RULES))}, or give a "
                "function of cv_results_ that returns the number of a setting"
            )
        if self.rule == "paper" and self.alpha is None:
            raise ValueError(
                "rule='paper' chooses among values of alpha; give alpha='grid' or the values, or take "
                "rule='one_se'"
            )
        n_jobs: Any = self.n_jobs
        if n_jobs is not None and (not isinstance(n_jobs, Integral) or n_jobs == 0):
            raise ValueError(
                f"n_jobs must be None or a number of workers (-1 for one per core), got {n_jobs!r}"
            )
        if not 0 <= self.min_sparsity <= 1:
            raise ValueError(f"min_sparsity is a share of zeros, from 0 to 1; got {self.min_sparsity!r}")
        return template

    def _known_rows(self, template: SPCATV) -> list[Row] | None:
        """Return the grid that the parameters give; None if the data determine alpha."""
        if self.alpha is None:
            return target_rows(template, self.sparsity, self.smoothness)
        defaults = signature(SPCATVCV).parameters
        for name in TARGET_PARAMETERS:
            if not np.array_equal(getattr(self, name), defaults[name].default):
                raise ValueError(
                    f"{name} does not go with alpha, which asks for the penalised model; give one of them"
                )
        pairs = ratio_pairs(template, self.l1_ratio, self.tv_ratio)
        if isinstance(self.alpha, str) and self.alpha == "grid":
            for l1_ratio, _ in pairs:
                check_largest_alpha(l1_ratio)
            return None
        alphas = values("alpha", self.alpha)
        for alpha in alphas:
            check_parameters(SPCATV(alpha=alpha))
        return alpha_rows(pairs, alphas)

    def _rows_for(
        self, pool: Workers, template: SPCATV, X: Any, structure: Structure, adjustment: Adjustment
    ) -> list[Row]:
        """Return the grid over alpha that suits the data."""
        pairs = ratio_pairs(template, self.l1_ratio, self.tv_ratio)
        options = (adjustment, self.n_alphas, self.smallest_alpha)
        return list(
            pool.run(row_below_all_zero, ((template, X, structure, pair, *options) for pair in pairs))
        )

    def _further_rows(self, template: SPCATV, table: SelectionTable) -> list[Row]:
        """Return settings beyond the edge of the default grid, if the choice lies there."""
        if self.alpha is not None or callable(self.rule):
            return []
        with warnings.catch_warnings(action="ignore", category=SelectionWarning):
            chosen = table.params[choose(table, self.rule, self.min_sparsity).index]
        which = edge_of(table.params, chosen)
        if not which or not np.array_equal(self.sparsity, SEARCH.sparsity):
            return []
        most = 1 - 1 / self.n_features_in_  # leave one feature at least
        beyond = (
            s for s in FURTHER_SPARSITY if s <= most and (s < chosen["sparsity"]) == (which == "lowest")
        )
        further = tuple(beyond)
        return target_rows(template, further, self.smoothness) if further else []

    def _store(self, table: SelectionTable) -> None:
        choice = choose(table, self.rule, self.min_sparsity)
        best = choice.index
        warn_of_edge(table.params, table.params[best])
        self.cv_results_ = table.as_dict()
        self.best_index_ = best
        self.best_params_ = dict(table.params[best])
        self.choice_reason_ = choice.reason
        self.best_score_ = float(-table.mean_error[best])
        n_unconverged = int(table.n_unconverged.sum())
        if n_unconverged:
            fits, their = ("fit", "its") if n_unconverged == 1 else ("fits", "their")
            warn_user(
                f"{n_unconverged} {fits} on folds did not reach tol={self.tol:g} (n_unconverged in "
                f"cv_results_), and {their} scores count as they are. Raise max_iter (now {self.max_iter}) "
                "or tol.",
                ConvergenceWarning,
            )

    def _refit(self, template: SPCATV, data: Data, structure: Structure) -> None:
        """Fit all samples with the chosen setting, as on the folds."""
        fitter = PathFitter(template, data, structure)
        for setting in way_to(self.best_params_, self.cv_results_["params"]):
            last = fitter.fit(setting)
        best = fitter.model(last)
        best.structure, best.structure_ = self.structure, structure
        best.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            best.feature_names_in_ = self.feature_names_in_
        self.best_estimator_ = best
        warn_about(best)

    @property
    def components_(self) -> FloatArray:
        """Loadings of the chosen model, shape (n_components, n_features)."""
        return self.best_estimator_.components_

    @property
    def n_iter_(self) -> int:
        """Alternations of the chosen model's component that took most."""
        return self.best_estimator_.n_iter_

    def transform(self, X: Any, confounds: Any = None) -> FloatArray:
        """Return the scores of the samples of X by the chosen model, shape (n_samples, n_components).

        Samples are adjusted with the coefficients of the fit; their confounds are needed if `fit` had some.

        Parameters
        ----------
        X : array-like, Dask array, array in a file, or Data, of shape (n_samples, n_features)
            Data.
        confounds : array-like of shape (n_samples, n_confounds), default=None
            Of these samples, if `fit` had some.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Scores.
        """
        samples = self._new_samples(X, confounds)
        return self.best_estimator_.transform(samples)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return samples with the given scores by the chosen model, shape (n_samples, n_features).

        They are in the units of the data; confounds are not added back.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Scores.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            Samples.
        """
        check_is_fitted(self, "best_estimator_")
        rows = self.best_estimator_.inverse_transform(X)
        if self.adjustment_ is None:
            return rows
        factor = self.adjustment_.factor
        return np.divide(rows, factor, out=np.zeros_like(rows), where=factor != 0)

    def score(self, X: Any, y: Any = None, confounds: Any = None) -> float:
        """Return minus the mean over the samples of X of the chosen model's squared reconstruction error.

        The error is that of the adjusted samples, see `transform`.

        Parameters
        ----------
        X : array-like, Dask array, array in a file, or Data, of shape (n_samples, n_features)
            Data.
        y : None
            Ignored.
        confounds : array-like of shape (n_samples, n_confounds), default=None
            Of these samples, if `fit` had some.

        Returns
        -------
        float
            Higher is better.
        """
        samples = self._new_samples(X, confounds)
        return self.best_estimator_.score(samples)

    def _stability_inputs(self, X: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        self._new_samples(X, options.get("confounds"))  # refuses confounds that do not match the fit
        own = {"groups": self.groups_, "standardize": self.standardize}
        return self.best_estimator_, X, {**own, **options}

    def _new_samples(self, X: Any, confounds: Any) -> Any:
        """Return X as the chosen model takes it."""
        check_is_fitted(self, "best_estimator_")
        if self.adjustment_ is None and confounds is None:
            return X
        return self._adjusted(checked_data(self, X, reset=False), confounds)

    def _adjusted(self, data: Data, confounds: Any) -> Data:
        if self.adjustment_ is not None:
            return self.adjustment_.apply(data, confounds)
        if confounds is not None:
            raise ValueError("the model was fitted without confounds; it cannot remove any")
        return data
