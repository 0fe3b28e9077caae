"""K components: starts, alternation, deflation, joint refinement (docs/method.md sections 4 and 5)."""

from spcatv.decomposition.greedy import (
    INITS,
    ComponentDiagnostics,
    Decomposition,
    Init,
    Plan,
    Trail,
    decompose,
    deflation_scores,
)

__all__ = [
    "INITS",
    "ComponentDiagnostics",
    "Decomposition",
    "Init",
    "Plan",
    "Trail",
    "decompose",
    "deflation_scores",
]
