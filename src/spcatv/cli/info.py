"""`spca-tv info`: contents of a model folder, for people and for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from spcatv._util.tables import aligned
from spcatv.cli.display import safe_print
from spcatv.cli.parser import input_errors
from spcatv.cli.summary import ZEROS_HEADER, certificate_cells, zeros_cells
from spcatv.estimator._validation import parameters_in_use
from spcatv.model import ModelError, SavedModel, unpack
from spcatv.results import open_model

MOST_FILES = 5
PLAIN = (str, int, float, type(None))


def run(arguments: argparse.Namespace) -> None:
    """Read the model and print it."""
    with input_errors(ModelError):
        saved = open_model(arguments.model)
    with saved.naming_source():
        text = json.dumps(as_json(saved), indent=2) if arguments.json else as_text(saved)
    safe_print(text)


def as_json(saved: SavedModel) -> dict[str, Any]:
    """Return the contents of the model folder; of the arrays only types and shapes."""
    return {
        "kind": saved.kind,
        "parameters": saved.parameters,
        "fitted": saved.fitted,
        "inputs": saved.inputs,
        "versions": saved.versions,
        "arrays": {
            name: {"dtype": str(array.dtype), "shape": list(array.shape)}
            for name, array in saved.arrays.items()
        },
    }


def as_text(saved: SavedModel) -> str:
    """Return the contents of the model folder as text for people."""
    n_components, n_features = saved.arrays["components"].shape
    lines = [
        f"{saved.kind}: {n_components} components of {n_features:,} features",
        "",
        "parameters",
        *(f"  {name}: {value}" for name, value in _parameters(saved).items() if isinstance(value, PLAIN)),
        "",
        *_weights(saved),
        "",
        *_components(saved),
        "",
        "fitted to",
        *(f"  {line}" for line in _inputs(saved.inputs)),
        "",
        "with " + ", ".join(f"{name} {version}" for name, version in saved.versions.items()),
    ]
    return "\n".join(lines)


def _parameters(saved: SavedModel) -> dict[str, Any]:
    """Return the parameters in use; one number per component as text."""
    shown = parameters_in_use(saved.parameters)
    for name in {"sparsity", "alpha"} & set(shown):
        value = unpack(shown[name], saved.arrays)
        if np.ndim(value) > 0:
            shown[name] = f"{_numbers(value)} (one per component)"
    return shown


def _weights(saved: SavedModel) -> list[str]:
    names = ("l1", "l2", "tv")
    if not isinstance(saved.fitted["l1"], list):
        return ["weights used", "  " + ", ".join(f"{name} {saved.fitted[name]:.6g}" for name in names)]
    weights = (f"  {name} {_numbers(saved.fitted[name])}" for name in names)
    return ["weights used, one per component", *weights]


def _numbers(values: Any) -> str:
    return ", ".join(f"{float(value):.4g}" for value in values)


def _components(saved: SavedModel) -> list[str]:
    header = (
        *("component", "variance", *ZEROS_HEADER),
        *("relative gap", "converged", "alternations", "seconds"),
    )
    shares = saved.arrays["explained_variance_ratio"]
    rows = [
        (
            str(number + 1),
            f"{100 * float(shares[number]):.2f} %",
            *zeros_cells(record),
            *certificate_cells(record),
            str(record["n_alternations"]),
            f"{record['seconds']:.2f}",
        )
        for number, record in enumerate(saved.fitted["diagnostics"])
    ]
    return aligned(header, rows).splitlines()


def _inputs(inputs: Mapping[str, Any], depth: int = 0) -> list[str]:
    """Return lines of names and values, nested ones indented; of long lists only the beginning."""
    lines: list[str] = []
    margin = "  " * depth
    for name, value in inputs.items():
        if isinstance(value, Mapping) and set(value) == {"name", "sha256"}:
            lines.append(f"{margin}{name}: {_file(value)}")
        elif isinstance(value, Mapping):
            lines += [f"{margin}{name}:", *_inputs(value, depth + 1)]
        elif isinstance(value, list):
            shown = [f"{margin}  {_file(item)}" for item in value[:MOST_FILES]]
            more = [f"{margin}  ... ({len(value) - MOST_FILES} more)"] if len(value) > MOST_FILES else []
            lines += [f"{margin}{name} ({len(value)}):", *shown, *more]
        else:
            lines.append(f"{margin}{name}: {value}")
    return lines


def _file(item: Any) -> str:
    if isinstance(item, Mapping) and {"name", "sha256"} <= set(item):
        return f"{item['name']} (SHA-256 {str(item['sha256'])[:12]}...)"
    return str(item)
