"""Tables for people: columns that stand under each other."""

from __future__ import annotations

from collections.abc import Sequence


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay a table out in columns, the first one to the left and the others to the right.

    Parameters
    ----------
    header : sequence of str
        Headings.
    rows : sequence of sequences of str
        Cells, as many a row as there are headings.

    Returns
    -------
    str
        The headings, a rule, and a line a row; no line break at the end.
    """
    widths = [max(len(row[column]) for row in (header, *rows)) for column in range(len(header))]

    def line(cells: Sequence[str]) -> str:
        first, *others = (
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join([first, *others]).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
