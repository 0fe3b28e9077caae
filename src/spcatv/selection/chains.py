"""One chain of fits: one fold and one row of the grid.

A chain is the unit of work of a selection. It depends on nothing but its arguments, so that the numbers are
the same on any number of workers; its training samples are a part of the data, not a copy. Values of alpha
are fitted each from the one before. Components of a wanted sparsity are fitted alone, as `SPCATV.fit` does:
from the components of another sparsity, the alternation may end with others than those that `fit` finds.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import Adjustment, Data, as_data, on_device
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import Fit
from spcatv.metrics import threshold_loadings
from spcatv.model import recordable
from spcatv.selection.folds import Fold
from spcatv.selection.held_out import HeldOut, held_out
from spcatv.selection.path import PathFitter, Setting, path_order, setting_text
from spcatv.selection.workers import FIT_FAILURES, Failure, failure
from spcatv.structure import Structure


@recordable
@dataclass(frozen=True, eq=False)
class FoldOutcome:
    """One setting on one fold."""

    held_out: HeldOut  # sums of squares of the held-out samples
    sparsity: FloatArray  # shares of the loadings that are exactly zero, shape (K,)
    # loadings cut to 99 % of their norm (`spcatv.metrics.threshold_loadings`), shape (K, P)
    supports: FloatArray
    converged: bool  # whether every component has reached the tolerance
    seconds: float  # wall-clock time of the fit


@recordable
@dataclass(frozen=True, eq=False)
class ChainResult:
    """What a chain gives."""

    outcomes: tuple[FoldOutcome | None, ...]  # one per setting, in the order given; None where the fit failed
    failures: tuple[Failure, ...]  # those that failed


def fit_chain(
    estimator: SPCATV,
    X: Any,
    structure: Structure,
    fold: Fold,
    settings: Sequence[Setting],
    adjustment: Adjustment,
) -> ChainResult:
    """Fit all settings to the training samples of a fold, and score the samples that it holds out.

    The settings are a row of the grid: values of sparsity with one smoothness, or of alpha with the same
    ratios. The structure is an argument of its own, so that it travels to a worker once. The adjustment is
    made with coefficients of the training samples.
    """
    outcomes: list[FoldOutcome | None] = [None] * len(settings)
    try:
        with one_blas_thread():
            data = on_device(as_data(X), estimator.device, int(estimator.n_components))
            train, test = adjustment.adjusted(data, fold.train, fold.test)
    except FIT_FAILURES as error:
        return ChainResult(tuple(outcomes), (failure(f"fold {fold.number + 1}", error),))
    fitter = PathFitter(estimator, train, structure)
    failures: list[Failure] = []
    for k in path_order(settings):
        started = time.perf_counter()
        try:
            alone = "sparsity" in settings[k]
            fitted = fitter.fit_from(settings[k], ()) if alone else fitter.fit(settings[k])
        except FIT_FAILURES as error:
            # the next setting starts from the last one that went well
            failures.append(failure(place(fold, settings[k]), error))
            continue
        seconds = time.perf_counter() - started
        outcomes[k] = _outcome(fitted.fit, test, estimator.transform_method, seconds)
    return ChainResult(tuple(outcomes), tuple(failures))


def _outcome(fit: Fit, test: Data, transform_method: str, seconds: float) -> FoldOutcome:
    components = fit.components
    with one_blas_thread():
        projects = fit.decomposition.mixing is not None or transform_method == "projection"
        scores = held_out(components, fit.centring, test, projects=projects)
    return FoldOutcome(
        held_out=scores,
        sparsity=np.mean(components == 0, axis=1),
        supports=threshold_loadings(components).astype(fit.dtype),
        converged=all(record.converged for record in fit.decomposition.diagnostics),
        seconds=seconds,
    )


def place(fold: Fold, setting: Setting) -> str:
    """A fold and a setting in words."""
    return f"fold {fold.number + 1}, {setting_text(setting)}"
