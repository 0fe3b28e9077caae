"""The data sets of the suite by name: a matrix in a file, and the structure of its columns."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.data import ellipsoid_mask, real, standardised, surface_cohort, volume_cohort
from benchmarks.options import SETTING, Options
from spcatv.datasets import make_dots
from spcatv.structure import Structure, concat, grid, icosphere, mesh


@dataclass(frozen=True)
class Case:
    """A data set that every worker process opens for itself.

    Attributes
    ----------
    name, title : str
        For the command line and for tables.
    path : Path
        X, a ``.npy`` file of float32.
    shape : tuple of int
        Rows and columns of X.
    structure : Structure
        Of the columns; its operator is not computed yet.
    small : Structure
        A tiny one of the same kind: a fit on it loads all kernels.
    mask : ndarray of bool or None
        For volumes and images.
    alpha : float
        Strength of the penalty, absolute.
    """

    name: str
    title: str
    path: Path
    shape: tuple[int, int]
    structure: Structure
    small: Structure
    mask: np.ndarray | None = None
    alpha: float = SETTING["alpha"]


# The usual alpha makes every component of the simulation zero; this is the authors' value.
ALPHAS = {"dots": 0.01}
Recipe = Callable[[bool], tuple[str, np.ndarray, Structure, np.ndarray | None]]


def dots(quick: bool):
    """Return the training half of the paper's simulation."""
    data = make_dots(100 if quick else 500, 40 if quick else 100, dtype=np.float32, random_state=0)
    X, _ = data.split()
    return "the paper's simulation", X, grid(data.shape), np.ones(data.shape, dtype=bool)


def volume(quick: bool):
    """Simulate data of the size of the paper's fMRI data: 83 maps of 63,966 voxels."""
    mask = ellipsoid_mask(63_966)
    return "ellipsoid volume", volume_cohort(83, mask), grid(mask), mask


def _two_spheres(n_rows: int, quick: bool):
    subdivisions = 4 if quick else 7
    coords, triangles = icosphere(subdivisions)
    structure = concat([mesh(coords, triangles) for _ in range(2)])
    return "two icospheres", surface_cohort(n_rows, subdivisions), structure, None


def surface50(quick: bool):
    """Two hemispheres, 50 rows."""
    return _two_spheres(20 if quick else 50, quick)


def surface100(quick: bool):
    """Two hemispheres, 100 rows."""
    return _two_spheres(30 if quick else 100, quick)


def raw_vbm():
    """Grey-matter maps of 306 people."""
    arrays = real("vbm_volume.npz")
    return "real grey-matter maps", arrays["X"], grid(arrays["mask"]), arrays["mask"]


def raw_fmri():
    """Twenty fMRI contrast maps."""
    arrays = real("fmri_contrast_volume.npz")
    return "real fMRI contrasts", arrays["X"], grid(arrays["mask"]), arrays["mask"]


def raw_thickness():
    """Cortical thickness of 295 people on the cortex of fsaverage5."""
    from nilearn.datasets import load_fsaverage

    arrays = real("thickness_surface.npz")
    surface = load_fsaverage("fsaverage5")["white_matter"]
    halves = []
    for name, mask in zip(("left", "right"), np.split(arrays["mask"], 2), strict=True):
        half = surface.parts[name]
        halves.append(mesh(half.coordinates, half.faces, mask=mask))
    return "real cortical thickness", arrays["X"][:, arrays["mask"]], concat(halves), None


def raw_sst():
    """Monthly sea-surface temperatures of the Pacific."""
    arrays = real("sst_grid.npz")
    return "real sea temperatures", arrays["X"][:, arrays["mask"]], grid(arrays["mask"]), arrays["mask"]


def _standardised(title: str, X: np.ndarray, structure: Structure, mask: np.ndarray | None):
    return title, standardised(X), structure, mask


def vbm(quick: bool):
    """Grey-matter maps of 306 people, standardised."""
    return _standardised(*raw_vbm())


def fmri(quick: bool):
    """Twenty fMRI contrast maps, standardised."""
    return _standardised(*raw_fmri())


def thickness(quick: bool):
    """Cortical thickness of 295 people, standardised."""
    return _standardised(*raw_thickness())


def sst(quick: bool):
    """Monthly sea-surface temperatures of the Pacific, standardised."""
    return _standardised(*raw_sst())


SIMULATED: tuple[Recipe, ...] = (dots, volume, surface50, surface100)
REAL: tuple[Recipe, ...] = (vbm, fmri, thickness, sst)


def prepare(recipe: Recipe, options: Options) -> Case:
    """Make a data set and write its matrix to a file for the workers."""
    title, X, structure, mask = recipe(options.quick)
    path = options.scratch / f"{recipe.__name__}.npy"
    np.save(path, np.ascontiguousarray(X))
    shape = X.shape
    del X
    gc.collect()
    small = concat([mesh(*icosphere(1))] * 2) if mask is None else grid((6,) * mask.ndim)
    name = recipe.__name__
    title = f"{title}, {shape[0]} x {shape[1]:,}" + (f", alpha = {ALPHAS[name]:g}" if name in ALPHAS else "")
    return Case(name, title, path, shape, structure, small, mask, alpha=ALPHAS.get(name, SETTING["alpha"]))


def prepare_or_skip(recipe: Recipe, options: Options) -> Case | str:
    """Return a data set, or the reason why it is left out."""
    if options.quick and recipe in REAL:
        return "left out of a quick run"
    try:
        return prepare(recipe, options)
    except FileNotFoundError as error:
        return f"the file {error.filename} is not at hand"
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
