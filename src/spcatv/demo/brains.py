"""The demonstration on brains: simulated cohorts on a real mask and a real surface.

A cohort is written as the files that a study would have. `spca-tv fit` is run on them from the command line,
and its results are read and compared with the truth.
"""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.files import replacing
from spcatv._util.tables import aligned
from spcatv._util.types import FloatArray, IntArray
from spcatv.datasets import SimulatedCohort, make_surface_cohort, make_volume_cohort
from spcatv.demo.extras import require
from spcatv.demo.pictures import draw_surface, draw_volume
from spcatv.estimator import SPCATV
from spcatv.metrics import dice, loading_mse, match_components
from spcatv.progress import say
from spcatv.results.layout import METRICS, component_maps, report_file
from spcatv.results.read import read_columns
from spcatv.structure import Structure, grid, icosphere, mesh

Command = Callable[[Sequence[str]], int]

N_PEOPLE = 60
SNR = 0.7
VOXEL_MM = 4
BALL_MM = 16.0
DISC_MM = 20.0
TEMPLATE = "fsaverage5"
# name of the results folder of SPCA-TV
OURS = "spca-tv"
# the regions are small, so most loadings should be zero, as many in both methods; without smoothness,
# neighbours do not count
SPARSITY = "0.95"
# only the report of SPCA-TV shows which components random halves find again
METHODS = {"Elastic-net PCA": ("--smoothness", "0", "--n-splits", "0"), "SPCA-TV": ("--n-splits", "3")}


@dataclass(frozen=True, eq=False)
class BrainMethod:
    """How one method did on a cohort."""

    name: str
    # as read from the files, in the order and with the signs of the truth, shape (3, n_features)
    loadings: FloatArray
    mse: float  # mean loading error against the truth
    dice: float  # mean Dice index of the supports (99 % of the norm) and those of the truth
    sparsity: float  # share of loadings that are zero
    n_clusters: int | None  # number of connected regions of all components; ``None`` without neighbours
    relative_gap: float  # largest certified relative gap
    seconds: float  # time of the fit


@dataclass(frozen=True, eq=False)
class BrainResult:
    """A cohort, what the methods found, the picture, and the report of SPCA-TV."""

    cohort: SimulatedCohort
    methods: tuple[BrainMethod, ...]
    picture: Path
    report: Path


def require_images() -> None:
    """Raise MissingExtraError unless images can be read, written and drawn."""
    require(("nibabel", "nilearn"), "images,report", "the demo on brains reads and writes images")
    require(("matplotlib", "jinja2"), "images,report", "the demo draws pictures and makes reports")


def run_volume(folder: Path, *, spca_tv: Command, seed: int = 0) -> BrainResult:
    """Simulate grey matter of MNI152, fit NIfTI files, compare; writes ``volume/`` and ``volume.png``."""
    import nibabel as nib
    from nilearn.datasets import load_mni152_gm_mask

    image = load_mni152_gm_mask(resolution=VOXEL_MM)
    mask = np.asarray(image.dataobj) != 0
    cohort = make_volume_cohort(
        mask, N_PEOPLE, voxel_size=VOXEL_MM, radius=BALL_MM, snr=SNR, dtype=np.float32, random_state=seed
    )
    say(
        f"Grey matter of the MNI152 template, {int(mask.sum()):,} voxels of {VOXEL_MM} mm: "
        f"{N_PEOPLE} simulated people, three components of two regions each."
    )
    source = _fresh(folder / "volume" / "input")
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), image.affine), source / "mask.nii.gz")
    for number, row in enumerate(cohort.X, start=1):
        values = np.zeros(mask.shape, dtype=np.float32)
        values[mask] = row
        nib.save(nib.Nifti1Image(values, image.affine), source / f"sub-{number:02d}_map.nii.gz")

    def read(results: Path) -> FloatArray:
        (file,) = component_maps(results)
        return np.asarray(nib.load(file).get_fdata(dtype=np.float32)[mask].T)

    _compile_for(grid((4, 4, 4)))
    inputs = [str(source / "sub-*_map.nii.gz"), "--mask", str(source / "mask.nii.gz")]
    methods = _fit_all(folder / "volume", inputs, cohort, read, spca_tv)
    picture = folder / "volume.png"
    with replacing(picture) as temporary:
        figure = draw_volume(mask, cohort.loadings, {method.name: method.loadings for method in methods})
        figure.savefig(temporary, format="png", dpi=130)
    report = _report(folder / "volume" / OURS, "Simulated grey matter", spca_tv)
    say(f"Picture: {picture}\nReport:  {report}\n")
    return BrainResult(cohort, methods, picture, report)


