"""Pictures of real maps: `python docs/pictures/real.py [NAME ...]`.

The data are read from ../shared/data, or the folder in SPCATV_DATA (benchmarks/README.md says what they are).
They may not be copied; the pictures are small and may.
"""

import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.cases import raw_sst, raw_thickness
from benchmarks.data import real, standardised
from benchmarks.reproduce.realdata import n_regions
from drawing import COLOURS, FOLDER, empty, on, plt, save, show

from spcatv import SPCATV
from spcatv.problem import LoadingProblem
from spcatv.selection import count_components
from spcatv.solvers import solve
from spcatv.stability import split_halves
from spcatv.structure import grid

SPARSITY = (0.5, 0.7, 0.9, 0.97)
SMOOTHNESS = (0, 0.5, 1, 2)


def sea():
    """Sea temperatures: title, standardised data, structure, mask of the ocean, and land as a background."""
    _, X, structure, ocean = raw_sst()
    return standardised(X), structure, ocean, np.where(ocean, 0.93, 0.55)


def settings(name, X, structure, draw, size, component=0, smoothness=SMOOTHNESS):
    """One map per setting: sparsity from left to right, smoothness from top to bottom."""
    figure, axes = plt.subplots(len(smoothness), len(SPARSITY), figsize=size, layout="constrained")
    reference = None
    for row, smooth in zip(axes, smoothness, strict=True):
        for cell, sparsity in zip(row, SPARSITY, strict=True):
            model = SPCATV(component + 1, structure=structure, sparsity=sparsity, smoothness=smooth).fit(X)
            loading = model.components_[component]
            reference = loading if reference is None else reference
            loading = loading if loading @ reference >= 0 else -loading
            draw(cell, loading)
            count = n_regions(loading, structure)
            cell.set_xlabel(f"{count:,} region{'s' if count != 1 else ''}", fontsize=8)
            if smooth == smoothness[0]:
                cell.set_title(f"sparsity {sparsity:g}")
            if sparsity == SPARSITY[0]:
                cell.set_ylabel(f"smoothness {smooth:g}")
    save(figure, name)


def choosing_sea():
    """Draw the El Nino pattern by sparsity and smoothness."""
    X, structure, ocean, land = sea()
    settings("choosing-sea", X, structure, lambda axes, v: show(axes, on(ocean, v), land), (7.5, 4.2))


def fmri():
    """Twenty fMRI contrasts: standardised data, structure, a function that draws a map, seen from above."""
    arrays = real("fmri_contrast_volume.npz")
    mask = arrays["mask"].astype(bool)
    inside = np.ix_(*(np.flatnonzero(mask.any(axis=(1 - axis, 2))) for axis in (0, 1)))
    brain = np.where(mask.any(axis=2)[inside], 0.9, 1.0)

    def draw(axes, v, **options):
        volume = on(mask, v, 0.0)[inside]
        largest = np.abs(volume).argmax(axis=2)
        show(axes, np.take_along_axis(volume, largest[..., None], 2)[..., 0].T, brain.T, **options)

    return standardised(arrays["X"]), grid(mask), draw


def choosing_brain():
    """Draw a map of fMRI contrasts by sparsity and smoothness."""
    X, structure, draw = fmri()
    settings("choosing-brain", X, structure, draw, (7.2, 9))


def how_many():
    """Draw the shares of the components of two data sets, beside those that noise reaches."""
    figure, axes = plt.subplots(1, 2, figsize=(7.5, 2.9), layout="constrained")
    for cell, raw in zip(axes, (raw_sst, raw_thickness), strict=True):
        title, X, structure, _ = raw()
        count = count_components(SPCATV(structure=structure), X, standardize=True)
        number = np.arange(1, len(count.share) + 1)
        cell.bar(
            number, 100 * count.share, color=np.where(number <= count.n_components, "#b2182b", "#b8b8b8")
        )
        cell.plot(number, 100 * count.limit, color="black", linewidth=0.8, linestyle="--")
        cell.text(
            len(number) + 0.5, 100 * count.limit[-1], "noise as smooth", ha="right", va="bottom", fontsize=8
        )
        cell.set(xlabel="component", ylabel="share of remaining variance (%)", xticks=number)
        cell.set_title(f"{title.removeprefix('real ')}: {count.n_components} stand out")
    save(figure, "how-many")


