"""How many components: what each of them explains of samples that the fit has not seen."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from spcatv._util.parameters import FIT
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import BoolArray, FloatArray, IntArray
from spcatv.data import Adjustment, as_data, checked_adjustment, on_device
from spcatv.estimator import SPCATV
from spcatv.estimator.fitting import centred_data, fit_data, with_parameters
from spcatv.estimator.parameters import fits_jointly
from spcatv.progress import StageStarted
from spcatv.selection.chains import fit_chain, place
from spcatv.selection.folds import Fold, make_folds
from spcatv.selection.held_out import explained_by_scores
from spcatv.selection.path import Setting, checked_template, complete_setting, with_setting
from spcatv.selection.table import standard_error
from spcatv.selection.workers import (
    FIT_FAILURES,
    Failure,
    check_failures,
    failure,
    placed,
    shareable,
    workers,
)
from spcatv.structure import Structure

# A component counts if it explains more than this many times what those at the end of the curve explain,
OUTSTANDING = 2.0
# by more than this many standard errors over folds. With both, white noise has no component that counts.
STANDARD_ERRORS = 2.0
# The end of the curve: its last third.
TAIL = 3
MOST_COMPONENTS = 10


@dataclass(frozen=True)
class ComponentChoice:
    """How many components to keep."""

    n_components: int  # at least 1
    reason: str  # why, as a sentence for people


def most_components(n_blocks: int) -> int:
    """The largest number to look at by default: 10, or half the samples or groups if these are fewer."""
    return max(1, min(MOST_COMPONENTS, n_blocks // 2))


@dataclass(frozen=True, eq=False)
class ComponentCurve:
    """Held-out explained variance against the number of components: the data of an elbow plot.

    Attributes
    ----------
    explained : ndarray of shape (n_folds, K)
        Share of the held-out sum of squares that the first 1, ..., K components explain, one row per fold.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.selection import ComponentCurve
    >>> curve = ComponentCurve(np.array([[0.5, 0.7, 0.72, 0.74], [0.4, 0.65, 0.68, 0.7]]))
    >>> curve.n_components, curve.mean.round(3), curve.gain.round(3)
    (array([1, 2, 3, 4]), array([0.45 , 0.675, 0.7  , 0.72 ]), array([0.45 , 0.225, 0.025, 0.02 ]))
    >>> curve.standard_error.round(3)
    array([0.05 , 0.025, 0.02 , 0.02 ])
    >>> curve.choice.n_components, curve.elbow, curve.within_one_standard_error
    (2, 2, 3)
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
    def choice(self) -> ComponentChoice:
        """The number of components that stand out from the end of the curve.

        Component k adds the share ``g_k`` on a fold. It is compared with ``f``, the mean size of what the
        components of the last third add on that fold (or take away, in joint fits), which is what a component
        explains by chance where more were looked at than there are. It stands out if the mean over folds of
        ``g_k`` is more than twice that of ``f``, and the mean of ``g_k - f`` more than two of its standard
        errors. A single fold has no standard error: the reason says so, and only the first condition is
        tested. The choice is the number of components before the first that does not stand out, and at
        least 1.
        """
        most = len(self.mean)
        n_tail = max(1, most // TAIL)
        gains = np.diff(self.explained, axis=1, prepend=0.0)
        floor = np.abs(gains[:, -n_tail:]).mean(axis=1, keepdims=True)
        above = gains - floor
        outstanding = gains.mean(axis=0) > OUTSTANDING * floor.mean()
        if len(gains) > 1:
            outstanding &= above.mean(axis=0) > STANDARD_ERRORS * standard_error(above.T)
        leading = int(np.logical_and.accumulate(outstanding[:-n_tail]).sum())
        reason = self._reason(leading, outstanding[:-n_tail])
        if len(gains) == 1:
            reason += " There is one fold, without a standard error: the differences may be due to chance."
        return ComponentChoice(max(1, leading), reason)

    def _reason(self, chosen: int, outstanding: BoolArray) -> str:
        most, share = len(self.mean), 100 * self.mean[chosen - 1]
        if not outstanding.size:
            return (
                "No component stands out: only one was looked at, and there is no other to compare it with. "
                "Trust it only if it is found again."
            )
        keep = "One is kept; trust it only if it is found again."
        if not outstanding.any():
            return (
                f"No component stands out: none explains clearly more of held-out samples than the last of "
                f"the {most} looked at, as in noise. {keep} (If {most} or more components of equal weight "
                "are likely, look at more.)"
            )
        later = ", ".join(str(k + 1) for k in np.flatnonzero(outstanding) if k > chosen)
        if chosen == 0:
            return f"The first component does not stand out, but later ones do ({later}). {keep}"
        which = "The first component stands" if chosen == 1 else f"The first {chosen} components stand"
        rest = f"component {chosen + 1} does not explain clearly more than the last of the {most} looked at"
        again = f", but later ones do ({later})" if later else ""
        more = " There may be more: look at a larger number." if chosen == outstanding.size else ""
        return f"{which} out: {share:.1f} % of the held-out variance together; {rest}{again}.{more}"

    @property
    def elbow(self) -> int:
        """The number of components at which the curve bends most.

        The point farthest above the straight line from no component to all of them. Found by deflation, every
        component explains something of any sample, noise included: the curve never falls, and its maximum
        says nothing.
        """
        line = self.mean[-1] * self.n_components / len(self.mean)
        return int(np.argmax(self.mean - line)) + 1 if len(self.mean) > 1 else 1

    @property
    def within_one_standard_error(self) -> int | None:
        """The smallest number of components within one standard error of what all of them explain.

        None with a single fold, which has no standard error.
        """
        slack = self.standard_error[-1]
        return None if np.isnan(slack) else int(np.argmax(self.mean >= self.mean[-1] - slack)) + 1


def component_curve(
    estimator: SPCATV,
    X: Any,
    *,
    max_components: int = MOST_COMPONENTS,
    cv: Any = 5,
    y: Any = None,
    groups: Any = None,
    standardize: bool = False,
    confounds: Any = None,
    n_jobs: int | None = None,
) -> ComponentCurve:
    """Compute the held-out explained variance for every number of components.

    Components that are fitted jointly are not nested, so every number of them is a fit of its own on every
    fold: K (K + 1) / 2 components per fold. What counts is how much of the held-out samples the scores
    explain, by the patterns of the training samples: a second part of one pattern adds nothing. With
    ``method="deflation"``, the first k components of a fit are the fit of k components: one fit per fold.

    Parameters
    ----------
    estimator : SPCATV
        The setting; its `n_components` is ignored. It is not changed.
    X : array-like of shape (n_samples, n_features)
        Data.
    max_components : int, default=10
        The largest number to look at. It is no more than the rank that the training samples of every fold
        can have: further components would explain little because nothing is left, not because of chance.
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
    template, data, structure = checked_template(clone(estimator).set_params(n_components=max_components), X)
    template.set_params(structure=None)
    data = placed(data, template, n_jobs)
    setting = complete_setting(estimator, {})
    folds = make_folds(cv, shareable(data), y, groups)
    rank = min(min(len(fold.train) for fold in folds) - bool(estimator.center), data.shape[1])
    template.set_params(n_components=min(max_components, max(rank, 1)))
    adjustment = checked_adjustment(standardize, confounds, data.shape[0])
    tasks = ((template, shareable(data), structure, fold, setting, adjustment) for fold in folds)
    with workers(n_jobs, data, StageStarted("Counting components", len(folds), "folds")) as pool:
        results: list[tuple[FloatArray | None, tuple[Failure, ...]]] = list(pool.run(_curve_of_fold, tasks))
    explained = [shares for shares, _ in results if shares is not None]
    check_failures([item for _, failures in results for item in failures], n_left=len(explained))
    return ComponentCurve(np.stack(explained))


def _curve_of_fold(
    estimator: SPCATV, X: Any, structure: Structure, fold: Fold, setting: Setting, adjustment: Adjustment
) -> tuple[FloatArray | None, tuple[Failure, ...]]:
    """Return the shares that 1, ..., K components explain of the held-out samples, and what failed."""
    if not fits_jointly(estimator):
        result = fit_chain(estimator, X, structure, fold, [setting], adjustment)
        outcome = result.outcomes[0]
        return None if outcome is None else outcome.held_out.shares, result.failures
    try:
        with one_blas_thread():
            data = on_device(as_data(X), estimator.device, int(estimator.n_components))
            train, test = adjustment.adjusted(data, fold.train, fold.test)
            centred = centred_data(estimator, train)
            shares = []
            for k in range(1, int(estimator.n_components) + 1):
                own = {"n_components": k, "sparsity": np.mean(setting.get("sparsity", FIT.sparsity))}
                template = with_parameters(with_setting(estimator, setting), own)
                rng = check_random_state(deepcopy(estimator.random_state))
                fit = fit_data(template, centred, structure, rng=rng)
                shares.append(explained_by_scores(fit, test))
    except FIT_FAILURES as error:
        return None, (failure(place(fold, setting), error),)
    return np.array(shares), ()
