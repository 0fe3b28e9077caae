"""Confounds: what they explain is removed by least squares, from new images by the same fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data.centred import row_blocks
from spcatv.images.categories import (
    Levels,
    given_columns,
    indicator_name,
    indicators,
    levels_of,
    text_values,
)
from spcatv.images.errors import ImageError
from spcatv.images.loading import is_path, reading


@dataclass(frozen=True, eq=False)
class ConfoundTable:
    """Checked confounds.

    Attributes
    ----------
    values : ndarray of float64, of shape (n_rows, n_confounds)
    names : tuple of str
        Column names; empty where the table has none.
    levels : mapping of str to tuple of str
        Columns of text, and the values that they are coded for.
    """

    values: FloatArray
    names: tuple[str, ...]
    levels: Levels = field(default_factory=dict)


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
    levels : mapping of str to tuple of str
        Columns of text that some of them were made from, with their values.
    """

    mean: FloatArray
    slopes: FloatArray
    names: tuple[str, ...]
    levels: Levels = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns of the table that was given; empty where they have no names."""
        return given_columns(self.names, self.levels)

    def described(self) -> str:
        """The columns of the table, in words."""
        return ", ".join(self.columns) or f"{len(self.mean)} columns"

    def remove(self, X: FloatArray, table: ConfoundTable) -> None:
        """Take what the confounds explain away from X, in place."""
        centred = self._ordered(table) - self.mean
        for first, last in row_blocks(X.shape):
            X[first:last] -= centred[first:last] @ self.slopes

    def _ordered(self, table: ConfoundTable) -> FloatArray:
        """The columns of a new table in the order of the fit."""
        if self.names and table.names and set(self.names) == set(table.names):
            return table.values[:, [table.names.index(name) for name in self.names]]
        if self.names and table.names:
            given = ", ".join(given_columns(table.names, table.levels))
            raise ImageError(f"confounds: the model was fitted with {self.described()}, got {given}")
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
    return ConfoundFit(mean=mean, slopes=slopes.astype(X.dtype), names=table.names, levels=table.levels)


def read_confounds(confounds: Any, n_rows: int, levels: Levels | None = None) -> ConfoundTable:
    """Check a table of confounds, and code its columns of text.

    Parameters
    ----------
    confounds : path of a TSV or CSV file with a header, DataFrame, or array-like
        A row an image; columns of numbers, or, with names, of text that puts images into groups. An
        intercept is always in the model and need not be a column.
    n_rows : int
        Number of images.
    levels : mapping of str to tuple of str, default=None
        Columns of text of the fit, for new images; ``None`` for a fit.
    """
    source = str(confounds) if is_path(confounds) else "confounds"
    frame = _frame(confounds) if is_path(confounds) else confounds
    if hasattr(frame, "columns"):
        return _coded(frame, source, n_rows, levels)
    return ConfoundTable(values=_checked(frame, source, (), n_rows), names=())


def _coded(frame: Any, source: str, n_rows: int, known: Levels | None) -> ConfoundTable:
    """A DataFrame with its columns of text coded, by the levels of a fit if they are known."""
    names: list[str] = []
    columns: list[FloatArray] = [np.zeros((len(frame), 0))]
    levels: dict[str, tuple[str, ...]] = {}
    for label in frame.columns:
        name = str(label)
        texts = text_values(frame[label], name, source)
        if known is not None and name in known and texts is None:
            texts = [str(value) for value in frame[label].tolist()]
        if texts is None:
            names.append(name)
            columns.append(_checked(frame[[label]], source, (name,), n_rows))
            continue
        if known is not None and name not in known:
            raise ImageError(
                f"{source}: column {name!r} holds text (first value {texts[0]!r}), which the model was not "
                "fitted with"
            )
        levels[name] = levels_of(texts, name, source) if known is None else known[name]
        names += [indicator_name(name, level) for level in levels[name][1:]]
        columns.append(indicators(texts, levels[name], name, source))
    if levels and not names:
        raise ImageError(f"{source}: no column has more than one value ({', '.join(levels)})")
    values = _checked(np.concatenate(columns, axis=1), source, tuple(names), n_rows)
    return ConfoundTable(values=values, names=tuple(names), levels=levels)


def _frame(path: str | Path) -> Any:
    import pandas as pd

    path = Path(path).expanduser()
    if not path.is_file():
        raise ImageError(f"{path}: no such file; confounds are a table, TSV or CSV with a header")
    with reading(path):
        return pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", na_values=["n/a"])


def _checked(frame: Any, source: str, names: tuple[str, ...], n_rows: int) -> FloatArray:
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