def stable():
    """Draw the first component in two halves of the samples, of a large and of a small data set."""
    figure, axes = plt.subplots(2, 3, figsize=(7.5, 4.2), layout="constrained", height_ratios=(1, 1.9))
    X, structure, ocean, land = sea()
    rows = (
        (
            "399 months of\nsea temperatures",
            X,
            structure,
            lambda *at, **how: show(at[0], on(ocean, at[1]), land, **how),
        ),
        ("fMRI contrasts\nof 20 people", *fmri()),
    )
    for row, (title, data, neighbours, draw) in zip(axes, rows, strict=True):
        estimator = SPCATV(1, structure=neighbours)
        order = np.random.default_rng(0).permutation(len(data))
        first, second = (
            estimator.fit(data[np.sort(half)]).components_[0] for half in np.array_split(order, 2)
        )
        draw(row[0], first, title="half A")
        draw(row[1], second if second @ first >= 0 else -second, title="half B")
        row[0].set_ylabel(title)
        verdict = split_halves(estimator.fit(data), data, n_splits=10, random_state=0).reproducibility[0]
        empty(row[2])
        words = (
            verdict.sentence.replace(" (", "\n(").replace("), ", "),\n").replace("halves of", "halves\nof")
        )
        row[2].text(0.05, 0.5, words, va="center")
    save(figure, "stable")


def certificate():
    """Objective and lower bound of a loading problem of real data, and the true error below its bound."""
    X, structure, *_ = sea()
    X = X.astype(float)
    u = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[0][:, 0]
    y = (X - X.mean(axis=0)).T @ u
    problem = LoadingProblem(y / y.std(), structure, l1=0.3, tv=1.0)
    exact = solve(problem, tol=1e-13, max_iter=200_000)
    steps = [solve(problem, tol=1e-15, max_iter=n) for n in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)]
    n = [step.n_iter for step in steps]
    scale = problem.scale()
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.5, 2.9), layout="constrained")
    left.plot(n, [s.value / scale for s in steps], "o-", color="#b2182b", label="objective of the map", ms=3)
    left.plot(n, [(s.value - s.gap) / scale for s in steps], "o-", color="#2166ac", label="lower bound", ms=3)
    left.axhline(exact.value / scale, color="black", linewidth=0.8, linestyle="--", label="exact minimum")
    left.set(
        xscale="log",
        xlabel="iterations",
        ylabel="objective, 1 for the empty map",
        title="The minimum lies between the two",
    )
    right.loglog(n, [s.error_bound for s in steps], "o-", color="#2166ac", label="error bound", ms=3)
    true = [np.linalg.norm(s.v - exact.v) for s in steps]
    right.loglog(n, true, "o-", color="#b2182b", label="true distance to the exact map", ms=3)
    right.set(xlabel="iterations", title="The error bound is never below the error")
    for axes in (left, right):
        axes.legend(frameon=False, fontsize=8)
    save(figure, "certificate")


def structure_grid():
    """Draw the leading pattern of the sea temperatures, by PCA and by SPCA-TV on the ocean."""
    X, structure, ocean, land = sea()
    dense = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][0]
    model = SPCATV(1, structure=structure, sparsity=0.8).fit(X)
    figure, axes = plt.subplots(1, 2, figsize=(9, 2.1), layout="constrained")
    dense = dense if dense @ model.components_[0] >= 0 else -dense
    show(axes[0], on(ocean, dense), land, title="PCA")
    show(
        axes[1],
        on(ocean, model.components_[0]),
        land,
        title="SPCA-TV, sparsity 0.8: nothing crosses land (grey)",
    )
    save(figure, "structure-grid")


