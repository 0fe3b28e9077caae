"""Confounds: removed from images by least squares, or from the volumes of each run by itself.

A column of text with the levels a < b < c becomes two columns of zeros and ones, for b and for c. New images
are coded with the levels of the fit, and lose what the coefficients of the fit explain.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import entities_of
from spcatv._util.matching import IDENTIFYING, RowMatch, cell_text, id_columns, index_columns, match_rows
from spcatv._util.tables import Table, TableError, read_table
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import CorrectedData, as_data, confound_fit, row_blocks
from spcatv.images.files import ImageError, checked_file, image_errors, is_path, reading
from spcatv.images.spaces.base import Run

# from a column of text to its values, sorted; the first is the reference level
Levels = Mapping[str, tuple[str, ...]]
# strategies of nilearn.interfaces.fmriprep.load_confounds
STRATEGIES = ("motion", "wm_csf", "global_signal", "high_pass", "compcor", "ica_aroma")
# ends of the names of fMRIPrep's tables, since version 20.2 and before
TABLE_NAMES = ("_desc-confounds_timeseries.tsv", "_desc-confounds_regressors.tsv")
# end of the names of images without ICA-AROMA components
WITHOUT_AROMA = "_desc-smoothAROMAnonaggr_bold"


@dataclass(frozen=True, eq=False)
class ConfoundTable:
    """Checked confounds."""

    values: FloatArray  # with coded columns of text, shape (n_samples, n_confounds)
    columns: tuple[str, ...]  # names of the given columns; empty if they have none
    levels: Levels = field(default_factory=dict)  # the levels of every column of text
    matched: str = ""  # one sentence: the match of the rows with the images; empty if a warning states it

    def of(self, samples: slice) -> ConfoundTable:
        """Return the rows of some samples."""
        return replace(self, values=self.values[samples])


@dataclass(frozen=True, eq=False)
class ConfoundFit:
    """Linear model of every feature by the confounds: ``x = intercept + (c - mean) slopes``.

    Only ``(c - mean) slopes`` is removed. Means are kept; `center` of the estimator removes them.
    """

    mean: FloatArray  # means of the confounds over the samples of the fit, shape (n_confounds,)
    slopes: FloatArray  # least-squares coefficients, shape (n_confounds, n_features)
    columns: tuple[str, ...]  # names of the columns of the table; empty if they have none
    levels: Levels = field(default_factory=dict)  # the levels of every column of text that was coded

    def described(self, *, levels: bool = False) -> str:
        """Return the columns of the table, with the `levels` of columns of text if asked for."""
        shown = {name: f"{name} ({', '.join(values)})" for name, values in self.levels.items() if levels}
        return ", ".join(shown.get(name, name) for name in self.columns) or f"{len(self.mean)} columns"

    def removed(self, X: Any, table: ConfoundTable) -> Any:
        """Remove what the confounds explain: from an array in place, from data on disk as they are read."""
        if table.values.shape[1] != len(self.mean):
            raise ImageError(
                f"confounds: the model was fitted with {len(self.mean)} columns, got {table.values.shape[1]}"
            )
        centred = table.values - self.mean
        if not isinstance(X, np.ndarray):
            return CorrectedData(as_data(X), centred, self.slopes)
        for first, last in row_blocks(X.shape):
            X[first:last] -= centred[first:last] @ self.slopes
        return X


def fit_confounds(X: Any, table: ConfoundTable) -> ConfoundFit:
    """Fit every column of X (n_samples, n_features) by least squares on the confounds and an intercept."""
    with image_errors(ValueError):
        mean, slopes = confound_fit(as_data(X), table.values)
    return ConfoundFit(mean, slopes.astype(X.dtype), table.columns, table.levels)


@dataclass(frozen=True)
class ConfoundColumns:
    """Columns of a table that hold confounds."""

    table: Table
    columns: tuple[str, ...] | None = None  # None: all that do not identify the image of a row
    path_column: str | None = None  # the column of paths, if it has an unusual name


def read_confounds(confounds: Any, names: Sequence[str], fit: ConfoundFit | None = None) -> ConfoundTable:
    """Check a table of confounds, find the row of every image, and code columns of text as in the `fit`.

    Id columns, by which rows are matched to the `names` (`spcatv._util.matching`), are not confounds.
    """
    with image_errors(TableError):
        if is_path(confounds):
            path = Path(confounds).expanduser()
            if not path.is_file():
                raise ImageError(f"{path}: no such file; confounds are a table, TSV or CSV with a header")
            confounds = ConfoundColumns(read_table(path))
        if isinstance(confounds, ConfoundColumns):
            return _matched(confounds, None, names, fit)
        if hasattr(confounds, "columns"):
            columns = index_columns(confounds.index)  # the index may name the participants
            columns |= {str(label): list(map(cell_text, confounds[label].tolist())) for label in confounds}
            table = Table(Path("confounds"), tuple(columns), tuple(zip(*columns.values(), strict=True)))
            return _matched(ConfoundColumns(table), confounds.rename(columns=str), names, fit)
    return ConfoundTable(_numbers(confounds, "confounds", range(len(names))), ())


def _matched(
    given: ConfoundColumns, frame: Any, names: Sequence[str], fit: ConfoundFit | None
) -> ConfoundTable:
    """Return the confounds of a table of strings, or of the DataFrame that it was made of."""
    import pandas as pd  # comes with nilearn

    table = given.table
    match = match_rows(table, names, path_column=given.path_column)
    identifying = {*match.columns, *IDENTIFYING, *id_columns(table, given.path_column)}
    columns = given.columns or [name for name in table.columns if name not in identifying]
    if frame is None:
        frame = pd.DataFrame({name: table.values(name, match.rows) for name in columns})
    else:
        frame = frame[[name for name in frame if name in columns]].iloc[list(match.rows)]
    return _coded(frame, table.source, match, fit)


def _coded(frame: Any, source: str, match: RowMatch, fit: ConfoundFit | None) -> ConfoundTable:
    """Code the columns of text of a DataFrame, with the levels of the fit if there was one."""
    import pandas as pd  # comes with nilearn

    if not len(frame.columns):
        raise ImageError(f"{source}: no column is left beside those that identify the images")
    known: Levels = {} if fit is None else fit.levels
    if fit is not None and fit.columns:
        if set(frame.columns) != set(fit.columns):
            given = ", ".join(frame.columns)
            raise ImageError(f"confounds: the model was fitted with {fit.described()}, got {given}")
        frame = frame[list(fit.columns)]
    levels: dict[str, tuple[str, ...]] = {}
    parts = []
    for name in frame.columns:
        column = frame[[name]]
        texts = _texts(frame[name], source, match.rows)
        if texts is None and name in known:
            texts = [str(value) for value in frame[name].tolist()]
        if texts is not None:
            if fit is not None and name not in known:
                raise ImageError(
                    f"{source}: column {name!r} holds text (first value {texts[0]!r}), which the model was "
                    "not fitted with"
                )
            levels[name] = known[name] if name in known else _levels_of(texts, name, source)
            odd = next((row for row, text in enumerate(texts) if text not in levels[name]), None)
            if odd is not None:
                raise ImageError(
                    f"{source}: row {match.rows[odd] + 1} has {name} {texts[odd]!r}, which the model was not "
                    f"fitted with; its levels are {', '.join(levels[name])}"
                )
            coded = pd.Series(pd.Categorical(texts, levels[name]), column.index)
            column = pd.get_dummies(coded, name, " = ", drop_first=True)
        parts.append(column)
    whole = pd.concat(parts, axis=1)
    if not len(whole.columns):
        raise ImageError(f"{source}: no column has more than one value ({', '.join(levels)})")
    values = _numbers(whole, source, match.rows)
    match.warn_if_guessed()
    if fit is None:
        _warn_of_confounds(values, list(whole.columns), source)
    return ConfoundTable(values, tuple(frame.columns), levels, match.remark)


def _texts(column: Any, source: str, rows: Sequence[int]) -> list[str] | None:
    """Return the values of a DataFrame's column if it is text, else None."""
    import pandas as pd

    if column.dtype.kind in "biuf":
        return None
    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        raise ImageError(
            f"{source}: {len(missing)} values of column {column.name!r} are missing, first in row "
            f"{rows[missing[0]] + 1}; confounds must be complete"
        )
    values = column.tolist()
    if column.dtype.name == "category":
        return [str(value) for value in values]
    if not any(isinstance(value, str) for value in values):
        return None
    numbers = pd.to_numeric(column, errors="coerce").notna().tolist()
    if 0 < sum(numbers) < len(values) or not all(isinstance(value, str) for value in values):
        # the rarer of the two is probably the mistake
        odd = numbers.index(2 * sum(numbers) < len(values)) if len(set(numbers)) == 2 else 0
        raise ImageError(
            f"{source}: column {column.name!r} mixes numbers and text: row {rows[odd] + 1} has "
            f"{values[odd]!r}, unlike most others"
        )
    return values


