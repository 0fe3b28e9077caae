"""Compare joint fits, deflation and smoothed, rotated PCA: ``python -m benchmarks.components``.

Every fit is of five shuffled folds, columns standardised on the training rows. Prints, as a Markdown table:

* Dice: overlap of the supports of two folds, matched by the absolute cosine of their loadings;
* held out: share of the held-out sum of squares that the projection onto the loadings explains;
* by scores: the same for maps that were regressed on the scores of the training rows.

Names of data sets (`benchmarks.reproduce.realdata.DATA`) may be given; ``--number`` also counts components.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from benchmarks.baselines import N_COMPONENTS, Fitted, Method, fit_spcatv, of_loadings
from benchmarks.reproduce.matched import cut_to_zeros
from benchmarks.reproduce.realdata import DATA, RealData, folds
from benchmarks.tables import markdown, seconds
from spcatv import SPCATV
from spcatv._util.threads import one_blas_thread
from spcatv.decomposition.starts import diffuse, varimax
from spcatv.metrics import dice, match_components
from spcatv.selection import component_curve
from spcatv.structure import Structure

SHARES = (0.5, 0.7, 0.9)
# The width of the Gaussian that stands for smoothing by hand, in voxels or edges of a mesh.
SIGMA = 2.0


def smoothed(X: np.ndarray, structure: Structure, sigma: float = SIGMA) -> np.ndarray:
    """Rows of X diffused on the graph of the structure; on a grid, by a Gaussian of width `sigma`."""
    norm = structure.norm_squared()
    if norm == 0:
        return X
    laplacian = structure.matrix.T @ structure.matrix
    # exp(-t L) of a grid with unit steps is a Gaussian of variance 2 t; edges of other lengths count as steps
    step = laplacian.diagonal().mean() / _mean_degree(laplacian)
    time_in_units = 0.5 * sigma**2 / step * norm
    return np.asarray(diffuse(laplacian.tocsr() * (2.0 / norm), X.T, time_in_units).T)


def _mean_degree(laplacian: Any) -> float:
    """Neighbours of a feature, on average."""
    return laplacian.nnz / laplacian.shape[0] - 1


def fit_rotated(X: np.ndarray, structure: Structure, setting: Mapping[str, Any]) -> Fitted:
    """Principal components of the smoothed rows, rotated by varimax: dense."""
    smooth = smoothed(X, structure)
    smooth = smooth - smooth.mean(axis=0)
    _, vectors = np.linalg.eigh(smooth @ smooth.T)
    maps = vectors[:, ::-1][:, :N_COMPONENTS].T @ smooth
    return of_loadings(varimax(maps).T @ maps, X.mean(axis=0, dtype=np.float64))


def methods_at(zeros: float) -> tuple[Method, ...]:
    """What is compared at a share of zeros."""
    ours = {"alpha": None, "sparsity": zeros}
    return (
        Method("joint", "joint", {**ours, "method": "joint"}, fit_spcatv),
        Method("deflation", "deflation", {**ours, "method": "deflation"}, fit_spcatv),
        Method("rotated-cut", "smoothed, rotated PCA, cut", {"zeros": zeros}, cut_to_zeros(fit_rotated)),
    )


def measured(data: RealData, method: Method) -> dict[str, float]:
    """The numbers of one row of the table."""
    loadings, shares, by_scores, times = [], [], [], []
    for rows in folds(len(data.X)):
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
    """Print one row per data set, share of zeros and method."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="DATA", help=f"some of {', '.join(known)}; default: all")
    parser.add_argument("--number", action="store_true", help="how many components there are, too")
    options = parser.parse_args(arguments)
    show = partial(print, flush=True)
    show(markdown(["data", "zeros", "method", "Dice", "held out", "by scores", "time of a fit"], []))
    with one_blas_thread():
        for name in options.names or known:
            data = known[name]()
            for zeros in SHARES:
                for method in methods_at(zeros):
                    row = measured(data, method)
                    numbers = (f"{row[key]:.3f}" for key in ("dice", "held out", "by scores"))
                    cells = [name, f"{zeros:.0%}", method.label, *numbers, seconds(row["seconds"])]
                    show("| " + " | ".join(cells) + " |")
    for name in (options.names or known) if options.number else ():
        data = known[name]()
        choice = component_curve(SPCATV(structure=data.structure), data.X).choice
        show(f"\n{data.title}: {choice.n_components}. {choice.reason}")


if __name__ == "__main__":
    main()
