"""Confounds: what they explain is removed by least squares, from new images by the same fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv.images.errors import ImageError
from spcatv.images.loading import is_path, reading
from spcatv.images.space import FloatArray
from spcatv.matrix import row_blocks


@dataclass(frozen=True, eq=False)
class ConfoundTable:
    """Checked confounds.

    Attributes
    ----------
    values : ndarray of float64, of shape (n_rows, n_confounds)
    names : tuple of str
        Column names; empty where the table has none.
    """

    values: npt.NDArray[np.float64]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class ConfoundFit:
    """A linear model of every feature by the confounds: ``x = intercept + (c - mean) slopes``.

    Only ``(c - mean) slopes`` is taken away. The intercept stays in the images: whether means are
    removed is for the estimator's `center` to say.

    Attributes
    ----------
    mean : ndarray of shape (n_confounds,)
        Means of the confounds over the rows of the fit.
    slopes : ndarray of shape (n_confounds, n_features)
        Least-squares coefficients.
    names : tuple of str
        Names of the confounds, empty where they have none.
    """

    mean: npt.NDArray[np.float64]
    slopes: FloatArray
    names: tuple[str, ...]

    def remove(self, X: FloatArray, table: ConfoundTable) -> None:
        """Take what the confounds explain away from X, in place."""
        centred = self._ordered(table) - self.mean
        for first, last in row_blocks(X.shape):
            X[first:last] -= centred[first:last] @ self.slopes

    def _ordered(self, table: ConfoundTable) -> npt.NDArray[np.float64]:
        """The columns of a new table in the order of the fit."""
        if self.names and table.names and set(self.names) == set(table.names):
            return table.values[:, [table.names.index(name) for name in self.names]]
        if self.names and table.names:
            raise ImageError(
                f"confounds: the model was fitted with {', '.join(self.names)}, got {', '.join(table.names)}"
            )
        if table.values.shape[1] != len(self.mean):
            raise ImageError(
                f"confounds: the model was fitted with {len(self.mean)} columns, got {table.values.shape[1]}"
            )
        return table.values


def fit_confounds(X: FloatArray, table: ConfoundTable) -> ConfoundFit:
    """Least squares of every column of X on the confounds and an intercept.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_features)
    table : ConfoundTable
        As many rows.
    """
    mean = table.values.mean(axis=0)
    centred = table.values - mean
    # columns in units of their spread, so that a tiny unit is not taken for a repeated column
    spread = np.sqrt(np.square(centred).mean(axis=0))
    units = np.where(spread > 0, spread, 1.0)
    rank = int(np.linalg.matrix_rank(centred / units))
    if rank >= len(X) - 1:
        raise ImageError(
            f"confounds: {rank} independent columns and an intercept explain {len(X)} images fully; nothing "
            "is left to analyse"
        )
    solver = np.linalg.pinv(centred / units) / units[:, None]
    slopes = np.zeros((len(mean), X.shape[1]))
    for first, last in row_blocks(X.shape):
        # the rows of the pseudo-inverse add up to zero: means of X do not matter
        slopes += solver[:, first:last] @ X[first:last]
    return ConfoundFit(mean=mean, slopes=slopes.astype(X.dtype), names=table.names)


def read_confounds(confounds: Any, n_rows: int) -> ConfoundTable:
    """Check a table of confounds.

    Parameters
    ----------
    confounds : path of a TSV or CSV file with a header, DataFrame, or array-like
        A row an image; every column a number. An intercept is always in the model and need not be
        a column.
    n_rows : int
        Number of images.
    """
    source = str(confounds) if is_path(confounds) else "confounds"
    frame = _frame(confounds) if is_path(confounds) else confounds
    names: tuple[str, ...] = ()
    if hasattr(frame, "columns"):
        names = tuple(str(name) for name in frame.columns)
        for name in frame.columns:
            if frame[name].dtype.kind not in "biuf":
                raise ImageError(
                    f"{source}: column {name!r} does not hold numbers (first value {frame[name].iloc[0]!r}); "
                    "leave it out, or code it as numbers"
                )
    return ConfoundTable(values=_checked(frame, source, names, n_rows), names=names)


def _frame(path: str | Path) -> Any:
    import pandas as pd

    path = Path(path).expanduser()
    if not path.is_file():
        raise ImageError(f"{path}: no such file; confounds are a table, TSV or CSV with a header")
    with reading(path):
        return pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", na_values=["n/a"])


def _checked(frame: Any, source: str, names: tuple[str, ...], n_rows: int) -> npt.NDArray[np.float64]:
    try:
        values = np.asarray(frame, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ImageError(f"{source}: must be a table of numbers ({error})") from error
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ImageError(f"{source}: must be a table, a row an image; got shape {values.shape}")
    if len(values) != n_rows:
        raise ImageError(f"{source}: has {len(values)} rows, but there are {n_rows} images; a row an image")
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = map(int, wrong[0])
        label = repr(names[column]) if names else str(column + 1)
        raise ImageError(
            f"{source}: {len(wrong)} values are missing or infinite, first in row {row + 1}, column {label}; "
            "confounds must be complete"
        )
    return values
