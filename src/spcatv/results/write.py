"""Write a results folder: tables, maps, model folder, configuration and description.

Every table has a ``.json`` beside it that describes its columns, as BIDS asks.
"""

from __future__ import annotations

import csv
import io
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.bids import entity_columns, group_noun
from spcatv._util.naming import component_names
from spcatv._util.quality import ImageQualityWarning, outweighing
from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv._version import __version__
from spcatv.data import Adjustment
from spcatv.decomposition.pca_bound import pca_cumulative_variance
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import checked_data
from spcatv.results import layout as files
from spcatv.selection import SPCATVCV, ComponentCount
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
README_TEXT = f"""\
# Structured sparse principal components

Made by {files.GENERATOR} {__version__}.

- `{files.COMPONENT_MAPS}.*`: loading maps, one per component
- `{files.MIXING}`: scores, one row per sample
- `{files.METRICS}`: what each component explains, and how exact it is
- `{files.CONFIG}`: the options of the run; `spca-tv fit --config` repeats it
- `{files.MODEL}/`: the model, for `spca-tv transform`

The `.json` beside a file says what it holds. `spca-tv report` on this folder makes a page of all of it.
"""

METRICS_COLUMNS = {
    "component": "Number of the component, from 1, in the order of the maps and of the mixing table.",
    "explained_variance": "Variance that the component explains: sum of its squared scores / (N - 1).",
    "explained_variance_ratio": "The same as a share of the total variance.",
    files.CEILING_COLUMN: (
        "Share of the total variance that PCA explains with as many components: the ceiling of their sum."
    ),
    "objective": "Penalised objective at the end; lower is better.",
    "gap": "Exact duality gap of the loadings (with sparsity: of the smoothed map) for their scores.",
    "relative_gap": "The gap over the scale of the problem; below tol where converged, n/a if empty.",
    "error_bound": "Largest distance of the unit loadings to the exact ones for the same scores and weights.",
    "converged": "Whether the relative gap is within tol; n/a for an empty component.",
    "n_alternations": "Alternations of scores and loadings.",
    "n_nonzero": "Loadings that are not zero.",
    "n_certain": "Loadings that are surely not zero in the exact ones for these scores, l1, tv.",
    "sparsity": "Share of the loadings that are exactly zero; n/a for an empty component.",
    "target_sparsity": "The share of zeros that was asked for; n/a in the penalised model.",
    "smoothness": (
        "Weight of the structured penalty in standard deviations of the component's own map, as used in the "
        "end; n/a in the penalised model."
    ),
    "jump": "Share of the features that enter or leave at once at the weights found; 0 if none do.",
    "l1": "Absolute weight of the l1 norm.",
    "tv": "Absolute weight of the structured penalty.",
    "n_clusters": "Connected regions of loadings of one sign; n/a without neighbours.",
    "same_sign": "Share of the features whose covariance with the scores has the more frequent sign.",
    "global_correlation": "Absolute correlation of the scores with the mean over features of each sample.",
    "seconds": "Wall-clock time of the fit of this component.",
}
ENTITY_COLUMNS = {
    "participant_id": "Participant, from the name of the file or its folder.",
    "session_id": "Session, from the name of the file or its folder.",
    "run": "Run, from the name of the file.",
}
# Metrics that an empty component does not have.
NOT_OF_EMPTY = ("relative_gap", "error_bound", "converged", "sparsity")
# columns of cv_results_ without a number in their names; `params` repeats the first of them and is left out
SELECTION_COLUMNS = {
    "param_sparsity": "Share of the loadings of every component that should be exactly zero.",
    "param_smoothness": "Weight of the structured penalty, in standard deviations of a component's own map.",
    "param_alpha": "Strength of all penalties together.",
    "param_l1_ratio": "Share of alpha for the l1 norm.",
    "param_tv_ratio": "Share of alpha for the structured penalty.",
    "mean_test_error": "Mean over folds of the held-out error, the Frobenius norm of the residual.",
    "std_test_error": "Standard deviation of the held-out error over folds.",
    "mean_test_score": "Minus the mean held-out error.",
    "rank_test_score": "Place of the setting by its mean held-out error, 1 for the lowest.",
    "mean_test_explained": "Mean over folds of the explained share of the held-out sum of squares.",
    "se_test_explained": "Standard error of the explained share over folds.",
    "mean_sparsity": "Mean share of exact zeros, over components that are not zero everywhere.",
    "mean_n_nonempty": "Mean number of components that are not zero.",
    "mean_dice": "Dice index of matched supports, mean over pairs of folds and components.",
    "mean_corrected_dice": "The same without what is due to chance: 0 for chance, 1 for equal supports.",
    "n_unconverged": "Fits that did not reach their tolerance.",
    "mean_fit_time": "Mean wall-clock time of a fit, in seconds.",
}
SPLIT_COLUMN = "Held-out error on fold {}."
NUMBERED_COLUMNS = {
    "mean_test_explained_": "The explained share with the first {} components alone.",
    "mean_sparsity_": "Mean share of zeros of component {}, over folds where it is not zero everywhere.",
    "mean_dice_": "Dice index of component {}, mean over pairs of folds; numbered as on the first fold.",
}
REGIONS_COLUMNS = {
    "component": "Number of the component, from 1.",
    "region": "Number of the region in its component, from 1, the heaviest first; the value in its map.",
    "n_features": "Voxels, vertices or cells of the region.",
    "sign": "Sign of the loadings in the region.",
    "share": "Share of the component's sum of squares.",
    "selection_frequency": "How often its features are selected in resampled fits, mean over the region.",
    "found": "Share of resampled fits that select at least half of the region with its sign.",
}
HALVES_COLUMNS = {
    "component": "Number of the component, from 1.",
    "rank": "Place of the component by its Dice index, 1 for the most reproducible.",
    "dice": "Dice index of the supports in two random halves, corrected for chance; mean over splits.",
    "cosine": "Absolute cosine of the loadings in both halves, mean over splits.",
    "further_dice": "The Dice index if each half may show the component among two further ones.",
    "n_found": "Splits whose halves both show the component: Dice at least 0.6, or cosine at least 0.75.",
    "n_splits": "Splits into random halves.",
    "verdict": "found again, one of several equals, or not reproducible.",
}
QUALITY_COLUMNS = {
    "input": "File of the image, and its place in the file where there are several.",
    "share_missing": "Share of the features in the mask that are NaN or infinite in this image.",
    "share_zero": "Share of the features in the mask that are exactly 0 in this image.",
    "distance": "Root mean square difference from the median image, over its median: 1 is usual.",
    "correlation": "Correlation with the mean of the other images; n/a where one of them is flat.",
    "outlier": "Whether the image is unlike the others.",
    "why": "What is unusual about an outlier, or which image holds the same values.",
}
COUNT_COLUMNS = {
    "component": "Number of the component, from 1.",
    "share": "Variance of this principal component of the lightly smoothed samples, as a share of the "
    "variance that the components before it leave.",
    "limit": "Share that noise as smooth as these data reaches by chance.",
    "n_independent": "Effective number of independent features of what the components before leave.",
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
    folder: Path, samples: SampleSet, model: SPCATV, *, config: str, halves: Any = None
) -> list[dict[str, Any]]:
    """Write what `spca-tv fit` writes into an empty folder: maps, tables, model, configuration, description.

    `halves` is the `spcatv.stability.SplitHalves` of the model, or None.

    Returns the table of metrics: one row per component, by the names of `METRICS_COLUMNS`.
    """
    n_components = len(model.components_)
    samples.write_model(model, folder)
    data = checked_data(model, samples.matrix, reset=False)  # within the memory of the fit
    scores = model.transform(data)
    _warn_of_one(scores, samples.names)
    write_mixing(folder / files.MIXING, samples.names, scores)
    write_json((folder / files.MIXING).with_suffix(".json"), _mixing_sidecar(samples.names, n_components))
    ceiling = pca_cumulative_variance(
        data, n_components, center=bool(model.center), global_signal=model.global_signal
    )
    metrics = [_metrics(model, number, ceiling) for number in range(n_components)]
    _write_table(folder / files.METRICS, METRICS_COLUMNS, (row.values() for row in metrics))
    if halves is not None:
        names = tuple(HALVES_COLUMNS)[1:]
        rows = (
            (record.component + 1, *(getattr(record, name) for name in names))
            for record in halves.reproducibility
        )
        _write_table(folder / files.HALVES, HALVES_COLUMNS, rows)
    if samples.quality:
        _write_table(folder / files.QUALITY, QUALITY_COLUMNS, map(_quality_cells, samples.quality))
    _write_text(folder / files.CONFIG, config)
    write_json(folder / files.DESCRIPTION, DATASET)
    _write_text(folder / files.README, README_TEXT)
    _write_text(folder / files.IGNORED, IGNORED_TEXT)
    return metrics


