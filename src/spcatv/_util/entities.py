"""Whom a sample is about: the BIDS entities in the name of its file, as in ``sub-01_run-2_bold.nii``.

The name of a sample is the path of its file, both paths of a pair of hemispheres joined by " + ", and ``[k]``
behind them for sample k of a file that holds several.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

PAIR = " + "
# what stands before the hyphen, in the order in which BIDS wants it
ENTITIES = (
    *("sub", "ses", "sample", "task", "tracksys", "acq", "nuc", "voi", "ce", "trc", "stain", "rec", "dir"),
    *("run", "mod", "echo", "flip", "inv", "mt", "part", "proc", "hemi", "space", "split", "recording"),
    *("chunk", "seg", "res", "den", "label", "desc"),
)
# entities that the names of folders may give as well: sub-01/ses-1/anat/T1w.nii
OF_FOLDERS = ("sub", "ses")
# columns of a table for the entities whose column BIDS gives another name; their values keep the prefix
COLUMNS = {"sub": "participant_id", "ses": "session_id"}
# entities that get a column even if all samples share one value
ALWAYS = ("sub", "ses", "run")


def files_of(name: str) -> list[str]:
    """The files of a sample: one, or one per hemisphere."""
    return re.sub(r"\[\d+\]$", "", name).split(PAIR)


def without_ending(file: str) -> str:
    """Return a path without its endings: ``.nii.gz``, ``.dscalar.nii``, ``.shape.gii``."""
    return re.sub(r"(\.(func|shape|surf|dscalar|dtseries))?\.[A-Za-z]+(\.gz)?$", "", file)


def samples_of_one_file(names: Sequence[str]) -> bool:
    """Whether there are several samples, and all of them lie in one file."""
    return len(names) > 1 and len({tuple(files_of(name)) for name in names}) == 1


def entities_of(name: str) -> dict[str, str]:
    """The entities of a sample by their short names, such as ``{"sub": "01", "run": "2"}``.

    The name of the file counts before those of its folders. Entities in which the files of a pair differ
    (``hemi``) are left out.
    """
    first, *others = (_entities_of_file(file) for file in files_of(name))
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _entities_of_file(file: str) -> dict[str, str]:
    *folders, base = re.split(r"[/\\]", file)
    found: dict[str, str] = {}
    tokens: list[tuple[str, tuple[str, ...]]] = [(token, ENTITIES) for token in re.split(r"[_.]", base)]
    tokens += [(folder, OF_FOLDERS) for folder in reversed(folders)]
    for token, allowed in tokens:
        key, hyphen, value = token.partition("-")
        if hyphen and value and key in allowed:
            found.setdefault(key, value)
    return found


def entity_columns(names: Sequence[str]) -> dict[str, list[str | None]]:
    """Columns of a table that say whom and what the samples are about; None where a name does not say it.

    ``participant_id`` ("sub-01"), ``session_id`` ("ses-1") and ``run`` are there if any name has them, other
    entities if they differ between samples. Empty if no name has entities.
    """
    found = [entities_of(name) for name in names]
    columns: dict[str, list[str | None]] = {}
    for key in ENTITIES:
        values = [entities.get(key) for entities in found]
        if (key in ALWAYS and any(values)) or len(set(values)) > 1:
            prefix = f"{key}-" if key in COLUMNS else ""
            columns[COLUMNS.get(key, key)] = [None if value is None else prefix + value for value in values]
    return columns


def natural_groups(names: Sequence[str]) -> tuple[str, ...] | None:
    """Labels of the samples that belong together: those of one person, otherwise those of one file.

    None if no two samples belong together, or if all of them do.
    """
    people = [entities_of(name).get("sub") for name in names]
    files = [PAIR.join(files_of(name)) for name in names]
    for labels in ([f"sub-{person}" for person in people] if all(people) else files, files):
        if 1 < len(set(labels)) < len(names):
            return tuple(labels)
        if len(set(labels)) == len(names):
            return None
    return None


def group_noun(names: Sequence[str], labels: Sequence[object]) -> str:
    """What the samples of one label share, in one word: a person, a file, or just a group."""
    people = [f"sub-{entities_of(name).get('sub')}" for name in names]
    files = [PAIR.join(files_of(name)) for name in names]
    given = list(labels)
    return "person" if given == people else "file" if given == files else "group"
