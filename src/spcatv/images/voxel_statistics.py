"""Sums over all images, voxel by voxel, from which a mask is computed."""

from __future__ import annotations

import warnings
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.files import replacing
from spcatv._util.threads import most_threads
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.images.loading import ImageError, each_image
from spcatv.images.row_cache import DIGITS, PREFIX, digest, file_states, software, unusable
from spcatv.images.volume_files import FrameSums, Volume
from spcatv.progress import StageAdvanced, StageStarted, listeners, together

# images with a larger share of negative values show differences or effects, not intensities
SIGNED = 0.05
# a voxel that is neither 0 nor NaN in more than this share of the images is no background
RARELY = 0.1
# share of the box that a brain fills at most
FULLEST = 0.6
# sums over images that are kept; the first four have the shape of the images
SUMS = ("total", "squares", "n_finite", "n_nonzero", "n_images", "n_negative", "n_done")
IMAGES_BETWEEN_SAVES = 100
_folder: ContextVar[Path | None] = ContextVar("spcatv_statistics", default=None)


@dataclass(frozen=True, eq=False)
class VoxelStatistics:
    """What one pass over all images says about every voxel; arrays have the shape of the images."""

    sums: FrameSums  # of the values
    squares: FloatArray  # sum of the squares of the finite values
    n_nonzero: IntArray  # images with a finite value other than 0
    share_negative: float  # of all finite values other than 0, those below 0

    @property
    def n_images(self) -> int:
        """Number of images."""
        return self.sums.n_frames

    @property
    def signed(self) -> bool:
        """Whether the images show differences or effects of both signs."""
        return self.share_negative > SIGNED

    @property
    def has_background(self) -> bool:
        """Whether zeros or NaN surround the brain: at most `FULLEST` of the box has values more than rarely.

        One image without that background is not enough to hide it.
        """
        often = self.n_nonzero > max(1.0, RARELY * self.n_images)
        return bool(often.mean() <= FULLEST)

    @property
    def mean(self) -> FloatArray:
        """The mean of the finite values; NaN where most images have none."""
        return self.sums.mean()

    @property
    def strength(self) -> FloatArray:
        """The root mean square of the finite values: of signed values, the mean says little."""
        return np.sqrt(self.sums.mean(self.squares))


def voxel_statistics(volumes: list[Volume]) -> VoxelStatistics:
    """Read all images, several at a time; sums are taken in their order.

    Inside `kept_statistics`, the sums are kept after every `IMAGES_BETWEEN_SAVES` images and found again.
    """
    shape = volumes[0].shape
    file = _file_of_sums(volumes)
    sums = _loaded(file, shape) or {
        "total": np.zeros(shape),
        "squares": np.zeros(shape),
        "n_finite": np.zeros(shape, dtype=np.int32),
        "n_nonzero": np.zeros(shape, dtype=np.int32),
        "n_images": np.zeros(1, dtype=np.int64),
        "n_negative": np.zeros(1, dtype=np.int64),
        "n_done": np.zeros(1, dtype=np.int64),
    }
    left = volumes[int(sums["n_done"][0]) :]
    failed: list[ImageError] = []
    hear = together(*listeners()).hear
    hear(StageStarted("Finding the mask", len(left), "images"))

    def make(number: int) -> Any:
        frames = left[number].with_own_values().frames()
        # the frames of a run may be many: they are read when it is its turn
        return map(_parts, frames) if left[number].n_samples > 1 else [_parts(frame) for frame in frames]

    def take(made: Any) -> None:
        for parts in made:
            for name, values in parts.items():
                sums[name] += values
        sums["n_done"] += 1
        done = int(sums["n_done"][0])
        if file is not None and not failed and (done % IMAGES_BETWEEN_SAVES == 0 or done == len(volumes)):
            _save(file, sums)
        hear(StageAdvanced(f"image {done}/{len(volumes)}"))

    with warnings.catch_warnings():  # threads that filter warnings at the same time may leave filters behind
        each_image(make, take, len(left), min(most_threads(), max(len(left), 1)), failed)
    hear(StageStarted("Reading", len(volumes), "inputs"))  # the stage that goes on with this mask
    return VoxelStatistics(
        sums=FrameSums(sums["total"], sums["n_finite"], int(sums["n_images"][0])),
        squares=sums["squares"],
        n_nonzero=sums["n_nonzero"],
        share_negative=int(sums["n_negative"][0]) / max(int(sums["n_nonzero"].sum()), 1),
    )


def _parts(frame: Array) -> dict[str, Any]:
    """What an image adds to the sums over all images."""
    finite = np.isfinite(frame)
    values: Array = np.where(finite, frame, 0).astype(np.float64)
    with np.errstate(over="ignore"):
        squares = values**2
    nonzero, n_negative = values != 0, int(np.count_nonzero(values < 0))
    sums = {"total": values, "squares": squares, "n_finite": finite, "n_nonzero": nonzero}
    return {**sums, "n_images": 1, "n_negative": n_negative}


@contextmanager
def kept_statistics(folder: Path | None) -> Iterator[None]:
    """Keep statistics of voxels in a folder inside a ``with`` block; None keeps nothing."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


def _file_of_sums(volumes: list[Volume]) -> Path | None:
    """Where the sums over these images are kept: its name changes whenever the sums may change."""
    folder = _folder.get()
    files = [volume.file for volume in volumes]
    if folder is None or None in files:
        return None
    states = [
        [file_states([file]), str(volume.moved)] for volume, file in zip(volumes, files, strict=True) if file
    ]
    grid = [list(volumes[0].shape), volumes[0].affine.tolist()]
    return folder / f"{PREFIX}mask-{digest(states, grid, software())[:DIGITS]}.npz"


def _save(file: Path, sums: dict[str, Any]) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with replacing(file) as temporary, temporary.open("wb") as opened:
            np.savez(opened, allow_pickle=False, **sums)
    except OSError as error:
        raise unusable(file.parent, error) from error


def _loaded(file: Path | None, shape: tuple[int, ...]) -> dict[str, Any] | None:
    """Sums that were kept; None if there are none, or if they are damaged (a zip file has checksums)."""
    if file is None or not file.is_file():
        return None
    try:
        with np.load(file, allow_pickle=False) as kept:
            sums = {name: kept[name] for name in SUMS}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error):
        return None
    return sums if all(sums[name].shape == shape for name in SUMS[:4]) else None