def _warn_of_one(scores: FloatArray, names: Sequence[str]) -> None:
    """Warn about components whose scores vary mostly in one sample."""
    shown: dict[int, list[str]] = {}
    for number, values in enumerate(scores.T, start=1):
        found = outweighing(values)
        if found is not None:
            shown.setdefault(found[0], []).append(f"{number} ({100 * found[1]:.0f} %)")
    for sample, numbers in shown.items():
        warn_user(
            f"{names[sample]} alone makes most of the variance of the scores on component "
            f"{', '.join(numbers)}: inspect that sample, and fit without it",
            ImageQualityWarning,
        )


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
    return {name: known[name] if name in known else getattr(record, name) for name in METRICS_COLUMNS}


def _quality_cells(image: Any) -> tuple[Any, ...]:
    correlation = None if math.isnan(image.correlation) else image.correlation
    shares = (image.share_missing, image.share_zero, image.distance)
    return (image.name, *shares, correlation, image.outlier, image.why or None)


def write_mixing(file: Path, names: Sequence[str], scores: FloatArray) -> None:
    """Write scores of shape (n_samples, K) as a table, one row per sample.

    The first columns say whom and what a sample is about, if the names of the files do.
    """
    about: dict[str, Sequence[str | None]] = {**entity_columns(names), "input": list(names)}
    rows = ((*cells, *row) for *cells, row in zip(*about.values(), list(scores), strict=True))
    _write_text(file, table_text((*about, *component_names(scores.shape[1])), rows))


