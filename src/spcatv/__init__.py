"""Structured sparse PCA: components made of a few coherent regions, with a certificate."""

from typing import TYPE_CHECKING, Any

from spcatv._version import __version__
from spcatv.estimator import SPCATV

if TYPE_CHECKING:
    from spcatv.images import ImageSPCATV
    from spcatv.selection import SPCATVCV

__all__ = ["SPCATV", "SPCATVCV", "ImageSPCATV", "__version__"]


def __getattr__(name: str) -> Any:
    """Import what the plain estimator does not need when it is asked for."""
    if name == "SPCATVCV":
        from spcatv.selection import SPCATVCV

        return SPCATVCV
    if name == "ImageSPCATV":
        from spcatv.images import ImageSPCATV

        return ImageSPCATV
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
