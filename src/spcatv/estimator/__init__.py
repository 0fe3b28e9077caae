"""SPCATV, the scikit-learn estimator: it checks, calls, stores and warns."""

from spcatv.estimator.fitting import NullComponentWarning, SparsityWarning
from spcatv.estimator.spcatv import SPCATV

__all__ = ["SPCATV", "NullComponentWarning", "SparsityWarning"]
