"""From images to one data matrix: read, checked, confounds removed, scaled. New images go the same way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.entities import natural_groups
from spcatv._util.types import FloatArray
from spcatv.data import Adjustment, as_data
from spcatv.images.confounds import ConfoundFit, ConfoundTable, fit_confounds, read_confounds
from spcatv.images.features import (
    DropReport,
    apply_rule,
    check_explained,
    check_finite,
    check_rule,
    drop_columns,
    find_bad,
)
from spcatv.images.formats import listed, space_of, without
from spcatv.images.loading import ImageError
from spcatv.images.quality import ImageQuality, image_quality
from spcatv.images.space import Samples, Space
from spcatv.model import file_sha256
from spcatv.progress import Event, FileRead, listening

logger = logging.getLogger(__name__)

DTYPES = ("float32", "float64")
# called after every image with its number (from 1), the number of all images, and its name
ReadProgress = Callable[[int, int, str], None]
# the residual of a feature counts as rounding error below this many units in the last place of its values
ROUNDING = 8


@dataclass(frozen=True)
class InputFile:
    """A file that was read, and its SHA-256."""

    name: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Preparation:
    """How images become rows of the data matrix, in a fit and for new images."""

    space: Space  # where the features live
    confounds: ConfoundFit | None  # what the confounds explain
    scale: FloatArray | None  # standard deviations that the features are divided by, shape (n_features,)
    dtype: str  # "float32" or "float64"

    def read(self, imgs: Any, confounds: Any = None, *, progress: ReadProgress | None = None) -> FloatArray:
        """The data matrix (n_samples, n_features) of new images of the same kind and space.

        Confounds, with the columns of the fit, are needed if and only if the fit had some.
        """
        items = listed(imgs)
        kind = space_of(items, self.space.as_surface()).kind
        if kind != self.space.kind:
            raise ImageError(f"the model was fitted to {self.space.kind} images, these are {kind} images")
        samples = self.space.open(items)
        table = self._checked_confounds(confounds, samples.names)
        X = _read(samples, self.space, self.dtype, progress)
        check_finite(X, samples.names, self.space.noun)
        if self.confounds is not None and table is not None:
            self.confounds.remove(X, table)
        if self.scale is not None:
            X /= self.scale
        return X

    def _checked_confounds(self, confounds: Any, names: tuple[str, ...]) -> ConfoundTable | None:
        if confounds is None and self.confounds is not None:
            raise ImageError(
                f"the model was fitted with confounds ({self.confounds.described()}); give those of the new "
                "images too (confounds=, --confounds)"
            )
        if confounds is None:
            return None
        if self.confounds is None:
            raise ImageError("the model was fitted without confounds; it cannot remove any from new images")
        return read_confounds(confounds, names, self.confounds.levels)

    def to_images(self, X: npt.ArrayLike, names: tuple[str, ...] = ()) -> Any:
        """Images in the units of the input, from rows as `read` returns them; confounds stay removed."""
        values = np.asarray(X)
        return self.space.to_images(values if self.scale is None else values * self.scale, names)


@dataclass(frozen=True, eq=False)
class Cohort:
    """Images as one data matrix, ready to be analysed.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        One row per image, not centred; confounds removed and scaled if asked for.
    preparation : Preparation
        How the rows were made, to treat new images in the same way.
    adjustment : Adjustment
        What was done to the features with coefficients of all samples. A fit of some samples adjusts the
        rows of X anew, with its own coefficients, and gets what it would from the images as they were read.
    names : tuple of str
        One per sample: the file (both files of a pair joined by " + "), with ``[k]`` for sample k of a file
        that holds several.
    files : tuple of InputFile
        The files that were read.
    mask_report : str
        One line: how many features, and where the mask comes from.
    dropped : DropReport
        How many features were dropped from the mask, and why.
    matched : str
        How the rows of the confounds were matched to the samples, in a sentence; empty if they are in order.
    quality : tuple of ImageQuality
        One per sample: how it compares with the others.
    """

    X: FloatArray
    preparation: Preparation
    adjustment: Adjustment
    names: tuple[str, ...]
    files: tuple[InputFile, ...]
    mask_report: str
    dropped: DropReport
    matched: str = ""
    quality: tuple[ImageQuality, ...] = ()

    @property
    def groups(self) -> tuple[str, ...] | None:
        """Labels of the samples that belong together: those of one person, otherwise those of one file.

        None if no two samples belong together, or if all come from one file.
        """
        return natural_groups(self.names)

    @property
    def space(self) -> Space:
        """Where the features live: knows their structure, creates and writes images."""
        return self.preparation.space


def read_cohort(
    imgs: Any,
    *,
    mask: Any = None,
    surface: Any = None,
    confounds: Any = None,
    bad_features: str = "drop",
    standardize: bool = False,
    dtype: Any = "float32",
    progress: ReadProgress | None = None,
    exclude: str | Sequence[str] = (),
) -> Cohort:
    """Read images one by one into one array and prepare it for a fit (docs/images.md).

    Parameters
    ----------
    imgs : images
        A list of NIfTI files or images, or a 4-D one; surface overlays of one or two hemispheres as
        ``{"left": [...], "right": [...]}``, as (left, right) pairs or as file names that mention their
        hemisphere; nilearn SurfaceImages; or CIFTI-2 files or images.
    mask : path, image, array, name of one of nilearn's rules, or None, default=None
        The voxels or vertices to use. With labels, total variation stays inside each label.
    surface : "fsaverage5", pair, mapping or PolyMesh, default=None
        Meshes of the hemispheres, for overlays and CIFTI-2.
    confounds : path, DataFrame or array-like, default=None
        Regressed out of every feature by least squares. Rows are matched to the images by a column of paths
        or participants (docs/images.md); without one, and in an array, they are in the order of the images.
    bad_features : {"drop", "raise"}, default="drop"
        What to do about features that are constant, or NaN or infinite in some sample.
    standardize : bool, default=False
        Whether features are scaled to unit variance.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the data matrix.
    progress : callable, default=None
        Called after every image with its number, the number of all images, and its name.
    exclude : str or sequence of str, default=()
        Images to leave out: files, with or without their folder and ending, or participants ("sub-07").

    Returns
    -------
    Cohort

    Raises
    ------
    ImageError
        One line that names the file.
    """
    check_rule(bad_features)
    precision = checked_dtype(dtype)
    items = without(listed(imgs), exclude, surface)
    opened = space_of(items, surface).find(items, mask, surface)
    # check whatever can be wrong before any voxel is read
    if len(opened.names) < 2:
        raise ImageError(f"{opened.names[0]}: one image only; components need at least two")
    table = None if confounds is None else read_confounds(confounds, opened.names)
    space, samples, mask_report = opened.place()
    logger.info("%s", mask_report)
    X = _read(samples, space, precision, progress)
    quality = image_quality(X, samples.names, space.noun)
    X, space, dropped = _without_bad(X, space, bad_features, samples.names)
    fit = None
    if table is not None:
        X, space, fit, dropped = _without_confounds(X, space, table, bad_features, dropped)
    scale = None
    if standardize:
        scale = _column_spread(X)[1].astype(precision)
        X /= scale
    return Cohort(
        X=X,
        preparation=Preparation(space=space, confounds=fit, scale=scale, dtype=precision),
        adjustment=Adjustment(standardize, None if table is None else table.values),
        names=samples.names,
        files=tuple(InputFile(str(path), file_sha256(path)) for path in dict.fromkeys(samples.files)),
        mask_report=mask_report,
        dropped=dropped,
        matched="" if table is None else table.matched,
        quality=quality,
    )


def checked_dtype(dtype: Any) -> str:
    """The name of the precision, "float32" or "float64"."""
    try:
        name = np.dtype(dtype).name if dtype is not None else "None"
    except TypeError:
        name = repr(dtype)
    if name not in DTYPES:
        raise ValueError(f"dtype must be {' or '.join(map(repr, DTYPES))}, got {dtype!r}")
    return name


@dataclass(frozen=True)
class _ReadListener:
    """Calls the function that was given as `progress`."""

    progress: ReadProgress

    def hear(self, event: Event, /) -> bool:
        if isinstance(event, FileRead):
            self.progress(event.number, event.total, event.name)
        return False


def _read(samples: Samples, space: Space, dtype: str, progress: ReadProgress | None) -> FloatArray:
    X = np.empty((len(samples.names), space.n_features), dtype=dtype)
    with nullcontext() if progress is None else listening(_ReadListener(progress)):
        samples.fill(X)
    return X


def _without_bad(
    X: FloatArray, space: Space, rule: str, names: tuple[str, ...]
) -> tuple[FloatArray, Space, DropReport]:
    """Drop or refuse features that are constant, NaN or infinite. X is overwritten."""
    bad = find_bad(X)
    report = apply_rule(bad, rule, space.noun, names)
    if report.n_dropped:
        return drop_columns(X, bad.kept), space.keep(bad.kept), report
    return X, space, report


def _without_confounds(
    X: FloatArray, space: Space, table: ConfoundTable, rule: str, report: DropReport
) -> tuple[FloatArray, Space, ConfoundFit, DropReport]:
    """Remove the confounds; drop or refuse features that they explain fully. X is overwritten."""
    mean, before = _column_spread(X)
    fit = fit_confounds(X, table)
    fit.remove(X, table)
    after = _column_spread(X)[1]
    explained = after <= ROUNDING * np.finfo(X.dtype).eps * (np.abs(mean) + before)
    n_explained = check_explained(explained, rule, space.noun)
    if n_explained:
        X, space = drop_columns(X, ~explained), space.keep(~explained)
        fit = replace(fit, slopes=fit.slopes[:, ~explained])
    return X, space, fit, replace(report, n_explained=n_explained)


def _column_spread(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations of the features, in float64."""
    found = as_data(X).column_statistics(center=True)
    return found.mean, np.sqrt(found.squared_norms / len(X))
