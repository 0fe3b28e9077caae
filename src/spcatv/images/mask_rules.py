"""Rules that compute a mask from volumes, and what speaks against a mask that was computed."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import nibabel as nib
import numpy as np

from spcatv._util.types import BoolArray
from spcatv.images.loading import reading
from spcatv.images.volume_files import Volume
from spcatv.images.voxel_statistics import FULLEST, VoxelStatistics

NONZERO, BACKGROUND, EPI, TEMPLATE = "nonzero", "background", "epi", "whole-brain-template"
# Functions of nilearn.masking, with their options. The last three lay the MNI152 template on the grid. They
# would remove whatever is thinner than five voxels by default: at 3 mm, nine tenths of the grey matter.
NILEARN: dict[str, tuple[str, dict[str, Any]]] = {
    BACKGROUND: ("compute_background_mask", {}),
    EPI: ("compute_epi_mask", {}),
    TEMPLATE: ("compute_brain_mask", {"mask_type": "whole-brain", "opening": False}),
    "gm-template": ("compute_brain_mask", {"mask_type": "gm", "opening": False}),
    "wm-template": ("compute_brain_mask", {"mask_type": "wm", "opening": False}),
}
STRATEGIES = (NONZERO, *NILEARN)
NEED_VALUES = (NONZERO, BACKGROUND, EPI)

# what speaks against a mask: shares of the box, of a face of the box, and of the mask
EMPTIEST = 0.05
COVERED_FACE = 0.25
MOST_FACES = 2
IN_TEMPLATE = 2 / 3
# codes of a NIfTI header that name a standard space (Talairach, MNI152), and the one for a scanner's space
STANDARD_CODES = (3, 4)
SCANNER_CODE = 1
# a box around most of the template's brain, in mm
BRAIN_BOX = np.array([(-66.0, -98.0, -45.0), (66.0, 66.0, 72.0)])


def computed(rule: str, volumes: list[Volume], statistics: VoxelStatistics | None) -> tuple[BoolArray, str]:
    """The mask by one of `STRATEGIES`, which may be empty, and where it comes from.

    `statistics` may be None for a rule that is not in `NEED_VALUES`.
    """
    if statistics is None or rule not in NEED_VALUES:
        return _by_nilearn(rule, volumes[0].reference), f"computed by nilearn's rule {rule!r}"
    n_images = statistics.n_images
    if rule == NONZERO:
        mask, share = _nonzero(statistics)
        return mask, f"computed by the rule {rule!r}: neither 0 nor NaN in {share} of {n_images} images"
    values, what = statistics.mean, "mean"
    if rule == EPI and statistics.signed:
        values, what = statistics.strength, "root mean square"
    image = nib.Nifti1Image(values.astype(np.float32), volumes[0].affine)
    where_from = f"computed by nilearn's rule {rule!r} from the {what} of {n_images} images"
    return _by_nilearn(rule, image), where_from


def _by_nilearn(rule: str, image: Any) -> BoolArray:
    from nilearn import masking

    name, options = NILEARN[rule]
    with reading(f"mask by the rule {rule!r}"), warnings.catch_warnings():
        # an empty mask is judged by the caller
        warnings.filterwarnings("ignore", message=".*empty")
        mask = np.asanyarray(getattr(masking, name)(image, **options).dataobj) != 0
    return mask[..., 0] if mask.ndim == 4 else mask


def _nonzero(statistics: VoxelStatistics) -> tuple[BoolArray, str]:
    """Voxels with values in most images; in any image, for maps that are zero almost everywhere (lesions)."""
    most: BoolArray = 2 * statistics.n_nonzero > statistics.n_images
    some: BoolArray = (statistics.n_nonzero > 0) & (2 * statistics.sums.n_finite > statistics.n_images)
    sparse = 2 * most.sum() < some.sum() and some.mean() <= FULLEST
    return (some, "any") if sparse else (most, "most")


@dataclass(frozen=True, eq=False)
class Grid:
    """Where the voxels of images lie, and whether that is the space of the MNI152 template."""

    first: Volume

    @cached_property
    def in_standard_space(self) -> bool:
        """Whether the header names a standard space, or the grid looks like one of that space.

        Such a grid is parallel to the axes and encloses the brain of the template. A header that names the
        scanner's space is believed.
        """
        code = _space_code(self.first.image)
        if code in STANDARD_CODES or code == SCANNER_CODE:
            return code in STANDARD_CODES
        affine = self.first.affine
        large = np.abs(affine[:3, :3]) > 1e-3 * np.abs(affine[:3, :3]).max()
        if (large.sum(axis=0) != 1).any():
            return False
        ends = np.array([(0, 0, 0), np.array(self.first.shape) - 1]) @ affine[:3, :3].T + affine[:3, 3]
        return bool((ends.min(axis=0) <= BRAIN_BOX[0]).all() and (ends.max(axis=0) >= BRAIN_BOX[1]).all())

    @cached_property
    def template(self) -> BoolArray | None:
        """The brain of the MNI152 template on the grid; None in another space, or if it is not in the box."""
        if not self.in_standard_space:
            return None
        brain = _by_nilearn(TEMPLATE, self.first.reference)
        return brain if brain.any() else None

    def objections(self, mask: BoolArray, *, guessed: bool) -> list[str]:
        """What speaks against a mask that is not empty, as ends of a sentence.

        `guessed` is for rules that do not start from a background of zeros or NaN: a tiny mask is then
        more likely to be an error.
        """
        found = []
        fill = float(mask.mean())
        if fill > FULLEST:
            found.append(f"fills {100 * fill:.0f} % of the box")
        elif guessed and fill < EMPTIEST:
            found.append(f"fills only {100 * fill:.1f} % of the box")
        faces = sum(share > COVERED_FACE for share in _face_shares(mask))
        if faces > MOST_FACES:
            found.append(f"covers parts of {faces} of the 6 faces of the box")
        if self.template is not None:
            share = float(self.template[mask].mean())
            if share < IN_TEMPLATE:
                found.append(f"lies to {100 * (1 - share):.0f} % outside the brain of the MNI152 template")
        return found


def _space_code(image: Any) -> int | None:
    """The code of the space that a NIfTI header names; None if it names none, as in other formats."""
    header = getattr(image, "header", None)
    if not isinstance(header, nib.Nifti1Header):
        return None
    return int(header["sform_code"]) or int(header["qform_code"]) or None


def _face_shares(mask: BoolArray) -> Iterable[float]:
    """For each face of the box, the share that the mask covers; axes with one or two voxels have none."""
    for axis, size in enumerate(mask.shape):
        if size > 2:
            for end in (0, -1):
                yield float(np.take(mask, end, axis=axis).mean())
