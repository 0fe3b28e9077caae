"""K components: starts, alternation, deflation, joint fit (docs/method.md sections 4, 5, 7 and 8)."""

from spcatv.decomposition.component import Component, ComponentDiagnostics
from spcatv.decomposition.decompose import decompose, prepare
from spcatv.decomposition.deflation import deflation_scores
from spcatv.decomposition.joint import JointFit
from spcatv.decomposition.plan import Decomposition, Plan
from spcatv.decomposition.starts import JointStart
from spcatv.decomposition.warm_start import WarmStart
from spcatv.decomposition.weights import LoadingPenalty, SparsityTarget, Weights

__all__ = [
    "Component",
    "ComponentDiagnostics",
    "Decomposition",
    "JointFit",
    "JointStart",
    "LoadingPenalty",
    "Plan",
    "SparsityTarget",
    "WarmStart",
    "Weights",
    "decompose",
    "deflation_scores",
    "prepare",
]
