"""Images of a BIDS dataset, chosen by the entities in their names (``sub-01_space-MNI_desc-x_T1w.nii.gz``).

Every part ``key-value`` of a name is an entity; the last part is the suffix (``T1w``) and the extension
(``.nii.gz``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True)
class _Image:
    path: Path
    entities: Mapping[str, str]  # with suffix and extension

    def value(self, key: str) -> str:
        return self.entities.get(key, NONE)


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
        if given is not None
    }
    asked = {key: [_present(key, text, images) for text in texts] for key, texts in wanted.items()}
    left = [image for image in images if all(image.value(key) in set().union(*asked[key]) for key in asked)]
    for key, texts in wanted.items():
        found = {image.value(key) for image in left}
        for text, values in zip(texts, asked[key], strict=True):
            if not found & values:
                raise ImageError(_no_match(root, key, text, wanted, images))
    _refuse_mixture(root, asked, left)
    absent = next((image.path for image in left if not image.path.exists()), None)
    if absent is not None:
        raise ImageError(f"{absent}: is a link to a file that is not here; fetch it first (datalad get)")
    return [image.path for image in left]


def participants_table(folder: Path) -> Path | None:
    """Return the table of participants of a BIDS dataset, or of the dataset that it is derived from."""
    place = Path(os.path.abspath(folder.expanduser()))
    above = [place.parent.parent] if place.parent.name == "derivatives" else []
    tables = (each / PARTICIPANTS for each in (place, *above))
    return next((table for table in tables if table.is_file()), None)


def describe_images(files: Sequence[Path]) -> str:
    """Return the number of images and people, and the values of their entities, in one line."""
    images = [_named(file) for file in files]
    n_people = len({image.value("sub") for image in images})
    parts = [
        f"{key} {_listed(image.value(key) for image in images)}" for key in _keys(images) if key != "sub"
    ]
    people = "1 person" if n_people == 1 else f"{n_people} people"
    count = "1 image" if len(images) == 1 else f"{len(images)} images"
    return f"{count} of {people}: {', '.join(parts)}"


def _named(file: Path) -> _Image:
    *parts, last = file.name.split("_")
    suffix, dot, extension = last.partition(".")
    pairs = (part.partition("-") for part in parts)
    entities = {key: value for key, hyphen, value in pairs if hyphen and value}
    return _Image(file, {**entities, SUFFIX: suffix, EXTENSION: dot + extension})


def _images_below(root: Path) -> list[_Image]:
    """Return the images below the folders of participants, sorted by path."""
    if not root.is_dir():
        raise ImageError(f"{root}: no such folder")
    if not (root / DESCRIPTION).is_file():
        raise ImageError(f"{root}: is not a BIDS dataset: it has no {DESCRIPTION}{_datasets_near(root)}")
    endings = file_suffixes()
    images = [
        _named(file)
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
    return images


def _datasets_near(root: Path) -> str:
    """Describe BIDS datasets above or below a folder, for a message."""
    place = Path(os.path.abspath(root))
    above = [folder for folder in list(place.parents)[:3] if (folder / DESCRIPTION).is_file()]
    below = [file.parent for depth in ("*", "*/*") for file in sorted(root.glob(f"{depth}/{DESCRIPTION}"))]
    near = _listed(map(str, [*below, *above]))
    return f"; near it, there are {near}" if near else ""


def _present(key: str, text: str, images: Sequence[_Image]) -> set[str]:
    """Return the values of an entity that match a text: equal, with their prefix, or with other zeros."""
    values = {image.value(key) for image in images}
    plain = text.removeprefix(f"{key}-")
    if key == EXTENSION:
        plain = "." + plain.removeprefix(".")
    if plain in values or not plain.isdecimal():
        return {plain}
    return {value for value in values if value.isdecimal() and int(value) == int(plain)}


def _no_match(
    root: Path, key: str, missing: str, wanted: Mapping[str, Sequence[str]], images: Sequence[_Image]
) -> str:
    others = [f"{name} {' or '.join(texts)}" for name, texts in wanted.items() if name != key]
    also = f" (with {', '.join(others)})" if others else ""
    there = "; ".join(f"{name}: {_listed(image.value(name) for image in images)}" for name in _keys(images))
    return (
        f"{root}: no image has {key} {missing}{also}; the names of the {len(images)} images there have "
        f"{there}"
    )


def _refuse_mixture(root: Path, asked: Iterable[str], left: Sequence[_Image]) -> None:
    """Refuse images that differ in more than person, visit, run or hemisphere."""
    several = {
        key: _listed(image.value(key) for image in left)
        for key in (SUFFIX, EXTENSION, *_keys(left)[:-2])
        if len({image.value(key) for image in left}) > 1
        and key not in OF_SAMPLES
        and (key not in asked or key in OF_SPACES)
    }
    if several:
        shown = "; ".join(f"{key}: {values}" for key, values in several.items())
        raise ImageError(
            f"{root}: {len(left)} images match, but they are of different kinds ({shown}); choose by "
            f"{' and '.join(several)}" + (f", {NONE} for names without it" if NONE in shown else "")
        )
    hemispheres = {image.value("hemi") for image in left}
    if NONE in hemispheres and len(hemispheres) > 1:
        raise ImageError(f"{root}: some images are of one hemisphere and some of none; choose one hemi")


def _keys(images: Sequence[_Image]) -> list[str]:
    """Return all entities of the names, in their order; suffix and extension at the end."""
    keys = dict.fromkeys(key for image in images for key in image.entities)
    return [*(key for key in keys if key not in (SUFFIX, EXTENSION)), SUFFIX, EXTENSION]


def _listed(values: Iterable[str]) -> str:
    """Join the first different values, sorted, and count the others."""
    different = sorted(set(values), key=lambda value: (value == NONE, value))
    return some_of(different, N_SHOWN)
