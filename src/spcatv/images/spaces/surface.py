"""Surfaces: the vertices of one or two hemispheres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import nibabel as nib
import numpy as np

from spcatv._util.bids import PAIR
from spcatv._util.types import Array, FloatArray, IntArray
from spcatv.images.files import (
    GIFTI_NAMES,
    ImageError,
    checked_file,
    is_curv,
    is_path,
    open_each,
    reading,
)
from spcatv.images.spaces.base import Samples, Space, VertexSet, checked_labels
from spcatv.images.spaces.meshes import (
    SurfaceMesh,
    load_meshes,
    meshes_as_parameter,
    meshes_from_state,
    meshes_state,
)
from spcatv.images.spaces.overlays import (
    EITHER_NAMES,
    SurfaceOverlays,
    both_hemispheres,
    hemisphere_of,
    open_overlay,
    open_overlays,
    pair_hemispheres,
)
from spcatv.structure import Structure, concat

LETTERS = {"left": "L", "right": "R"}
VOLUME_NAMES = (".nii", ".nii.gz", ".img", ".img.gz", ".hdr")


@dataclass(frozen=True, eq=False)
class SurfaceSpace(Space):
    """Vertices of a mask on each hemisphere, left before right, in the order of the mesh."""

    meshes: Mapping[str, SurfaceMesh]  # by "left" and "right", or one of them

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
    def list_images(cls, imgs: Any) -> list[Any]:
        """Return one item per image: its overlays by hemisphere, or a SurfaceImage."""
        return pair_hemispheres(imgs)

    @classmethod
    def open_images(cls, items: Sequence[Any]) -> list[SurfaceOverlays]:
        """Open overlays, one per hemisphere."""
        return open_each(items, open_overlays)

    @classmethod
    def find(
        cls, images: Sequence[SurfaceOverlays], mask: Any, surface: Any, cache: Path | None
    ) -> tuple[Samples, str]:
        """Load the meshes; without a mask, take all vertices (those that never vary are dropped later)."""
        first = images[0]
        own = (surface, first.mesh, getattr(mask, "mesh", None))
        given = next((meshes for meshes in own if meshes is not None), None)
        if given is None:
            where = f"{first.name}: " if first.files else ""
            raise ImageError(
                f"{where}overlays need their surfaces: surface=(left, right) with GIFTI or FreeSurfer "
                "surface files, or surface='fsaverage5'"
            )
        meshes = load_meshes(given)
        if is_path(given):  # a template has both hemispheres, the images may have one
            meshes = {hemi: mesh for hemi, mesh in meshes.items() if hemi in first.overlays}
        n_vertices = sum(mesh.n_vertices for mesh in meshes.values())
        labels = np.ones(n_vertices, dtype=np.int32) if mask is None else _mask_labels(mask, meshes)
        space = cls(labels, meshes)
        given = f"mask of {space.n_features:,} of {n_vertices:,} vertices, given"
        return space.samples(
            images
        ), f"all {n_vertices:,} vertices (no mask given)" if mask is None else given

    def _by_hemisphere(self, values: Array) -> dict[str, Array]:
        """Split an array, whose first axis goes through the vertices of all meshes."""
        ends = np.cumsum([mesh.n_vertices for mesh in self.meshes.values()])
        return dict(zip(self.meshes, np.split(values, ends[:-1]), strict=True))

    @cached_property
    def vertex_sets(self) -> tuple[VertexSet, ...]:
        """Vertices in the mask of each hemisphere that has any."""
        sets, start = [], 0
        for hemi, labels in self._by_hemisphere(self.labels).items():
            vertices = np.flatnonzero(labels)
            if len(vertices):
                sets.append(VertexSet(start, hemi, vertices, self.meshes[hemi]))
            start += len(vertices)
        return tuple(sets)

    def structure(self) -> Structure:
        """Return differences along the edges of the meshes, hemispheres side by side."""
        return concat([part.structure(self.labels[self.places]) for part in self.vertex_sets])

    def check(self, image: SurfaceOverlays) -> None:
        """Refuse overlays of other hemispheres than the meshes."""
        given, wanted = list(image.overlays), list(self.meshes)
        if set(given) == set(wanted):
            return
        nouns = [f"the {' and the '.join(s)} hemisphere{'' if len(s) == 1 else 's'}" for s in (given, wanted)]
        remedy = f"name the surfaces of {' and '.join(given)}"
        if set(given) < set(wanted):
            remedy = f"for {given[0]} alone give surface={{{given[0]!r}: ...}}"
        raise ImageError(f"the images are of {nouns[0]}, the surfaces of {nouns[1]}; {remedy}")

    def read_image(self, image: SurfaceOverlays, out: FloatArray, fwhm: float | None, summed: bool) -> None:
        """Read the overlays of an image."""
        data = {hemi: image.overlays[hemi].values(surface) for hemi, surface in self.meshes.items()}
        if fwhm is not None:
            data = self._smoothed(data, fwhm)
        for part in self.vertex_sets:
            out[:, part.start : part.stop] = data[part.hemi][:, part.vertices]

    def _smoothed(self, data: dict[str, Array], fwhm: float) -> dict[str, Array]:
        """Smooth as nilearn, for which NaN and infinite values count as zero, but keep these in place."""
        from nilearn.image import smooth_img

        image = self.surface_image({hemi: rows.T.astype(np.float32) for hemi, rows in data.items()})
        smooth = smooth_img(image, fwhm).data.parts
        return {hemi: np.where(np.isfinite(rows), smooth[hemi].T, np.nan) for hemi, rows in data.items()}

    def surface_image(self, data: Mapping[str, Array]) -> Any:
        """Return a `nilearn.surface.SurfaceImage` of values on all vertices of each hemisphere."""
        from nilearn.surface import InMemoryMesh, PolyMesh, SurfaceImage

        meshes = {hemi: InMemoryMesh(*arrays) for hemi, arrays in self.as_surface().items()}
        return SurfaceImage(mesh=PolyMesh(**meshes), data=dict(data))

    def to_images(self, maps: FloatArray, names: tuple[str, ...] = ()) -> Any:
        """Return a `nilearn.surface.SurfaceImage`, one column per map, zero outside the mask."""
        return self.surface_image(self._by_hemisphere(self.on_all_places(maps)))

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
        return self.surface_image(self._by_hemisphere(self.labels != 0))

    def masker(self) -> Any:
        """Return a fitted `nilearn.maskers.SurfaceMasker` with the mask."""
        from nilearn.maskers import SurfaceMasker

        return SurfaceMasker(self.mask_image(), standardize=None, reports=False).fit()

    def as_surface(self) -> dict[str, Any]:
        """Return coordinates and triangles of every hemisphere."""
        return meshes_as_parameter(self.meshes)

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return meshes and labels."""
        labels = {f"labels_{hemi}": values for hemi, values in self._by_hemisphere(self.labels).items()}
        return {"hemispheres": list(self.meshes)}, {**meshes_state(self.meshes), **labels}

    @classmethod
    def from_state(cls, values: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the space that `state` has described."""
        hemispheres = values["hemispheres"]
        labels = np.concatenate([arrays[f"labels_{hemi}"] for hemi in hemispheres])
        return cls(labels, meshes_from_state(hemispheres, arrays))


def _mask_labels(mask: Any, meshes: Mapping[str, SurfaceMesh]) -> IntArray:
    """Return the labels of a mask in any of its forms, hemispheres one after the other."""
    if hasattr(mask, "data") and hasattr(mask.data, "parts"):
        mask = mask.data.parts
    if isinstance(mask, np.ndarray):
        n_vertices = sum(surface.n_vertices for surface in meshes.values())
        if mask.shape != (n_vertices,):
            raise ImageError(
                f"the mask array has shape {mask.shape}, but the surfaces have {n_vertices} vertices"
            )
        return checked_labels(mask, "the mask")
    if is_path(mask):
        mask = both_hemispheres(mask) if len(meshes) == 2 else [mask]
    if isinstance(mask, (tuple, list)) and len(mask) == len(meshes):
        mask = dict(zip(meshes, mask, strict=True))
    if not isinstance(mask, Mapping) or set(mask) != set(meshes):
        raise ImageError(f"the mask must be given for the hemispheres of the surfaces: {', '.join(meshes)}")
    values = [_side_of_mask(mask[hemi], hemi, meshes[hemi]) for hemi in meshes]
    name = PAIR.join(str(mask[hemi]) for hemi in meshes if is_path(mask[hemi])) or "the mask"
    return checked_labels(np.concatenate(values), name)


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
