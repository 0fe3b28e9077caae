"""Read a results folder: the model, and the files beside it.

The tables, the stability arrays and the configuration may be missing: a model folder that stands alone has
none of them, and only `spca-tv select` writes the selection and the stability of resamples.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import numpy as np

from spcatv._util.atomic_files import read_text
from spcatv._util.bids import group_noun
from spcatv._util.naming import component_names
from spcatv._util.tables import TableError, read_table
from spcatv._util.types import FloatArray
from spcatv.data.outliers import ImageQuality
from spcatv.estimator import SPCATV
from spcatv.metrics import threshold_loadings
from spcatv.model import SavedModel, checked, read_model
from spcatv.model.folder import opened_npz
from spcatv.results import layout as files
from spcatv.results.layout import STABILITY_INDICES, STABILITY_MAPS, ResultsError, model_folder
from spcatv.selection import SPCATVCV, ComponentCount
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
    """Settings that were compared, and the one that was chosen: a table, and a ``.json`` of the rest."""

    columns: Mapping[str, Any]  # the columns of ``cv_results_``, each with one value per setting
    best_index: int  # the chosen setting
    rule: str = ""  # how it was chosen
    n_folds: int | None = None
    min_sparsity: float | None = None  # share of zeros that the rule "paper" requires
    reason: str = ""  # why it was chosen, in words; empty if that is not known
    # what samples that folds kept together share; None if all were on their own
    grouped_by: str | None = None
    n_groups: int | None = None

    @classmethod
    def of(cls, search: SPCATVCV, names: Sequence[str], grouped_by: str | None = None) -> Selection:
        """Return the selection of a fitted search; by default, names of samples say what groups share."""
        groups, rule = search.groups_, search.rule
        return cls(
            {name: values for name, values in search.cv_results_.items() if name != "params"},
            int(search.best_index_),
            rule if isinstance(rule, str) else getattr(rule, "__name__", "a function"),
            int(search.n_splits_),
            float(search.min_sparsity),
            search.choice_reason_,
            None if groups is None else grouped_by or group_noun(names, groups),
            None if groups is None else len(set(groups)),
        )


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
        return SPCATV.restore(saved)
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
    inner = model_folder(folder)
    results = inner.parent if inner.name == files.MODEL else folder
    n_components = len(model.components_)
    return Results(
        model=model,
        saved=saved,
        scores=_if_there(_scores, results / files.MIXING, n_components),
        ceiling=_if_there(_ceiling, results / files.METRICS, n_components),
        selection=_if_there(_selection, results / files.SELECTION),
        stability=_if_there(_stability, results / files.STABILITY, model.structure_, model.components_),
        halves=_if_there(_records, results / files.HALVES, Reproducibility, component=range(n_components)),
        quality=_if_there(_quality, results / files.QUALITY) or (),
        count=_if_there(_component_count, results / files.COUNT),
        mean_file=results / files.MEAN if os.path.lexists(results / files.MEAN) else None,
        config=_if_there(_text, results / files.CONFIG),
        config_file=results / files.CONFIG,
    )


def _if_there(read: Callable[..., T], file: Path, *others: Any, **options: Any) -> T | None:
    """Return the content of a file; None if there is no such file."""
    return _content(read, file, *others, **options) if os.path.lexists(file) else None


def _content(read: Callable[..., T], file: Path, *others: Any, **options: Any) -> T:
    """Return the content of a file, or raise a ResultsError that names it."""
    try:
        return read(file, *others, **options)
    except (TableError, ResultsError) as error:
        raise ResultsError(str(error)) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{file}: {error}; it is damaged, or belongs to another model") from error


def _text(file: Path) -> str:
    return read_text(file, "result of spca-tv", ResultsError)


def _scores(file: Path, n_components: int) -> Scores:
    """Read the mixing table: one row per sample, one column per component."""
    names = component_names(n_components)
    columns = _columns(file, {"input": str, **dict.fromkeys(names, float)}, finite=True)
    return Scores(tuple(columns["input"]), np.stack([columns[name] for name in names], axis=1))


def _ceiling(file: Path, n_components: int) -> FloatArray:
    """Read the share of variance that PCA explains with 1, ..., K components."""
    values = _columns(file, {files.CEILING_COLUMN: float}, finite=True)[files.CEILING_COLUMN]
    if len(values) != n_components:
        raise ValueError(f"has {len(values)} rows, but the model has {n_components} components")
    return np.array(values)


def _selection(file: Path) -> Selection:
    """Read the table of settings, and the choice among them."""
    names = read_table(file).columns
    columns = _columns(file, dict.fromkeys((*names, "mean_test_error"), float))
    choice = _content(_choice, file.with_suffix(".json"), len(columns["mean_test_error"]))
    return Selection({name: np.array(values) for name, values in columns.items()}, **choice)


def _choice(file: Path, n_settings: int) -> dict[str, Any]:
    """Read the fields of a `Selection` from the file beside the table."""
    hints = get_type_hints(Selection)
    del hints["columns"]
    found = json.loads(_text(file))
    choice = {name: checked(found[name], hint, name) for name, hint in hints.items() if name in found}
    best = choice.get("best_index")
    if best is None or not 0 <= best < n_settings:
        raise ValueError(f"best_index is {best}, but there are {n_settings} settings")
    return choice


def _stability(file: Path, structure: Structure, components: FloatArray) -> Bootstrap:
    """Read the stability arrays of a model, and the table of regions beside them if it is there."""
    n_components, n_features = components.shape
    with opened_npz(file) as found:
        arrays = {name: found[name].astype(np.float64) for name in STABILITY_MAPS + STABILITY_INDICES}
    for name, array in arrays.items():
        array.shape = (n_components, n_features) if name in STABILITY_MAPS else (-1, n_components)
    regions = _if_there(_regions, file.parent / files.REGIONS, structure, components) or ()
    return Bootstrap(components, **arrays, regions=regions, failures=())


def _regions(file: Path, structure: Structure, components: FloatArray) -> tuple[Region, ...]:
    """Read the table of regions; their features are those of the model."""
    found = [connected_regions(structure, loading) for loading in threshold_loadings(components)]
    features = [region for regions in found for region in regions]
    if [region.size for region in features] != _columns(file, {"n_features": int})["n_features"]:
        raise ValueError("its regions are not those of this model")
    numbers = [k for k, regions in enumerate(found) for _ in regions]
    return _records(file, Region, component=numbers, features=features)


def _component_count(file: Path) -> ComponentCount:
    """Read the shares of variance by which the number of components was chosen."""
    columns = _columns(file, dict.fromkeys(("share", "limit", "n_independent"), float))
    return ComponentCount(**{name: np.array(values) for name, values in columns.items()})


def _quality(file: Path) -> tuple[ImageQuality, ...]:
    """Read the table of image quality."""
    return _records(file, ImageQuality, name=_columns(file, {"input": str})["input"])


def _records(file: Path, kind: type[T], **known: Sequence[Any]) -> tuple[T, ...]:
    """Read one dataclass `kind` per row: a field comes from the column of its name, or from `known`."""
    hints = {name: hint for name, hint in get_type_hints(kind).items() if name not in known}
    values = {**known, **_columns(file, hints)}
    if len({len(cells) for cells in values.values()}) > 1:
        raise ValueError(f"does not have one row for every {kind.__name__}")
    return tuple(kind(**dict(zip(values, row, strict=True))) for row in zip(*values.values(), strict=True))


def _columns(file: Path, kinds: Mapping[str, type], *, finite: bool = False) -> dict[str, list[Any]]:
    """Return columns of a table as values of their `kinds`; a missing float is NaN unless `finite`."""
    table = read_table(file)
    missing = [name for name in kinds if name not in table.columns]
    if missing:
        raise ValueError(f"has no column {missing[0]}")

    def value(cell: str, kind: type) -> Any:
        if kind is str:
            return "" if cell == "n/a" else cell
        if kind is bool:
            return cell == "true"
        number = math.nan if cell == "n/a" else float(cell)
        if math.isinf(number) or (math.isnan(number) and (finite or kind is int)):
            raise ValueError(f"{cell} is not a finite number")
        return kind(number)

    return {name: [value(cell, kind) for cell in table.column(name)] for name, kind in kinds.items()}
