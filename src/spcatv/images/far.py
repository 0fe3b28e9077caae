"""New images that a model can hardly be meant for: of another unit, blank, or not of the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spcatv._util.naming import some_of
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import row_blocks
from spcatv.estimator.fitting import centring_of
from spcatv.images.quality import ImageQualityWarning

# Distances from the mean of the fit, in those of its own images, from which a new image is no longer alike.
# Another unit or scale is farther away, another scanner or an ill person is not.
FAR = 5.0


def fit_distances(estimator: Any, X: FloatArray) -> FloatArray:
    """How far samples (n, P) lie from the mean of the fit; 1 is the root mean square of its own samples."""
    ratio = estimator.explained_variance_ratio_.astype(np.float64)
    first = int(np.argmax(ratio))
    if not ratio[first] > 0:
        return np.zeros(len(X))
    usual = float(estimator.explained_variance_[first]) / ratio[first]
    centring = centring_of(estimator)
    blocks = (
        np.square(centring.apply(X[a:b].astype(np.float64))).sum(axis=1) for a, b in row_blocks(X.shape)
    )
    return np.sqrt(np.concatenate([*blocks]) / usual)


def warn_of_far(distances: FloatArray, names: Sequence[str]) -> None:
    """Warn of new images that lie far from those of the fit: their scores hardly mean anything."""
    far = [
        f"{name} ({distance:.3g} times the usual distance)"
        for name, distance in zip(names, distances.tolist(), strict=True)
        if distance > FAR
    ]
    if far:
        verb, their = ("lies", "its") if len(far) == 1 else ("lie", "their")
        warn_user(
            f"{len(far)} of {len(names)} images {verb} far from the mean of the fit: {some_of(far)}; {their} "
            "scores hardly mean anything unless unit, smoothing and kind of image are those of the fit",
            ImageQualityWarning,
        )
