"""Array-only hot loops behind one small interface, chosen by the structure alone."""

from __future__ import annotations

import numpy.typing as npt

from spcatv.kernels.base import GapShares, Setting, Steps, Workspace
from spcatv.kernels.box import fits_a_box
from spcatv.kernels.concat import ConcatWorkspace
from spcatv.kernels.edges import EdgeWorkspace
from spcatv.kernels.grid import GridWorkspace
from spcatv.kernels.incidence import fits_incidence
from spcatv.kernels.reference import ReferenceWorkspace
from spcatv.kernels.sparse import SparseWorkspace
from spcatv.structure import ConcatStructure, EdgeStructure, GridStructure, Structure

__all__ = [
    "ConcatWorkspace",
    "EdgeWorkspace",
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
    """The fastest workspace for a structure: a padded box, blocks of vertices, or the operator as it is."""
    if isinstance(structure, GridStructure) and fits_a_box(structure):
        return GridWorkspace(structure, setting, dtype)
    if isinstance(structure, EdgeStructure) and fits_incidence(structure):
        return EdgeWorkspace(structure, setting, dtype)
    if isinstance(structure, ConcatStructure):
        return ConcatWorkspace(structure, setting, dtype, workspace_for)
    return SparseWorkspace(structure, setting, dtype)
