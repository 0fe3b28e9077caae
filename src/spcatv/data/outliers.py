"""Quality of every sample compared with the others, and outliers."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spcatv._util.naming import some_of
from spcatv._util.types import BoolArray, FloatArray
from spcatv._util.warn import warn_user

# An outlier lies this many robust standard deviations (1.4826 median absolute deviations) beyond the median,
# and at least this far, so that images which are all alike have none. Distances are compared by their
# logarithm and correlations by Fisher's z, which makes their distributions about symmetric.
FAR = 4.0
MAD_TO_DEVIATION = 1.4826
LEAST = {"share_missing": 0.05, "share_zero": 0.1, "distance": np.log(1.5), "correlation": 0.4}
# Two groups of images have two scales if their median standard deviations differ by this factor, and if, in
# logarithms, the medians are this many times as far apart as this share of the images is from its own median.
TWO_SCALES = 3.0
APART, MOST_WITHIN = 3.0, 0.9
FEWEST_OF_GROUP = 3
SCALE = "standard deviation"  # how the remark on an image of another scale begins
# fewer images have no usual distance, correlation and scale
FEWEST = 8
# Share of the variance of a component's scores that one sample should not make alone. One of 20 equal, normal
# samples does so in 0.6 % of all cases, one of 12 in 7 %.
MOST_OF_ONE = 0.5
FEWEST_SCORES = 20
# images with a lower median correlation have no mean in common with which they could disagree
COMMON = 0.3
# images are compared on at most so many features, with the median of at most so many images, evenly spaced
MOST_FEATURES = 50_000
MOST_IN_MEDIAN = 101
# Leading directions of variation that are removed before distances and correlations are compared: scores of a
# clear component that are far from 0 make no outlier.
N_DIRECTIONS = 3
ROUNDING = 1e-10  # share of the largest eigenvalue


class BlankError(ValueError):
    """Error of samples that hold one value everywhere, or no value at all."""


class ImageQualityWarning(UserWarning):
    """Warning about images that are outliers, or the same as others.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import ImageQualityWarning
    >>> warnings.filterwarnings("error", category=ImageQualityWarning)
    """


@dataclass(frozen=True)
class ImageQuality:
    """One image among the others. All values are those of the features in the mask.

    Examples
    --------
    >>> from spcatv.images import read_cohort
    >>> cohort = read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz")
    >>> first = cohort.quality[0]
    >>> first.share_missing, first.share_zero, first.outlier
    (0.0, 0.0, False)
    """

    name: str
    share_missing: float  # share of the features that are NaN or infinite
    share_zero: float  # share of the features that are exactly 0
    # root mean square of the difference from the median image, over the median of all images: 1 is usual
    distance: float
    correlation: float  # with the mean of the other images, over features; NaN where one of them is flat
    outlier: bool = False
    # what is unusual about an outlier, which image holds the same values, or the scale of a group
    why: str = ""


@dataclass(frozen=True)
class Wording:
    """Words for the samples and their features in messages, and what to do about bad ones."""

    sample: str  # "image"
    samples: str  # "images"
    features: str  # "voxels"
    whole: str  # what they are part of: "the mask"
    remedy: str  # how to leave samples out
    # whether samples show one kind of thing, such as brains, so that their correlations should be alike
    alike: bool = True
    scaled: bool = False  # whether samples are brought to one scale later


def sample_quality(X: Any, names: Sequence[str], wording: Wording) -> tuple[ImageQuality, ...]:
    """Compare every sample with the others; `X` (n_samples, n_features) is read, before features are dropped.

    It may lie on disk: it is passed over row by row, a few times.

    Raises a BlankError if a sample is blank: one value everywhere, or none. Warns of outliers in one line,
    with the number of features that are lost because of missing values in them, of two groups of samples with
    different scales, and of samples that hold the same values as another one.
    """
    n_features = X.shape[1]
    blank, n_missing, n_zero = [], [], []
    for name, row in zip(names, X, strict=True):
        finite = np.isfinite(row)
        values = row if finite.all() else row[finite]
        if not len(values) or (n_features > 1 and values.min() == values.max()):
            blank.append(f"{name} ({f'{values[0]:g} everywhere' if len(values) else 'NaN everywhere'})")
        n_missing.append(n_features - len(values))
        n_zero.append(n_features - np.count_nonzero(row))
    # if all samples are blank, the rule for bad features reports them
    if 0 < len(blank) < len(X):
        raise BlankError(
            f"{some_of(blank)}: the same value, or none, in all {n_features:,} {wording.features} of "
            f"{wording.whole}; leave out such {wording.samples}{wording.remedy}"
        )
    distance, correlation, compared, deviation = _compared(X[:, :: -(-n_features // MOST_FEATURES)])
    columns = {
        "share_missing": np.array(n_missing) / n_features,
        "share_zero": np.array(n_zero) / n_features,
        "distance": distance,
        "correlation": correlation,
    }
    reasons = _reasons(columns, compared, wording)
    outliers = [bool(why) for why in reasons]
    _warn_of_outliers(names, reasons, X, wording)
    if wording.alike and not wording.scaled:
        _add_scales(names, reasons, deviation, wording)
    _add_repeats(names, reasons, _repeats(X), wording)
    return tuple(
        ImageQuality(
            name,
            **{column: float(values[number]) for column, values in columns.items()},
            outlier=outliers[number],
            why=", ".join(reasons[number]),
        )
        for number, name in enumerate(names)
    )


def outweighing(scores: FloatArray) -> tuple[int, float] | None:
    """Return the sample that makes most of the variance of scores (N,), and its share; None if none does."""
    squares = np.square(scores - scores.mean(dtype=np.float64))
    top = int(np.argmax(squares))
    if len(scores) < FEWEST_SCORES or squares[top] < MOST_OF_ONE * squares.sum() or not squares[top]:
        return None
    return top, float(squares[top] / squares.sum())


def _repeats(X: Any) -> dict[int, int]:
    """Return the rows that equal an earlier one bit by bit, with the first of these."""
    seen: dict[int, list[int]] = {}
    repeats: dict[int, int] = {}
    for number, row in enumerate(X):
        alike = seen.setdefault(zlib.crc32(row.tobytes()), [])
        first = next((k for k in alike if np.array_equal(X[k], row, equal_nan=True)), None)
        if first is None:
            alike.append(number)
        else:
            repeats[number] = first
    return repeats


def _add_repeats(
    names: Sequence[str], reasons: list[list[str]], repeats: Mapping[int, int], wording: Wording
) -> None:
    """Warn about images that hold the same values as an earlier one, and add this to their reasons."""
    # if all samples are the same, the rule for bad features reports them
    if not repeats or len(repeats) == len(names) - 1:
        return
    named = [f"{names[number]} (as {names[first]})" for number, first in repeats.items()]
    verb = f"{wording.sample} holds" if len(named) == 1 else f"{wording.samples} hold"
    warn_user(
        f"{len(named)} {verb} the same values as another one and would count twice: {some_of(named)}; leave "
        f"out what is not wanted{wording.remedy}",
        ImageQualityWarning,
    )
    for number, first in repeats.items():
        reasons[number].append(f"the same values as {names[first]}")


def _add_scales(
    names: Sequence[str], reasons: list[list[str]], deviation: FloatArray, wording: Wording
) -> None:
    """Warn about two groups with different scales, and add this to the reasons of the smaller one."""
    is_large = two_scales(deviation)
    if is_large is None:
        return
    sizes = {large: float(np.median(deviation[is_large == large])) for large in (True, False)}
    named = [
        f"{np.count_nonzero(is_large == large)} of about {size:.3g} "
        f"({some_of(name for name, here in zip(names, is_large == large, strict=True) if here)})"
        for large, size in sizes.items()
    ]
    ratio = sizes[True] / sizes[False]
    warn_user(
        f"the {wording.samples} have two scales, {SCALE}s that differ by a factor of {ratio:.3g}: {named[0]} "
        f"and {named[1]}; the first group will dominate the components: bring all {wording.samples} to one "
        f"unit, or leave out one group{wording.remedy}",
        ImageQualityWarning,
    )
    smaller = bool(2 * np.count_nonzero(is_large) <= len(is_large))
    times = ratio if smaller else 1 / ratio
    for number in np.flatnonzero(is_large == smaller):
        reasons[number].append(
            f"{SCALE} {times:.3g} times that of {np.count_nonzero(is_large != smaller)} others"
        )


def two_scales(deviation: FloatArray) -> BoolArray | None:
    """Return which of the standard deviations (N,) belong to the larger of two scales; None if there is one.

    The logarithms are split where the sum of absolute deviations from the medians of both groups is smallest,
    which single outliers hardly move.
    """
    logs = _logarithm(deviation)
    ordered, n = np.sort(logs), len(logs)
    if n < FEWEST:
        return None
    splits = np.arange(FEWEST_OF_GROUP, n - FEWEST_OF_GROUP + 1)
    sums = np.r_[0.0, np.cumsum(ordered)]
    below, above = splits // 2, (n - splits) // 2
    costs = sums[splits] - sums[splits - below] - sums[below]
    costs += sums[n] - sums[n - above] - sums[splits + above] + sums[splits]
    split = int(splits[np.argmin(costs)])
    groups = ordered[:split], ordered[split:]
    middles = [float(np.median(group)) for group in groups]
    within = np.concatenate([np.abs(group - middle) for group, middle in zip(groups, middles, strict=True)])
    width = APART * float(np.quantile(within, MOST_WITHIN, method="lower"))
    if middles[1] - middles[0] < max(np.log(TWO_SCALES), width):
        return None
    return np.greater_equal(logs, ordered[split])


def _compared(X: Any) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Compare images with the others; return four arrays of shape (N,).

    Relative distances from the median image without the leading directions; correlations with the mean of
    the others, of the images as they are and without these directions; standard deviations.
    """
    n_finite = np.zeros(X.shape[1], dtype=np.int64)
    total = np.zeros(X.shape[1])
    for row in X:
        finite = np.isfinite(row)
        n_finite += finite
        total += np.where(finite, row, 0)
    usable = 2 * n_finite > max(len(X), 2)  # in most images, and in two at least
    some = np.array(X[:: -(-len(X) // MOST_IN_MEDIAN)], dtype=np.float64)
    some[~np.isfinite(some)] = np.nan
    median = np.where(usable, _median_image(some), 0.0)
    directions = _leading_directions(np.where(usable, some - median, np.nan))
    distance, deviation = np.zeros(len(X)), np.zeros(len(X))
    correlation, compared = np.full(len(X), np.nan), np.full(len(X), np.nan)
    for number, row in enumerate(X):
        good = np.flatnonzero(usable & np.isfinite(row))
        values = row[good].astype(np.float64)
        if len(values):
            deviation[number] = values.std()
            others = (total[good] - values) / (n_finite[good] - 1)
            own = directions[:, good]
            left = values - median[good]
            left -= (own @ left) @ own
            distance[number] = np.sqrt(np.mean(left**2))
            if deviation[number] > 0:
                correlation[number] = _correlation(values, others)
                compared[number] = _correlation(median[good] + left, others)
    usual = float(np.median(distance)) or float(distance.max()) or 1.0
    return distance / usual, correlation, compared, deviation


def _leading_directions(differences: FloatArray) -> FloatArray:
    """Return orthonormal leading directions (n, P) of differences from the median image; NaN count as 0.

    Images are first divided by the root of their lengths: large scores define the direction of a component,
    but single images hardly turn it. A direction that one image makes is left out, because removing it would
    hide this image.
    """
    rows = np.nan_to_num(differences)
    roots = np.sqrt(np.linalg.norm(rows, axis=1, keepdims=True))
    rows = np.divide(rows, roots, out=np.zeros_like(rows), where=roots > 0)
    values, vectors = np.linalg.eigh(rows @ rows.T)
    shared = np.square(vectors).max(axis=0) < MOST_OF_ONE
    kept = np.flatnonzero(shared & (values > ROUNDING * values[-1]))[-N_DIRECTIONS:]
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T @ rows)


def _correlation(a: FloatArray, b: FloatArray) -> float:
    a, b = a - a.mean(), b - b.mean()
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / size if size > 0 else float("nan")


def _median_image(rows: FloatArray) -> FloatArray:
    """Return the median of every feature without NaN; NaN where there is nothing else."""
    n_finite = np.count_nonzero(~np.isnan(rows), axis=0)
    ordered = np.sort(rows, axis=0)  # NaN come last
    middles = np.stack([np.maximum(n_finite - 1, 0) // 2, n_finite // 2])
    return np.take_along_axis(ordered, middles, axis=0).mean(axis=0)


def _reasons(columns: dict[str, FloatArray], compared: FloatArray, wording: Wording) -> list[list[str]]:
    """Return why each image is an outlier, by the columns, but by the correlations `compared`."""
    texts = {
        "share_missing": "{:.0f} % missing",
        "share_zero": "{:.0f} % zeros",
        "distance": f"{{:.1f}} times the usual distance from the median {wording.sample}",
        "correlation": "correlation {:.2f} with the mean of the others",
    }
    judged = dict(columns)
    minus_fisher_z = -np.arctanh(np.clip(compared, -0.999999, 0.999999))
    judged |= {"distance": _logarithm(columns["distance"]), "correlation": minus_fisher_z}
    if len(compared) < FEWEST:
        del judged["distance"], judged["correlation"]
    elif not (wording.alike and _middle(compared) >= COMMON):
        del judged["correlation"]
    reasons: list[list[str]] = [[] for _ in compared]
    for column, values in judged.items():
        for number in np.flatnonzero(_far(values, LEAST[column])):
            shown = columns[column][number] * (100 if column.startswith("share") else 1)
            reasons[number].append(texts[column].format(shown))
    return reasons


def _logarithm(distance: FloatArray) -> FloatArray:
    return np.log(np.maximum(distance, np.finfo(np.float64).tiny))


def _middle(values: FloatArray) -> float:
    """Return the median of the finite values; NaN if there are none."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _far(values: FloatArray, least: float) -> BoolArray:
    """Return which values lie far above the median; NaN never does."""
    known, middle = np.isfinite(values), _middle(values)
    if not known.any():
        return known
    spread = MAD_TO_DEVIATION * float(np.median(np.abs(values[known] - middle)))
    return np.greater(values - middle, max(FAR * spread, least), where=known, out=known.copy())


def _warn_of_outliers(
    names: Sequence[str], reasons: Sequence[Sequence[str]], X: Any, wording: Wording
) -> None:
    """Warn about the outliers, with the number of features that are missing in them alone."""
    named = [f"{name} ({', '.join(why)})" for name, why in zip(names, reasons, strict=True) if why]
    if not named:
        return
    in_outliers, in_others = np.zeros((2, X.shape[1]), dtype=bool)
    for row, why in zip(X, reasons, strict=True):
        missing = in_outliers if why else in_others
        missing |= ~np.isfinite(row)
    n_lost = np.count_nonzero(in_outliers & ~in_others)
    size = f"{n_lost:,} of its {X.shape[1]:,} {wording.features}"
    cost = f"; values missing there cost {wording.whole} {size}" if n_lost else ""
    verb, them = ("is", "it") if len(named) == 1 else ("are", "them")
    warn_user(
        f"{len(named)} of {len(names)} {wording.samples} {verb} unlike the others: {some_of(named)}{cost}; "
        f"look at {them}, or leave {them} out{wording.remedy}",
        ImageQualityWarning,
    )
