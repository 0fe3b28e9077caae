"""Problems to minimise, with their exact duality gap (docs/method.md section 3)."""

from spcatv.problem.loading_problem import Certificate, Judgement, LoadingProblem
from spcatv.problem.penalties import (
    PENALTIES,
    BallPenalty,
    GraphNet,
    HuberTV,
    Penalty,
    TotalVariation,
    as_penalty,
)
from spcatv.structure.penalty import DualBall, StructuredPenalty

__all__ = [
    "PENALTIES",
    "BallPenalty",
    "Certificate",
    "DualBall",
    "GraphNet",
    "HuberTV",
    "Judgement",
    "LoadingProblem",
    "Penalty",
    "StructuredPenalty",
    "TotalVariation",
    "as_penalty",
]
