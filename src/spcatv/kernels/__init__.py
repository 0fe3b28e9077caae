"""Array-only hot loops behind one small interface, chosen by the structure alone."""

from __future__ import annotations

import numpy.typing as npt

from spcatv.kernels.base import GapShares, Setting, Steps, Workspace
from spcatv.kernels.box import fits_a_box
from spcatv.kernels.grid import GridWorkspace
from spcatv.kernels.reference import ReferenceWorkspace
from spcatv.kernels.sparse import SparseWorkspace
from spcatv.structure import GridStructure, Structure

__all__ = [
    "GapShares",
    "GridWorkspace",
    "ReferenceWorkspace",
    "Setting",
    "SparseWorkspace",
    "Steps",
    "Workspace",
    "workspace_for",
]


def workspace_for(structure: Structure, setting: Setting, dtype: npt.DTypeLike) -> Workspace:
    """The fastest workspace for a structure: the padded box for grids, else the sparse operator."""
    if isinstance(structure, GridStructure) and fits_a_box(structure):
        return GridWorkspace(structure, setting, dtype)
    return SparseWorkspace(structure, setting, dtype)
