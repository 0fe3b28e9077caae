"""`ImageSPCATVCV`: sparsity and smoothness of ImageSPCATV chosen by cross-validation on image files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy.typing as npt
from sklearn.base import BaseEstimator

from spcatv._util.parameters import SearchParameters
from spcatv._util.types import FloatArray
from spcatv.images.dataset import Cohort
from spcatv.images.estimator import (
    ImageComponentsMixin,
    ImageSPCATV,
    cohort_for,
    labelled,
)
from spcatv.images.preprocessing import ReadingParameters
from spcatv.selection import SPCATVCV

# parameters of which several values may be compared
COMPARED = ("sparsity", "smoothness", "alpha", "l1_ratio", "tv_ratio")
# fitted attributes of SPCATVCV that do not depend on the kind of data
FOUND = (
    "cv_results_",
    "best_index_",
    "best_params_",
    "choice_reason_",
    "best_score_",
    "n_splits_",
)


@dataclass(eq=False, repr=False)
class ImageSPCATVCV(ImageComponentsMixin, BaseEstimator, SearchParameters, ReadingParameters):
    """ImageSPCATV with its sparsity and smoothness, or its penalties, chosen by cross-validation.

    Images are read once. Every fold removes the confounds and scales the features with coefficients of its
    own training samples; the mask and the dropped features are those of all samples. The setting that the
    rule chooses is then fitted to all images (docs/images.md, docs/selection.md).

    Parameters
    ----------
    n_components : int, default=3
        Number of components K.
    mask, surface, bad_features, standardize, ...
        Reading of images: all parameters of `ImageSPCATV` that `SPCATV` does not have.
    sparsity, smoothness, alpha, l1_ratio, tv_ratio, cv, rule, n_jobs, ...
        Settings to compare, and the choice: all parameters of `SPCATVCV` except ``structure``, which the
        images have, with the same defaults.
    dtype : {"float32", "float64"}, default="float32"
        Precision of the data matrix and of the fits.

    Attributes
    ----------
    best_estimator_ : ImageSPCATV
        Fitted to all images with the chosen setting; it can be saved, and makes maps of its components.
    groups_ : tuple or None
        The group of every sample that folds kept together: those given to `fit`, or those of the images.
    cv_results_, best_index_, best_params_, choice_reason_, best_score_, n_splits_
        As in `SPCATVCV`.

    Examples
    --------
    >>> from spcatv import ImageSPCATVCV
    >>> search = ImageSPCATVCV(n_components=3, mask="gm_mask.nii.gz", sparsity=[0.8, 0.9], smoothness=1.0)
    >>> scores = search.fit_transform("derivatives/sub-*_gm.nii.gz")
    >>> scores.shape, search.components_.shape == (3, search.n_features_in_)
    ((12, 3), True)
    >>> search.components_img_.to_filename("components.nii.gz")
    >>> search.transform("derivatives/sub-0*_gm.nii.gz").shape, search.inverse_transform(scores[:2]).shape
    ((10, 3), (7, 6, 5, 2))
    >>> search.score("derivatives/sub-*_gm.nii.gz") < 0
    True
    """

    _: KW_ONLY
    dtype: npt.DTypeLike | None = "float32"

    def fit(
        self,
        imgs: Any,
        y: Any = None,
        groups: Any = None,
        confounds: Any = None,
        *,
        exclude: str | Sequence[str] = (),
    ) -> Self:
        """Choose a setting and fit all images with it.

        Parameters
        ----------
        imgs : images or Cohort
            As for `ImageSPCATV.fit`.
        y : array-like of shape (n_images,), default=None
            For the splitter only, which may stratify by it.
        groups : array-like of shape (n_images,), default=None
            Images of one group stay on one side of every split. ``None``: the images of one person, or of
            one file, as far as the names of the images state them.
        confounds : table, default=None
            As for `ImageSPCATV.fit`.
        exclude : str or sequence of str, default=()
            Images to leave out, as for `ImageSPCATV.fit`; `y` and `groups` describe the remaining images.

        Returns
        -------
        self : ImageSPCATVCV
            Fitted.

        Examples
        --------
        >>> from spcatv import ImageSPCATVCV
        >>> search = ImageSPCATVCV(1, mask="gm_mask.nii.gz", sparsity=[0.5, 0.8], smoothness=1.0, cv=2)
        >>> sorted(search.fit("derivatives/sub-*_gm.nii.gz").best_params_)
        ['smoothness', 'sparsity']
        """
        self._fit(imgs, y, groups, confounds, exclude)
        return self

    def fit_transform(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
        confounds: Any = None,
        *,
        exclude: str | Sequence[str] = (),
    ) -> FloatArray:
        """Fit images and return their scores; the images are read once. Parameters are those of `fit`.

        Returns
        -------
        ndarray of shape (n_images, n_components)
            Scores by the chosen model.
        """
        cohort = self._fit(X, y, groups, confounds, exclude)
        return labelled(self, self.best_estimator_.estimator_.transform(cohort.X), cohort.names)

    def _fit(self, imgs: Any, y: Any, groups: Any, confounds: Any, exclude: str | Sequence[str]) -> Cohort:
        search, reader = self._search(), self._image_model({})
        search.check()
        cohort = cohort_for(reader, imgs, confounds, exclude)
        if groups is None and cohort.groups is not None:
            groups = cohort.groups
            if self.cv is None:  # neither the groups nor the number of folds were asked for
                search.set_params(cv=min(5, len(set(groups))))
        self.groups_ = None if groups is None else tuple(groups)
        search.set_params(structure=cohort.space.structure(), dtype=cohort.preparation.dtype)
        search.fit(cohort.X, y, groups=self.groups_, confounds=cohort.adjustment.confounds)
        for name in FOUND:
            setattr(self, name, getattr(search, name))
        best = search.best_estimator_
        self.best_estimator_ = self._image_model({"n_components": len(best.components_), **self.best_params_})
        self.best_estimator_.adopt_fit(best, cohort)
        return cohort

    def _stability_inputs(self, X: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        options = {"groups": self.groups_, **options}
        return self.best_estimator_._stability_inputs(X, options)

    def _search(self) -> SPCATVCV:
        """Return the search on the data matrix, without a structure."""
        names = set(SPCATVCV().get_params()) - {"structure"}
        return SPCATVCV(**{name: getattr(self, name) for name in names})

    def _image_model(self, setting: dict[str, Any]) -> ImageSPCATV:
        """Return an ImageSPCATV with a setting instead of the values to compare."""
        names = set(ImageSPCATV().get_params()) - set(COMPARED)
        return ImageSPCATV(**{**{name: getattr(self, name) for name in names}, **setting})

    @property
    def components_(self) -> FloatArray:
        """Loadings of the chosen model, shape (n_components, n_features)."""
        return self.best_estimator_.components_

    @property
    def n_features_in_(self) -> int:
        """Number of voxels or vertices."""
        return self.best_estimator_.n_features_in_
