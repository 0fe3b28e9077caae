"""Solvers of the loading problem and of other losses with the same penalties."""

from spcatv.solvers.api import METHODS, Solution, Solver, SolverError, Status, TracePoint, solve

__all__ = ["METHODS", "Solution", "Solver", "SolverError", "Status", "TracePoint", "solve"]
