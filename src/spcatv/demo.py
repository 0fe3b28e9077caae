"""`spca-tv demo`: the simulated images of the paper, then simulated cohorts in files on real brains.

The settings are those of docs/comparison.md. Only the public interface and the command line are used.
"""

from __future__ import annotations

import argparse
import shlex
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from spcatv._util.atomic_files import replacing
from spcatv._util.tables import aligned
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.cli import main
from spcatv.cli.config import effective_options
from spcatv.cli.display import safe_print, show_page
from spcatv.cli.parser import InputError
from spcatv.datasets import Dots, SimulatedCohort, make_dots, make_surface_cohort, make_volume_cohort
from spcatv.estimator import SPCATV
from spcatv.metrics import dice, loading_mse, match_components, reconstruction_error
from spcatv.results import open_model, report_file
from spcatv.results.read import restore_model

# Prints a line.
Show: TypeAlias = Callable[[str], None]

PARTS = ("dots", "volume", "surface")
N_COMPONENTS = 3
# The dots are small, so most loadings should be zero. As in the paper, the features are standardised over all
# samples, and nothing is centred again.
DOTS: dict[str, Any] = {"sparsity": 0.9, "center": False}
DOT_LABELS = ("component 1\ntwo upper dots", "component 2\ntwo lower dots", "component 3\nmiddle dot")
N_PEOPLE = 60
SNR = 0.7
VOXEL_MM = 4
# radius of the simulated regions in the volume and on the surface
BALL_MM, DISC_MM = 16.0, 20.0
TEMPLATE = "fsaverage5"
FIT = ("--sparsity", "0.95", "--n-splits", "3", "--overwrite", "--quiet")
COLOURS = "RdBu_r"


def run(arguments: argparse.Namespace) -> None:
    """Run the chosen parts, one after the other."""
    options = effective_options(arguments)
    folder: Path = options.output
    parts = arguments.only or PARTS
    _check_extras(parts)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"cannot write to the output folder {folder} ({error.strerror}); choose another with --output"
        ) from error
    show = (lambda text: None) if options.quiet else safe_print
    if "dots" in parts:
        run_dots(folder, options.seed, show)
    cohorts = {"volume": run_volume, "surface": run_surface}
    reports = [
        run_part(folder / part, options.seed, show) for part, run_part in cohorts.items() if part in parts
    ]
    for report in reports if options.open else ():
        show_page(report)


def _check_extras(parts: Sequence[str]) -> None:
    """Refuse to start without the packages that the parts need."""
    extra, packages = "report", ["matplotlib"]
    if set(parts) - {"dots"}:
        extra, packages = "images,report", ["nibabel", "nilearn", "matplotlib", "jinja2"]
    for package in packages:
        try:
            import_module(package)
        except ImportError as error:
            message = f'the demo needs {package}, which is not installed: pip install "spca-tv[{extra}]"'
            raise RuntimeError(message) from error


def run_dots(folder: Path, seed: int, show: Show) -> FloatArray:
    """Fit the images of the paper with three methods, print a table, and draw ``loadings.png``.

    Returns the loadings in the order and with the signs of the truth, shape (n_methods, n_components, P).
    """
    from sklearn.decomposition import TruncatedSVD

    data = make_dots(random_state=seed)
    train, test = data.split()
    size = " x ".join(map(str, data.shape))
    show(f"Simulated images of {size} pixels, seed {seed}: {len(train)} to fit, {len(test)} held out.\n")
    models: dict[str, Any] = {
        "PCA": TruncatedSVD(N_COMPONENTS, algorithm="arpack", random_state=seed),
        "Elastic-net PCA": SPCATV(N_COMPONENTS, smoothness=0.0, **DOTS),
        "SPCA-TV": SPCATV(N_COMPONENTS, structure=data.shape, **DOTS),
    }
    rows, columns = [], {"Truth": ("", data.loadings)}
    for name, model in models.items():
        with one_blas_thread():
            model.fit(train)
        match = match_components(data.loadings, model.components_)
        loadings = match.sign[:, None] * model.components_[match.order]
        error = reconstruction_error(test, model.inverse_transform(model.transform(test)))
        mse = float(loading_mse(data.loadings, loadings).mean())
        overlap = float(np.mean(dice(data.loadings, loadings, norm_fraction=0.99)))
        rows.append((name, f"{error:.2f}", f"{mse:.3f}", f"{overlap:.2f}", f"{np.mean(loadings == 0):.1%}"))
        columns[name] = (f"held-out error {error:.1f}\nMSE {mse:.2f}, Dice {overlap:.2f}", loadings)
    show(aligned(("method", "held-out error", "loading MSE", "Dice", "zeros"), rows) + "\n")
    with replacing(folder / "loadings.png") as temporary:
        draw_dots(data, columns).savefig(temporary, format="png", dpi=160)
    show(f"Picture: {folder / 'loadings.png'}\n")
    return np.array([loadings for _, loadings in columns.values()][1:])


