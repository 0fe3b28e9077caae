"""Read a results folder: the model, and the files beside it.

The tables, the stability arrays and the configuration may be missing: a model folder that stands alone has
none of them, and only `spca-tv select` writes the selection and the stability of resamples.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from spcatv._util.naming import component_names
from spcatv._util.types import FloatArray
from spcatv.data.outliers import ImageQuality
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import restore_estimator
from spcatv.metrics import threshold_loadings
from spcatv.model import ModelError, SavedModel, checked, read_model
from spcatv.model.arrays import opened_npz
from spcatv.results import layout as files
from spcatv.results.layout import ResultsError, model_folder, results_folder
from spcatv.results.tables import (
    STABILITY_INDICES,
    STABILITY_MAPS,
    read_columns,
    read_numbers,
    read_records,
    read_result,
)
from spcatv.selection import ComponentCount
from spcatv.stability import Bootstrap, Region, Reproducibility
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
    min_sparsity: float | None = None  # share of zeros that the rule "paper" requires
    reason: str = ""  # why it was chosen, in words; empty if that is not known
    grouped_by: str | None = (
        None  # what samples that folds kept together share; None if all were on their own
    )
    n_groups: int | None = None  # number of these groups


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
    halves: tuple[Reproducibility, ...] | None = None  # one per component
    quality: tuple[ImageQuality, ...] = ()  # one per image of the fit
    count: ComponentCount | None = None  # by which the number of components was chosen
    mean_file: Path | None = None  # the mean of volumes, also outside the mask
    config: str | None = None  # the configuration of the run
    config_file: Path | None = None  # where it lies


def open_model(folder: Path) -> SavedModel:
    """Read the model folder, which may lie in a results folder, and check all of it."""
    return read_model(model_folder(folder))


def restore_model(saved: SavedModel) -> Any:
    """Return the fitted `SPCATV`, `ImageSPCATV` or `XarraySPCATV` that a model folder describes."""
    if saved.kind == "SPCATV":
        return restore_estimator(SPCATV, saved)
    if saved.kind == "XarraySPCATV":
        from spcatv.xarray import XarraySPCATV  # needs the extra `xarray`

        return XarraySPCATV.restore(saved)
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
    if saved.kind == "XarraySPCATV":
        model = model.estimator_  # with the axes of the grid, and components as an array
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
        config=_if_there(read_result, results / files.CONFIG),
        config_file=results / files.CONFIG,
    )


def _if_there(read: Callable[..., T], file: Path, *others: Any) -> T | None:
    """Return the content of a file; None if there is no such file."""
    return read(file, *others) if os.path.lexists(file) else None


def _scores(file: Path, n_components: int) -> Scores:
    """Read the mixing table: one row per sample, one column per component."""
    names = component_names(n_components)
    inputs = read_columns(file, ("input", *names))["input"]
    return Scores(tuple(inputs), np.stack(read_numbers(file, names, missing=False), axis=1))


def _ceiling(file: Path, n_components: int) -> FloatArray:
    """Read the share of variance that PCA explains with 1, ..., K components."""
    (values,) = read_numbers(file, [files.CEILING_COLUMN], missing=False)
    if len(values) != n_components:
        raise ResultsError(f"{file}: has {len(values)} rows, but the model has {n_components} components")
    return values


def _selection(file: Path) -> Selection:
    """Read the table of settings, and the choice among them."""
    names = list(read_columns(file, ["mean_test_error"]))
    columns = dict(zip(names, read_numbers(file, names), strict=True))
    choice_file = file.with_suffix(".json")
    hints = get_type_hints(Selection)
    del hints["columns"]
    try:
        choice = json.loads(read_result(choice_file))
        found = Selection(
            columns, **{name: checked(choice[name], hints[name], name) for name in hints if name in choice}
        )
    except (ModelError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{choice_file}: must hold {', '.join(hints)} of the selection ({error!r})"
        ) from error
    n_settings = len(columns["mean_test_error"])
    if not 0 <= found.best_index < n_settings:
        raise ResultsError(
            f"{choice_file}: best_index is {found.best_index}, but {file.name} has {n_settings} settings"
        )
    return found


def _stability(file: Path, structure: Structure, components: FloatArray) -> Bootstrap:
    """Read the stability arrays of a model, and the table of regions beside them if it is there."""
    n_components, n_features = components.shape
    names = STABILITY_MAPS + STABILITY_INDICES
    try:
        with opened_npz(file) as found:
            arrays = {name: found[name].astype(np.float64) for name in names}
        for name, array in arrays.items():
            array.shape = (n_components, n_features) if name in STABILITY_MAPS else (-1, n_components)
    except (OSError, ValueError) as error:
        raise ResultsError(
            f"{file}: must hold the arrays {', '.join(names)} of this model ({error})"
        ) from error
    regions = _if_there(_regions, file.parent / files.REGIONS, structure, components) or ()
    return Bootstrap(components, **arrays, regions=regions, failures=())


def _halves(file: Path, n_components: int) -> tuple[Reproducibility, ...]:
    """Read the table of random halves."""
    return read_records(file, Reproducibility, component=range(n_components))


def _component_count(file: Path) -> ComponentCount:
    """Read the shares of variance by which the number of components was chosen."""
    return ComponentCount(*read_numbers(file, ["share", "limit", "n_independent"]))


def _quality(file: Path) -> tuple[ImageQuality, ...]:
    """Read the table of image quality."""
    return read_records(file, ImageQuality, name=read_columns(file, ["input"])["input"])


def _regions(file: Path, structure: Structure, components: FloatArray) -> tuple[Region, ...]:
    """Read the table of regions; their features are those of the model."""
    found = [connected_regions(structure, loading) for loading in threshold_loadings(components)]
    features = [region for regions in found for region in regions]
    if [region.size for region in features] != read_numbers(file, ["n_features"])[0].tolist():
        raise ResultsError(f"{file}: its regions are not those of this model")
    numbers = [k for k, regions in enumerate(found) for _ in regions]
    return read_records(file, Region, component=numbers, features=features)


def numeric(values: Any) -> FloatArray | None:
    """Return a column as numbers, NaN where a value is missing; None if it holds anything else."""
    try:
        return np.array([np.nan if value in ("", "n/a", None) else float(value) for value in values])
    except (TypeError, ValueError):
        return None
