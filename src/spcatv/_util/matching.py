"""Match the rows of a table to the samples: by name, by number, or by order if there are no id columns.

docs/cli.md describes the rule in "Which row is about which image". All commands and Python functions call
`match_rows`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spcatv._util.bids import (
    COLUMNS,
    ENTITIES,
    entities_of,
    files_of,
    samples_of_one_file,
    without_ending,
)
from spcatv._util.naming import some_of
from spcatv._util.tables import MISSING, Table, TableError
from spcatv._util.warn import warn_user

PATH_COLUMNS = ("path", "file", "filename", "image")
PARTICIPANT = COLUMNS["sub"]
PREFIX = "sub-"
# Columns that hold names and no values.
IDENTIFYING = (*COLUMNS.values(), *PATH_COLUMNS, "input")
# Names of columns that identify people.
PERSON = re.compile(
    r"(?i:(sub|subj|subject|participant|patient|person)s?([ _.-]?(id|no|nr|number|code|label|name))?|e?id)\d*"
)
# Names of columns that identify people if all of their cells differ: IXI_ID, but not a site_id.
OTHER_ID = re.compile(r".*ID\d*|(?i:.*[ _.-]id)\d*")
# Names of columns whose whole numbers may be labels of participants: 1 is sub-01.
LABELS = re.compile(r"(?i:participant_id|participant|subject_id|subject|sub)")
# Names of images in memory.
UNNAMED = re.compile(r"image \d+")


class RowOrderWarning(UserWarning):
    """Warning about rows of a table that were matched by their order, or by a number in names.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import RowOrderWarning
    >>> warnings.filterwarnings("error", category=RowOrderWarning)
    """


@dataclass(frozen=True)
class RowMatch:
    """Rows of a table that belong to the samples."""

    rows: tuple[int, ...]  # one per sample, counted from 0; -1 for a sample without a row
    columns: tuple[str, ...]  # columns that were compared with the samples; empty if matched by order
    sentence: str  # description of the match
    guessed: bool = False  # whether rows were matched by numbers, or by order although files have names

    @property
    def remark(self) -> str:
        """Description of the match for a summary; empty if `warn_if_guessed` warns about it."""
        return "" if self.guessed else self.sentence

    def warn_if_guessed(self) -> None:
        """Warn if the rows were matched by numbers or by their order, with an example."""
        if self.guessed:
            warn_user(self.sentence, RowOrderWarning)

    def values(self, cells: Sequence[Any]) -> list[Any]:
        """Return one cell per sample; ``n/a`` for a sample without a row."""
        return ["n/a" if row < 0 else cells[row] for row in self.rows]


@dataclass(frozen=True)
class _Candidates:
    """Rows that one column suggests for every sample."""

    columns: tuple[str, ...]
    shown: Sequence[str]  # names of the samples in messages
    found: Sequence[Sequence[int]]
    weak: bool = False  # whether it may be a coincidence if few samples are found
    by_number: bool = False

    @property
    def count(self) -> int:
        return sum(map(bool, self.found))


def match_rows(
    table: Table,
    names: Sequence[str],
    *,
    path_column: str | None = None,
    wanted: str | None = None,
    partial: bool = False,
) -> RowMatch:
    """Find the row of a table that is about each sample.

    1. By an id column whose cells are paths or stems of files, or participants (with ``session_id``, ``run``
       and other entities that both the table and the names have). One row holds for all samples of a
       participant.
    2. By an id column of numbers, if every sample has exactly one candidate (`_by_number`), and all of them
       occur in the column.
    3. By order, only if the table has no id column beside the `wanted` one, whose values are used.

    The column that finds most samples is used. Rows about others are left out. A TableError names samples
    with two rows or without a row. With `partial`, samples may have no row; numbers are then used if those of
    more than half of the samples occur.
    """
    ids = id_columns(table, path_column)
    people = [entities_of(name) for name in names]
    columns = [*ids, *_others(table, ids, names)]
    readings = [_by_name(table, column, names, column in ids) for column in columns]
    if any("sub" in person for person in people):
        readings += [_by_entities(table, column, names, people, column in ids) for column in columns]
    least = len(names) // 2 + 1
    usable = [reading for reading in readings if reading.count >= (least if reading.weak else 1)]
    numbers = [_by_number(table, column, names) for column in ids]
    counted = {str(r.found): r for r in numbers if r is not None and r.count >= least}
    if len(counted) == 1:  # otherwise two columns disagree
        usable += counted.values()
    if usable:
        return _checked(table, max(usable, key=lambda reading: reading.count), partial)
    unmatched = [column for column in ids if column != wanted]
    if unmatched:
        raise TableError(_unmatched(table, unmatched, names))
    return _by_order(table, names)


def id_columns(table: Table, path_column: str | None = None) -> list[str]:
    """Return the columns that identify rows: first columns of paths, then columns of people."""
    return [
        *(c for c in dict.fromkeys([path_column, *PATH_COLUMNS, "input"]) if c in table.columns),
        *(c for c in table.columns if c not in IDENTIFYING or c == PARTICIPANT if _identifies(table, c)),
    ]


def _identifies(table: Table, column: str) -> bool:
    if PERSON.fullmatch(column):
        return True
    cells = table.column(column) if OTHER_ID.fullmatch(column) else []
    return len(set(cells)) == len(cells) > 1


def _others(table: Table, ids: Sequence[str], names: Sequence[str]) -> list[str]:
    """Return further columns that may identify rows: some cell is a participant or a file name."""
    bases = {os.path.basename(file) for name in names for file in (name, *files_of(name))}
    bases |= {without_ending(base) for base in bases}
    return [
        column
        for column in table.columns
        if column not in ids
        and any(c.startswith(PREFIX) or c.rpartition("/")[2] in bases for c in table.column(column))
    ]


def _by_name(table: Table, column: str, names: Sequence[str], is_id: bool) -> _Candidates:
    """Find rows whose cell is the name, the path or the file name of a sample, with or without its ending."""
    cells = table.column(column)
    folder = table.file.parent
    ways: tuple[tuple[Callable[[str], str], Callable[[str], str]], ...] = (
        (os.path.normpath, os.path.normpath),
        (lambda cell: os.path.abspath(folder / os.path.expanduser(cell)), os.path.abspath),
        (os.path.basename, os.path.basename),
    )
    found: list[list[int]] = [[] for _ in names]
    for ending in (str, without_ending):
        for of_cell, of_file in ways:
            index = _rows_by(map(of_cell, cells), cells)
            keys = [{of_file(ending(file)): file for file in (name, *files_of(name))} for name in names]
            owners: dict[str, set[str]] = {}
            for key, file in (item for sample in keys for item in sample.items()):
                owners.setdefault(key, set()).add(file)
            for rows, sample in zip(found, keys, strict=True):
                hits = (index[key] for key in sample if key in index and len(owners[key]) == 1)
                rows += [] if rows else next(hits, [])
    return _Candidates((column,), [files_of(name)[0] for name in names], found, weak=not is_id)


def _rows_by(keys: Iterable[Any], cells: Sequence[str]) -> dict[Any, list[int]]:
    """Return the rows of every key, without rows whose cell is missing."""
    index: dict[Any, list[int]] = {}
    for row, (key, cell) in enumerate(zip(keys, cells, strict=True)):
        if cell.lower() not in MISSING:
            index.setdefault(key, []).append(row)
    return index


def _by_entities(
    table: Table, named: str, names: Sequence[str], people: Sequence[Mapping[str, str]], is_id: bool
) -> _Candidates:
    """Find rows by participant, session, run and so on; in a column that is no id, cells begin with sub-."""
    cells = [cell if is_id or cell.startswith(PREFIX) else "" for cell in table.column(named)]
    columns, keys, given = [named], ["sub"], [cells]
    for key in ENTITIES[1:]:
        spellings = [COLUMNS[key], key, "session"] if key == "ses" else [key]
        held = next((name for name in spellings if name in table.columns), None)
        if held is not None and any(key in person for person in people):
            columns.append(held)
            keys.append(key)
            given.append(table.column(held))
    pairs = [
        _labels(key, column, [person.get(key) for person in people])
        for key, column in zip(keys, given, strict=True)
    ]
    index = _rows_by(zip(*(labels for labels, _ in pairs), strict=True), cells)
    wanted = zip(*(labels for _, labels in pairs), strict=True)
    found = [index.get(labels, []) if labels[0] else [] for labels in wanted]
    shown = [
        "_".join(f"{key}-{person[key]}" for key in keys if key in person) or files_of(name)[0]
        for name, person in zip(names, people, strict=True)
    ]
    by_number = LABELS.fullmatch(named) is None and all(
        cells[row].isdigit() for rows in found for row in rows
    )
    return _Candidates(tuple(columns), shown, found, weak=by_number, by_number=by_number)


def _labels(key: str, cells: Sequence[str], wanted: Sequence[str | None]) -> tuple[list[str], list[str]]:
    """Return labels of an entity in the table and in the names, without prefix; empty where they are missing.

    Leading zeros are dropped (01 is 1) unless labels differ in them alone.
    """
    given = ["" if cell.lower() in MISSING else cell.removeprefix(f"{key}-") for cell in cells]
    asked = [value or "" for value in wanted]
    short = [[_without_zeros(label) for label in labels] for labels in (given, asked)]
    if all(len(set(a)) == len(set(b)) for a, b in zip(short, (given, asked), strict=True)):
        return short[0], short[1]
    return given, asked


def _without_zeros(label: str) -> str:
    return label.lstrip("0") or "0" if label.isdigit() else label


def _by_number(table: Table, column: str, names: Sequence[str]) -> _Candidates | None:
    """Find rows whose cell is the one candidate number in the name of the sample.

    Candidates are numbers of the column that stand at a place of the names at which all files differ. None if
    candidates stand at two places.
    """
    cells = table.column(column)
    if not all(re.fullmatch("[0-9]+", cell) for cell in cells if cell.lower() not in MISSING):
        return None
    index = _rows_by(map(_without_zeros, cells), cells)
    files = [files_of(name)[0] for name in names]
    readings = [[index.get(number, []) for number in place] for place in _numbers_that_differ(files)]
    candidates = [found for found in readings if any(found)]
    if len(candidates) != 1:
        return None
    return _Candidates((column,), files, candidates[0], weak=True, by_number=True)


def _numbers_that_differ(files: Sequence[str]) -> list[list[str]]:
    """Return the numbers at every place of the names where all files differ, one list per place."""
    n_files = len(set(files))
    if n_files == 1 < len(files):  # rows of an array, volumes of one file
        return []
    for part in (str, os.path.basename) if n_files > 1 else (os.path.basename,):
        found = [re.findall("[0-9]+", part(file)) for file in files]
        if len({len(numbers) for numbers in found}) == 1:
            places = [[_without_zeros(number) for number in place] for place in zip(*found, strict=True)]
            return [place for place in places if len(set(place)) == n_files]
    return []


def _checked(table: Table, reading: _Candidates, partial: bool) -> RowMatch:
    """Return one row per sample, or raise an error that names samples with none or several."""
    how = " and ".join(reading.columns)
    pairs = list(zip(reading.shown, reading.found, strict=True))
    missing = dict.fromkeys(name for name, rows in pairs if not rows)
    if missing and not partial:
        raise TableError(
            f"{table.source}: no row is about {some_of(missing)} (rows are found by {how}); add the missing "
            "rows, or leave these images out"
        )
    double = {name: rows for name, rows in pairs if len(rows) > 1}
    if double:
        first = " and ".join(str(row + 1) for row in next(iter(double.values()))[:2])
        raise TableError(
            f"{table.source}: more than one row is about {some_of(double)} (first rows {first}; rows "
            f"are found by {how}); keep one row, or tell them apart by a column such as session_id or path"
        )
    rows = tuple(rows[0] if rows else -1 for rows in reading.found)
    sentence = f"{table.source}: rows matched by {how}"
    if reading.by_number:
        k = next(k for k, row in enumerate(rows) if row >= 0)
        cell = table.column(reading.columns[0])[rows[k]]
        sentence += f", the number in the names: {cell} is {os.path.basename(reading.shown[k])}"
    n_others = len(table.rows) - len({row for row in rows if row >= 0})
    if n_others:
        sentence += f"; {n_others} of {len(table.rows)} rows are about others and not used"
    if missing:
        sentence += f"; {rows.count(-1)} of {len(rows)} samples have no row and count as missing"
    return RowMatch(rows, reading.columns, sentence, reading.by_number)


def _unmatched(table: Table, ids: Sequence[str], names: Sequence[str]) -> str:
    """Return a message that the cells of the id columns are not the names of the samples, with both."""
    held = "; ".join(f"{column} holds {some_of(table.column(column)) or 'nothing'}" for column in ids[:3])
    return (
        f"{table.source}: the rows cannot be matched to the samples: {held}; the samples are "
        f"{some_of(os.path.basename(name) for name in names)}. Add a column path with the names of the "
        f"files. If the rows are in the order of the samples, remove {' and '.join(ids)}"
    )


def _by_order(table: Table, names: Sequence[str]) -> RowMatch:
    """Match rows by their order, if there are as many as samples."""
    n_rows = len(table.rows)
    if n_rows != len(names):
        raise TableError(
            f"{table.source}: has {n_rows} rows, but there are {len(names)} samples, and nothing says which "
            f"row is about which: add a column {PARTICIPANT} (for files named sub-...) or path"
        )
    sentence = (
        f"{table.source}: rows matched by their order alone: row 1 is taken for {Path(names[0]).name}, row "
        f"{n_rows} for {Path(names[-1]).name}"
    )
    nameless = samples_of_one_file(names) or all(UNNAMED.fullmatch(name) for name in names)
    if not nameless:
        sentence += f"; a column {PARTICIPANT} (for files named sub-...) or path would match them by name"
    return RowMatch(tuple(range(n_rows)), (), sentence, not nameless)


def cell_text(value: Any) -> str:
    """Return a value of a pandas object as text: whole numbers without a decimal point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return "" if value is None else str(value)


def index_columns(index: Any) -> dict[str, list[str]]:
    """Return the levels of a pandas index as columns; text without a name is a column of ids."""
    columns: dict[str, list[str]] = {}
    for number, title in enumerate(index.names):
        level = index.get_level_values(number).tolist()
        if title is not None or any(isinstance(key, str) for key in level):
            columns[str(title or PARTICIPANT)] = [cell_text(key) for key in level]
    return columns
