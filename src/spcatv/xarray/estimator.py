"""XarraySPCATV: structured sparse PCA of DataArrays of xarray (docs/xarray.md)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.data.protocol import float_dtype
from spcatv.estimator import SPCATV
from spcatv.structure import GridStructure, grid
from spcatv.xarray.cf_coordinates import coslat_weights, grid_axes, periodic_dims

if TYPE_CHECKING:
    from spcatv.report import Report

COMPONENT = "component"
# Kinds of dtypes of coordinates that are names: cells along them are no neighbours.
NAME_KINDS = "OUST"

Dims = tuple[Hashable, ...]


class XarraySPCATV(BaseEstimator):
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
        None, it gets the grid; another structure must have as many features as `mask_` has cells.
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
    sample_dims_, feature_dims_, periodic_dims_ : tuple of str
        Dimensions of the samples, of the grid, and of the grid that are periodic.
    estimator_ : SPCATV or SPCATVCV
        Fitted estimator, with `diagnostics_`, `structure_` and all other attributes. Its ``components_`` are
        the weighted loadings ``v_kj``, without the cells that were left out.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from spcatv import SPCATV
    >>> from spcatv.xarray import XarraySPCATV
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
    >>> model.explore(field, sparsity=[0.8, 0.9], smoothness=[1.0]).save_as_html("explorer.html").name
    'explorer.html'
    """

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
        if field.layout.weights is not None and getattr(estimator, "standardize", False):
            raise ValueError("standardize=True would undo the weights; give weights=None")
        if estimator.structure is None:
            estimator.set_params(structure=field.structure)
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

        Examples
        --------
        >>> import numpy as np
        >>> import xarray as xr
        >>> from spcatv import SPCATV
        >>> from spcatv.xarray import XarraySPCATV, read_field
        >>> X = xr.DataArray(np.random.default_rng(0).standard_normal((20, 6, 5)), dims=("time", "y", "x"))
        >>> field = read_field(X)
        >>> estimator = SPCATV(2, structure=field.structure).fit(field.matrix)
        >>> XarraySPCATV().adopt_fit(estimator, field).components_.dims
        ('component', 'y', 'x')
        """
        self.estimator_ = estimator
        self.sample_dims_, self.feature_dims_ = field.sample_dims, field.layout.template.dims
        self.periodic_dims_, self._layout = field.periodic_dims, field.layout
        self._store_maps()
        return self

    def _store_maps(self) -> None:
        """Set the fitted attributes that are DataArrays."""
        layout = self._layout
        fitted = getattr(self.estimator_, "best_estimator_", self.estimator_)
        fitted.grid_axes_ = grid_axes(layout.template)  # for its report
        numbers = xr.Dataset(coords={COMPONENT: np.arange(1, len(fitted.components_) + 1)})
        self.components_ = layout.maps(fitted.components_, (COMPONENT,), numbers).rename("components")
        self.mean_ = layout.maps(fitted.mean_[None], (), xr.Dataset()).rename("mean")
        self.mask_ = layout.template.copy(data=layout.mask).rename("mask")
        self.weights_ = None
        if layout.weights is not None:
            values = _spread(layout.cells, None, layout.template.size, layout.weights[None])
            self.weights_ = layout.template.copy(data=values.reshape(layout.template.shape)).rename("weights")
        for name in ("singular_values", "explained_variance", "explained_variance_ratio"):
            values = getattr(fitted, f"{name}_")
            setattr(self, f"{name}_", xr.DataArray(values, dims=COMPONENT, coords=numbers.coords, name=name))

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
        scores = self.estimator_.transform(rows)
        shape = (*(X.sizes[name] for name in sample_dims), scores.shape[1])
        coords = _coords_without(X, self.feature_dims_).coords
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

    def explore(self, X: Any, dim: str | Sequence[str] = "time", **options: Any) -> Report:
        """Fit a grid of sparsity and smoothness, and show all settings on one page with sliders.

        Needs the extra "report". The model need not be fitted, and is not changed.

        Parameters
        ----------
        X : DataArray
            As for `fit`.
        dim : str or sequence of str, default="time"
            As for `fit`.
        **options
            As for `spcatv.report.explore`, such as ``sparsity``, ``smoothness`` or ``n_jobs``.

        Returns
        -------
        Report
            With ``save_as_html(path)`` and ``open_in_browser()``.
        """
        from spcatv.report import explore  # the extra is imported only when it is needed

        return explore(self, X, dim=dim, **options)

    def _rows_of(self, X: Any) -> tuple[Any, Dims, Any]:
        """Check new data; return it with its sample dimensions and the matrix for the estimator."""
        check_is_fitted(self, "estimator_")
        X, layout = _checked_array(X), self._layout
        _refuse_other_grid(X, layout.template)
        sample_dims = tuple(name for name in X.dims if name not in self.feature_dims_)
        matrix = _matrix(X, sample_dims, self.feature_dims_)
        n_finite, _ = _counts(matrix)
        used = layout.mask.ravel()
        _refuse_gaps(X, matrix, layout.template, used & (n_finite < matrix.shape[0]), used)
        return X, sample_dims, layout.rows(matrix)

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
        scores = self._all_scores(_checked_array(scores))
        sample_dims = tuple(name for name in scores.dims if name != COMPONENT)
        rows = self.estimator_.inverse_transform(_matrix(scores, sample_dims, (COMPONENT,)))
        layout = self._layout
        coords = _coords_without(scores, (COMPONENT,))
        maps = layout.maps(rows, sample_dims, coords, dict(scores.sizes))
        return maps.rename(layout.name).assign_attrs(layout.attrs)

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


@dataclass(frozen=True, eq=False)
class Field:
    """Matrix of samples and features of a DataArray, and the grid of its features."""

    matrix: Any  # weighted, without the cells that are left out
    structure: GridStructure
    sample_dims: Dims
    periodic_dims: Dims
    layout: _Layout


def read_field(
    X: Any, dim: str | Sequence[str] = "time", *, weights: Any = None, periodic: Any = "auto"
) -> Field:
    """Read a DataArray as a matrix for an estimator, as `XarraySPCATV.fit` does.

    Parameters
    ----------
    X : DataArray
        Numbers.
    dim : str or sequence of str, default="time"
        The dimension, or dimensions, of the samples.
    weights, periodic
        As for `XarraySPCATV`.

    Returns
    -------
    Field
        With the attributes `matrix` and `structure`.

    Examples
    --------
    >>> import numpy as np
    >>> import xarray as xr
    >>> from spcatv.xarray import read_field
    >>> X = xr.DataArray(np.random.default_rng(0).standard_normal((20, 6, 5)), dims=("time", "y", "x"))
    >>> read_field(X).matrix.shape
    (20, 30)
    """
    X = _checked_array(X)
    sample_dims, feature_dims = _split_dims(X, dim)
    matrix = _matrix(X, sample_dims, feature_dims)
    template = _template(X, feature_dims)
    periodic = periodic_dims(template, periodic)
    layout = _layout(X, matrix, template, _weights(template, weights))
    return Field(layout.rows(matrix), _grid(layout, periodic), sample_dims, periodic, layout)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Cells that are features, with their weights; converts from the grid to rows and back."""

    template: Any  # DataArray of the feature dimensions with their coordinates
    cells: IntArray  # numbers of the cells in use, in C order: the features
    weights: FloatArray | None  # of the features
    name: Hashable  # of the data
    attrs: dict[Any, Any]

    @property
    def mask(self) -> BoolArray:
        """Cells in use, in the shape of the grid."""
        mask = np.zeros(self.template.size, dtype=bool)
        mask[self.cells] = True
        return mask.reshape(self.template.shape)

    def rows(self, matrix: Any) -> Any:
        """Return the weighted features (n, P) of a matrix of all cells."""
        if self.weights is None and len(self.cells) == matrix.shape[1]:
            return matrix
        return _rowwise(partial(_kept, self.cells, self.weights), matrix, len(self.cells))

    def maps(self, rows: Any, dims: Dims, coords: Any, sizes: dict[Any, int] | None = None) -> Any:
        """Return rows (n, P) of the estimator as maps on the grid, unweighted, NaN outside of the mask.

        `dims` are those of the rows, with `coords`; without `sizes`, the coordinates have their sizes.
        """
        cells = _rowwise(
            partial(_spread, self.cells, self.weights, self.template.size), rows, self.template.size
        )
        lead = tuple((sizes or coords.sizes)[name] for name in dims)
        merged = coords.merge(self.template.coords.to_dataset(), compat="override")
        return xr.DataArray(
            cells.reshape(*lead, *self.template.shape),
            dims=(*dims, *self.template.dims),
            coords=merged.coords,
        )