def structure_mesh():
    """Draw the first components of cortical thickness, on the inflated cortex."""
    from nilearn.datasets import load_fsaverage, load_fsaverage_data
    from nilearn.plotting import plot_surf_stat_map

    _, X, structure, _ = raw_thickness()
    cortex = real("thickness_surface.npz")["mask"].astype(bool)
    mesh, sulci = load_fsaverage("fsaverage5")["inflated"], load_fsaverage_data(data_type="sulcal")
    figure, axes = plt.subplots(2, 4, figsize=(9, 4.2), subplot_kw={"projection": "3d"}, layout="constrained")
    X = standardised(X)
    for row, smoothness in zip(axes, (0, 1), strict=True):
        v = SPCATV(1, structure=structure, sparsity=0.8, smoothness=smoothness).fit(X).components_[0]
        v = v if v.sum() >= 0 else -v
        limit = np.quantile(np.abs(v[v != 0]), 0.99)
        left, right = np.split(on(cortex, v, 0.0), 2)
        views = (
            ("left", left, "lateral"),
            ("left", left, "medial"),
            ("right", right, "medial"),
            ("right", right, "lateral"),
        )
        for cell, (side, values, view) in zip(row, views, strict=True):
            plot_surf_stat_map(
                mesh.parts[side],
                values,
                hemi=side,
                view=view,
                bg_map=sulci.data.parts[side],
                bg_on_data=True,
                threshold=1e-12,
                cmap=COLOURS,
                colorbar=False,
                axes=cell,
                figure=figure,
                vmin=-limit,
                vmax=limit,
            )
            cell.set_box_aspect(None, zoom=1.35)
        row[0].text2D(0.0, 1.0, f"smoothness {smoothness}", transform=row[0].transAxes, fontsize=9)
    save(figure, "structure-mesh")


def thickness_images():
    """Cortical thickness of 295 people as a SurfaceImage, and their ages, NaN where unknown."""
    from nilearn.datasets import load_fsaverage
    from nilearn.surface import SurfaceImage

    arrays = real("thickness_surface.npz")
    left, right = np.split(arrays["X"].T, 2)
    return SurfaceImage(load_fsaverage("fsaverage5")["pial"], {"left": left, "right": right}), arrays["age"]


def thickness():
    """Draw three components of cortical thickness by default settings, with verdicts and ages."""
    from matplotlib.colors import Normalize

    from spcatv import ImageSPCATV
    from spcatv.report.maps import views_of

    images, age = thickness_images()
    seconds = -time.perf_counter()
    model = ImageSPCATV(3)
    scores = model.fit_transform(images)
    seconds += time.perf_counter()
    halves = split_halves(model.estimator_, model.preparation_.read(images, None), random_state=0)
    (view,) = views_of(model)
    known = np.isfinite(age)
    figure = plt.figure(figsize=(7.5, 5.8))
    for k, (loading, verdict) in enumerate(zip(model.components_, halves.reproducibility, strict=True)):
        r = np.corrcoef(scores[known, k], age[known])[0, 1]
        share = model.explained_variance_ratio_[k]
        print(f"component {k + 1}: {share:.1%} of the variance; r = {r:.2f} with age. {verdict.sentence}")
        norm = Normalize(-view.top(loading[None]), view.top(loading[None]))
        lefts = (0.005, 0.255, 0.505, 0.755)
        panels = [figure.add_axes((left, 0.667 - 0.333 * k, 0.24, 0.25)) for left in lefts]
        view.draw(panels, loading, norm)
        for axes in panels:
            empty(axes, "")
        words = f"{k + 1}: {verdict.verdict} ({verdict.n_confirmed} of {verdict.n_splits} splits), age r = "
        figure.text(0.01, 0.945 - 0.333 * k, f"{words}{r:.2f}".replace("-", "\N{MINUS SIGN}"), fontsize=15)
    print(f"{len(scores)} people, the ages of {known.sum()} are known; fit in {seconds:.1f} s")
    save(figure, "thickness")


def explore():
    """Show cortical thickness in the settings explorer, in a headless Chromium."""
    from PIL import Image

    from spcatv import ImageSPCATV

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "report"))
    from browser import Browser, find_chromium

    images, _ = thickness_images()
    page = ImageSPCATV(3).explore(images, title="Cortical thickness of 295 people", n_jobs=-1)
    with TemporaryDirectory() as folder:
        browser = Browser(find_chromium(), Path(folder) / "chromium")
        browser.open(page.save_as_html(Path(folder) / "explorer.html"), width=1200)
        browser.screenshot(Path(folder) / "page.png")
        browser.close()
        with Image.open(Path(folder) / "page.png") as picture:
            shown = picture.convert("RGB").crop((0, 0, 1200, 1090))
    file = FOLDER / "explore.webp"
    shown.save(file, quality=82, method=6)
    print(f"{file.name}: {file.stat().st_size / 1024:.0f} kB", flush=True)


PICTURES = (
    thickness,
    choosing_sea,
    choosing_brain,
    how_many,
    stable,
    certificate,
    explore,
    structure_grid,
    structure_mesh,
)

if __name__ == "__main__":
    for picture in PICTURES:
        if not sys.argv[1:] or picture.__name__ in sys.argv[1:]:
            picture()
