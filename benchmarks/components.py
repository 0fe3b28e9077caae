"""Compare joint fits, deflation and smoothed, rotated PCA: ``python -m benchmarks.components``.

Every fit is of five shuffled folds, columns standardised on the training rows. Prints, as a Markdown table:

* Dice: overlap of the supports of two folds, matched by the absolute cosine of their loadings;
* held out: share of the held-out sum of squares that the projection onto the loadings explains;
* by scores: the same for maps that were regressed on the scores of the training rows.

Names of data sets (`benchmarks.reproduce.realdata.DATA`) and .npz files (as for `benchmarks.study.others`)
may be given; ``--number`` also counts components. The means over all data sets come last.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np

from benchmarks.reproduce.methods import Method, fit_spcatv, rotated_at
from benchmarks.reproduce.realdata import DATA, RealData, folds, read
from benchmarks.tables import markdown, seconds
from spcatv import SPCATV
from spcatv._util.threads import one_blas_thread
from spcatv.metrics import dice, match_components
from spcatv.selection import count_components

SHARES = (0.5, 0.7, 0.9)


def methods_at(zeros: float) -> tuple[Method, ...]:
    """Return the methods to compare at a share of zeros."""
    ours = {"alpha": None, "sparsity": zeros}
    return (
        Method("joint", "joint", {**ours, "method": "joint"}, fit_spcatv),
        Method("deflation", "deflation", {**ours, "method": "deflation"}, fit_spcatv),
        rotated_at(zeros),
    )


def measured(data: RealData, method: Method) -> dict[str, float]:
    """Measure one row of the table."""
    loadings, shares, by_scores, times = [], [], [], []
    for rows in folds(len(data.X), data.groups):
        train, test = rows.standardised(data.X)
        started = time.process_time()
        with warnings.catch_warnings(action="ignore"):
            found = method.fit(train, data.structure).components.astype(np.float64)
        times.append(time.process_time() - started)
        inverse = np.linalg.pinv(found)
        scores = train @ inverse
        maps = np.linalg.lstsq(scores, train, rcond=None)[0]
        loadings.append(found)
        shares.append(_explained(test, test @ inverse @ found))
        by_scores.append(_explained(test, test @ inverse @ maps))
    return {
        "dice": float(np.mean([_matched_dice(*pair) for pair in combinations(loadings, 2)])),
        "held out": float(np.mean(shares)),
        "by scores": float(np.mean(by_scores)),
        "seconds": float(np.mean(times)),
    }


def _explained(rows: np.ndarray, reconstruction: np.ndarray) -> float:
    return 1 - float(np.square(rows - reconstruction).sum() / np.square(rows).sum())


def _matched_dice(first: np.ndarray, second: np.ndarray) -> float:
    second = second[match_components(first, second).order]
    return float(np.mean(dice(first, second, norm_fraction=None)))


def main(arguments: Sequence[str] | None = None, known: Mapping[str, Callable[[], RealData]] = DATA) -> None:
    """Print one row per data set, share of zeros and method, then the means of every method."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "names", nargs="*", metavar="DATA", help=f"{', '.join(known)} or .npz files; default: {len(known)}"
    )
    parser.add_argument("--number", action="store_true", help="how many components there are, too")
    options = parser.parse_args(arguments)
    names = options.names or list(known)
    show = partial(print, flush=True)
    show(markdown(["data", "zeros", "method", "Dice", "held out", "by scores", "time of a fit"], []))
    measures: dict[str, list[dict[str, float]]] = {}
    with one_blas_thread():
        for name in names:
            data = _data(name, known)
            for zeros in SHARES:
                for method in methods_at(zeros):
                    row = measured(data, method)
                    measures.setdefault(method.label, []).append(row)
                    show(_line(data.title, f"{zeros:.0%}", method.label, row))
    for label, rows in measures.items():
        show(
            _line("mean", "all", label, {key: float(np.mean([row[key] for row in rows])) for key in rows[0]})
        )
    for name in names if options.number else ():
        data = _data(name, known)
        count = count_components(SPCATV(structure=data.structure), data.X, standardize=True)
        show(f"\n{data.title}: {count.n_components}. {count.reason}")


def _data(name: str, known: Mapping[str, Callable[[], RealData]]) -> RealData:
    return known[name]() if name in known else read(Path(name))


def _line(title: str, zeros: str, label: str, row: dict[str, float]) -> str:
    numbers = (f"{row[key]:.3f}" for key in ("dice", "held out", "by scores"))
    return "| " + " | ".join([title, zeros, label, *numbers, seconds(row["seconds"])]) + " |"


if __name__ == "__main__":
    main()
