"""What is minimised, with its exact duality gap: the only judge of solvers (docs/method.md section 3)."""

from spcatv.problem.loading import PENALTIES, Certificate, Judgement, LoadingProblem, Penalty

__all__ = ["PENALTIES", "Certificate", "Judgement", "LoadingProblem", "Penalty"]
