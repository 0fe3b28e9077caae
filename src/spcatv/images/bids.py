"""Images of a BIDS dataset, chosen by the entities in their names (``sub-01_space-MNI_desc-x_T1w.nii.gz``).

Every part ``key-value`` of a name is an entity; the last part is the suffix (``T1w``) and the extension
(``.nii.gz``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spcatv._util.naming import some_of
from spcatv.images.files import ImageError
from spcatv.images.spaces import file_suffixes

DESCRIPTION = "dataset_description.json"
PARTICIPANTS = "participants.tsv"
SUFFIX, EXTENSION = "suffix", "extension"
# filters with a longer name than the entity in a file name
KEYS = {"subject": "sub", "session": "ses"}
# value of a filter that selects names without the entity
NONE = "none"
# entities in which samples may differ: people, visits, runs and hemispheres
OF_SAMPLES = ("sub", "ses", "sample", "task", "acq", "ce", "trc", "dir", "run", "hemi")
# entities in which samples may never differ, because their values could not be compared
OF_SPACES = ("space", "res", "den")
# endings of images without values of samples: meshes, labels and connections
NO_SAMPLES = (".surf.gii", ".label.gii", ".dlabel.nii", ".dconn.nii", ".plabel.nii")
N_SHOWN = 8  # values of an entity that a message lists


def bids_images(folder: str | Path, **filters: str | int | Sequence[str | int] | None) -> list[Path]:
    """Find the images of a BIDS dataset, such as the derivatives of fMRIPrep.

    Parameters
    ----------
    folder : path
        The folder with ``dataset_description.json``.
    **filters : str, int or sequence of them
        Wanted values by entity: ``subject``, ``session``, ``task``, ``run``, ``hemi``, ``space``, ``res``,
        ``den``, ``label``, ``desc``, ``suffix``, ``extension``, or any other key of the file names.
        Several values mean any of them, ``"none"`` means names without the entity, and None any value.

    Returns
    -------
    list of Path
        Sorted by name. People, sessions, tasks, acquisitions, directions, runs and hemispheres may differ;
        all else is the same for all images, unless several values of it are given.

    Raises
    ------
    ImageError
        If the folder is not a BIDS dataset, if no image has a wanted value, or if the matching
        images differ in another entity, such as their space.

    Examples
    --------
    >>> from spcatv import ImageSPCATV
    >>> from spcatv.images import bids_images
    >>> maps = bids_images("derivatives/vbm", space="MNI152NLin2009cAsym", desc="smoothwm")
    >>> model = ImageSPCATV(n_components=3).fit(maps, confounds="derivatives/vbm/participants.tsv")
    """
    root = Path(folder).expanduser()
    images = _images_below(root)
    wanted = {
        KEYS.get(name, name): [str(v) for v in ([given] if isinstance(given, str | int) else given)]
        for name, given in filters.items()
        if given not in (None, (), [])
    }
    left = images
    for key, texts in wanted.items():
        values = set().union(*(_present(key, text, images) for text in texts))
        left = left[_values(left, key).isin(values)]
    for key, texts in wanted.items():
        for text in texts:
            if not _values(left, key).isin(_present(key, text, images)).any():
                raise ImageError(_no_match(root, key, text, wanted, images))
    _refuse_mixture(root, wanted, _entity_table(list(left.index)))
    absent = next((path for path in left.index if not path.exists()), None)
    if absent is not None:
        raise ImageError(f"{absent}: is a link to a file that is not here; fetch it first (datalad get)")
    return list(left.index)


def participants_table(folder: Path) -> Path | None:
    """Return the table of participants of a BIDS dataset, or of the dataset that it is derived from."""
    place = Path(os.path.abspath(folder.expanduser()))
    above = [place.parent.parent] if place.parent.name == "derivatives" else []
    tables = (each / PARTICIPANTS for each in (place, *above))
    return next((table for table in tables if table.is_file()), None)


def describe_images(files: Sequence[Path]) -> str:
    """Return the number of images and people, and the values of their entities, in one line."""
    images = _entity_table(files)
    n_people = images["sub"].nunique()
    parts = [f"{key} {_listed(images[key])}" for key in images if key != "sub"]
    people = "1 person" if n_people == 1 else f"{n_people} people"
    count = "1 image" if len(images) == 1 else f"{len(images)} images"
    return f"{count} of {people}: {', '.join(parts)}"


def _entity_table(files: Sequence[Path]) -> Any:
    """Return a DataFrame with a row per file and a column per entity, suffix and extension at the end."""
    import pandas as pd  # comes with nilearn

    rows = []
    for file in files:
        *parts, last = file.name.split("_")
        suffix, dot, extension = last.partition(".")
        pairs = (part.partition("-") for part in parts)
        entities = {key: value for key, hyphen, value in pairs if hyphen and value}
        rows.append({**entities, SUFFIX: suffix, EXTENSION: dot + extension})
    table = pd.DataFrame(rows, index=files).fillna(NONE)
    return table[[*table.columns.drop([SUFFIX, EXTENSION]), SUFFIX, EXTENSION]]


def _values(images: Any, key: str) -> Any:
    """Return the values of an entity, also of one that no name has."""
    return images.reindex(columns=[key], fill_value=NONE)[key]


def _images_below(root: Path) -> Any:
    """Return the entities of the images below the folders of participants, sorted by path."""
    if not root.is_dir():
        raise ImageError(f"{root}: no such folder")
    if not (root / DESCRIPTION).is_file():
        raise ImageError(f"{root}: is not a BIDS dataset: it has no {DESCRIPTION}{_datasets_near(root)}")
    endings = file_suffixes()
    images = [
        file
        for person in sorted(root.glob("sub-*"))
        for file in sorted(person.rglob("*"))
        if file.name.startswith("sub-")
        and file.name.lower().endswith(endings)
        and not file.name.endswith(NO_SAMPLES)
        and not file.is_dir()
    ]
    if not images:
        raise ImageError(
            f"{root}: no folder sub-... holds an image called sub-... ({', '.join(endings)})"
            f"{_datasets_near(root)}"
        )
    return _entity_table(images)


def _datasets_near(root: Path) -> str:
    """Describe BIDS datasets above or below a folder, for a message."""
    place = Path(os.path.abspath(root))
    above = [folder for folder in list(place.parents)[:3] if (folder / DESCRIPTION).is_file()]
    below = [file.parent for depth in ("*", "*/*") for file in sorted(root.glob(f"{depth}/{DESCRIPTION}"))]
    near = _listed(map(str, [*below, *above]))
    return f"; near it, there are {near}" if near else ""


def _present(key: str, text: str, images: Any) -> set[str]:
    """Return the values of an entity that match a text: equal, with their prefix, or with other zeros."""
    values = set(_values(images, key))
    plain = text.removeprefix(f"{key}-")
    if key == EXTENSION:
        plain = "." + plain.removeprefix(".")
    if plain in values or not plain.isdecimal():
        return {plain}
    return {value for value in values if value.isdecimal() and int(value) == int(plain)}


def _no_match(root: Path, key: str, missing: str, wanted: Mapping[str, Sequence[str]], images: Any) -> str:
    others = [f"{name} {' or '.join(texts)}" for name, texts in wanted.items() if name != key]
    also = f" (with {', '.join(others)})" if others else ""
    there = "; ".join(f"{name}: {_listed(images[name])}" for name in images)
    return (
        f"{root}: no image has {key} {missing}{also}; the names of the {len(images)} images there have "
        f"{there}"
    )


def _refuse_mixture(root: Path, asked: Iterable[str], left: Any) -> None:
    """Refuse images that differ in more than person, visit, run or hemisphere."""
    several = {
        key: _listed(left[key])
        for key in (SUFFIX, EXTENSION, *left.columns[:-2])
        if left[key].nunique() > 1 and key not in OF_SAMPLES and (key not in asked or key in OF_SPACES)
    }
    if several:
        shown = "; ".join(f"{key}: {values}" for key, values in several.items())
        raise ImageError(
            f"{root}: {len(left)} images match, but they are of different kinds ({shown}); choose by "
            f"{' and '.join(several)}" + (f", {NONE} for names without it" if NONE in shown else "")
        )
    hemispheres = set(_values(left, "hemi"))
    if NONE in hemispheres and len(hemispheres) > 1:
        raise ImageError(f"{root}: some images are of one hemisphere and some of none; choose one hemi")


def _listed(values: Iterable[str]) -> str:
    """Join the first different values, sorted, and count the others."""
    different = sorted(set(values), key=lambda value: (value == NONE, value))
    return some_of(different, N_SHOWN)
