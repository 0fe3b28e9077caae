"""One factor, more components than factors: the best score, and what the others explain.

X (60 x 2,000, on 40 x 50 pixels) is white noise plus a normal factor with loading 1 on features 0 to 599.
Default fits of 2 and 3 components at 70, 80 and 90 % zeros, in float64 and float32.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from benchmarks.tables import markdown
from spcatv import SPCATV

CASES = 10
N_SAMPLES, SHAPE, N_INSIDE = 60, (40, 50), 600
TOL = 1e-4


def measure(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([6, seed])
    X, factor = rng.standard_normal((N_SAMPLES, int(np.prod(SHAPE)))), rng.standard_normal(N_SAMPLES)
    X[:, :N_INSIDE] += factor[:, None]
    return [
        {"K": K, "zeros": zeros, **_fit(X, factor, K, zeros)} for K, zeros in product((2, 3), (0.7, 0.8, 0.9))
    ]


def _fit(X: np.ndarray, factor: np.ndarray, n_components: int, zeros: float) -> dict[str, float]:
    model = SPCATV(n_components, structure=SHAPE, sparsity=zeros, tol=TOL)
    correlation = {}
    for dtype in (np.float32, np.float64):
        scores = model.fit(X.astype(dtype)).transform(X.astype(dtype))
        between = np.corrcoef(scores, rowvar=False)
        correlation[np.dtype(dtype).name] = float(np.abs(between - np.eye(n_components)).max())
    explained = np.sort(model.explained_variance_)[::-1]
    best = max(abs(np.corrcoef(factor, score)[0, 1]) for score in scores.T)
    return {**correlation, "best": float(best), "second": float(explained[1] / explained[0])}


def summary(rows: list[dict[str, Any]]) -> str:
    head = ["components", "zeros", "least correlation with the factor", "second, in the first, at most"]
    head += ["between scores, float64", "float32"]
    lines = []
    for K, zeros in dict.fromkeys((row["K"], row["zeros"]) for row in rows):
        own = [row for row in rows if (row["K"], row["zeros"]) == (K, zeros)]
        most = {key: max(row[key] for row in own) for key in ("second", "float64", "float32")}
        least = f"{min(row['best'] for row in own):.3f}"
        figures = [f"{most['second']:.2f}", *(f"{most[key]:.0e}" for key in ("float64", "float32"))]
        lines.append([str(K), f"{zeros:.0%}", least, *figures])
    return f"{len(rows) // len(lines)} data sets each.\n\n" + markdown(head, lines)
