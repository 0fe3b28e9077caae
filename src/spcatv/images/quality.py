"""Checks of the values of images and features: bad features, unusual images, and images unlike the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.naming import some_of
from spcatv._util.types import Array, BoolArray, FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import row_blocks
from spcatv.data.outliers import BlankError, ImageQuality, ImageQualityWarning, Wording, sample_quality
from spcatv.estimator._fit import centring_of
from spcatv.images.files import ImageError, image_errors
from spcatv.images.spaces.base import Space

RULES = ("drop", "raise")
# Warn about images farther from the training mean than this multiple of the training RMS distance. Another
# unit or scale is farther away, another scanner or a patient is not.
FAR = 5.0


class BadFeatureWarning(UserWarning):
    """Voxels or vertices were dropped: constant, NaN or infinite values.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import BadFeatureWarning
    >>> warnings.filterwarnings("ignore", category=BadFeatureWarning)
    """


@dataclass(frozen=True, eq=False)
class BadFeatures:
    """Features that cannot be used."""

    constant: BoolArray  # the same finite value in every sample, shape (n_features,)
    not_finite: BoolArray  # NaN or infinite in at least one sample, shape (n_features,)
    first_sample: int | None  # the first sample with a NaN or infinite value


@dataclass(frozen=True)
class DropReport:
    """Numbers of features, and of those that were dropped, by reason.

    Examples
    --------
    >>> from spcatv.images import read_cohort
    >>> read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz").dropped.n_dropped
    0
    """

    n_features: int  # features before any was dropped
    n_constant: int = 0  # dropped: constant over the samples
    n_not_finite: int = 0  # dropped: NaN or infinite in some sample
    n_explained: int = 0  # dropped: constant once the confounds are removed

    @property
    def n_dropped(self) -> int:
        """Number of dropped features."""
        return self.n_constant + self.n_not_finite + self.n_explained


def find_bad(X: Any) -> BadFeatures:
    """Find bad features in X, shape (n_samples, n_features), in memory or not, one sample at a time."""
    reference = X[0]
    varies = np.zeros(X.shape[1], dtype=bool)
    finite = np.ones(X.shape[1], dtype=bool)
    first_sample = None
    for number, row in enumerate(X):
        good = np.isfinite(row)
        if first_sample is None and not good.all():
            first_sample = number
        finite &= good
        varies |= row != reference
    return BadFeatures(constant=finite & ~varies, not_finite=~finite, first_sample=first_sample)


def drop_features(X: Any, kept: BoolArray) -> Any:
    """Return the kept features of X, shape (n_samples, n_kept): a view; an array is overwritten."""
    if not isinstance(X, np.ndarray):
        return X[:, kept]
    n_samples, n_kept = len(X), int(kept.sum())  # a row that is moved ends no later than it did
    flat = X.reshape(-1)
    for number in range(n_samples):
        flat[number * n_kept : (number + 1) * n_kept] = X[number][kept]
    return flat[: n_samples * n_kept].reshape(n_samples, n_kept)


@dataclass(eq=False)
class FeatureMatrix:
    """Data matrix and the space of its features, of which bad ones are dropped."""

    X: Any  # shape (n_samples, n_features), in memory or not; an array is overwritten
    space: Space
    rule: str  # one of `RULES`

    def drop(self, reasons: Mapping[str, BoolArray], hint: str) -> BoolArray:
        """Drop features with a warning, or refuse them, and return which are kept.

        The features of every reason have the shape (n_features,). The `hint` is for the case that none are
        left.
        """
        kept = ~np.logical_or.reduce([*reasons.values()])
        n_features, noun = len(kept), self.space.noun
        n_dropped = n_features - int(kept.sum())
        total = f"{n_dropped:,} of {n_features:,} {noun}"
        reason = ", ".join(f"{bad.sum():,} {why}" for why, bad in reasons.items() if bad.any())
        if n_dropped and self.rule == "raise":
            raise ImageError(
                f"{total} cannot be used: {reason}; give a mask without them, or drop them "
                "(bad_features='drop')"
            )
        if n_dropped == n_features:
            raise ImageError(f"no {noun} are left: of {n_features:,}, {reason}; {hint}")
        if n_dropped:
            warn_user(f"{total} were dropped from the mask: {reason}", BadFeatureWarning)
            self.X, self.space = drop_features(self.X, kept), self.space.keep(kept)
        return kept


def check_new_samples(X: Array, names: Sequence[str], noun: str) -> None:
    """Refuse new samples with NaN or infinite values at a feature of the model; warn about blank ones.

    A sample with one value at all features gets scores nevertheless.
    """
    blank = []
    for row, name in zip(X, names, strict=True):
        finite = np.isfinite(row)
        if not finite.all():
            raise ImageError(
                f"{name}: {int((~finite).sum()):,} of the model's {len(row):,} {noun} are NaN or infinite"
            )
        if len(row) > 1 and row.min() == row.max():
            blank.append(f"{name} ({row[0]:g})")
    if blank:
        warn_user(
            f"{some_of(blank)}: the same value in all {X.shape[1]:,} {noun} of the model; leave out such "
            "images (exclude=) unless that is what they show",
            UserWarning,
        )


def image_quality(
    X: Any, names: Sequence[str], noun: str, *, scaled: bool = False
) -> tuple[ImageQuality, ...]:
    """Compare every image with the others; an ImageError names images that are blank.

    Scales are not compared if images are `scaled` later.
    """
    wording = Wording("image", "images", noun, "the mask", " (exclude=)", scaled=scaled)
    with image_errors(BlankError):
        return sample_quality(X, names, wording)


def fit_distances(estimator: Any, X: FloatArray) -> FloatArray:
    """Return the distances of samples (n, P) from the training mean, over the training RMS distance."""
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
    """Warn about new images far from those of the fit, whose scores are probably meaningless."""
    far = [
        f"{name} ({distance:.3g} times the usual distance)"
        for name, distance in zip(names, distances.tolist(), strict=True)
        if distance > FAR
    ]
    if far:
        verb, their = ("lies", "its") if len(far) == 1 else ("lie", "their")
        warn_user(
            f"{len(far)} of {len(names)} images {verb} far from the mean of the fit: {some_of(far)}; do not "
            f"interpret {their} scores unless unit, smoothing and kind of image are those of the fit",
            ImageQualityWarning,
        )
