"""What resamples and halves share: the fit that is the reference, and fits of some samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray, IntArray
from spcatv.data import Adjustment, CentredData, Data, as_data, checked_adjustment, on_device
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import Fit, centred_data, fit_data, with_parameters
from spcatv.model.checkpoint import current_checkpoint
from spcatv.selection.path import checked_template
from spcatv.selection.workers import placed, shareable
from spcatv.structure import Structure

# Relative gap of fits whose supports and cosines are compared: more digits of the loadings are not looked at.
REFIT_TOL = 1e-4


@dataclass(frozen=True, eq=False)
class Reference:
    """The fit of all samples, and what fits of some of them need."""

    template: SPCATV  # the parameters, without the structure
    data: Data  # all samples
    structure: Structure  # on the features
    components: FloatArray  # components of all samples, shape (K, P)
    blocks: list[IntArray]  # samples that stay together: those of one group, or every sample alone
    adjustment: Adjustment  # of the samples of every fit

    def tasks(self, random_state: Any, n_tasks: int, norm_fraction: float) -> Iterator[tuple[Any, ...]]:
        """Arguments of every task: all of this, a seed of its own, its number from 1, and `norm_fraction`."""
        shared = (self.template, shareable(self.data), self.structure, self.components)
        seeds = enumerate(_seeds(random_state, n_tasks), start=1)
        own = (self.blocks, self.adjustment)
        return ((*shared, *own, seed, number, norm_fraction) for number, seed in seeds)


def as_arrays(estimator: Any, X: Any) -> tuple[SPCATV, Any]:
    """Return the SPCATV and the matrix of an XarraySPCATV and its data; others as they are."""
    return estimator.as_arrays(X) if hasattr(estimator, "as_arrays") else (estimator, X)


def reference_fit(
    estimator: SPCATV,
    X: Any,
    groups: Any,
    n_jobs: int | None,
    *,
    standardize: bool = False,
    confounds: Any = None,
) -> Reference:
    """Check the arguments, and fit all samples unless the estimator is fitted already."""
    template, data, structure = checked_template(clone(estimator), X)
    data = placed(data, template, n_jobs)
    adjustment = checked_adjustment(standardize, confounds, data.shape[0])
    fitted = estimator
    if not hasattr(estimator, "components_"):
        fitted = clone(estimator).fit(adjustment.whole(data))
    elif data.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {data.shape[1]} features, but the model was fitted to {estimator.n_features_in_}; give "
            "the data of the fit"
        )
    template.set_params(structure=None)
    blocks = _kept_together(data.shape[0], groups)
    return Reference(template, data, structure, fitted.components_, blocks, adjustment)


def _kept_together(n_samples: int, groups: Any) -> list[IntArray]:
    """Samples that are drawn together."""
    if groups is None:
        return list(np.arange(n_samples)[:, None])
    labels = np.asarray(groups)
    if labels.shape != (n_samples,):
        raise ValueError(f"groups must have one label per sample, shape ({n_samples},); got {labels.shape}")
    _, number = np.unique(labels, return_inverse=True)
    return [np.flatnonzero(number == group) for group in range(number.max() + 1)]


def _seeds(random_state: Any, n_seeds: int) -> list[np.random.SeedSequence]:
    if random_state is None and current_checkpoint() is not None:
        raise ValueError(
            "a checkpoint needs a random_state: without one, no run draws the same samples again"
        )
    if random_state is not None and not isinstance(random_state, (int, np.integer)):
        random_state = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    return np.random.SeedSequence(random_state).spawn(n_seeds)


def some_samples(template: SPCATV, X: Any, samples: IntArray, adjustment: Adjustment) -> CentredData:
    """Some samples, as often as given, adjusted with their own coefficients; X is not copied."""
    with one_blas_thread():
        data = on_device(as_data(X), template.device, int(template.n_components))
        (adjusted,) = adjustment.adjusted(data, samples)
    return centred_data(template, adjusted)


def fit_samples(
    template: SPCATV, data: CentredData, structure: Structure, starts: np.random.RandomState
) -> Fit:
    """Fit `some_samples`, to `REFIT_TOL` at most; `starts` is the source of random starts."""
    template = with_parameters(template, {"tol": max(template.tol, REFIT_TOL)})
    with one_blas_thread():
        return fit_data(template, data, structure, rng=starts)
