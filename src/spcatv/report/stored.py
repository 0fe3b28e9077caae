"""What may lie beside a model: scores, selection, stability, configuration; each is read if it is there."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from spcatv._util.types import FloatArray, IntArray
from spcatv.metrics import threshold_loadings
from spcatv.report.errors import ReportError
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

TAG = "desc-SPCATV_"
MODEL = "model"
MIXING = f"{TAG}mixing.tsv"
METRICS = f"{TAG}metrics.tsv"
CONFIG = f"{TAG}config.toml"
SELECTION = f"{TAG}selection.tsv"
SELECTION_CHOICE = f"{TAG}selection.json"
STABILITY = "stability.npz"
REGIONS = f"{TAG}regions.tsv"
CEILING_COLUMN = "pca_cumulative_explained_variance_ratio"


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of samples.

    Attributes
    ----------
    names : tuple of str
        One a sample.
    values : ndarray of shape (n_samples, K)
    """

    names: tuple[str, ...]
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Selection:
    """Settings that were compared, and the one that was chosen.

    Attributes
    ----------
    columns : mapping
        The columns of ``cv_results_``, a value a setting each.
    best_index : int
        The chosen setting.
    rule : str
        How it was chosen.
    n_folds : int or None
        Folds of the comparison.
    min_sparsity : float or None
        Share of zeros that the rule "paper" asks for.
    """

    columns: Mapping[str, Any]
    best_index: int
    rule: str = ""
    n_folds: int | None = None
    min_sparsity: float | None = None


@dataclass(frozen=True, eq=False)
class Stability:
    """What resampled fits say.

    Attributes
    ----------
    selection_frequency, sign_consistency : ndarray of shape (K, P)
    dice : ndarray of shape (n_resamples, K)
    found : ndarray of shape (K, P) or None
        Share of resamples that find the region of a feature again; NaN at features of no region, which are
        those outside of a component's thresholded support.
    """

    selection_frequency: FloatArray
    sign_consistency: FloatArray
    dice: FloatArray
    found: FloatArray | None = None


def read_columns(file: Path) -> dict[str, list[str]]:
    """The columns of a tab-separated table with a header, as texts."""
    try:
        with file.open(encoding="utf-8", newline="") as lines:
            header, *rows = list(csv.reader(lines, delimiter="\t"))
    except (OSError, UnicodeDecodeError, ValueError, csv.Error) as error:
        raise ReportError(f"{file}: cannot be read as a table ({error})") from error
    if any(len(row) != len(header) for row in rows):
        raise ReportError(f"{file}: some row has not {len(header)} cells, as many as the header")
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def read_scores(folder: Path, n_components: int) -> Scores | None:
    """The mixing table, if there is one: a row a sample, a column a component."""
    file = folder / MIXING
    if not file.is_file():
        return None
    columns = read_columns(file)
    names = [f"component_{number}" for number in range(1, n_components + 1)]
    missing = [name for name in ("input", *names) if name not in columns]
    if missing:
        raise ReportError(f"{file}: has no column {missing[0]}; it is not the table of this model")
    values = np.array([_numbers(columns[name], file) for name in names]).T
    if not np.isfinite(values).all():
        raise ReportError(f"{file}: some score is missing or not a finite number")
    return Scores(tuple(columns["input"]), values.reshape(-1, n_components))


def read_ceiling(folder: Path, n_components: int) -> FloatArray | None:
    """What PCA explains, if the table of metrics has it."""
    file = folder / METRICS
    if not file.is_file():
        return None
    column = read_columns(file).get(CEILING_COLUMN)
    if column is None:
        return None
    values = _numbers(column, file)
    return values if len(values) == n_components and np.isfinite(values).all() else None


def read_selection(folder: Path) -> Selection | None:
    """The table of settings and the choice among them, if they are there."""
    file = folder / SELECTION
    if not file.is_file():
        return None
    columns = read_columns(file)
    choice_file = folder / SELECTION_CHOICE
    try:
        choice = json.loads(choice_file.read_text(encoding="utf-8"))
        best = int(choice["best_index"])
        n_folds = choice.get("n_folds")
        rule = str(choice.get("rule", ""))
        min_sparsity = choice.get("min_sparsity")
        least = None if min_sparsity is None else float(min_sparsity)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ReportError(
            f"{choice_file}: must hold best_index, rule and n_folds of the selection ({error!r})"
        ) from error
    n_settings = len(next(iter(columns.values()), []))
    if not 0 <= best < n_settings:
        raise ReportError(f"{choice_file}: best_index is {best}, but {file.name} has {n_settings} settings")
    return Selection(columns, best, rule, None if n_folds is None else int(n_folds), least)


