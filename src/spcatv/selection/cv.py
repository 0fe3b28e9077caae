"""`SPCATVCV`: the weights of SPCATV chosen by cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from inspect import signature
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from spcatv._util.parameters import (
    FURTHER_SPARSITY,
    SEARCH,
    TARGET_PARAMETERS,
    SearchParameters,
    StructureParameter,
)
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import Data, checked_adjustment
from spcatv.data.leading import singular_scores
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data, checked_data
from spcatv.estimator._validation import check_parameters
from spcatv.estimator._warnings import warn_about, warn_before_fit
from spcatv.estimator.components_mixin import ComponentsMixin
from spcatv.model.checkpoint import checkpointing
from spcatv.progress import printing
from spcatv.selection.cross_validation import cross_validate, make_folds, warn_of_order
from spcatv.selection.path import WEIGHTS, PathFitter, Row, row_key, way_to
from spcatv.selection.rules import (
    SelectionTable,
    SelectionWarning,
    check_rule,
    choose,
    edge_of,
    selection_table,
)
from spcatv.selection.settings import alpha_rows, row_below_all_zero, target_rows
from spcatv.selection.workers import placed, run_calls
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
    that the rule chooses is then fitted to all samples (docs/selection.md).

    Parameters
    ----------
    n_components : int, default=3
        Number of components K; `count_components` finds how many stand out of noise.
    structure : Structure, shape, mask, (coords, triangles), sparse matrix, callable or None, default=None
        As in `SPCATV`.
    sparsity : float or sequence of float, default=(0.5, 0.7, 0.8, 0.9, 0.95)
        Shares of zeros to try. A choice on the edge of the default grid extends it once, to 0.1 and 0.3 or to
        0.98.
    smoothness : float or sequence of float, default=(0.5, 1.0, 2.0)
        Values to try.
    alpha : float, sequence of float, "grid" or None, default=None
        ``None``: components of a wanted sparsity. Otherwise the penalised model, with these values of alpha.
        "grid": `n_alphas` values for every pair of ratios (`alpha_grid`), found on all samples.
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
        folds are consecutive: a `SampleOrderWarning` is given where that matters.
    rule : {"one_se", "error", "stability", "paper"} or callable, default="one_se"
        * "one_se": the sparsest setting as smooth as the one with the lowest error that explains as much of
          the held-out samples, up to one standard error and 5 %; of equally sparse ones, the most stable;
        * "error": lowest mean reconstruction error;
        * "stability": most stable, by the Dice index over folds, corrected for chance;
        * "paper" (with `alpha` only): lowest mean reconstruction error of settings whose second and third
          components have on average over folds a share of zeros of at least `min_sparsity`;
        * a function of ``cv_results_`` that returns the number of a setting.

        All but a function choose among settings that keep every component nonempty on every fold.
    min_sparsity : float, default=0.5
        See `rule`.
    standardize : bool, default=False
        Whether every feature is divided by its standard deviation over the samples of each fit.
    n_jobs : int or None, default=None
        Worker processes, as in joblib; -1 is one per core, and ``None`` the threads of one process. The
        results are the same.
    penalty_units : {"relative", "absolute"}, default="relative"
        "relative": alpha counts in units of ``max_j ||X_j||_2 / N`` over the samples of each fit, so that a
        setting chosen on folds means the same on all samples. An "absolute" alpha weighs more on all samples
        than on a fold, by the square root of the ratio of their numbers.
    penalty, positive, center, global_signal, tol, max_iter, solver, n_init, method, refit, \
transform_method, init, dtype, memory_limit, device, random_state
        As in `SPCATV`.
    checkpoint : path, default=None
        Folder that keeps every chain of fits as soon as it is done: after an interruption, the same call
        resumes from there (`checkpointing`).
    verbose : int, default=0
        1: one line per chain of fits.

    Attributes
    ----------
    cv_results_ : dict of arrays
        One row per setting, for `pandas.DataFrame`: ``params``, ``param_<name>``; held-out errors
        ``split<i>_test_error``, ``mean_test_error``, ``std_test_error``, ``mean_test_score`` (minus the
        error), ``rank_test_score``; explained shares of the held-out sum of squares
        ``mean_test_explained``, ``se_test_explained`` and, with the first k components,
        ``mean_test_explained_<k>``; ``mean_n_nonempty`` (components that are not zero), and their shares of
        zeros ``mean_sparsity`` and ``mean_sparsity_<k>``; ``mean_dice``, ``mean_dice_<k>`` and
        ``mean_corrected_dice`` over pairs of folds; ``n_unconverged``; ``mean_fit_time`` in seconds. NaN
        where a fit has failed.
    best_index_ : int
        The row chosen.
    best_params_ : dict
        Its ``sparsity`` and ``smoothness``, or its ``alpha``, ``l1_ratio`` and ``tv_ratio``.
    choice_reason_ : str
        The reason of the choice.
    best_score_ : float
        Minus its mean held-out reconstruction error.
    best_estimator_ : SPCATV
        Fitted to all samples with it, after confounds are removed and features scaled if so wanted. With
        `alpha`, it is fitted along the smaller values of alpha, as on the folds.
    adjustment_ : FittedAdjustment or None
        Coefficients of all samples for confounds and scale. None without either.
    n_splits_ : int
        Number of folds.
    groups_ : tuple of length n_samples, or None
        The groups that folds kept together.
    n_features_in_, feature_names_in_
        As in `SPCATV`.

    Notes
    -----
    A fit that fails is named in a `FailedFitWarning`, and its scores are NaN. A fold on which all fits fail
    is left out; a setting that fails on another fold cannot be chosen. It is an error if no setting is left.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.selection import SPCATVCV
    >>> rng = np.random.default_rng(0)
    >>> X = 0.5 * rng.standard_normal((40, 60))
    >>> X[:, 10:20] += rng.standard_normal((40, 1))
    >>> subject = np.repeat(np.arange(20), 2)  # two visits per subject stay together
    >>> search = SPCATVCV(1, structure=(60,), sparsity=[0.5, 0.8], smoothness=1.0).fit(X, groups=subject)
    >>> search.check()  # raises an error for a wrong parameter
    >>> search.best_params_
    {'sparsity': 0.8, 'smoothness': 1.0}
    >>> search.components_.shape, search.n_iter_ > 0
    ((1, 60), True)
    >>> scores = search.transform(X[:5])
    >>> scores.shape, search.inverse_transform(scores).shape, search.score(X) < 0
    ((5, 1), (5, 60), True)
    >>> search.choice_reason_
    'sparsest setting that explains about as much as the best one of the same smoothness; mean Dice \
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
        """
        with checkpointing(self.checkpoint), printing("SPCATVCV", self.verbose, 1):
            return self._fit(X, y, groups, confounds)

    def _fit(self, X: Any, y: Any, groups: Any, confounds: Any) -> SPCATVCV:
        template = self._template()
        rows = self._rows(template)
        data = checked_data(self, X, reset=True, min_samples=2)
        data, shared = placed(data, self, self.n_jobs)
        adjustment = checked_adjustment(self.standardize, confounds, data.shape[0])
        structure = as_structure(self.structure, n_features=data.shape[1])
        warn_before_fit(self, data, structure)
        folds = make_folds(self.cv, shared, y, groups)
        check_rule(self.rule, len(folds))
        self.adjustment_ = adjustment.fit(data, np.arange(data.shape[0]))
        adjusted = self._adjusted(data, adjustment.confounds)
        if groups is None and (self.cv is None or isinstance(self.cv, Integral)):
            with one_blas_thread():
                centred = centred_data(template, adjusted)
                warn_of_order(singular_scores(centred, int(self.n_components)), folds)
        inputs = (clone(template).set_params(structure=None), shared, structure, adjustment)
        if isinstance(self.alpha, str):  # "grid"
            items = [(*inputs, setting, self.n_alphas, self.smallest_alpha) for (setting,) in rows]
            rows = list(run_calls(row_below_all_zero, items, self.n_jobs, data))
        compare = partial(cross_validate, *inputs, folds, n_jobs=self.n_jobs, data=data)
        scores = list(compare(rows, "Comparing settings"))
        table = selection_table(scores)
        further = self._further_rows(template, table)
        if further:
            scores += compare(further, "Comparing settings beyond the edge")
            scores.sort(key=lambda own: (row_key(own.setting), own.setting["sparsity"]))
            table = selection_table(scores)
        self._store(table)
        self._refit(template, adjusted, structure)
        self.n_splits_ = len(folds)
        self.groups_ = None if groups is None else tuple(groups)
        return self

    def check(self) -> None:
        """Raise a ValueError or TypeError for the first parameter that is wrong, without any data."""
        self._rows(self._template())

    def _template(self) -> SPCATV:
        """Return the checked parameters that all settings share, as an SPCATV."""
        template = SPCATV(**{name: getattr(self, name) for name in SHARED}, alpha=None, verbose=0)
        check_parameters(template)
        check_rule(self.rule)
        if self.rule == "paper" and self.alpha is None:
            raise ValueError(
                "rule='paper' chooses among values of alpha; give alpha='grid' or the values, or take "
                "rule='one_se'"
            )
        if not 0 <= self.min_sparsity <= 1:
            raise ValueError(f"min_sparsity is a share of zeros, from 0 to 1; got {self.min_sparsity!r}")
        return template

    def _rows(self, template: SPCATV) -> list[Row]:
        """Return the grid that the parameters give."""
        if self.alpha is None:
            return target_rows(template, self.sparsity, self.smoothness)
        defaults = signature(SPCATVCV).parameters
        for name in TARGET_PARAMETERS:
            if not np.array_equal(getattr(self, name), defaults[name].default):
                raise ValueError(
                    f"{name} does not go with alpha, which asks for the penalised model; give one of them"
                )
        return alpha_rows(template, self.alpha, self.l1_ratio, self.tv_ratio)

    def _further_rows(self, template: SPCATV, table: SelectionTable) -> list[Row]:
        """Return settings beyond the edge of the default grid, if the choice lies there."""
        is_default = self.alpha is None and np.array_equal(self.sparsity, SEARCH.sparsity)
        if not is_default or callable(self.rule):
            return []
        params = table.results["params"]
        with warnings.catch_warnings(action="ignore", category=SelectionWarning):
            chosen = params[choose(table, self.rule, self.min_sparsity)[0]]
        which = edge_of(params, chosen)
        most = 1 - 1 / self.n_features_in_  # leave one feature at least
        further = tuple(
            share
            for share in FURTHER_SPARSITY
            if which and share <= most and (share < chosen["sparsity"]) == (which == "lowest")
        )
        return target_rows(template, further, self.smoothness) if further else []

    def _store(self, table: SelectionTable) -> None:
        self.best_index_, self.choice_reason_ = choose(table, self.rule, self.min_sparsity)
        self.cv_results_ = table.results
        self.best_params_ = dict(table.results["params"][self.best_index_])
        self.best_score_ = float(table.results["mean_test_score"][self.best_index_])
        n_unconverged = int(table.results["n_unconverged"].sum())
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
        """Return the scores of samples by the chosen model, shape (n_samples, n_components).

        Samples are adjusted with the coefficients of the fit; their `confounds`, of shape (n_samples,
        n_confounds), are needed if `fit` had some.
        """
        samples = self._new_samples(X, confounds)
        return self.best_estimator_.transform(samples)

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return samples with the given scores by the chosen model, shape (n_samples, n_features).

        They are in the units of the data; confounds are not added back.
        """
        check_is_fitted(self, "best_estimator_")
        rows = self.best_estimator_.inverse_transform(X)
        if self.adjustment_ is None:
            return rows
        factor = self.adjustment_.factor
        return np.divide(rows, factor, out=np.zeros_like(rows), where=factor != 0)

    def score(self, X: Any, y: Any = None, confounds: Any = None) -> float:
        """Return minus the mean over samples of the chosen model's squared reconstruction error.

        The error is that of the adjusted samples, see `transform`. `y` is ignored.
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
