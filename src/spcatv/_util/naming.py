"""Names of scores: the same in tables, in DataFrames and in scikit-learn."""

from __future__ import annotations


def component_names(n_components: int) -> tuple[str, ...]:
    """The columns of a table of scores: ``component_1``, ``component_2``, ..."""
    return tuple(f"component_{number}" for number in range(1, n_components + 1))
