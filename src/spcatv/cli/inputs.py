"""Files of every sample, from the positional arguments of the command line or from a BIDS dataset.

An argument may be a file, a folder, a pattern (``sub-*/anat/*.nii.gz``), a text file of names or patterns
(``.txt``, one per line) or a table (``.tsv``, ``.csv``) with a column of paths, or with the columns left and
right for surfaces.
"""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from spcatv._util.atomic_files import open_regular, read_text
from spcatv._util.matching import PATH_COLUMNS
from spcatv._util.tables import SPREADSHEETS, TABLE_SUFFIXES, Table, read_table
from spcatv.cli.app import BIDS_FILTERS
from spcatv.cli.parser import InputError

Source = str | tuple[str, ...]
SampleFiles = tuple[Path, ...]

LIST_SUFFIXES = (".txt",)
ARRAYS = (".npy", ".npz")
# files of netCDF, folders of Zarr
FIELD_SUFFIXES = (".nc", ".nc4", ".cdf", ".zarr")
# an Analyze or NIfTI pair is one image
HEADER, VALUES = ".hdr", ".img"
# Entries of subfolders that are searched to word an error.
MOST_LISTED = 1000
HEMISPHERE_COLUMNS = ("left", "right")


def sample_files(sources: Sequence[Source], *, path_column: str | None) -> tuple[SampleFiles, ...]:
    """Return the files of every sample: one file, or the two files of its hemispheres.

    The `sources` are files, folders, patterns, lists and tables, in the order of the samples; a pair is one
    sample. `path_column` names the column of a table that holds the paths; None looks for the usual names. An
    InputError names a file that does not exist or is given twice.
    """
    samples = [files for source in sources for files in _expand(source, path_column)]
    _refuse_repeats(samples)
    if not samples:
        raise InputError("no input: name images, or an array with --array")
    return tuple(samples)


def numbered(source: object, n_samples: int) -> tuple[str, ...]:
    """Return the names of samples that one source holds."""
    return tuple(f"{source}[{number}]" for number in range(n_samples))


def is_field(files: Sequence[SampleFiles] | None) -> bool:
    """Return whether xarray reads the files (NetCDF or Zarr); an InputError refuses a mixture."""
    kinds = {file.suffix.lower() in FIELD_SUFFIXES for sample in files or () for file in sample}
    if len(kinds) > 1:
        raise InputError("the files are of two kinds, NetCDF or Zarr and images; give one kind")
    return kinds == {True}


def _expand(source: Source, path_column: str | None, *, in_list: bool = False) -> Iterator[SampleFiles]:
    """Find the files of a path or a pattern; with `in_list`, a list names it, and it is no list itself."""
    if isinstance(source, tuple):
        yield tuple(_existing(Path(name)) for name in source)
        return
    file = Path(os.path.expanduser(source))
    found = [file]
    if not os.path.exists(file) and glob.has_magic(str(file)):
        found = [Path(match) for match in sorted(glob.glob(str(file), recursive=True))]
        if not found:
            raise InputError(f"no file matches {source!r}")
    for each in map(_existing, found):
        suffix = each.suffix.lower()
        if suffix in FIELD_SUFFIXES:
            yield (each,)
        elif each.is_dir():
            yield from _folder_images(each)
        elif suffix in LIST_SUFFIXES:
            if in_list:
                raise InputError(f"{each} is a list inside a list: name it on the command line")
            yield from _listed_files(each, path_column)
        elif suffix in (*TABLE_SUFFIXES, *SPREADSHEETS):
            yield from _table_files(read_table(each), path_column)
        elif suffix in ARRAYS:
            raise InputError(f"{each} is an array, not an image: give it with --array {each}")
        else:
            yield (each,)


def refuse_empty(file: Path) -> None:
    """Refuse a file of zero bytes."""
    if file.is_file() and not file.stat().st_size:  # or one that the system makes up while it is read
        with open_regular(file) as opened:
            if not opened.read(1):
                raise InputError(f"{file} is empty: it has 0 bytes")


