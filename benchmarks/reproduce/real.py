"""Real data in five folds, as in the paper's Tables II and IV: all methods, at matched sparsity."""

from __future__ import annotations

import time
from pathlib import Path

from benchmarks.baselines import Method
from benchmarks.reproduce.matched import matched_methods
from benchmarks.reproduce.realdata import DATA, QUICK_DATA, Fold, RealData, folds, n_regions
from benchmarks.reproduce.store import Record, Store
from spcatv._util.threads import one_blas_thread
from spcatv.metrics import reconstruction_error

# Shares of zeros at which methods are compared: the least that the paper's rule allows, and more.
SHARES = (0.5, 0.7)


def store_of(output: Path, name: str) -> Store:
    """Where the records of a data set are."""
    return Store(output / f"real-{name}")


def fit_data(output: Path, name: str, zeros: float, quick: bool) -> str:
    """Fit every method to every fold and to all rows, except for fits that are already stored.

    Parameters
    ----------
    output : Path
        Folder of the results of all studies.
    name : str
        Data set, a key of `DATA` (of `QUICK_DATA` if `quick`).
    zeros : float
        Share of zeros.
    quick : bool
        Whether this is a trial of the code.

    Returns
    -------
    str
        A line to show.
    """
    data = (QUICK_DATA if quick else DATA)[name]()
    started = time.perf_counter()
    fit_missing(store_of(output, name), data, zeros)
    return f"{name}, {zeros:.0%} zeros: {time.perf_counter() - started:.0f} s"


def fit_missing(store: Store, data: RealData, zeros: float) -> dict[str, dict[str, Record]]:
    """All records, by the method's label and the fold's name; those that are missing are made."""
    found: dict[str, dict[str, Record]] = {}
    for method in matched_methods(zeros):
        of_method = found.setdefault(method.label, {})
        for fold in folds(len(data.X)):
            name = f"{fold.name}-{zeros:g}"
            record = store.load(method.key, name, method.setting)
            if record is None:
                with one_blas_thread():
                    record = _fit(method, fold, data)
                store.save(method.key, name, method.setting, record)
            of_method[fold.name] = record
    return found


def _fit(method: Method, fold: Fold, data: RealData) -> Record:
    started = time.perf_counter()
    fitted = method.fit(data.X[fold.train], data.structure)
    seconds = time.perf_counter() - started
    test = data.X[fold.test]
    values = {
        "error": reconstruction_error(test, fitted.reconstruct(test)) if len(test) else None,
        "sparsity": (fitted.components == 0).mean(axis=1).tolist(),
        "regions": [n_regions(loading, data.structure) for loading in fitted.components],
        "seconds": seconds,
    }
    return Record(fitted.components, values)
