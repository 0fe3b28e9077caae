"""What the spaces of images have in common: features on one side, files on the other."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, BoolArray, FloatArray
from spcatv.images.errors import ImageError
from spcatv.structure import Structure


class Rows(Protocol):
    """Images that were opened and found to fit their space, waiting to be read."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name a row."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files behind the rows, in order; images in memory have none."""

    def fill(self, out: FloatArray) -> None:
        """Read the rows, one image at a time, into `out` of shape (n_rows, n_features).

        Tells `spcatv.progress.FileRead` after every row.
        """


class Space(ABC):
    """Where features live: the voxels of a mask, the vertices of surfaces, or both.

    A space is immutable. Features are always in one order: that of the rows that it reads, the maps
    that it writes and the structure that it builds.
    """

    kind: ClassVar[str]
    noun: ClassVar[str]

    @property
    @abstractmethod
    def n_features(self) -> int:
        """Number of features P."""

    @abstractmethod
    def structure(self) -> Structure:
        """Who is whose neighbour, on the P features."""

    @abstractmethod
    def keep(self, kept: BoolArray) -> Self:
        """The same space with some features only; `kept` has shape (P,)."""

    @abstractmethod
    def open(self, imgs: Any) -> Rows:
        """Open images of this space; an ImageError names the first one that does not fit."""

    @abstractmethod
    def to_images(self, rows: FloatArray, names: tuple[str, ...]) -> Any:
        """Maps with the values `rows` (n_maps, P), zero outside of the space, as an image object."""

    @abstractmethod
    def _save_maps(self, rows: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        """Write the maps into `folder` in the format of the space."""

    @abstractmethod
    def masker(self) -> Any:
        """A fitted masker: nilearn's where it has one for this kind of images."""

    @abstractmethod
    def as_mask(self) -> Any:
        """The features as a value that the parameter `mask` takes."""

    def as_surface(self) -> Any:
        """The meshes as a value that the parameter `surface` takes; None where there are none."""
        return None

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """What `from_state` needs: values for JSON, and arrays."""

    @classmethod
    @abstractmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The space whose `state` was given."""

    def write(
        self,
        rows: npt.ArrayLike,
        folder: str | Path,
        stem: str = "desc-SPCATV_components",
        *,
        names: tuple[str, ...] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Path]:
        """Write maps as files with names in the style of BIDS derivatives, and a ``.json`` beside them.

        Parameters
        ----------
        rows : array-like of shape (n_maps, P)
            One row a map.
        folder : path
            A folder that is there.
        stem : str, default="desc-SPCATV_components"
            Names are ``<stem>.nii.gz`` (volumes, 4-D), ``hemi-L_<stem>.func.gii`` and
            ``hemi-R_<stem>.func.gii`` (surfaces), ``<stem>.dscalar.nii`` (CIFTI-2), and ``<stem>.json``.
        names : tuple of str, default=None
            One name a map, "component 1", ... by default.
        metadata : mapping, default=None
            More entries for the ``.json`` file.

        Returns
        -------
        list of Path
            The files written, maps first.
        """
        values = self._checked_rows(rows)
        folder = Path(folder)
        labels = default_names(len(values)) if names is None else tuple(names)
        paths = self._save_maps(values, labels, folder, stem)
        sidecar = folder / f"{stem}.json"
        content = {"MapNames": list(labels), **(metadata or {})}
        sidecar.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return [*paths, sidecar]

    def _checked_rows(self, rows: npt.ArrayLike) -> FloatArray:
        values = np.atleast_2d(np.asarray(rows))
        if values.ndim != 2 or values.shape[1] != self.n_features:
            raise ValueError(
                f"maps of this space have {self.n_features} values each, a row a map; got {values.shape}"
            )
        return values


def default_names(n_maps: int) -> tuple[str, ...]:
    """Names of maps that have no others: "component 1", "component 2", ..."""
    return tuple(f"component {number}" for number in range(1, n_maps + 1))


def checked_labels(values: npt.ArrayLike, name: str) -> npt.NDArray[np.int32]:
    """Labels of a mask as int32: 0 is outside, every other number a label.

    Parameters
    ----------
    values : array-like of bool, int, or float with whole numbers
        The mask, of any shape.
    name : str
        The file, for messages.
    """
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise ImageError(f"{name}: a mask must hold numbers, this one has type {array.dtype}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ImageError(f"{name}: the mask holds NaN or infinite values; write 0 outside of the mask")
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
        raise ImageError(f"{name}: the mask is empty, every one of its {array.size} values is zero")
    return array.astype(np.int32)
