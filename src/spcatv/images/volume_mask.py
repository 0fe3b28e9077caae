"""The mask of volumes: given, or computed by the first rule whose mask looks like a brain."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.types import BoolArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.images import mask_rules as rules
from spcatv.images.loading import ImageError, is_path
from spcatv.images.mask_rules import Grid
from spcatv.images.space import checked_labels
from spcatv.images.volume_files import RESAMPLE, Volume, difference, open_one
from spcatv.images.voxel_statistics import FULLEST, VoxelStatistics, voxel_statistics


class MaskWarning(UserWarning):
    """A computed mask is unlikely to be the brain, or rests on an assumption; look at it.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.images import MaskWarning
    >>> warnings.filterwarnings("error", category=MaskWarning)
    """


def find_mask(volumes: list[Volume], mask: Any) -> tuple[IntArray, Any, str]:
    """The mask of opened images on one grid.

    `mask` is an image or array of 0 and 1, or of labels; or the rule by which it is computed, one of
    `spcatv.images.mask_rules.STRATEGIES`. ``None`` chooses the rule. Returns the labels, int32 of shape
    (n_x, n_y, n_z) and 0 outside the mask; the nibabel image where the maps will lie, the mask's own or the
    first one; and one line: how many voxels, and where the mask comes from.
    """
    first = volumes[0]
    if mask is None or (isinstance(mask, str) and mask in rules.STRATEGIES):
        computed_mask, rule = _chosen(volumes) if mask is None else _asked_for(volumes, mask)
        labels: IntArray = computed_mask.astype(np.int32)
        reference: Any = first.reference
    elif isinstance(mask, np.ndarray):
        if mask.shape != first.shape:
            raise ImageError(f"the mask array has shape {mask.shape}, but the images have {first.shape}")
        labels, rule = checked_labels(mask, "the mask array"), "given as an array"
        reference = first.reference
    else:
        labels, opened = _given(mask, first)
        rule, reference = f"given ({opened.name})", opened.image
    n_labels = len(np.unique(labels[labels != 0]))
    kinds = f" with {n_labels} labels" if n_labels > 1 else ""
    size = f"{np.count_nonzero(labels):,} of {labels.size:,} voxels{kinds}"
    return labels, reference, f"mask of {size}, {rule}"


def _given(mask: Any, first: Volume) -> tuple[IntArray, Volume]:
    if is_path(mask) and not Path(mask).expanduser().exists():
        known = ", ".join(map(repr, rules.STRATEGIES))
        raise ImageError(f"{mask}: no such file, nor a rule for a mask ({known})")
    filename = mask.get_filename() if hasattr(mask, "get_filename") else None
    opened = open_one(mask, str(mask) if is_path(mask) else str(filename or "the mask"))
    if opened.n_samples != 1:
        raise ImageError(f"{opened.name}: a mask is one 3-D image, this one has {opened.n_samples} volumes")
    how = difference(opened, first.shape, first.affine)
    if how is not None:
        raise ImageError(
            f"{opened.name}: the mask does not fit the images: it {how} as {first.name}; "
            f"{RESAMPLE} resamples the images to the grid of the mask"
        )
    (values,) = opened.frames()
    return checked_labels(values, opened.name), opened


@dataclass(frozen=True, eq=False)
class _Candidate:
    """The mask by one rule, which is not empty."""

    rule: str
    mask: BoolArray
    where_from: str
    against: list[str]  # what speaks against it, as ends of a sentence


def _chosen(volumes: list[Volume]) -> tuple[BoolArray, str]:
    """The mask by the rule that fits the images, and where it comes from.

    A background of exact zeros or NaN decides. Otherwise the first mask is taken against which nothing
    speaks: by a background of another constant; by brightness, if the images show intensities; by the
    template, if the images are in its space. Signed values (contrasts) may be as large in the air as in the
    brain: for them, brightness comes last.
    """
    statistics, grid = voxel_statistics(volumes), Grid(volumes[0])
    nonzero = _candidate(rules.NONZERO, volumes, statistics, grid)
    if nonzero is None:
        raise ImageError(
            f"the images hold nothing but 0 and NaN in most voxels: their mask is empty; give a mask "
            f"(first image: {volumes[0].name})"
        )
    if statistics.has_background:
        return _taken(nonzero, "look at it")
    template = [rules.TEMPLATE] if grid.in_standard_space else []
    guesses = [*template, rules.EPI] if statistics.signed else [rules.EPI, *template]
    rejected = [nonzero]
    for rule in (rules.BACKGROUND, *guesses):
        found = _candidate(rule, volumes, statistics, grid)
        if found is not None and not found.against:
            if rule == rules.TEMPLATE:
                _warn_of_template()
            return found.mask, found.where_from + "; the images have no background of zeros or NaN"
        rejected += [] if found is None else [found]
    sized = [each for each in rejected[1:] if rules.EMPTIEST <= each.mask.mean() <= FULLEST] or [nonzero]
    best = min(sized, key=lambda candidate: len(candidate.against))
    return _taken(best, "no rule finds a better one")


def _asked_for(volumes: list[Volume], rule: str) -> tuple[BoolArray, str]:
    """The mask by a rule that was named, and where it comes from."""
    statistics = voxel_statistics(volumes) if rule in rules.NEED_VALUES else None
    found = _candidate(rule, volumes, statistics, Grid(volumes[0]))
    if found is None:
        raise ImageError(
            f"the mask by the rule {rule!r} is empty; give a mask (first image: {volumes[0].name})"
        )
    return _taken(found, "look at it")


def _candidate(
    rule: str, volumes: list[Volume], statistics: VoxelStatistics | None, grid: Grid
) -> _Candidate | None:
    mask, where_from = rules.computed(rule, volumes, statistics)
    if not mask.any():
        return None
    judged = rule in (*rules.NEED_VALUES, rules.TEMPLATE)
    against = grid.objections(mask, guessed=rule != rules.NONZERO) if judged else []
    return _Candidate(rule, mask, where_from, against)


def _warn_of_template() -> None:
    warn_user(
        "the images have no background of zeros or NaN, so the mask is the brain of the MNI152 template: "
        "check that the images are in its space, or give a mask (mask=, --mask)",
        MaskWarning,
    )


def _taken(candidate: _Candidate, remark: str) -> tuple[BoolArray, str]:
    """The mask and where it comes from; warns of what speaks against it."""
    if not candidate.against:
        return candidate.mask, candidate.where_from
    doubts = " and ".join(candidate.against)
    others = ", ".join(rule for rule in rules.STRATEGIES if rule != candidate.rule)
    warn_user(
        f"the mask by the rule {candidate.rule!r} is hardly the brain: it {doubts}; {remark}; give a mask or "
        f"another rule (mask=, --mask): {others}",
        MaskWarning,
    )
    return candidate.mask, f"{candidate.where_from}; doubtful: it {doubts}"