def _coords_without(X: Any, dims: Dims) -> Any:
    """Return the coordinates of a DataArray that do not vary along given dimensions, as a Dataset."""
    return X.coords.to_dataset().drop_dims(dims, errors="ignore")


def _template(X: Any, feature_dims: Dims) -> Any:
    """Return a DataArray of zeros on the grid, with its coordinates."""
    coords = _coords_without(X, tuple(name for name in X.dims if name not in feature_dims)).coords
    return xr.DataArray(np.zeros([X.sizes[name] for name in feature_dims]), dims=feature_dims, coords=coords)


def _layout(X: Any, matrix: Any, template: Any, weights: FloatArray | None) -> _Layout:
    """Leave out the cells that are NaN in all samples or have weight 0; others must have no gaps."""
    n_finite, n_nan = _counts(matrix)
    mask = n_nan < matrix.shape[0]
    if weights is not None:
        weights = weights.ravel()
        mask &= weights != 0
        wrong = np.flatnonzero(mask & ~((weights > 0) & np.isfinite(weights)))
        if len(wrong):
            raise ValueError(
                "weights must be finite and not negative on all cells with data; at "
                f"{_place(template, int(wrong[0]))} the weight is {weights[wrong[0]]}"
            )
        weights = weights[mask]
    if not mask.any():
        raise ValueError(f"no cell of {dict(template.sizes)} is left: X is NaN, or its weight 0, everywhere")
    _refuse_gaps(X, matrix, template, mask & (n_finite < matrix.shape[0]), mask)
    return _Layout(template, np.flatnonzero(mask), weights, X.name, dict(X.attrs))


