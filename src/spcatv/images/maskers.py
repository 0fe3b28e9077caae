"""A nilearn masker as the parameter `mask`: its mask, its target space and its cleaning are used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import nibabel as nib
import numpy as np

from spcatv.images.loading import ImageError
from spcatv.images.reading import Reading, make_reading
from spcatv.images.space import Space
from spcatv.images.volume_files import Volume, open_each
from spcatv.images.voxel_statistics import voxel_statistics

VOLUME_MASKERS = ("NiftiMasker", "MultiNiftiMasker")
SURFACE_MASKERS = ("SurfaceMasker", "MultiSurfaceMasker")
# parameters that have no counterpart here, with the values that ask for nothing
NO_COUNTERPART: dict[str, tuple[Any, ...]] = {
    "runs": (None,),
    "high_variance_confounds": (False,),
    "standardize_confounds": (True,),
    "clean_args": (None, {}),
    "dtype": (None, "auto"),
}
CLEANING = ("smoothing_fwhm", "detrend", "high_pass", "low_pass", "t_r")


def is_masker(mask: Any) -> bool:
    """Whether `mask` is a masker of nilearn, of any kind."""
    return hasattr(mask, "fit") and hasattr(mask, "inverse_transform")


def masker_parts(
    masker: Any, imgs: Any, space: type[Space], reading: Reading, target_affine: Any = None
) -> tuple[Any, Reading]:
    """The mask of a masker of nilearn, and how it reads images.

    A masker that is neither fitted nor has a mask is fitted to the images, as a copy. What was asked for
    beside it must not be what the masker decides: an ImageError names the parameter that cannot be used.
    """
    kind = type(masker).__name__
    if kind not in (*VOLUME_MASKERS, *SURFACE_MASKERS):
        raise ImageError(
            f"mask: a {kind} cannot be used, because components are maps of voxels or vertices; give one of "
            f"{', '.join((*VOLUME_MASKERS, *SURFACE_MASKERS))}"
        )
    of_images = "surface" if kind in SURFACE_MASKERS else "volume"
    if space.kind != of_images:
        raise ImageError(f"mask: a {kind} is for {of_images} images, these are {space.kind} images")
    _check_no_counterpart(masker, kind)
    _check_one_place(kind, reading, target_affine)
    given = {name: getattr(masker, name) for name in CLEANING}
    try:
        own = make_reading(
            **given, standardize_runs=masker.standardize, run_confounds=reading.run_confounds or None
        )
    except (TypeError, ValueError) as error:
        raise ImageError(f"{kind}: {str(error).replace('standardize_runs', 'standardize')}") from error
    if kind in SURFACE_MASKERS:
        fitted = getattr(masker, "mask_img_", None)
        return (masker.mask_img if fitted is None else fitted), own
    return _volume_mask(masker, imgs), replace(own, resample=True)


def _check_no_counterpart(masker: Any, kind: str) -> None:
    for name, neutral in NO_COUNTERPART.items():
        value = getattr(masker, name, neutral[0])
        if not any(value is plain or (type(value) is type(plain) and value == plain) for plain in neutral):
            remedy = "; give dtype to ImageSPCATV" if name == "dtype" else ""
            raise ImageError(f"{kind}: its parameter {name}={value!r} cannot be used here{remedy}")


def _check_one_place(kind: str, reading: Reading, target_affine: Any) -> None:
    """Refuse a parameter that is given beside the masker: one place decides."""
    asked = [] if target_affine is None else ["target_affine"]
    asked += [name for name in (*CLEANING, "resample") if getattr(reading, name) not in (None, False)]
    if reading.standardize_runs != "auto":
        asked.append("standardize_runs")
    if asked:
        raise ImageError(
            f"{asked[0]} was given beside a {kind}, which decides about it; give it to the masker alone"
        )


def _volume_mask(masker: Any, imgs: Any) -> nib.Nifti1Image:
    """The mask of a fitted masker, or of a copy that is fitted to the images."""
    from sklearn.base import clone

    if getattr(masker, "mask_img_", None) is not None:
        return masker.mask_img_
    copy = clone(masker).set_params(reports=False)
    if masker.mask_img is not None:
        return copy.fit().mask_img_
    volumes = open_each(imgs)
    if type(masker).__name__ == "MultiNiftiMasker":
        # it computes one mask per image, and takes what they have in common
        return copy.fit([volume.image for volume in volumes]).mask_img_
    # all rules of nilearn look at the mean of the images only; and it takes no list of runs
    return copy.fit(_mean(volumes)).mask_img_


def _mean(volumes: list[Volume]) -> nib.Nifti1Image:
    first = volumes[0]
    found = voxel_statistics([volume.on_grid(first.shape, first.affine) for volume in volumes])
    return nib.Nifti1Image(np.nan_to_num(found.mean).astype(np.float32), first.affine)
