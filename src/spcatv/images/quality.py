"""How every image compares with the others (`spcatv._util.quality`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spcatv._util.quality import BlankError, ImageQuality, ImageQualityWarning, Wording, sample_quality
from spcatv.images.loading import image_errors

__all__ = ["ImageQuality", "ImageQualityWarning", "image_quality"]


def image_quality(
    X: Any, names: Sequence[str], noun: str, *, scaled: bool = False
) -> tuple[ImageQuality, ...]:
    """Compare every image with the others; an ImageError names images that are blank.

    Scales are not compared if images are `scaled` later.
    """
    wording = Wording("image", "images", noun, "the mask", " (exclude=, --exclude)", scaled=scaled)
    with image_errors(BlankError):
        return sample_quality(X, names, wording)
