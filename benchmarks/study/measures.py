"""From stored fits to the numbers of the study, plain enough for JSON; age predicted from scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.data import real
from benchmarks.reproduce.realdata import Rows, folds, halves
from benchmarks.reproduce.store import Record
from benchmarks.study.fits import SHARES, Piece, methods_at, opened, pieces, stored
from spcatv.metrics import dice, match_components

OURS = "spca-tv"


def measure(output: Path, name: str, *, quick: bool) -> dict[str, Any]:
    """All that the stored fits of one data set say.

    Returns
    -------
    dict
        ``title``, ``n_rows``, ``n_features``, ``n_with_age``, ``cells`` (one for each method and share of
        zeros whose folds are complete) and, if there are ages, ``mean_map``.
    """
    data = opened(name, quick)
    age = ages_of(name, len(data.X))
    parts = folds(len(data.X))
    prepared = [rows.standardised(data.X) for rows in parts]
    norms = np.array([np.linalg.norm(test) for _, test in prepared])
    planned = frozenset(pieces([name]))
    cells, ages = [], {}
    for zeros in (0.0, *sorted(SHARES)):
        for method in methods_at(zeros):
            piece = Piece(name, method.key, zeros, "all")
            found = [stored(output, replace(piece, rows=rows.name), quick) for rows in parts]
            whole = stored(output, piece, quick)
            complete = [record for record in found if record is not None]
            if whole is None or len(complete) < len(parts):
                continue
            key = (method.key, zeros)
            cell = {"method": method.key, "label": method.label, "zeros": zeros}
            cell |= of_folds(whole, complete, norms)
            cell |= _of_halves(whole, _pairs(output, piece, planned, quick))
            if age is not None:
                ages[key] = predicted(parts, prepared, [record.components for record in complete], age)
            cells.append(cell)
    _add_ages(cells, ages)
    result = {
        "title": data.title,
        "n_rows": len(data.X),
        "n_features": data.X.shape[1],
        "n_with_age": 0 if age is None else int(np.isfinite(age).sum()),
        "cells": cells,
    }
    if age is not None:
        alone = predicted(parts, prepared, len(parts) * [mean_map(data.X.shape[1])], age)
        result["mean_map"] = {"r2": alone.summary(), "correlation": alone.correlation}
    return result


def of_folds(whole: Record, found: Sequence[Record], norms: np.ndarray) -> dict[str, Any]:
    """Errors and reproducibility over folds; what does not depend on the held-out rows, by component."""
    values = [record.values for record in found]
    errors = np.array([value["error"] for value in values])
    matched = [_matched(whole, record) for record in found]
    pairs = [(a, b) for i, a in enumerate(matched) for b in matched[i + 1 :]]
    return {
        "errors": errors.tolist(),
        "explained": float(1 - np.mean(np.square(errors / norms))),
        "dice_folds": np.mean([_dice(*pair) for pair in pairs], axis=0).tolist(),
        "cosine_folds": np.mean([_cosine(*pair) for pair in pairs], axis=0).tolist(),
        "reached": np.mean([value["sparsity"] for value in values], axis=0).tolist(),
        "regions": np.mean([value["regions"] for value in values], axis=0).tolist(),
        "seconds": [value["cpu_seconds"] for value in values],
        "n_fits": [int(value["chosen"].get("n_fits", 1)) for value in values],
    }


def _of_halves(whole: Record, pairs: Iterator[tuple[Record, Record]]) -> dict[str, Any]:
    """Reproducibility over those splits of which both halves have been fitted."""
    matched = [(_matched(whole, one), _matched(whole, other)) for one, other in pairs]
    return {
        "n_splits": len(matched),
        "dice_halves": [float(_dice(*pair).mean()) for pair in matched],
        "cosine_halves": [float(_cosine(*pair).mean()) for pair in matched],
    }


def _pairs(
    output: Path, piece: Piece, planned: frozenset[Piece], quick: bool
) -> Iterator[tuple[Record, Record]]:
    """Both halves of the splits that belong to the study, up to the first that has not been fitted."""
    names = [rows.name for rows in halves(10) if replace(piece, rows=rows.name) in planned]
    for one, other in zip(names[::2], names[1::2], strict=True):
        first, second = (stored(output, replace(piece, rows=rows), quick) for rows in (one, other))
        if first is None or second is None:
            return  # the splits of all methods are the same ones
        yield first, second


def _add_ages(cells: Sequence[dict[str, Any]], ages: dict[tuple[str, float], Predicted]) -> None:
    """R² of every cell, and that of SPCA-TV minus it."""
    for cell in cells:
        own = ages.get((cell["method"], cell["zeros"]))
        if own is None:
            continue
        # dense PCA is compared with SPCA-TV at the first share
        ours = ages.get((OURS, cell["zeros"] or SHARES[0]))
        cell["age"] = {"r2": own.summary(), "correlation": own.correlation}
        if ours is not None and ours is not own:
            cell["age"]["ours_minus_this"] = ours.summary(own)


def _matched(whole: Record, record: Record) -> np.ndarray:
    """Components in the order of those of all rows, of unit norm or zero."""
    return record.components[match_components(whole.components, record.components).order]


def _dice(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Of the supports as they are: shares of zeros are matched."""
    return np.asarray(dice(first, second, norm_fraction=None))


