"""Real data: every method at every share of zeros, fitted to folds, to random halves and to all rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reproduce.methods import (
    N_COMPONENTS,
    Fitted,
    Method,
    default_method,
    fit_spcatv,
    matched_methods,
    of_loadings,
    spcatv_at,
)
from benchmarks.reproduce.realdata import (
    DATA,
    N_FOLDS,
    N_SPLITS,
    QUICK_DATA,
    RealData,
    Rows,
    all_rows,
    folds,
    halves,
    n_regions,
)
from benchmarks.reproduce.store import Record, Store
from spcatv import SPCATV
from spcatv._util.threads import one_blas_thread
from spcatv.data import as_data
from spcatv.estimator._fit import centred_data
from spcatv.metrics import reconstruction_error
from spcatv.model.checkpoint import describe
from spcatv.stability.halves import N_FURTHER
from spcatv.stability.refits import fit_samples, further_components
from spcatv.structure import Structure

# Number of subsets of the rows: folds and halves.
N_SUBSETS = N_FOLDS + 2 * N_SPLITS
# Shares of zeros at which methods are compared, and those that are asked of fits of all rows.
SHARES = (0.5, 0.7, 0.9)
SWEEP = (0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98)


@dataclass(frozen=True, eq=False)
class Study:
    """One method on one data set: what all rows, folds and halves give.

    `halves` are in the order of `benchmarks.reproduce.realdata.halves`; fits of this package have two
    further components there, which show whether others compete.
    """

    method: Method
    whole: Record
    folds: list[Record]
    halves: list[Record]


def store_of(output: Path, name: str, data: RealData) -> Store:
    """Where the records of a data set are."""
    return Store(output / f"real-{name}", describe(data.X))


def open_data(name: str, quick: bool) -> RealData:
    """Return a data set, a key of `DATA` (of `QUICK_DATA` if `quick`)."""
    return (QUICK_DATA if quick else DATA)[name]()


def methods_and_shares() -> Iterator[tuple[str, float | None]]:
    """Methods by key with their shares of zeros; None are the defaults and the sweep."""
    for share in SHARES:
        for method in matched_methods(share):
            yield method.key, share
    yield "defaults", None


def fit_whole(output: Path, name: str, key: str, zeros: float | None, quick: bool) -> str:
    """Fit a method to all rows, if that has not been done; returns a line to show."""
    data = open_data(name, quick)
    store = store_of(output, name, data)
    started = time.perf_counter()
    record_of(store, data, _method(key, zeros), all_rows(len(data.X)))
    if zeros is None:
        sweep(store, data)
    return f"{_name(name, key, zeros)}, all rows: {time.perf_counter() - started:.0f} s"


def fit_subset(output: Path, name: str, key: str, zeros: float | None, number: int, quick: bool) -> str:
    """Fit a method to one fold or half, if that has not been done; returns a line to show."""
    data = open_data(name, quick)
    store = store_of(output, name, data)
    started = time.perf_counter()
    method = _method(key, zeros)
    whole = record_of(store, data, method, all_rows(len(data.X)))
    kind, rows = _subsets(method, len(data.X))[number]
    record_of(store, data, kind, rows, near=whole)
    return f"{_name(name, key, zeros)}, {rows.name}: {time.perf_counter() - started:.0f} s"


def _method(key: str, zeros: float | None) -> Method:
    if zeros is None:
        return default_method()
    return next(method for method in matched_methods(zeros) if method.key == key)


def _name(data: str, key: str, zeros: float | None) -> str:
    return f"{data}, {key}" + ("" if zeros is None else f" at {zeros:.0%} zeros")


def _subsets(method: Method, n_rows: int) -> list[tuple[Method, Rows]]:
    """Folds, then halves; there, methods of this package fit two further components."""
    longer = method
    if method.function is fit_spcatv:
        setting = {**method.setting, "n_further": N_FURTHER}
        longer = replace(method, setting=setting, function=fit_with_further)
    return [(method, rows) for rows in folds(n_rows)] + [(longer, rows) for rows in halves(n_rows)]


def fit_with_further(X: np.ndarray, structure: Structure, setting: Mapping[str, Any]) -> Fitted:
    """Three components, and further ones of what they leave, as `split_halves` finds them."""
    own = dict(setting)
    n_further, starts = own.pop("n_further"), np.random.RandomState(0)
    model = SPCATV(N_COMPONENTS, **own)
    with warnings.catch_warnings(action="ignore"):
        centred = centred_data(model, as_data(X))
        fit = fit_samples(model, centred, structure, starts)
        found = further_components(model, centred, fit, n_further, starts)
    return of_loadings(found, X.mean(axis=0, dtype=np.float64))


def study(store: Store, data: RealData, method: Method) -> Study:
    """All fits of a method; those that are missing are made."""
    whole = record_of(store, data, method, all_rows(len(data.X)))
    found = [record_of(store, data, kind, rows, near=whole) for kind, rows in _subsets(method, len(data.X))]
    return Study(method, whole, found[:N_FOLDS], found[N_FOLDS:])


def default_study(store: Store, data: RealData) -> Study:
    """``SPCATV(3, structure=structure).fit(X)``."""
    return study(store, data, default_method())


def sweep(store: Store, data: RealData) -> dict[float, Record]:
    """SPCA-TV of all rows, by the share of zeros asked for."""
    return {zeros: record_of(store, data, spcatv_at(zeros), all_rows(len(data.X))) for zeros in SWEEP}


def record_name(method: Method, rows: str) -> str:
    """Return the file of a record: the rows, and the numbers of the setting."""
    return "-".join([rows, *(f"{v:g}" for v in method.setting.values() if isinstance(v, float))])


def record_of(store: Store, data: RealData, method: Method, rows: Rows, near: Record | None = None) -> Record:
    """Return the stored record, or fit; a search for alpha starts at that of `near`, a fit to all rows."""
    name = record_name(method, rows.name)
    record = store.load(method.key, name, method.setting)
    if record is None:
        alpha = None if near is None else near.values["chosen"].get("alpha")
        # products with noise grow with the square root of the rows, and alpha with them
        start = {} if alpha is None else {"near": alpha * float(np.sqrt(len(rows.train) / len(data.X)))}
        with one_blas_thread():
            record = fit_rows(replace(method, setting={**method.setting, **start}), rows, data)
        store.save(method.key, name, method.setting, record)
    return record


def fit_rows(method: Method, rows: Rows, data: RealData) -> Record:
    """Fit a method to some rows, and measure it on those held out."""
    train, test = rows.standardised(data.X)
    started, cpu_started = time.perf_counter(), time.process_time()
    fitted = method.fit(train, data.structure)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    shown = fitted.components[:N_COMPONENTS]
    values = {
        "error": reconstruction_error(test, fitted.reconstruct(test)) if len(test) else None,
        "sparsity": (shown == 0).mean(axis=1).tolist(),
        "regions": [n_regions(loading, data.structure) for loading in shown],
        "seconds": seconds,
        "cpu_seconds": cpu_seconds,
        "chosen": fitted.chosen,
        "notes": fitted.notes,
    }
    return Record(fitted.components, values)