def draw_dots(data: Dots, columns: dict[str, tuple[str, FloatArray]]) -> Any:
    """Draw loadings as images: one column per method with a note, one row per component.

    All loadings have unit norm and share one colour scale; thin outlines show where the true dots are.
    """
    from matplotlib.figure import Figure
    from scipy.ndimage import gaussian_filter

    norms = np.linalg.norm(data.loadings, axis=1)
    limit = float((data.loadings / norms[:, None]).max())
    figure = Figure(figsize=(2.0 * len(columns) + 1.2, 6.7), layout="constrained")
    grid = figure.subplots(N_COMPONENTS, len(columns), squeeze=False)
    for panels, (name, (note, loadings)) in zip(grid.T, columns.items(), strict=True):
        panels[0].set_title(name, fontsize=12, fontweight="bold", pad=29)
        where: dict[str, Any] = {"xycoords": "axes fraction", "ha": "center", "va": "bottom"}
        panels[0].annotate(note, (0.5, 1.03), fontsize=8.5, color="0.35", **where)
        for axes, loading, truth in zip(panels, loadings, data.loadings, strict=True):
            values = (loading / np.linalg.norm(loading)).reshape(data.shape)
            image = axes.imshow(values, cmap=COLOURS, vmin=-limit, vmax=limit, interpolation="nearest")
            # the half height of the smoothed indicator is a smooth circle; that of the indicator has steps
            outline = gaussian_filter(truth.reshape(data.shape), 1.0)
            axes.contour(outline, [0.5], colors="0.25", linewidths=0.7)
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(color="0.6", linewidth=0.7)
    for axes, label in zip(grid[:, 0], DOT_LABELS, strict=True):
        axes.set_ylabel(label, fontsize=9.5, labelpad=8)
    bar = figure.colorbar(image, ax=grid, shrink=0.55, aspect=28, pad=0.015, extend="both")
    bar.set_label("loading (unit norm)", fontsize=9.5)
    bar.ax.tick_params(labelsize=8.5)
    return figure


def run_volume(folder: Path, seed: int, show: Show) -> Path:
    """Simulate grey matter of MNI152 as NIfTI files, fit them, and return the report."""
    import nibabel as nib
    from nilearn.datasets import load_mni152_gm_mask

    image = load_mni152_gm_mask(resolution=VOXEL_MM)
    mask = np.asarray(image.dataobj) != 0
    cohort = make_volume_cohort(
        mask, N_PEOPLE, voxel_size=VOXEL_MM, radius=BALL_MM, snr=SNR, dtype=np.float32, random_state=seed
    )
    show(f"Grey matter of the MNI152 template, {int(mask.sum()):,} voxels of {VOXEL_MM} mm. {_about(cohort)}")
    source = _fresh(folder / "input")
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), image.affine), source / "mask.nii.gz")
    for number, row in enumerate(cohort.X, start=1):
        values = np.zeros(mask.shape, dtype=np.float32)
        values[mask] = row
        nib.save(nib.Nifti1Image(values, image.affine), source / f"sub-{number:02d}_map.nii.gz")
    inputs = [str(source / "sub-*_map.nii.gz"), "--mask", str(source / "mask.nii.gz")]
    return _fit_and_show(folder, inputs, cohort, show)


def run_surface(folder: Path, seed: int, show: Show) -> Path:
    """Simulate the cortex of fsaverage5 as GIFTI files, fit them, and return the report."""
    import nibabel as nib
    from nilearn.datasets import load_fsaverage

    sides = load_fsaverage(TEMPLATE)["pial"].parts
    left, right = sides["left"], sides["right"]
    n_left = len(left.coordinates)
    coords = np.vstack([left.coordinates, right.coordinates])
    triangles = np.vstack([left.faces, right.faces + n_left])
    cohort = make_surface_cohort(
        coords, triangles, N_PEOPLE, radius=DISC_MM, snr=SNR, dtype=np.float32, random_state=seed
    )
    show(f"Cortex of {TEMPLATE}, {len(coords):,} vertices of two hemispheres. {_about(cohort)}")
    source = _fresh(folder / "input")
    for number, row in enumerate(cohort.X, start=1):
        for side, values in (("L", row[:n_left]), ("R", row[n_left:])):
            array = nib.gifti.GiftiDataArray(
                values, intent="NIFTI_INTENT_SHAPE", datatype="NIFTI_TYPE_FLOAT32"
            )
            file = source / f"sub-{number:02d}_hemi-{side}_map.shape.gii"
            nib.save(nib.gifti.GiftiImage(darrays=[array]), file)
    inputs = [str(source / "sub-*_map.shape.gii"), "--template", TEMPLATE]
    return _fit_and_show(folder, inputs, cohort, show)


def _about(cohort: SimulatedCohort) -> str:
    return f"{len(cohort.X)} simulated people, {len(cohort.loadings)} components of two regions each."


def _fresh(folder: Path) -> Path:
    """Create a folder if needed, and remove the images of an earlier run."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in folder.glob("sub-*_map.*"):
        file.unlink()
    return folder


def _fit_and_show(folder: Path, inputs: list[str], cohort: SimulatedCohort, show: Show) -> Path:
    """Fit the files of a cohort, make the report and a picture, print the overlap with the truth."""
    results, picture = folder / "results", folder.with_suffix(".png")
    title = ["--title", f"Simulated {folder.name}"]
    for words in (
        ["fit", *inputs, *FIT, "--output", str(results)],
        ["report", str(results), *title, "--overwrite", "--quiet"],
    ):
        show(f"$ {shlex.join(['spca-tv', *words])}")
        if main(words) != 0:
            raise RuntimeError("this command failed; the line above it says why")
    model = restore_model(open_model(results))
    with replacing(picture) as temporary:
        model.plot_components().savefig(temporary, format="png", dpi=100)
    found = model.components_[match_components(cohort.loadings, model.components_).order]
    values = np.atleast_1d(dice(cohort.loadings, found, norm_fraction=0.99))
    overlap = ", ".join(f"{value:.2f}" for value in values)
    show(f"Overlap with the true regions (Dice index) by component: {overlap}")
    show(f"Picture: {picture}\nReport:  {report_file(results)}\n")
    return report_file(results)
