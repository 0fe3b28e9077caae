"""The mask of volumes: given, or computed by nilearn."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.images.loading import ImageError, is_path, reading
from spcatv.images.space import checked_labels
from spcatv.images.volume_files import Volume, difference, open_one

# nilearn's names for its rules, with a function of nilearn.masking and its options; the first two use the
# values, the others put the MNI152 template on the grid
STRATEGIES: dict[str, tuple[str, dict[str, str]]] = {
    "background": ("compute_background_mask", {}),
    "epi": ("compute_epi_mask", {}),
    "whole-brain-template": ("compute_brain_mask", {"mask_type": "whole-brain"}),
    "gm-template": ("compute_brain_mask", {"mask_type": "gm"}),
    "wm-template": ("compute_brain_mask", {"mask_type": "wm"}),
}
NEED_VALUES = ("background", "epi")
DEFAULT_STRATEGY = "background"


def find_mask(volumes: list[Volume], mask: Any) -> tuple[IntArray, Any, str]:
    """The mask of opened images on one grid.

    `mask` is an image or array of 0 and 1, or of labels; or the rule, one of `STRATEGIES`, by which nilearn
    computes it. ``None`` is the rule "background". Returns the labels, int32 of shape (n_x, n_y, n_z) and 0
    outside the mask; the nibabel image where the maps will lie, the mask's own or the first one; and one
    line: how many voxels, and where the mask comes from.
    """
    first = volumes[0]
    if mask is None or (isinstance(mask, str) and mask in STRATEGIES):
        strategy = DEFAULT_STRATEGY if mask is None else mask
        labels, rule = _computed(volumes, strategy)
        reference: Any = first.image
    elif isinstance(mask, np.ndarray):
        if mask.shape != first.shape:
            raise ImageError(f"the mask array has shape {mask.shape}, but the images have {first.shape}")
        labels, rule = checked_labels(mask, "the mask array"), "given as an array"
        reference = first.image
    else:
        labels, opened = _given(mask, first)
        rule, reference = f"given ({opened.name})", opened.image
    n_labels = len(np.unique(labels[labels != 0]))
    kinds = f" with {n_labels} labels" if n_labels > 1 else ""
    size = f"{np.count_nonzero(labels):,} of {labels.size:,} voxels{kinds}"
    return labels, reference, f"mask of {size}, {rule}"


def _given(mask: Any, first: Volume) -> tuple[IntArray, Volume]:
    if is_path(mask) and not Path(mask).expanduser().exists():
        rules = ", ".join(map(repr, STRATEGIES))
        raise ImageError(f"{mask}: no such file, nor a rule for a mask ({rules})")
    filename = mask.get_filename() if hasattr(mask, "get_filename") else None
    opened = open_one(mask, str(mask) if is_path(mask) else str(filename or "the mask"))
    if opened.n_samples != 1:
        raise ImageError(f"{opened.name}: a mask is one 3-D image, this one has {opened.n_samples} volumes")
    how = difference(opened, first.shape, first.affine)
    if how is not None:
        raise ImageError(
            f"{opened.name}: the mask does not fit the images: it {how} as {first.name}; resample one of "
            "them (nilearn.image.resample_to_img with interpolation='nearest' for a mask)"
        )
    (values,) = opened.frames()
    return checked_labels(values, opened.name), opened


def _computed(volumes: list[Volume], strategy: str) -> tuple[IntArray, str]:
    from nilearn import masking

    mean = _mean_image(volumes) if strategy in NEED_VALUES else volumes[0].image
    name, options = STRATEGIES[strategy]
    with reading(f"mask by the rule {strategy!r}"), warnings.catch_warnings():
        # an empty mask is an error here
        warnings.filterwarnings("ignore", message="Computed an empty mask")
        image = getattr(masking, name)(mean, **options)
    labels = np.asanyarray(image.dataobj).astype(np.int32)
    if labels.ndim == 4:
        labels = labels[..., 0]
    if not labels.any():
        raise ImageError(
            f"the mask that nilearn computed by the rule {strategy!r} is empty; give a mask (first image: "
            f"{volumes[0].name})"
        )
    of_what = (
        f" from the mean of {sum(v.n_samples for v in volumes)} images" if strategy in NEED_VALUES else ""
    )
    return labels, f"computed by nilearn's rule {strategy!r}{of_what}"


def _mean_image(volumes: list[Volume]) -> nib.Nifti1Image:
    """The mean of all images, NaN where any image has a NaN; they are read one by one."""
    total: FloatArray = np.zeros(volumes[0].shape)
    n_samples = 0
    for volume in volumes:
        for frame in volume.frames():
            # infinite values that cancel are NaN
            with np.errstate(invalid="ignore"):
                total += frame
            n_samples += 1
    return nib.Nifti1Image((total / n_samples).astype(np.float32), volumes[0].affine)
