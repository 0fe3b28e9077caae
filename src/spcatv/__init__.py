"""Structured sparse PCA: components made of a few coherent regions, with a certificate."""

from spcatv._version import __version__

__all__ = ["__version__"]
