"""Columns of text in a table of confounds (sex, site, scanner) as columns of zeros and ones.

A column with the levels a < b < c becomes two columns: one where the value is b, one where it is c. New
images are coded with the levels of the fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray
from spcatv.images.loading import ImageError

# From a column of text to its values, sorted; the first is the reference level.
Levels = Mapping[str, tuple[str, ...]]


def indicator_name(column: str, level: str) -> str:
    """The name of the 0/1 column for one level of `column`."""
    return f"{column} = {level}"


def given_columns(names: Sequence[str], levels: Levels) -> list[str]:
    """The columns of the given table, from the names of the coded columns."""
    origin = {indicator_name(column, level): column for column in levels for level in levels[column]}
    return list(dict.fromkeys([*(origin.get(name, name) for name in names), *levels]))


def text_values(column: Any, name: str, source: str, where: Sequence[str]) -> list[str] | None:
    """The values of a DataFrame's column if it is text, else None; `where` names their rows in messages."""
    if column.dtype.kind in "biuf":
        return None
    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        raise ImageError(
            f"{source}: {len(missing)} values of column {name!r} are missing, first in {where[missing[0]]}; "
            "confounds must be complete"
        )
    values = column.tolist()
    if column.dtype.name == "category":
        return [str(value) for value in values]
    if not any(isinstance(value, str) for value in values):
        return None
    numbers = [_is_number(value) for value in values]
    if 0 < sum(numbers) < len(values) or not all(isinstance(value, str) for value in values):
        # the rarer of the two is probably the mistake
        odd = numbers.index(2 * sum(numbers) < len(values)) if len(set(numbers)) == 2 else 0
        raise ImageError(
            f"{source}: column {name!r} mixes numbers and text: {where[odd]} has {values[odd]!r}, unlike "
            "most others"
        )
    return values


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def levels_of(values: Sequence[str], name: str, source: str) -> tuple[str, ...]:
    """The sorted levels of a column of text; refused if they identify images rather than group them."""
    levels = tuple(sorted(set(values)))
    if len(levels) > 2 and 2 * len(levels) > len(values):
        raise ImageError(
            f"{source}: column {name!r} has {len(levels)} different values in {len(values)} rows (first "
            f"{values[0]!r}): it identifies images rather than groups of them; name the columns to use, or "
            "call it participant_id if it holds the participants of the file names (sub-...)"
        )
    return levels


def indicators(
    values: Sequence[str], levels: tuple[str, ...], name: str, source: str, where: Sequence[str]
) -> FloatArray:
    """Zeros and ones of shape (n_samples, n_levels - 1): one column per level except the first."""
    unknown = next((row for row, value in enumerate(values) if value not in levels), None)
    if unknown is not None:
        raise ImageError(
            f"{source}: {where[unknown]} has {name} {values[unknown]!r}, which the model was not fitted "
            f"with; it knows {', '.join(levels)}"
        )
    return (np.array(values)[:, None] == np.array(levels[1:])[None]).astype(np.float64)
