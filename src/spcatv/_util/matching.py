"""Which row of a table is about which sample: by paths, by participants, and by order only without names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spcatv._util.entities import COLUMNS, ENTITIES, entities_of, files_of, samples_of_one_file
from spcatv._util.naming import some_of
from spcatv._util.text_table import MISSING, Table, TableError
from spcatv._util.warn import warn_user

PATH_COLUMNS = ("path", "file", "filename", "image")
# further columns that may hold paths; they do if a cell is one of a sample
POSSIBLE_PATHS = (*PATH_COLUMNS, "input", "left", "right")
PARTICIPANT = COLUMNS["sub"]
# names of the column of participants, in any case; it is one if a cell names a participant of the samples
POSSIBLE_PARTICIPANTS = (PARTICIPANT, "participant", "subject_id", "subject", "sub")
# what a participant is called in a column of any other name
PREFIX = "sub-"
# columns that never hold values of their own
IDENTIFYING = (*COLUMNS.values(), *PATH_COLUMNS)
# names of columns that identify rows; if all of their cells are numbers, these are looked for in other names
IDENTIFIER = re.compile(
    r".*ID|(?i:(.*[ _.-])?(id|eid)|(subj|subject|participant|patient|person)[ _.-]?(no|nr|number|code)?)"
)
# samples that are not files: images in memory
UNNAMED = re.compile(r"image \d+")


class RowOrderWarning(UserWarning):
    """The rows of a table were taken in their order, because nothing says whom they are about.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import RowOrderWarning
    >>> warnings.filterwarnings("error", category=RowOrderWarning)
    """


@dataclass(frozen=True)
class Match:
    """The row of every sample."""

    rows: tuple[int, ...]  # one per sample, counted from 0
    columns: tuple[str, ...]  # the columns that were compared with the samples; empty if it was by order
    sentence: str  # how the rows were found, for people
    surprising: bool = False  # whether rows were taken in their order although one side has names

    @property
    def remark(self) -> str:
        """How the rows were found, for a summary; empty if `warn_about_order` says it."""
        return "" if self.surprising else self.sentence

    def warn_about_order(self) -> None:
        """Warn if the rows were taken in their order although one side has names."""
        if self.surprising:
            warn_user(self.sentence, RowOrderWarning)


def match_rows(table: Table, names: Sequence[str], *, path_column: str | None = None) -> Match:
    """Find the row of a table that is about each sample.

    1. By a column of paths: `path_column`, or one with a usual name. Paths are relative to the folder of the
       table; the name of a file alone will do if only one sample has it.
    2. By ``participant_id``, with or without the prefix ``sub-`` and with or without leading zeros, together
       with ``session_id``, ``run`` and other entities that both the table and the names of the samples have.
       One row holds for all samples of that participant.
    3. By a column of different numbers that is called like an identifier (``ID``, ``IXI_ID``,
       ``subject_no``), if the numbers at one place in the names of the files are among them.
    4. By order, only if the table has no such column or the names have no entities.

    Rows about others are left out. A TableError names samples without a row, with two rows, or without a
    participant, at most five of them.
    """
    for column in dict.fromkeys([path_column, *POSSIBLE_PATHS]):
        if column in table.columns:
            found = _by_path(table, str(column), names)
            if found is not None:
                return found
    people = [entities_of(name) for name in names]
    named = PARTICIPANT if PARTICIPANT in table.columns else _participant_alias(table, people)
    if named is not None and any("sub" in person for person in people):
        return _by_participant(table, named, names, people)
    return _by_number(table, names) or _by_order(table, names, path_column)


def _by_path(table: Table, column: str, names: Sequence[str]) -> Match | None:
    """Rows whose path is that of the sample; None if no row is about any of the samples."""
    cells = table.column(column)
    folder = table.file.parent
    samples = [[name, *files_of(name)] for name in names]
    n_files: dict[str, set[str]] = {}
    for file in (file for files in samples for file in files[1:]):
        n_files.setdefault(os.path.basename(file), set()).add(file)
    # the name as it is, the same place in the file system, and the name of the file if only one file has it
    ways: tuple[tuple[Callable[[str], str], Callable[[str], str]], ...] = (
        (os.path.normpath, os.path.normpath),
        (lambda cell: os.path.abspath(folder / os.path.expanduser(cell)), os.path.abspath),
        (os.path.basename, lambda file: _only(os.path.basename(file), n_files)),
    )
    indices = [_rows_by((of_cell(cell) for cell in cells), cells) for of_cell, _ in ways]
    found: list[list[int]] = []
    for files in samples:
        hits = (
            index.get(of_file(file), [])
            for index, (_, of_file) in zip(indices, ways, strict=True)
            for file in files
        )
        found.append(next((rows for rows in hits if rows), []))
    if not any(found):
        return None
    return _checked(table, (column,), [files_of(name)[0] for name in names], found)


def _only(base: str, files: Mapping[str, set[str]]) -> str:
    """The name of a file if one file has it, otherwise a name that no file has."""
    return base if len(files.get(base, ())) == 1 else ""


def _rows_by(keys: Iterable[str], cells: Sequence[str]) -> dict[str, list[int]]:
    index: dict[str, list[int]] = {}
    for row, (key, cell) in enumerate(zip(keys, cells, strict=True)):
        if cell.lower() not in MISSING:
            index.setdefault(key, []).append(row)
    return index


def _participant_alias(table: Table, people: Sequence[Mapping[str, str]]) -> str | None:
    """A column of another name that holds participants of the samples; None if there is none."""
    usual = [c for c in table.columns if names_participants(c) or is_identifier(c, table.column(c))]
    for column in (*usual, *table.columns):
        cells = [cell for cell in table.column(column) if column in usual or cell.startswith(PREFIX)]
        given, wanted = _labels("sub", cells, [person.get("sub") for person in people])
        if set(given) & (set(wanted) - {""}):
            return column
    return None


def names_participants(column: object) -> bool:
    """Whether a column has one of the names that are usual for participants."""
    return str(column).lower() in POSSIBLE_PARTICIPANTS


def is_identifier(column: object, cells: Sequence[str]) -> bool:
    """Whether a column is called like an identifier, and holds as many different whole numbers as rows."""
    return (
        IDENTIFIER.fullmatch(str(column)) is not None
        and all(cell.isdecimal() for cell in cells)
        and len({int(cell) for cell in cells}) == len(cells) > 1
    )


def _by_number(table: Table, names: Sequence[str]) -> Match | None:
    """Rows whose identifier is the number at one place in the name of the sample; None if there are none.

    It is an error if the numbers can be read in two ways, or if most samples have a row, but not all.
    """
    files = [files_of(name)[0] for name in names]
    readings = [
        (column, [index.get(number, []) for number in numbers])
        for column, index in _identifiers(table).items()
        for numbers in _numbers_that_differ(files)
    ]
    whole = {str(found): (column, found) for column, found in readings if all(found)}
    if len(whole) > 1:
        raise TableError(
            f"{table.source}: the names of the samples hold several numbers, and which of them identifies a "
            f"row cannot be told; add a column {PARTICIPANT} (for files named sub-...) or path"
        )
    most = [(column, found) for column, found in readings if 2 * sum(map(bool, found)) > len(found)]
    for column, found in (*whole.values(), *most):
        match = _checked(table, (column,), files, found)  # names samples without a row
        example = f"{table.column(column)[match.rows[0]]} is {os.path.basename(files[0])}"
        return replace(match, sentence=f"{match.sentence}, the number in the names: {example}")
    return None


def _identifiers(table: Table) -> dict[str, dict[int, list[int]]]:
    """The columns that identify rows by numbers: the rows of every number."""
    columns = {name: table.column(name) for name in table.columns}
    return {
        name: {int(cell): [row] for row, cell in enumerate(cells)}
        for name, cells in columns.items()
        if is_identifier(name, cells)
    }


def _numbers_that_differ(files: Sequence[str]) -> list[list[int]]:
    """The numbers at every place of the names that tells all files apart, one list per place."""
    for found in ([re.findall(r"\d+", part(file)) for file in files] for part in (str, os.path.basename)):
        if len({len(numbers) for numbers in found}) == 1:
            places = [[int(number) for number in place] for place in zip(*found, strict=True)]
            return [place for place in places if len(set(place)) == len(set(files)) > 1]
    return []


def _by_participant(
    table: Table, named: str, names: Sequence[str], people: Sequence[Mapping[str, str]]
) -> Match:
    nameless = dict.fromkeys(n for n, person in zip(names, people, strict=True) if "sub" not in person)
    if nameless:
        raise TableError(
            f"{table.source}: rows are found by {named}, but the names of {some_of(nameless)} do not say "
            "whom they are about (sub-...); give a column of paths"
        )
    columns, keys = [named], ["sub"]
    for key in ENTITIES[1:]:
        spellings = [COLUMNS[key], key, "session"] if key == "ses" else [key]
        held = next((name for name in spellings if name in table.columns), None)
        if held is not None and any(key in person for person in people):
            columns.append(held)
            keys.append(key)
    pairs = [
        _labels(key, table.column(column), [person.get(key) for person in people])
        for key, column in zip(keys, columns, strict=True)
    ]
    index: dict[tuple[str, ...], list[int]] = {}
    for row, labels in enumerate(zip(*(given for given, _ in pairs), strict=True)):
        index.setdefault(labels, []).append(row)
    found = [index.get(labels, []) for labels in zip(*(wanted for _, wanted in pairs), strict=True)]
    shown = ["_".join(f"{key}-{person[key]}" for key in keys if key in person) for person in people]
    return _checked(table, tuple(columns), shown, found)


def _labels(key: str, cells: Sequence[str], wanted: Sequence[str | None]) -> tuple[list[str], list[str]]:
    """Labels of an entity in the table and in the names, without prefix; empty where they are missing.

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


