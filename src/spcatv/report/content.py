"""Parts of the sections of the page: tables, pictures, and a section with one of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spcatv.report.figures import svg_uri


@dataclass(frozen=True)
class Head:
    """Heading of a column; columns of text are aligned to the left."""

    name: str
    text: bool = False


@dataclass(frozen=True)
class Table:
    """Table whose first column names its rows."""

    caption: str
    columns: tuple[Head, ...]
    rows: tuple[tuple[str, ...], ...]
    id: str = ""  # for links and tests; empty for none
    summary: str = ""  # text to show while the table is folded
    long: bool = False  # whether the names of the rows may be long, such as file names


@dataclass(frozen=True)
class Chart:
    """Picture with its alternative text and caption."""

    image: str
    alt: str
    caption: str
    photo: bool = False  # whether it keeps its colours on a dark page: a brain, rather than lines and axes


@dataclass(frozen=True)
class Section:
    """Text, picture and table of a section."""

    text: str
    chart: Chart
    table: Table


def chart(figure: object, alt: str, caption: str, *, photo: bool = False) -> Chart:
    """Convert a matplotlib figure to a picture for the page."""
    return Chart(svg_uri(figure), alt, caption, photo)  # type: ignore[arg-type]


def component_table(
    caption: str, columns: Mapping[str, Sequence[str]], *, id: str, text: Sequence[str] = ()
) -> Table:
    """Create a table with one row per component from its columns; the columns in `text` hold text."""
    cells = enumerate(zip(*columns.values(), strict=True), start=1)
    rows = tuple((str(number), *row) for number, row in cells)
    return Table(caption, heads("Component", *columns, text=text), rows, id=id)


def heads(*names: str, text: Sequence[str] = ()) -> tuple[Head, ...]:
    """Create headings of columns; the columns in `text` hold text."""
    return tuple(Head(name, name in text) for name in names)