def read_stability(folder: Path, structure: Structure, components: FloatArray) -> Stability | None:
    """The stability maps and the regions found again, if they are there.

    Parameters
    ----------
    folder : Path
        Of results.
    structure : Structure
        Of the model.
    components : ndarray of shape (K, P)
        Its loadings.
    """
    file = folder / STABILITY
    if not file.is_file():
        return None
    names = ("selection_frequency", "sign_consistency", "dice")
    try:
        with np.load(file, allow_pickle=False) as archive:
            frequency, consistency, dice = (np.asarray(archive[name], dtype=np.float64) for name in names)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ReportError(f"{file}: must hold the arrays {', '.join(names)} ({error})") from error
    found = read_found(folder, structure, components)
    return checked_stability(Stability(frequency, consistency, dice, found), components.shape, str(file))


def read_found(folder: Path, structure: Structure, components: FloatArray) -> FloatArray | None:
    """How often every region is found again, at its features (`Stability.found`), if the table is there."""
    file = folder / REGIONS
    if not file.is_file():
        return None
    columns = read_columns(file)
    if not {"n_features", "found"} <= set(columns):
        raise ReportError(f"{file}: must have the columns n_features and found")
    sizes, shares = _numbers(columns["n_features"], file), _numbers(columns["found"], file)
    regions = [
        (k, features)
        for k, row in enumerate(threshold_loadings(components))
        for features in connected_regions(structure, row)
    ]
    if [len(features) for _, features in regions] != sizes.tolist():
        raise ReportError(f"{file}: its regions are not those of this model")
    return _at_features(
        ((k, features, share) for (k, features), share in zip(regions, shares, strict=True)), components.shape
    )


def _at_features(regions: Iterable[tuple[int, IntArray, float]], shape: tuple[int, ...]) -> FloatArray:
    """A value a region, at the features of the region; NaN elsewhere."""
    values = np.full(shape, np.nan)
    for k, features, value in regions:
        values[k, features] = value
    return values


def checked_stability(stability: Any, shape: tuple[int, ...], name: str) -> Stability:
    """Stability maps (`spcatv.stability.Bootstrap` or the like) that fit components of a given shape."""
    for field in ("selection_frequency", "sign_consistency"):
        found = np.shape(getattr(stability, field))
        if found != shape:
            raise ReportError(f"{name}: {field} has shape {found}, but the components have {shape}")
    dice = np.asarray(stability.dice, dtype=np.float64)
    if dice.ndim != 2 or dice.shape[1] != shape[0]:
        raise ReportError(
            f"{name}: dice must have a column a component, {shape[0]}; its shape is {dice.shape}"
        )
    again = getattr(stability, "found", None)
    if again is None and hasattr(stability, "regions"):
        regions = ((region.component, region.features, region.found) for region in stability.regions)
        again = _at_features(regions, shape)
    return Stability(
        np.asarray(stability.selection_frequency, dtype=np.float64),
        np.asarray(stability.sign_consistency, dtype=np.float64),
        dice,
        again,
    )


def read_text(file: Path) -> str | None:
    """A text file, None if it is not there."""
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ReportError(f"{file}: cannot be read ({error})") from error


def _numbers(cells: list[str], file: Path) -> FloatArray:
    """Cells as numbers, NaN for ``n/a`` and empty ones."""
    try:
        return np.array([float(cell) if cell not in ("", "n/a") else np.nan for cell in cells])
    except ValueError as error:
        raise ReportError(f"{file}: {error}") from error


def numeric(values: Any) -> FloatArray | None:
    """A column as numbers, NaN where one is missing; None if it holds anything else."""
    try:
        return np.array([np.nan if value in ("", "n/a", None) else float(value) for value in values])
    except (TypeError, ValueError):
        return None
