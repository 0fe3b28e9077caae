"""Overlays, the values on surfaces: GIFTI, MGH/MGZ and curv files or SurfaceImages, by hemisphere."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np

from spcatv._util.files import open_regular
from spcatv._util.types import Array
from spcatv.images.loading import (
    CURV_HEADER,
    ImageError,
    checked_file,
    image_name,
    is_curv,
    is_path,
    open_gifti,
    open_stream,
    read_curv,
    reading,
)
from spcatv.images.meshes import HEMISPHERES

# lh.thickness, sub-01_hemi-L_thickness.shape.gii, 100307.L.thickness.32k_fs_LR.shape.gii
HEMISPHERE_MARKS = (
    re.compile(r"^(?P<before>)(?P<side>[lr]h)(?=\.)"),
    re.compile(r"^(?P<before>.*?(?:^|_)hemi-)(?P<side>[LR]|lh|rh|left|right)(?=[_.])"),
    re.compile(r"^(?P<before>.*?\.)(?P<side>[LR]|lh|rh)(?=\.)"),
    re.compile(r"^(?P<before>.*?_)(?P<side>lh|rh)(?=[._])"),
)
SIDES = (("lh", "rh"), ("L", "R"), ("left", "right"))
GIFTI_COUNT = re.compile(rb"""NumberOfDataArrays\s*=\s*["'](\d+)["']""")
GIFTI_ONE_DIMENSION = re.compile(rb"""Dimensionality\s*=\s*["']1["']""")
GIFTI_HEAD = 65536
# codes of NIFTI_INTENT_POINTSET and NIFTI_INTENT_TRIANGLE
GIFTI_SURFACE_INTENTS = (1008, 1009)


@dataclass(frozen=True, eq=False)
class Overlay:
    """Values on one hemisphere, of one or several samples; read later."""

    name: str  # file name, or place in the list
    file: Path | None  # the file, if there is one
    n_samples: int  # number of samples that it holds
    n_vertices: int | None  # values per sample; None if the file must be read to know
    load: Callable[[], Iterable[Array]]  # reads the samples one after the other, each of shape (n_vertices,)

    def samples(self, n_vertices: int, surface: str = "the surface") -> Iterator[Array]:
        """The samples, one after the other, each checked against the number of vertices of the mesh."""
        found = 0
        with reading(self.name):
            for values in self.load():
                found += 1
                if found > self.n_samples:
                    break
                if values.dtype.kind not in "biuf":
                    raise ImageError(f"{self.name}: vertices must hold one number each, not {values.dtype}")
                if values.shape != (n_vertices,):
                    raise ImageError(
                        f"{self.name}: holds {values.size} values per sample, but {surface} has {n_vertices} "
                        "vertices"
                    )
                yield values
        if found != self.n_samples:
            held = "more" if found > self.n_samples else found
            raise ImageError(f"{self.name}: announces {self.n_samples} samples, but holds {held}")


def hemisphere_of(path: str | Path) -> tuple[str, str] | None:
    """The hemisphere that a file name mentions, and the name without it; None if it mentions none.

    Examples
    --------
    >>> hemisphere_of("sub-01/surf/lh.thickness")
    ('left', 'sub-01/surf/*.thickness')
    """
    path = Path(path)
    match = _mark(path.name)
    if match is None:
        return None
    hemi = "left" if match["side"][0] in "lL" else "right"
    return hemi, str(path.with_name(f"{match['before']}*{path.name[match.end() :]}"))


def both_hemispheres(path: str | Path) -> dict[str, Path]:
    """The files of both hemispheres, from one of them; its name must mention its hemisphere."""
    path = Path(path)
    match = _mark(path.name)
    if match is None:
        raise ImageError(
            f"{path}: its name does not say which hemisphere it shows; give a pair (left, right)"
        )
    sides = next(pair for pair in SIDES if match["side"] in pair)
    names = (f"{match['before']}{side}{path.name[match.end() :]}" for side in sides)
    return {hemi: path.with_name(name) for hemi, name in zip(HEMISPHERES, names, strict=True)}


def _mark(name: str) -> re.Match[str] | None:
    """Where a file name mentions its hemisphere."""
    return next((match for mark in HEMISPHERE_MARKS if (match := mark.match(name))), None)


def by_hemisphere(imgs: Any) -> dict[str, list[Any]]:
    """Sort overlays by hemisphere: from "left" and "right", or one of them, to one overlay per image.

    They are given as a mapping from "left" and "right" to an overlay or a list of them; as (left, right)
    pairs; as file names that mention their hemisphere (``lh.``, ``hemi-L``, ``.L.``), paired by the rest of
    the name; or as nilearn SurfaceImages.
    """
    if isinstance(imgs, Mapping):
        sides = {hemi: _listed(imgs[hemi]) for hemi in HEMISPHERES if imgs.get(hemi) is not None}
        if not sides or not set(imgs) <= set(HEMISPHERES):
            raise ImageError(
                f"overlays are given by the keys 'left' and 'right', got {sorted(map(str, imgs))}"
            )
    else:
        items = _listed(imgs)
        if all(isinstance(item, (tuple, list)) for item in items):
            sides = _from_pairs(items)
        elif all(is_path(item) for item in items):
            sides = pair_by_name(items)
        else:
            sides = _from_surface_images(items)
    lengths = {hemi: len(side) for hemi, side in sides.items()}
    if len(set(lengths.values())) > 1:
        raise ImageError(
            f"{lengths['left']} files of the left hemisphere but {lengths['right']} of the right; every "
            "image needs one of each"
        )
    return sides


def _listed(imgs: Any) -> list[Any]:
    return list(imgs) if isinstance(imgs, (list, tuple)) else [imgs]


def _from_pairs(items: Sequence[Any]) -> dict[str, list[Any]]:
    for number, item in enumerate(items):
        if len(item) != 2:
            raise ImageError(
                f"image {number + 1}: a pair (left, right) of overlays is needed, got {len(item)} items"
            )
    return {hemi: [item[side] for item in items] for side, hemi in enumerate(HEMISPHERES)}


def pair_by_name(paths: Sequence[str | Path]) -> dict[str, list[Any]]:
    """Pair files whose names differ only in the hemisphere, in the order in which they first appear."""
    pairs: dict[str, dict[str, str | Path]] = {}
    for path in paths:
        found = hemisphere_of(path)
        if found is None:
            raise ImageError(
                f"{path}: its name does not say which hemisphere it shows (lh., rh., hemi-L, hemi-R, .L.); "
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
    return {hemi: [pair[hemi] for pair in pairs.values()] for hemi in present}


def _from_surface_images(items: Sequence[Any]) -> dict[str, list[Any]]:
    hemispheres = None
    for number, item in enumerate(items):
        parts = getattr(getattr(item, "data", None), "parts", None)
        if parts is None:
            raise ImageError(f"image {number + 1}: not a nilearn SurfaceImage but {type(item).__name__}")
        hemispheres = hemispheres or list(parts)
        if list(parts) != hemispheres:
            raise ImageError(
                f"image {number + 1}: has the hemispheres {', '.join(parts)}, the first one "
                f"{', '.join(hemispheres)}"
            )
    return {hemi: [item.data.parts[hemi] for item in items] for hemi in hemispheres or ()}


def open_overlay(item: Any, number: int, hemi: str) -> Overlay:
    """Open an overlay: a file, a GIFTI image, or an array (n_vertices,) or (n_vertices, n_samples)."""
    if is_path(item):
        return _open_file(checked_file(item))
    name = f"{image_name(item, number)} ({hemi})"
    if isinstance(item, nib.gifti.GiftiImage):
        samples = _gifti_samples(item, name)
        return Overlay(name, None, len(samples), None, lambda: samples)
    values = np.asarray(item)
    if values.ndim not in (1, 2) or values.dtype.kind not in "biuf":
        raise ImageError(f"{name}: not an overlay: {type(item).__name__} of shape {values.shape}")
    in_memory = np.atleast_2d(values.T)
    return Overlay(name, None, in_memory.shape[0], in_memory.shape[1], lambda: in_memory)


def _open_file(path: Path) -> Overlay:
    name = str(path)
    if path.name.endswith((".gii", ".gii.gz")):
        return Overlay(name, path, _count_gifti(path), None, lambda: _gifti_samples(open_gifti(path), name))
    if path.suffix in (".mgh", ".mgz"):
        # not nib.load, which leaves files of this kind open
        with reading(path), open_stream(path, whole=False) as stream:
            shape = nib.MGHImage.from_stream(stream).shape
        n_samples = int(shape[3]) if len(shape) > 3 else 1
        return Overlay(name, path, n_samples, int(np.prod(shape[:3])), lambda: _frames(path))
    if is_curv(path):
        with reading(path), open_regular(path) as file:
            n_vertices = CURV_HEADER.unpack(file.read(CURV_HEADER.size))[1]
        return Overlay(name, path, 1, n_vertices, lambda: [read_curv(path)])
    raise ImageError(f"{path}: not an overlay that can be read (GIFTI, MGH/MGZ or FreeSurfer curv)")


def _count_gifti(path: Path) -> int:
    """The number of samples, from the head of the file where that is possible."""
    if path.suffix == ".gii":
        with reading(path), open_regular(path) as file:
            head = file.read(GIFTI_HEAD)
        count = GIFTI_COUNT.search(head)
        if count is not None and GIFTI_ONE_DIMENSION.search(head) is not None:
            return int(count[1])
    with reading(path):
        return len(_gifti_samples(open_gifti(path), str(path)))


def _gifti_samples(image: nib.gifti.GiftiImage, name: str) -> list[Array]:
    if any(array.intent in GIFTI_SURFACE_INTENTS for array in image.darrays):
        raise ImageError(f"{name}: is a surface, not values on one")
    samples: list[Array] = []
    for array in image.darrays:
        # some tools write time series as one array of shape (n_vertices, n_samples)
        samples.extend(np.atleast_2d(array.data.T))
    return samples


def _frames(path: Path) -> Iterator[Array]:
    """The frames of an MGH file, one after the other, each of shape (n_vertices,)."""
    with open_stream(path) as stream:
        image = nib.MGHImage.from_stream(stream)
        for frame in range(image.shape[3] if image.ndim == 4 else 1):
            values = image.dataobj[..., frame] if image.ndim == 4 else image.dataobj
            yield np.asanyarray(values).reshape(-1, order="F")