def _kept(cells: IntArray, weights: FloatArray | None, matrix: Array) -> Array:
    rows = matrix[:, cells]
    return rows if weights is None else rows * weights.astype(float_dtype(rows.dtype), copy=False)


def _spread(cells: IntArray, weights: FloatArray | None, n_cells: int, rows: Array) -> Array:
    out = np.full((len(rows), n_cells), np.nan, dtype=float_dtype(rows.dtype))
    out[:, cells] = rows if weights is None else rows / weights
    return out


def _rowwise(function: Callable[[Array], Array], array: Any, n_columns: int) -> Any:
    """Apply a function to blocks of whole rows of an array or of a Dask array."""
    if not hasattr(array, "__dask_graph__"):
        return function(array)
    chunks = array.chunks[0], (n_columns,)
    return array.map_blocks(function, chunks=chunks, meta=np.empty((0, 0), float_dtype(array.dtype)))


def _checked_estimator(estimator: Any) -> Any:
    """Return a copy of the estimator that can be fitted."""
    if estimator is None:
        return SPCATV()
    if not hasattr(estimator, "structure"):
        raise TypeError(f"estimator must be an SPCATV or an SPCATVCV, got {estimator!r}")
    return clone(estimator)


def _checked_array(X: Any) -> Any:
    if isinstance(X, xr.Dataset):
        raise TypeError(
            f"X is a Dataset of {', '.join(map(str, X.data_vars))}; give one of its variables, or all of "
            'them, on one scale, as X.to_dataarray("variable"): variables are no neighbours'
        )
    if not isinstance(X, xr.DataArray):
        raise TypeError(f"X must be an xarray.DataArray, got a {type(X).__module__}.{type(X).__qualname__}")
    if X.dtype.kind not in "fiub":
        raise TypeError(f"X has dtype {X.dtype}; it must hold real numbers")
    return X


def _split_dims(X: Any, dim: str | Sequence[str]) -> tuple[Dims, Dims]:
    """Return the dimensions of samples and of features."""
    sample_dims = (dim,) if isinstance(dim, str) else tuple(dim)
    unknown = [name for name in sample_dims if name not in X.dims]
    feature_dims = tuple(name for name in X.dims if name not in sample_dims)
    if unknown or not sample_dims or len(set(sample_dims)) < len(sample_dims):
        raise ValueError(f"dim must name dimensions of X, which are {X.dims}; got {dim!r}")
    if not feature_dims:
        raise ValueError(f"all dimensions of X are samples ({sample_dims}): none is left for the features")
    if COMPONENT in X.dims:
        raise ValueError(f"X has a dimension {COMPONENT!r}, the name of that of scores: X.rename() it")
    return sample_dims, feature_dims


def _matrix(X: Any, sample_dims: Dims, feature_dims: Dims) -> Any:
    """Return the values as samples x cells, without a copy if possible; Dask arrays stay lazy."""
    values = X.transpose(*sample_dims, *feature_dims).data
    n_lead = len(sample_dims)
    if hasattr(values, "__dask_graph__"):
        values = values.rechunk(dict.fromkeys(range(n_lead, values.ndim), -1))
    n_samples = int(np.prod(values.shape[:n_lead], dtype=np.int64))
    return values.reshape(n_samples, int(np.prod(values.shape[n_lead:], dtype=np.int64)))


