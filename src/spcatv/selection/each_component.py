"""One alpha a component: each is fitted alone to what those before it leave of the data.

The residual is written out (one copy of X, in X's own precision), so that a component is the fit of an
estimator of its own with ``n_components=1``, and whatever finds alpha for one component serves for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from spcatv._util.types import FloatArray
from spcatv.data.centred import row_blocks
from spcatv.estimator import SPCATV
from spcatv.estimator.parameters import check_parameters
from spcatv.selection.warm_path import PathWalker, quiet
from spcatv.structure import as_structure

# Finds one component: (number from 0, estimator without alpha, residual) -> fitted one-component model.
ComponentFinder = Callable[[int, SPCATV, FloatArray], SPCATV]


def fit_alphas(estimator: SPCATV, X: Any, alphas: Sequence[float]) -> SPCATV:
    """Fit a model whose components have an alpha each.

    Parameters
    ----------
    estimator : SPCATV
        Everything but alpha; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Training data.
    alphas : sequence of float of length n_components
        In the estimator's units; relative ones count in units of the whole data, not of the residual.

    Returns
    -------
    SPCATV
        Fitted; see `fit_one_by_one`.
    """
    if len(alphas) != estimator.n_components:
        raise ValueError(f"{estimator.n_components} components need as many alphas, got {len(alphas)}")

    def with_its_alpha(number: int, single: SPCATV, residual: FloatArray) -> SPCATV:
        return single.set_params(alpha=float(alphas[number]) * single.alpha).fit(residual)

    return fit_one_by_one(estimator, X, with_its_alpha)


def weights_of_components(weight: float, alphas: npt.ArrayLike | None, n_components: int) -> FloatArray:
    """A penalty weight of every component, from that of the first.

    All weights (l1, l2, TV) are proportional to alpha, so that component k has
    ``weight * alphas[k] / alphas[0]``.

    Parameters
    ----------
    weight : float
        ``l1_``, ``l2_`` or ``tv_`` of a fitted model, which is that of its first component.
    alphas : array-like of shape (n_components,) or None
        Its ``component_alphas_``; None if it has one alpha for all components.
    n_components : int
        K.

    Returns
    -------
    ndarray of shape (n_components,)
    """
    if alphas is None:
        return np.full(n_components, float(weight))
    own = np.asarray(alphas, dtype=np.float64)
    return np.asarray(float(weight) * own / own[0])


def fit_one_by_one(estimator: SPCATV, X: Any, find: ComponentFinder) -> SPCATV:
    """Fit component after component, each with an alpha of its own, and put them into one model.

    Parameters
    ----------
    estimator : SPCATV
        Everything but alpha; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Training data.
    find : callable
        Called for every component with its number, an estimator for one component of data that need no
        more centring, whose penalty is absolute and whose alpha is the unit that the estimator's alpha
        counts in, and the residual; returns the fitted model.

    Returns
    -------
    SPCATV
        A fitted model, of which `transform` and all that follows is that of any other. It has one attribute
        more, ``component_alphas_`` of shape (n_components,), in the units of `estimator`; its parameter
        ``alpha`` and its weights ``l1_``, ``l2_`` and ``tv_`` are those of the first component.
    """
    if estimator.refine:
        raise ValueError(
            "refine=True refines all components under one alpha; components with an alpha each need "
            "refine=False"
        )
    model = clone(estimator)
    check_parameters(model)
    data = model._validated(X, reset=True, min_samples=2)
    structure = as_structure(model.structure, n_features=data.shape[1])
    # data without any variance have nothing to scale by, nor anything to fit
    unit = PathWalker(estimator, data).alpha_unit() or 1.0
    mean = data.mean(axis=0, dtype=np.float64) if model.center else np.zeros(data.shape[1])
    residual, total = _centred(data, mean)
    found = []
    for number in range(model.n_components):
        single = _single(estimator, number, structure).set_params(alpha=unit)
        found.append(find(number, single, residual))
        _deflate(residual, found[-1].components_[0])
    model.component_alphas_ = np.array([float(single.alpha) / unit for single in found])
    model.alpha = float(model.component_alphas_[0])
    return _joined(model, found, mean, total, len(data))


def _centred(data: FloatArray, mean: FloatArray) -> tuple[FloatArray, float]:
    """``data - mean`` in the precision of the data, C-contiguous, and its squared norm."""
    residual, total = np.empty(data.shape, dtype=data.dtype), 0.0
    for first, last in row_blocks((data.shape[0], data.shape[1])):
        block = data[first:last] - mean
        residual[first:last] = block
        total += float(np.einsum("ij,ij->", block, block))
    return residual, total


def _deflate(residual: FloatArray, component: FloatArray) -> None:
    """Take a unit loading out of every row, in place (docs/method.md section 5.1)."""
    direction = component.astype(np.float64)
    for first, last in row_blocks((residual.shape[0], residual.shape[1])):
        block = residual[first:last].astype(np.float64)
        residual[first:last] = block - np.outer(block @ direction, direction)


def _single(estimator: SPCATV, number: int, structure: Any) -> SPCATV:
    init = (
        estimator.init if isinstance(estimator.init, str) else np.asarray(estimator.init)[number : number + 1]
    )
    return quiet(estimator).set_params(
        n_components=1, center=False, penalty_units="absolute", structure=structure, init=init
    )


def _joined(model: SPCATV, found: Sequence[SPCATV], mean: FloatArray, total: float, n_rows: int) -> SPCATV:
    """Fill `model` with components that were fitted one by one."""
    dtype = found[0].components_.dtype
    variance = np.array([float(single.singular_values_[0]) ** 2 for single in found])
    model.components_ = np.concatenate([single.components_ for single in found])
    model.mean_ = mean.astype(dtype)
    model.singular_values_ = np.sqrt(variance).astype(dtype)
    model.explained_variance_ = (variance / (n_rows - 1)).astype(dtype)
    model.explained_variance_ratio_ = (variance / total if total > 0 else 0 * variance).astype(dtype)
    model.l1_, model.l2_, model.tv_ = found[0].l1_, found[0].l2_, found[0].tv_
    model.structure_ = found[0].structure_
    model.diagnostics_ = tuple(single.diagnostics_[0] for single in found)
    model.refinement_ = None
    model.n_iter_ = max(single.n_iter_ for single in found)
    return model
