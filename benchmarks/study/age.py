"""Age predicted from the scores of people who were not fitted, with the uncertainty of how well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.data import real
from benchmarks.reproduce.realdata import Rows

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
    """The same loading everywhere, shape (1, P): its score is the mean of the standardised map."""
    return np.full((1, n_features), n_features**-0.5)


def _with_intercept(scores: np.ndarray) -> np.ndarray:
    return np.column_stack([np.ones(len(scores)), scores.astype(np.float64)])
