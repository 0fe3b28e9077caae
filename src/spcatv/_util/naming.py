"""Names of scores, the same in tables, DataFrames and scikit-learn; and many names in one message."""

from __future__ import annotations

from collections.abc import Iterable


def component_names(n_components: int) -> tuple[str, ...]:
    """Return the columns of a table of scores: ``component_1``, ``component_2``, ..."""
    return tuple(f"component_{number}" for number in range(1, n_components + 1))


def some_of(names: Iterable[str], most: int = 5, separator: str = ", ") -> str:
    """Return the first names and the number of others as text: "a, b and 3 more"."""
    known = list(names)
    more = f" and {len(known) - most} more" if len(known) > most else ""
    return separator.join(known[:most]) + more
