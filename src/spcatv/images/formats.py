"""What kind of images a user gave: volumes, surfaces or CIFTI-2."""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from spcatv.images.errors import ImageError
from spcatv.images.loading import image_name, is_curv, is_path
from spcatv.images.overlays import hemisphere_of

CIFTI_NAME = re.compile(r"\.(dscalar|dtseries|dlabel)\.nii$", re.IGNORECASE)
SURFACE_NAMES = (".gii", ".gii.gz")
EITHER_NAMES = (".mgh", ".mgz")
VOLUME_NAMES = (".nii", ".nii.gz", ".img", ".img.gz", ".hdr")


def listed(imgs: Any) -> Any:
    """Spread out what may be a pattern of file names or an iterator; refuse what is no image at all."""
    if isinstance(imgs, Mapping):
        return imgs
    if isinstance(imgs, np.ndarray):
        raise ImageError(f"an array of shape {imgs.shape} is no image; spcatv.SPCATV takes arrays")
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


def kind_of(imgs: Any, surface: Any) -> str:
    """Say "volume", "surface" or "cifti"; `imgs` as `listed` gives it."""
    if isinstance(imgs, Mapping):
        return "surface"
    kinds = [_kind_of_one(item, surface) for item in imgs]
    for number, kind in enumerate(kinds):
        if kind != kinds[0]:
            raise ImageError(
                f"{image_name(imgs[number], number)}: is a {kind} image, but the first one, "
                f"{image_name(imgs[0], 0)}, is a {kinds[0]} image; all must be of one kind"
            )
    return kinds[0]


def _kind_of_one(item: Any, surface: Any) -> str:
    if is_path(item):
        return _kind_of_path(Path(item), surface)
    if isinstance(item, nib.Cifti2Image):
        return "cifti"
    on_surface = isinstance(item, (tuple, list, nib.gifti.GiftiImage)) or hasattr(item, "mesh")
    return "surface" if on_surface else "volume"


def _kind_of_path(path: Path, surface: Any) -> str:
    name = path.name.lower()
    if CIFTI_NAME.search(name):
        return "cifti"
    if name.endswith(SURFACE_NAMES):
        return "surface"
    if name.endswith(VOLUME_NAMES):
        return "volume"
    if name.endswith(EITHER_NAMES):
        return "surface" if surface is not None or hemisphere_of(path) is not None else "volume"
    by_name = hemisphere_of(path) is not None
    return "surface" if by_name or (path.is_file() and is_curv(path)) else "volume"