def _levels_of(values: Sequence[str], name: str, source: str) -> tuple[str, ...]:
    """Return the sorted levels of a column of text; refuse those that identify images."""
    levels = tuple(sorted(set(values)))
    if len(levels) > 2 and 2 * len(levels) > len(values):
        raise ImageError(
            f"{source}: column {name!r} has {len(levels)} different values in {len(values)} rows (first "
            f"{values[0]!r}): it identifies images rather than groups of them; name the columns to use, or "
            "call it participant_id if it holds the participants of the file names (sub-...)"
        )
    return levels


def _warn_of_confounds(values: FloatArray, names: Sequence[str], source: str) -> None:
    """Warn about columns that depend on those before them, and about many columns for few images."""
    idle, rank = [], 0
    centred = values - values.mean(axis=0)
    spread = np.sqrt(np.square(centred).mean(axis=0))
    centred /= np.where(spread > 0, spread, 1.0)
    for column, name in enumerate(names):
        before, rank = rank, int(np.linalg.matrix_rank(centred[:, : column + 1]))
        if rank == before:
            varies = spread[column] > 0
            idle.append(
                f"{name} {'follows from the columns before it' if varies else 'is the same for all images'}"
            )
    if idle:
        warn_user(f"{source}: {'; '.join(idle)}: nothing more is removed because of it", UserWarning)
    n_left = len(values) - 1 - rank
    if 2 * rank > len(values) and n_left > 0:
        warn_user(
            f"{source}: {rank} independent columns of confounds for {len(values)} images remove most of what "
            f"differs between them: {n_left} degrees of freedom are left. Name fewer columns",
            UserWarning,
        )


