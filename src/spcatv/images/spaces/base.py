"""Base classes of image formats: a space of features on one side, samples in files on the other.

A space is one image format with its mask: `spcatv.images.spaces.volume`, `spcatv.images.spaces.surface` and
`spcatv.images.spaces.cifti` hold one each. To add a format, write such a module and name its space in
`spcatv.images.spaces.SPACES`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from spcatv._util.atomic_files import read_text
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.images.files import ImageError
from spcatv.structure import Structure

if TYPE_CHECKING:
    from spcatv.images.spaces.meshes import SurfaceMesh

# largest magnitudes whose squares, and sums of them, each precision can hold
LARGEST = {np.dtype(np.float32): 1e17, np.dtype(np.float64): 1e145}


@dataclass(frozen=True)
class Run:
    """One image, and its samples: ``start <= sample < stop`` of the data matrix."""

    name: str  # file name, or place in the list
    start: int
    stop: int
    files: tuple[Path, ...] = ()  # empty for an image in memory
    t_r: float | None = None  # seconds between volumes, if the image or the JSON file beside it states them
    series: bool = False  # true for a time series

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.stop - self.start


def runs_of(images: Iterable[Any]) -> tuple[Run, ...]:
    """Return the runs of opened images, one after the other; a single sample is no time series."""
    runs: list[Run] = []
    stop = 0
    for image in images:
        start, stop = stop, stop + image.n_samples
        several = image.n_samples > 1
        t_r = (image.t_r or _t_r_beside(image.files)) if several else None
        runs.append(Run(image.name, start, stop, image.files, t_r, image.is_series and several))
    return tuple(runs)


def _t_r_beside(files: Iterable[Path]) -> float | None:
    """Return the seconds between volumes by the JSON file beside an image (BIDS), or None."""
    for file in files:
        sidecar = file.with_name(file.name.split(".")[0] + ".json")
        with suppress(ValueError, KeyError, TypeError):
            return float(json.loads(read_text(sidecar, "JSON file", ImageError))["RepetitionTime"])
    return None


def sample_names(runs: Iterable[Run]) -> tuple[str, ...]:
    """Return the name of every sample: that of its image, with its number if the image holds several."""
    return tuple(
        run.name if run.n_samples == 1 else f"{run.name}[{number}]"
        for run in runs
        for number in range(run.n_samples)
    )


@dataclass(frozen=True, eq=False)
class Samples:
    """Images that were opened and checked against their space, but not read yet."""

    space: Space
    images: tuple[Any, ...]  # as for `runs_of`
    fwhm: float | None = None  # width in mm of the kernel that smooths images while they are read
    sums: Any = None  # FrameSums of the images of a fit before smoothing; None if there is no `mean_img`

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One per image, in order."""
        return runs_of(self.images)

    @property
    def names(self) -> tuple[str, ...]:
        """One name per sample: that of the image, with its number in an image that holds several."""
        return sample_names(self.runs)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of samples and of features."""
        return self.runs[-1].stop, self.space.n_features

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the samples, in order; images in memory have none."""
        return tuple(file for run in self.runs for file in run.files)

    def smoothed(self, fwhm: float | None) -> Samples:
        """Return the same samples, to be smoothed with a kernel of this width in mm while they are read."""
        if fwhm is not None and not self.space.smooths:
            raise ImageError(
                "smoothing_fwhm: images of this kind cannot be smoothed here; smooth them with other "
                "software (CIFTI-2: wb_command -cifti-smoothing)"
            )
        return replace(self, fwhm=fwhm)

    @property
    def is_summed(self) -> bool:
        """True if all images are in the sums."""
        return self.sums is not None and self.sums.n_frames == self.runs[-1].stop

    def read(self, number: int, out: FloatArray) -> Any:
        """Read image `number` into `out` of shape (n_samples, n_features), on any thread.

        Returns the sums of the image, which the caller adds up in order; None if no sums are needed.
        """
        summed = self.sums is not None and not self.is_summed
        with np.errstate(over="ignore"):  # values too large for float32 become infinite and are dropped later
            sums = self.space.read_image(self.images[number], out, self.fwhm, summed)
        for row in out:
            _check_magnitude(row, self.runs[number].name)
        return sums


def _check_magnitude(row: FloatArray, name: str) -> None:
    """Refuse a sample whose finite values have no squares in the precision that it is read to."""
    magnitude, limit = np.abs(row), LARGEST[row.dtype]
    if (magnitude <= limit).all():
        return
    largest = float(magnitude[np.isfinite(row)].max(initial=0.0))
    if largest > limit:
        raise ImageError(
            f"{name}: values of up to {largest:.3g} in the mask, and {row.dtype} holds squares of numbers up "
            f"to {limit:g} only. The file is damaged and has to be left out (exclude=), or all "
            "images need a larger unit"
        )


