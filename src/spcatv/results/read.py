"""Read a results folder: the model, and the files beside it.

The tables, the stability arrays and the configuration may be missing: a model folder that stands alone has
none of them, and only `spca-tv select` writes the selection and the stability of resamples.
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from spcatv._util.files import read_text
from spcatv._util.naming import component_names
from spcatv._util.quality import ImageQuality
from spcatv._util.types import FloatArray
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import restore_estimator
from spcatv.metrics import threshold_loadings
from spcatv.model import SavedModel, read_model
from spcatv.model.arrays import BROKEN_NPZ, read_npz
from spcatv.results import layout as files
from spcatv.results.layout import ResultsError, model_folder, results_folder
from spcatv.selection import ComponentCount
from spcatv.stability import Bootstrap, Region
from spcatv.stability.halves import verdict_sentence
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of samples."""

    names: tuple[str, ...]  # one per sample
    values: FloatArray  # shape (n_samples, K)


@dataclass(frozen=True, eq=False)
class Selection:
    """Settings that were compared, and the one that was chosen."""

    columns: Mapping[str, Any]  # the columns of ``cv_results_``, each with one value per setting
    best_index: int  # the chosen setting
    rule: str = ""  # how it was chosen
    n_folds: int | None = None  # number of folds
    min_sparsity: float | None = None  # share of zeros that the rule "paper" asks for
    reason: str = ""  # why it was chosen, in words; empty if that is not known
    grouped_by: str = ""  # what samples that folds kept together share; empty if all were on their own
    n_groups: int | None = None  # number of these groups


class ComponentHalves(NamedTuple):
    """Whether random halves of the samples show one component (`spcatv.stability.Reproducibility`)."""

    rank: int
    dice: float
    verdict: str
    n_found: int | None = None  # splits whose halves both show it; None in folders of earlier versions
    n_splits: int | None = None  # all splits

    @property
    def sentence(self) -> str:
        """The verdict with its count, as a sentence for people."""
        return verdict_sentence(self.verdict, self.n_found, self.n_splits)


@dataclass(frozen=True, eq=False)
class Results:
    """Fitted model with the contents of its results folder.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.results import read_results
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> results = read_results(SPCATV(2).fit(X).save("model"))
    >>> results.model.components_.shape, results.scores  # a model folder alone holds no scores
    ((2, 30), None)
    """

    model: Any
    saved: SavedModel  # its description, as in the model folder
    scores: Scores | None = None
    # share of the variance that the first 1, ..., K principal components explain, shape (K,)
    ceiling: FloatArray | None = None
    selection: Selection | None = None
    stability: Bootstrap | None = None
    halves: tuple[ComponentHalves, ...] | None = None  # one per component
    quality: tuple[ImageQuality, ...] = ()  # one per image of the fit
    count: ComponentCount | None = None  # by which the number of components was chosen
    mean_file: Path | None = None  # the mean of volumes, also outside the mask
    config: str | None = None  # the configuration of the run
    config_file: Path | None = None  # where it lies


def open_model(folder: Path) -> SavedModel:
    """Read the model folder, which may lie in a results folder, and check all of it."""
    return read_model(model_folder(folder))


def restore_model(saved: SavedModel) -> Any:
    """Return the fitted `SPCATV` or `ImageSPCATV` that a model folder describes."""
    if saved.kind == "SPCATV":
        return restore_estimator(SPCATV, saved)
    # needs the extra `images`
    from spcatv.images import ImageSPCATV

    return ImageSPCATV.restore(saved)


