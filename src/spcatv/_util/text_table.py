"""Tables with a header that users give: columns are separated by tabs, commas or semicolons."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spcatv._util.files import read_text

TABLE_SUFFIXES = (".tsv", ".csv")
SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
# Bytes of a table, and magnitude of a number in it, beyond which something is wrong.
LARGEST_TABLE = 2**28
LARGEST_NUMBER = 1e150
# What may separate columns. The header decides; the first is what a .tsv has, the second what a .csv has.
DELIMITERS = {"\t": "tabs", ",": "commas", ";": "semicolons"}
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
MISSING = ("", "n/a", "na", "nan", "null", "none")


class TableError(ValueError):
    """A table cannot be used; one line names the table and says why."""

    exit_code = 2  # of the command line


@dataclass(frozen=True)
class Table:
    """A table of strings."""

    file: Path  # paths in the table are relative to its folder
    columns: tuple[str, ...]  # names of the columns, all different
    rows: tuple[tuple[str, ...], ...]  # the cells, one tuple per row

    @property
    def source(self) -> str:
        """What messages call the table."""
        return str(self.file)

    def column(self, name: str) -> list[str]:
        """The cells of one column."""
        if name not in self.columns:
            raise TableError(f"{self.source} has no column {name!r}; it has {', '.join(self.columns)}")
        position = self.columns.index(name)
        return [row[position] for row in self.rows]

    def complete_cells(self, name: str, rows: Sequence[int]) -> list[str]:
        """The cells of a column in some rows, none of which may be missing."""
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
        """As `complete_cells`, but numbers if all of the cells can be."""
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
        """Refuse numbers that would be taken for text, each of them a group of its own."""
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
    """The number in a cell; a ValueError if it is not written in plain digits (``1_000``, ``１２``)."""
    if "_" in cell or not cell.isascii():
        raise ValueError(f"{cell!r} is not a number")
    return float(cell)


def read_table(file: Path) -> Table:
    """Read a table with a header; cells are stripped and stay strings."""
    if file.suffix.lower() in SPREADSHEETS:
        raise TableError(f"{file} is a spreadsheet; save it as CSV, and name the .csv file")
    text = read_text(file, "table", TableError, largest=LARGEST_TABLE)
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
    for number, row in enumerate(rows, start=1):
        if len(row) != len(columns):
            raise TableError(
                f"{file}: row {number} has {len(row)} cells, the header has {len(columns)} "
                f"(columns are separated by {DELIMITERS[delimiter]})"
            )
    if len(set(columns)) != len(columns):
        raise TableError(f"{file}: a column name stands twice in the header ({', '.join(columns)})")
    return Table(file, columns, tuple(rows))


def _delimiter(text: str, usual: str) -> str:
    """What separates the columns: what is usual, unless header and first row have something else instead."""
    header, first, *_ = [*(line for line in text.splitlines() if line.strip()), "", ""]
    if usual in header:
        return usual
    counts = {other: (header.count(other), first.count(other)) for other in DELIMITERS}
    return next((other for other, (above, below) in counts.items() if above == below > 0), usual)
