"""From what stands on the command line to the files of every sample.

A name may be a file, a folder, a pattern (``sub-*/anat/*.nii.gz``), a text file of names (``.txt``, one a
line) or a table (``.tsv``, ``.csv``) with a column of paths, or with the columns left and right for surfaces.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from spcatv.cli.errors import InputError
from spcatv.cli.tables import PATH_COLUMNS, TABLE_SUFFIXES, Table, read_table

Source = str | tuple[str, ...]
Row = tuple[Path, ...]

IMAGE_SUFFIXES = (".nii", ".nii.gz", ".img", ".mgh", ".mgz", ".gii", ".gii.gz")
LIST_SUFFIXES = (".txt",)
HEMISPHERE_COLUMNS = ("left", "right")


def sample_files(sources: Sequence[Source], *, path_column: str | None) -> tuple[Row, ...]:
    """Find the files that are meant.

    Parameters
    ----------
    sources : sequence of str, or of pairs of str
        Files, folders, patterns, lists and tables, in the order of the samples; a pair is a sample.
    path_column : str or None
        Column of a table that holds the paths; ``None`` looks for the usual names.

    Returns
    -------
    tuple of tuple of Path
        A file, or a pair of the left and the right hemisphere, in the order given.

    Raises
    ------
    InputError
        If a file is not there or is given twice; the message names it.
    """
    rows = [row for source in sources for row in _expand(source, path_column)]
    _refuse_repeats(rows)
    if not rows:
        raise InputError("no input: name images, or an array with --array")
    return tuple(rows)


def _expand(source: Source, path_column: str | None) -> Iterator[Row]:
    if isinstance(source, tuple):
        yield tuple(_existing(Path(name)) for name in source)
        return
    file = Path(os.path.expanduser(source))
    if not os.path.exists(file) and glob.has_magic(str(file)):
        matches = sorted(glob.glob(str(file), recursive=True))
        if not matches:
            raise InputError(f"no file matches {source!r}")
        for match in matches:
            yield from _expand_file(Path(match), path_column)
    else:
        yield from _expand_file(_existing(file), path_column)


def _expand_file(file: Path, path_column: str | None) -> Iterator[Row]:
    if file.is_dir():
        yield from _folder_images(file)
    elif file.suffix.lower() in LIST_SUFFIXES:
        yield from _listed_files(file, path_column)
    elif file.suffix.lower() in TABLE_SUFFIXES:
        yield from _table_files(read_table(file), path_column)
    else:
        yield (file,)


def _existing(file: Path) -> Path:
    # unlike Path.exists, this does not stumble over a name that is too long
    if not os.path.exists(file):
        raise InputError(f"no such file: {file}")
    return file


def _folder_images(folder: Path) -> Iterator[Row]:
    images = sorted(
        file for file in folder.iterdir() if file.name.lower().endswith(IMAGE_SUFFIXES) and file.is_file()
    )
    if not images:
        raise InputError(f"the folder {folder} holds no image ({', '.join(IMAGE_SUFFIXES)})")
    yield from ((image,) for image in images)


def _listed_files(file: Path, path_column: str | None) -> Iterator[Row]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise InputError(f"cannot read the list {file} ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{file} is not a list of paths: it is not a text file in UTF-8") from error
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not names:
        raise InputError(f"the list {file} is empty; it should hold a path a line")
    for name in names:
        yield from _expand(os.path.join(file.parent, os.path.expanduser(name)), path_column)


def _table_files(table: Table, path_column: str | None) -> Iterator[Row]:
    if path_column is None and set(HEMISPHERE_COLUMNS) <= set(table.columns):
        columns: tuple[str, ...] = HEMISPHERE_COLUMNS
    else:
        name = table.path_column() if path_column is None else path_column
        if name is None:
            raise InputError(
                f"{table.file} has no column of paths ({', '.join(PATH_COLUMNS)}); name one of "
                f"{', '.join(table.columns)} with --path-column"
            )
        columns = (name,)
    if not table.rows:
        raise InputError(f"the table {table.file} has a header but no row")
    for number, names in enumerate(zip(*map(table.column, columns), strict=True), start=1):
        if not all(names):
            raise InputError(f"{table.file}: the path in row {number} is missing")
        yield tuple(_existing(table.file.parent / os.path.expanduser(name)) for name in names)


def _refuse_repeats(rows: Sequence[Row]) -> None:
    seen: set[str] = set()
    for file in (file for row in rows for file in row):
        name = os.path.abspath(file)
        if name in seen:
            raise InputError(f"{file} is given twice")
        seen.add(name)
