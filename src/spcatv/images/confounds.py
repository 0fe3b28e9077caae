"""Confounds: removed from images by least squares, from new images with the coefficients of the fit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.data import as_data, confound_fit, row_blocks
from spcatv.images.categories import Levels, given_columns, indicator_name, indicators, levels_of, text_values
from spcatv.images.loading import ImageError, is_path, reading


@dataclass(frozen=True, eq=False)
class ConfoundTable:
    """Checked confounds."""

    values: FloatArray  # shape (n_samples, n_confounds)
    names: tuple[str, ...]  # column names; empty if the table has none
    levels: Levels = field(default_factory=dict)  # the levels of every column of text


@dataclass(frozen=True, eq=False)
class ConfoundFit:
    """A linear model of every feature by the confounds: ``x = intercept + (c - mean) slopes``.

    Only ``(c - mean) slopes`` is removed. The intercept stays in the images: the parameter `center` of the
    estimator decides whether means are removed.
    """

    mean: FloatArray  # means of the confounds over the samples of the fit, shape (n_confounds,)
    slopes: FloatArray  # least-squares coefficients, shape (n_confounds, n_features)
    names: tuple[str, ...]  # names of the confounds; empty if they have none
    levels: Levels = field(default_factory=dict)  # the levels of every column of text that was coded

    @property
    def columns(self) -> list[str]:
        """The columns of the given table; empty if they have no names."""
        return given_columns(self.names, self.levels)

    def described(self) -> str:
        """The columns of the table, in words."""
        return ", ".join(self.columns) or f"{len(self.mean)} columns"

    def remove(self, X: FloatArray, table: ConfoundTable) -> None:
        """Remove what the confounds explain from X, in place."""
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
    """Least squares of every column of X (n_samples, n_features) on the confounds and an intercept."""
    try:
        mean, slopes = confound_fit(as_data(X), table.values)
    except ValueError as error:
        raise ImageError(str(error)) from error
    return ConfoundFit(mean=mean, slopes=slopes.astype(X.dtype), names=table.names, levels=table.levels)


def read_confounds(confounds: Any, n_samples: int, levels: Levels | None = None) -> ConfoundTable:
    """Check a table of confounds, and code its columns of text.

    The table is a TSV or CSV file with a header, a DataFrame, or array-like, with one row per image. Columns
    hold numbers or, if they have names, text that groups the images. The model always has an intercept, which
    need not be a column. For new images, `levels` are those of the fit.
    """
    source = str(confounds) if is_path(confounds) else "confounds"
    frame = _frame(confounds) if is_path(confounds) else confounds
    if hasattr(frame, "columns"):
        return _coded(frame, source, n_samples, levels)
    return ConfoundTable(values=_checked(frame, source, (), n_samples), names=())


def _coded(frame: Any, source: str, n_samples: int, known: Levels | None) -> ConfoundTable:
    """A DataFrame whose columns of text are coded, with the levels of the fit if they are known."""
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
            columns.append(_checked(frame[[label]], source, (name,), n_samples))
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
    values = _checked(np.concatenate(columns, axis=1), source, tuple(names), n_samples)
    return ConfoundTable(values=values, names=tuple(names), levels=levels)


def _frame(path: str | Path) -> Any:
    import pandas as pd

    path = Path(path).expanduser()
    if not path.is_file():
        raise ImageError(f"{path}: no such file; confounds are a table, TSV or CSV with a header")
    with reading(path):
        return pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", na_values=["n/a"])


def _checked(frame: Any, source: str, names: tuple[str, ...], n_samples: int) -> FloatArray:
    try:
        values = np.asarray(frame, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ImageError(f"{source}: must be a table of numbers ({error})") from error
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ImageError(f"{source}: must be a table with one row per image; got shape {values.shape}")
    if len(values) != n_samples:
        raise ImageError(
            f"{source}: has {len(values)} rows, but there are {n_samples} images; one row per image is needed"
        )
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = map(int, wrong[0])
        label = repr(names[column]) if names else str(column + 1)
        raise ImageError(
            f"{source}: {len(wrong)} values are missing or infinite, first in row {row + 1}, column {label}; "
            "confounds must be complete"
        )
    return values
