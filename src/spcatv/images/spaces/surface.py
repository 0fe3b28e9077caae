"""Surfaces: the vertices of one or two hemispheres, with values in GIFTI, MGH, MGZ or curv files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np

from spcatv._util.bids import PAIR
from spcatv._util.files import open_regular
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.images.files import (
    GIFTI_NAMES,
    ImageError,
    checked_file,
    image_name,
    is_curv,
    is_path,
    open_each,
    open_gifti,
    open_stream,
    reading,
)
from spcatv.images.spaces.base import (
    Opened,
    Samples,
    Space,
    VertexSet,
    checked_labels,
)
from spcatv.structure import EdgeStructure, Structure, concat, mesh

HEMISPHERES = ("left", "right")
LETTERS = {"left": "L", "right": "R"}
# the template whose surfaces come with nilearn
SHIPPED_TEMPLATE = "fsaverage5"
# files of FreeSurfer that hold a volume or values on a surface
EITHER_NAMES = (".mgh", ".mgz")
VOLUME_NAMES = (".nii", ".nii.gz", ".img", ".img.gz", ".hdr")
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
GIFTI_SURFACE_INTENTS = ("NIFTI_INTENT_POINTSET", "NIFTI_INTENT_TRIANGLE")


@dataclass(frozen=True, eq=False)
class SurfaceMesh:
    """A triangle mesh."""

    name: str  # its file, for messages
    coords: np.ndarray[tuple[Any, ...], np.dtype[np.float32]]  # in millimetres, shape (n_vertices, 3)
    triangles: np.ndarray[tuple[Any, ...], np.dtype[np.int32]]  # corners, shape (n_triangles, 3)

    @property
    def n_vertices(self) -> int:
        """Number of vertices."""
        return len(self.coords)


def load_meshes(surface: Any) -> dict[str, SurfaceMesh]:
    """Load the meshes of one or two hemispheres, "left" before "right"."""
    if isinstance(surface, str) and surface == SHIPPED_TEMPLATE:
        from nilearn.datasets import load_fsaverage

        surface = load_fsaverage(SHIPPED_TEMPLATE)["pial"]
    if hasattr(surface, "parts"):
        surface = surface.parts
    if isinstance(surface, (tuple, list)) and len(surface) == 2:
        surface = dict(zip(HEMISPHERES, surface, strict=True))
    if not isinstance(surface, Mapping) or not surface or not set(surface) <= set(HEMISPHERES):
        raise ImageError(
            f"surface must be {SHIPPED_TEMPLATE!r}, a pair (left, right) or a mapping with the keys 'left' "
            f"and 'right'; got {surface!r:.80}"
        )
    return {hemi: load_mesh(surface[hemi], hemi) for hemi in HEMISPHERES if surface.get(hemi) is not None}


def load_mesh(item: Any, hemi: str) -> SurfaceMesh:
    """Load one mesh: a file, an object with `coordinates` and `faces`, or (coords, triangles)."""
    name = str(item) if is_path(item) else f"the {hemi} surface"
    if is_path(item):
        item = _read_mesh(checked_file(item))
    if hasattr(item, "coordinates") and hasattr(item, "faces"):
        item = item.coordinates, item.faces
    if not isinstance(item, (tuple, list)) or len(item) != 2:
        raise ImageError(
            f"{name}: a surface is a file, a mesh or (coords, triangles), got {type(item).__name__}"
        )
    points, corners = np.asarray(item[0]), np.asarray(item[1])
    if points.ndim != 2 or points.shape[1] != 3 or corners.ndim != 2 or corners.shape[1] != 3:
        raise ImageError(
            f"{name}: not a triangle mesh: coordinates of shape {points.shape}, triangles of {corners.shape}"
        )
    if len(corners) == 0:
        raise ImageError(f"{name}: a mesh without triangles; vertices need neighbours")
    if not np.isfinite(points).all() or corners.min(initial=0) < 0 or corners.max(initial=0) >= len(points):
        raise ImageError(
            f"{name}: a damaged mesh: coordinates must be finite, and triangles name vertices 0 to "
            f"{len(points) - 1}"
        )
    return SurfaceMesh(name, points.astype(np.float32), corners.astype(np.int32))


def _read_mesh(path: Path) -> tuple[FloatArray, IntArray]:
    """Read a GIFTI or FreeSurfer surface; nilearn reads those with some endings only."""
    with reading(path):
        if not path.name.endswith(GIFTI_NAMES):
            coords, triangles = nib.freesurfer.read_geometry(path)[:2]
            return coords, triangles
        image = open_gifti(path)
        points, corners = (image.get_arrays_from_intent(intent) for intent in GIFTI_SURFACE_INTENTS)
        if not points or not corners:
            raise ImageError(f"{path}: a GIFTI file without a surface (no point set or no triangles)")
        return points[0].data, corners[0].data


def surface_structure(surface: SurfaceMesh, labels: IntArray) -> Structure:
    """Return differences along the edges inside every label; vertices of label 0 are no features."""
    inside = labels != 0
    try:
        structure = mesh(surface.coords, surface.triangles, mask=inside)
    except ValueError as error:
        raise ImageError(f"{surface.name}: {error}") from error
    label = labels[inside]
    if not isinstance(structure, EdgeStructure) or (label == label[0]).all():
        return structure
    within = label[structure.tail] == label[structure.head]
    return EdgeStructure(
        feature_count=structure.feature_count,
        tail=structure.tail[within],
        head=structure.head[within],
        weight=structure.weight[within],
        isotropic=structure.isotropic,
    )


def meshes_state(meshes: Mapping[str, SurfaceMesh]) -> dict[str, Array]:
    """Return the arrays of the meshes, for a model folder."""
    coords: dict[str, Array] = {f"coords_{hemi}": surface.coords for hemi, surface in meshes.items()}
    return coords | {f"triangles_{hemi}": surface.triangles for hemi, surface in meshes.items()}


def meshes_from_state(hemispheres: Any, arrays: Mapping[str, Array]) -> dict[str, SurfaceMesh]:
    """Return the meshes that `meshes_state` has described."""
    return {
        hemi: load_mesh((arrays[f"coords_{hemi}"], arrays[f"triangles_{hemi}"]), hemi) for hemi in hemispheres
    }


@dataclass(frozen=True, eq=False)
class SurfaceSpace(Space):
    """Vertices of a mask on each hemisphere, left before right, in the order of the mesh."""

    meshes: Mapping[str, SurfaceMesh]  # by "left" and "right", or one of them
    # labels of shape (n_vertices,) by the same keys; 0 is outside, differences are taken inside a label only
    labels: Mapping[str, IntArray]

    smooths: ClassVar[bool] = True
    kind: ClassVar[str] = "surface"
    noun: ClassVar[str] = "vertices"
    suffixes: ClassVar[tuple[str, ...]] = (*EITHER_NAMES, *GIFTI_NAMES)

    @classmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Recognise files by their names, or by their content if the name is unclear; objects by type."""
        if not is_path(item):
            return isinstance(item, (Mapping, tuple, list, nib.gifti.GiftiImage)) or hasattr(item, "mesh")
        path = Path(item)
        name = path.name.lower()
        if name.endswith(VOLUME_NAMES):
            return False
        if name.endswith(GIFTI_NAMES) or hemisphere_of(path) is not None:
            return True
        return surface is not None if name.endswith(EITHER_NAMES) else path.is_file() and is_curv(path)

    @classmethod
    def find(cls, imgs: Any, mask: Any, surface: Any) -> Opened:
        """Open overlays; without a mask, take all vertices (those that never vary are dropped later)."""
        meshes = load_meshes(_own_mesh(imgs, mask) if surface is None else surface)
        if is_path(surface):  # a template has both hemispheres, the images may have one
            meshes = {hemi: mesh for hemi, mesh in meshes.items() if hemi in by_hemisphere(imgs)}
        n_vertices = sum(mesh.n_vertices for mesh in meshes.values())
        if mask is None:
            whole = {hemi: np.ones(mesh.n_vertices, dtype=np.int32) for hemi, mesh in meshes.items()}
            space, report = cls(meshes, whole), f"all {n_vertices:,} vertices (no mask given)"
        else:
            space = cls(meshes, _mask_labels(mask, meshes))
            report = f"mask of {space.n_features:,} of {n_vertices:,} vertices, given"
        samples = space.open(imgs)
        return Opened(samples.images, lambda cache: (space, samples, report))

    @cached_property
    def slices(self) -> dict[str, slice]:
        """Features of every hemisphere."""
        sizes = [int(np.count_nonzero(labels)) for labels in self.labels.values()]
        ends = np.cumsum(sizes).tolist()
        return {
            hemi: slice(end - size, end) for hemi, size, end in zip(self.labels, sizes, ends, strict=True)
        }

    @property
    def n_features(self) -> int:
        """Number of vertices in the mask, of all hemispheres."""
        return max(part.stop for part in self.slices.values())

    def places(self) -> IntArray:
        """Return the numbers of the vertices, counted through the left hemisphere and then the right one."""
        return np.flatnonzero(np.concatenate(list(self.labels.values())))

    def structure(self) -> Structure:
        """Return differences along the edges of the meshes, hemispheres side by side."""
        # a hemisphere outside the mask has no features and no structure
        present = [hemi for hemi, part in self.slices.items() if part.stop > part.start]
        return concat([surface_structure(self.meshes[hemi], self.labels[hemi]) for hemi in present])

    def keep(self, kept: BoolArray) -> Self:
        """Return the space without the vertices that are not kept."""
        labels = {}
        for hemi, part in self.slices.items():
            new = self.labels[hemi].copy()
            inside = new != 0
            new[inside] = np.where(kept[part], new[inside], 0)
            labels[hemi] = new
        return replace(self, labels=labels)

    def open(self, imgs: Any) -> Samples:
        """Open overlays and check their hemispheres and vertices against the meshes."""
        sides = by_hemisphere(imgs)
        if set(sides) != set(self.meshes):
            raise ImageError(_other_hemispheres(sides, self.meshes))
        given = list(zip(*(sides[hemi] for hemi in self.meshes), strict=True))
        return Samples(self, tuple(open_each(given, self._open_group)))

    def read_image(self, image: OverlayGroup, out: FloatArray, fwhm: float | None, summed: bool) -> None:
        """Read the overlays of an image."""
        data = {
            hemi: overlay.values(self.meshes[hemi])
            for hemi, overlay in zip(self.meshes, image.overlays, strict=True)
        }
        for hemi, values in (data if fwhm is None else self._smoothed(data, fwhm)).items():
            out[:, self.slices[hemi]] = values[:, self.labels[hemi] != 0]

    def _smoothed(self, data: dict[str, Array], fwhm: float) -> dict[str, Array]:
        """Smooth as nilearn, for which NaN and infinite values count as zero, but keep these in place."""
        from nilearn.image import smooth_img

        image = self.surface_image({hemi: rows.T.astype(np.float32) for hemi, rows in data.items()})
        try:
            smooth = smooth_img(image, fwhm).data.parts
        except (TypeError, ValueError, AttributeError) as error:
            raise ImageError(
                "smoothing_fwhm: this version of nilearn cannot smooth surfaces; upgrade it, or smooth the "
                f"overlays with other software ({error})"
            ) from error
        return {hemi: np.where(np.isfinite(rows), smooth[hemi].T, np.nan) for hemi, rows in data.items()}

    def _open_group(self, items: Sequence[Any], number: int) -> OverlayGroup:
        """Open the overlays of one image, one per hemisphere."""
        group = tuple(open_overlay(item, number, hemi) for hemi, item in zip(self.meshes, items, strict=True))
        for surface, overlay in zip(self.meshes.values(), group, strict=True):
            overlay.check_size(surface)
        if len({overlay.n_samples for overlay in group}) > 1:
            counts = " and ".join(f"{overlay.name} holds {overlay.n_samples}" for overlay in group)
            raise ImageError(f"a pair of overlays must hold equally many samples, but {counts}")
        name = PAIR.join(overlay.name for overlay in group)
        files = tuple(overlay.file for overlay in group if overlay.file is not None)
        files = files if len(files) == len(group) else ()
        return OverlayGroup(group, name, group[0].n_samples, files, is_series="_bold." in name)

    def surface_image(self, data: Mapping[str, Array]) -> Any:
        """Return a `nilearn.surface.SurfaceImage` of values on all vertices of each hemisphere."""
        from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

        meshes = {hemi: InMemoryMesh(*arrays) for hemi, arrays in self.as_surface().items()}
        return SurfaceImage(mesh=PolyMesh(**meshes), data=dict(data))

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> Any:
        """Return a `nilearn.surface.SurfaceImage`, one column per map, zero outside the mask."""
        maps = self._checked_maps(maps)
        data = {}
        for hemi, part in self.slices.items():
            data[hemi] = np.zeros((len(self.labels[hemi]), len(maps)), dtype=np.float32)
            data[hemi][self.labels[hemi] != 0] = maps[:, part].T
        return self.surface_image(data)

    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        """Write GIFTI files with the names of the maps, which nilearn does not write."""
        paths = []
        for hemi, values in self.to_images(maps).data.parts.items():
            path = folder / f"hemi-{LETTERS[hemi]}_{stem}.func.gii"
            meta = nib.gifti.GiftiMetaData({"AnatomicalStructurePrimary": f"Cortex{hemi.capitalize()}"})
            arrays = [
                nib.gifti.GiftiDataArray(
                    np.ascontiguousarray(column), meta=nib.gifti.GiftiMetaData({"Name": name})
                )
                for column, name in zip(values.T, names, strict=True)
            ]
            nib.save(nib.gifti.GiftiImage(meta=meta, darrays=arrays), path)
            paths.append(path)
        return paths

    def mask_image(self) -> Any:
        """Return the mask as a SurfaceImage of True and False."""
        return self.surface_image({hemi: np.asarray(labels != 0) for hemi, labels in self.labels.items()})

    def masker(self) -> Any:
        """Return a fitted `nilearn.maskers.SurfaceMasker` with the mask."""
        from nilearn.maskers import SurfaceMasker

        return SurfaceMasker(self.mask_image(), standardize=None, reports=False).fit()

    def as_mask(self) -> dict[str, IntArray]:
        """Return the labels of every hemisphere."""
        return dict(self.labels)

    def as_surface(self) -> dict[str, Any]:
        """Return coordinates and triangles of every hemisphere."""
        return {hemi: (surface.coords, surface.triangles) for hemi, surface in self.meshes.items()}

    @cached_property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """Vertices in the mask of each hemisphere."""
        return tuple(
            VertexSet(part.start, hemi, np.flatnonzero(self.labels[hemi]), self.meshes[hemi])
            for hemi, part in self.slices.items()
            if part.stop > part.start
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return meshes and labels."""
        labels = {f"labels_{hemi}": np.asarray(values) for hemi, values in self.labels.items()}
        return {"hemispheres": list(self.meshes)}, {**meshes_state(self.meshes), **labels}

    @classmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the space that `state` has described."""
        hemispheres = values["hemispheres"]
        return cls(
            meshes=meshes_from_state(hemispheres, arrays),
            labels={hemi: arrays[f"labels_{hemi}"] for hemi in hemispheres},
        )


@dataclass(frozen=True, eq=False)
class OverlayGroup:
    """Overlays of one image, one per hemisphere."""

    overlays: tuple[Overlay, ...]
    name: str  # names of the overlays
    n_samples: int
    files: tuple[Path, ...]  # files of the overlays; none if one is in memory
    is_series: bool  # as BIDS says: FreeSurfer stacks people in one file
    t_r: float | None = None  # no format states it


@dataclass(frozen=True, eq=False)
class Overlay:
    """Values on one hemisphere, of one or several samples, that are read later."""

    name: str  # file name, or place in the list
    file: Path | None  # the file, if there is one
    n_samples: int
    n_vertices: int | None  # values per sample; None if the header does not state it
    load: Callable[[], Any]  # reads the values, shape (n_samples, n_vertices)

    def check_size(self, surface: SurfaceMesh, n_vertices: int | None = None) -> None:
        """Refuse another number of vertices than that of the mesh."""
        found = self.n_vertices if n_vertices is None else n_vertices
        if found is not None and found != surface.n_vertices:
            raise ImageError(
                f"{self.name}: holds {found} values per sample, but {surface.name} has "
                f"{surface.n_vertices} vertices"
            )

    def values(self, surface: SurfaceMesh) -> Array:
        """Read the values, shape (n_samples, n_vertices), and check them against a mesh."""
        with reading(self.name):
            values = np.asarray(self.load())
            if values.dtype.kind not in "biuf":
                raise ImageError(f"{self.name}: vertices must hold one number each, not {values.dtype}")
            self.check_size(surface, values.shape[-1])
            if len(values) != self.n_samples:
                raise ImageError(f"{self.name}: announces {self.n_samples} samples, but holds {len(values)}")
            return values


def open_overlay(item: Any, number: int, hemi: str) -> Overlay:
    """Open an overlay: a file, a GIFTI image, or an array (n_vertices,) or (n_vertices, n_samples)."""
    if is_path(item):
        return _open_file(checked_file(item))
    name = f"{image_name(item, number)} ({hemi})"
    if isinstance(item, nib.gifti.GiftiImage):
        rows = _gifti_values(item, name)
        return Overlay(name, None, len(rows), None, lambda: rows)
    values = np.asarray(item)
    if values.ndim not in (1, 2) or values.dtype.kind not in "biuf":
        raise ImageError(f"{name}: not an overlay: {type(item).__name__} of shape {values.shape}")
    in_memory = np.atleast_2d(values.T)
    return Overlay(name, None, in_memory.shape[0], in_memory.shape[1], lambda: in_memory)


def _open_file(path: Path) -> Overlay:
    """Open a file whose number of samples its name or head states; nilearn would read all of it."""
    name = str(path)
    if path.name.endswith(GIFTI_NAMES):
        return Overlay(name, path, _count_gifti(path), None, lambda: _gifti_values(open_gifti(path), name))
    if path.suffix in EITHER_NAMES:
        with reading(path), open_stream(path, whole=False) as stream:
            shape = nib.MGHImage.from_stream(stream).shape
        return Overlay(
            name, path, shape[3] if len(shape) > 3 else 1, int(np.prod(shape[:3])), lambda: _mgh(path)
        )
    if is_curv(path):
        return Overlay(name, path, 1, None, lambda: nib.freesurfer.read_morph_data(path)[None])
    raise ImageError(f"{path}: not an overlay that can be read (GIFTI, MGH/MGZ or FreeSurfer curv)")


def _mgh(path: Path) -> Array:
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


def by_hemisphere(imgs: Any) -> dict[str, list[Any]]:
    """Return one overlay per image by "left" and "right", or one of them, from any form that `fit` takes."""
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
            sides = _from_names(items)
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


def _from_names(paths: Sequence[str | Path]) -> dict[str, list[Any]]:
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
    return {hemi: [pair[hemi] for pair in pairs.values()] for hemi in present}


def _from_surface_images(items: Sequence[Any]) -> dict[str, list[Any]]:
    hemispheres: list[str] = []
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
    return {hemi: [item.data.parts[hemi] for item in items] for hemi in hemispheres}


def _other_hemispheres(images: Iterable[str], meshes: Iterable[str]) -> str:
    """Describe images and surfaces of other hemispheres, with the option that mends it."""
    nouns = [
        f"the {' and the '.join(sides)} hemisphere{'' if len(sides) == 1 else 's'}"
        for sides in (list(images), list(meshes))
    ]
    remedy = f"name the surfaces of {' and '.join(images)}"
    if set(images) < set(meshes):
        (only,) = images
        remedy = f"for {only} alone give surface={{{only!r}: ...}}"
    return f"the images are of {nouns[0]}, the surfaces of {nouns[1]}; {remedy}"


def _own_mesh(imgs: Any, mask: Any) -> Any:
    """Return the meshes of SurfaceImages: of the images, else of the mask."""
    first = imgs[0] if isinstance(imgs, (list, tuple)) else imgs
    for item in (first, mask):
        if hasattr(item, "mesh"):
            return item.mesh
    where = f"{first}: " if is_path(first) else ""
    raise ImageError(
        f"{where}overlays need their surfaces: surface=(left, right) with GIFTI or FreeSurfer surface "
        "files, or surface='fsaverage5'"
    )


def _mask_labels(mask: Any, meshes: Mapping[str, SurfaceMesh]) -> dict[str, IntArray]:
    """Return the labels of a mask in any of its forms, by hemisphere."""
    sizes = [surface.n_vertices for surface in meshes.values()]
    if hasattr(mask, "data") and hasattr(mask.data, "parts"):
        mask = mask.data.parts
    if isinstance(mask, np.ndarray):
        if mask.shape != (sum(sizes),):
            raise ImageError(
                f"the mask array has shape {mask.shape}, but the surfaces have {sum(sizes)} vertices"
            )
        mask = dict(zip(meshes, np.split(mask, np.cumsum(sizes)[:-1]), strict=True))
    if is_path(mask):
        mask = both_hemispheres(mask) if len(meshes) == 2 else [mask]
    if isinstance(mask, (tuple, list)) and len(mask) == len(meshes):
        mask = dict(zip(meshes, mask, strict=True))
    if not isinstance(mask, Mapping) or set(mask) != set(meshes):
        raise ImageError(f"the mask must be given for the hemispheres of the surfaces: {', '.join(meshes)}")
    values = [_side_of_mask(mask[hemi], hemi, meshes[hemi]) for hemi in meshes]
    name = PAIR.join(str(mask[hemi]) for hemi in meshes if is_path(mask[hemi])) or "the mask"
    whole = checked_labels(np.concatenate(values), name)
    return dict(zip(meshes, np.split(whole, np.cumsum(sizes)[:-1]), strict=True))


def _side_of_mask(item: Any, hemi: str, surface: SurfaceMesh) -> Array:
    """Return the values of a mask on one hemisphere, shape (n_vertices,)."""
    if is_path(item) and str(item).endswith(".label"):
        path = checked_file(item)
        with reading(path):
            inside = nib.freesurfer.read_label(path)
        if len(inside) and inside.max() >= surface.n_vertices:
            raise ImageError(
                f"{path}: names vertex {inside.max()}, but {surface.name} has {surface.n_vertices}"
            )
        return np.isin(np.arange(surface.n_vertices), inside)
    overlay = open_overlay(item, 0, hemi)
    if overlay.n_samples != 1:
        raise ImageError(f"{overlay.name}: a mask is one row of values, this one has {overlay.n_samples}")
    return overlay.values(surface)[0]
