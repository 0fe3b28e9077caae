"""Sizes of the tests of the report: how often p < .05 where nothing differs, one component.

Two groups of 10 and 30 or three of 10, 20 and 40, the smallest with three times the deviation of the others;
scores whose deviation grows with a variable, 40 samples; means of five folds of one data set (`held_out`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.tables import markdown
from spcatv.report.statistics import correlations, differences
from spcatv.significance import paired_t_test

CASES = 20
REPEATS = 10


def measure(seed: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng([5, seed])
    return [{name: p < 0.05 for name, p in _p_values(rng).items()} for _ in range(REPEATS)]


def _p_values(rng: np.random.Generator) -> dict[str, float]:
    found = {}
    for sizes in ((10, 30), (10, 20, 40)):
        labels = np.repeat(np.arange(len(sizes)), sizes)
        scores = rng.standard_normal((len(labels), 1)) * np.where(labels == 0, 3, 1)[:, None]
        names = [f"sub-{k:02d}.nii" for k in range(len(labels))]
        result = differences(scores, names, [f"g{label}" for label in labels])
        found[f"{len(sizes)} groups"] = float(result.main.p[0])
    variable = rng.uniform(0, 3, 40)
    scores = (np.exp(variable) * rng.standard_normal(40))[:, None]
    result = correlations(scores, [f"sub-{k:02d}.nii" for k in range(40)], variable.tolist())
    found["correlation"] = float(result.main.p[0])
    # two methods with the same error: each predicts by the leading direction of features of its own
    data, errors = rng.standard_normal((100, 2, 5)), np.empty((5, 2))
    for k in range(5):
        test = slice(20 * k, 20 * k + 20)
        train = np.delete(data, np.arange(100)[test], axis=0)
        for method in range(2):
            direction = np.linalg.svd(train[:, method], full_matrices=False)[2][0]
            errors[k, method] = -np.square(data[test, method] @ direction).mean()
    found["folds, corrected"] = paired_t_test(errors[:, 0], errors[:, 1], held_out=0.2).p_value
    found["folds, as they are"] = paired_t_test(errors[:, 0], errors[:, 1]).p_value
    return found


def summary(rows: list[dict[str, Any]]) -> str:
    names = [name for name in rows[0] if name != "seed"]
    lines = [[name, f"{np.mean([row[name] for row in rows]):.3f}"] for name in names]
    return f"{len(rows)} data sets each, nominal level .05.\n\n" + markdown(["test", "size"], lines)
