"""Markdown tables and the way numbers are written in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def markdown(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table; None is written as a dash."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join("–" if cell is None else str(cell) for cell in line) + " |" for line in lines
    )


def seconds(value: float | None, note: str = "") -> str:
    """A time, or the note in its place."""
    if value is None:
        return note or "–"
    if value < 0.1:
        return f"{1e3 * value:.2g} ms" if value < 0.01 else f"{1e3 * value:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def times(value: float | None, *, at_least: bool = False) -> str | None:
    """A ratio, such as "12x"; "> 12x" where only a bound is known."""
    if value is None:
        return None
    return f"{'> ' if at_least else ''}{value:.3g}x"


def each(values: Iterable[float], form: str) -> str:
    """Numbers of several components, separated by commas."""
    return ", ".join(format(value, form) for value in values)


def limit_of(note: str) -> float | None:
    """The seconds of a note such as "> 60 s"."""
    return float(note.split()[1]) if note.startswith(">") else None


def skipped(result: dict[str, Any]) -> str:
    """The text for a section that was left out."""
    return f"Left out: {result['skipped']}."
