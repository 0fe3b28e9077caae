"""Many settings on the same data, and how to choose among them (docs/selection.md)."""

from spcatv.model.checkpoint import CheckpointError, checkpointing
from spcatv.selection.components import ComponentCount, count_components
from spcatv.selection.cross_validation import SampleOrderWarning
from spcatv.selection.cv import SPCATVCV
from spcatv.selection.path import Path, path
from spcatv.selection.rules import SelectionWarning
from spcatv.selection.settings import AllZero, all_zero_alpha, alpha_grid
from spcatv.selection.workers import FailedFitWarning, dask_backend

__all__ = [
    "SPCATVCV",
    "AllZero",
    "CheckpointError",
    "ComponentCount",
    "FailedFitWarning",
    "Path",
    "SampleOrderWarning",
    "SelectionWarning",
    "all_zero_alpha",
    "alpha_grid",
    "checkpointing",
    "count_components",
    "dask_backend",
    "path",
]
