"""What a report is made of, gathered from a fitted model or from a folder, and checked."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spcatv._util.types import Array, FloatArray
from spcatv.decomposition.ceiling import pca_cumulative_variance
from spcatv.estimator import SPCATV
from spcatv.estimator.state import estimator_state
from spcatv.model import SavedModel, read_model
from spcatv.report import stored
from spcatv.report.errors import ReportError
from spcatv.report.repeat import repeat_code, repeat_command
from spcatv.report.variance import Variance, variance_of


@dataclass(frozen=True, eq=False)
class Column:
    """A value a sample.

    Attributes
    ----------
    name : str
        What it is: "group", "age".
    values : sequence
        Labels or numbers, in the order of the samples.
    """

    name: str
    values: Sequence[Any]


@dataclass(frozen=True, eq=False)
class Material:
    """Everything that a report shows.

    Attributes
    ----------
    model : SPCATV or ImageSPCATV
        Fitted.
    title : str
        Heading.
    inputs, parameters, versions : mapping
        What was run, as in a model folder.
    repeat : str
        Command or code that repeats the fit.
    variance : Variance
        What the components explain.
    config : str or None
        The configuration that took effect.
    scores : Scores or None
    groups, variable : Column or None
        Labels, and numbers, of the samples.
    selection : Selection or None
    stability : Stability or None
    """

    model: Any
    title: str
    inputs: Mapping[str, Any]
    parameters: Mapping[str, Any]
    versions: Mapping[str, str]
    repeat: str
    variance: Variance
    config: str | None = None
    scores: stored.Scores | None = None
    groups: Column | None = None
    variable: Column | None = None
    selection: stored.Selection | None = None
    stability: stored.Stability | None = None

    @property
    def n_components(self) -> int:
        """K."""
        return len(self.model.components_)

    @property
    def alphas(self) -> FloatArray | None:
        """The alpha of every component, shape (K,); None if all have the same one."""
        return getattr(self.model, "component_alphas_", None)


@dataclass(frozen=True, eq=False)
class Found:
    """A model and what lies beside it; `search` is what has found it."""

    model: Any
    saved: SavedModel
    search: Any = None
    scores: stored.Scores | None = None
    ceiling: FloatArray | None = None
    selection: stored.Selection | None = None
    stability: stored.Stability | None = None
    config: str | None = None
    config_file: Path | None = field(default=None)


def find(source: Any) -> Found:
    """Take a fitted estimator as it is, or read a folder of results or a model folder."""
    if isinstance(source, (str, os.PathLike)):
        return _find_in_folder(Path(source))
    if hasattr(source, "cv_results_") and hasattr(source, "best_estimator_"):
        model = source.best_estimator_
        chosen = stored.Selection(
            source.cv_results_,
            int(source.best_index_),
            source.rule if isinstance(source.rule, str) else getattr(source.rule, "__name__", "a function"),
            int(source.n_splits_),
            float(source.min_sparsity),
        )
        return Found(model, estimator_state(model), search=source, selection=chosen)
    if not hasattr(source, "get_params"):
        raise ReportError(
            f"a report is about a fitted SPCATV, ImageSPCATV or SPCATVCV, or a model folder; got "
            f"{source!r:.80}"
        )
    check_is_fitted(source, "components_")
    return Found(source, _state(source))


def _find_in_folder(folder: Path) -> Found:
    inner = folder / stored.MODEL
    model_folder = inner if inner.is_dir() else folder
    # the folder of the results, whichever of the two was named
    results = model_folder.parent if model_folder.name == stored.MODEL else folder
    saved = read_model(model_folder)
    if saved.kind == "SPCATV":
        model: Any = SPCATV.load(model_folder)
    else:
        from spcatv.images import ImageSPCATV

        model = ImageSPCATV.load(model_folder)
    n_components = len(model.components_)
    return Found(
        model=model,
        saved=saved,
        scores=stored.read_scores(results, n_components),
        ceiling=stored.read_ceiling(results, n_components),
        selection=stored.read_selection(results),
        stability=stored.read_stability(results, model.structure_, model.components_),
        config=stored.read_text(results / stored.CONFIG),
        config_file=results / stored.CONFIG,
    )


def _state(model: Any) -> SavedModel:
    """What a model folder would say of a fitted estimator."""
    if isinstance(model, SPCATV):
        return estimator_state(model)
    state = estimator_state(model.estimator_)
    own = {name: getattr(model, name) for name in ("mask", "surface", "bad_features", "standardize")}
    images = [asdict(file) for file in model.input_files_]
    return replace(state, parameters={**state.parameters, **own}, inputs={**state.inputs, "images": images})


def gather(
    source: Any,
    *,
    title: str | None = None,
    data: Any = None,
    confounds: Any = None,
    names: Sequence[str] | None = None,
    groups: Any = None,
    variable: Any = None,
    stability: Any = None,
) -> Material:
    """Put together what a report shows; the parameters are those of `spcatv.report.generate_report`."""
    found = find(source)
    model = found.model
    scores, ceiling = found.scores, found.ceiling
    if data is not None:
        matrix = _matrix(model, data, confounds)
        values = np.asarray(_estimator(model).transform(matrix), dtype=np.float64)
        scores = stored.Scores(_names(model, names, len(values)), values)
        ceiling = pca_cumulative_variance(matrix, len(model.components_), center=bool(model.center))
    resampled = found.stability
    if stability is not None:
        resampled = stored.checked_stability(stability, model.components_.shape, "stability")
    n_samples = None if scores is None else len(scores.values)
    return Material(
        model=model,
        title=title or "Structured sparse principal components",
        inputs=found.saved.inputs,
        parameters=found.saved.parameters,
        versions=found.saved.versions,
        repeat=_repeat(found),
        variance=variance_of(model, None if scores is None else scores.values, ceiling),
        config=found.config,
        scores=scores,
        groups=_column(groups, "group", n_samples),
        variable=_variable(variable, n_samples),
        selection=found.selection,
        stability=resampled,
    )


def _estimator(model: Any) -> Any:
    return getattr(model, "estimator_", model)


def _matrix(model: Any, data: Any, confounds: Any) -> Array:
    """Rows of features, from an array, a Cohort, or images."""
    if isinstance(model, SPCATV):
        return np.asarray(data)
    if hasattr(data, "preparation") and hasattr(data, "X"):
        return np.asarray(data.X)
    return np.asarray(model.preparation_.read(data, confounds))


def _names(model: Any, names: Sequence[str] | None, n_rows: int) -> tuple[str, ...]:
    known = getattr(model, "input_names_", ()) if names is None else names
    if len(known) == n_rows:
        return tuple(str(name) for name in known)
    if names is not None:
        raise ReportError(f"{len(names)} names are given, but the data have {n_rows} rows")
    return tuple(f"sample {number}" for number in range(1, n_rows + 1))


def _column(column: Any, default: str, n_samples: int | None) -> Column | None:
    """A column with its name, as long as there are samples."""
    if column is None:
        return None
    if not isinstance(column, Column):
        column = Column(str(getattr(column, "name", None) or default), list(column))
    if n_samples is None:
        raise ReportError(
            f"{column.name} is given, but there are no scores to show it with: give the data, or a folder of "
            f"results with {stored.MIXING}"
        )
    if len(column.values) != n_samples:
        raise ReportError(f"{column.name} has {len(column.values)} values, but there are {n_samples} samples")
    return column


def _variable(column: Any, n_samples: int | None) -> Column | None:
    checked = _column(column, "variable", n_samples)
    if checked is None:
        return None
    values = stored.numeric(checked.values)
    if values is None or not np.isfinite(values).any():
        raise ReportError(f"{checked.name} must hold numbers; use it as groups if it holds labels")
    return Column(checked.name, values.tolist())


def _repeat(found: Found) -> str:
    """How to make this model again: the command line if there was one, or Python."""
    if found.config is not None and found.config_file is not None:
        return repeat_command(found.config_file, searched=found.selection is not None)
    model = found.model if found.search is None else found.search
    return repeat_code(model, found.saved.versions.get("spca-tv", ""))
