"""Masks that are computed from volumes by a named strategy, and masks of nilearn maskers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import nibabel as nib
import numpy as np

from spcatv._util.threads import most_threads
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.images.cache import PREFIX, digest, file_states, keep_array, kept_array, software
from spcatv.images.files import ImageError, each_image, reading
from spcatv.images.preprocessing import Reading
from spcatv.progress import StageAdvanced, StageStarted, current_listener

if TYPE_CHECKING:
    from spcatv.images.spaces.volume import Volume

NONZERO = "nonzero"
# Functions of nilearn.masking, with their options. The last three lay the MNI152 template on the grid. By
# default they would remove whatever is thinner than five voxels: at 3 mm, nine tenths of the grey matter.
NILEARN: dict[str, tuple[str, dict[str, Any]]] = {
    "background": ("compute_background_mask", {}),
    "epi": ("compute_epi_mask", {}),
    "whole-brain-template": ("compute_brain_mask", {"mask_type": "whole-brain", "opening": False}),
    "gm-template": ("compute_brain_mask", {"mask_type": "gm", "opening": False}),
    "wm-template": ("compute_brain_mask", {"mask_type": "wm", "opening": False}),
}
STRATEGIES = (NONZERO, *NILEARN)
FROM_VALUES = (NONZERO, "background", "epi")
# values that are added to the sums of images at a time
BLOCK_VALUES = 2**16
# warn about a mask that fills more than this share of the box of voxels, or less by a strategy of nilearn
LARGEST_FILL, SMALLEST_FILL = 0.6, 0.05

VOLUME_MASKERS = ("NiftiMasker", "MultiNiftiMasker")
SURFACE_MASKERS = ("SurfaceMasker", "MultiSurfaceMasker")
# parameters of maskers that have no counterpart here, with the values that change nothing
NO_COUNTERPART: dict[str, tuple[Any, ...]] = {
    "runs": (None,),
    "high_variance_confounds": (False,),
    "standardize_confounds": (True,),
    "clean_args": (None, {}),
    "dtype": (None, "auto"),
}
CLEANING = ("smoothing_fwhm", "detrend", "high_pass", "low_pass", "t_r")


class MaskWarning(UserWarning):
    """A computed mask is probably not a brain mask; look at it.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import MaskWarning
    >>> warnings.filterwarnings("error", category=MaskWarning)
    """


@dataclass(eq=False)
class FrameSums:
    """Running sums of 3-D arrays on one grid, voxel by voxel."""

    total: FloatArray  # sum of the finite values, shape (n_x, n_y, n_z)
    n_finite: IntArray  # arrays with a finite value, same shape
    n_nonzero: IntArray  # arrays with a finite value other than 0, same shape
    n_frames: int = 0

    @classmethod
    def zeros(cls, shape: tuple[int, ...], most: int) -> Self:
        """Return the sums of no array, to which `most` arrays are added at most."""
        dtype = np.min_scalar_type(most)  # in the order of a NIfTI file, so that sums follow the memory
        return cls(np.zeros(shape, order="F"), np.zeros(shape, dtype, "F"), np.zeros(shape, dtype, "F"))

    def add(self, frame: FrameSums | Array) -> None:
        """Add an array, some slices at a time; or the sums of several arrays."""
        if isinstance(frame, FrameSums):
            self.total += frame.total
            self.n_finite += frame.n_finite
            self.n_nonzero += frame.n_nonzero
            self.n_frames += frame.n_frames
            return
        step = max(1, BLOCK_VALUES // max(1, frame.shape[0] * frame.shape[1]))
        for first in range(0, frame.shape[2], step):
            slices = (..., slice(first, first + step))
            values = frame[slices]
            finite = np.isfinite(values)
            self.total[slices] += values if finite.all() else np.where(finite, values, 0)
            self.n_finite[slices] += finite
            self.n_nonzero[slices] += finite & (values != 0)
        self.n_frames += 1

    def mean(self, dtype: Any = np.float64) -> FloatArray:
        """Return the mean of the finite values; NaN where most arrays have none."""
        mean: FloatArray = np.full(self.total.shape, np.nan, dtype=dtype)
        known = self.n_finite > self.n_frames // 2
        return np.divide(self.total, self.n_finite, out=mean, where=known, casting="same_kind")


def sum_images(volumes: Sequence[Volume], cache: Path | None = None) -> FrameSums:
    """Read all images, several at a time, and sum them up in order; a cache keeps the sums."""
    shape, n_frames = volumes[0].shape, sum(volume.n_samples for volume in volumes)
    name = None if cache is None else _name_of_sums(volumes)
    kept = None if cache is None or name is None else kept_array(cache, name)
    if kept is not None and kept.shape == (3, *shape):
        return FrameSums(kept[0], kept[1], kept[2], n_frames)
    sums = FrameSums.zeros(shape, n_frames)
    hear = current_listener().hear
    hear(StageStarted("Finding the mask", len(volumes), "images"))

    def make(number: int) -> FrameSums | Array:
        volume = volumes[number].with_own_values()
        if volume.n_samples == 1:
            (frame,) = volume.frames()
            return frame
        found = FrameSums.zeros(shape, volume.n_samples)
        for frame in volume.frames():
            found.add(frame)
        return found

    def take(found: FrameSums | Array) -> None:
        sums.add(found)
        hear(StageAdvanced(f"image {sums.n_frames}/{n_frames}"))

    with warnings.catch_warnings():  # threads that filter warnings at the same time may leave filters behind
        each_image(make, take, len(volumes), min(most_threads(), len(volumes)))
    if cache is not None and name is not None:
        keep_array(cache, name, np.stack([sums.total, sums.n_finite, sums.n_nonzero]))
    return sums


def _name_of_sums(volumes: Sequence[Volume]) -> str | None:
    """Return the name of these sums in a cache; None for images in memory."""
    states = [[file_states(volume.files), str(volume.moved)] for volume in volumes if volume.files]
    if len(states) < len(volumes):
        return None
    grid = [list(volumes[0].shape), volumes[0].affine.tolist()]
    return f"{PREFIX}sums-{digest(states, grid, software())}"


def compute_mask(
    strategy: str, volumes: Sequence[Volume], cache: Path | None = None
) -> tuple[BoolArray, str, FrameSums | None]:
    """Compute a mask by one of `STRATEGIES`; return it and a description of its source.

    A mask that is empty is refused; a `MaskWarning` says that a mask is probably not a brain mask.
    """
    sums = None
    if strategy in FROM_VALUES:
        sums = sum_images(volumes, cache)
        if strategy == NONZERO:
            mask, share = _nonzero(sums)
            source = f"computed by {strategy!r}: neither 0 nor NaN in {share} of {sums.n_frames} images"
        else:
            mean = nib.Nifti1Image(sums.mean(np.float32), volumes[0].affine)
            mask = _by_nilearn(strategy, mean)
            source = f"computed by nilearn's {strategy!r} from the mean of {sums.n_frames} images"
    else:
        mask = _by_nilearn(strategy, volumes[0].reference)
        source = f"computed by nilearn's {strategy!r}"
    if not mask.any():
        raise ImageError(
            f"the mask computed by {strategy!r} is empty (first image: {volumes[0].name}); give a mask or "
            "another strategy (mask=)"
        )
    fill = float(mask.mean())
    if fill > LARGEST_FILL or (strategy != NONZERO and fill < SMALLEST_FILL):
        others = ", ".join(name for name in STRATEGIES if name != strategy)
        warn_user(
            f"the mask computed by {strategy!r} fills {100 * fill:.3g} % of the box of voxels and is "
            f"probably not a brain mask; give a mask or another strategy (mask=): {others}",
            MaskWarning,
        )
        source += f"; doubtful: it fills {100 * fill:.3g} % of the box"
    return mask, source, sums


def _by_nilearn(strategy: str, image: Any) -> BoolArray:
    from nilearn import masking

    name, options = NILEARN[strategy]
    with reading(f"mask computed by {strategy!r}"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*empty")  # the caller refuses an empty mask
        mask = np.asanyarray(getattr(masking, name)(image, **options).dataobj) != 0
    return mask[..., 0] if mask.ndim == 4 else mask


def _nonzero(sums: FrameSums) -> tuple[BoolArray, str]:
    """Return voxels with values in most images; in any image, for maps that are mostly zero (lesions)."""
    most: BoolArray = 2 * sums.n_nonzero.astype(np.int64) > sums.n_frames
    some: BoolArray = (sums.n_nonzero > 0) & (2 * sums.n_finite.astype(np.int64) > sums.n_frames)
    sparse = 2 * most.sum() < some.sum() and some.mean() <= LARGEST_FILL
    return (some, "any") if sparse else (most, "most")


def is_masker(mask: Any) -> bool:
    """Return whether `mask` is a masker of nilearn, of any kind."""
    return hasattr(mask, "fit") and hasattr(mask, "inverse_transform")


def masker_reading(masker: Any, kind: str, given: Reading, target_affine: Any = None) -> Reading:
    """Return the reading of images, of one `kind`, that the parameters of a nilearn masker describe."""
    name = type(masker).__name__
    if name not in (*VOLUME_MASKERS, *SURFACE_MASKERS):
        raise ImageError(
            f"mask: a {name} cannot be used, because components are maps of voxels or vertices; give one of "
            f"{', '.join((*VOLUME_MASKERS, *SURFACE_MASKERS))}"
        )
    of_volumes = name in VOLUME_MASKERS
    own_kind = "volume" if of_volumes else "surface"
    if kind != own_kind:
        raise ImageError(f"mask: a {name} is for {own_kind} images, these are {kind} images")
    for parameter, neutral in NO_COUNTERPART.items():
        value = getattr(masker, parameter, neutral[0])
        if not any(value is plain or (type(value) is type(plain) and value == plain) for plain in neutral):
            remedy = "; give dtype to ImageSPCATV" if parameter == "dtype" else ""
            raise ImageError(f"{name}: its parameter {parameter}={value!r} cannot be used here{remedy}")
    beside = [] if target_affine is None else ["target_affine"]
    beside += [each for each in (*CLEANING, "resample") if getattr(given, each) not in (None, False)]
    beside += [] if given.standardize_runs == "auto" else ["standardize_runs"]
    if beside:
        raise ImageError(f"{beside[0]} was given beside a {name}, which sets it; give it to the masker alone")
    try:
        return replace(
            given,
            **{each: getattr(masker, each) for each in CLEANING},
            standardize_runs=masker.standardize,
            resample=of_volumes,
        )
    except (TypeError, ValueError) as error:
        raise ImageError(f"{name}: {str(error).replace('standardize_runs', 'standardize')}") from error


def masker_mask(masker: Any, volumes: Sequence[Volume], cache: Path | None = None) -> Any:
    """Return the mask image of a masker; a copy of a masker without a mask is fitted to the volumes."""
    from sklearn.base import clone

    if getattr(masker, "mask_img_", None) is not None:
        return masker.mask_img_
    if type(masker).__name__ in SURFACE_MASKERS:
        return masker.mask_img
    copy = clone(masker).set_params(reports=False)
    if masker.mask_img is not None:
        return copy.fit().mask_img_
    if type(masker).__name__ == "MultiNiftiMasker":  # it intersects one mask per image
        return copy.fit([volume.image for volume in volumes]).mask_img_
    # nilearn computes masks from the mean of the images, and takes no list of runs
    first = volumes[0]
    sums = sum_images([volume.on_grid(first.shape, first.affine) for volume in volumes], cache)
    return copy.fit(nib.Nifti1Image(np.nan_to_num(sums.mean(np.float32)), first.affine)).mask_img_
