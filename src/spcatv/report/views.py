"""Which pictures go with a model: one place knows the kinds of space."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from spcatv._util.types import IntArray
from spcatv.report.flat import ImageView, LineView, flat_view
from spcatv.report.places import vertex_sets, voxel_set
from spcatv.report.surface import SurfaceView, surface_view
from spcatv.report.volume import VolumeView, field_view, volume_view
from spcatv.structure import GridStructure

View = VolumeView | SurfaceView | ImageView | LineView


def views_of(model: Any, background: str | os.PathLike[str] | None = None) -> tuple[View, ...]:
    """The views of a fitted model: one, or two for CIFTI-2 with surfaces and voxels.

    Parameters
    ----------
    model : SPCATV or ImageSPCATV
        Fitted.
    background : path, "template", "mean" or None
        Picture behind voxels of a brain, see `spcatv.report.volume.volume_view`.
    """
    space = getattr(model, "space_", None)
    mean = np.asarray(model.mean_, dtype=np.float64)
    if space is None:
        structure = model.structure_
        if isinstance(structure, GridStructure) and structure.labels.ndim == 3:
            return (field_view(structure, mean),)
        return (flat_view(model),)
    views: list[View] = []
    surfaces, voxels = surface_view(space), voxel_set(space)
    if surfaces is not None:
        views.append(surfaces)
    if voxels is not None:
        indices, affine, start = voxels
        inside = mean[start : start + len(indices)]
        views.append(volume_view(indices, affine, start=start, mean=inside, background=background))
    return tuple(views)


def hemisphere_vertices(model: Any) -> dict[str, IntArray]:
    """The vertices that are features, by hemisphere; empty where there is no surface."""
    space = getattr(model, "space_", None)
    return {} if space is None else {hemi: vertices for hemi, vertices, _ in vertex_sets(space)}
