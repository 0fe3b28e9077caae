"""Which voxels count: a mask that is given, or one that nilearn computes, and a line that says which."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.images.errors import ImageError
from spcatv.images.loading import is_path, reading
from spcatv.images.space import checked_labels
from spcatv.images.volume import Volume, VolumeSpace, difference, open_one, plain_header

DEFAULT_STRATEGY = "background"


def volume_space(volumes: list[Volume], mask: Any) -> tuple[VolumeSpace, str]:
    """The space of images and a mask, and a line that says where the mask comes from.

    Parameters
    ----------
    volumes : list of Volume
        Opened images, all on one grid.
    mask : path, image, ndarray, one of `STRATEGIES`, or None
        An image or array of 0 and 1, or of labels; a rule by which nilearn computes the mask; ``None``
        is the rule "background".

    Returns
    -------
    space : VolumeSpace
    report : str
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
    affine = np.asarray(reference.affine, dtype=np.float64)
    space = VolumeSpace(labels=labels, affine=affine, header=plain_header(reference))
    return space, f"mask of {space.n_features:,} of {labels.size:,} voxels{_label_count(labels)}, {rule}"


def _label_count(labels: IntArray) -> str:
    n_labels = len(np.unique(labels[labels != 0]))
    return f" with {n_labels} labels" if n_labels > 1 else ""


def _given(mask: Any, first: Volume) -> tuple[IntArray, Volume]:
    if is_path(mask) and not Path(mask).expanduser().exists():
        rules = ", ".join(map(repr, STRATEGIES))
        raise ImageError(f"{mask}: no such file, nor a rule for a mask ({rules})")
    filename = mask.get_filename() if hasattr(mask, "get_filename") else None
    opened = open_one(mask, str(mask) if is_path(mask) else str(filename or "the mask"))
    if opened.n_rows != 1:
        raise ImageError(f"{opened.name}: a mask is one 3-D image, this one has {opened.n_rows} volumes")
    how = difference(opened, first.shape, first.affine)
    if how is not None:
        raise ImageError(
            f"{opened.name}: the mask does not fit the images: it {how} as {first.name}; resample one of "
            "them (nilearn.image.resample_to_img with interpolation='nearest' for a mask)"
        )
    (values,) = opened.frames()
    return checked_labels(values, opened.name), opened


def _computed(volumes: list[Volume], strategy: str) -> tuple[IntArray, str]:
    mean = _mean_image(volumes) if strategy in NEED_VALUES else volumes[0].image
    with reading(f"mask by the rule {strategy!r}"), warnings.catch_warnings():
        # an empty mask is an error here
        warnings.filterwarnings("ignore", message="Computed an empty mask")
        image = STRATEGIES[strategy](mean)
    labels = np.asanyarray(image.dataobj).astype(np.int32)
    if labels.ndim == 4:
        labels = labels[..., 0]
    if not labels.any():
        raise ImageError(
            f"the mask that nilearn computed by the rule {strategy!r} is empty; give a mask (first image: "
            f"{volumes[0].name})"
        )
    of_what = f" from the mean of {sum(v.n_rows for v in volumes)} images" if strategy in NEED_VALUES else ""
    return labels, f"computed by nilearn's rule {strategy!r}{of_what}"


def _mean_image(volumes: list[Volume]) -> nib.Nifti1Image:
    """The mean of all images, NaN where one has a NaN; read one by one."""
    total: FloatArray = np.zeros(volumes[0].shape)
    n_rows = 0
    for volume in volumes:
        for frame in volume.frames():
            # infinite values that cancel are NaN
            with np.errstate(invalid="ignore"):
                total += frame
            n_rows += 1
    return nib.Nifti1Image((total / n_rows).astype(np.float32), volumes[0].affine)


def _background(mean: Any) -> Any:
    from nilearn.masking import compute_background_mask

    return compute_background_mask(mean)


def _epi(mean: Any) -> Any:
    from nilearn.masking import compute_epi_mask

    return compute_epi_mask(mean)


def _template(kind: str) -> Callable[[Any], Any]:
    def compute(first: Any) -> Any:
        from nilearn.masking import compute_brain_mask

        return compute_brain_mask(first, mask_type=kind)

    return compute


# nilearn's names for its rules; the first two look at values, the others lay the MNI152 template on the grid
STRATEGIES: dict[str, Callable[[Any], Any]] = {
    "background": _background,
    "epi": _epi,
    "whole-brain-template": _template("whole-brain"),
    "gm-template": _template("gm"),
    "wm-template": _template("wm"),
}
NEED_VALUES = ("background", "epi")