@dataclass(frozen=True, eq=False)
class VoxelSet:
    """Consecutive features that are voxels."""

    start: int  # the first of these features
    indices: IntArray  # the voxel of every feature, shape (n, 3)
    affine: FloatArray  # from voxel indices to millimetres, shape (4, 4)


@dataclass(frozen=True, eq=False)
class VertexSet:
    """Consecutive features that are vertices of one hemisphere."""

    start: int  # the first of these features
    hemi: str  # "left" or "right"
    vertices: IntArray  # the vertex of every feature, shape (n,)
    mesh: SurfaceMesh

    @property
    def stop(self) -> int:
        """End of the features: ``start <= feature < stop``."""
        return self.start + len(self.vertices)

    def structure(self, labels: IntArray) -> Structure:
        """Return differences along the edges inside every label; `labels` of all features, shape (P,)."""
        of_mesh = np.zeros(self.mesh.n_vertices, dtype=np.int32)
        of_mesh[self.vertices] = labels[self.start : self.stop]
        return self.mesh.structure(of_mesh)


@dataclass(frozen=True, eq=False)
class Space(ABC):
    """Voxels of a mask, vertices of surfaces, or both: the features of images and their order.

    A space is immutable. Its features have the same order in the samples that it reads, the maps that it
    writes and the structure that it builds.

    Attributes
    ----------
    labels : ndarray of int
        The mask on all places that the images have, in any shape. 0 is outside; differences between features
        are taken inside a label only.
    kind : str
        Name of the format in model folders and messages.
    noun : str
        Name of the features, in the plural.
    suffixes : tuple of str
        Endings of the files that are taken from a folder of images.
    smooths : bool
        True if images can be smoothed while they are read.

    Examples
    --------
    >>> from spcatv import ImageSPCATV
    >>> model = ImageSPCATV(2, mask="gm_mask.nii.gz").fit("derivatives/sub-*_gm.nii.gz")
    >>> space = model.space_
    >>> space.kind, space.noun, space.n_features, space.structure()
    ('volume', 'voxels', 60, GridStructure(shape=(7, 6, 5), n_features=60))
    >>> space.to_images(model.components_, ("first", "second")).shape
    (7, 6, 5, 2)
    >>> [file.name for file in space.write(model.components_, ".")]
    ['desc-SPCATV_components.nii.gz', 'desc-SPCATV_components.json']
    """

    labels: IntArray
    kind: ClassVar[str]
    noun: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    smooths: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Return whether an image, a path or an object, is of this format.

        `surface` holds the meshes that were given with it, or None. The first space of
        `spcatv.images.spaces.SPACES` that recognises an image opens it.
        """

    @classmethod
    def list_images(cls, imgs: Any) -> list[Any]:
        """Return one item per image from any form that `spcatv.images.read_cohort` takes."""
        return list(imgs)

    @classmethod
    @abstractmethod
    def open_images(cls, items: Sequence[Any]) -> Sequence[Any]:
        """Open images of this format and read their headers; leave those as they are that are open already.

        An opened image of any format has the attributes `name`, `n_samples`, `files`, `t_r` and `is_series`,
        as a Run has.
        """

    @classmethod
    @abstractmethod
    def find(cls, images: Sequence[Any], mask: Any, surface: Any, cache: Path | None) -> tuple[Samples, str]:
        """Return opened images in the space of their mask, and one line about the mask.

        `spcatv.images.read_cohort` has the same parameters. A mask that is computed from the images is
        kept in the folder of the cache, if there is one.
        """

    @classmethod
    def resampled(
        cls, images: Sequence[Any], mask: Any, target_affine: Any = None
    ) -> tuple[Sequence[Any], Any]:
        """Return opened images and mask on one grid, by default the mask's, resampled when they are read."""
        raise ImageError(
            f"resample: {cls.kind} images cannot be resampled here; resample them with other software"
        )

    @cached_property
    def n_features(self) -> int:
        """Number of features P."""
        return int(np.count_nonzero(self.labels))

    @cached_property
    def places(self) -> IntArray:
        """Place of every feature in the flat `labels`, shape (P,).

        The values of a feature depend on its place and on `state` without the labels, and on nothing else.
        """
        return np.flatnonzero(self.labels)

    def keep(self, kept: BoolArray) -> Self:
        """Return the same space with only the features where `kept`, of shape (P,), is true."""
        labels = self.labels.copy()
        labels.reshape(-1)[self.places[~kept]] = 0
        return replace(self, labels=labels)

    @abstractmethod
    def structure(self) -> Structure:
        """Return the structure of neighbours among the P features."""

    @abstractmethod
    def check(self, image: Any) -> None:
        """Raise an ImageError that names an opened image if it does not fit into this space."""

    def samples(self, images: Sequence[Any]) -> Samples:
        """Return opened images as samples of this space."""
        for image in images:
            self.check(image)
        return Samples(self, tuple(images))

    @abstractmethod
    def read_image(self, image: Any, out: FloatArray, fwhm: float | None, summed: bool) -> Any:
        """Read an opened image into `out`, shape (n_samples, P), smoothed; return its sums if asked for.

        Spaces without `mean_image` have no sums.
        """

    def mean_image(self, sums: Any) -> Any:
        """Return the mean of images from their sums, also outside the mask; None for spaces without sums."""
        return None

    @abstractmethod
    def to_images(self, maps: FloatArray, names: tuple[str, ...]) -> Any:
        """Return maps of shape (n_maps, P) as an image object, zero outside the mask."""

    @abstractmethod
    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        """Write the maps into `folder` in the format of the space."""

    def mask_image(self) -> Any:
        """Return the mask as an image object of 0 and 1."""
        return self.to_images(np.ones((1, self.n_features), dtype=np.float32), ("mask",))

    @abstractmethod
    def masker(self) -> Any:
        """Return a fitted masker: nilearn's where it has one for this kind of image."""

    def as_mask(self) -> Any:
        """Return the features as a value that the parameter `mask` takes."""
        return self.labels

    def as_surface(self) -> Any:
        """Return the meshes as a value that the parameter `surface` takes; None if there are none."""
        return None

    @property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """Features that are vertices, one set per hemisphere that has any."""
        return ()

    @property
    def voxel_set(self) -> VoxelSet | None:
        """Features that are voxels; None if there are none."""
        return None

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return values for JSON and arrays that describe the space."""

    @classmethod
    @abstractmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the space that `state` has described."""

    def write(
        self,
        rows: npt.ArrayLike,
        folder: str | Path,
        stem: str = "desc-SPCATV_components",
        *,
        names: tuple[str, ...] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Path]:
        """Write maps as files named in the style of BIDS derivatives, with a ``.json`` beside them.

        Parameters
        ----------
        rows : array-like of shape (n_maps, P)
            One map per row.
        folder : path
            An existing folder.
        stem : str, default="desc-SPCATV_components"
            Names are ``<stem>.nii.gz`` (volumes, 4-D), ``hemi-L_<stem>.func.gii`` and
            ``hemi-R_<stem>.func.gii`` (surfaces), ``<stem>.dscalar.nii`` (CIFTI-2), and ``<stem>.json``.
        names : tuple of str, default=None
            One name per map; "component 1", "component 2", ... by default.
        metadata : mapping, default=None
            Further entries of the ``.json`` file.

        Returns
        -------
        list of Path
            The files written, maps first.
        """
        maps = self._checked_maps(rows)
        folder = Path(folder)
        labels = default_names(len(maps)) if names is None else tuple(names)
        paths = self._save_maps(maps, labels, folder, stem)
        sidecar = folder / f"{stem}.json"
        content = {"MapNames": list(labels), **(metadata or {})}
        sidecar.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return [*paths, sidecar]

    def _checked_maps(self, maps: npt.ArrayLike) -> FloatArray:
        values = np.atleast_2d(np.asarray(maps))
        if values.ndim != 2 or values.shape[1] != self.n_features:
            raise ValueError(
                f"maps of this space have {self.n_features} values each, one map per row; got {values.shape}"
            )
        return values

    def on_all_places(self, maps: npt.ArrayLike) -> FloatArray:
        """Return maps (n_maps, P) as columns with a value at every place, shape (labels.size, n_maps)."""
        maps = self._checked_maps(maps)
        values: FloatArray = np.zeros((self.labels.size, len(maps)), dtype=np.float32)
        values[self.places] = maps.T
        return values


def default_names(n_maps: int) -> tuple[str, ...]:
    """Return the default names of maps: "component 1", "component 2", ..."""
    return tuple(f"component {number}" for number in range(1, n_maps + 1))


def checked_labels(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int32]:
    """Return the labels of a mask, int32 and 0 outside; an ImageError about wrong ones begins with `name`."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ImageError(f"{name}: a mask must hold numbers, this one has type {array.dtype}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ImageError(f"{name}: the mask holds NaN or infinite values; write 0 outside the mask")
        broken = array != np.round(array)
        if broken.any():
            raise ImageError(
                f"{name}: a mask holds 0 outside and 1 (or labels 1, 2, ...) inside, but this one has "
                f"{int(broken.sum())} values between whole numbers, such as {array[broken].flat[0]:g}; "
                "threshold it first"
            )
    if array.size and (array.min() < 0 or array.max() > np.iinfo(np.int32).max):
        raise ImageError(f"{name}: labels go from 0 to 2147483647, got {array.min():g} to {array.max():g}")
    if not array.any():
        raise ImageError(f"{name}: the mask is empty: all of its {array.size} values are zero")
    return array.astype(np.int32)
