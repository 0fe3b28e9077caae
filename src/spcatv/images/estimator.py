"""`ImageSPCATV`, the estimator for image files, in the style of nilearn's decomposition estimators."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from spcatv._util.bids import sample_labels
from spcatv._util.parameters import FitParameters
from spcatv._util.types import FloatArray
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import ModelFolderMixin
from spcatv.estimator._validation import check_parameters
from spcatv.estimator.components_mixin import ComponentsMixin, FittedAttributes
from spcatv.images._persistence import OWN, READING, fitted_state, restore_fitted, write_maps
from spcatv.images.dataset import Cohort, read_cohort
from spcatv.images.loader import Storage
from spcatv.images.preprocessing import Reading, ReadingParameters
from spcatv.images.quality import fit_distances, warn_of_far
from spcatv.images.spaces.base import Samples, default_names
from spcatv.model import SavedModel
from spcatv.progress import Message, current_listener, printing
from spcatv.progress.callbacks import CallbackSupportMixin, forwarded_callbacks

# parameters that `read_cohort` has, too
READ = (
    *("mask", "surface", "bad_features", "standardize", "dtype"),
    *("target_affine", "cache", "memory_limit", "n_components"),
)


class ImageComponentsMixin(ComponentsMixin, TransformerMixin):
    """Methods of every fitted estimator of images."""

    cache: Any
    memory_limit: Any

    @property
    def masker_(self) -> Any:
        """Masker of the space of the images, made on demand, because nilearn is slow to import."""
        model = self._model()
        masker = model.space_.masker()
        if hasattr(masker, "set_params"):
            reading = model.preparation_.reading
            masker.set_params(
                smoothing_fwhm=reading.smoothing_fwhm,
                standardize=None if reading.standardize_runs == "none" else reading.standardize_runs,
                detrend=reading.detrend,
                high_pass=reading.high_pass,
                low_pass=reading.low_pass,
                t_r=reading.t_r,
            )
        return masker

    @property
    def mask_img_(self) -> Any:
        """Mask of the voxels or vertices that were used: 1 inside, 0 outside."""
        check_is_fitted(self)
        return self._model().space_.mask_image()

    @property
    def components_img_(self) -> Any:
        """Loading maps as an image, one map per component."""
        check_is_fitted(self)
        maps = self._model().components_
        return self._model().space_.to_images(maps, default_names(len(maps)))

    def transform(
        self,
        imgs: Any,
        confounds: Any = None,
        *,
        exclude: str | Sequence[str] = (),
    ) -> FloatArray:
        """Return the scores of images; the scores of one image do not depend on the others.

        Parameters
        ----------
        imgs : images
            Of the kind and in the space of the images of the fit; or the samples that `preparation_.open`
            has returned.
        confounds : table, default=None
            Needed if the fit had confounds; they are removed with the coefficients of the fit. Confounds
            of runs are a list of tables, or are found beside the runs.
        exclude : str or sequence of str, default=()
            Images to leave out, as for `fit`.

        Returns
        -------
        ndarray of shape (n_images, n_components)
            Scores.
        """
        check_is_fitted(self)
        model = self._model()
        samples = imgs if isinstance(imgs, Samples) else model.preparation_.open(imgs, exclude)
        scores, distances = [], []
        for X in self._batches(samples, confounds):
            scores.append(model.estimator_.transform(X))
            distances.append(fit_distances(model.estimator_, X))
        warn_of_far(np.concatenate(distances), samples.names)
        return labelled(self, np.concatenate(scores), samples.names)

    def _batches(self, imgs: Any, confounds: Any) -> Iterator[FloatArray]:
        """Yield the data matrix of new images, as much at a time as fits into memory."""
        storage = Storage.asked(self.cache, self.memory_limit)
        return self._model().preparation_.batches(imgs, confounds, storage=storage)

    def inverse_transform(self, X: Any) -> Any:
        """Return images with the given scores, in the units of the input; confounds are not added back.

        If runs were cleaned, the units are the units of cleaned runs.

        Parameters
        ----------
        X : array-like of shape (n_images, n_components)
            Scores.

        Returns
        -------
        4-D Nifti1Image, SurfaceImage or Cifti2Image
            One image per row.
        """
        check_is_fitted(self)
        model = self._model()
        rows = model.estimator_.inverse_transform(X)
        return model.preparation_.to_images(rows, tuple(f"image {number + 1}" for number in range(len(rows))))

    def score(self, imgs: Any, y: Any = None, confounds: Any = None) -> float:
        """Return minus the mean squared reconstruction error of the images, see `SPCATV.score`.

        Parameters
        ----------
        imgs : images
            Of the kind and in the space of the images of the fit.
        y : None
            Ignored.
        confounds : table, default=None
            As for `transform`.

        Returns
        -------
        float
            Higher is better.
        """
        check_is_fitted(self)
        estimator = self._model().estimator_
        found = [(estimator.score(X), len(X)) for X in self._batches(imgs, confounds)]
        return sum(score * n_samples for score, n_samples in found) / sum(n for _, n in found)


@dataclass(eq=False, repr=False)
class ImageSPCATV(
    CallbackSupportMixin,
    ImageComponentsMixin,
    ModelFolderMixin,
    BaseEstimator,
    FitParameters,
    ReadingParameters,
    FittedAttributes,
):
    """SPCATV on brain images: volumes, surfaces, or both (docs/images.md).

    Images are read one by one into one array. The mask (with its voxel sizes), the surfaces, or both
    determine which features are neighbours. Loadings are returned as images.

    Parameters
    ----------
    n_components : int, default=3
        Number of components K.
    mask : path, image, array, name of a strategy, masker, or None, default=None
        Voxels or vertices to use: an image of 0 and 1, or of labels, in the space of the images. With
        labels, total variation stays inside each label. Or a strategy that computes the mask of volumes:
        "nonzero", "background", "epi", "whole-brain-template", "gm-template" or "wm-template". ``None`` is
        "nonzero" for volumes, and all of a surface or CIFTI-2 file. Or a nilearn masker (NiftiMasker,
        MultiNiftiMasker, SurfaceMasker, MultiSurfaceMasker), fitted or not: its mask, target space,
        smoothing and cleaning are used, and the parameters below must not be given beside it.
    surface : "fsaverage5", (left, right), mapping or PolyMesh, default=None
        Meshes of the hemispheres, for overlays and CIFTI-2: GIFTI or FreeSurfer surface files, objects
        with `coordinates` and `faces`, or arrays (coords, triangles). SurfaceImages have their own.
    bad_features : {"drop", "raise"}, default="drop"
        Treatment of voxels or vertices that are constant over the images, or NaN or infinite in some image:
        drop them from the mask with a warning that counts them, or raise an error.
    standardize : bool, default=False
        Scale every voxel or vertex to unit variance (after confounds are removed).
    smoothing_fwhm : float, default=None
        Smooth every image with a Gaussian kernel of this width at half its maximum, in mm.
    resample : bool, default=False
        Resample images on other grids to the grid of the mask, else of the first image. By default they
        are refused.
    target_affine : number or array of shape (3, 3) or (4, 4), default=None
        Resample images and mask to voxels of this size in mm, or with this affine.
    standardize_runs : "auto", bool, "zscore_sample" or "psc", default="auto"
        Centre every run (an image of several volumes) and scale it to unit variance, voxel by voxel; "psc":
        percent of its mean. "auto" does so if any image is a time series: a 4-D volume, a ``.dtseries.nii``
        or an overlay with ``_bold`` in its name. The scores then describe changes within runs rather than
        differences between people.
    detrend : bool, default=False
        Remove the linear trend of every run.
    high_pass, low_pass : float, default=None
        Cutoffs in Hz of a Butterworth filter for every run.
    t_r : float, default=None
        Seconds between volumes, for the filters; by default those that the files state.
    run_confounds : str or sequence of str, default=None
        Confounds to remove from each run: columns, patterns (``"a_comp_cor_0[0-4]"``) or strategies of
        `nilearn.interfaces.fmriprep.load_confounds` ("motion", "wm_csf", "global_signal", "high_pass",
        "compcor", "ica_aroma"), from the tables that fMRIPrep writes beside the runs or those given to `fit`.
    cache : path, default=None
        Folder that keeps what was read, smoothed and resampled, for the next fit, selection or `transform`
        of the same files. Needed if the data matrix does not fit into memory, or into `memory_limit`: it
        then stays on disk (docs/large-data.md).
    sparsity, smoothness, alpha, l1_ratio, tv_ratio, penalty_units, penalty, positive, center, \
