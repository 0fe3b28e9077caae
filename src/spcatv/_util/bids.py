"""BIDS entities in the names of samples, as in ``sub-01_run-2_bold.nii``, and samples selected by name.

The name of a sample is the path of its file, or the two paths of a pair of hemispheres joined by " + ".
Sample k of a file that holds several has ``[k]`` after it, or its date.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from spcatv._util.naming import some_of

PAIR = " + "
# Keys of entities, in the order of BIDS.
ENTITIES = (
    *("sub", "ses", "sample", "task", "tracksys", "acq", "nuc", "voi", "ce", "trc", "stain", "rec", "dir"),
    *("run", "mod", "echo", "flip", "inv", "mt", "part", "proc", "hemi", "space", "split", "recording"),
    *("chunk", "seg", "res", "den", "label", "desc"),
)
# Entities that names of folders may give as well: sub-01/ses-1/anat/T1w.nii
OF_FOLDERS = ("sub", "ses")
# Columns of tables of the entities that have another name there; their values keep the prefix.
COLUMNS = {"sub": "participant_id", "ses": "session_id"}
# Names of SurfStat's tutorial data begin with the participant: 32074_lh2fsaverage5_20.mgh
SURFSTAT = re.compile(r"(.+)_[lr]h2fsaverage")
# Samples of a field are named by their dates: sst.nc[1997-12-01]
DATED = re.compile(r"\[(\d{4,})-\d\d[^\]]*\]$")
DATE = re.compile(r"(?:^|\[)(\d{4}-\d\d(?:-\d\d(?:T[\d:]+)?)?)\]?$")
# Samples of fewer years are not grouped by year: too few groups for ten different halves.
LEAST_YEARS = 6
# Entities that get a column even if all samples share one value.
ALWAYS = ("sub", "ses", "run")


def files_of(name: str) -> list[str]:
    """Return the files of a sample: one, or one per hemisphere."""
    return re.sub(r"\[\d+\]$", "", name).split(PAIR)


def without_ending(file: str) -> str:
    """Return a path without its endings: ``.nii.gz``, ``.dscalar.nii``, ``.shape.gii``."""
    return re.sub(r"(\.(func|shape|surf|dscalar|dtseries))?\.[A-Za-z]+(\.gz)?$", "", file)


def samples_of_one_file(names: Sequence[str]) -> bool:
    """Return whether several samples all lie in one file."""
    return len(names) > 1 and len({tuple(files_of(name)) for name in names}) == 1


def entities_of(name: str) -> dict[str, str]:
    """Return the entities of a sample by their short names, such as ``{"sub": "01", "run": "2"}``.

    The name of the file counts before those of its folders. Entities in which the files of a pair differ
    (``hemi``) are left out.
    """
    first, *others = (_entities_of_file(file) for file in files_of(name))
    return {key: value for key, value in first.items() if all(other.get(key) == value for other in others)}


def _entities_of_file(file: str) -> dict[str, str]:
    *folders, base = re.split(r"[/\\]", file)
    found: dict[str, str] = {}
    tokens: list[tuple[str, tuple[str, ...]]] = [(token, ENTITIES) for token in re.split(r"[_.]", base)]
    tokens += [(f"sub-{label}", ENTITIES) for label in SURFSTAT.findall(base)]
    tokens += [(folder, OF_FOLDERS) for folder in reversed(folders)]
    for token, allowed in tokens:
        key, hyphen, value = token.partition("-")
        if hyphen and value and key in allowed:
            found.setdefault(key, value)
    return found


def sample_labels(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return labels of the samples that all differ, and the name of their column.

    These are the participants ("participant_id", ``sub-01``) if all names state theirs and no two are equal,
    otherwise the names of the files ("input"), with their folders if these tell the files apart.
    """
    people = [f"sub-{entities_of(name).get('sub', '')}" for name in names]
    if "sub-" not in people and len(set(people)) == len(names):
        return COLUMNS["sub"], people
    files = [PAIR.join(os.path.basename(file) for file in name.split(PAIR)) for name in names]
    return "input", files if len(set(files)) == len(names) else list(names)


def entity_columns(names: Sequence[str]) -> dict[str, list[str | None]]:
    """Return the entities of the samples as columns of a table; None where a name lacks the entity.

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
    """Return labels that are equal for samples of one year, one person or one file, whichever names give.

    None if no two samples belong together, or if all of them do.
    """
    for labels in _labels_by_noun(names).values():
        if 1 < len(set(labels)) < len(names):
            return tuple(labels)
        if len(set(labels)) == len(names):
            return None
    return None


def group_noun(names: Sequence[str], labels: Sequence[object]) -> str:
    """Return what the samples of one label share: "year", "person", "file" or "group"."""
    return next((noun for noun, own in _labels_by_noun(names).items() if own == list(labels)), "group")


def dates_of(names: Sequence[str]) -> npt.NDArray[np.datetime64] | None:
    """Return the dates of samples that are named by nothing but different dates, shape (n_samples,)."""
    found = [date[1] for name in names if (date := DATE.search(name))]
    return np.array(found, dtype="M8[s]") if len(set(found)) == len(names) > 1 else None


def _labels_by_noun(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the years, people and files of the samples, as far as all names give them."""
    dated = [found[1] for name in names if (found := DATED.search(name))]
    people = [f"sub-{person}" for name in names if (person := entities_of(name).get("sub"))]
    by_noun = {"year": dated if len(set(dated)) >= LEAST_YEARS else [], "person": people}
    whole = {noun: labels for noun, labels in by_noun.items() if len(labels) == len(names)}
    return whole | {"file": [PAIR.join(files_of(name)) for name in names]}


def kept_samples(names: Sequence[str], exclude: Sequence[str]) -> list[int]:
    """Return the numbers of the samples that are not excluded, in order.

    An excluded name is the name of a sample, a path, the name of a file with or without its ending, or a
    participant (``sub-07`` or ``07``), who may have several samples. A ValueError names what matches nothing,
    or what matches several files.
    """
    gone: set[int] = set()
    for wanted in exclude:
        gone |= _matching(str(wanted), names)
    kept = [number for number in range(len(names)) if number not in gone]
    if not kept:
        raise ValueError("exclude: no image is left; exclude fewer")
    return kept


def _matching(wanted: str, names: Sequence[str]) -> set[int]:
    """Return the samples of a name, by the first kind of name that any of them has."""
    kinds: dict[str, Callable[[str], set[str]]] = {
        "name": lambda name: {name},
        "path": lambda name: {os.path.abspath(file) for file in files_of(name)},
        "file": lambda name: {os.path.basename(file) for file in files_of(name)},
        "stem": lambda name: {without_ending(os.path.basename(file)) for file in files_of(name)},
        "participant": lambda name: {f"sub-{sub}" for key, sub in entities_of(name).items() if key == "sub"},
    }
    for kind, known in kinds.items():
        looked_for = {"path": os.path.abspath(wanted), "participant": f"sub-{wanted.removeprefix('sub-')}"}
        found = {number for number, name in enumerate(names) if looked_for.get(kind, wanted) in known(name)}
        if len(found) > 1 and kind != "participant":
            several = ", ".join(names[number] for number in sorted(found)[:5])
            raise ValueError(f"exclude: {wanted} could be any of {several}; give the path")
        if found:
            return found
    if re.search(r"\[\d+\]$", wanted):
        raise ValueError(f"exclude: {wanted}: single volumes cannot be left out, only whole files")
    some = some_of([os.path.basename(name) for name in names])
    raise ValueError(f"exclude: {wanted} is none of the {len(names)} images ({some})")
