"""One chain of fits: one fold, one pair of ratios, all values of alpha, each from the one before.

A chain is the unit of work of a selection. It depends on nothing but its arguments, so that the numbers are
the same on any number of workers, and it makes one copy of its training rows.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.estimator import SPCATV
from spcatv.metrics import threshold_loadings
from spcatv.selection.each_component import fit_alphas
from spcatv.selection.folds import Fold
from spcatv.selection.held_out import HeldOut, held_out
from spcatv.selection.warm_path import PathWalker, Step, path_order
from spcatv.selection.workers import FIT_FAILURES, Failure, failure
from spcatv.structure import Structure

# alpha, l1_ratio and tv_ratio; alpha is a tuple where every component has its own
Params = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Outcome:
    """One setting on one fold.

    Attributes
    ----------
    held_out : HeldOut
        Sums of squares of the held-out rows.
    sparsity : ndarray of shape (K,)
        Shares of the loadings that are exactly zero.
    supports : ndarray of shape (K, P)
        Loadings cut to 99 % of their norm (`spcatv.metrics.threshold_loadings`).
    converged : bool
        Whether every component has reached the tolerance.
    seconds : float
        Wall-clock time of the fit.
    """

    held_out: HeldOut
    sparsity: FloatArray
    supports: FloatArray
    converged: bool
    seconds: float


@dataclass(frozen=True, eq=False)
class ChainResult:
    """What a chain gives.

    Attributes
    ----------
    outcomes : tuple of Outcome or None
        One a setting, in the order given; None where the fit failed.
    failures : tuple of Failure
        Those that failed.
    """

    outcomes: tuple[Outcome | None, ...]
    failures: tuple[Failure, ...]


def fit_chain(
    estimator: SPCATV, X: FloatArray, structure: Structure, fold: Fold, settings: Sequence[Params]
) -> ChainResult:
    """Fit all settings to the training rows of a fold, and score the rows that it holds out.

    Parameters
    ----------
    estimator : SPCATV
        Everything but the weights and the structure.
    X : ndarray of shape (n_samples, n_features)
        Data; a chain copies its own training rows.
    structure : Structure
        On the features; an argument of its own, so that it travels to a worker once.
    fold : Fold
        Rows to fit and rows to score.
    settings : sequence of mapping
        Values of alpha with the same two ratios.

    Returns
    -------
    ChainResult
    """
    template = clone(estimator).set_params(structure=structure)
    train = np.take(np.asarray(X), fold.train, axis=0)
    fitter = _fit_each_alone if isinstance(settings[0]["alpha"], tuple) else _fit_along
    return fitter(template, X, train, fold, settings)


def _fit_along(
    template: SPCATV, X: FloatArray, train: FloatArray, fold: Fold, settings: Sequence[Params]
) -> ChainResult:
    walker = PathWalker(template, train)
    outcomes: list[Outcome | None] = [None] * len(settings)
    failures: list[Failure] = []
    walked: list[Step] = []
    for k in path_order([dict(setting) for setting in settings]):
        started = time.perf_counter()
        try:
            step = walker.fit(dict(settings[k]), walked)
        except FIT_FAILURES as error:
            # the next setting starts from the last one that went well
            failures.append(failure(place(fold, settings[k]), error))
            continue
        outcomes[k] = _outcome(step.model, X, fold, time.perf_counter() - started)
        walked = [*walked[-1:], step]
    return ChainResult(tuple(outcomes), tuple(failures))


def _fit_each_alone(
    template: SPCATV, X: FloatArray, train: FloatArray, fold: Fold, settings: Sequence[Params]
) -> ChainResult:
    """The same for settings that have an alpha a component."""
    outcomes: list[Outcome | None] = []
    failures: list[Failure] = []
    for setting in settings:
        started = time.perf_counter()
        ratios = {name: setting[name] for name in ("l1_ratio", "tv_ratio")}
        try:
            model = fit_alphas(clone(template).set_params(**ratios), train, setting["alpha"])
        except FIT_FAILURES as error:
            failures.append(failure(place(fold, setting), error))
            outcomes.append(None)
            continue
        outcomes.append(_outcome(model, X, fold, time.perf_counter() - started))
    return ChainResult(tuple(outcomes), tuple(failures))


def _outcome(model: SPCATV, X: FloatArray, fold: Fold, seconds: float) -> Outcome:
    with one_blas_thread():
        scores = held_out(model, X, fold.test)
    components = model.components_
    return Outcome(
        held_out=scores,
        sparsity=np.mean(components == 0, axis=1),
        supports=threshold_loadings(components).astype(components.dtype),
        converged=all(record.converged for record in model.diagnostics_),
        seconds=seconds,
    )


def place(fold: Fold, setting: Params) -> str:
    """A fold and a setting in words."""
    return f"fold {fold.number + 1}, {setting_text(setting)}"


def setting_text(setting: Params) -> str:
    """A setting in words."""
    alpha = setting["alpha"]
    values = ", ".join(f"{value:.4g}" for value in alpha) if isinstance(alpha, tuple) else f"{alpha:.4g}"
    return f"alpha={values}, l1_ratio={setting['l1_ratio']:g}, tv_ratio={setting['tv_ratio']:g}"