def read_results(folder: Path) -> Results:
    """Read a results folder, or a model folder; the model is read and checked once.

    Raises a ModelError if the model folder is damaged, and a ResultsError if a file beside it is damaged, or
    belongs to another model.

    Parameters
    ----------
    folder : path
        Written by ``spca-tv fit`` or ``spca-tv select``, or by `SPCATV.save`.

    Returns
    -------
    Results
        The fitted model, and the tables that lie beside it.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.results import read_results
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> model = SPCATV(2).fit(X)
    >>> read_results(model.save("model")).model.n_components
    2
    """
    saved = open_model(folder)
    model = restore_model(saved)
    results = results_folder(folder)
    n_components = len(model.components_)
    return Results(
        model=model,
        saved=saved,
        scores=_if_there(_scores, results / files.MIXING, n_components),
        ceiling=_if_there(_ceiling, results / files.METRICS, n_components),
        selection=_if_there(_selection, results / files.SELECTION),
        stability=_if_there(_stability, results / files.STABILITY, model.structure_, model.components_),
        halves=_if_there(_halves, results / files.HALVES, n_components),
        quality=_if_there(_quality, results / files.QUALITY) or (),
        count=_if_there(_component_count, results / files.COUNT),
        mean_file=results / files.MEAN if os.path.lexists(results / files.MEAN) else None,
        config=_if_there(_text, results / files.CONFIG),
        config_file=results / files.CONFIG,
    )


def _if_there(read: Callable[..., T], file: Path, *others: Any) -> T | None:
    """Return the content of a file; None if there is no such file."""
    return read(file, *others) if os.path.lexists(file) else None


def read_columns(file: Path) -> dict[str, list[str]]:
    """Return the columns of a tab-separated table with a header, as strings."""
    text = _text(file)
    try:
        header, *rows = list(csv.reader(io.StringIO(text, newline=""), delimiter="\t"))
    except (ValueError, csv.Error) as error:
        raise ResultsError(f"{file}: cannot be read as a table ({error})") from error
    if any(len(row) != len(header) for row in rows):
        raise ResultsError(f"{file}: every row must have as many cells as the header, {len(header)}")
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def _scores(file: Path, n_components: int) -> Scores:
    """Read the mixing table: one row per sample, one column per component."""
    columns = read_columns(file)
    names = component_names(n_components)
    missing = [name for name in ("input", *names) if name not in columns]
    if missing:
        raise ResultsError(f"{file}: has no column {missing[0]}; it is not the table of this model")
    values = np.array([_numbers(columns[name], file) for name in names]).T
    if not np.isfinite(values).all():
        raise ResultsError(f"{file}: some score is missing or not a finite number")
    return Scores(tuple(columns["input"]), values.reshape(-1, n_components))


def _ceiling(file: Path, n_components: int) -> FloatArray | None:
    """Read the variance that PCA explains with as many components; None if the table lacks it."""
    column = read_columns(file).get(files.CEILING_COLUMN)
    if column is None:
        return None
    values = _numbers(column, file)
    return values if len(values) == n_components and np.isfinite(values).all() else None


