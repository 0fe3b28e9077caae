"""SPCATV, the scikit-learn estimator, and its warnings."""

from spcatv.estimator.likeness import NeighbourWarning
from spcatv.estimator.remarks import ComponentCountWarning, EmptyComponentWarning, SparsityWarning
from spcatv.estimator.spcatv import SPCATV

__all__ = [
    "SPCATV",
    "ComponentCountWarning",
    "EmptyComponentWarning",
    "NeighbourWarning",
    "SparsityWarning",
]
