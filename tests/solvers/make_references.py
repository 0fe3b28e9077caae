"""Write spcatv/testing/solver_references.json: `python tests/solvers/make_references.py` (needs cvxpy)."""

import json
from pathlib import Path

import numpy as np
from cvxpy_reference import minimise

from spcatv.problem import LoadingProblem
from spcatv.solvers.dual import dual_gradient
from spcatv.testing.solvers import REFERENCE_V, REFERENCE_VALUE, STRUCTURES

WEIGHTS = {
    "chain without l1": (0.0, 0.8),
    "masked 2-D grid": (0.5, 0.4),
    "masked 3-D grid, positive": (0.3, 0.3),
    "weighted graph": (0.2, 0.6),
    "overlapping groups, positive": (0.1, 0.2),
    "graphnet on a grid": (0.4, 0.7),
    "graphnet on a graph, positive": (0.2, 0.5),
}
TARGET = Path(__file__).parents[2] / "src" / "spcatv" / "testing" / "solver_references.json"


def main():
    records = {}
    for seed, (name, (l1, tv)) in enumerate(WEIGHTS.items()):
        structure = STRUCTURES[name]()
        rng = np.random.default_rng(seed)
        # a step in the middle and noise, so that the answer has plateaus, zeros and jumps
        step = np.where(np.arange(structure.n_features) < structure.n_features // 2, 2.0, -0.5)
        y = np.round(step + rng.normal(size=structure.n_features), 3)
        penalty = "graphnet" if "graphnet" in name else "tv"
        problem = LoadingProblem(y, structure, l1=l1, tv=tv, positive="positive" in name, penalty=penalty)
        v, value = minimise(problem)
        certified = dual_gradient(problem, tol=1e-13)
        off_v, off_value = np.linalg.norm(v - certified.v), abs(value - certified.value) / value
        assert off_v < REFERENCE_V / 2, f"{name}: v off by {off_v}"
        assert off_value < REFERENCE_VALUE / 2, f"{name}: objective off by {off_value}"
        print(f"{name}: v within {off_v:.1e}, objective within {off_value:.1e} of a second solver")
        records[name] = {
            "y": y.tolist(),
            "l1": l1,
            "tv": tv,
            "positive": problem.positive,
            "penalty": penalty,
            "v": np.round(v, 9).tolist(),
            "value": value,
        }
    lines = (f"  {json.dumps(name)}: {json.dumps(record)}" for name, record in records.items())
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
