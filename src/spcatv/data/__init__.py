"""Data X: one protocol for raw data, and centring and deflation on top of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv.data.array import ArrayData
from spcatv.data.blocks import BlockedData
from spcatv.data.dask import ChunkWarning, DaskData
from spcatv.data.files import FileReader, MappedData, StoredData, StoreReader, map_reader
from spcatv.data.gpu import gpu_array_data, lies_on_gpu, on_device
from spcatv.data.memory import Budget, checked_memory_limit
from spcatv.data.operator import CentredData, Centring, CorrectedData, DeflatedData, Products
from spcatv.data.preprocessing import (
    Adjustment,
    FittedAdjustment,
    checked_adjustment,
    confound_fit,
)
from spcatv.data.protocol import ColumnStatistics, Data, float_dtype, row_blocks

__all__ = [
    "Adjustment",
    "ArrayData",
    "BlockedData",
    "CentredData",
    "Centring",
    "ChunkWarning",
    "ColumnStatistics",
    "CorrectedData",
    "DaskData",
    "Data",
    "DeflatedData",
    "FittedAdjustment",
    "Products",
    "StoredData",
    "as_data",
    "checked_adjustment",
    "checked_memory_limit",
    "confound_fit",
    "gpu_array_data",
    "in_blocks",
    "lies_on_gpu",
    "on_device",
    "row_blocks",
]


def as_data(X: Any) -> Data:
    """Return X as `Data`.

    Parameters
    ----------
    X : Data, ndarray, dask.array.Array, stored array, or array on a GPU, of shape (n_samples, n_features)
        Data are returned as they are. A NumPy array may be a memory map, and of any memory order and dtype;
        what is not float32 or float64 in C order is copied to it, once. Dask arrays, memory maps of other
        dtypes and arrays in a file (HDF5, Zarr, or any object with `shape`, `dtype`, `chunks` and slices) are
        read block by block.

    Returns
    -------
    Data
        X itself, if it is one already.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.data import as_data
    >>> data = as_data(np.arange(6.0).reshape(3, 2))
    >>> data.take(np.array([2, 0])).dot(np.array([1.0, 1.0]))
    array([9., 1.])
    """
    if isinstance(X, Data):
        return X
    if lies_on_gpu(X):
        return gpu_array_data(X, None)
    if isinstance(X, np.memmap) and X.ndim == 2 and X.dtype == float_dtype(X.dtype):
        reader = map_reader(X)
        return MappedData(X, reader) if isinstance(reader, FileReader) else ArrayData(X)
    if isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        return ArrayData(X)
    data = in_blocks(X)
    if data is None:
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__qualname__}, neither a NumPy array, a Dask array, an "
            "HDF5 dataset, a Zarr array, nor an object with the methods of spcatv.data.Data; make an array "
            "of it first, or a memory map if it is large"
        )
    return data


def in_blocks(
    X: Any, dtype: Any = None, memory_limit: Any = None, n_components: int = 3
) -> BlockedData | None:
    """Return X as data that are read block by block; None if X is not that kind of array.

    It is a Dask array, an HDF5 dataset, a Zarr array or a memory map. The dtype is float32 or float64; what X
    has, or float64, by default. `memory_limit` is that of `SPCATV`, towards which the vectors of a fit of
    `n_components` count.
    """
    if not all(hasattr(X, name) for name in ("shape", "dtype", "__getitem__")):
        return None
    budget = Budget(checked_memory_limit(memory_limit), n_components)
    if hasattr(X, "__dask_graph__"):
        return DaskData(X, dtype, budget)
    if not isinstance(X, np.memmap) and not hasattr(X, "chunks"):
        return None
    if len(X.shape) != 2:
        raise ValueError(f"X must have two dimensions, samples and features; got shape {X.shape}")
    if np.dtype(X.dtype).kind not in "fiub":
        raise TypeError(f"X has dtype {X.dtype}; it must be an array of real numbers")
    return StoredData(map_reader(X) if isinstance(X, np.memmap) else StoreReader(X), dtype, budget)
