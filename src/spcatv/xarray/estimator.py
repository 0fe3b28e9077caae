"""XarraySPCATV: structured sparse PCA of DataArrays of xarray (docs/xarray.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, Self

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from spcatv._util.bids import natural_groups
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import ModelFolderMixin
from spcatv.estimator.components_mixin import ComponentsMixin
from spcatv.model import SavedModel
from spcatv.selection import count_components
from spcatv.xarray._persistence import fitted_state, restore_fitted
from spcatv.xarray.cf_coordinates import grid_axes, labels_of
from spcatv.xarray.conversion import (
    COMPONENT,
    Dims,
    Field,
    checked_array,
    coords_without,
    counts_of,
    matrix_of,
    read_field,
    refuse_gaps,
    refuse_other_grid,
)


class XarraySPCATV(ComponentsMixin, ModelFolderMixin, BaseEstimator):
    """SPCATV of a DataArray, with loading maps and scores as DataArrays with the same coordinates.

    One or more dimensions of the DataArray are samples, all others are axes of a grid. Cells that are NaN in
    all samples (land) are left out of the grid. A cell and the next one along an axis are neighbours; along
    longitudes that cover 360 degrees, so are the last one and the first one; along a dimension whose
    coordinate is text, such as the names of variables, none are.

    With weights ``w_j`` the fit sees ``x_ij w_j``. If ``v_kj`` are its loadings, of unit norm, and
    ``t_ik`` the scores, the maps are ``components_[k, j] = v_kj / w_j``, so that
    ``x_ij`` is approximated by ``mean_j + sum_k t_ik components_[k, j]`` in the units of the data.
    `sparsity` and `smoothness` refer to ``v_k``; the zeros of both are the same.

    Parameters
    ----------
    estimator : SPCATV, SPCATVCV or None, default=None
        Estimator for the matrix of samples and cells; ``None`` is ``SPCATV()``. If its `structure` is
        None, it gets the grid; another structure must have as many features as `mask_` has cells. With
        ``n_components="auto"`` it gets the number of components that stand out of noise
        (`spcatv.selection.count_components`).
    weights : "coslat", DataArray, array-like or None, default=None
        Weights by which the data are multiplied. "coslat": the square root of the cosine of the latitude, so
        that the variance of a cell counts in proportion to its area. An array has the shape of the feature
        dimensions, in their order; a DataArray may lack some of them. Cells of weight 0 are left out.
    periodic : "auto", str, sequence of str or None, default="auto"
        Dimensions whose last cell is followed by the first. "auto": longitudes in equal steps that go
        around the globe once, where a longitude has the `standard_name` "longitude", or
        `units` such as "degrees_east", or the name "lon" or "longitude". ``None``: no dimension.

    Attributes
    ----------
    components_ : DataArray with dimensions ("component", feature dimensions ...)
        Loading maps, see above; NaN on cells that were left out. Components count from 1.
    mean_ : DataArray of the feature dimensions
        Means of the samples, in the units of the data; zero if not centred.
    mask_ : DataArray of bool, of the feature dimensions
        Cells that were used.
    weights_ : DataArray of the feature dimensions, or None
        Weights.
    singular_values_, explained_variance_, explained_variance_ratio_ : DataArray over "component"
        As for `SPCATV`, of the weighted data.
    count_ : ComponentCount or None
        The count of components that chose their number, with ``n_components="auto"``.
    sample_dims_, feature_dims_, periodic_dims_ : tuple of str
        Dimensions of the samples, of the grid, and of the grid that are periodic.
    estimator_ : SPCATV or SPCATVCV
        Fitted estimator, with `diagnostics_`, `structure_` and all other attributes. Its ``components_`` are
        the weighted loadings ``v_kj``, without the cells that were left out.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from spcatv import SPCATV, XarraySPCATV
    >>> from spcatv.model import read_model
    >>> from spcatv.xarray import read_field
    >>> rng = np.random.default_rng(0)
    >>> values = 0.1 * rng.standard_normal((40, 6, 12))
    >>> values[:, 2:4, [0, 1, 11]] += rng.standard_normal((40, 1, 1))  # a region across the date line
    >>> lat, lon = np.arange(-75.0, 90, 30), np.arange(-180.0, 180, 30)
    >>> field = xr.DataArray(values, coords={"time": np.arange(40), "lat": lat, "lon": lon}, name="sst")
    >>> model = XarraySPCATV(SPCATV(1, sparsity=11 / 12), weights="coslat").fit(field, dim="time")
    >>> model.components_.sel(component=1).where(lambda map: map != 0, drop=True).lon.values.tolist()
    [-180.0, -150.0, 150.0]
    >>> scores = model.transform(field)  # or fit_transform, in one go
    >>> scores.dims
    ('time', 'component')
    >>> fields = model.inverse_transform(scores)
    >>> fields.dims
    ('time', 'lat', 'lon')
    >>> bool(np.isclose(model.score(field), -((model.weights_ * (field - fields)) ** 2).sum() / 40))
    True
    >>> xr.testing.assert_equal(model.fit_transform(field, dim="time"), scores)
    >>> xr.testing.assert_equal(XarraySPCATV.load(model.save("model")).transform(field), scores)
    >>> estimator, matrix = model.as_arrays(field)  # for functions that take arrays
    >>> XarraySPCATV().adopt_fit(estimator, read_field(field)).mask_.sizes["lat"]
    6
    >>> XarraySPCATV.restore(read_model("model")).sample_dims_
    ('time',)
    >>> model.generate_report(data=field, title="Sea").save_as_html("report.html").name
    'report.html'
    >>> model.plot_components().savefig("maps.png")
    >>> print(model.check_stability(field, n_splits=2).summary()["pattern"].to_list())
    ['confirmed']
    >>> model.explore(field, sparsity=[0.8, 0.9], smoothness=[1.0]).save_as_html("explorer.html").name
    'explorer.html'
    """

    _kind = "XarraySPCATV"

    def __init__(self, estimator: Any = None, *, weights: Any = None, periodic: Any = "auto") -> None:
        self.estimator = estimator
        self.weights = weights
        self.periodic = periodic

    def fit(self, X: Any, dim: str | Sequence[str] = "time") -> XarraySPCATV:
        """Find the components of a DataArray.

        Parameters
        ----------
        X : DataArray
            Numbers. A Dask array inside is not loaded; its blocks should hold whole samples.
        dim : str or sequence of str, default="time"
            The dimension, or dimensions, of the samples.

        Returns
        -------
        self : XarraySPCATV
        """
        estimator = _checked_estimator(self.estimator)
        field = read_field(X, dim, weights=self.weights, periodic=self.periodic)
        if field.weights is not None and getattr(estimator, "standardize", False):
            raise ValueError("standardize=True would undo the weights; give weights=None")
        if estimator.structure is None:
            estimator.set_params(structure=field.structure)
        self.count_ = None
        if isinstance(estimator.n_components, str) and estimator.n_components == "auto":
            counted = ("structure", "center", "global_signal", "dtype", "device")
            self.count_ = count_components(
                SPCATV(**{name: getattr(estimator, name) for name in counted}),
                field.matrix,
                standardize=getattr(estimator, "standardize", False),
            )
            estimator.set_params(n_components=self.count_.n_components)
        return self.adopt_fit(estimator.fit(field.matrix), field)

    def adopt_fit(self, estimator: Any, field: Field) -> XarraySPCATV:
        """Take over the fit of an estimator on the matrix of a field.

        Parameters
        ----------
        estimator : SPCATV or SPCATVCV
            Fitted to ``field.matrix``.
        field : Field
            The result of `read_field`.

        Returns
        -------
        self : XarraySPCATV
        """
        self.estimator_ = estimator
        self.sample_dims_, self.feature_dims_ = field.sample_dims, field.template.dims
        self.periodic_dims_, self._field = field.periodic_dims, replace(field, matrix=None)
        fitted = self._model()
        fitted.grid_axes_ = grid_axes(field.template)  # for its report
        numbers = xr.Dataset(coords={COMPONENT: np.arange(1, len(fitted.components_) + 1)})
        self.components_ = field.maps(fitted.components_, (COMPONENT,), numbers).rename("components")
        self.mean_ = field.maps(fitted.mean_[None], (), xr.Dataset()).rename("mean")
        self.mask_ = field.template.copy(data=field.mask).rename("mask")
        self.weights_ = field.weight_map
        for name in ("singular_values", "explained_variance", "explained_variance_ratio"):
            values = getattr(fitted, f"{name}_")
            setattr(self, f"{name}_", xr.DataArray(values, dims=COMPONENT, coords=numbers.coords, name=name))
        return self

    def fit_transform(self, X: Any, dim: str | Sequence[str] = "time") -> Any:
        """Fit a DataArray and return its scores.

        Parameters
        ----------
        X : DataArray
        dim : str or sequence of str, default="time"
            As for `fit`.

        Returns
        -------
        DataArray with dimensions (sample dimensions ..., "component")
        """
        return self.fit(X, dim).transform(X)

    def transform(self, X: Any) -> Any:
        """Compute the scores of a DataArray.

        Parameters
        ----------
        X : DataArray
            With the feature dimensions of the fit and their coordinates. All other dimensions, if any, are
            samples.

        Returns
        -------
        DataArray with dimensions (sample dimensions ..., "component")
            In memory, with the coordinates of the samples.
        """
        X, sample_dims, rows = self._rows_of(X)
        scores = np.asarray(self.estimator_.transform(rows))
        shape = (*(X.sizes[name] for name in sample_dims), scores.shape[1])
        coords = coords_without(X, self.feature_dims_).coords
        array = xr.DataArray(scores.reshape(shape), dims=(*sample_dims, COMPONENT), coords=coords)
        return array.assign_coords({COMPONENT: self.components_[COMPONENT]}).rename("scores")

    def score(self, X: Any) -> float:
        """Return minus the mean over samples of the squared error of their weighted reconstruction.

        Parameters
        ----------
        X : DataArray
            As for `transform`.

        Returns
        -------
        float
            ``-(1/n) sum_ij w_j^2 (x_ij - inverse_transform(transform(X))_ij)^2``: higher is better.
        """
        return float(self.estimator_.score(self._rows_of(X)[2]))

    def _model(self) -> SPCATV:
        """Return the fitted SPCATV, also of a search."""
        check_is_fitted(self, "estimator_")
        return getattr(self.estimator_, "best_estimator_", self.estimator_)

    def as_arrays(self, X: Any, dim: str | Sequence[str] = "time") -> tuple[SPCATV, Any]:
        """Return an SPCATV and the matrix of a DataArray, for functions that take arrays.

        `split_halves` and `bootstrap_components` call it, and take the model and the DataArray as they are.

        Parameters
        ----------
        X : DataArray
            As for `transform`.
        dim : str or sequence of str, default="time"
            As for `fit`, of a copy, if the model is not fitted yet.

        Returns
        -------
        estimator : SPCATV
            Fitted, with the grid as its structure.
        matrix : array of shape (n_samples, n_features)
            The weighted cells of the samples.
        """
        model = self if hasattr(self, "estimator_") else clone(self).fit(X, dim)
        rows = model._rows_of(X)[2]
        adjustment = getattr(model.estimator_, "adjustment_", None)
        return model._model(), rows if adjustment is None else rows * adjustment.factor

    def _stability_inputs(self, X: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        return *self.as_arrays(X), {"groups": natural_groups(self._sample_names(X)), **options}

    def _report_inputs(self, data: Any, names: Any) -> tuple[Any, Any, Any]:
        """Return the fitted estimator, the matrix of its data, and the names of the samples."""
        check_is_fitted(self, "estimator_")
        if data is None:
            return self.estimator_, None, names
        matrix = self._rows_of(data)[2]
        return self.estimator_, matrix, names or [name[1:-1] for name in self._sample_names(data)]

    def _sample_names(self, data: Any) -> list[str]:
        """Return the coordinates of every sample in brackets, such as "[1997-12-01]"."""
        dims = [name for name in data.dims if name not in self.feature_dims_]
        labels = product(*(labels_of(data[name].values) for name in dims))
        return [f"[{', '.join(label)}]" for label in labels]

    def _saved(self, inputs: Mapping[str, Any]) -> SavedModel:
        return fitted_state(self, inputs)

    @classmethod
    def _restored(cls, saved: SavedModel) -> Self:
        return restore_fitted(cls, saved)

    def _rows_of(self, X: Any) -> tuple[Any, Dims, Any]:
        """Check new data; return it with its sample dimensions and the matrix for the estimator."""
        check_is_fitted(self, "estimator_")
        X, field = checked_array(X), self._field
        refuse_other_grid(X, field.template)
        sample_dims = tuple(name for name in X.dims if name not in self.feature_dims_)
        matrix = matrix_of(X, sample_dims, self.feature_dims_)
        n_finite, _ = counts_of(matrix)
        used = field.mask.ravel()
        refuse_gaps(X, matrix, field.template, used & (n_finite < matrix.shape[0]), used)
        return X, sample_dims, field.rows(matrix)

    def inverse_transform(self, scores: Any) -> Any:
        """Reconstruct fields from scores: ``mean_ + sum_k scores_k components_[k]``.

        Parameters
        ----------
        scores : DataArray with dimension "component"
            Scores of some or all components, such as ``scores.sel(component=[1])``: those that are left out
            count as 0. Other dimensions are samples.

        Returns
        -------
        DataArray with dimensions (sample dimensions ..., feature dimensions ...)
            In the units of the data, NaN on cells that were left out. Scores in a Dask array give a Dask
            array.
        """
        check_is_fitted(self, "estimator_")
        scores = self._all_scores(checked_array(scores))
        sample_dims = tuple(name for name in scores.dims if name != COMPONENT)
        rows = self.estimator_.inverse_transform(matrix_of(scores, sample_dims, (COMPONENT,)))
        field = self._field
        coords = coords_without(scores, (COMPONENT,))
        maps = field.maps(rows, sample_dims, coords, dict(scores.sizes))
        return maps.rename(field.name).assign_attrs(field.attrs)

    def _all_scores(self, scores: Any) -> Any:
        """Return the scores of all components in order; missing ones are 0."""
        numbers = self.components_[COMPONENT].values
        if COMPONENT in scores.coords and COMPONENT not in scores.dims:
            scores = scores.expand_dims(COMPONENT)
        if COMPONENT not in scores.dims:
            raise ValueError(f"scores must have a dimension {COMPONENT!r}, got {scores.dims}")
        if COMPONENT not in scores.coords and scores.sizes[COMPONENT] == len(numbers):
            return scores
        given = scores.coords.get(COMPONENT)
        if given is None or not np.isin(given.values, numbers).all():
            raise ValueError(
                f"the components of the scores must be numbers from 1 to {len(numbers)}, got "
                f"{scores.sizes[COMPONENT] if given is None else given.values.tolist()}"
            )
        return scores.reindex({COMPONENT: numbers}, fill_value=0)


def _checked_estimator(estimator: Any) -> Any:
    """Return a copy of the estimator that can be fitted."""
    if estimator is None:
        return SPCATV()
    if not hasattr(estimator, "structure"):
        raise TypeError(f"estimator must be an SPCATV or an SPCATVCV, got {estimator!r}")
    return clone(estimator)
