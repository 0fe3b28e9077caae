"""What `spca-tv fit` leaves behind, named in the style of BIDS derivatives, and a summary for people."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from spcatv._version import __version__
from spcatv.cli.folder import DESCRIPTION, GENERATOR, MODEL, TAG
from spcatv.cli.tables import table_text
from spcatv.decomposition import ComponentDiagnostics
from spcatv.layout import aligned
from spcatv.regions import connected_regions
from spcatv.structure import Structure

FloatArray = npt.NDArray[np.floating[Any]]

BIDS_VERSION = "1.10.0"
CONFIG_NAME = f"{TAG}config.toml"
COMPONENTS_STEM = f"{TAG}components"

# columns of the table of metrics, and what its .json says about them
METRICS = {
    "component": "Number of the component, from 1, in the order of the maps and of the mixing table.",
    "explained_variance": "Variance that the component removes: sum of its squared scores / (N - 1).",
    "explained_variance_ratio": "The same as a share of the total variance.",
    "objective": "Penalised objective at the end; lower is better.",
    "gap": "Exact duality gap of the loadings for their scores, at most this far from the minimum.",
    "relative_gap": "The gap over the scale of the problem; below tol where converged.",
    "error_bound": "Upper bound on the distance of the unit loadings from the exact ones for their scores.",
    "converged": "Whether the relative gap is within tol.",
    "n_alternations": "Alternations of scores and loadings.",
    "n_nonzero": "Loadings that are not zero.",
    "n_certain": "Loadings that are surely not zero in the exact solution for these scores.",
    "sparsity": "Share of the loadings that are exactly zero.",
    "n_clusters": "Connected regions of loadings of one sign; n/a without neighbours.",
    "seconds": "Wall-clock time of the fit of this component.",
}


class FittedModel(Protocol):
    """What the outputs need of a fitted estimator, of images or of an array."""

    components_: FloatArray
    explained_variance_: FloatArray
    explained_variance_ratio_: FloatArray
    diagnostics_: tuple[ComponentDiagnostics, ...]
    structure_: Structure


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished fit.

    Attributes
    ----------
    model : FittedModel
    scores : ndarray of shape (n_samples, n_components)
    names : tuple of str
        One name a sample: its file, or its place in a file.
    summary : tuple of str
        Lines that say what was read.
    write_maps : callable
        Writes the components into a folder, in the format that the data came in.
    save : callable
        Writes the model down as a folder.
    """

    model: FittedModel
    scores: FloatArray
    names: tuple[str, ...]
    summary: tuple[str, ...]
    write_maps: Callable[[Path], object]
    save: Callable[[Path], object]


def write_outcome(outcome: Outcome, folder: Path, *, config: str) -> None:
    """Write everything into `folder`: maps, tables, model, configuration, description."""
    outcome.write_maps(folder)
    write_text(folder / f"{TAG}mixing.tsv", mixing_table(outcome.names, outcome.scores))
    write_json(folder / f"{TAG}mixing.json", _mixing_sidecar(outcome.scores.shape[1]))
    write_text(folder / f"{TAG}metrics.tsv", table_text(tuple(METRICS), metrics_rows(outcome.model)))
    write_json(folder / f"{TAG}metrics.json", {name: {"Description": text} for name, text in METRICS.items()})
    write_text(folder / CONFIG_NAME, config)
    outcome.save(folder / MODEL)
    write_json(folder / DESCRIPTION, _description())


def write_text(file: Path, text: str) -> None:
    """Write text in UTF-8 with plain line ends."""
    file.write_text(text, encoding="utf-8", newline="\n")


def write_json(file: Path, content: dict[str, Any]) -> None:
    """Write JSON for people."""
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def component_names(n_components: int) -> tuple[str, ...]:
    """The columns of the mixing table: component_1, component_2, ..."""
    return tuple(f"component_{number}" for number in range(1, n_components + 1))


def mixing_table(names: Sequence[str], scores: FloatArray) -> str:
    """The scores as a table, one row a sample."""
    columns = ("input", *component_names(scores.shape[1]))
    return table_text(columns, ((name, *row) for name, row in zip(names, scores, strict=True)))


def _mixing_sidecar(n_components: int) -> dict[str, Any]:
    return {
        "input": {"Description": "File of the sample, and its place in the file where there are several."},
        **{
            name: {"Description": f"Score of the sample on component {number}."}
            for number, name in enumerate(component_names(n_components), start=1)
        },
    }


def _description() -> dict[str, Any]:
    return {
        "Name": "Structured sparse principal components",
        "BIDSVersion": BIDS_VERSION,
        "DatasetType": "derivative",
        "GeneratedBy": [
            {
                "Name": GENERATOR,
                "Version": __version__,
                "Description": "Structured sparse PCA (SPCA-TV): l1 + l2 + total variation.",
            }
        ],
    }


def metrics_rows(model: FittedModel) -> list[list[Any]]:
    """One row a component, in the columns of `METRICS`."""
    rows = []
    for number, record in enumerate(model.diagnostics_):
        known = {
            "component": number + 1,
            "explained_variance": model.explained_variance_[number],
            "explained_variance_ratio": model.explained_variance_ratio_[number],
            "n_clusters": n_clusters(model.components_[number], model.structure_),
        }
        rows.append([known.get(name, getattr(record, name, None)) for name in METRICS])
    return rows


def n_clusters(component: FloatArray, structure: Structure) -> int | None:
    """Number of connected regions of one sign; None where nothing has neighbours."""
    return None if structure.n_rows == 0 else len(connected_regions(structure, component))


def summary_text(outcome: Outcome, folder: Path) -> str:
    """What a person wants to know at the end: what was read, the components, where the results are."""
    rows = [
        (
            str(row["component"]),
            f"{100 * row['explained_variance_ratio']:.2f} %",
            f"{100 * row['sparsity']:.1f} %",
            "-" if row["n_clusters"] is None else str(row["n_clusters"]),
            f"{row['relative_gap']:.1e}",
            "yes" if row["converged"] else "NO",
            f"{row['seconds']:.2f}",
        )
        for row in (dict(zip(METRICS, values, strict=True)) for values in metrics_rows(outcome.model))
    ]
    header = ("component", "variance", "zeros", "clusters", "relative gap", "converged", "seconds")
    return "\n".join([*outcome.summary, "", aligned(header, rows), "", f"Results: {folder}"])
