"""The demonstration on the simulated images of the paper: three methods, one table, one picture.

The settings are those of docs/method.md section 6.2. Only the public interface is used.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from scipy.ndimage import gaussian_filter
from sklearn.decomposition import TruncatedSVD

from spcatv._util.files import replacing
from spcatv._util.tables import aligned
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.datasets import Dots, make_dots
from spcatv.demo.extras import require
from spcatv.estimator import SPCATV
from spcatv.metrics import dice, loading_mse, match_components, reconstruction_error
from spcatv.progress import say

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


N_COMPONENTS = 3
# The dots are small, so most loadings should be zero, as many in both methods; without smoothness, neighbours
# do not count. As in the paper, nothing is centred again: the features are standardised over all samples, and
# the mean of the training samples would only add noise to the held-out error of every method.
TOTAL_VARIATION: dict[str, Any] = {"sparsity": 0.9, "center": False}
ELASTIC_NET = {**TOTAL_VARIATION, "smoothness": 0.0}

PICTURE_NAME = "loadings.png"
TABLE_NAME = "table.tsv"
ROW_LABELS = ("component 1\ntwo upper dots", "component 2\ntwo lower dots", "component 3\nmiddle dot")


class _Decomposition(Protocol):
    """What the demo needs from a method."""

    components_: FloatArray

    def fit(self, X: FloatArray) -> Any: ...

    def transform(self, X: FloatArray) -> Any: ...

    def inverse_transform(self, X: FloatArray) -> Any: ...


@dataclass(frozen=True, eq=False)
class MethodResult:
    """How one method did."""

    name: str  # the method, as shown in the table and the picture
    # unit norm, in the order and with the signs of the true loadings they match, shape (3, n_features)
    loadings: FloatArray
    error: float  # Frobenius norm of the reconstruction error on the test samples
    mse: float  # mean loading error against the truth (`spcatv.metrics.loading_mse`)
    dice: float  # mean Dice index of the supports (99 % of the norm) against the truth
    sparsity: float  # share of loadings that are exactly zero
    # largest certified relative duality gap over the components; ``None`` for PCA, which has none
    relative_gap: float | None
    seconds: float  # wall-clock time of the fit, with linear algebra on one thread


@dataclass(frozen=True, eq=False)
class DotsResult:
    """What `run_dots` found, and the files that it wrote."""

    data: Dots
    methods: tuple[MethodResult, ...]
    picture: Path
    table: Path


def run_dots(folder: Path, *, seed: int = 0) -> DotsResult:
    """Simulate, fit, compare, and save ``loadings.png`` and ``table.tsv`` in an existing folder."""
    require(("matplotlib",), "report", "the demo draws a picture")
    data = make_dots(random_state=seed)
    train, test = data.split()
    pixels = " x ".join(map(str, data.shape))
    say(f"Simulated images of {pixels} pixels, seed {seed}: {len(train)} to fit, {len(test)} held out.")
    say(f"Compiling kernels, or loading compiled ones, took {_warm_up():.1f} s, which no time below counts.")
    models: dict[str, _Decomposition] = {
        "PCA": TruncatedSVD(N_COMPONENTS, algorithm="arpack", random_state=seed),
        "Elastic-net PCA": SPCATV(N_COMPONENTS, **ELASTIC_NET),
        "SPCA-TV": SPCATV(N_COMPONENTS, structure=data.shape, **TOTAL_VARIATION),
    }
    with one_blas_thread():  # the same for all methods: SPCATV never uses more
        methods = tuple(_evaluate(name, model, data) for name, model in models.items())
    say("\n" + format_table(methods) + "\n")
    picture, table = folder / PICTURE_NAME, folder / TABLE_NAME
    with replacing(picture) as temporary:
        draw_loadings(data, methods).savefig(temporary, format="png", dpi=160)
    with replacing(table) as temporary:
        temporary.write_text(table_as_tsv(methods), encoding="utf-8")
    say(f"Picture: {picture}")
    say(f"Table:   {table}\n")
    return DotsResult(data=data, methods=methods, picture=picture, table=table)


def _warm_up() -> float:
    """Fit a tiny problem of each kind, so that compilation is not counted as fitting; return seconds."""
    start = time.perf_counter()
    tiny = make_dots(n_samples=10, size=14, random_state=0)
    with warnings.catch_warnings(action="ignore"):  # the answers do not matter
        SPCATV(1, structure=tiny.shape, **TOTAL_VARIATION).fit(tiny.X)
        SPCATV(1, **ELASTIC_NET).fit(tiny.X)
    return time.perf_counter() - start


def _evaluate(name: str, model: _Decomposition, data: Dots) -> MethodResult:
    """Fit the first half of the samples; evaluate on the second half and against the truth."""
    train, test = data.split()
    start = time.perf_counter()
    model.fit(train)
    seconds = time.perf_counter() - start
    loadings = np.asarray(model.components_)
    match = match_components(data.loadings, loadings)
    matched = match.sign[:, None] * loadings[match.order]
    records = getattr(model, "diagnostics_", None)
    return MethodResult(
        name=name,
        loadings=matched,
        error=reconstruction_error(test, model.inverse_transform(model.transform(test))),
        mse=float(loading_mse(data.loadings, loadings).mean()),
        dice=float(np.mean(dice(data.loadings, matched, norm_fraction=0.99))),
        sparsity=float(np.mean(loadings == 0)),
        relative_gap=None if records is None else float(max(record.relative_gap for record in records)),
        seconds=seconds,
    )


def format_table(methods: tuple[MethodResult, ...]) -> str:
    """The results as a table with aligned columns, for people."""
    header = ("method", "held-out error", "loading MSE", "Dice", "zeros", "relative gap", "seconds")
    rows = [
        (
            method.name,
            f"{method.error:.2f}",
            f"{method.mse:.3f}",
            f"{method.dice:.2f}",
            f"{100 * method.sparsity:.1f} %",
            "-" if method.relative_gap is None else f"{method.relative_gap:.1e}",
            f"{method.seconds:.2f}",
        )
        for method in methods
    ]
    return aligned(header, rows)


def table_as_tsv(methods: tuple[MethodResult, ...]) -> str:
    """The results as tab-separated values, for programs; missing values are empty."""
    lines = ["method\treconstruction_error\tloading_mse\tdice\tsparsity\trelative_gap\tseconds"]
    for method in methods:
        gap = "" if method.relative_gap is None else repr(method.relative_gap)
        lines.append(
            f"{method.name}\t{method.error!r}\t{method.mse!r}\t{method.dice!r}\t{method.sparsity!r}\t{gap}\t"
            f"{method.seconds!r}"
        )
    return "\n".join(lines) + "\n"


def draw_loadings(data: Dots, methods: tuple[MethodResult, ...]) -> Figure:
    """Draw the true and the estimated loadings as images: one column per method, one row per component.

    All loadings have unit norm and share one colour scale, red above and blue below zero, white at zero; thin
    outlines show where the true dots are.
    """
    from matplotlib.figure import Figure

    truth = data.loadings / np.linalg.norm(data.loadings, axis=1, keepdims=True)
    columns = [("Truth", "", truth)]
    columns += [
        (m.name, f"held-out error {m.error:.1f}\nMSE {m.mse:.2f}, Dice {m.dice:.2f}", m.loadings)
        for m in methods
    ]
    limit = float(truth.max())
    figure = Figure(figsize=(2.0 * len(columns) + 1.2, 6.7), layout="constrained")
    grid = figure.subplots(N_COMPONENTS, len(columns), squeeze=False)
    for axes_of_column, (name, note, loadings) in zip(grid.T, columns, strict=True):
        axes_of_column[0].set_title(name, fontsize=12, fontweight="bold", pad=29)
        axes_of_column[0].annotate(
            note, (0.5, 1.03), xycoords="axes fraction", ha="center", va="bottom", fontsize=8.5, color="0.35"
        )
        for component, axes in enumerate(axes_of_column):
            image = _show_loading(axes, loadings[component], data, component, limit)
    for axes, label in zip(grid[:, 0], ROW_LABELS, strict=True):
        axes.set_ylabel(label, fontsize=9.5, labelpad=8)
    bar = figure.colorbar(image, ax=grid, shrink=0.55, aspect=28, pad=0.015, extend="both")
    bar.set_label("loading (unit norm)", fontsize=9.5)
    bar.ax.tick_params(labelsize=8.5)
    return figure


def _show_loading(axes: Axes, loading: FloatArray, data: Dots, component: int, limit: float) -> Any:
    """Show one loading as an image with the outline of the true dots; return the image for a colour bar."""
    image = axes.imshow(
        loading.reshape(data.shape), cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest"
    )
    # the half height of the smoothed indicator is a smooth circle; that of the indicator itself has steps
    outline = gaussian_filter(data.loadings[component].reshape(data.shape), 1.0)
    axes.contour(outline, [0.5], colors="0.25", linewidths=0.7)
    axes.set_xticks([])
    axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(color="0.6", linewidth=0.7)
    return image
