"""Structured sparse PCA: components made of a few coherent regions, with a certificate."""

from spcatv._version import __version__
from spcatv.estimator import SPCATV

__all__ = ["SPCATV", "__version__"]