def _checked(
    table: Table, columns: tuple[str, ...], shown: Sequence[str], found: Sequence[Sequence[int]]
) -> Match:
    """One row per sample, or an error that names samples (`shown`) with none or several."""
    how = " and ".join(columns)
    missing = dict.fromkeys(name for name, rows in zip(shown, found, strict=True) if not rows)
    if missing:
        raise TableError(
            f"{table.source}: no row is about {some_of(missing)} (rows are found by {how}); add the missing "
            "rows, or leave these images out"
        )
    double = {name: rows for name, rows in zip(shown, found, strict=True) if len(rows) > 1}
    if double:
        first = " and ".join(str(row + 1) for row in next(iter(double.values()))[:2])
        raise TableError(
            f"{table.source}: more than one row is about {some_of(double)} (first rows {first}; rows "
            f"are found by {how}); keep one row, or tell them apart by a column such as session_id or path"
        )
    rows = tuple(rows[0] for rows in found)
    n_others = len(table.rows) - len(set(rows))
    others = "" if n_others == 0 else f"; {n_others} of {len(table.rows)} rows are about others and not used"
    return Match(rows, columns, f"{table.source}: rows matched by {how}{others}")


def _by_order(table: Table, names: Sequence[str], path_column: str | None) -> Match:
    """The rows as they come, if there are as many as samples and none of them names another file."""
    elsewhere = next((c for c in (path_column, *PATH_COLUMNS) if c is not None and c in table.columns), None)
    files = {file for name in names for file in files_of(name)}
    if elsewhere is not None and len(files) > 1 and all(os.path.splitext(file)[1] for file in files):
        raise TableError(
            f"{table.source}: no path in column {elsewhere} is that of a sample; the first row is about "
            f"{next(iter(table.column(elsewhere)), 'nothing')}, the first sample is {names[0]}"
        )
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
    nameless = samples_of_one_file(names) or all(UNNAMED.fullmatch(file) for file in files)
    numbers = list(_identifiers(table))
    surprising = not nameless or bool(numbers) or any(column in table.columns for column in IDENTIFYING)
    if numbers:
        sentence += f" (the names do not hold the numbers in column {' or '.join(numbers)})"
    if surprising:
        sentence += f"; a column {PARTICIPANT} (for files named sub-...) or path would match them by name"
    return Match(tuple(range(n_rows)), (), sentence, surprising)
