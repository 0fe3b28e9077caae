"""Fits of real data to some of their rows, stored under the name of the method, the rows and the setting."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.reproduce.methods import N_COMPONENTS, Method
from benchmarks.reproduce.realdata import DATA, QUICK_DATA, RealData, Rows, n_regions
from benchmarks.reproduce.store import Record, Store
from spcatv._util.threads import one_blas_thread
from spcatv.metrics import reconstruction_error
from spcatv.model.checkpoint import describe


def store_of(output: Path, name: str, data: RealData) -> Store:
    """Return the store of the records of a data set."""
    return Store(output / f"real-{name}", describe(data.X))


def open_data(name: str, quick: bool) -> RealData:
    """Return a data set, a key of `DATA` (of `QUICK_DATA` if `quick`)."""
    return (QUICK_DATA if quick else DATA)[name]()


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
