"""Overlays: values on the vertices of one or two hemispheres, in GIFTI, MGH, MGZ or curv files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from spcatv._util.atomic_files import open_regular
from spcatv._util.bids import PAIR
from spcatv._util.types import Array
from spcatv.images.files import (
    GIFTI_NAMES,
    ImageError,
    checked_file,
    image_name,
    is_curv,
    is_path,
    open_gifti,
    open_stream,
    reading,
)
from spcatv.images.spaces.meshes import GIFTI_SURFACE_INTENTS, HEMISPHERES, SurfaceMesh

# files of FreeSurfer that hold a volume or values on a surface
EITHER_NAMES = (".mgh", ".mgz")
# lh.thickness, sub-01_hemi-L_thickness.shape.gii, 100307.L.thickness.32k_fs_LR.shape.gii, and of SurfStat
# 32074_lh2fsaverage5_20.mgh
HEMISPHERE_MARKS = (
    re.compile(r"^(?P<before>)(?P<side>[lr]h)(?=\.)"),
    re.compile(r"^(?P<before>.*?(?:^|_)hemi-)(?P<side>[LR]|lh|rh|left|right)(?=[_.])"),
    re.compile(r"^(?P<before>.*?\.)(?P<side>[LR]|lh|rh)(?=\.)"),
    re.compile(r"^(?P<before>.*?_)(?P<side>lh|rh)(?=[._]|2fsaverage)"),
)
SIDES = (("lh", "rh"), ("L", "R"), ("left", "right"))
# number of samples in the head of a GIFTI file, if every array holds one
GIFTI_COUNT = re.compile(rb"""NumberOfDataArrays\s*=\s*["'](\d+)["']""")
GIFTI_ONE_DIMENSION = re.compile(rb"""Dimensionality\s*=\s*["']1["']""")
GIFTI_HEAD = 65536


@dataclass(frozen=True, eq=False)
class Overlay:
    """Values on one hemisphere, of one or several samples, that are read later."""

    name: str  # file name, or place in the list
    file: Path | None  # the file, if there is one
    n_samples: int
    load: Callable[[], Any]  # reads the values, shape (n_samples, n_vertices)

    def values(self, surface: SurfaceMesh) -> Array:
        """Read the values, shape (n_samples, n_vertices), and check them against a mesh."""
        with reading(self.name):
            values = np.asarray(self.load())
            if values.dtype.kind not in "biuf":
                raise ImageError(f"{self.name}: vertices must hold one number each, not {values.dtype}")
            if values.shape[-1] != surface.n_vertices:
                raise ImageError(
                    f"{self.name}: holds {values.shape[-1]} values per sample, but {surface.name} has "
                    f"{surface.n_vertices} vertices"
                )
            if len(values) != self.n_samples:
                raise ImageError(f"{self.name}: announces {self.n_samples} samples, but holds {len(values)}")
            return values


@dataclass(frozen=True, eq=False)
class SurfaceOverlays:
    """Overlays of one image, one per hemisphere."""

    overlays: Mapping[str, Overlay]  # by "left" and "right", or one of them
    mesh: Any = None  # of a SurfaceImage
    t_r: float | None = None  # no format states it

    @property
    def name(self) -> str:
        """Names of the overlays."""
        return PAIR.join(overlay.name for overlay in self.overlays.values())

    @property
    def n_samples(self) -> int:
        """Number of samples, which all overlays share."""
        return next(iter(self.overlays.values())).n_samples

    @property
    def files(self) -> tuple[Path, ...]:
        """Files of the overlays; none if one is in memory."""
        files = tuple(overlay.file for overlay in self.overlays.values() if overlay.file is not None)
        return files if len(files) == len(self.overlays) else ()

    @property
    def is_series(self) -> bool:
        """True for time series as BIDS names them: FreeSurfer stacks people in one file."""
        return "_bold." in self.name


def open_overlays(item: Any, number: int) -> SurfaceOverlays:
    """Open an image: overlays by hemisphere, or a nilearn SurfaceImage."""
    parts = item if isinstance(item, Mapping) else getattr(getattr(item, "data", None), "parts", None)
    if parts is None:
        raise ImageError(f"image {number + 1}: not a nilearn SurfaceImage but {type(item).__name__}")
    overlays = {hemi: open_overlay(part, number, hemi) for hemi, part in parts.items()}
    if len({overlay.n_samples for overlay in overlays.values()}) > 1:
        counts = " and ".join(f"{each.name} holds {each.n_samples}" for each in overlays.values())
        raise ImageError(f"a pair of overlays must hold equally many samples, but {counts}")
    return SurfaceOverlays(overlays, getattr(item, "mesh", None))


def open_overlay(item: Any, number: int, hemi: str) -> Overlay:
    """Open an overlay: a file, a GIFTI image, or an array (n_vertices,) or (n_vertices, n_samples)."""
    if is_path(item):
        return _open_file(checked_file(item))
    name = f"{image_name(item, number)} ({hemi})"
    if isinstance(item, nib.gifti.GiftiImage):
        values: Any = _gifti_values(item, name)
    else:
        values = np.asarray(item)
        if values.ndim not in (1, 2) or values.dtype.kind not in "biuf":
            raise ImageError(f"{name}: not an overlay: {type(item).__name__} of shape {values.shape}")
        values = np.atleast_2d(values.T)
    return Overlay(name, None, len(values), lambda: values)


def _open_file(path: Path) -> Overlay:
    """Open a file whose number of samples its name or head states; nilearn would read all of it."""
    name = str(path)
    if path.name.endswith(GIFTI_NAMES):
        return Overlay(name, path, _count_gifti(path), lambda: _gifti_values(open_gifti(path), name))
    if path.suffix in EITHER_NAMES:
        with reading(path), open_stream(path, whole=False) as stream:
            shape = nib.MGHImage.from_stream(stream).shape
        return Overlay(name, path, shape[3] if len(shape) > 3 else 1, lambda: _mgh_values(path))
    if is_curv(path):
        return Overlay(name, path, 1, lambda: nib.freesurfer.read_morph_data(path)[None])
    raise ImageError(f"{path}: not an overlay that can be read (GIFTI, MGH/MGZ or FreeSurfer curv)")


def _mgh_values(path: Path) -> Array:
    """Read an MGH file; unlike `nibabel.load`, close it and compare its checksum."""
    with open_stream(path) as stream:
        values = np.asarray(nib.MGHImage.from_stream(stream).dataobj)
    n_samples = values.shape[3] if values.ndim > 3 else 1
    return values.reshape(-1, n_samples, order="F").T


def _count_gifti(path: Path) -> int:
    """Return the number of samples, from the head of the file if it states it."""
    if path.suffix == ".gii":
        with reading(path), open_regular(path) as file:
            head = file.read(GIFTI_HEAD)
        count = GIFTI_COUNT.search(head)
        if count is not None and GIFTI_ONE_DIMENSION.search(head) is not None:
            return int(count[1])
    return len(_gifti_values(open_gifti(path), str(path)))


def _gifti_values(image: nib.gifti.GiftiImage, name: str) -> list[Array]:
    if any(image.get_arrays_from_intent(intent) for intent in GIFTI_SURFACE_INTENTS):
        raise ImageError(f"{name}: is a surface, not values on one")
    # some tools write time series as one array of shape (n_vertices, n_samples)
    return [row for array in image.darrays for row in np.atleast_2d(array.data.T)]


def hemisphere_of(path: str | Path) -> tuple[str, str] | None:
    """Return the hemisphere that a file name mentions, and the name with ``*`` in its place; or None."""
    path = Path(path)
    match = _mark(path.name)
    if match is None:
        return None
    hemi = "left" if match["side"][0] in "lL" else "right"
    return hemi, str(path.with_name(f"{match['before']}*{path.name[match.end() :]}"))


def both_hemispheres(path: str | Path) -> dict[str, Path]:
    """Return the files of both hemispheres from one of them, whose name must mention its hemisphere."""
    path = Path(path)
    match = _mark(path.name)
    if match is None:
        raise ImageError(f"{path}: its name does not mention its hemisphere; give a pair (left, right)")
    sides = next(pair for pair in SIDES if match["side"] in pair)
    names = (f"{match['before']}{side}{path.name[match.end() :]}" for side in sides)
    return {hemi: path.with_name(name) for hemi, name in zip(HEMISPHERES, names, strict=True)}


def _mark(name: str) -> re.Match[str] | None:
    """Find the place where a file name mentions its hemisphere."""
    return next((match for mark in HEMISPHERE_MARKS if (match := mark.match(name))), None)


def pair_hemispheres(imgs: Any) -> list[Any]:
    """Return one item per image from any form that `fit` takes: overlays by hemisphere, or a SurfaceImage."""
    if isinstance(imgs, Mapping):
        return _from_mapping(imgs)
    items = list(imgs)
    if all(isinstance(item, (tuple, list)) for item in items):
        return [_from_pair(item, number) for number, item in enumerate(items)]
    return _from_names(items) if all(is_path(item) for item in items) else items


def _from_mapping(imgs: Mapping[str, Any]) -> list[dict[str, Any]]:
    given = {hemi: imgs[hemi] for hemi in HEMISPHERES if imgs.get(hemi) is not None}
    if not given or not set(imgs) <= set(HEMISPHERES):
        raise ImageError(f"overlays are given by the keys 'left' and 'right', got {sorted(map(str, imgs))}")
    sides = [list(side) if isinstance(side, (list, tuple)) else [side] for side in given.values()]
    if len({len(side) for side in sides}) > 1:
        raise ImageError(
            f"{len(sides[0])} files of the left hemisphere but {len(sides[1])} of the right; every image "
            "needs one of each"
        )
    return [dict(zip(given, row, strict=True)) for row in zip(*sides, strict=True)]


def _from_pair(pair: Sequence[Any], number: int) -> dict[str, Any]:
    if len(pair) != 2:
        raise ImageError(
            f"image {number + 1}: a pair (left, right) of overlays is needed, got {len(pair)} items"
        )
    return dict(zip(HEMISPHERES, pair, strict=True))


def _from_names(paths: Sequence[str | Path]) -> list[dict[str, Any]]:
    """Pair files whose names differ only in the hemisphere, in the order in which they first appear."""
    pairs: dict[str, dict[str, str | Path]] = {}
    for path in paths:
        found = hemisphere_of(path)
        if found is None:
            raise ImageError(
                f"{path}: its name does not mention its hemisphere (lh., rh., hemi-L, hemi-R, .L.); "
                "give {'left': [...], 'right': [...]} or (left, right) pairs instead, on the command line a "
                "table with the columns left and right"
            )
        hemi, key = found
        if hemi in pairs.setdefault(key, {}):
            raise ImageError(f"{path}: given twice for the {hemi} hemisphere")
        pairs[key][hemi] = path
    present = [hemi for hemi in HEMISPHERES if any(hemi in pair for pair in pairs.values())]
    for key, pair in pairs.items():
        for hemi in present:
            if hemi not in pair:
                (lonely,) = pair.values()
                raise ImageError(f"{lonely}: there is no file of the {hemi} hemisphere for it ({key})")
    return [{hemi: pair[hemi] for hemi in present} for pair in pairs.values()]
