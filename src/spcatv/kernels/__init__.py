"""Hot loops that see arrays only, behind one small interface."""

from __future__ import annotations

import numpy.typing as npt

from spcatv.kernels.edge_layout import fits_incidence
from spcatv.kernels.edges import EdgeWorkspace
from spcatv.kernels.grid import GridWorkspace
from spcatv.kernels.grid_layout import fits_a_box
from spcatv.kernels.sparse import SparseWorkspace
from spcatv.kernels.workspace import (
    ConcatWorkspace,
    GapShares,
    LoadingTerms,
    ReferenceWorkspace,
    StepSizes,
    Workspace,
)
from spcatv.structure import ConcatStructure, EdgeStructure, GridStructure, Structure

__all__ = [
    "ConcatWorkspace",
    "EdgeWorkspace",
    "GapShares",
    "GridWorkspace",
    "LoadingTerms",
    "ReferenceWorkspace",
    "SparseWorkspace",
    "StepSizes",
    "Workspace",
    "workspace_for",
]


def workspace_for(structure: Structure, terms: LoadingTerms, dtype: npt.DTypeLike) -> Workspace:
    """Return the fastest workspace for a structure and a penalty.

    For a penalty that has a compiled kernel it is a padded box, blocks of vertices or the sparse operator, in
    the given precision; for any other penalty it is the NumPy reference, in float64.
    """
    if terms.penalty.ball is None:
        return ReferenceWorkspace(structure, terms)
    if isinstance(structure, GridStructure) and fits_a_box(structure):
        return GridWorkspace(structure, terms, dtype)
    if isinstance(structure, EdgeStructure) and fits_incidence(structure):
        return EdgeWorkspace(structure, terms, dtype)
    if isinstance(structure, ConcatStructure):
        return ConcatWorkspace(structure, terms, dtype, workspace_for)
    return SparseWorkspace(structure, terms, dtype)