def _selection(file: Path) -> Selection:
    """Read the table of settings, and the choice among them."""
    columns = read_columns(file)
    choice_file = file.with_suffix(".json")
    try:
        choice = json.loads(_text(choice_file))
        n_folds, least = choice.get("n_folds"), choice.get("min_sparsity")
        grouped_by = str(choice.get("grouped_by") or "")
        found = Selection(
            columns,
            best_index=int(choice["best_index"]),
            rule=str(choice.get("rule", "")),
            n_folds=None if n_folds is None else int(n_folds),
            min_sparsity=None if least is None else float(least),
            reason=str(choice.get("reason", "")),
            grouped_by=grouped_by,
            n_groups=int(choice["n_groups"]) if grouped_by else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ResultsError(
            f"{choice_file}: must hold best_index, rule and n_folds of the selection ({error!r})"
        ) from error
    if "mean_test_error" not in columns:
        raise ResultsError(f"{file}: has no column mean_test_error")
    best, n_settings = found.best_index, len(columns["mean_test_error"])
    if not 0 <= best < n_settings:
        raise ResultsError(f"{choice_file}: best_index is {best}, but {file.name} has {n_settings} settings")
    return found


def _stability(file: Path, structure: Structure, components: FloatArray) -> Bootstrap:
    """Read the stability arrays of a model, and the table of regions beside them if it is there."""
    shapes = {"selection_frequency": components.shape, "sign_consistency": components.shape}
    shapes |= dict.fromkeys(("dice", "signed_dice", "cosine"), (-1, len(components)))
    try:
        found = read_npz(file, lambda _: list(shapes))
        arrays = {name: found[name].astype(np.float64).reshape(shape) for name, shape in shapes.items()}
    except BROKEN_NPZ as error:
        raise ResultsError(
            f"{file}: must hold the arrays {', '.join(shapes)} of this model ({error})"
        ) from error
    regions = _if_there(read_regions, file.parent / files.REGIONS, structure, components) or ()
    return Bootstrap(components, **arrays, regions=regions, failures=())


def _halves(file: Path, n_components: int) -> tuple[ComponentHalves, ...]:
    """Read the table of random halves."""
    columns = read_columns(file)
    needed, counts = ("rank", "dice", "verdict"), ("n_found", "n_splits")
    if not set(needed) <= set(columns) or len(columns["rank"]) != n_components:
        raise ResultsError(f"{file}: must have the columns {', '.join(needed)} and one row per component")
    rank, dice = (_numbers(columns[name], file).tolist() for name in needed[:2])
    if any(map(math.isnan, rank)):
        raise ResultsError(f"{file}: some rank is missing")
    unknown = n_components * ["n/a"]  # folders of earlier versions have no counts
    found, splits = (_numbers(columns.get(name, unknown), file).tolist() for name in counts)
    rows = zip(map(int, rank), dice, columns["verdict"], map(_count, found), map(_count, splits), strict=True)
    return tuple(ComponentHalves(*row) for row in rows)


def _component_count(file: Path) -> ComponentCount:
    """Read the shares of variance by which the number of components was chosen."""
    columns, names = read_columns(file), ("share", "limit", "n_independent")
    if not set(names) <= set(columns):
        raise ResultsError(f"{file}: must have the columns {', '.join(names)}")
    return ComponentCount(*(_numbers(columns[name], file) for name in names))


def _count(value: float) -> int | None:
    return None if math.isnan(value) else int(value)


def _quality(file: Path) -> tuple[ImageQuality, ...]:
    """Read the table of image quality."""
    columns = read_columns(file)
    numbers = ("share_missing", "share_zero", "distance", "correlation")
    missing = [name for name in ("input", *numbers, "outlier", "why") if name not in columns]
    if missing:
        raise ResultsError(f"{file}: has no column {missing[0]}")
    rows = zip(
        columns["input"],
        *(_numbers(columns[name], file).tolist() for name in numbers),
        (cell == "true" for cell in columns["outlier"]),
        ("" if cell == "n/a" else cell for cell in columns["why"]),
        strict=True,
    )
    return tuple(ImageQuality(*row) for row in rows)


def read_regions(file: Path, structure: Structure, components: FloatArray) -> tuple[Region, ...]:
    """Read the table of regions; their features are those of the model."""
    names = ("n_features", "sign", "share", "selection_frequency", "found")
    columns = read_columns(file)
    if not set(names) <= set(columns):
        raise ResultsError(f"{file}: must have the columns {', '.join(names)}")
    sizes, signs, *others = (_numbers(columns[name], file).tolist() for name in names)
    regions = [
        (k, features)
        for k, row in enumerate(threshold_loadings(components))
        for features in connected_regions(structure, row)
    ]
    if [len(features) for _, features in regions] != sizes:
        raise ResultsError(f"{file}: its regions are not those of this model")
    rows = zip(regions, map(int, signs), *others, strict=True)
    return tuple(Region(*region, *values) for region, *values in rows)


def _text(file: Path) -> str:
    """Read a text file of the results."""
    return read_text(file, "result of spca-tv", ResultsError)


def _numbers(cells: list[str], file: Path) -> FloatArray:
    """Return cells as numbers; NaN where a cell is empty or ``n/a``."""
    try:
        numbers = np.array([float(cell) if cell not in ("", "n/a") else np.nan for cell in cells])
    except ValueError as error:
        raise ResultsError(f"{file}: {error}") from error
    if np.isinf(numbers).any():
        raise ResultsError(f"{file}: {cells[int(np.argmax(np.isinf(numbers)))]} is not a finite number")
    return numbers


def numeric(values: Any) -> FloatArray | None:
    """Return a column as numbers, NaN where a value is missing; None if it holds anything else."""
    try:
        return np.array([np.nan if value in ("", "n/a", None) else float(value) for value in values])
    except (TypeError, ValueError):
        return None
