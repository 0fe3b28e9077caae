"""`spca-tv info`: contents of a model folder, for people and for programs."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from spcatv.cli.display import safe_print
from spcatv.cli.summary import components_table
from spcatv.estimator._validation import parameters_in_use
from spcatv.model import SavedModel, unpack
from spcatv.model.folder import PARTS
from spcatv.results import open_model

MOST_FILES = 5
FILE_ENTRIES = {"name", "sha256"}
PLAIN = (str, int, float, type(None))


def run(arguments: argparse.Namespace) -> None:
    """Read the model and print it."""
    saved = open_model(arguments.model)
    with saved.naming_source():
        text = json.dumps(as_json(saved), indent=2) if arguments.json else as_text(saved)
    safe_print(text)


def as_json(saved: SavedModel) -> dict[str, Any]:
    """Return the contents of the model folder; of the arrays only types and shapes."""
    arrays = {
        name: {"dtype": str(array.dtype), "shape": list(array.shape)} for name, array in saved.arrays.items()
    }
    return {**{name: getattr(saved, name) for name in PARTS}, "arrays": arrays}


def as_text(saved: SavedModel) -> str:
    """Return the contents of the model folder as text for people."""
    n_components, n_features = saved.arrays["components"].shape
    shares = saved.arrays["explained_variance_ratio"]
    records = [
        {**record, "component": number, "explained_variance_ratio": float(share)}
        for number, (record, share) in enumerate(
            zip(saved.fitted["diagnostics"], shares, strict=True), start=1
        )
    ]
    weights = {name: saved.fitted[name] for name in ("l1", "l2", "tv")}
    lines = [
        f"{saved.kind}: {n_components} components of {n_features:,} features",
        *("", "parameters", *_listed(_parameters(saved))),
        *("", "weights used", *_listed({name: _numbers(value) for name, value in weights.items()})),
        *("", components_table(records)),
        *("", "fitted to", *_listed(saved.inputs)),
        "",
        "with " + ", ".join(f"{name} {version}" for name, version in saved.versions.items()),
    ]
    return "\n".join(lines)


def _parameters(saved: SavedModel) -> dict[str, Any]:
    """Return the parameters in use; numbers per component as text, and no arrays."""
    shown = parameters_in_use(saved.parameters)
    for name in {"sparsity", "alpha"} & set(shown):
        shown[name] = _numbers(unpack(shown[name], saved.arrays))
    return {name: value for name, value in shown.items() if isinstance(value, PLAIN)}


def _numbers(values: Any) -> Any:
    """Return one number as it is, several as text."""
    if values is None or np.ndim(values) == 0:
        return values
    return ", ".join(f"{float(value):.4g}" for value in values) + " (one per component)"


def _listed(values: Mapping[str, Any], margin: str = "  ") -> list[str]:
    """Return lines of names and values, nested ones indented; of long lists only the beginning."""
    lines: list[str] = []
    for name, value in values.items():
        if isinstance(value, Mapping) and set(value) != FILE_ENTRIES:
            lines += [f"{margin}{name}:", *_listed(value, margin + "  ")]
        elif isinstance(value, list):
            more = [f"{margin}  ... ({len(value) - MOST_FILES} more)"] if len(value) > MOST_FILES else []
            shown = [f"{margin}  {_file(item)}" for item in value[:MOST_FILES]]
            lines += [f"{margin}{name} ({len(value)}):", *shown, *more]
        else:
            lines.append(f"{margin}{name}: {_file(value)}")
    return lines


def _file(item: Any) -> str:
    if isinstance(item, Mapping) and set(item) == FILE_ENTRIES:
        return f"{item['name']} (SHA-256 {str(item['sha256'])[:12]}...)"
    return str(item)