def _cosine(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.abs(np.einsum("kp,kp->k", first, second))


FILES = {"vbm": "vbm_volume.npz", "thickness": "thickness_surface.npz"}
N_RESAMPLES = 2000
LEVEL = 0.95


def ages_of(name: str, n_rows: int) -> np.ndarray | None:
    """Ages in years, NaN where unknown; None for data without; made up for the tiny data."""
    if name == "tiny":
        return np.linspace(20.0, 60.0, n_rows)
    return real(FILES[name])["age"].astype(np.float64) if name in FILES else None


@dataclass(frozen=True, eq=False)
class Predicted:
    """Ages and their predictions (n,), in the order of the rows; the second prediction is a constant.

    The constant is the mean age of the people that were fitted: R² compares with it.
    """

    age: np.ndarray
    prediction: np.ndarray
    constant: np.ndarray

    def r2(self, chosen: np.ndarray | slice = slice(None)) -> np.ndarray:
        """1 minus the squared error over that of the constant; `chosen` (..., n) are resampled people."""
        error = np.square(self.age - self.prediction)[chosen].sum(axis=-1)
        return 1 - error / np.square(self.age - self.constant)[chosen].sum(axis=-1)

    def summary(self, other: Predicted | None = None) -> dict[str, float]:
        """R² with a bootstrap interval over people; minus that of `other` on the same resamples if given."""
        resamples = np.random.default_rng(0).integers(len(self.age), size=(N_RESAMPLES, len(self.age)))
        drawn, value = self.r2(resamples), float(self.r2())
        if other is not None:
            drawn, value = drawn - other.r2(resamples), value - float(other.r2())
        low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return {"value": value, "low": float(low), "high": float(high)}

    @property
    def correlation(self) -> float:
        """Of age and its prediction."""
        return float(np.corrcoef(self.age, self.prediction)[0, 1])


def predicted(
    parts: Sequence[Rows], prepared: Sequence[tuple[np.ndarray, np.ndarray]], maps: Sequence[np.ndarray],
    age: np.ndarray,
) -> Predicted:  # fmt: skip
    """Linear regression of age on the scores of the rows to fit, applied to the rows held out.

    Parameters
    ----------
    parts : sequence of Rows
        Folds of n rows.
    prepared : sequence of (ndarray, ndarray)
        For each fold, the standardised rows to fit and held out, both with P columns.
    maps : sequence of ndarray of shape (K, P)
        Loadings of the fits to these folds; scores are least squares on them, whatever the method.
    age : ndarray of shape (n,)
        NaN where unknown: these rows shape the maps, but not the regression.
    """
    prediction, constant = np.full(len(age), np.nan), np.full(len(age), np.nan)
    for rows, samples, loadings in zip(parts, prepared, maps, strict=True):
        inverse = np.linalg.pinv(loadings.astype(np.float64)).astype(np.float32)
        train, test = (_with_intercept(X @ inverse) for X in samples)
        known = np.isfinite(age[rows.train])
        weights = np.linalg.lstsq(train[known], age[rows.train][known], rcond=None)[0]
        prediction[rows.test] = test @ weights
        constant[rows.test] = age[rows.train][known].mean()
    known = np.isfinite(age)
    return Predicted(age[known], prediction[known], constant[known])


def mean_map(n_features: int) -> np.ndarray:
    """Return the same loading everywhere, shape (1, P): its score is the mean of the standardised map."""
    return np.full((1, n_features), n_features**-0.5)


def _with_intercept(scores: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(scores)), scores.astype(np.float64)])
