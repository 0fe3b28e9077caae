"""Warnings: false alarms on clean data, and faults that are found.

Clean data are white noise, a clear factor with normal or skewed scores, and heavy-tailed noise, 20, 60 or 200
samples. Faults: one sample at twice the usual distance (its difference from the mean in a random direction);
columns in a random order, with a factor on a tenth or three tenths of them; samples sorted by a factor; one
sample with five times the largest score. No rule was chosen on fresh seeds.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.calibration.simulations import TOL
from benchmarks.tables import markdown
from spcatv import SPCATV, SPCATVCV
from spcatv.data.outliers import Wording, outweighing, sample_quality

CASES = 144
SHAPE = (20, 20)
SAMPLES = (20, 60, 200)
CLEAN = ("white", "one factor", "skewed", "heavy tails")
WORDING = Wording("image", "images", "voxels", "the mask", "")


def measure(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([4, seed])
    n_samples, kind = SAMPLES[seed % 3], CLEAN[seed // 3 % 4]
    n_features = SHAPE[0] * SHAPE[1]
    X = rng.standard_t(3, (n_samples, n_features)) if kind == "heavy tails" else None
    X = rng.standard_normal((n_samples, n_features)) if X is None else X
    width = int(rng.choice([6, 11]))
    inside = np.zeros(SHAPE, dtype=bool)
    inside[2 : 2 + width, 3 : 3 + width] = True
    scores = rng.exponential(size=n_samples) if kind == "skewed" else rng.standard_normal(n_samples)
    local = X + np.outer(scores, inside.ravel())
    given = X if kind in ("white", "heavy tails") else X + 2 * np.outer(scores, inside.ravel())
    far, away = given.copy(), rng.standard_normal(n_features)
    usual = np.median(np.linalg.norm(given - given.mean(axis=0), axis=1))
    far[3] += np.sqrt(3) * usual * away / np.linalg.norm(away)
    ordered = local[np.argsort(scores)]
    alone = local.copy()
    alone[3, inside.ravel()] += 5 * np.abs(scores).max()
    found = {
        "outliers": (_outliers(given), _outliers(far)),
        "neighbours": (_fit(local, "NeighbourWarning"), _fit(_shuffled(local, rng), "NeighbourWarning")),
        "sparsity": (_fit(given, "SparsityWarning"), None),
        "order": (_selected(local), _selected(ordered)),
        "one sample": (_outweighed(given), _outweighed(alone)),
    }
    about = {"N": n_samples, "kind": kind}
    return [{**about, "warning": name, "false": one, "hit": other} for name, (one, other) in found.items()]


def _outliers(X: np.ndarray) -> bool:
    return any(image.outlier for image in sample_quality(X, [str(k) for k in range(len(X))], WORDING))


def _shuffled(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.ascontiguousarray(X[:, rng.permutation(X.shape[1])])


def _fit(X: np.ndarray, category: str) -> bool:
    """Return whether a default fit warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SPCATV(2, structure=SHAPE, tol=TOL).fit(X)
    return any(warning.category.__name__ == category for warning in caught)


def _outweighed(X: np.ndarray) -> bool:
    """Return whether the report names a sample that makes most of a component."""
    with warnings.catch_warnings(action="ignore"):
        scores = SPCATV(2, structure=SHAPE, tol=TOL).fit_transform(X)
    return any(outweighing(column) is not None for column in scores.T)


def _selected(X: np.ndarray) -> bool:
    """Return whether a selection warns of the order of the samples."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SPCATVCV(1, structure=SHAPE, sparsity=0.7, smoothness=1.0, tol=TOL).fit(X)
    return any(warning.category.__name__ == "SampleOrderWarning" for warning in caught)


def summary(rows: list[dict[str, Any]]) -> str:
    head = ["warning", "false alarms", "in heavy tails", *(f"found, N = {n}" for n in SAMPLES)]
    lines = []
    for name in dict.fromkeys(row["warning"] for row in rows):
        own = [row for row in rows if row["warning"] == name]
        # a factor that is as weak as heavy tails is no fault that could be seen
        hits = [
            [row["hit"] for row in own if row["N"] == n and row["kind"] != "heavy tails"] for n in SAMPLES
        ]
        found = [None if part[0] is None else f"{np.mean(part):.0%}" for part in hits]
        false = [
            np.mean([row["false"] for row in own if (row["kind"] == "heavy tails") == heavy])
            for heavy in (False, True)
        ]
        lines.append([name, *(f"{share:.0%}" for share in false), *found])
    return markdown(head, lines)
