"""The format of the model folder changes only together with its version.

If a test here fails, the format has changed: see `spcatv.model.folder`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from spcatv import SPCATV
from spcatv.estimator._persistence import ARRAYS, NUMBERS, OPTIONAL
from spcatv.model import SCHEMA_VERSION
from spcatv.structure import concat, graph, grid, groups

DOCUMENTATION = Path(__file__).parents[2] / "docs/model-folder.md"
NUMBER, OBJECTIVES = "number", ["number"]
ARRAY = {"type": "array", "array": "str"}
GRID = {
    "type": "GridStructure",
    "labels": ARRAY,
    "axis_weights": [NUMBER],
    "isotropic": "bool",
    "periodic": ["bool"],
}
EDGES = {
    "type": "EdgeStructure",
    "feature_count": NUMBER,
    **dict.fromkeys(("tail", "head", "weight"), ARRAY),
    "isotropic": "bool",
}
SPARSE = {
    "type": "sparse",
    "shape": [NUMBER],
    **dict.fromkeys(("data", "indices", "indptr"), ARRAY),
}
RECORD = {
    "type": "ComponentDiagnostics",
    **dict.fromkeys(("objective", "gap", "relative_gap", "error_bound"), NUMBER),
    **dict.fromkeys(("n_alternations", "n_inner_iter", "seconds"), NUMBER),
    "converged": "bool",
    **dict.fromkeys(("sparsity", "n_nonzero", "n_certain"), NUMBER),
    **dict.fromkeys(("objectives", "inexactness"), OBJECTIVES),
    **dict.fromkeys(("l1", "tv", "target_sparsity", "smoothness", "jump"), NUMBER),
    **dict.fromkeys(("same_sign", "global_correlation", "n_passes"), NUMBER),
}
VERDICT = {
    "type": "Reproducibility",
    **dict.fromkeys(("component", "rank", "dice", "cosine", "n_confirmed", "n_splits", "n_half"), NUMBER),
    "beyond_noise": "bool",
}
FITTED = {
    **{name: [NUMBER] for name in ("l1", "l2", "tv")},
    "n_iter": NUMBER,
    "n_features_in": NUMBER,
    "structure": GRID,
    "diagnostics": [RECORD],
}


def layout(value):
    """Names and JSON types; of a list, the layout of its first item."""
    if isinstance(value, dict):
        return {name: item if name == "type" else layout(item) for name, item in value.items()}
    if isinstance(value, list):
        return [layout(item) for item in value[:1]]
    return "number" if type(value) in (int, float) else type(value).__name__


def saved(folder, **parameters):
    X = np.random.default_rng(0).standard_normal((12, 24)) + np.arange(24)
    with np.errstate(all="ignore"):
        SPCATV(2, tol=1e-2, **parameters).fit(X).save(folder)
    return json.loads((folder / "model.json").read_text(encoding="utf-8"))


def test_the_entries_of_a_fit(tmp_path):
    document = saved(tmp_path / "model", structure=(4, 6), method="deflation")
    assert list(document) == [
        *("format", "schema_version", "kind", "parameters", "fitted", "inputs", "versions", "files", "sha256")
    ]
    assert document["schema_version"] == SCHEMA_VERSION == 1
    assert layout(document["fitted"]) == FITTED
    with np.load(tmp_path / "model/arrays.npz", allow_pickle=False) as arrays:
        assert set(arrays) == {*ARRAYS} - {*OPTIONAL} | {"structure.labels"}


def test_the_entries_of_verdicts(tmp_path):
    X = np.random.default_rng(0).standard_normal((12, 24))
    SPCATV(2).fit(X).check_stability(X, n_splits=1).save(tmp_path / "model")
    document = json.loads((tmp_path / "model/model.json").read_text(encoding="utf-8"))
    assert layout(document["fitted"]["reproducibility"]) == [VERDICT]


@pytest.mark.parametrize(
    ("structure", "expected"),
    [
        (grid((4, 6)), GRID),
        (graph(np.ones((24, 24))), EDGES),
        (groups([[0, 1]], 24), {"type": "structure", "matrix": SPARSE, "group_ptr": ARRAY}),
        (concat([grid(20), groups([[0, 1]], 4)]), {"type": "ConcatStructure", "parts": [GRID]}),
    ],
)
def test_the_entries_of_structures(structure, expected, tmp_path):
    document = saved(tmp_path / "model", structure=structure, sparsity=0.0, smoothness=0.1)
    assert layout(document["fitted"]["structure"]) == expected


def test_the_documentation_describes_every_entry():
    text = DOCUMENTATION.read_text(encoding="utf-8")
    assert f"## model.json (schema version {SCHEMA_VERSION})" in text
    kinds = [kind["type"] for kind in (GRID, EDGES, SPARSE, RECORD, VERDICT)]
    names = [*NUMBERS, *ARRAYS, *RECORD, *VERDICT, *GRID, *EDGES, *SPARSE, *kinds]
    assert [name for name in names if f"`{name}`" not in text] == []
