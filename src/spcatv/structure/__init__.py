"""Structures on features: the structured penalty ``s(v) = sum_g ||A_g v||_2`` (docs/method.md section 2)."""

from spcatv.structure.base import MatrixStructure, Structure, from_matrix
from spcatv.structure.compose import ConcatStructure, concat, stack
from spcatv.structure.convert import as_structure
from spcatv.structure.graph import EdgeStructure, graph
from spcatv.structure.grid import GridStructure, grid
from spcatv.structure.groups import groups
from spcatv.structure.mesh import icosphere, mesh

__all__ = [
    "ConcatStructure",
    "EdgeStructure",
    "GridStructure",
    "MatrixStructure",
    "Structure",
    "as_structure",
    "concat",
    "from_matrix",
    "graph",
    "grid",
    "groups",
    "icosphere",
    "mesh",
    "stack",
]
