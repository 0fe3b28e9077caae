"""Images as one data matrix: read, checked, confounds removed, scaled; and new images in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.bids import natural_groups
from spcatv._util.parameters import DTYPES
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import Adjustment, CorrectedData, StoredData, as_data
from spcatv.data.outliers import ImageQuality
from spcatv.estimator._validation import check_choice, check_switch
from spcatv.images.confounds import (
    ConfoundFit,
    ConfoundTable,
    fit_confounds,
    is_per_run,
    read_confounds,
    run_tables,
    table_beside,
)
from spcatv.images.files import ImageError
from spcatv.images.loader import Storage, cleaned_samples, read_batches, read_matrix
from spcatv.images.masking import is_masker, masker_mask, masker_reading
from spcatv.images.preprocessing import (
    AUTO,
    NOTHING,
    ROUNDING,
    Reading,
    RunWarning,
    check_runs,
    clean_run,
    common_t_r,
)
from spcatv.images.quality import (
    RULES,
    DropReport,
    FeatureMatrix,
    check_new_samples,
    find_bad,
    image_quality,
)
from spcatv.images.spaces import choose_images
from spcatv.images.spaces.base import Run, Samples, Space, runs_of, sample_names

# Advice if no feature is left after a step of the preprocessing.
LESS = "remove less from them"


@dataclass(frozen=True)
class InputFile:
    """Name and SHA-256 of a file that was read.

    Examples
    --------
    >>> from spcatv.images import read_cohort
    >>> cohort = read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz")
    >>> first = cohort.files[0]
    >>> first.name.endswith("sub-00_gm.nii.gz"), len(first.sha256)
    (True, 64)
    """

    name: str
    sha256: str


@dataclass(frozen=True, eq=False)
class Preparation:
    """Steps from images to samples of the data matrix, in a fit and for new images.

    Examples
    --------
    >>> from spcatv.images import read_cohort
    >>> cohort = read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz", standardize=True)
    >>> preparation = cohort.preparation
    >>> new = preparation.read("derivatives/sub-00_gm.nii.gz")
    >>> new.shape, preparation.to_images(new).shape
    ((1, 60), (7, 6, 5, 1))
    >>> [part.shape for part in preparation.batches("derivatives/sub-0*_gm.nii.gz")]
    [(10, 60)]
    >>> len(preparation.open("derivatives/sub-0*_gm.nii.gz").names)
    10
    """

    space: Space  # the features and their places
    confounds: ConfoundFit | None  # coefficients of the confounds
    scale: FloatArray | None  # standard deviations that the features are divided by, shape (n_features,)
    dtype: str  # "float32" or "float64"
    reading: Reading = NOTHING  # preprocessing while images are read
    t_r: float | None = None  # seconds between the volumes of the fit; None if unknown, or if runs differ

    def read(self, imgs: Any, confounds: Any = None, *, exclude: str | Sequence[str] = ()) -> FloatArray:
        """Return the data matrix (n_samples, n_features) of new images of the same kind and space.

        Confounds, with the columns of the fit, are needed if and only if the fit had some; a list of tables
        holds those of runs.
        """
        (X,) = self.batches(imgs, confounds, exclude=exclude)
        return X

    def batches(
        self,
        imgs: Any,
        confounds: Any = None,
        *,
        exclude: str | Sequence[str] = (),
        storage: Storage = Storage(),  # noqa: B008 (it is immutable)
    ) -> Iterator[FloatArray]:
        """Yield the same matrix in parts, each of whole images; one part if it fits into memory.

        `imgs` may also be what `open` has returned.
        """
        samples = imgs if isinstance(imgs, Samples) else self.open(imgs, exclude)
        per_run = confounds if is_per_run(confounds) else None
        if per_run is not None and not self.reading.run_confounds:
            raise ImageError("the model was fitted without confounds of runs; it cannot remove any")
        table = self._checked_confounds(None if per_run is not None else confounds, samples.names)
        tables = run_tables(samples.runs, self.reading.run_confounds, per_run)
        check_runs(samples.runs, self.reading, tables)
        smooth = samples.smoothed(self.reading.smoothing_fwhm)
        for part, X in read_batches(smooth, self.dtype, storage):
            check_new_samples(X, samples.names[part], self.space.noun)
            for run, confounds_of_run in zip(samples.runs, tables, strict=True):
                if part.start <= run.start < part.stop:
                    rows = X[run.start - part.start : run.stop - part.start]
                    clean_run(rows, run, self.reading, confounds_of_run)
            if self.confounds is not None and table is not None:
                self.confounds.removed(X, table.of(part))
            if self.scale is not None:
                X /= self.scale
            yield X

    def open(self, imgs: Any, exclude: str | Sequence[str] = ()) -> Samples:
        """Open new images of the same kind and space, without reading their values."""
        kind, items = choose_images(imgs, exclude, self.space.as_surface())
        if kind is not type(self.space):
            raise ImageError(
                f"the model was fitted to {self.space.kind} images, these are {kind.kind} images"
            )
        images = self.space.open_images(items)
        if self.reading.resample:
            images, _ = self.space.resampled(images, self.space.as_mask())
        return self.space.samples(images)

    def _checked_confounds(self, confounds: Any, names: tuple[str, ...]) -> ConfoundTable | None:
        if confounds is None and self.confounds is not None:
            raise ImageError(
                f"the model was fitted with confounds ({self.confounds.described()}); give those of the new "
                "images too (confounds=)"
            )
        if confounds is None:
            return None
        if self.confounds is None:
            raise ImageError("the model was fitted without confounds; it cannot remove any from new images")
        return read_confounds(confounds, names, self.confounds)

    def to_images(self, X: npt.ArrayLike, names: tuple[str, ...] = ()) -> Any:
        """Return images of samples as `read` returns them, in the units of the images, without confounds."""
        values = np.asarray(X)
        return self.space.to_images(values if self.scale is None else values * self.scale, names)


@dataclass(frozen=True, eq=False)
class Cohort:
    """Images as one data matrix, ready to be analysed.

    Attributes
    ----------
    X : ndarray or Data of shape (n_samples, n_features)
        One sample per image or volume, not centred; confounds removed and scaled if asked for. Data if the
        samples lie in a cache on disk because they do not fit into memory; whatever takes data matrices reads
        them block by block.
    preparation : Preparation
        Steps that made the samples, to treat new images in the same way.
    adjustment : Adjustment
        Steps that used coefficients of all samples. A fit of some samples adjusts them again, with
        its own coefficients, and gets the same as from the images as they were read.
    names : tuple of str
        One per sample: the file (both files of a pair joined by " + "), with ``[k]`` for sample k of a file
        that holds several.
    files : tuple of InputFile
        The files that were read.
    mask_report : str
        One line: the number of features, and the source of the mask.
    dropped : DropReport
        Number of features that were dropped from the mask, by reason.
    matched : str
        One sentence: the match of the rows of the confounds with the samples; empty if a warning states it,
        or for an array.
    quality : tuple of ImageQuality
        One per sample: its comparison with the others.
    reading_report : str
        One line: the preprocessing of the images; empty without any.
    mean_img : Nifti1Image or None
        The mean of volumes before smoothing, also outside the mask; None for other images, and for values
        from a cache inside a given mask.

    Examples
    --------
    >>> from spcatv.images import read_cohort
    >>> cohort = read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz")
    >>> cohort.X.shape, len(cohort.names), cohort.space.noun
    ((12, 60), 12, 'voxels')
    >>> cohort.mask_report
    'mask of 60 of 210 voxels, given (gm_mask.nii.gz)'
    >>> cohort.groups is None  # one image per person
    True
    """

    X: Any
    preparation: Preparation
    adjustment: Adjustment
    names: tuple[str, ...]
    files: tuple[InputFile, ...]
    mask_report: str
    dropped: DropReport
    matched: str = ""
    quality: tuple[ImageQuality, ...] = ()
    reading_report: str = ""
    mean_img: Any = None

    @property
    def groups(self) -> tuple[str, ...] | None:
        """Group labels of the samples: their person, otherwise their file.

        None if no two samples belong together, or if all come from one file.
        """
        return natural_groups(self.names)

    @property
    def space(self) -> Space:
        """The features and their places; creates and writes images."""
        return self.preparation.space


def read_cohort(
    imgs: Any,
    *,
    mask: Any = None,
    surface: Any = None,
    bad_features: str = "drop",
    standardize: bool = False,
    dtype: Any = "float32",
    target_affine: Any = None,
    cache: Any = None,
    confounds: Any = None,
    exclude: str | Sequence[str] = (),
    reading: Reading = Reading(),  # noqa: B008 (it is immutable)
    memory_limit: Any = None,
    n_components: int = 3,
    n_jobs: int | None = None,
) -> Cohort:
    """Read images on all cores into one matrix and prepare it for a fit (docs/images.md).

    Parameters
    ----------
    imgs : images
        A list of NIfTI files or images, or a 4-D one; surface overlays of one or two hemispheres as
        ``{"left": [...], "right": [...]}``, as (left, right) pairs or as file names that mention their
        hemisphere; nilearn SurfaceImages; or CIFTI-2 files or images.
    mask, surface, bad_features, standardize, dtype, target_affine, cache
        As for `spcatv.ImageSPCATV`.
    confounds : path, DataFrame or array-like, default=None
        Regressed out of every feature by least squares. Rows are matched to the images by an id column
        (docs/cli.md); without one, and in an array, they are in the order of the images.
        A list of tables, one per image and with one row per volume, is regressed out of each run by itself.
    exclude : str or sequence of str, default=()
        Images to leave out: files, with or without their folder and ending, or participants ("sub-07").
    reading : Reading, default=Reading()
        Smoothing, resampling, and the cleaning of runs (`spcatv.images.Reading`).
    memory_limit : int, str or None, default=None
        As for `spcatv.SPCATV`. A matrix that does not fit stays in the cache, and is read block by block.
    n_components : int, default=3
        Components of the fits to come: their vectors count towards the limit.
    n_jobs : int, default=None
        Threads that read files, where more than one per core help: on a slow or remote disk. -1 is one per
        core.

    Returns
    -------
    Cohort
        The data matrix, and how it was made.

    Raises
    ------
    ImageError
        One line that names the file.

    Examples
    --------
    >>> from spcatv import ImageSPCATV
    >>> from spcatv.images import Reading, read_cohort
    >>> reading = Reading(smoothing_fwhm=4.0)
    >>> cohort = read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz", reading=reading)
    >>> cohort.X.shape, cohort.X.dtype.name
    ((12, 60), 'float32')
    >>> model = ImageSPCATV(2).fit(cohort)  # reads nothing again
    """
    check_choice("bad_features", bad_features, RULES)
    check_switch("standardize", standardize)
    precision = checked_dtype(dtype)
    storage = Storage.asked(cache, memory_limit, n_components, n_jobs)
    own_mesh = getattr(getattr(mask, "mask_img", None), "mesh", None)  # of a SurfaceMasker
    kind, items = choose_images(imgs, exclude, own_mesh if surface is None else surface)
    if is_masker(mask):
        reading = masker_reading(mask, kind.kind, reading, target_affine)
    images = kind.open_images(items)
    # check whatever can be wrong before any voxel is read
    names = sample_names(runs_of(images))
    per_run = confounds if is_per_run(confounds) else None
    table = None if confounds is None or per_run is not None else read_confounds(confounds, names)
    if is_masker(mask):
        mask = masker_mask(mask, images, storage.cache)
    reading = replace(reading, resample=reading.resample or target_affine is not None)
    if reading.resample:
        images, mask = kind.resampled(images, mask, target_affine)
    samples, mask_report = kind.find(images, mask, surface, storage.cache)
    if len(names) < 2:
        raise ImageError(f"{names[0]}: one image only; components need at least two")
    if per_run is not None and not reading.run_confounds:
        reading = replace(reading, run_confounds=("*",))
    tables = run_tables(samples.runs, reading.run_confounds, per_run)
    reading, reading_report = _settled(reading, samples.runs)
    check_runs(samples.runs, reading, tables)
    samples = samples.smoothed(reading.smoothing_fwhm)
    X, found = read_matrix(samples, precision, storage)
    sha256 = dict(zip(samples.files, chain.from_iterable(found), strict=True))
    quality = image_quality(X, names, samples.space.noun, scaled=reading.standardize_runs != "none")
    matrix = FeatureMatrix(X, samples.space, bad_features)
    dropped = _drop_bad(matrix, names)
    if reading.cleans:
        n_constant = _clean(matrix, samples, reading, tables, storage)
        dropped = replace(dropped, n_constant=dropped.n_constant + n_constant)
    fit = None
    if table is not None:
        fit, n_explained = _remove_confounds(matrix, table)
        dropped = replace(dropped, n_explained=n_explained)
    scale = _standardize(matrix, precision) if standardize else None
    space = matrix.space
    return Cohort(
        X=matrix.X,
        preparation=Preparation(space, fit, scale, precision, reading, common_t_r(samples.runs, reading)),
        adjustment=Adjustment(standardize, None if table is None else table.values),
        names=names,
        files=tuple(InputFile(str(path), sha) for path, sha in sha256.items()),
        mask_report=f"{mask_report}; {dropped.n_dropped:,} {space.noun} dropped"
        if dropped.n_dropped
        else mask_report,
        dropped=dropped,
        matched="" if table is None else table.matched,
        quality=quality,
        reading_report=reading_report,
        mean_img=space.mean_image(samples.sums) if samples.is_summed else None,
    )


def _settled(reading: Reading, runs: tuple[Run, ...]) -> tuple[Reading, str]:
    """Settle "auto", warn about it, and describe the preprocessing in one line."""
    series = [run for run in runs if run.series]
    settled = reading.settled(bool(series))
    unused = [run for run in series if table_beside(run) is not None] if not reading.run_confounds else []
    if reading.standardize_runs == AUTO and series:
        several = f"{len(series)} of {len(runs)} images are runs"
        warn_user(
            f"{several if len(runs) > 1 else 'the image is a run'} of several volumes: every run is centred "
            "and scaled to unit variance; standardize_runs=True asks for this, "
            "standardize_runs=False leaves the values as they are, which is right if "
            "the volumes are people",
            RunWarning,
        )
    hint = f"{len(unused)} runs have confounds beside them, which are not used (run_confounds=)"
    return settled, "; ".join(filter(None, (settled.described(), hint if unused else "")))


def checked_dtype(dtype: Any) -> str:
    """Return the name of the precision, "float32" or "float64"."""
    try:
        name = np.dtype(dtype).name if dtype is not None else "None"
    except TypeError:
        name = repr(dtype)
    if name not in DTYPES:
        raise ValueError(f"dtype must be {' or '.join(map(repr, DTYPES))}, got {dtype!r}")
    return name


def _drop_bad(matrix: FeatureMatrix, names: Sequence[str]) -> DropReport:
    """Drop features that are constant, or NaN or infinite in some image."""
    bad = find_bad(matrix.X)
    where = "" if bad.first_sample is None else f" (first in {names[bad.first_sample]})"
    reasons = {
        f"have the same value in all {len(names)} images": bad.constant,
        f"are NaN or infinite in some image{where}": bad.not_finite,
    }
    matrix.drop(reasons, "check that the images differ, and that the mask lies where they have values")
    return DropReport(len(bad.constant), int(bad.constant.sum()), int(bad.not_finite.sum()))


def _clean(
    matrix: FeatureMatrix,
    samples: Samples,
    reading: Reading,
    tables: Sequence[FloatArray | None],
    storage: Storage,
) -> int:
    """Clean all runs; drop features that are constant then, and return their number."""
    if isinstance(matrix.X, StoredData):
        inside = replace(samples, space=matrix.space)
        matrix.X = cleaned_samples(matrix.X, inside, reading, tables, storage)
    else:
        for run, confounds in zip(samples.runs, tables, strict=True):
            clean_run(matrix.X[run.start : run.stop], run, reading, confounds)
    constant = find_bad(matrix.X).constant
    matrix.drop({"are constant once the runs are cleaned": constant}, LESS)
    return int(constant.sum())


def _remove_confounds(matrix: FeatureMatrix, table: ConfoundTable) -> tuple[ConfoundFit, int]:
    """Remove the confounds; drop features that they explain fully, and return the number of these."""
    X = matrix.X
    mean, before = _feature_spread(X)
    fit = fit_confounds(X, table)
    after = _feature_spread(fit.removed(X, table))[1]
    explained = after <= ROUNDING * np.finfo(X.dtype).eps * (np.abs(mean) + before)
    kept = matrix.drop({"are constant once the confounds are removed": explained}, LESS)
    fit = replace(fit, slopes=fit.slopes[:, kept])
    if not isinstance(X, np.ndarray):  # an array is changed already
        matrix.X = fit.removed(matrix.X, table)
    return fit, int(explained.sum())


def _feature_spread(X: Any) -> tuple[FloatArray, FloatArray]:
    """Return means and standard deviations of the features, in float64."""
    found = as_data(X).column_statistics(center=True)
    return found.mean, np.sqrt(found.squared_norms / X.shape[0])


def _standardize(matrix: FeatureMatrix, dtype: str) -> FloatArray:
    """Divide features by their standard deviations, and return these.

    An array is overwritten; samples on disk are divided when they are read.
    """
    X = matrix.X
    scale = _feature_spread(X)[1].astype(dtype)
    if isinstance(X, np.ndarray):
        X /= scale
    elif isinstance(X, CorrectedData):
        matrix.X = replace(X, factor=1.0 / scale)
    else:
        n_samples, n_features = X.shape
        no_confounds = np.zeros((n_samples, 0)), np.zeros((0, n_features))
        matrix.X = CorrectedData(as_data(X), *no_confounds, 1.0 / scale)
    return scale