def _counts(matrix: Any) -> tuple[IntArray, IntArray]:
    """Return the numbers of finite and of NaN samples of every cell."""
    counts = np.isfinite(matrix).sum(axis=0), np.isnan(matrix).sum(axis=0)
    if hasattr(matrix, "__dask_graph__"):
        import dask

        counts = dask.compute(*counts)
    return counts


def _refuse_gaps(X: Any, matrix: Any, template: Any, bad: BoolArray, used: BoolArray) -> None:
    """Raise an error that names the first sample and cell that is not finite, if any is."""
    if not bad.any():
        return
    cell = int(np.flatnonzero(bad)[0])
    values = np.asarray(matrix[:, cell])
    sample = int(np.flatnonzero(~np.isfinite(values))[0])
    sample_dims = [name for name in X.dims if name not in template.dims]
    samples = X.isel(dict.fromkeys(template.dims, 0)).transpose(*sample_dims)
    places = ", ".join(filter(None, (_place(samples, sample), _place(template, cell))))
    raise ValueError(
        f"X is {values[sample]} at {places}; {bad.sum()} of the {used.sum()} cells are NaN or infinite in "
        "some samples. Only cells that are NaN in all samples of the fit are left out (land): fill the gaps "
        "(X.interpolate_na, X.fillna), or leave these cells out with X.where(X.notnull().all(dim))"
    )


def _place(template: Any, number: int) -> str:
    """Return the place of an entry, such as "lat=2.5, lon=10.0"; positions replace missing coordinates."""
    index = np.unravel_index(number, template.shape) if template.ndim else ()
    return ", ".join(
        f"{name}={template[name].values[i]}" if name in template.coords else f"{name}[{i}]"
        for name, i in zip(template.dims, index, strict=True)
    )


def _refuse_other_grid(X: Any, template: Any) -> None:
    """Raise an error if new data are not on the grid of the fit."""
    for name in template.dims:
        if name not in X.dims:
            raise ValueError(f"X has no dimension {name!r}, which the fit had; its dimensions are {X.dims}")
        same_size = X.sizes[name] == template.sizes[name]
        coords = [array.coords[name].values for array in (X, template) if name in array.coords]
        if not same_size or (len(coords) == 2 and not np.array_equal(*coords)):
            raise ValueError(
                f"the coordinate {name!r} of X ({X.sizes[name]} cells) is not that of the fit "
                f"({template.sizes[name]} cells): select or reorder its cells with "
                "X.reindex_like(model.mask_), or interpolate with X.interp_like(model.mask_)"
            )


def _grid(layout: _Layout, periodic: Dims) -> GridStructure:
    """Return the grid of the cells in use; cells that differ in a name are no neighbours."""
    template = layout.template
    labels = np.ones(template.shape, dtype=np.int64)
    for axis, name in enumerate(template.dims):
        if name in template.coords and template[name].dtype.kind in NAME_KINDS:
            n = template.shape[axis]
            numbers = np.arange(n).reshape([-1 if own == axis else 1 for own in range(template.ndim)])
            labels = (labels - 1) * n + numbers + 1
    wraps = [name in periodic for name in template.dims]
    return grid(np.where(layout.mask, labels, 0), periodic=wraps)


def _weights(template: Any, weights: Any) -> FloatArray | None:
    """Return the weights in the shape of the grid."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "coslat":
            raise ValueError(f"weights must be 'coslat', an array or None, got {weights!r}")
        return np.asarray(coslat_weights(template).broadcast_like(template).transpose(*template.dims).values)
    if not isinstance(weights, xr.DataArray):
        array = np.asarray(weights)
        if array.shape != template.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"weights must be numbers in the shape of the grid, {dict(template.sizes)}; got an array of "
                f"shape {array.shape} and dtype {array.dtype}"
            )
        return array.astype(np.float64)
    if not set(weights.dims) <= set(template.dims):
        raise ValueError(f"weights may have the dimensions {template.dims} only, got {weights.dims}")
    try:
        _, weights = xr.align(template, weights, join="exact", copy=False)
    except ValueError as error:
        raise ValueError(f"the coordinates of the weights are not those of X: {error}") from error
    return np.asarray(weights.broadcast_like(template).transpose(*template.dims).values, dtype=np.float64)
