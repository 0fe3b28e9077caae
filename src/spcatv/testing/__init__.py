"""Checks that every new structure and every new solver must pass; for authors of either."""

from spcatv.testing.solvers import check_solver
from spcatv.testing.structures import check_structure

__all__ = ["check_solver", "check_structure"]
