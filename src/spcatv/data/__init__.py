"""The data X: one protocol for raw data, and centring and deflation on top of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from spcatv.data.adjustment import (
    AdjustedData,
    Adjustment,
    FittedAdjustment,
    checked_adjustment,
    confound_fit,
)
from spcatv.data.array import ArrayData
from spcatv.data.base import ColumnStatistics, Data, row_blocks
from spcatv.data.global_signal import GlobalSignalRemoved
from spcatv.data.operators import CentredData, Centring, DataOperator, DeflatedData, Products, ResidualData

__all__ = [
    "AdjustedData",
    "Adjustment",
    "ArrayData",
    "CentredData",
    "Centring",
    "ColumnStatistics",
    "Data",
    "DataOperator",
    "DeflatedData",
    "FittedAdjustment",
    "GlobalSignalRemoved",
    "Products",
    "ResidualData",
    "as_data",
    "checked_adjustment",
    "confound_fit",
    "row_blocks",
]


def as_data(X: Any) -> Data:
    """X as `Data`.

    Parameters
    ----------
    X : Data or ndarray of shape (n_samples, n_features)
        Data are returned as they are. An array may be a memory map, and of any memory order and dtype;
        what is not float32 or float64 in C order is copied to it, once.

    Returns
    -------
    Data

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.data import as_data
    >>> data = as_data(np.arange(6.0).reshape(3, 2))
    >>> data.take(np.array([2, 0])).dot(np.array([1.0, 1.0]))
    array([9., 1.])
    """
    if isinstance(X, np.ndarray):
        return ArrayData(X)
    if isinstance(X, Data):
        return X
    raise TypeError(
        f"X is a {type(X).__module__}.{type(X).__qualname__}, neither a NumPy array nor an object with the "
        "methods of spcatv.data.Data; make an array of it first, or a memory map if it is large"
    )