def _numbers(table: Any, source: str, rows: Sequence[int], each: str = "image") -> FloatArray:
    """Return finite numbers, shape (n_rows, n_columns); `rows` are their numbers in the file of the user."""
    try:
        values = np.array(table, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ImageError(f"{source}: must be a table of numbers ({error})") from error
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2 or values.shape[1] == 0:
        raise ImageError(f"{source}: must be a table with one row per {each}; got shape {values.shape}")
    if len(values) != len(rows):
        raise ImageError(
            f"{source}: has {len(values)} rows, but there are {len(rows)} {each}s; one row per {each} is "
            "needed"
        )
    wrong = np.argwhere(~np.isfinite(values))
    if len(wrong):
        row, column = map(int, wrong[0])
        label = repr(table.columns[column]) if hasattr(table, "columns") else str(column + 1)
        raise ImageError(
            f"{source}: {len(wrong)} values are missing or infinite, first in row {rows[row] + 1}, column "
            f"{label}; confounds must be complete"
        )
    return values


def is_per_run(confounds: Any) -> bool:
    """Return whether confounds are a list with one table per run rather than one row per image."""
    return isinstance(confounds, (list, tuple)) and any(
        is_path(item) or hasattr(item, "columns") or (item is not None and np.ndim(item) == 2)
        for item in confounds
    )


def table_beside(run: Run) -> Path | None:
    """Return the table of fMRIPrep beside a run that shares all of its entities but ``desc`` with the run."""
    if not run.files:
        return None
    own = _entities(run.files[0])
    tables = [table for name in TABLE_NAMES for table in sorted(run.files[0].parent.glob(f"*{name}"))]
    fitting = [table for table in tables if _entities(table) and _entities(table) <= own]
    return max(fitting, key=lambda table: len(_entities(table)), default=None)


def _entities(file: Path) -> set[tuple[str, str]]:
    return {(key, value) for key, value in entities_of(str(file)).items() if key != "desc"}


def run_tables(runs: Sequence[Run], words: Sequence[str], given: Any = None) -> list[FloatArray | None]:
    """Return the confounds of every run, shape (n_volumes, n_confounds), or None for a run without.

    The words are columns, patterns or strategies; the tables are those `given`, or those beside the runs.
    """
    if not words:
        return [None] * len(runs)
    if given is None:
        given = [table_beside(run) for run in runs]
        for run, table in zip(runs, given, strict=True):
            if table is None:
                raise ImageError(
                    f"{run.name}: there is no table of confounds beside it (...{TABLE_NAMES[0]} with the "
                    "same entities); give one table per run (confounds=[...])"
                )
    if len(given) != len(runs):
        raise ImageError(
            f"confounds: {len(given)} tables were given for {len(runs)} images; give one per image, None "
            "for an image without"
        )
    return [
        None if table is None else _of_run(table, words, run) for table, run in zip(given, runs, strict=True)
    ]


def _of_run(table: Any, words: Sequence[str], run: Run) -> FloatArray:
    """Return the columns of a table that the words name, each once."""
    import pandas as pd

    source = str(table) if is_path(table) else f"the confounds of {run.name}"
    strategies = [word for word in words if word in STRATEGIES]
    parts = []
    if is_path(table):
        path = checked_file(table)
        with reading(path):
            whole = pd.read_csv(path, sep="," if ".csv" in path.suffixes else "\t", na_values=["n/a"])
            if strategies:
                parts.append(_by_strategies(path, strategies, run))
    elif strategies:
        raise ImageError(f"{source}: {strategies[0]!r} needs a file of fMRIPrep; name columns instead")
    else:
        whole = table if hasattr(table, "columns") else pd.DataFrame(np.asarray(table))
    whole = whole.rename(columns=str)
    for word in words:
        chosen = [name for name in whole.columns if name == word or fnmatchcase(name, word)]
        if word not in STRATEGIES and not chosen:
            known = ", ".join(whole.columns[:8]) + (", ..." if len(whole.columns) > 8 else "")
            raise ImageError(
                f"{source}: no column is called or matches {word!r}; there are {known}, and the strategies "
                f"{', '.join(STRATEGIES)}"
            )
        if word not in STRATEGIES:
            parts.append(whole[chosen])
    frame = pd.concat(parts, axis=1)
    frame = frame.loc[:, ~frame.columns.duplicated()]
    if not len(frame.columns):  # a strategy may find none: fMRIPrep writes cosines for long runs only
        return np.zeros((run.n_samples, 0))
    if len(frame) > 1:
        # derivatives have no value for the first volume; nilearn uses that of the second, too
        frame = pd.concat([frame.iloc[:2].bfill().iloc[:1], frame.iloc[1:]])
    return _numbers(frame, source, range(run.n_samples), "volume")


def _by_strategies(path: Path, strategies: Sequence[str], run: Run) -> Any:
    """Load confounds with nilearn; volumes before the steady state get a column each."""
    from nilearn.interfaces.fmriprep import load_confounds

    stem = next((path.name.removesuffix(name) for name in TABLE_NAMES if path.name.endswith(name)), None)
    if stem is None:
        raise ImageError(f"{path}: {strategies[0]!r} needs a file of fMRIPrep (...{TABLE_NAMES[0]})")
    without_aroma = WITHOUT_AROMA in run.name
    image = path.with_name(f"{stem}{WITHOUT_AROMA if without_aroma else '_desc-preproc_bold'}.nii.gz")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parameters that are not given
            frame, kept = load_confounds(
                str(image), strategy=tuple(strategies), ica_aroma="full" if without_aroma else "basic"
            )
    except Exception as error:  # nilearn raises an exception of its own for missing columns
        text = " ".join(str(error).split())
        raise ImageError(f"{path}: nilearn cannot load {', '.join(strategies)} ({text})") from error
    if kept is not None:
        for number in sorted({*range(run.n_samples)} - {*map(int, kept)}):
            frame[f"non_steady_state_{number}"] = np.eye(run.n_samples)[number]
    return frame
