"""Tables of a results folder: their columns, and how they are written and read.

Every table has a ``.json`` beside it that describes its columns, as BIDS asks.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from spcatv._util.files import read_text
from spcatv._util.tables import TableError, read_table
from spcatv._util.types import FloatArray
from spcatv.results import layout as files
from spcatv.results.layout import ResultsError

T = TypeVar("T")

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
    "bootstrap_frequency": "Share of resampled fits that select at least half of the region with its sign.",
}
HALVES_COLUMNS = {
    "component": "Number of the component, from 1.",
    "rank": "Place of the component by its Dice index, 1 for the highest.",
    "dice": "Dice index of the supports in two random halves, corrected for chance; mean over splits.",
    "cosine": "Absolute cosine of the loadings in both halves, mean over splits.",
    "n_confirmed": "Splits whose halves both show the pattern: Dice at least 0.6, or cosine at least 0.75.",
    "n_splits": "Splits into random halves.",
    "n_half": "Samples in a half.",
    "beyond_noise": "Whether halves of noise as smooth as these data would agree less.",
    "verdict": "Whether the pattern is confirmed or not confirmed by random halves.",
    "outline": "Whether the support is certain (Dice at least 0.6) or uncertain.",
}
QUALITY_COLUMNS = {
    "input": "File of the image, and its place in the file where there are several.",
    "share_missing": "Share of the features in the mask that are NaN or infinite in this image.",
    "share_zero": "Share of the features in the mask that are exactly 0 in this image.",
    "distance": "Root mean square difference from the median image, without three leading directions, over "
    "its median: 1 is usual.",
    "correlation": "Correlation with the mean of the other images; n/a where one of them is flat.",
    "outlier": "Whether the image is unlike the others.",
    "why": "What is unusual about an outlier, or which image holds the same values.",
}
COUNT_COLUMNS = {
    "component": "Number of the component, from 1.",
    "share": "Variance of this principal component of the lightly smoothed samples, as a share of the "
    "variance that the components before it leave.",
    "limit": "Share that noise as smooth as these data reaches by chance; n/a if one sample makes most of "
    "the component, which does not count then.",
    "n_independent": "Effective number of independent features of what the components before leave.",
}
# Arrays of the stability of resamples: of shape (K, n_features), and of shape (n_resamples, K).
STABILITY_MAPS = ("selection_frequency", "sign_consistency")
STABILITY_INDICES = ("dice", "signed_dice", "cosine")


def entity_description(name: str) -> str:
    """Return the description of a column of an entity in the table of scores."""
    return ENTITY_COLUMNS.get(name, f"Entity {name} of the file's name.")


def column_description(name: str) -> str:
    """Return the description of a column of the table of settings."""
    if name in SELECTION_COLUMNS:
        return SELECTION_COLUMNS[name]
    if name.startswith("split"):
        return SPLIT_COLUMN.format(1 + int(name.removeprefix("split").partition("_")[0]))
    stem = name.rstrip("0123456789")
    return NUMBERED_COLUMNS[stem].format(name.removeprefix(stem))


def write_table(
    file: Path,
    columns: Mapping[str, str],
    rows: Iterable[Iterable[Any]],
    about: Mapping[str, Any] | None = None,
) -> None:
    """Write a table, and a ``.json`` beside it with what it is `about` and what its columns are."""
    write_text(file, table_text(columns, rows))
    described = {name: {"Description": text} for name, text in columns.items()}
    write_json(file.with_suffix(".json"), {**(about or {}), **described})


def write_records(
    file: Path, columns: Mapping[str, str], records: Sequence[Any], **known: Iterable[Any]
) -> None:
    """Write one row per record: a column holds the attribute of its name, or the values in `known`."""
    cells = [
        known[name] if name in known else [getattr(record, name) for record in records] for name in columns
    ]
    write_table(file, columns, zip(*cells, strict=True))


def write_text(file: Path, text: str) -> None:
    """Write text in UTF-8 with plain line ends."""
    file.write_text(text, encoding="utf-8", newline="\n")


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write indented JSON."""
    write_text(file, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def table_text(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Return a tab-separated table; floats keep all their digits, and missing values are ``n/a``."""
    file = io.StringIO()
    writer = csv.writer(file, delimiter="\t", lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
    writer.writerow(columns)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: Any) -> str:
    """Return a value as text; None, NaN and empty text are missing."""
    if value is None or value == "" or value != value:
        return "n/a"
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    # the digits of float32 that matter, not those of its float64 image
    return str(value)


def read_result(file: Path) -> str:
    """Return the text of a file of the results."""
    return read_text(file, "result of spca-tv", ResultsError)


def read_columns(file: Path, needed: Iterable[str] = ()) -> dict[str, list[str]]:
    """Return the columns of a table as strings; a ResultsError names a needed column that is missing."""
    try:
        table = read_table(file)
    except TableError as error:
        raise ResultsError(str(error)) from error
    missing = [name for name in needed if name not in table.columns]
    if missing:
        raise ResultsError(f"{file}: has no column {missing[0]}; it is not the table of this model")
    return {name: table.column(name) for name in table.columns}


def read_numbers(file: Path, names: Sequence[str], *, missing: bool = True) -> list[FloatArray]:
    """Return columns of finite numbers, NaN where one is `missing`."""
    columns = read_columns(file, names)
    return [_numbers(file, name, columns[name], missing=missing) for name in names]


def _numbers(file: Path, name: str, cells: Sequence[str], *, missing: bool) -> FloatArray:
    try:
        numbers = [math.nan if cell == "n/a" else float(cell) for cell in cells]
    except ValueError as error:
        raise ResultsError(f"{file}: {error}, in the column {name}") from error
    for cell, number in zip(cells, numbers, strict=True):
        if not math.isfinite(number) and not (missing and math.isnan(number)):
            raise ResultsError(f"{file}: {cell} is not a finite number, in the column {name}")
    return np.array(numbers)


def read_records(file: Path, kind: type[T], **known: Sequence[Any]) -> tuple[T, ...]:
    """Read one dataclass `kind` per row: a field comes from the column of its name, or from `known`."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in known}
    columns = read_columns(file, hints)
    values: dict[str, Sequence[Any]] = {**known}
    for name, hint in hints.items():
        cells = columns[name]
        if hint is bool:
            values[name] = [cell == "true" for cell in cells]
        elif hint is str:
            values[name] = ["" if cell == "n/a" else cell for cell in cells]
        else:
            values[name] = list(map(hint, _numbers(file, name, cells, missing=hint is float)))
    if len({len(cells) for cells in values.values()}) > 1:
        raise ResultsError(f"{file}: does not have one row for every {kind.__name__} of this model")
    return tuple(kind(**dict(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True))
