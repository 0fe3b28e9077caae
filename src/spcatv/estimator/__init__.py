"""SPCATV, the scikit-learn estimator, and its warnings."""

from spcatv.estimator._warnings import (
    ComponentCountWarning,
    EmptyComponentWarning,
    NeighbourWarning,
    SparsityWarning,
)
from spcatv.estimator.spcatv import SPCATV

__all__ = [
    "SPCATV",
    "ComponentCountWarning",
    "EmptyComponentWarning",
    "NeighbourWarning",
    "SparsityWarning",
]
