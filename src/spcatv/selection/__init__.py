"""Many settings on the same data, and how to choose among them (docs/selection.md)."""

from spcatv.selection.cluster import dask_backend
from spcatv.selection.components import ComponentCurve, component_curve
from spcatv.selection.cv import SPCATVCV
from spcatv.selection.grid import AllZero, all_zero_alpha, alpha_grid
from spcatv.selection.path import Path, path
from spcatv.selection.rules import SelectionWarning
from spcatv.selection.sparsity import (
    Evaluation,
    SparsityChoice,
    SparsitySearch,
    alpha_for_sparsity,
    fit_alphas,
)
from spcatv.selection.workers import FailedFitWarning

__all__ = [
    "SPCATVCV",
    "AllZero",
    "ComponentCurve",
    "Evaluation",
    "FailedFitWarning",
    "Path",
    "SelectionWarning",
    "SparsityChoice",
    "SparsitySearch",
    "all_zero_alpha",
    "alpha_for_sparsity",
    "alpha_grid",
    "component_curve",
    "dask_backend",
    "fit_alphas",
    "path",
]
