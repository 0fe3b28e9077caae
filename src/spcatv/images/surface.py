"""Surfaces: the vertices of one or two hemispheres."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np
import numpy.typing as npt

from spcatv._util.bids import PAIR
from spcatv._util.types import Array, BoolArray, FloatArray, IntArray
from spcatv.images.loading import ImageError, checked_file, each_image, is_curv, is_path, reading
from spcatv.images.meshes import (
    HEMISPHERES,
    SurfaceMesh,
    load_meshes,
    meshes_from_state,
    meshes_state,
    surface_structure,
)
from spcatv.images.overlays import Overlay, both_hemispheres, by_hemisphere, hemisphere_of, open_overlay
from spcatv.images.runs import Run, consecutive
from spcatv.images.space import Opened, SmoothableSamples, Space, VertexSet, checked_labels, sample_names
from spcatv.structure import Structure, concat

LETTERS = {"left": "L", "right": "R"}
GIFTI_NAMES = (".gii", ".gii.gz")
# files of FreeSurfer that hold a volume or values on a surface
EITHER_NAMES = (".mgh", ".mgz")
VOLUME_NAMES = (".nii", ".nii.gz", ".img", ".img.gz", ".hdr")


@dataclass(frozen=True, eq=False)
class SurfaceSpace(Space):
    """The vertices of a mask on each hemisphere, left before right, in the order of the mesh."""

    meshes: Mapping[str, SurfaceMesh]  # from "left" and "right" (or one of them) to its mesh
    # from the same keys to labels of shape (n_vertices,). 0 is outside; differences are taken inside a
    # label only.
    labels: Mapping[str, IntArray]

    kind: ClassVar[str] = "surface"
    noun: ClassVar[str] = "vertices"
    suffixes: ClassVar[tuple[str, ...]] = (*EITHER_NAMES, *GIFTI_NAMES)

    @classmethod
    def recognises(cls, item: Any, surface: Any) -> bool:
        """Files by their names, or by their content where the name says nothing; objects by their type."""
        if is_path(item):
            return _is_overlay(Path(item), surface)
        return isinstance(item, (Mapping, tuple, list, nib.gifti.GiftiImage)) or hasattr(item, "mesh")

    @classmethod
    def find(cls, imgs: Any, mask: Any, surface: Any) -> Opened:
        """Open overlays, in any form that `by_hemisphere` takes.

        The mask is a SurfaceImage, a mapping, a pair or one array over all vertices, of labels or 0 and 1 on
        each hemisphere, as files or arrays. A FreeSurfer ``.label`` file lists the vertices inside. One file
        that mentions its hemisphere (``lh.``, ``hemi-L``) stands for itself and for the file of the other
        hemisphere beside it. ``None`` takes all vertices; those that never vary are dropped later. The
        surface has any form that `load_meshes` takes; ``None`` takes the meshes of SurfaceImages.
        """
        meshes = load_meshes(_own_mesh(imgs, mask) if surface is None else surface)
        if is_path(surface):  # the name of a template, which has both hemispheres for images of one
            meshes = {hemi: mesh for hemi, mesh in meshes.items() if hemi in by_hemisphere(imgs)}
        n_vertices = sum(mesh.n_vertices for mesh in meshes.values())
        if mask is None:
            space = cls(
                meshes, {hemi: np.ones(mesh.n_vertices, dtype=np.int32) for hemi, mesh in meshes.items()}
            )
            report = f"all {n_vertices:,} vertices (no mask given)"
        else:
            space = cls(meshes, _mask_labels(mask, meshes))
            report = f"mask of {space.n_features:,} of {n_vertices:,} vertices, given"
        samples = space.open(imgs)
        return Opened(samples.names, lambda: (space, samples, report))

    @cached_property
    def _sizes(self) -> dict[str, int]:
        return {hemi: int(np.count_nonzero(labels)) for hemi, labels in self.labels.items()}

    @property
    def n_features(self) -> int:
        """Number of vertices in the mask, of all hemispheres."""
        return sum(self._sizes.values())

    @cached_property
    def slices(self) -> dict[str, slice]:
        """The features of every hemisphere."""
        ends = np.cumsum(list(self._sizes.values())).tolist()
        return {
            hemi: slice(end - size, end) for (hemi, size), end in zip(self._sizes.items(), ends, strict=True)
        }

    def places(self) -> IntArray:
        """The numbers of the vertices, those of the right hemisphere after all of the left."""
        return np.flatnonzero(np.concatenate(list(self.labels.values())))

    def structure(self) -> Structure:
        """Differences along the edges of the meshes, hemispheres side by side."""
        # a hemisphere outside the mask has no features and no structure
        present = [hemi for hemi in self.meshes if self._sizes[hemi]]
        return concat([surface_structure(self.meshes[hemi], self.labels[hemi]) for hemi in present])

    def keep(self, kept: BoolArray) -> Self:
        """The space without the vertices that are not kept."""
        labels = {}
        for hemi, part in self.slices.items():
            new = self.labels[hemi].copy()
            inside = new != 0
            new[inside] = np.where(kept[part], new[inside], 0)
            labels[hemi] = new
        return replace(self, labels=labels)

    def open(self, imgs: Any) -> SurfaceSamples:
        """Open overlays and check their hemispheres and vertices against the meshes."""
        sides = by_hemisphere(imgs)
        if set(sides) != set(self.meshes):
            raise ImageError(_other_hemispheres(sides, self.meshes))
        given = [(item, number, hemi) for hemi, items in sides.items() for number, item in enumerate(items)]
        opened: list[Overlay] = []
        each_image(lambda place: self._opened(*given[place]), opened.append, len(given))
        rest = iter(opened)
        overlays = {hemi: tuple(islice(rest, len(items))) for hemi, items in sides.items()}
        for group in zip(*overlays.values(), strict=True):
            if len({overlay.n_samples for overlay in group}) > 1:
                counts = " and ".join(f"{overlay.name} holds {overlay.n_samples}" for overlay in group)
                raise ImageError(f"a pair of overlays must hold equally many samples, but {counts}")
        return SurfaceSamples(self, overlays)

    def _opened(self, item: Any, number: int, hemi: str) -> Overlay:
        """Open an overlay and compare its number of vertices with that of the mesh."""
        overlay = open_overlay(item, number, hemi)
        expected = self.meshes[hemi].n_vertices
        if overlay.n_vertices is not None and overlay.n_vertices != expected:
            raise ImageError(
                f"{overlay.name}: holds {overlay.n_vertices} values per sample, but "
                f"{self.meshes[hemi].name} has {expected} vertices"
            )
        return overlay

    def _full(self, maps: FloatArray) -> dict[str, npt.NDArray[np.float32]]:
        """Values on all vertices of each hemisphere, shape (n_vertices, n_maps), zero outside the mask."""
        full = {}
        for hemi, part in self.slices.items():
            full[hemi] = np.zeros((len(self.labels[hemi]), len(maps)), dtype=np.float32)
            full[hemi][self.labels[hemi] != 0] = maps[:, part].T
        return full

    def surface_image(self, data: Mapping[str, Array]) -> Any:
        """A `nilearn.surface.SurfaceImage` of values on all vertices of each hemisphere."""
        from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

        meshes = {hemi: InMemoryMesh(*arrays) for hemi, arrays in self.as_surface().items()}
        return SurfaceImage(mesh=PolyMesh(**meshes), data=dict(data))

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> Any:
        """A `nilearn.surface.SurfaceImage`, one column per map, zero outside the mask."""
        return self.surface_image(self._full(self._checked_maps(maps)))

    def _save_maps(self, maps: FloatArray, names: tuple[str, ...], folder: Path, stem: str) -> list[Path]:
        paths = []
        for hemi, values in self._full(maps).items():
            path = folder / f"hemi-{LETTERS[hemi]}_{stem}.func.gii"
            nib.save(_gifti(values, hemi, names), path)
            paths.append(path)
        return paths

    def mask_image(self) -> Any:
        """The mask as a SurfaceImage of True and False."""
        return self.surface_image({hemi: np.asarray(labels != 0) for hemi, labels in self.labels.items()})

    def masker(self) -> Any:
        """A fitted `nilearn.maskers.SurfaceMasker` with the mask."""
        from nilearn.maskers import SurfaceMasker

        return SurfaceMasker(self.mask_image(), standardize=None, reports=False).fit()

    def as_mask(self) -> dict[str, IntArray]:
        """The labels of every hemisphere."""
        return dict(self.labels)

    def as_surface(self) -> dict[str, Any]:
        """Coordinates and triangles of every hemisphere."""
        return {hemi: (surface.coords, surface.triangles) for hemi, surface in self.meshes.items()}

    @cached_property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """The vertices in the mask of each hemisphere."""
        return tuple(
            VertexSet(part.start, hemi, np.flatnonzero(self.labels[hemi]), self.meshes[hemi])
            for hemi, part in self.slices.items()
            if part.stop > part.start
        )

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Meshes and labels."""
        labels = {f"labels_{hemi}": np.asarray(values) for hemi, values in self.labels.items()}
        return {"hemispheres": list(self.meshes)}, {**meshes_state(self.meshes), **labels}

    @classmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Read what `state` wrote."""
        hemispheres = values["hemispheres"]
        return cls(
            meshes=meshes_from_state(hemispheres, arrays),
            labels={hemi: arrays[f"labels_{hemi}"] for hemi in hemispheres},
        )


def _gifti(values: npt.NDArray[np.float32], hemi: str, names: tuple[str, ...]) -> nib.gifti.GiftiImage:
    meta = nib.gifti.GiftiMetaData({"AnatomicalStructurePrimary": f"Cortex{hemi.capitalize()}"})
    arrays = [
        nib.gifti.GiftiDataArray(
            np.ascontiguousarray(column),
            intent="NIFTI_INTENT_NONE",
            datatype="NIFTI_TYPE_FLOAT32",
            meta=nib.gifti.GiftiMetaData({"Name": name}),
        )
        for column, name in zip(values.T, names, strict=True)
    ]
    return nib.gifti.GiftiImage(meta=meta, darrays=arrays)


@dataclass(frozen=True, eq=False)
class SurfaceSamples(SmoothableSamples):
    """Opened overlays with the hemispheres and vertices of their space."""

    space: SurfaceSpace
    overlays: Mapping[str, tuple[Overlay, ...]]

    @cached_property
    def _groups(self) -> list[tuple[Overlay, ...]]:
        """The overlays of every image, one per hemisphere."""
        return list(zip(*self.overlays.values(), strict=True))

    def images(self) -> list[SurfaceSamples]:
        """The samples of every image."""
        return [
            replace(self, overlays={hemi: (one,) for hemi, one in zip(self.overlays, group, strict=True)})
            for group in self._groups
        ]

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """One per image. FreeSurfer stacks people in one file: only BIDS' ``_bold`` is a time series."""
        named = ((PAIR.join(overlay.name for overlay in group), group) for group in self._groups)
        return consecutive(
            (name, group[0].n_samples, [overlay.file for overlay in group], None, "_bold." in name)
            for name, group in named
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """One name per sample: the files of both hemispheres, and the place in them if they hold several."""
        return tuple(name for run in self.runs for name in sample_names(run.name, run.n_samples))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of the overlays that have one, pair by pair."""
        return tuple(overlay.file for group in self._groups for overlay in group if overlay.file is not None)

    def _filled(self, out: FloatArray) -> Iterator[None]:
        rows = iter(out)
        for group in self._groups:
            sides: list[Iterable[Array]] = [
                overlay.samples(self.space.meshes[hemi].n_vertices, self.space.meshes[hemi].name)
                for hemi, overlay in zip(self.overlays, group, strict=True)
            ]
            for values in zip(*self._smoothed(sides), strict=True):
                row = next(rows)
                for hemi, side in zip(self.overlays, values, strict=True):
                    row[self.space.slices[hemi]] = side[self.space.labels[hemi] != 0]
                yield

    def _smoothed(self, sides: list[Iterable[Array]]) -> list[Iterable[Array]]:
        """The samples of one image on each hemisphere, smoothed as nilearn does.

        NaN and infinite values count as zero for their neighbours, but stay where they were.
        """
        if self.fwhm is None:
            return sides
        from nilearn.image import smooth_img

        whole = {hemi: np.stack(list(side)) for hemi, side in zip(self.overlays, sides, strict=True)}
        data = {hemi: values.T.astype(np.float32) for hemi, values in whole.items()}
        try:
            smooth = smooth_img(self.space.surface_image(data), self.fwhm).data.parts
        except (TypeError, ValueError, AttributeError) as error:
            raise ImageError(
                "smoothing_fwhm: this version of nilearn cannot smooth surfaces; upgrade it, or smooth the "
                f"overlays with other software ({error})"
            ) from error
        return [np.where(np.isfinite(values), smooth[hemi].T, np.nan) for hemi, values in whole.items()]


def _is_overlay(path: Path, surface: Any) -> bool:
    name = path.name.lower()
    if name.endswith(GIFTI_NAMES):
        return True
    if name.endswith(VOLUME_NAMES):
        return False
    if hemisphere_of(path) is not None:
        return True
    return surface is not None if name.endswith(EITHER_NAMES) else path.is_file() and is_curv(path)


def _other_hemispheres(images: Iterable[str], meshes: Iterable[str]) -> str:
    """What is wrong with images and surfaces of other hemispheres, and what to write instead."""
    nouns = [
        f"the {' and the '.join(sides)} hemisphere{'' if len(sides) == 1 else 's'}"
        for sides in (list(images), list(meshes))
    ]
    message = f"the images are of {nouns[0]}, the surfaces of {nouns[1]}"
    only = [hemi for hemi in meshes if hemi in images]
    if not set(images) < set(meshes):
        return f"{message}; name the surfaces of {' and '.join(images)}"
    written = "lh.pial -" if only == ["left"] else "- rh.pial"
    return (
        f"{message}; for {only[0]} alone write --surface {written} on the command line, where - stands for "
        f"the hemisphere that the images do not have, or surface={{{only[0]!r}: ...}} in Python"
    )


def _own_mesh(imgs: Any, mask: Any) -> Any:
    """The meshes of SurfaceImages: of the images, else of the mask."""
    first = imgs[0] if isinstance(imgs, (list, tuple)) else imgs
    for item in (first, mask):
        if hasattr(item, "mesh"):
            return item.mesh
    where = f"{first}: " if is_path(first) else ""
    raise ImageError(
        f"{where}overlays need their surfaces: surface=(left, right) with GIFTI or FreeSurfer surface "
        "files, or surface='fsaverage5'; on the command line --surface LH RH, or --template fsaverage5"
    )


def _mask_labels(mask: Any, meshes: Mapping[str, SurfaceMesh]) -> dict[str, IntArray]:
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
    values = {hemi: _side_of_mask(mask[hemi], hemi, meshes[hemi]) for hemi in meshes}
    whole = checked_labels(np.concatenate(list(values.values())), _mask_name(mask))
    return dict(zip(meshes, np.split(whole, np.cumsum(sizes)[:-1]), strict=True))


def _mask_name(mask: Mapping[str, Any]) -> str:
    files = [str(mask[hemi]) for hemi in HEMISPHERES if is_path(mask.get(hemi))]
    return PAIR.join(files) or "the mask"


def _side_of_mask(item: Any, hemi: str, surface: SurfaceMesh) -> Array:
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
    if overlay.n_vertices is not None and overlay.n_vertices != surface.n_vertices:
        raise ImageError(
            f"{overlay.name}: the mask does not fit: it has {overlay.n_vertices} values, but {surface.name} "
            f"has {surface.n_vertices} vertices"
        )
    (values,) = overlay.samples(surface.n_vertices, surface.name)
    return values
