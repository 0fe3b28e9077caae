"""Image formats, and the one of given images."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import PAIR, kept_samples
from spcatv.images.files import ImageError, image_errors, image_name, is_path
from spcatv.images.spaces.base import Space
from spcatv.images.spaces.cifti import CiftiSpace
from spcatv.images.spaces.overlays import by_hemisphere
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


def listed(imgs: Any) -> Any:
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


def space_of(imgs: Any, surface: Any) -> type[Space]:
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


def without(imgs: Any, exclude: str | Sequence[str], surface: Any) -> Any:
    """Return the images without those that `exclude` names (`spcatv._util.bids`)."""
    names = [exclude] if isinstance(exclude, str) else list(exclude)
    if not names:
        return imgs
    # a pair of hemispheres is one image, and only paths name overlays
    pairs = space_of(imgs, surface) is SurfaceSpace and not any(hasattr(item, "mesh") for item in imgs)
    columns = by_hemisphere(imgs) if pairs else {"": imgs}
    rows = list(zip(*columns.values(), strict=True))
    known = [PAIR.join(image_name(item, number) for item in row) for number, row in enumerate(rows)]
    with image_errors(ValueError):
        kept = kept_samples(known, names)
    chosen = {hemi: [items[number] for number in kept] for hemi, items in columns.items()}
    return chosen if pairs else chosen[""]
