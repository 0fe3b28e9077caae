"""Samples that stay together (`--groups`): a column of a table with one label per sample."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv.cli.images import check_order
from spcatv.cli.inputs import SampleFiles, Source
from spcatv.cli.kinds import InputError
from spcatv.cli.options import SelectOptions
from spcatv.cli.tables import TABLE_SUFFIXES, read_table

Labels = npt.NDArray[np.str_]


def find_groups(options: SelectOptions, sources: Sequence[Source]) -> tuple[Path, str] | None:
    """The table and the column that `--groups` names; None without groups.

    If `groups` names no table, it is the table of confounds, or the one among the positional arguments
    (`sources`) that names the images. An InputError says that no table has the column.
    """
    if options.groups is None:
        return None
    *named, column = options.groups
    tables = [Path(table) for table in named] or _known_tables(options, sources)
    if not tables:
        raise InputError(
            f"--groups {column}: name the table as well, as in --groups participants.tsv:{column}; only a "
            "table of confounds, or one that names all images, is taken without being named"
        )
    known = {table: read_table(table) for table in tables}
    holding = [file for file, table in known.items() if column in table.columns]
    if not holding:
        known[tables[0]].column(str(column))  # raises an error that lists the columns
    return holding[0], str(column)


def _known_tables(options: SelectOptions, sources: Sequence[Source]) -> list[Path]:
    tables = [] if options.confounds is None else [options.confounds]
    only = sources[0] if len(sources) == 1 else ""
    if isinstance(only, str) and only.lower().endswith(TABLE_SUFFIXES):
        tables.append(Path(only).expanduser())
    return tables


def group_labels(
    groups: tuple[Any, ...] | None, n_samples: int, samples: Sequence[SampleFiles] | None
) -> Labels | None:
    """Read the label of every sample from the table and column that `find_groups` returned.

    A table with a column of paths must list the files of the `samples` in their order. An InputError says
    that the table has another number of rows or another order, or that a label is missing.
    """
    if groups is None:
        return None
    file, column = groups
    table = read_table(file)
    if len(table.rows) != n_samples:
        raise InputError(f"{file} has {len(table.rows)} rows, but {n_samples} samples were read")
    if samples is not None:
        check_order(table, samples)
    return np.array(table.complete_column(column))
