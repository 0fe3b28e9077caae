"""Methods with a given share of zeros, so that Dice indices compare supports of one size."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.baselines import N_COMPONENTS, Fitted, Method, fit_sparse_pca, of_spcatv

# How close the share of zeros must come to the target, and how many fits this may take.
ZEROS_TOL = 0.01
MOST_FITS = 14
# Factor from one strength to the next, until the target lies between two of them.
STRIDE = 3.0
# An interpolated strength is at least this far from both ends, on the scale of the logarithm.
SMALLEST_PART = 0.15


def fit_spcatv_with_zeros(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """This package with the share ``zeros`` in every component, and one alpha per component."""
    from spcatv import SPCATV
    from spcatv.selection import alpha_for_sparsity

    own = dict(setting)
    wanted = [own.pop("zeros")] * N_COMPONENTS
    model = SPCATV(N_COMPONENTS, structure=structure, **own)
    with warnings.catch_warnings(action="ignore"):  # the table shows what was not reached
        choice = alpha_for_sparsity(model, X, wanted, tol=ZEROS_TOL)
    return of_spcatv(choice.model)


def fit_sparse_pca_with_zeros(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """scikit-learn's, with the share ``zeros`` in all components together: it has a single alpha."""
    own = dict(setting)
    wanted = own.pop("zeros")
    fits: dict[float, Fitted] = {}

    def share_of_zeros(alpha: float) -> float:
        fits[alpha] = fit_sparse_pca(X, structure, {**own, "alpha": alpha})
        return float((fits[alpha].components == 0).mean())

    return fits[alpha_for_zeros(share_of_zeros, 1.0, wanted)]


def alpha_for_zeros(share_of_zeros: Callable[[float], float], first_alpha: float, wanted: float) -> float:
    """The strength whose share of zeros is closest to the target, among those tried.

    It is raised or lowered by a factor until the target lies between two strengths, then interpolated.
    """
    tried: dict[float, float] = {}
    alpha = first_alpha
    for _ in range(MOST_FITS):
        tried[alpha] = share_of_zeros(alpha)
        if abs(tried[alpha] - wanted) <= ZEROS_TOL:
            break
        low = max((a for a, share in tried.items() if share < wanted), default=None)
        high = min((a for a, share in tried.items() if share >= wanted), default=None)
        if low is None or high is None:
            alpha = STRIDE * low if low is not None else min(tried) / STRIDE
        else:
            part = (wanted - tried[low]) / (tried[high] - tried[low])
            alpha = float(low * (high / low) ** np.clip(part, SMALLEST_PART, 1 - SMALLEST_PART))
    return min(tried, key=lambda a: abs(tried[a] - wanted))


def matched_methods(zeros: float) -> tuple[Method, ...]:
    """The methods of the study on real data at a share of zeros; SPCA-TV, with its default ratios, last."""
    return (
        Method(
            "mini-batch-sparse-pca",
            "Sparse PCA (mini-batch)",
            {"zeros": zeros, "center": True, "mini_batch": True, "method": "cd"},
            fit_sparse_pca_with_zeros,
        ),
        Method(
            "elastic-net",
            "ElasticNet PCA",
            {"zeros": zeros, "l1_ratio": 0.5, "tv_ratio": 0.0},
            fit_spcatv_with_zeros,
        ),
        Method(
            "spca-tv",
            "SPCA-TV",
            {"zeros": zeros, "l1_ratio": 0.25, "tv_ratio": 0.5},
            fit_spcatv_with_zeros,
        ),
    )
