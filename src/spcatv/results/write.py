"""Write a results folder: tables, maps, model folder, configuration and description."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import entity_columns, group_noun
from spcatv._util.naming import component_names
from spcatv._util.types import FloatArray
from spcatv._version import __version__
from spcatv.data import Adjustment
from spcatv.data.leading import pca_cumulative_variance
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import checked_data
from spcatv.results import layout as files
from spcatv.results import tables
from spcatv.results.tables import write_json, write_records, write_table, write_text
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
# The files of a results folder, by a part of their names, and what they hold.
CONTENTS = {
    files.COMPONENT_MAPS: "loading maps, one per component",
    files.MIXING: "scores, one row per sample",
    files.METRICS: "what each component explains, and how exact it is",
    files.HALVES: "which components random halves of the samples confirm",
    files.COUNT: "shares of variance by which the number of components was chosen",
    files.QUALITY: "how every image compares with the others",
    files.MEAN: "mean of the images",
    files.SELECTION: "the settings that were compared, and the chosen one",
    files.FREQUENCY_MAPS: "how often resampled fits select a place, one map per component",
    files.SIGN_MAPS: "how often they agree about its sign",
    files.REGION_MAPS: "numbers of the regions, one map per component",
    files.REGIONS: "the regions, and how often resampled fits select them",
    files.STABILITY: "arrays of the resampled fits",
    files.EXPLORER: "a page with sliders that shows every setting",
    files.CONFIG: "the options of the run; `spca-tv {command} --config` repeats it",
    files.MODEL: "the model, for `spca-tv transform`",
    files.DESCRIPTION: "who made this folder, for tools that read BIDS",
    files.IGNORED: "the files here for which BIDS has no rules",
}


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

    Returns the table of metrics: one row per component, by the names of `tables.METRICS_COLUMNS`.
    """
    n_components = len(model.components_)
    samples.write_model(model, folder)
    data = checked_data(model, samples.matrix, reset=False)  # within the memory of the fit
    scores = model.transform(data)
    write_table(folder / files.MIXING, *mixing_table(samples.names, scores, samples.columns))
    ceiling = pca_cumulative_variance(
        data, n_components, center=bool(model.center), global_signal=model.global_signal
    )
    metrics = [_metrics(model, number, ceiling) for number in range(n_components)]
    write_table(folder / files.METRICS, tables.METRICS_COLUMNS, (row.values() for row in metrics))
    numbers = range(1, n_components + 1)
    if halves is not None:
        write_records(folder / files.HALVES, tables.HALVES_COLUMNS, halves.reproducibility, component=numbers)
    if samples.quality:
        write_records(folder / files.QUALITY, tables.QUALITY_COLUMNS, samples.quality, input=samples.names)
    if count is not None:
        write_count(folder, count)
    write_text(folder / files.CONFIG, config)
    write_json(folder / files.DESCRIPTION, DATASET)
    write_text(folder / files.IGNORED, IGNORED_TEXT)
    write_readme(folder)
    return metrics


def write_readme(folder: Path) -> None:
    """Write the list of the files in a results folder; call it again after adding one."""
    names = sorted(path.name for path in folder.iterdir())
    command = "select" if files.SELECTION in names else "fit"
    lines = []
    for part, text in CONTENTS.items():
        found = [name for name in names if part in name and (name == part or not name.endswith(".json"))]
        held = ", ".join(f"`{name}`" for name in found)
        if held:
            lines.append(f"- {held}: {text.format(command=command)}")
    about = [
        "# Structured sparse principal components",
        f"Made by {files.GENERATOR} {__version__}.",
        "\n".join(lines),
        "The `.json` beside a file says what it holds. `spca-tv report` on this folder makes a page of all "
        f"of it, `{files.REPORT}`.",
    ]
    write_text(folder / files.README, "\n\n".join(about) + "\n")


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
        known |= dict.fromkeys(tables.NOT_OF_EMPTY)
    return {name: known[name] if name in known else getattr(record, name) for name in tables.METRICS_COLUMNS}


def mixing_table(
    names: Sequence[str], scores: FloatArray, coordinates: Mapping[str, Sequence[str]] | None = None
) -> tuple[dict[str, str], Iterable[Iterable[Any]]]:
    """Return the columns with their descriptions, and the rows, of a table of scores (n_samples, K).

    The first columns say whom and what a sample is about, if the names of the files do.
    """
    about: dict[str, Sequence[Any]] = {**entity_columns(names), **(coordinates or {})}
    columns = {name: tables.entity_description(name) for name in about}
    columns |= dict.fromkeys(coordinates or (), "Coordinate of the sample.")
    columns["input"] = "File of the sample, and its place in the file where there are several."
    for number, name in enumerate(component_names(scores.shape[1]), start=1):
        columns[name] = f"Score of the sample on component {number}."
    return columns, zip(*about.values(), names, *scores.T, strict=True)


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
    groups = search.groups_
    together = {
        "grouped_by": None if groups is None else grouped_by or group_noun(samples.names, groups),
        "n_groups": None if groups is None else len(set(groups)),
    }
    _write_settings(search, together, folder)
    if stability is not None:
        _write_stability(stability, samples, folder)
        if search.best_estimator_.structure_.n_rows > 0:
            _write_regions(stability, samples, folder)
    write_readme(folder)


def write_count(folder: Path, count: ComponentCount) -> None:
    """Write what `--n-components auto` compared, and the choice with its reason in the ``.json``."""
    rows = zip(range(1, len(count.share) + 1), count.share, count.limit, count.n_independent, strict=True)
    choice = {"chosen": count.n_components, "reason": count.reason}
    write_table(folder / files.COUNT, tables.COUNT_COLUMNS, rows, choice)


def _write_settings(search: SPCATVCV, together: Mapping[str, Any], folder: Path) -> None:
    results = {name: values for name, values in search.cv_results_.items() if name != "params"}
    choice = {
        "rule": search.rule,
        "min_sparsity": search.min_sparsity,
        "reason": search.choice_reason_,
        "best_index": int(search.best_index_),
        "best_params": search.best_params_,
        "n_folds": int(search.n_splits_),
        **together,
    }
    columns = {name: tables.column_description(name) for name in results}
    write_table(folder / files.SELECTION, columns, zip(*results.values(), strict=True), choice)


def _write_stability(stability: Bootstrap, samples: SampleSet, folder: Path) -> None:
    arrays = {name: getattr(stability, name) for name in tables.STABILITY_MAPS + tables.STABILITY_INDICES}
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
        tables.REGIONS_COLUMNS,
        regions,
        component=[region.component + 1 for region in regions],
        region=numbers,
        n_features=[len(region.features) for region in regions],
    )
    about = f"Numbers of the regions in {files.REGIONS}, one map per component; 0 in no region"
    samples.write_maps(maps, folder, files.REGION_MAPS, {"Description": about})
