"""Public checks that every new structure, penalty, solver or kind of data must pass."""

from spcatv.testing.data import check_data
from spcatv.testing.penalties import check_penalty
from spcatv.testing.solvers import check_solver
from spcatv.testing.structures import check_structure

__all__ = ["check_data", "check_penalty", "check_solver", "check_structure"]
