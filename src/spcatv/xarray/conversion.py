"""DataArrays as matrices of samples and features, and back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import xarray as xr

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.data.protocol import float_dtype
from spcatv.structure import GridStructure, grid
from spcatv.xarray.cf_coordinates import coslat_weights, periodic_dims

COMPONENT = "component"
# Kinds of dtypes of coordinates that are names: cells along them are no neighbours.
NAME_KINDS = "OUST"

Dims = tuple[Hashable, ...]


@dataclass(frozen=True, eq=False)
class Field:
    """Matrix of a DataArray, and the cells that are its features; converts from the grid to rows and back."""

    matrix: Any  # weighted features of the samples, shape (n, P); None in a fitted model
    template: Any  # DataArray of the feature dimensions with their coordinates
    cells: IntArray  # numbers of the cells in use, in C order: the features
    weights: FloatArray | None  # of the features
    name: Hashable  # of the data
    attrs: dict[Any, Any]
    sample_dims: Dims
    periodic_dims: Dims

    @cached_property
    def structure(self) -> GridStructure:
        """Grid of the cells in use; cells that differ in a name are no neighbours."""
        template = self.template
        labels = np.ones(template.shape, dtype=np.int64)
        for axis, name in enumerate(template.dims):
            if name in template.coords and template[name].dtype.kind in NAME_KINDS:
                n = template.shape[axis]
                numbers = np.arange(n).reshape([-1 if own == axis else 1 for own in range(template.ndim)])
                labels = (labels - 1) * n + numbers + 1
        wraps = [name in self.periodic_dims for name in template.dims]
        return grid(np.where(self.mask, labels, 0), periodic=wraps)

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

    @property
    def weight_map(self) -> Any:
        """DataArray of the weights; None without weights."""
        if self.weights is None:
            return None
        values = _spread(self.cells, None, self.template.size, self.weights[None])
        return self.template.copy(data=values.reshape(self.template.shape)).rename("weights")

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
    X = checked_array(X)
    sample_dims, feature_dims = _split_dims(X, dim)
    matrix = matrix_of(X, sample_dims, feature_dims)
    template = _template(X, feature_dims)
    periodic = periodic_dims(template, periodic)
    cells, weights = _cells_in_use(X, matrix, template, _weights(template, weights))
    field = Field(None, template, cells, weights, X.name, dict(X.attrs), sample_dims, periodic)
    return replace(field, matrix=field.rows(matrix))


def coords_without(X: Any, dims: Dims) -> Any:
    """Return the coordinates of a DataArray that do not vary along given dimensions, as a Dataset."""
    return X.coords.to_dataset().drop_dims(dims, errors="ignore")


def _template(X: Any, feature_dims: Dims) -> Any:
    """Return a DataArray of zeros on the grid, with its coordinates."""
    coords = coords_without(X, tuple(name for name in X.dims if name not in feature_dims)).coords
    return xr.DataArray(np.zeros([X.sizes[name] for name in feature_dims]), dims=feature_dims, coords=coords)


def _cells_in_use(
    X: Any, matrix: Any, template: Any, weights: FloatArray | None
) -> tuple[IntArray, FloatArray | None]:
    """Return the cells with data and a weight above 0, and their weights; refuse cells with gaps."""
    n_finite, n_nan = counts_of(matrix)
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
    refuse_gaps(X, matrix, template, mask & (n_finite < matrix.shape[0]), mask)
    return np.flatnonzero(mask), weights


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


def checked_array(X: Any) -> Any:
    """Return a DataArray of real numbers, or raise a TypeError."""
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


def matrix_of(X: Any, sample_dims: Dims, feature_dims: Dims) -> Any:
    """Return the values as samples x cells, without a copy if possible; Dask arrays stay lazy."""
    values = X.transpose(*sample_dims, *feature_dims).data
    n_lead = len(sample_dims)
    if hasattr(values, "__dask_graph__"):
        values = values.rechunk(dict.fromkeys(range(n_lead, values.ndim), -1))
    n_samples = int(np.prod(values.shape[:n_lead], dtype=np.int64))
    return values.reshape(n_samples, int(np.prod(values.shape[n_lead:], dtype=np.int64)))


def counts_of(matrix: Any) -> tuple[IntArray, IntArray]:
    """Return the numbers of finite and of NaN samples of every cell."""
    counts = np.isfinite(matrix).sum(axis=0), np.isnan(matrix).sum(axis=0)
    if hasattr(matrix, "__dask_graph__"):
        import dask

        counts = dask.compute(*counts)
    return counts


def refuse_gaps(X: Any, matrix: Any, template: Any, bad: BoolArray, used: BoolArray) -> None:
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


def refuse_other_grid(X: Any, template: Any) -> None:
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


def _weights(template: Any, weights: Any) -> FloatArray | None:
    """Return the weights in the shape of the grid."""
    if weights is None:
        return None
    if isinstance(weights, str):
        if weights != "coslat":
            raise ValueError(f"weights must be 'coslat', an array or None, got {weights!r}")
        weights = coslat_weights(template)
    if not isinstance(weights, xr.DataArray):
        array = np.asarray(weights)
        if array.shape != template.shape or array.dtype.kind not in "fiub":
            raise ValueError(
                f"weights must be numbers in the shape of the grid, {dict(template.sizes)}; got an array of "
                f"shape {array.shape} and dtype {array.dtype}"
            )
        weights = template.copy(data=array)
    if not set(weights.dims) <= set(template.dims):
        raise ValueError(f"weights may have the dimensions {template.dims} only, got {weights.dims}")
    try:
        _, weights = xr.align(template, weights, join="exact", copy=False)
    except ValueError as error:
        raise ValueError(f"the coordinates of the weights are not those of X: {error}") from error
    return np.asarray(weights.broadcast_like(template).transpose(*template.dims).values, dtype=np.float64)
