"""What the spaces of images have in common: features on one side, files on the other.

A space is one image format with its mask: `spcatv.images.volume`, `spcatv.images.surface` and
`spcatv.images.cifti` hold one each. To add a format, write such a module and name its space in
`spcatv.images.formats.SPACES`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.images.loading import ImageError
from spcatv.images.meshes import SurfaceMesh
from spcatv.images.runs import Run
from spcatv.progress import FileRead, tell
from spcatv.structure import Structure

# Largest magnitudes whose squares a precision has room for, with some to spare for sums of them.
LARGEST = {np.dtype(np.float32): 1e17, np.dtype(np.float64): 1e145}


class Samples(ABC):
    """Images that were opened and checked against their space, but not read yet."""

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """One name per sample."""

    @property
    @abstractmethod
    def files(self) -> tuple[Path, ...]:
        """The files of the samples, in order; images in memory have none."""

    @abstractmethod
    def _filled(self, out: FloatArray) -> Iterator[None]:
        """Read one image after the other into the rows of `out`, and yield after every sample."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """One per image, in order; empty for a format that knows of no runs."""
        return ()

    def images(self) -> Sequence[Samples] | None:
        """The samples of every image of `runs` by itself, to be read in any order; None if they cannot be."""
        return None

    def summing(self) -> Samples:
        """The same samples, which sum up for `mean_img` what is read."""
        return self

    def add_sums(self, image: Samples) -> None:  # noqa: B027 (most have none)
        """Take over what one of `images` has summed up."""

    @property
    def treatment(self) -> Any:
        """What happens to the values while they are read, beside the mask; the key of a cache."""
        return None

    def smoothed(self, fwhm: float) -> Self:
        """The same samples, to be smoothed with a kernel of this width in mm while they are read."""
        raise ImageError(
            "smoothing_fwhm: images of this kind cannot be smoothed here; smooth them with other software "
            "(CIFTI-2: wb_command -cifti-smoothing)"
        )

    def mean_img(self) -> Any:
        """The mean of the images, also outside the mask; None before they are read, and for most formats."""
        return None

    def fill(self, out: FloatArray) -> None:
        """Read the samples, one image at a time, into `out` of shape (n_samples, n_features).

        Tells `spcatv.progress.FileRead` after every sample.
        """
        # values too large for float32 become infinite; these are found later
        with np.errstate(over="ignore"):
            for number, _ in enumerate(self._filled(out), start=1):
                _check_magnitude(out[number - 1], self.names[number - 1])
                tell(FileRead(number, len(out), self.names[number - 1]))


@dataclass(frozen=True, eq=False)
class SmoothableSamples(Samples):
    """Samples that can be smoothed while they are read."""

    fwhm: float | None = field(default=None, kw_only=True)  # width of the kernel in mm

    def smoothed(self, fwhm: float) -> Self:
        """The same samples, smoothed while they are read."""
        return replace(self, fwhm=fwhm)

    @property
    def treatment(self) -> Any:
        """The width of the kernel."""
        return self.fwhm


def _check_magnitude(row: FloatArray, name: str) -> None:
    """Refuse a sample whose finite values have no squares in the precision that it is read to."""
    largest, limit = float(np.abs(row[np.isfinite(row)]).max(initial=0.0)), LARGEST[row.dtype]
    if largest > limit:
        raise ImageError(
            f"{name}: values of up to {largest:.3g} in the mask, and {row.dtype} holds squares of numbers up "
            f"to {limit:g} only. The file is damaged and has to be left out (exclude=, --exclude), or all "
            "images need a larger unit"
        )


def sample_names(name: str, n_samples: int) -> list[str]:
    """The name of an image with one sample; one name per sample if it has several."""
    return [name] if n_samples == 1 else [f"{name}[{number}]" for number in range(n_samples)]


@dataclass(frozen=True, eq=False)
class Opened:
    """Images whose headers were read."""

    names: tuple[str, ...]  # one per sample
    # returns the space, the samples, and one line about the mask; it may read the images to compute one
    place: Callable[[], tuple[Space, Samples, str]]


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
        """The end of the features: ``start <= feature < stop``."""
        return self.start + len(self.vertices)


class Space(ABC):
    """Where features live: the voxels of a mask, the vertices of surfaces, or both.

    A space is immutable. Features always have the same order: in the samples that it reads, the maps that
    it writes and the structure that it builds.

    Attributes
    ----------
    kind : str
        Name of the format in model folders and messages.
    noun : str
        What a feature is, in the plural.
    suffixes : tuple of str
        Endings of the files that are taken from a folder of images.

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

    kind: ClassVar[str]
    noun: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    @abstractmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Whether an image, a path or an object, is of this format.

        `surface` holds the meshes that were given with it, or None; the spaces in
        `spcatv.images.formats.SPACES` are asked one after the other, and the first that says yes opens it.
        """

    @classmethod
    @abstractmethod
    def find(cls, imgs: Any, mask: Any, surface: Any) -> Opened:
        """Open images of this format; the parameters are those of `spcatv.images.read_cohort`."""

    @classmethod
    def resampled(cls, imgs: Any, mask: Any, target_affine: Any = None) -> tuple[Any, Any]:
        """Images and mask, to be resampled to one grid while they are read: that of the mask by default."""
        raise ImageError(
            f"resample: {cls.kind} images cannot be resampled here; resample them with other software"
        )

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features P."""

    def places(self) -> IntArray | None:
        """The number of every feature among all that the images have, shape (P,); None if it is not known.

        The values of a feature depend on its place and on `state` without the labels, and on nothing else.
        """
        return None

    @abstractmethod
    def structure(self) -> Structure:
        """Which of the P features are neighbours."""

    @abstractmethod
    def keep(self, kept: BoolArray) -> Self:
        """The same space with only the features where `kept`, of shape (P,), is true."""

    @abstractmethod
    def open(self, imgs: Any) -> Samples:
        """Open images of this space; an ImageError names the first one that does not fit."""

    @abstractmethod
    def to_images(self, maps: FloatArray, names: tuple[str, ...]) -> Any:
        """Maps of shape (n_maps, P) as an image object, zero outside the mask."""

    @abstractmethod
    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        """Write the maps into `folder` in the format of the space."""

    def mask_image(self) -> Any:
        """The mask as an image object of 0 and 1."""
        return self.to_images(np.ones((1, self.n_features), dtype=np.float32), ("mask",))

    @abstractmethod
    def masker(self) -> Any:
        """A fitted masker: nilearn's where it has one for this kind of image."""

    @abstractmethod
    def as_mask(self) -> Any:
        """The features as a value that the parameter `mask` takes."""

    def as_surface(self) -> Any:
        """The meshes as a value that the parameter `surface` takes; None if there are none."""
        return None

    @property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """The features that are vertices, one set per hemisphere that has any."""
        return ()

    @property
    def voxel_set(self) -> VoxelSet | None:
        """The features that are voxels; None if there are none."""
        return None

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `from_state` needs: values for JSON, and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The space that `state` describes."""

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


def default_names(n_maps: int) -> tuple[str, ...]:
    """Names of maps that have no others: "component 1", "component 2", ..."""
    return tuple(f"component {number}" for number in range(1, n_maps + 1))


def checked_labels(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int32]:
    """Labels of a mask as int32: 0 is outside, every other number a label; `name` is for messages."""
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