def run_surface(folder: Path, *, spca_tv: Command, seed: int = 0) -> BrainResult:
    """Simulate the cortex of fsaverage5, fit GIFTI files, compare: ``surface/`` and ``surface.png``."""
    import nibabel as nib
    from nilearn.datasets import load_fsaverage

    sides = load_fsaverage(TEMPLATE)["pial"].parts
    coords, triangles = _one_mesh([sides["left"], sides["right"]])
    n_left = len(sides["left"].coordinates)
    cohort = make_surface_cohort(
        coords, triangles, N_PEOPLE, radius=DISC_MM, snr=SNR, dtype=np.float32, random_state=seed
    )
    say(
        f"Cortex of {TEMPLATE}, {len(coords):,} vertices of two hemispheres: {N_PEOPLE} simulated people, "
        "three components of two regions each."
    )
    source = _fresh(folder / "surface" / "input")
    for number, row in enumerate(cohort.X, start=1):
        for side, values in (("L", row[:n_left]), ("R", row[n_left:])):
            array = nib.gifti.GiftiDataArray(
                values, intent="NIFTI_INTENT_SHAPE", datatype="NIFTI_TYPE_FLOAT32"
            )
            nib.save(
                nib.gifti.GiftiImage(darrays=[array]), source / f"sub-{number:02d}_hemi-{side}_map.shape.gii"
            )

    def read(results: Path) -> FloatArray:
        return np.hstack([np.stack(nib.load(file).agg_data()) for file in component_maps(results)])

    _compile_for(mesh(*icosphere(1)))
    inputs = [str(source / "sub-*_map.shape.gii"), "--template", TEMPLATE]
    methods = _fit_all(folder / "surface", inputs, cohort, read, spca_tv)
    inflated = load_fsaverage(TEMPLATE)["inflated"].parts
    picture = folder / "surface.png"
    with replacing(picture) as temporary:
        figure = draw_surface(
            [inflated["left"], inflated["right"]],
            cohort.loadings,
            {method.name: method.loadings for method in methods},
        )
        figure.savefig(temporary, format="png", dpi=130)
    report = _report(folder / "surface" / OURS, "Simulated cortex", spca_tv)
    say(f"Picture: {picture}\nReport:  {report}\n")
    return BrainResult(cohort, methods, picture, report)


def _report(results: Path, title: str, spca_tv: Command) -> Path:
    """Make the report with the command line."""
    _run(["report", str(results), "--title", title, "--overwrite", "--quiet"], spca_tv)
    return report_file(results)


def _run(arguments: Sequence[str], spca_tv: Command) -> None:
    say(f"$ {shlex.join(['spca-tv', *arguments])}")
    if spca_tv(arguments) != 0:
        raise RuntimeError("this command failed; the line above it says why")


def _compile_for(structure: Structure) -> None:
    """Fit a tiny problem of the same kind, so that the times in the table do not include compilation."""
    rows = np.random.default_rng(0).standard_normal((6, structure.n_features)).astype(np.float32)
    with warnings.catch_warnings(action="ignore"):  # the answers do not matter
        for smoothness in (0.0, 1.0):
            SPCATV(1, structure=structure, smoothness=smoothness).fit(rows)


def _one_mesh(sides: Sequence[Any]) -> tuple[FloatArray, IntArray]:
    """Two hemispheres as one mesh; the vertices of the second are numbered after those of the first."""
    coords = np.vstack([side.coordinates for side in sides])
    shifts = np.cumsum([0, *(len(side.coordinates) for side in sides[:-1])])
    triangles = np.vstack([side.faces + shift for side, shift in zip(sides, shifts, strict=True)])
    return coords, triangles


def _fresh(folder: Path) -> Path:
    """Create a folder if needed, and remove the images of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("sub-*_map.*"):
        file.unlink()
    return folder


def _fit_all(
    folder: Path,
    inputs: Sequence[str],
    cohort: SimulatedCohort,
    read: Callable[[Path], FloatArray],
    spca_tv: Command,
) -> tuple[BrainMethod, ...]:
    """Run the command line once per method, read the results, and print the table."""
    methods = []
    for name, options in METHODS.items():
        results = folder / (OURS if name == "SPCA-TV" else "elastic-net")
        wanted = ("--sparsity", SPARSITY, *options)
        _run(["fit", *inputs, *wanted, "--output", str(results), "--overwrite", "--quiet"], spca_tv)
        methods.append(_judged(name, read(results), results, cohort.loadings))
    header = ("method", "loading MSE", "Dice", "zeros", "clusters", "relative gap", "seconds")
    rows = [
        (
            method.name,
            f"{method.mse:.3f}",
            f"{method.dice:.2f}",
            f"{100 * method.sparsity:.1f} %",
            "-" if method.n_clusters is None else str(method.n_clusters),
            f"{method.relative_gap:.1e}",
            f"{method.seconds:.2f}",
        )
        for method in methods
    ]
    say("\n" + aligned(header, rows) + "\n")
    return tuple(methods)


def _judged(name: str, loadings: FloatArray, results: Path, truth: FloatArray) -> BrainMethod:
    match = match_components(truth, loadings)
    matched = match.sign[:, None] * loadings[match.order]
    live = loadings[loadings.any(axis=1)]
    metrics = read_columns(results / METRICS)
    clusters, gaps, seconds = (
        _known(metrics[column]) for column in ("n_clusters", "relative_gap", "seconds")
    )
    return BrainMethod(
        name=name,
        loadings=matched,
        mse=float(loading_mse(truth, loadings).mean()),
        dice=float(np.mean(dice(truth, matched, norm_fraction=0.99))),
        sparsity=float(np.mean(live == 0)) if len(live) else np.nan,
        n_clusters=int(sum(clusters)) if clusters else None,
        relative_gap=max(gaps, default=np.nan),
        seconds=sum(seconds),
    )


def _known(cells: Sequence[str]) -> list[float]:
    """The figures of a column; a dead component has none."""
    return [float(cell) for cell in cells if cell != "n/a"]
