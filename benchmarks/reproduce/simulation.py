"""The paper's simulation: every method on every data set, Table I with the tests, and a picture."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce.comparison import Scores, compare, difference_text
from benchmarks.reproduce.methods import Method
from benchmarks.reproduce.store import Record, Store, run_all
from benchmarks.tables import each, markdown
from spcatv._util.atomic_files import replacing
from spcatv._util.threads import one_blas_thread
from spcatv.datasets import make_dots
from spcatv.metrics import loading_mse, match_components, pairwise_dice, reconstruction_error

# Error, loading MSE and Dice index as printed in the paper.
PUBLISHED: dict[str, tuple[float, float, float]] = {
    "sparse-pca": (1577.6, 0.90, 0.28),
    "elastic-net": (1577.0, 0.83, 0.26),
    "spca-tv-authors": (1575.5, 0.62, 0.54),
}
# A loading with a smaller error overlaps with most of its true support.
FOUND_MSE = 1.0


@dataclass(frozen=True)
class Size:
    """How much is simulated: data sets, images in each, pixels on a side, the seed of the first set."""

    n_sets: int = 50
    n_samples: int = 500
    side: int = 100
    first_seed: int = 0

    @property
    def seeds(self) -> range:
        """Of the data sets."""
        return range(self.first_seed, self.first_seed + self.n_sets)

    @property
    def name(self) -> str:
        """For the folder of the results."""
        return f"simulation-{self.n_samples}x{self.side}"


def run_simulation(
    output: Path, methods: Sequence[Method], size: Size, *, jobs: int, say: Callable[[str], None] = print
) -> dict[str, Scores]:
    """Run the fits that are missing, and collect the scores of all methods.

    Parameters
    ----------
    output : Path
        Folder of the results of all studies.
    methods : sequence of Method
        In the order of the table.
    size : Size
        How much.
    jobs : int
        Processes.
    say : callable
        Receives progress.

    Returns
    -------
    dict of str to Scores
        By the key of the method.
    """
    store = Store(output / size.name)
    missing = {seed: _missing(store, methods, seed) for seed in size.seeds}
    todo = [(store, seed, left, size) for seed, left in missing.items() if left]
    say(f"{size.n_sets} data sets, {len(methods)} methods; {size.n_sets - len(todo)} sets are there already.")
    run_all(fit_data_set, todo, jobs=jobs, say=say)
    return {method.key: _scores(store, method, size) for method in methods}


def _missing(store: Store, methods: Sequence[Method], seed: int) -> list[Method]:
    return [method for method in methods if store.load(method.key, record_name(seed), method.setting) is None]


def record_name(seed: int) -> str:
    return f"{seed:03d}"


def fit_data_set(store: Store, seed: int, methods: Sequence[Method], size: Size) -> str:
    """Simulate one data set, fit the methods to half of its rows, and store their scores on the rest."""
    data = make_dots(size.n_samples, size.side, dtype=np.float32, random_state=seed)
    train, test = data.split()
    passed = []
    for method in methods:
        with one_blas_thread():
            started = time.perf_counter()
            fitted = method.fit(train, data.shape)
            seconds = time.perf_counter() - started
            error = reconstruction_error(test, fitted.reconstruct(test))
        values = {
            "error": error,
            "mse": loading_mse(data.loadings, fitted.components).tolist(),
            "sparsity": (fitted.components == 0).mean(axis=1).tolist(),
            "seconds": seconds,
            "chosen": fitted.chosen,
        }
        store.save(method.key, record_name(seed), method.setting, Record(fitted.components, values))
        passed.append(f"{method.key} {seconds:.1f} s")
    return f"data set {seed}: " + ", ".join(passed)


def records(store: Store, method: Method, seeds: Iterable[int]) -> list[Record]:
    """Return the records of a method, all of which must exist."""
    found = []
    for seed in seeds:
        record = store.load(method.key, record_name(seed), method.setting)
        if record is None:
            raise FileNotFoundError(f"no results of {method.key} for data set {seed} under {store.folder}")
        found.append(record)
    return found


def _scores(store: Store, method: Method, size: Size) -> Scores:
    found = records(store, method, size.seeds)
    truth = make_dots(2, size.side, random_state=0).loadings
    return Scores(
        method.label,
        errors=np.array([record.values["error"] for record in found]),
        dice=pairwise_dice([record.components for record in found], reference=truth),
        mses=np.array([record.values["mse"] for record in found]),
    )


def table_one(scores: dict[str, Scores]) -> str:
    """Table I of the paper beside the published one, as Markdown."""
    header = [
        "method",
        "error",
        "MSE",
        "Dice",
        "MSE by component",
        "Dice by component",
        "third found",
        "published",
    ]
    rows = []
    for key, score in scores.items():
        assert score.mses is not None
        published = PUBLISHED.get(key)
        rows.append(
            [
                score.label,
                f"{score.errors.mean():.2f} ± {standard_error(score.errors):.2f}",
                f"{score.mses.mean():.3f} ± {standard_error(score.mses.mean(axis=1)):.3f}",
                f"{score.dice.mean():.3f}",
                each(score.mses.mean(axis=0), ".2f"),
                each(score.dice.mean(axis=0), ".2f"),
                f"{(score.mses[:, 2] < FOUND_MSE).mean():.0%}",
                None if published is None else " / ".join(map(str, published)),
            ]
        )
    return markdown(header, rows)


def table_of_tests(scores: dict[str, Scores]) -> str:
    """Every SPCA-TV against every other method, as Markdown."""
    ours = [key for key in scores if key.startswith("spca-tv")]
    others = [key for key in scores if key not in ours]
    rows = []
    for key in ours:
        for other in others:
            result = compare(scores[key], scores[other])
            rows.append(
                [
                    result.first,
                    result.second,
                    difference_text(result.error),
                    difference_text(result.mse),
                    difference_text(result.dice),
                ]
            )
    header = ["method", "against", "error, t-test", "MSE, t-test", "Dice, sign flips"]
    return markdown(header, rows)


def standard_error(values: np.ndarray) -> float:
    """Of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")


