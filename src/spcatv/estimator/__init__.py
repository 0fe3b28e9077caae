"""SPCATV, the scikit-learn estimator: it checks, calls, stores and warns."""

from spcatv.estimator.spcatv import SPCATV, NullComponentWarning

__all__ = ["SPCATV", "NullComponentWarning"]
