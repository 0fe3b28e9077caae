"""Pictures of the maps: every method, every component, on the same slices or the same sides of the brain."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import real
from benchmarks.reproduce.realdata import RealData
from benchmarks.reproduce.store import Record
from spcatv._util.atomic_files import replacing
from spcatv.metrics import match_components

# Share of the largest loadings that may be beyond the colour scale.
SCALE_QUANTILE = 0.995
COLOURS = "RdBu_r"
OUTSIDE, ZERO = 1.0, 0.82  # greys
LEFT, TOP, BOTTOM = 1.1, 0.3, 0.1  # margins in inches, for the names of methods and components
N_COLOURS = 128  # of the file, which keeps it small
DPI = 80
VOLUMES = {"vbm": "vbm_volume.npz", "fmri": "fmri_contrast_volume.npz"}
# Draws a map (P,) of the component with the given number into its panels, with a limit of the colour scale.
Draw = Callable[[Sequence[Any], int, np.ndarray, float], None]


def draw_maps(path: Path, name: str, data: RealData, found: Mapping[str, Record]) -> None:
    """Write one picture: one row per method, the components side by side.

    Parameters
    ----------
    path : Path
        A PNG file.
    name : str
        Data set.
    data : RealData
        Its matrix and structure.
    found : mapping
        Fits to all rows by label. The components of all are matched to the last one, with its signs, and
        every map has a colour scale of its own: loadings of unit norm are the larger the fewer they are.
    """
    from matplotlib.figure import Figure

    reference = list(found.values())[-1].components
    n_panels, size, make = _views(name, data)
    draw = make(reference)
    width, height = LEFT + len(reference) * size[0], TOP + len(found) * size[1] + BOTTOM
    figure = Figure(figsize=(width, height))
    grid = figure.add_gridspec(len(found), len(reference), wspace=0.03, hspace=0.02)
    grid.update(left=LEFT / width, right=1, bottom=BOTTOM / height, top=1 - TOP / height)
    for row, (label, record) in enumerate(found.items()):
        match = match_components(reference, record.components)
        maps = match.sign[:, None] * record.components[match.order]
        for column, loading in enumerate(maps):
            cell = grid[row, column].subgridspec(1, n_panels, wspace=0.0)
            panels = [figure.add_subplot(cell[0, panel]) for panel in range(n_panels)]
            shown = np.abs(loading[loading != 0])
            draw(panels, column, loading, float(np.quantile(shown, SCALE_QUANTILE)) if len(shown) else 1.0)
            for axes in panels:
                axes.set_axis_off()
                axes.set_title("")
        middle = 1 - (TOP + (row + 0.5) * size[1]) / height
        figure.text(0.005, middle, _wrapped(label), va="center", fontsize=9)
    for column in range(len(reference)):
        middle = (LEFT + (column + 0.5) * size[0]) / width
        figure.text(middle, 1 - 0.1 / height, f"component {column + 1}", ha="center", va="top")
    with replacing(path) as draft:
        _save(figure, draft)


def _views(name: str, data: RealData) -> tuple[int, tuple[float, float], Callable[[np.ndarray], Draw]]:
    """Panels per map, the size of a map in inches, and what makes the function that draws."""
    if name == "sst":
        return 1, (2.6, 1.05), lambda reference: _draw_sst
    if name == "thickness":
        return 4, (3.4, 0.85), lambda reference: _surface()
    mask = real(VOLUMES[name])["mask"] if name in VOLUMES else data.structure.labels != 0
    affine = real(VOLUMES[name])["affine"] if name in VOLUMES else np.eye(4)
    return 3, (3.4, 1.2), lambda reference: _slices(mask, affine, reference)


def _draw_sst(panels: Sequence[Any], component: int, loading: np.ndarray, limit: float) -> None:
    mask = real("sst_grid.npz")["mask"]
    image = np.full(mask.shape, np.nan)
    image[mask] = loading
    latitudes = real("sst_grid.npz")["lat"]
    # north is up
    _show(panels[0], image if latitudes[0] < latitudes[-1] else image[::-1], mask, limit)


def _slices(mask: np.ndarray, affine: np.ndarray, reference: np.ndarray) -> Draw:
    """Sagittal, coronal and axial slices: those where each component of `reference` has the largest sum."""
    centres = np.array([_fullest_slices(mask, loading) for loading in reference])
    # left is left, whatever the direction in which voxels are stored
    backwards = [axis for axis in range(3) if affine[axis, axis] < 0]
    centres[:, backwards] = np.array(mask.shape)[backwards] - 1 - centres[:, backwards]
    inside = np.flip(mask, backwards)

    def draw(panels: Sequence[Any], component: int, loading: np.ndarray, limit: float) -> None:
        image = np.full(mask.shape, np.nan)
        image[mask] = loading
        image = np.flip(image, backwards)
        for fixed, axes in enumerate(panels):
            place = centres[component, fixed]
            _show(axes, image.take(place, axis=fixed).T, inside.take(place, axis=fixed).T, limit)

    return draw


def _fullest_slices(mask: np.ndarray, loading: np.ndarray) -> list[int]:
    """Along each axis, the slice with the largest sum of absolute loadings."""
    volume = np.zeros(mask.shape)
    volume[mask] = np.abs(loading)
    others = ((1, 2), (0, 2), (0, 1))
    return [int(np.argmax(volume.sum(axis=axes))) for axes in others]


def _show(axes: Any, image: np.ndarray, inside: np.ndarray, limit: float) -> None:
    """Draw an image whose first row is at the bottom: zeros in grey, nothing outside of the mask."""
    grey = np.where(inside, ZERO, OUTSIDE)
    axes.imshow(grey, cmap="gray", vmin=0, vmax=1, origin="lower", interpolation="nearest")
    shown = np.ma.masked_where(~inside | (image == 0), image)
    axes.imshow(shown, cmap=COLOURS, vmin=-limit, vmax=limit, origin="lower", interpolation="nearest")


def _surface() -> Draw:
    """Both inflated hemispheres of fsaverage5, from outside and from inside."""
    from matplotlib.colors import Normalize
    from nilearn.datasets import load_fsaverage

    from spcatv.images.spaces.base import VertexSet
    from spcatv.images.spaces.meshes import load_meshes
    from spcatv.report.brain_views import surface_view

    meshes = load_meshes(load_fsaverage("fsaverage5")["inflated"])
    sides: list[VertexSet] = []
    for (hemi, mesh), mask in zip(
        meshes.items(), np.split(real("thickness_surface.npz")["mask"], 2), strict=True
    ):
        sides.append(VertexSet(sides[-1].stop if sides else 0, hemi, np.flatnonzero(mask), mesh))
    view = surface_view(sides)

    def draw(panels: Sequence[Any], component: int, loading: np.ndarray, limit: float) -> None:
        view.draw(panels, loading, Normalize(-limit, limit))

    return draw


def _wrapped(label: str) -> str:
    """At most two lines, since the margin is narrow."""
    return label.removesuffix(" (nilearn)").removesuffix(" (mini-batch)").replace(" ", "\n", 1)


def _save(figure: Any, path: Path) -> None:
    """Write a PNG with a palette, a quarter of the size."""
    from io import BytesIO

    from PIL import Image

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=DPI)
    Image.open(buffer).convert("RGB").quantize(N_COLOURS, dither=Image.Dither.NONE).save(
        path, "png", optimize=True
    )
