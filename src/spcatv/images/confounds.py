"""Confounds: removed from images by least squares, from new images with the coefficients of the fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.matching import IDENTIFYING, RowMatch, cell_text, id_columns, index_columns, match_rows
from spcatv._util.tables import Table, TableError, read_table
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import AdjustedData, confound_fit, row_blocks
from spcatv.images.categories import Levels, given_columns, indicator_name, indicators, levels_of, text_values
from spcatv.images.loading import ImageError, image_errors, is_path
from spcatv.images.rows import data_of


@dataclass(frozen=True, eq=False)
class ConfoundTable:
    """Checked confounds."""

    values: FloatArray  # shape (n_samples, n_confounds)
    names: tuple[str, ...]  # column names; empty if the table has none
    levels: Levels = field(default_factory=dict)  # the levels of every column of text
    matched: str = ""  # how rows were matched to the images, in a sentence; empty if a warning says it

    def of(self, samples: slice) -> ConfoundTable:
        """The rows of some samples."""
        return replace(self, values=self.values[samples])


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

    def described(self, *, levels: bool = False) -> str:
        """The columns of the table, in words; with the `levels` of those that hold text, if asked for."""
        shown = {name: f"{name} ({', '.join(values)})" for name, values in self.levels.items() if levels}
        return ", ".join(shown.get(name, name) for name in self.columns) or f"{len(self.mean)} columns"

    def removed(self, X: Any, table: ConfoundTable) -> Any:
        """X without what the confounds explain: an array in place, rows on disk whenever they are read."""
        centred = self._ordered(table) - self.mean
        if not isinstance(X, np.ndarray):
            return AdjustedData(data_of(X), centred, self.slopes, np.ones(X.shape[1]))
        for first, last in row_blocks(X.shape):
            X[first:last] -= centred[first:last] @ self.slopes
        return X

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


def fit_confounds(X: Any, table: ConfoundTable) -> ConfoundFit:
    """Least squares of every column of X (n_samples, n_features) on the confounds and an intercept."""
    with image_errors(ValueError):
        mean, slopes = confound_fit(data_of(X), table.values)
    return ConfoundFit(mean=mean, slopes=slopes.astype(X.dtype), names=table.names, levels=table.levels)


@dataclass(frozen=True)
class ConfoundColumns:
    """Columns of a table that hold confounds."""

    table: Table
    columns: tuple[str, ...] | None = None  # None: all that do not say which image a row is about
    path_column: str | None = None  # the column of paths, if it has an unusual name


def read_confounds(confounds: Any, names: Sequence[str], levels: Levels | None = None) -> ConfoundTable:
    """Check a table of confounds, find the row of every image, and code columns of text.

    The rows of a TSV or CSV file with a header, or of a DataFrame, are matched to the `names` of the images
    by an id column (`spcatv._util.matching`); id columns are not confounds. Rows without such a column, and
    those of an array, are in the order of the images. Columns hold numbers or, if they have names, text that
    groups the images. The model always has an intercept, which need not be a column. For new images, `levels`
    are those of the fit.
    """
    with image_errors(TableError):
        if is_path(confounds):
            confounds = ConfoundColumns(_table(confounds))
        if isinstance(confounds, ConfoundColumns):
            return _of_columns(confounds, names, levels)
        if hasattr(confounds, "columns"):
            return _of_frame(confounds, names, levels)
    return ConfoundTable(values=_checked(confounds, "confounds", (), _row_texts(range(len(names)))), names=())


def _table(path: str | Path) -> Table:
    path = Path(path).expanduser()
    if not path.is_file():
        raise ImageError(f"{path}: no such file; confounds are a table, TSV or CSV with a header")
    return read_table(path)


def _of_columns(given: ConfoundColumns, names: Sequence[str], levels: Levels | None) -> ConfoundTable:
    """The confounds of a table of strings."""
    import pandas as pd  # comes with nilearn

    table = given.table
    match = match_rows(table, names, path_column=given.path_column)
    identifying = {*match.columns, *IDENTIFYING, *id_columns(table, given.path_column)}
    columns = given.columns or [name for name in table.columns if name not in identifying]
    frame = pd.DataFrame({name: table.values(name, match.rows) for name in columns})
    return _coded(frame, table.source, levels, match)


def _of_frame(frame: Any, names: Sequence[str], levels: Levels | None) -> ConfoundTable:
    """The confounds of a DataFrame, whose index may name the participants."""
    columns = index_columns(frame.index)
    columns |= {str(label): list(map(cell_text, frame[label].tolist())) for label in frame.columns}
    table = Table(Path("confounds"), tuple(columns), tuple(zip(*columns.values(), strict=True)))
    match = match_rows(table, names)
    identifying = {*match.columns, *IDENTIFYING, *id_columns(table)}
    frame = frame[[label for label in frame.columns if str(label) not in identifying]]
    return _coded(frame.iloc[list(match.rows)], "confounds", levels, match)


def _row_texts(rows: Iterable[int]) -> list[str]:
    """Where each image stands in the table, for messages."""
    return [f"row {row + 1}" for row in rows]


def _coded(frame: Any, source: str, known: Levels | None, match: RowMatch) -> ConfoundTable:
    """A DataFrame whose columns of text are coded, with the levels of the fit if they are known."""
    where = _row_texts(match.rows)
    if not len(frame.columns):
        raise ImageError(f"{source}: no column is left beside those that say which image a row is about")
    names: list[str] = []
    columns: list[FloatArray] = [np.zeros((len(frame), 0))]
    levels: dict[str, tuple[str, ...]] = {}
    for label in frame.columns:
        name = str(label)
        texts = text_values(frame[label], name, source, where)
        if known is not None and name in known and texts is None:
            texts = [str(value) for value in frame[label].tolist()]
        if texts is None:
            names.append(name)
            columns.append(_checked(frame[[label]], source, (name,), where))
            continue
        if known is not None and name not in known:
            raise ImageError(
                f"{source}: column {name!r} holds text (first value {texts[0]!r}), which the model was not "
                "fitted with"
            )
        levels[name] = levels_of(texts, name, source) if known is None else known[name]
        names += [indicator_name(name, level) for level in levels[name][1:]]
        columns.append(indicators(texts, levels[name], name, source, where))
    if levels and not names:
        raise ImageError(f"{source}: no column has more than one value ({', '.join(levels)})")
    match.warn_if_guessed()
    values = np.concatenate(columns, axis=1)
    if known is None:
        _warn_of_confounds(values, names, source)
    return ConfoundTable(values, tuple(names), levels, match.remark)


def _warn_of_confounds(values: FloatArray, names: Sequence[str], source: str) -> None:
    """Warn of columns that remove nothing beyond those before them, and of many columns for few images."""
    idle, rank = [], 0
    centred = values - values.mean(axis=0)
    spread = np.sqrt(np.square(centred).mean(axis=0))
    centred /= np.where(spread > 0, spread, 1.0)
    for column, name in enumerate(names):
        before, rank = rank, int(np.linalg.matrix_rank(centred[:, : column + 1]))
        if rank == before:
            what = (
                "follows from the columns before it" if spread[column] > 0 else "is the same for all images"
            )
            idle.append(f"{name} {what}")
    if idle:
        warn_user(f"{source}: {'; '.join(idle)}: nothing more is removed because of it", UserWarning)
    n_left = len(values) - 1 - rank
    if 2 * rank > len(values) and n_left > 0:
        warn_user(
            f"{source}: {rank} independent columns of confounds for {len(values)} images remove most of what "
            f"differs between them: {n_left} degrees of freedom are left. Name fewer columns "
            "(--confounds-columns)",
            UserWarning,
        )


def _checked(frame: Any, source: str, names: tuple[str, ...], where: Sequence[str]) -> FloatArray:
    try:
        values = np.asarray(frame, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ImageError(f"{source}: must be a table of numbers ({error})") from error
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ImageError(f"{source}: must be a table with one row per image; got shape {values.shape}")
    if len(values) != len(where):
        raise ImageError(
            f"{source}: has {len(values)} rows, but there are {len(where)} images; one row per image is "
            "needed"
        )
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = map(int, wrong[0])
        label = repr(names[column]) if names else str(column + 1)
        raise ImageError(
            f"{source}: {len(wrong)} values are missing or infinite, first in {where[row]}, column {label}; "
            "confounds must be complete"
        )
    return values
