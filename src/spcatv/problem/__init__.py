"""What is minimised, with its exact duality gap: the only judge of solvers (docs/method.md section 3)."""

from spcatv.problem.loading import Certificate, Judgement, LoadingProblem
from spcatv.problem.penalties import (
    PENALTIES,
    GraphNet,
    HuberTV,
    Penalty,
    StructuredPenalty,
    TotalVariation,
    as_penalty,
)

__all__ = [
    "PENALTIES",
    "Certificate",
    "GraphNet",
    "HuberTV",
    "Judgement",
    "LoadingProblem",
    "Penalty",
    "StructuredPenalty",
    "TotalVariation",
    "as_penalty",
]
