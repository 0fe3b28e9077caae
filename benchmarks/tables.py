"""Markdown tables, and how numbers are written in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Format a Markdown table; None is written as a dash."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join("–" if cell is None else str(cell) for cell in line) + " |" for line in lines
    )


def seconds(value: float | None, note: str = "") -> str:
    """Format a time; without one, return the note."""
    if value is None:
        return note or "–"
    if value < 1e-3:
        return f"{1e6 * value:.3g} us"
    if value < 0.1:
        return f"{1e3 * value:.2g} ms" if value < 0.01 else f"{1e3 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def times(value: float) -> str:
    """Format a ratio, such as "12x"."""
    return f"{value:.3g}x"


def each(values: Iterable[float], form: str) -> str:
    """Format the numbers of several components, separated by commas."""
    return ", ".join(format(value, form) for value in values)


# How the values of these columns are written; any other number has three digits.
FORMATS: dict[str, Callable[[Any], str]] = {
    **dict.fromkeys(("seconds", "first", "processor"), seconds),
    **dict.fromkeys(("ratio", "joint / deflation"), times),
    "share": lambda value: f"{value:.0%}",
    "zeros": lambda values: each(values, ".0%"),
    **dict.fromkeys(("gaps", "judged"), lambda values: each(values, ".1e")),
}


def cell(row: dict[str, Any], name: str) -> str | None:
    """Format one entry of a row; without a time, its note is shown, and its ratio is a lower bound."""
    value = row.get(name)
    if value is None:
        return row.get("note") if name == "seconds" else None
    if name in FORMATS:
        bound = "> " if name == "ratio" and row.get("seconds") is None else ""
        return bound + FORMATS[name](value)
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, list | tuple):
        return each(value, ",")
    return value if isinstance(value, str | bool) else f"{value:,}"


def table_of(rows: Sequence[dict[str, Any]]) -> str:
    """Format dictionaries as a table with a column for every key of theirs except ``note``."""
    names = list(dict.fromkeys(name for row in rows for name in row if name != "note"))
    return markdown(names, ([cell(row, name) for name in names] for row in rows))
