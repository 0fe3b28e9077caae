"""Array-like view of rows stored on disk, read in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import Data, StoredData, as_data
from spcatv.data.memory import Budget
from spcatv.images.row_cache import RowFiles


class StoredRows:
    """Rows on disk, shape (n_samples, n_features): iterated and sliced, but never held as a whole."""

    def __init__(self, data: StoredData) -> None:
        self.data = data  # the same as data for a fit

    @classmethod
    def open(cls, files: RowFiles, budget: Budget) -> StoredRows:
        """Return the rows of files in blocks of the size that the budget allows."""
        data = StoredData(files, files.dtype, budget)
        return cls(data if files.columns is None else data.columns(files.columns))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of samples and of features."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64."""
        return self.data.dtype

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[FloatArray]:
        """Every row; good until the next one is asked for."""
        return self.data.rows()

    def __getitem__(self, key: Any) -> Any:
        """A row by its number; or slices and masks of rows and columns, which are not read yet."""
        rows, columns = key if isinstance(key, tuple) else (key, slice(None))
        data = self.data
        if not (isinstance(columns, slice) and columns == slice(None)):
            data = data.columns(np.arange(self.shape[1])[columns])
        if isinstance(rows, int):
            return next(data.take(np.array([rows])).rows()).copy()
        return StoredRows(data.take(np.arange(len(self))[rows]))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        """All rows in memory."""
        out: FloatArray = np.empty(self.shape, self.dtype)
        for number, row in enumerate(self):
            out[number] = row
        return out if dtype is None else out.astype(dtype, copy=False)


def data_of(X: Any) -> Data:
    """A matrix as data: an array, rows on disk, or data."""
    return X.data if isinstance(X, StoredRows) else as_data(X)
