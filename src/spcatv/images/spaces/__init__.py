"""Image formats, and the one of given images."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import kept_samples
from spcatv.images.files import ImageError, image_errors, image_name, is_path
from spcatv.images.spaces.base import Space
from spcatv.images.spaces.cifti import CiftiSpace
from spcatv.images.spaces.surface import SurfaceSpace
from spcatv.images.spaces.volume import VolumeSpace

# The first space that recognises an image opens it. Volumes come last: they take anything else, and raise
# the error about it.
SPACES: tuple[type[Space], ...] = (CiftiSpace, SurfaceSpace, VolumeSpace)


def space_named(kind: str) -> type[Space]:
    """Return the space of a kind, as it is named in a model folder; KeyError if there is none."""
    return {space.kind: space for space in SPACES}[kind]


def file_suffixes() -> tuple[str, ...]:
    """Return the endings of the files that are taken from a folder of images."""
    return tuple(dict.fromkeys(suffix for space in reversed(SPACES) for suffix in space.suffixes))


def _listed(imgs: Any) -> Any:
    """Return a pattern or an iterator as a list, a mapping by hemisphere as it is; refuse anything else."""
    if isinstance(imgs, Mapping):
        return imgs
    if isinstance(imgs, np.ndarray):
        raise ImageError(f"an array of shape {imgs.shape} is not an image; spcatv.SPCATV takes arrays")
    if isinstance(imgs, str) and glob.has_magic(imgs) and not Path(imgs).exists():
        found = sorted(glob.glob(imgs))
        if not found:
            raise ImageError(f"{imgs}: no file matches")
        return found
    if is_path(imgs) or hasattr(imgs, "shape") or hasattr(imgs, "darrays"):
        return [imgs]
    try:
        items = list(imgs)
    except TypeError:
        raise ImageError(
            f"images are files, image objects or lists of them, got {type(imgs).__name__}"
        ) from None
    if not items:
        raise ImageError("no image was given")
    return items


def _space_of(imgs: Any, surface: Any) -> type[Space]:
    """Return the format of images, which must all have one; `surface` holds the meshes given with them."""
    items = [imgs] if isinstance(imgs, Mapping) else imgs
    spaces = [next(space for space in SPACES if space.recognises(item, surface)) for item in items]
    for number, space in enumerate(spaces):
        if space is not spaces[0]:
            raise ImageError(
                f"{image_name(items[number], number)}: is a {space.kind} image, but the first one, "
                f"{image_name(items[0], 0)}, is a {spaces[0].kind} image; all must be of one kind"
            )
    return spaces[0]


def choose_images(imgs: Any, exclude: str | Sequence[str], surface: Any) -> tuple[type[Space], list[Any]]:
    """Return the format of images and one item per image, without those that `exclude` names.

    `surface` holds the meshes that were given with them, or None (`spcatv._util.bids` about names).
    """
    given = _listed(imgs)
    space = _space_of(given, surface)
    items = space.list_images(given)
    names = [exclude] if isinstance(exclude, str) else list(exclude)
    if names:
        known = [image_name(item, number) for number, item in enumerate(items)]
        with image_errors(ValueError):
            items = [items[number] for number in kept_samples(known, names)]
    return space, items
