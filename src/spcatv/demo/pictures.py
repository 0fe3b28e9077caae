"""Pictures of loadings on brains: a projection of a volume, four views of two hemispheres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spcatv._util.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


COLOURS = "RdBu_r"
# views of a hemisphere: from the left (-1) or the right (+1) of the head
LEFT, RIGHT = -1.0, 1.0


def draw_volume(mask: BoolArray, truth: FloatArray, methods: Mapping[str, FloatArray]) -> Figure:
    """Draw loadings (K, P), matched to the truth, from above: a pixel shows the largest one below it."""
    outline = mask.any(axis=2)
    figure, panels = _panels(truth, methods, width=2.2, height=2.5)
    for axes, loading, limit in panels:
        volume = np.zeros(mask.shape)
        volume[mask] = loading
        largest = np.abs(volume).argmax(axis=2)
        seen = np.take_along_axis(volume, largest[..., None], axis=2)[..., 0]
        seen[~outline] = np.nan  # stays white
        axes.imshow(seen.T, cmap=COLOURS, vmin=-limit, vmax=limit, origin="lower", interpolation="nearest")
        axes.contour(outline.T, [0.5], colors="0.5", linewidths=0.6)
    return figure


def draw_surface(sides: Sequence[Any], truth: FloatArray, methods: Mapping[str, FloatArray]) -> Figure:
    """Draw loadings (K, P) on two hemispheres, each seen from outside and from inside.

    `sides` are two meshes with `coordinates` (n_vertices, 3) and `faces` (n_triangles, 3); the features are
    their vertices, left before right.
    """
    figure, panels = _panels(truth, methods, width=3.0, height=2.4)
    for axes, loading, limit in panels:
        halves = np.split(loading, [len(sides[0].coordinates)])
        for column, (side, values) in enumerate(zip(sides, halves, strict=True)):
            outside = LEFT if column == 0 else RIGHT
            for row, direction in enumerate((outside, -outside)):
                _draw_view(axes, side, values / limit, direction, (column, -row))
        axes.set_aspect("equal")
        axes.autoscale_view()
    return figure


def _panels(
    truth: FloatArray, methods: Mapping[str, FloatArray], *, width: float, height: float
) -> tuple[Figure, list[tuple[Axes, FloatArray, float]]]:
    """One row per component, one column for the truth and for every method; and what each panel draws."""
    from matplotlib.figure import Figure

    true = truth / np.linalg.norm(truth, axis=1, keepdims=True)
    columns = {"Truth": true, **methods}
    figure = Figure(figsize=(width * len(columns), height * len(truth) + 0.4), layout="constrained")
    grid = figure.subplots(len(truth), len(columns), squeeze=False)
    panels = []
    for place, (name, loadings) in enumerate(columns.items()):
        grid[0, place].set_title(name, fontsize=11, fontweight="bold")
        for component, loading in enumerate(loadings):
            axes = grid[component, place]
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set_visible(False)
            if place == 0:
                axes.set_ylabel(f"component {component + 1}", fontsize=10)
            panels.append((axes, np.asarray(loading), float(np.abs(true[component]).max())))
    return figure, panels


def _draw_view(axes: Axes, side: Any, values: FloatArray, direction: float, place: tuple[int, int]) -> None:
    """Draw one hemisphere from one side; `values` from -1 to 1 use the whole colour scale."""
    from matplotlib import colormaps
    from matplotlib.collections import PolyCollection

    coords, faces = np.asarray(side.coordinates, dtype=np.float64), np.asarray(side.faces)
    corners = coords[faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-12)
    facing = normals[:, 0] * direction
    seen = np.flatnonzero(facing > 0)
    seen = seen[np.argsort(corners[seen, :, 0].mean(axis=1) * direction)]  # far ones first
    colours = colormaps[COLOURS](np.clip(0.5 + 0.5 * values[faces[seen]].mean(axis=1), 0, 1))
    colours[:, :3] *= (0.72 + 0.28 * facing[seen])[:, None]  # darker where the surface turns away
    # seen from the left, the front of the head is to the left
    flat = np.stack([coords[:, 1] * direction, coords[:, 2]], axis=1)
    flat = (flat - flat.min(axis=0)) / np.ptp(flat[:, 0])
    shifted = flat + np.array([1.08 * place[0], 0.85 * place[1]])
    axes.add_collection(
        PolyCollection(shifted[faces[seen]], facecolors=colours, edgecolors=colours, linewidths=0.2)
    )
