"""What can be wrong with images, and what a reader should know about them."""

from __future__ import annotations


class ImageError(ValueError):
    """Images, masks, surfaces or confounds that cannot be used; the message names the file."""


class BadFeatureWarning(UserWarning):
    """Voxels or vertices were dropped: constant, NaN or infinite values."""
