"""Tables with a header that users give: tab-separated (.tsv and others) or comma-separated (.csv)."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spcatv._util.files import read_text

TABLE_SUFFIXES = (".tsv", ".csv")
# Bytes of a table, and magnitude of a number in it, beyond which something is wrong.
LARGEST_TABLE = 2**28
LARGEST_NUMBER = 1e150
MISSING = ("", "n/a", "na", "nan", "null", "none")


class TableError(ValueError):
    """A table cannot be used; one line names the table and says why."""


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
                raise TableError(f"{self.source}: the value of {name} in row {row + 1} is missing")
        return [column[row] for row in rows]

    def values(self, name: str, rows: Sequence[int]) -> list[float] | list[str]:
        """As `complete_cells`, but numbers if all of the cells can be."""
        cells = self.complete_cells(name, rows)
        try:
            numbers = [number(cell) for cell in cells]
        except ValueError:
            return cells
        for row, found in zip(rows, numbers, strict=True):
            if abs(found) > LARGEST_NUMBER and math.isfinite(found):
                raise TableError(
                    f"{self.source}: the value of {name} in row {row + 1} is {found:g}; numbers up to "
                    f"{LARGEST_NUMBER:g} can be squared"
                )
        return numbers


def number(cell: str) -> float:
    """The number in a cell; a ValueError if it is not written in plain digits (``1_000``, ``１２``)."""
    if "_" in cell or not cell.isascii():
        raise ValueError(f"{cell!r} is not a number")
    return float(cell)


def read_table(file: Path) -> Table:
    """Read a table with a header; cells are stripped and stay strings."""
    text = read_text(file, "table", TableError, largest=LARGEST_TABLE)
    delimiter = "," if file.suffix.lower() == ".csv" else "\t"
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
                f"(columns are separated by {'commas' if delimiter == ',' else 'tabs'})"
            )
    if len(set(columns)) != len(columns):
        raise TableError(f"{file}: a column name stands twice in the header ({', '.join(columns)})")
    return Table(file, columns, tuple(rows))
