"""Write a results folder: tables, maps, model folder, configuration and description."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import entity_columns
from spcatv._util.naming import component_names
from spcatv._util.types import FloatArray
from spcatv._version import __version__
from spcatv.data import Adjustment
from spcatv.data.leading import pca_cumulative_variance
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import checked_data
from spcatv.results import layout as files
from spcatv.results.read import Selection
from spcatv.selection import SPCATVCV, ComponentCount
from spcatv.stability import Bootstrap, SplitHalves
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

DATASET = {
    "Name": "Structured sparse principal components",
    "BIDSVersion": "1.10.0",
    "DatasetType": "derivative",
    "GeneratedBy": [
        {
            "Name": files.GENERATOR,
            "Version": __version__,
            "Description": "Structured sparse PCA (SPCA-TV): l1 + l2 + total variation.",
        }
    ],
}
IGNORED_TEXT = f"""\
# BIDS names files of participants; for components of a group, it has no rules yet.
*desc-*
{files.MODEL}
{files.STABILITY}
"""
# Metrics that an empty component does not have.
NOT_OF_EMPTY = ("relative_gap", "error_bound", "converged", "sparsity")


@dataclass(frozen=True, eq=False)
class SampleSet(ABC):
    """Samples that were read from images or an array, and how to write their model and maps."""

    matrix: Any  # the data matrix X, shape (n_samples, n_features)
    names: tuple[str, ...]  # one per sample: its file, or its place in a file
    structure: Structure | None  # on the features; None if they have no neighbours
    dtype: str | None  # precision of the fit; None for that of the matrix
    # adjustment of the features of X, repeated for the samples of every fold and resample
    adjustment: Adjustment = field(default_factory=Adjustment, kw_only=True)
    # labels, equal for samples that stay together in splits and resamples; None if none do
    groups: tuple[str, ...] | None = field(default=None, kw_only=True)
    # how every image compares with the others (`spcatv.images.ImageQuality`); empty for arrays
    quality: Sequence[Any] = field(default=(), kw_only=True)
    # coordinates of the samples, such as their times, as columns of the table of scores
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)

    @property
    @abstractmethod
    def summary(self) -> str:
        """Summary of what was read, in a line or two."""

    @abstractmethod
    def write_model(self, model: SPCATV, folder: Path) -> None:
        """Write the model folder and the loading maps into a results folder."""

    @abstractmethod
    def write_maps(self, maps: FloatArray, folder: Path, stem: str, about: Mapping[str, Any]) -> None:
        """Write other maps, of shape (n_maps, n_features), with `about` in their ``.json``."""


def write_results(
    folder: Path,
    samples: SampleSet,
    model: SPCATV,
    *,
    config: str,
    halves: SplitHalves | None = None,
    count: ComponentCount | None = None,
) -> list[dict[str, Any]]:
    """Write what `spca-tv fit` writes into an empty folder: maps, tables, model, configuration, description.

    `halves` are random halves of the samples; `count` is how the number of components was chosen.

    Returns the table of metrics: one row per component.
    """
    n_components = len(model.components_)
    samples.write_model(model, folder)
    data = checked_data(model, samples.matrix, reset=False)  # within the memory of the fit
    scores = model.transform(data)
    write_table(folder / files.MIXING, mixing_table(samples.names, scores, samples.columns))
    ceiling = pca_cumulative_variance(
        data, n_components, center=bool(model.center), global_signal=model.global_signal
    )
    metrics = [_metrics(model, number, ceiling) for number in range(n_components)]
    table = {name: [row[name] for row in metrics] for name in files.COLUMNS[files.METRICS]}
    write_table(folder / files.METRICS, table)
    if halves is not None:
        numbers = range(1, n_components + 1)
        write_records(folder / files.HALVES, halves.reproducibility, component=numbers)
    if samples.quality:
        write_records(folder / files.QUALITY, samples.quality, input=samples.names)
    if count is not None:
        columns = {"component": range(1, len(count.share) + 1), **vars(count)}
        choice = {"chosen": count.n_components, "reason": count.reason}
        write_table(folder / files.COUNT, columns, choice)
    write_text(folder / files.CONFIG, config)
    write_json(folder / files.DESCRIPTION, DATASET)
    write_text(folder / files.IGNORED, IGNORED_TEXT)
    write_readme(folder)
    return metrics


def _metrics(model: SPCATV, number: int, ceiling: FloatArray) -> dict[str, Any]:
    """Return the metrics of component `number`, from 0; `ceiling`, shape (K,), is explained by PCA."""
    structure, record = model.structure_, model.diagnostics_[number]
    known = {
        "component": number + 1,
        "explained_variance": model.explained_variance_[number],
        "explained_variance_ratio": model.explained_variance_ratio_[number],
        files.CEILING_COLUMN: ceiling[number],
        "n_clusters": (
            None if structure.n_rows == 0 else len(connected_regions(structure, model.components_[number]))
        ),
    }
    if record.is_empty:
        known |= dict.fromkeys(NOT_OF_EMPTY)
    columns = files.COLUMNS[files.METRICS]
    return {name: known[name] if name in known else getattr(record, name) for name in columns}


def mixing_table(
    names: Sequence[str], scores: FloatArray, coordinates: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Sequence[Any]]:
    """Return the columns of a table of scores (n_samples, K).

    The first columns say whom and what a sample is about, if the names of the files do.
    """
    return {
        **entity_columns(names),
        **(coordinates or {}),
        "input": names,
        **dict(zip(component_names(scores.shape[1]), scores.T, strict=True)),
    }


def write_readme(folder: Path) -> None:
    """Write the list of the files in a results folder; call it again after adding one."""
    names = sorted(path.name for path in folder.iterdir())
    command = "select" if files.SELECTION in names else "fit"
    lines = []
    for part, text in files.CONTENTS.items():
        found = [name for name in names if part in name and (name == part or not name.endswith(".json"))]
        if found:
            held = ", ".join(f"`{name}`" for name in found)
            lines.append(f"- {held}: {text.format(command=command)}")
    about = [
        "# Structured sparse principal components",
        f"Made by {files.GENERATOR} {__version__}.",
        "\n".join(lines),
        "The `.json` beside a file describes it. `spca-tv report` writes a page about this folder, "
        f"`{files.REPORT}`.",
    ]
    write_text(folder / files.README, "\n\n".join(about) + "\n")


def write_selection(
    folder: Path,
    samples: SampleSet,
    search: SPCATVCV,
    stability: Bootstrap | None = None,
    *,
    grouped_by: str | None = None,
) -> None:
    """Write what `spca-tv select` adds to the folder that `write_results` has filled for the chosen model.

    `grouped_by` names the column of the groups, if they come from a table.
    """
    selection = Selection.of(search, samples.names, grouped_by)
    choice = {item.name: getattr(selection, item.name) for item in fields(selection)[1:]}
    choice["best_params"] = search.best_params_
    write_table(folder / files.SELECTION, selection.columns, choice)
    if stability is not None:
        _write_stability(stability, samples, folder)
        if search.best_estimator_.structure_.n_rows > 0:
            _write_regions(stability, samples, folder)
    write_readme(folder)


def _write_stability(stability: Bootstrap, samples: SampleSet, folder: Path) -> None:
    arrays = {name: getattr(stability, name) for name in files.STABILITY_MAPS + files.STABILITY_INDICES}
    np.savez_compressed(folder / files.STABILITY, **arrays)
    frequency = (
        "Share of resampled fits in whose matched component, cut to 99 % of its norm, the value is not 0"
    )
    consistency = (
        "Consistency of the sign over the resampled fits that select the value: 1 if it is always the same, "
        "0 if either is as frequent or the value is never selected"
    )
    for stem, maps, text in (
        (files.FREQUENCY_MAPS, stability.selection_frequency, frequency),
        (files.SIGN_MAPS, stability.sign_consistency, consistency),
    ):
        about = {"Description": text, "NumberOfResamples": len(stability.dice)}
        samples.write_maps(maps, folder, stem, about)


def _write_regions(stability: Bootstrap, samples: SampleSet, folder: Path) -> None:
    regions, counts = stability.regions, Counter[int]()
    numbers = []  # of every region in its component, from 1
    maps = np.zeros(stability.components.shape)
    for region in regions:
        counts[region.component] += 1
        numbers.append(counts[region.component])
        maps[region.component, region.features] = numbers[-1]
    write_records(
        folder / files.REGIONS,
        regions,
        component=[region.component + 1 for region in regions],
        region=numbers,
        n_features=[len(region.features) for region in regions],
    )
    about = f"Numbers of the regions in {files.REGIONS}, one map per component; 0 in no region"
    samples.write_maps(maps, folder, files.REGION_MAPS, {"Description": about})


def write_records(file: Path, records: Sequence[Any], **known: Iterable[Any]) -> None:
    """Write one row per record: a column holds the attribute of its name, or the values in `known`."""
    columns = {
        name: known[name] if name in known else [getattr(record, name) for record in records]
        for name in files.COLUMNS[file.name]
    }
    write_table(file, columns)


def write_table(
    file: Path, columns: Mapping[str, Iterable[Any]], about: Mapping[str, Any] | None = None
) -> None:
    """Write a table, and a ``.json`` beside it with what it is `about` and what its columns are."""
    write_text(file, table_text(columns))
    described = {name: {"Description": files.column_description(file.name, name)} for name in columns}
    write_json(file.with_suffix(".json"), {**(about or {}), **described})


def table_text(columns: Mapping[str, Iterable[Any]]) -> str:
    """Return a tab-separated table; floats keep all their digits, and missing values are ``n/a``."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(columns)
    writer.writerows(map(_cell, row) for row in zip(*columns.values(), strict=True))
    return text.getvalue()


def _cell(value: Any) -> str:
    """Return a value as text; None, NaN and empty text are missing."""
    if value is None or value == "" or value != value:
        return "n/a"
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    # the digits of float32 that matter, not those of its float64 image
    return str(value)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write indented JSON."""
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def write_text(file: Path, text: str) -> None:
    """Write text in UTF-8 with plain line ends."""
    file.write_text(text, encoding="utf-8", newline="\n")
