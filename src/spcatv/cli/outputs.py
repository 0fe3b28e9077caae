"""What a fitted model leaves behind, named in the style of BIDS derivatives, and a summary for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from spcatv._util.tables import aligned
from spcatv._util.types import FloatArray
from spcatv._version import __version__
from spcatv.cli.folder import DESCRIPTION, GENERATOR, MODEL, TAG
from spcatv.cli.tables import table_text
from spcatv.decomposition.ceiling import pca_cumulative_variance
from spcatv.estimator import SPCATV
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

BIDS_VERSION = "1.10.0"
CONFIG_NAME = f"{TAG}config.toml"
COMPONENTS_STEM = f"{TAG}components"

# columns of the table of metrics, and what its .json says about them
METRICS = {
    "component": "Number of the component, from 1, in the order of the maps and of the mixing table.",
    "explained_variance": "Variance that the component removes: sum of its squared scores / (N - 1).",
    "explained_variance_ratio": "The same as a share of the total variance.",
    "pca_cumulative_explained_variance_ratio": (
        "Share of the total variance that PCA explains with as many components: the ceiling of their sum."
    ),
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


class Data(Protocol):
    """Samples that were read, of images or of an array: a matrix, and the way back to files."""

    @property
    def matrix(self) -> FloatArray:
        """The data matrix X, shape (n_samples, n_features)."""

    @property
    def structure(self) -> Structure | None:
        """Who is whose neighbour."""

    @property
    def dtype(self) -> str | None:
        """Precision to fit in; None for that of the matrix."""

    @property
    def names(self) -> tuple[str, ...]:
        """One name a sample: its file, or its place in a file."""

    @property
    def report(self) -> str:
        """A line that says what was read."""

    def write_components(self, model: SPCATV, folder: Path) -> None:
        """Write the loadings of a model as maps, in the format that the data came in."""

    def write_maps(self, rows: FloatArray, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write other maps, `rows` of shape (n_maps, n_features), with `about` in their ``.json``."""

    def save(self, model: SPCATV, folder: Path) -> None:
        """Write a model of these data down as a model folder."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """A finished model.

    Attributes
    ----------
    data : Data
        What it was fitted to.
    model : SPCATV
    summary : tuple of str
        Lines that say what was read and done.
    """

    data: Data
    model: SPCATV
    summary: tuple[str, ...]


def write_outcome(outcome: Outcome, folder: Path, *, config: str) -> None:
    """Write everything into `folder`: maps, tables, model, configuration, description."""
    data, model = outcome.data, outcome.model
    data.write_components(model, folder)
    write_text(folder / f"{TAG}mixing.tsv", mixing_table(data.names, model.transform(data.matrix)))
    write_json(folder / f"{TAG}mixing.json", _mixing_sidecar(len(model.components_)))
    ceiling = pca_cumulative_variance(data.matrix, len(model.components_), center=bool(model.center))
    write_table(folder / f"{TAG}metrics.tsv", METRICS, metrics_rows(model, ceiling))
    write_text(folder / CONFIG_NAME, config)
    data.save(model, folder / MODEL)
    write_json(folder / DESCRIPTION, _description())


def write_table(file: Path, columns: Mapping[str, str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a table, and a ``.json`` beside it that says what its columns are."""
    write_text(file, table_text(tuple(columns), rows))
    write_json(file.with_suffix(".json"), column_descriptions(columns))


def column_descriptions(columns: Mapping[str, str]) -> dict[str, Any]:
    """What BIDS wants to be said about the columns of a table."""
    return {name: {"Description": text} for name, text in columns.items()}


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


def metrics_rows(model: SPCATV, ceiling: FloatArray) -> list[list[Any]]:
    """One row a component, in the columns of `METRICS`; `ceiling` is what PCA explains, shape (K,)."""
    rows = []
    for number, record in enumerate(model.diagnostics_):
        known = {
            "component": number + 1,
            "explained_variance": model.explained_variance_[number],
            "explained_variance_ratio": model.explained_variance_ratio_[number],
            "pca_cumulative_explained_variance_ratio": ceiling[number],
            "n_clusters": n_clusters(model.components_[number], model.structure_),
        }
        rows.append([known.get(name, getattr(record, name, None)) for name in METRICS])
    return rows


def n_clusters(component: FloatArray, structure: Structure) -> int | None:
    """Number of connected regions of one sign; None where nothing has neighbours."""
    return None if structure.n_rows == 0 else len(connected_regions(structure, component))


def summary_text(outcome: Outcome, folder: Path) -> str:
    """What a person wants to know at the end: what was read, the components, where the results are."""
    model = outcome.model
    rows = []
    for number, record in enumerate(model.diagnostics_):
        clusters = n_clusters(model.components_[number], model.structure_)
        rows.append(
            (
                str(number + 1),
                f"{100 * model.explained_variance_ratio_[number]:.2f} %",
                f"{100 * record.sparsity:.1f} %",
                "-" if clusters is None else str(clusters),
                f"{record.relative_gap:.1e}",
                "yes" if record.converged else "NO",
                f"{record.seconds:.2f}",
            )
        )
    header = ("component", "variance", "zeros", "clusters", "relative gap", "converged", "seconds")
    return "\n".join([*outcome.summary, "", aligned(header, rows), "", f"Results: {folder}"])
