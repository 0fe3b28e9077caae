"""The fits of the study, the most telling first; each is stored at once, so that a run can be interrupted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from benchmarks.reproduce.methods import Method, all_methods, fit_pca
from benchmarks.reproduce.real import open_data, record_name, record_of, store_of
from benchmarks.reproduce.realdata import ALL_ROWS, RealData, Rows, all_rows, folds, halves
from benchmarks.reproduce.store import Record, Store

# Shares of zeros, the one with the complete comparison first.
SHARES = (0.7, 0.5, 0.9)
DENSE = Method("pca", "Dense PCA", {}, fit_pca)
# One strength for all components, which has to be searched: many fits in place of one.
SEARCHED = ("sparse-pca", "dictionary")
DIRECT = ("pca", "pca-cut", "canica-cut", "elastic-net", "spca-tv")
# Splits into halves of what is searched, which is fitted to halves at the first share of zeros only: all of
# its halves would take longer than all the rest.
FEW_SPLITS = 5
# The most telling first: shares of zeros, rows, methods.
STAGES: tuple[tuple[tuple[float, ...], str, tuple[str, ...]], ...] = (
    ((SHARES[0], 0.0), "folds", (*DIRECT, *SEARCHED)),
    ((SHARES[0], 0.0), "halves", DIRECT),
    (SHARES[1:], "folds", DIRECT),
    (SHARES[1:], "halves", DIRECT),
    (SHARES[:1], "few halves", SEARCHED),
    (SHARES[1:], "folds", SEARCHED),
)


@dataclass(frozen=True)
class Piece:
    """One fit: a data set, a method (by its key), the share of zeros (0 for dense PCA) and the rows."""

    data: str
    method: str
    zeros: float
    rows: str


def methods_at(zeros: float) -> tuple[Method, ...]:
    """Return the methods with a share of zeros; with 0, dense PCA."""
    return all_methods(zeros) if zeros else (DENSE,)


def pieces(names: Sequence[str]) -> Iterator[Piece]:
    """All fits in the order of the work: a run that stops early has complete tables up to there."""
    for shares, kind, methods in STAGES:
        for group in _rows_of(kind):
            for zeros in shares:
                wanted = [method.key for method in methods_at(zeros) if method.key in methods]
                for name in names:
                    for rows in group:
                        yield from (Piece(name, method, zeros, rows) for method in wanted)


def _rows_of(kind: str) -> list[list[str]]:
    """All rows and then folds, in one group; or halves, one group per split."""
    if kind == "folds":
        return [[rows.name] for rows in (all_rows(10), *folds(10))]
    names = [rows.name for rows in halves(10)]
    splits = [names[first : first + 2] for first in range(0, len(names), 2)]
    return splits[:FEW_SPLITS] if kind == "few halves" else splits


@lru_cache(maxsize=4)
def opened(name: str, quick: bool) -> RealData:
    """Return a data set, read once in each process."""
    return open_data(name, quick)


@lru_cache(maxsize=4)
def store_for(output: Path, name: str, quick: bool) -> Store:
    """Where the records of a data set are; it knows a digest of the data, which takes a while."""
    return store_of(output, name, opened(name, quick))


def rows_named(name: str, n_rows: int) -> Rows:
    """Return the rows that are fitted and held out, by name."""
    return next(rows for rows in (all_rows(n_rows), *folds(n_rows), *halves(n_rows)) if rows.name == name)


def method_of(piece: Piece) -> Method:
    """Return the method of a piece."""
    return next(method for method in methods_at(piece.zeros) if method.key == piece.method)


def stored(output: Path, piece: Piece, quick: bool) -> Record | None:
    """Return the record of a piece, if its fit has been made."""
    method = method_of(piece)
    store = store_for(output, piece.data, quick)
    return store.load(method.key, record_name(method, piece.rows), method.setting)


def do(output: Path, piece: Piece, quick: bool) -> str:
    """Make and store a fit; returns a line to show."""
    data, method, store = opened(piece.data, quick), method_of(piece), store_for(output, piece.data, quick)
    n_rows = len(data.X)
    near = None
    if piece.method in SEARCHED:  # start from the strength of all rows, and that from another share's
        if piece.rows != ALL_ROWS:
            near = record_of(store, data, method, all_rows(n_rows))
        elif piece.zeros != SHARES[0]:
            near = stored(output, replace(piece, zeros=SHARES[0]), quick)
    record = record_of(store, data, method, rows_named(piece.rows, n_rows), near)
    return (
        f"{piece.data}, {method.label} at {piece.zeros:.0%} zeros, {piece.rows}: "
        f"{record.values['seconds']:.1f} s, {record.values['cpu_seconds']:.1f} s of the processor"
    )
