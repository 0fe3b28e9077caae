"""Structured sparse PCA: components made of a few coherent regions, with a certificate."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spcatv._version import __version__

if TYPE_CHECKING:
    from spcatv.estimator import SPCATV
    from spcatv.images import ImageSPCATV, ImageSPCATVCV
    from spcatv.selection import SPCATVCV
    from spcatv.xarray import XarraySPCATV

__all__ = ["SPCATV", "SPCATVCV", "ImageSPCATV", "ImageSPCATVCV", "XarraySPCATV", "__version__"]

# Imported on first use: `spca-tv --help` needs none of them, and a plain fit needs no images.
_HOMES = {
    "SPCATV": "spcatv.estimator",
    "SPCATVCV": "spcatv.selection",
    "ImageSPCATV": "spcatv.images",
    "ImageSPCATVCV": "spcatv.images",
    "XarraySPCATV": "spcatv.xarray",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