# Share of the brightest pixels that may be beyond the colour scale.
SCALE_QUANTILE = 0.999


def typical_data_set(mses: np.ndarray) -> int:
    """Return the data set whose mean loading error is the median one; shape (n, K)."""
    return int(np.argsort(mses.mean(axis=1), kind="stable")[(len(mses) - 1) // 2])


def draw_loadings(output: Path, methods: Sequence[Method], size: Size, seed: int) -> Path:
    """Draw and write ``loadings.png``: one column per method, one row per component.

    Loadings have unit norm and share one colour scale, red above and blue below zero.

    Parameters
    ----------
    output : Path
        Folder of the results; the records of all methods must be there.
    methods : sequence of Method
        Columns.
    size : Size
        Of the study.
    seed : int
        Data set to show.

    Returns
    -------
    Path
        The picture.
    """
    from matplotlib.figure import Figure

    store = Store(output / size.name)
    truth = make_dots(2, size.side, random_state=0).loadings
    columns = [("truth", truth / np.linalg.norm(truth, axis=1, keepdims=True))]
    for method in methods:
        (record,) = records(store, method, [seed])
        match = match_components(truth, record.components)
        columns.append((method.label, match.sign[:, None] * record.components[match.order]))
    limit = float(np.quantile(np.abs(columns[0][1]), SCALE_QUANTILE))
    figure = Figure(figsize=(2.1 * len(columns), 6.6), layout="constrained")
    axes = figure.subplots(len(truth), len(columns), squeeze=False)
    for column, (label, loadings) in enumerate(columns):
        axes[0, column].set_title(label.replace(", ", ",\n"), fontsize=10)
        for row, loading in enumerate(loadings):
            image = _show(axes[row, column], loading.reshape(size.side, size.side), limit)
    for row in range(len(truth)):
        axes[row, 0].set_ylabel(f"component {row + 1}", fontsize=10)
    figure.colorbar(image, ax=axes, shrink=0.5, extend="both", label="loading (unit norm)")
    path = output / "loadings.png"
    with replacing(path) as draft:
        figure.savefig(draft, dpi=150)
    return path


def _show(axis: Any, image: np.ndarray, limit: float) -> Any:
    axis.set_xticks([])
    axis.set_yticks([])
    return axis.imshow(image, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