global_signal, tol, max_iter, solver, n_init, method, refit, transform_method, init, memory_limit, \
device, random_state
        As for `spcatv.SPCATV`.
    verbose : int, default=0
        0 prints nothing, 1 what was read and one line per component, 2 also one line per image and per
        alternation.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the data matrix and of the fit.

    Attributes
    ----------
    components_img_ : 4-D Nifti1Image, SurfaceImage or Cifti2Image
        The K loading maps, zero outside the mask.
    mask_img_ : Nifti1Image, SurfaceImage or Cifti2Image
        The voxels or vertices that were used: 1 inside, 0 outside.
    masker_ : NiftiMasker, SurfaceMasker or CiftiMasker
        Fitted; extracts features from images and puts them back, in the order of `components_`. nilearn's
        maskers smooth and clean as the fit did.
    variance_ : ndarray of shape (n_components,)
        nilearn's name for `explained_variance_`.
    estimator_ : SPCATV
        The fit on the data matrix. Its fitted attributes are available here as well: ``components_``,
        ``mean_``, ``global_loading_``, ``singular_values_``, ``explained_variance_``,
        ``explained_variance_ratio_``, ``l1_``, ``l2_``, ``tv_``, ``structure_``, ``n_iter_``,
        ``diagnostics_``, ``n_features_in_``.
    space_ : Space
        The features and their places; creates and writes images.
    preparation_ : Preparation
        Steps from images to samples of the data matrix: space, reading, confounds, scale.
    input_names_ : tuple of str
        One per sample of the fit.
    input_files_ : tuple of InputFile
        The files that were read, with the SHA-256 of each.
    mask_report_ : str
        One line: the number of features, and the source of the mask.
    reading_report_ : str
        One line: the preprocessing of the images; empty without any.
    dropped_ : DropReport
        Number of dropped features, by reason.
    n_dropped_ : int
        Number of dropped features.
    quality_ : tuple of ImageQuality
        One per sample of the fit: its comparison with the others; empty after `load`.
    mean_img_ : Nifti1Image or None
        The mean of volumes before smoothing, also outside the mask; None for other images and after `load`.

    Examples
    --------
    >>> from spcatv import ImageSPCATV
    >>> model = ImageSPCATV(n_components=2, mask="gm_mask.nii.gz")
    >>> model = model.fit("derivatives/sub-*_gm.nii.gz", exclude="sub-03")
    >>> scores = model.fit_transform("derivatives/sub-*_gm.nii.gz")  # fits again, and reads the images once
    >>> scores.shape, model.components_img_.shape
    ((12, 2), (7, 6, 5, 2))
    >>> model.components_img_.to_filename("components.nii.gz")
    >>> int(model.mask_img_.get_fdata().sum()) == model.n_features_in_, model.n_dropped_
    (True, 0)
    >>> model.masker_.mask_img_.shape, bool((model.variance_ == model.explained_variance_).all())
    ((7, 6, 5), True)
    >>> model.transform(["derivatives/sub-00_gm.nii.gz", "derivatives/sub-01_gm.nii.gz"]).shape
    (2, 2)
    >>> model.inverse_transform([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]).shape
    (7, 6, 5, 3)
    >>> model.score("derivatives/sub-1*_gm.nii.gz") < 0
    True
    >>> folder = model.save("model")
    >>> sorted(file.name for file in folder.rglob("*"))
    ['arrays.npz', 'desc-SPCATV_components.json', 'desc-SPCATV_components.nii.gz', 'maps', 'model.json']
    >>> bool((ImageSPCATV.load(folder).components_ == model.components_).all())
    True
    """

    _: KW_ONLY
    dtype: npt.DTypeLike | None = "float32"
    _kind = "ImageSPCATV"

    def fit(
        self, imgs: Any, y: Any = None, confounds: Any = None, *, exclude: str | Sequence[str] = ()
    ) -> Self:
        """Find the components of images.

        Parameters
        ----------
        imgs : images or Cohort
            At least two, in any form that `spcatv.images.read_cohort` takes; or a Cohort that it returned.
        y : None
            Ignored.
        confounds : path of a TSV or CSV file, DataFrame or array-like of shape (n_images, n_confounds)
            Regressed out of every voxel or vertex by least squares, with an intercept. Rows of a table are
            matched to the images by an id column (docs/cli.md); those of an array are in their order. A list
            of tables, one per run with one row per volume (None for a run without), is regressed out of
            each run by itself.
        exclude : str or sequence of str, default=()
            Images to leave out: files, with or without their folder and ending, or participants ("sub-07").

        Returns
        -------
        self : ImageSPCATV
            Fitted.
        """
        self._fit(imgs, confounds, exclude)
        return self

    def fit_transform(
        self, X: Any, y: Any = None, confounds: Any = None, *, exclude: str | Sequence[str] = ()
    ) -> FloatArray:
        """Fit images and return their scores; the images are read once. Parameters are those of `fit`.

        Returns
        -------
        ndarray of shape (n_images, n_components)
            Scores. After ``set_output(transform="pandas")`` a DataFrame, whose index holds the participants
            ("sub-01") if no two images share one, otherwise the names of the files.
        """
        cohort = self._fit(X, confounds, exclude)
        return labelled(self, self.estimator_.transform(cohort.X), cohort.names)

    def _fit(self, imgs: Any, confounds: Any, exclude: str | Sequence[str]) -> Cohort:
        check_parameters(self)
        cohort = cohort_for(self, imgs, confounds, exclude)
        estimator = self._estimator(cohort)
        with forwarded_callbacks(self, estimator):
            estimator.fit(cohort.X)
        self.adopt_fit(estimator, cohort)
        return cohort

    def _estimator(self, cohort: Cohort) -> SPCATV:
        """Return an unfitted SPCATV with the same parameters and the structure of the images."""
        own = {name: value for name, value in self.get_params(deep=False).items() if name not in OWN}
        return SPCATV(**{**own, "structure": cohort.space.structure(), "dtype": cohort.preparation.dtype})

    def adopt_fit(self, estimator: SPCATV, cohort: Cohort) -> None:
        """Take over a fit on the data matrix of a cohort.

        Parameters
        ----------
        estimator : SPCATV
            Fitted to ``cohort.X``.
        cohort : Cohort
            The images.

        Examples
        --------
        >>> from spcatv import SPCATV, ImageSPCATV
        >>> from spcatv.images import read_cohort
        >>> cohort = read_cohort("derivatives/sub-*_gm.nii.gz", mask="gm_mask.nii.gz")
        >>> estimator = SPCATV(2, structure=cohort.space.structure()).fit(cohort.X)
        >>> model = ImageSPCATV(2)
        >>> model.adopt_fit(estimator, cohort)
        >>> model.components_img_.shape
        (7, 6, 5, 2)
        """
        self.input_names_ = cohort.names
        self.input_files_ = cohort.files
        self.mask_report_ = cohort.mask_report
        self.reading_report_ = cohort.reading_report
        self.dropped_ = cohort.dropped
        self.quality_ = cohort.quality
        self.mean_img_ = cohort.mean_img
        self.preparation_ = cohort.preparation
        self.estimator_ = estimator
        for name, value in vars(estimator).items():
            if name.endswith("_"):
                setattr(self, name, value)
        self.space_ = self.preparation_.space
        self.variance_ = estimator.explained_variance_
        self.n_dropped_ = self.dropped_.n_dropped

    def _stability_inputs(self, X: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        own = dict(options)
        cohort = cohort_for(self, X, own.pop("confounds", None), own.pop("exclude", ()))
        adjusted = {name: getattr(cohort.adjustment, name) for name in ("standardize", "confounds")}
        return self.estimator_, cohort.X, {"groups": cohort.groups, **adjusted, **own}

    def _saved(self, inputs: Mapping[str, Any]) -> SavedModel:
        return fitted_state(self, inputs)

    def _write_extras(self, folder: Path) -> None:
        write_maps(self, folder)

    @classmethod
    def _restored(cls, saved: SavedModel) -> Self:
        parameters, estimator, cohort = restore_fitted(saved)
        model = cls(**parameters)
        model.adopt_fit(estimator, cohort)
        return model


def labelled(model: Any, scores: FloatArray, names: tuple[str, ...]) -> Any:
    """Return scores, as a DataFrame with the labels of the samples if `set_output` asks for pandas."""
    own = getattr(model, "_sklearn_output_config", {}).get("transform")  # scikit-learn knows no other index
    if (own or get_config()["transform_output"]) != "pandas":
        return scores
    import pandas as pd  # comes with nilearn

    column, labels = sample_labels(names)
    return pd.DataFrame(np.asarray(scores), index=pd.Index(labels, name=column))


def cohort_for(model: Any, imgs: Any, confounds: Any = None, exclude: str | Sequence[str] = ()) -> Cohort:
    """Read images with the parameters of an estimator; or check a Cohort against them."""
    reading = Reading(**{name: getattr(model, name) for name in READING})
    with printing("ImageSPCATV", model.verbose, model.verbose - 1):
        if isinstance(imgs, Cohort):
            cohort = _checked_cohort(model, imgs, reading, confounds, exclude)
        else:
            cohort = read_cohort(
                imgs,
                **{name: getattr(model, name) for name in READ},
                confounds=confounds,
                reading=reading,
                exclude=exclude,
            )
        if model.verbose:
            reports = filter(None, (cohort.mask_report, cohort.reading_report))
            text = f"{len(cohort.names)} images; {'; '.join(reports)}"
            current_listener().hear(Message(text))
    return cohort


def _checked_cohort(
    model: Any, cohort: Cohort, reading: Reading, confounds: Any, exclude: str | Sequence[str]
) -> Cohort:
    """Return a Cohort, or refuse parameters that differ from those it was read with."""
    if exclude:
        raise ValueError("the images of a Cohort are chosen already; give exclude to read_cohort")
    if confounds is not None:
        raise ValueError("the confounds of a Cohort are removed already; give them to read_cohort")
    if (cohort.preparation.scale is not None) != bool(model.standardize):
        raise ValueError(f"standardize={model.standardize} does not match the Cohort; give it to read_cohort")
    for name in READING:
        asked, done = getattr(reading, name), getattr(cohort.preparation.reading, name)
        if asked not in (getattr(Reading(), name), done):
            raise ValueError(
                f"{name}={getattr(model, name)!r} does not match the Cohort; give it to read_cohort"
            )
    return cohort
