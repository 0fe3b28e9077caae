"""Tables with a header that users give: tab-separated (.tsv and others) or comma-separated (.csv)."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spcatv.cli.kinds import InputError

PATH_COLUMNS = ("path", "file", "filename", "image")
TABLE_SUFFIXES = (".tsv", ".csv")
MISSING = ("", "n/a", "na", "nan", "null", "none")


@dataclass(frozen=True)
class Table:
    """A table of strings."""

    file: Path
    columns: tuple[str, ...]  # names of the columns, all different
    rows: tuple[tuple[str, ...], ...]  # the cells, one tuple per row

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        if name not in self.columns:
            raise InputError(f"{self.file} has no column {name!r}; it has {', '.join(self.columns)}")
        position = self.columns.index(name)
        return [row[position] for row in self.rows]

    def complete_column(self, name: str) -> list[str]:
        """The cells of one column, none of which may be missing."""
        cells = self.column(name)
        for number, cell in enumerate(cells, start=1):
            if cell.lower() in MISSING:
                raise InputError(f"{self.file}: the value of {name} in row {number} is missing")
        return cells

    def path_column(self) -> str | None:
        """The column whose name says that it holds paths; None if there is none."""
        return next((name for name in PATH_COLUMNS if name in self.columns), None)


def read_table(file: Path) -> Table:
    """Read a table with a header; cells are stripped and stay strings."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot read the table {file} ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not a table: it is not a text file in UTF-8") from error
    delimiter = "," if file.suffix.lower() == ".csv" else "\t"
    lines = [
        tuple(cell.strip() for cell in line) for line in csv.reader(io.StringIO(text), delimiter=delimiter)
    ]
    lines = [line for line in lines if any(line)]
    if not lines:
        raise InputError(f"{file} is empty; it should hold a header and one row per sample")
    columns, *rows = lines
    for number, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            raise InputError(
                f"{file}: row {number} has {len(row)} cells, the header has {len(columns)} "
                f"(columns are separated by {'commas' if delimiter == ',' else 'tabs'})"
            )
    if len(set(columns)) != len(columns):
        raise InputError(f"{file}: a column name stands twice in the header ({', '.join(columns)})")
    return Table(file, columns, tuple(rows))


def selected_columns(table: Table, names: Sequence[str] | None) -> tuple[str, ...]:
    """The columns asked for, or by default all except one of paths; at least one."""
    chosen = [name for name in table.columns if name != table.path_column()] if names is None else list(names)
    if not chosen:
        raise InputError(f"{table.file} has no column beside that of the paths")
    return tuple(chosen)


def read_columns(table: Table, names: Sequence[str]) -> dict[str, list[float] | list[str]]:
    """The values of columns: numbers if all cells are numbers, otherwise text.

    An InputError names a column or a cell that is missing.
    """
    return {name: _values(table.complete_column(name)) for name in names}


def _values(cells: list[str]) -> list[float] | list[str]:
    try:
        return [float(cell) for cell in cells]
    except ValueError:
        return cells