def _existing(file: Path) -> Path:
    # unlike Path.exists, this does not raise for a name that is too long
    if not os.path.exists(file):
        link = f" (a link to {os.readlink(file)}, which does not exist)" if os.path.islink(file) else ""
        raise InputError(f"no such file: {file}{link}")
    return file


def _elsewhere(folder: Path, suffixes: tuple[str, ...]) -> str:
    """Suggest where the samples of a folder without images are; empty without a suggestion."""
    if (folder / "dataset_description.json").is_file():
        return f"; it is a BIDS dataset, which goes with --bids {folder}"
    inside = islice(folder.rglob("*"), MOST_LISTED)
    found = next((file for file in inside if file.name.lower().endswith(suffixes)), None)
    if found is not None:
        ending = next(suffix for suffix in suffixes[::-1] if found.name.lower().endswith(suffix))
        return f"; those of its subfolders are not read: give a pattern, such as '{folder}/**/*{ending}'"
    if any(file.suffix.lower() in ARRAYS for file in folder.iterdir()):
        return "; an array goes with --array FILE, one file with one sample per row"
    return ""


def _folder_images(folder: Path) -> Iterator[SampleFiles]:
    # imported here: images need an extra
    from spcatv.images.spaces import file_suffixes

    suffixes = file_suffixes()
    # a hidden file is no image: macOS writes one beside every file (._sub-01.nii.gz)
    images = sorted(
        file
        for file in folder.iterdir()
        if file.name.lower().endswith(suffixes) and not file.name.startswith(".") and not file.is_dir()
    )
    if not images:
        raise InputError(
            f"the folder {folder} holds no image ({', '.join(suffixes)}){_elsewhere(folder, suffixes)}"
        )
    yield from ((_existing(image),) for image in images)


def _listed_files(file: Path, path_column: str | None) -> Iterator[SampleFiles]:
    lines = read_text(file, "list of paths", InputError).splitlines()
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if not names:
        raise InputError(f"the list {file} is empty; it should hold one path per line")
    for name in names:
        yield from _expand(os.path.join(file.parent, os.path.expanduser(name)), path_column, in_list=True)


def _table_files(table: Table, path_column: str | None) -> Iterator[SampleFiles]:
    if path_column is None and set(HEMISPHERE_COLUMNS) <= set(table.columns):
        columns: tuple[str, ...] = HEMISPHERE_COLUMNS
    else:
        usual = (name for name in PATH_COLUMNS if name in table.columns)
        name = next(usual, None) if path_column is None else path_column
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


def _refuse_repeats(samples: Sequence[SampleFiles]) -> None:
    seen: dict[str, Path] = {}
    for file in (file for sample in samples for file in sample):
        name = os.path.realpath(file)
        if name.endswith(HEADER):
            name = name.removesuffix(HEADER) + VALUES
        other = seen.setdefault(name, file)
        if other is file:
            continue
        if other.suffix != file.suffix:
            raise InputError(
                f"{other} and {file} are the two files of one image; name one of them, such as '*{VALUES}'"
            )
        raise InputError(f"{file} is given twice" + ("" if other == file else f": {other} is the same file"))


def find_bids_images(options: argparse.Namespace) -> tuple[list[str], str]:
    """Return the images of ``--bids`` in the order of their names, and a line that describes them."""
    # imported here: images need an extra
    from spcatv.images.bids import bids_images, describe_images

    wanted = {name: getattr(options, name) or () for name in BIDS_FILTERS}
    for pair in wanted.pop("entity"):
        key, _, label = pair.partition("-")
        if not key or not label:
            raise InputError(f"--entity {pair}: write the name and the label of the entity, as in acq-mprage")
        wanted[key] = (*wanted.get(key, ()), label)
    files = bids_images(options.bids, **{key: labels for key, labels in wanted.items() if labels})
    return [str(file) for file in files], f"{options.bids}: {describe_images(files)}"


def participants_of(folder: Path | None) -> Path | None:
    """Return the table of participants of a BIDS dataset; None without a dataset or a table."""
    if folder is None:
        return None
    from spcatv.images.bids import participants_table

    return participants_table(folder)
