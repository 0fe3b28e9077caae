"""Samples that stay together: those with one label (`--groups`), or those of one person or file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from spcatv._util.bids import group_noun
from spcatv._util.matching import match_rows
from spcatv._util.tables import TABLE_SUFFIXES, Table, read_table
from spcatv.cli.bids import participants_of
from spcatv.cli.inputs import Source
from spcatv.cli.kinds import InputError
from spcatv.cli.options import SelectOptions
from spcatv.results import SampleSet

Labels = npt.NDArray[np.str_]
Tables = dict[Path, Table]
PLURAL = {"person": "people", "file": "files"}


@dataclass(frozen=True)
class Groups:
    """Which samples stay together."""

    # one per sample, equal for samples that stay together; None if all are on their own
    labels: Labels | None
    column: str | None = None  # the column of `--groups`
    remark: str = ""  # how its rows were found


def find_groups(options: SelectOptions, sources: Sequence[Source], tables: Tables) -> tuple[Path, str] | None:
    """The table and the column that `--groups` names; None without groups. The table is put into `tables`.

    If `groups` names no table, it is the table of confounds, the one among the positional arguments
    (`sources`) that names the images, or the participants of a BIDS dataset. An InputError says that no
    table has the column.
    """
    if options.groups is None:
        return None
    *named, column = options.groups
    files = [Path(table) for table in named] or _known_tables(options, sources)
    if not files:
        raise InputError(
            f"--groups {column}: name the table as well, as in --groups participants.tsv:{column}; only a "
            "table of confounds, or one that names all images, is taken without being named"
        )
    tables |= {file: read_table(file) for file in files}
    holding = [file for file in files if column in tables[file].columns]
    if not holding:
        tables[files[0]].column(str(column))  # raises an error that lists the columns
    return holding[0], str(column)


def _known_tables(options: SelectOptions, sources: Sequence[Source]) -> list[Path]:
    tables = [] if options.confounds is None else [options.confounds]
    only = sources[0] if len(sources) == 1 else ""
    if isinstance(only, str) and only.lower().endswith(TABLE_SUFFIXES):
        tables.append(Path(only).expanduser())
    participants = participants_of(options.bids)
    return tables if participants is None else [*tables, participants]


def find_labels(options: SelectOptions, samples: SampleSet, tables: Tables) -> Groups:
    """The samples that stay together.

    Labels are those of the column that `find_groups` has put into the options, and of the table that it has
    read; without them, the samples of one person, or of one file, stay together.
    """
    if options.groups is None:
        return Groups(None if samples.groups is None else np.array(samples.groups))
    file, column = options.groups
    table = tables[Path(file)]
    match = match_rows(table, samples.names, path_column=options.path_column, wanted=str(column))
    labels = np.array(table.complete_cells(str(column), match.rows))
    match.warn_if_guessed()
    return Groups(labels, str(column), match.remark)


def fold_count(options: SelectOptions, labels: Labels | None) -> int:
    """The number of folds: not more than there are people or files, unless the groups were asked for."""
    if options.groups is not None or labels is None:
        return options.cv
    return min(options.cv, len(set(labels)))


def groups_text(samples: SampleSet, groups: Groups | None = None) -> list[str]:
    """Which samples stay together in splits and resamples, in one line; no line if all are on their own."""
    if groups is not None and groups.column is not None:
        line = f"Groups: samples of one {groups.column} stay together in folds, resamples and halves"
        return [f"{line} ({groups.remark})" if groups.remark else line]
    labels = samples.groups
    if labels is None:
        return []
    kind = group_noun(samples.names, labels)
    return [
        f"Groups: {len(labels)} samples of {len(set(labels))} {PLURAL[kind]}; those of one {kind} stay "
        "together in folds, resamples and halves"
    ]
