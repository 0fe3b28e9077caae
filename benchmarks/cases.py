"""The data sets of the suite by name: a matrix in a file, and the structure of its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.data import ellipsoid_mask, real, standardised, surface_cohort, volume_cohort
from benchmarks.options import SETTING, Options
from spcatv.datasets import make_dots
from spcatv.structure import Structure, concat, grid, icosphere, mesh


@dataclass(frozen=True)
class Case:
    """A data set that every worker process opens for itself."""

    title: str
    path: Path  # X, a .npy file of float32
    shape: tuple[int, int]
    structure: Structure  # its operator is not computed yet
    mask: np.ndarray | None = None  # of volumes and images
    alpha: float = SETTING["alpha"]  # absolute

    @property
    def small(self) -> Structure:
        """A tiny structure of the same kind: a fit on it loads all kernels."""
        return concat([mesh(*icosphere(1))] * 2) if self.mask is None else grid((6,) * self.mask.ndim)


# The usual alpha makes every component of the simulation zero; this is the authors' value.
ALPHAS = {"dots": 0.01}
# Title, X, structure and mask.
Data = tuple[str, np.ndarray, Structure, np.ndarray | None]


def dots(quick: bool) -> Data:
    """Return the training half of the paper's simulation."""
    data = make_dots(100 if quick else 500, 40 if quick else 100, dtype=np.float32, random_state=0)
    X, _ = data.split()
    return "the paper's simulation", X, grid(data.shape), np.ones(data.shape, dtype=bool)


def volume(quick: bool) -> Data:
    """Simulate data of the size of the paper's fMRI data: 83 maps of 63,966 voxels."""
    mask = ellipsoid_mask(63_966)
    return "ellipsoid volume", volume_cohort(83, mask), grid(mask), mask


def two_spheres(quick: bool, n_rows: int) -> Data:
    """Simulate two hemispheres."""
    subdivisions = 4 if quick else 7
    coords, triangles = icosphere(subdivisions)
    structure = concat([mesh(coords, triangles) for _ in range(2)])
    return "two icospheres", surface_cohort(n_rows // 3 if quick else n_rows, subdivisions), structure, None


def raw_vbm() -> Data:
    """Grey-matter maps of 306 people."""
    arrays = real("vbm_volume.npz")
    return "real grey-matter maps", arrays["X"], grid(arrays["mask"]), arrays["mask"]


def raw_fmri() -> Data:
    """Twenty fMRI contrast maps."""
    arrays = real("fmri_contrast_volume.npz")
    return "real fMRI contrasts", arrays["X"], grid(arrays["mask"]), arrays["mask"]


def raw_thickness() -> Data:
    """Cortical thickness of 295 people on the cortex of fsaverage5."""
    from nilearn.datasets import load_fsaverage

    arrays = real("thickness_surface.npz")
    surface = load_fsaverage("fsaverage5")["white_matter"]
    halves = []
    for name, mask in zip(("left", "right"), np.split(arrays["mask"], 2), strict=True):
        half = surface.parts[name]
        halves.append(mesh(half.coordinates, half.faces, mask=mask))
    return "real cortical thickness", arrays["X"][:, arrays["mask"]], concat(halves), None


def raw_sst() -> Data:
    """Monthly sea-surface temperatures of the Pacific."""
    arrays = real("sst_grid.npz")
    return "real sea temperatures", arrays["X"][:, arrays["mask"]], grid(arrays["mask"]), arrays["mask"]


SIMULATED: dict[str, Callable[[bool], Data]] = {
    "dots": dots,
    "volume": volume,
    "surface50": partial(two_spheres, n_rows=50),
    "surface100": partial(two_spheres, n_rows=100),
}
REAL: dict[str, Callable[[], Data]] = {
    "vbm": raw_vbm,
    "fmri": raw_fmri,
    "thickness": raw_thickness,
    "sst": raw_sst,
}


def prepare(name: str, options: Options) -> Case:
    """Make a data set, real ones standardised, and write its matrix to a file for the workers."""
    title, X, structure, mask = SIMULATED[name](options.quick) if name in SIMULATED else REAL[name]()
    path = options.scratch / f"{name}.npy"
    np.save(path, np.ascontiguousarray(standardised(X) if name in REAL else X))
    title = f"{title}, {X.shape[0]} x {X.shape[1]:,}" + (
        f", alpha = {ALPHAS[name]:g}" if name in ALPHAS else ""
    )
    return Case(title, path, X.shape, structure, mask, ALPHAS.get(name, SETTING["alpha"]))


def prepare_or_skip(name: str, options: Options) -> Case | str:
    """Return a data set, or the reason why it is left out."""
    try:
        return prepare(name, options)
    except FileNotFoundError as error:
        return f"the file {error.filename} is not at hand"
    except ModuleNotFoundError as error:
        return f"{error.name} is not installed"
