"""Text tables: read the tables of users, and print aligned columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spcatv._util.atomic_files import read_text

TABLE_SUFFIXES = (".tsv", ".csv")
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
# Magnitude of a number in a table: the square of a larger one may overflow.
LARGEST_NUMBER = 1e150
# Separators of columns; the header decides. A .tsv file has the first, a .csv file the second.
DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
MISSING = ("", "n/a", "na", "nan", "null", "none")


class TableError(ValueError):
    """Error of a table that cannot be used, with a message of one line that names the table."""

    exit_code = 2  # of the command line


@dataclass(frozen=True)
class Table:
    """Table of strings."""

    file: Path  # paths in the table are relative to its folder
    columns: tuple[str, ...]  # names of the columns, all different
    rows: tuple[tuple[str, ...], ...]  # the cells, one tuple per row

    @property
    def source(self) -> str:
        """Name of the table in messages."""
        return str(self.file)

    def column(self, name: str) -> list[str]:
        """Return the cells of one column."""
        if name not in self.columns:
            raise TableError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}")
        position = self.columns.index(name)
        return [row[position] for row in self.rows]

    def complete_cells(self, name: str, rows: Sequence[int]) -> list[str]:
        """Return the cells of a column in some rows; a missing cell is an error."""
        column = self.column(name)
        for row in rows:
            if column[row].lower() in MISSING:
                about = "" if name == self.columns[0] else f" ({self.columns[0]} {self.rows[row][0]})"
                raise TableError(
                    f"{self.source}: the value of {name} in row {row + 1} is missing{about}; fill it in, or "
                    "leave out the sample that the row is about"
                )
        return [column[row] for row in rows]

    def values(self, name: str, rows: Sequence[int]) -> list[float] | list[str]:
        """Return the cells of `complete_cells`, as numbers if all of them are."""
        cells = self.complete_cells(name, rows)
        try:
            numbers = [number(cell) for cell in cells]
        except ValueError:
            self._refuse_decimal_commas(name, cells)
            return cells
        for row, found in zip(rows, numbers, strict=True):
            if abs(found) > LARGEST_NUMBER and math.isfinite(found):
                raise TableError(
                    f"{self.source}: the value of {name} in row {row + 1} is {found:g}; numbers up to "
                    f"{LARGEST_NUMBER:g} can be squared"
                )
        return numbers

    def _refuse_decimal_commas(self, name: str, cells: Sequence[str]) -> None:
        """Refuse numbers with a decimal comma, which would be read as text."""
        written = next((cell for cell in cells if DECIMAL_COMMA.fullmatch(cell)), None)
        if written is not None and all(DECIMAL_COMMA.fullmatch(cell) or _is_number(cell) for cell in cells):
            raise TableError(
                f"{self.source}: numbers of {name} have a decimal comma ({written}); write them with a "
                f"point ({written.replace(',', '.')})"
            )


def _is_number(cell: str) -> bool:
    try:
        number(cell)
    except ValueError:
        return False
    return True


def number(cell: str) -> float:
    """Return the number in a cell; a ValueError if it is not in plain digits (``1_000``, ``１２``)."""
    if "_" in cell or not cell.isascii():
        raise ValueError(f"{cell!r} is not a number")
    return float(cell)


def read_table(file: Path) -> Table:
    """Read a table with a header; cells are stripped and stay strings."""
    if file.suffix.lower() in SPREADSHEETS:
        raise TableError(f"{file} is a spreadsheet; save it as CSV, and name the .csv file")
    text = read_text(file, "table", TableError)
    delimiter = _delimiter(text, "," if file.suffix.lower() == ".csv" else "\t")
    try:
        lines = [
            tuple(cell.strip() for cell in line)
            for line in csv.reader(io.StringIO(text), delimiter=delimiter)
        ]
    except csv.Error as error:  # such as a cell of more than 131,072 characters
        raise TableError(f"{file} is not a table: {error}") from error
    lines = [line for line in lines if any(line)]
    if not lines:
        raise TableError(f"{file} is empty; it should hold a header and one row per sample")
    columns, *rows = lines
    for place, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            raise TableError(
                f"{file}: row {place} has {len(row)} cells, the header has {len(columns)} "
                f"(columns are separated by {DELIMITERS[delimiter]})"
            )
    if len(set(columns)) != len(columns):
        raise TableError(f"{file}: a column name stands twice in the header ({', '.join(columns)})")
    return Table(file, columns, tuple(rows))


def _delimiter(text: str, usual: str) -> str:
    """Return the separator of the columns: the usual one, unless header and first row have another."""
    header, first, *_ = [*(line for line in text.splitlines() if line.strip()), "", ""]
    if usual in header:
        return usual
    counts = {other: (header.count(other), first.count(other)) for other in DELIMITERS}
    return next((other for other, (above, below) in counts.items() if above == below > 0), usual)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table as text: headings, a rule, one line per row; the first column is aligned left."""
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