def _mixing_sidecar(names: Sequence[str], n_components: int) -> dict[str, Any]:
    columns = {
        name: ENTITY_COLUMNS.get(name, f"Entity {name} of the file's name.") for name in entity_columns(names)
    }
    columns["input"] = "File of the sample, and its place in the file where there are several."
    for number, name in enumerate(component_names(n_components), start=1):
        columns[name] = f"Score of the sample on component {number}."
    return _described(columns)


def write_selection(
    folder: Path,
    samples: SampleSet,
    search: SPCATVCV,
    stability: Any = None,
    *,
    grouped_by: str | None = None,
) -> None:
    """Write what `spca-tv select` adds to the folder that `write_results` has filled for the chosen model.

    `stability` is the `spcatv.stability.Bootstrap` of that model, or None. `grouped_by` names the column of
    the groups, if they come from a table.
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


def write_count(folder: Path, count: ComponentCount) -> None:
    """Write what `--n-components auto` compared, and the choice with its reason in the ``.json``."""
    rows = zip(range(1, len(count.share) + 1), count.share, count.limit, count.n_independent, strict=True)
    choice = {"chosen": count.n_components, "reason": count.reason}
    _write_table(folder / files.COUNT, COUNT_COLUMNS, rows, choice)


def _write_settings(search: SPCATVCV, together: Mapping[str, Any], folder: Path) -> None:
    results = {name: values for name, values in search.cv_results_.items() if name != "params"}
    rows = (
        [None if math.isnan(value) else value for value in row] for row in zip(*results.values(), strict=True)
    )
    choice = {
        "rule": search.rule,
        "min_sparsity": search.min_sparsity,
        "reason": search.choice_reason_,
        "best_index": int(search.best_index_),
        "best_params": search.best_params_,
        "n_folds": int(search.n_splits_),
        **together,
    }
    columns = {name: column_description(name) for name in results}
    _write_table(folder / files.SELECTION, columns, rows, choice)


def column_description(name: str) -> str:
    """Return the description of a column of the table of settings."""
    if name in SELECTION_COLUMNS:
        return SELECTION_COLUMNS[name]
    if name.startswith("split"):
        return SPLIT_COLUMN.format(1 + int(name.removeprefix("split").partition("_")[0]))
    stem = name.rstrip("0123456789")
    return NUMBERED_COLUMNS[stem].format(name.removeprefix(stem))


def _write_stability(stability: Any, samples: SampleSet, folder: Path) -> None:
    names = ("selection_frequency", "sign_consistency", "dice", "signed_dice", "cosine")
    np.savez_compressed(folder / files.STABILITY, **{name: getattr(stability, name) for name in names})
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


def _write_regions(stability: Any, samples: SampleSet, folder: Path) -> None:
    numbered = list(_numbered(stability.regions))
    rows = (
        (r.component + 1, number, len(r.features), r.sign, r.share, r.selection_frequency, r.found)
        for number, r in numbered
    )
    _write_table(folder / files.REGIONS, REGIONS_COLUMNS, rows)
    maps = np.zeros(stability.components.shape)
    for number, region in numbered:
        maps[region.component, region.features] = number
    about = f"Numbers of the regions in {files.REGIONS}, one map per component; 0 in no region"
    samples.write_maps(maps, folder, files.REGION_MAPS, {"Description": about})


def _numbered(regions: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield every region with its number in its component, from 1."""
    counts: dict[int, int] = {}
    for region in regions:
        counts[region.component] = counts.get(region.component, 0) + 1
        yield counts[region.component], region


def _write_table(
    file: Path,
    columns: Mapping[str, str],
    rows: Iterable[Iterable[Any]],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a table, and a ``.json`` beside it with what it is `about` and what its columns are."""
    _write_text(file, table_text(tuple(columns), rows))
    write_json(file.with_suffix(".json"), {**(about or {}), **_described(columns)})


def _described(columns: Mapping[str, str]) -> dict[str, Any]:
    """Return descriptions of columns in the form that BIDS asks for."""
    return {name: {"Description": text} for name, text in columns.items()}


def _write_text(file: Path, text: str) -> None:
    """Write text in UTF-8 with plain line ends."""
    file.write_text(text, encoding="utf-8", newline="\n")


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write indented JSON."""
    _write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def table_text(columns: Sequence[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a tab-separated table; floats keep all their digits, and None is written as ``n/a``."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return "n/a"
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.floating):
        # the digits of float32 that matter, not those of its float64 image
        return str(value)
    return repr(value) if isinstance(value, float) else str(value)
