"""How many components: what each of them explains of samples that the fit has not seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.types import FloatArray, IntArray
from spcatv.data import checked_adjustment
from spcatv.estimator import SPCATV
from spcatv.progress import StageStarted
from spcatv.selection.chains import ChainResult, fit_chain
from spcatv.selection.folds import make_folds
from spcatv.selection.path import checked_template, complete_setting
from spcatv.selection.table import standard_error
from spcatv.selection.workers import check_failures, shareable, workers


@dataclass(frozen=True, eq=False)
class ComponentCurve:
    """Held-out explained variance against the number of components: the data of an elbow plot.

    Attributes
    ----------
    explained : ndarray of shape (n_folds, K)
        Share of the held-out sum of squares that the first 1, ..., K components explain, one row per fold.
    """

    explained: FloatArray

    @property
    def n_components(self) -> IntArray:
        """The numbers 1, ..., K."""
        return np.arange(1, self.explained.shape[1] + 1)

    @property
    def mean(self) -> FloatArray:
        """Mean over folds, shape (K,)."""
        return np.asarray(self.explained.mean(axis=0))

    @property
    def standard_error(self) -> FloatArray:
        """Standard error of the mean over folds, shape (K,); NaN with a single fold."""
        return standard_error(self.explained.T)

    @property
    def gain(self) -> FloatArray:
        """What each component adds, shape (K,)."""
        return np.diff(self.mean, prepend=0.0)

    @property
    def elbow(self) -> int:
        """The number of components at which the curve bends most.

        The point farthest above the straight line from no component to all of them. Every component is a
        projection and explains something of any sample, noise included: the curve never falls, and its
        maximum says nothing.
        """
        line = self.mean[-1] * self.n_components / len(self.mean)
        return int(np.argmax(self.mean - line)) + 1 if len(self.mean) > 1 else 1

    @property
    def within_one_standard_error(self) -> int:
        """The smallest number of components within one standard error of what all of them explain."""
        slack = np.nan_to_num(self.standard_error[-1])
        return int(np.argmax(self.mean >= self.mean[-1] - slack)) + 1


def component_curve(
    estimator: SPCATV,
    X: Any,
    *,
    max_components: int = 10,
    cv: Any = 5,
    y: Any = None,
    groups: Any = None,
    standardize: bool = False,
    confounds: Any = None,
    n_jobs: int | None = None,
) -> ComponentCurve:
    """Held-out explained variance for every number of components, from one fit per fold.

    Deflation is greedy: the first k components of a model are the model with k components.

    Parameters
    ----------
    estimator : SPCATV
        The setting; its `n_components` is ignored, and ``refine`` must be off. It is not changed.
    X : array-like of shape (n_samples, n_features)
        Data.
    max_components : int, default=10
        The largest number to look at.
    cv, y, groups, standardize, confounds
        Folds and their samples, as in `SPCATVCV`.
    n_jobs : int or None, default=None
        Workers.

    Returns
    -------
    ComponentCurve
        Folds that fail are named in a warning and left out; if all of them fail it is an error.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import component_curve
    >>> rng = np.random.default_rng(0)
    >>> X = 0.3 * rng.standard_normal((40, 60))
    >>> X[:, 10:20] += rng.standard_normal((40, 1))
    >>> X[:, 35:50] += rng.standard_normal((40, 1))
    >>> component_curve(SPCATV(structure=(60,)), X, max_components=5).elbow
    2
    """
    if estimator.refine:
        raise ValueError(
            "refine=True changes all components together, so that the first k are not the model of k; set "
            "refine=False to choose their number"
        )
    template, data, structure = checked_template(clone(estimator).set_params(n_components=max_components), X)
    template.set_params(structure=None)
    setting = complete_setting(estimator, {})
    folds = make_folds(cv, shareable(data), y, groups)
    adjustment = checked_adjustment(standardize, confounds, data.shape[0])
    tasks = ((template, shareable(data), structure, fold, [setting], adjustment) for fold in folds)
    with workers(n_jobs, StageStarted("Counting components", len(folds), "folds")) as pool:
        results: list[ChainResult] = list(pool.run(fit_chain, tasks))
    failures = [item for result in results for item in result.failures]
    explained = [item.held_out.shares for result in results for item in result.outcomes if item is not None]
    check_failures(failures, n_left=len(explained))
    return ComponentCurve(np.stack(explained))
