"""Inputs of a report, gathered from a fitted model or a results folder and checked."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from spcatv._util.matching import index_columns, match_rows
from spcatv._util.tables import Table, TableError
from spcatv._util.types import FloatArray
from spcatv.data.leading import pca_cumulative_variance
from spcatv.estimator import SPCATV
from spcatv.estimator._persistence import estimator_state
from spcatv.metrics import adjusted_explained_variance, orthonormal_basis
from spcatv.model import current_versions
from spcatv.model.folder import IMAGE_PACKAGES
from spcatv.report import formatting as fmt
from spcatv.results import Results, ResultsError, Scores, Selection, read_results
from spcatv.results.layout import MIXING
from spcatv.selection import SPCATVCV


class ReportError(ValueError):
    """Error in the inputs of a report; the message names what to correct.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import ReportError, generate_report
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> try:
    ...     generate_report(SPCATV(1).fit(X), data=X, variable=[1, 2, 3])
    ... except ReportError as error:
    ...     print(error)
    variable has 3 values, but there are 20 samples
    """

    exit_code = 2  # of the command line


@dataclass(frozen=True, eq=False)
class Column:
    """One value per sample.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.report import Column, generate_report
    >>> X = np.random.default_rng(0).standard_normal((20, 30))
    >>> age = Column("age in years", list(range(20, 40)))
    >>> report = generate_report(SPCATV(1).fit(X), data=X, variable=age)
    >>> "age in years" in report.html
    True
    """

    name: str  # for example "group" or "age"
    values: Sequence[Any]  # labels or numbers, in the order of the samples


@dataclass(frozen=True, eq=False, kw_only=True)
class ReportInputs(Results):
    """Checked inputs of a report."""

    title: str
    repeat: str  # command or code that repeats the fit
    variance: Variance  # variance that the components explain
    groups: Column | None  # labels of the samples
    variable: Column | None  # a number for every sample
    mean_img: Any  # the mean of volumes, also outside the mask; None if it is not known

    @property
    def n_components(self) -> int:
        """Number of components K."""
        return len(self.model.components_)


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
    halves: Any = None,
) -> ReportInputs:
    """Gather and check the inputs of a report; for the parameters see `spcatv.report.generate_report`."""
    asked = source
    if hasattr(source, "as_arrays"):  # XarraySPCATV
        source, data, names = source._report_inputs(data, names)
    found = _find(source)
    model = found.model
    if stability is not None and np.shape(stability.selection_frequency) != model.components_.shape:
        raise ReportError(
            f"stability has components of shape {np.shape(stability.selection_frequency)}, but the model "
            f"has components of shape {model.components_.shape}"
        )
    scores, ceiling = found.scores, found.ceiling
    if data is not None:
        matrix = _matrix(source, model, data, confounds)
        values = np.asarray(getattr(model, "estimator_", model).transform(matrix), dtype=np.float64)
        scores = Scores(_names(model, names, len(values)), values)
        ceiling = pca_cumulative_variance(
            matrix, len(model.components_), center=bool(model.center), global_signal=model.global_signal
        )
    mean_img = getattr(model, "mean_img_", None)
    if found.mean_file is not None:
        from spcatv.images.spaces.volume import read_one  # needs the extra `images`

        mean_img = read_one(found.mean_file)
    known = {
        "scores": scores,
        "stability": found.stability if stability is None else stability,
        "halves": found.halves or model.reproducibility_ if halves is None else halves.reproducibility,
        "count": found.count or getattr(asked, "count_", None),
        "quality": found.quality or getattr(model, "quality_", ()),
    }
    return ReportInputs(
        **{**vars(found), **known},
        title=title or "Structured sparse principal components",
        repeat=_repeat(asked, found),
        variance=variance_of(model, None if scores is None else scores.values, ceiling),
        groups=None if groups is None else _column(groups, "group", scores),
        variable=None if variable is None else _numeric(_column(variable, "variable", scores)),
        mean_img=mean_img,
    )


def _find(source: Any) -> Results:
    """Return the results in a folder, or the results of a fitted estimator or search."""
    if isinstance(source, Results):
        return source
    if isinstance(source, (str, os.PathLike)):
        try:
            return read_results(Path(source))
        except ResultsError as error:
            raise ReportError(str(error)) from error
    if not hasattr(source, "get_params"):
        raise ReportError(
            "a report is about a fitted SPCATV, SPCATVCV, ImageSPCATV or ImageSPCATVCV, or a model folder; "
            f"got {source!r:.80}"
        )
    check_is_fitted(source, "components_")
    model = getattr(source, "best_estimator_", source)
    selection = None
    if model is not source:
        selection = Selection.of(source, getattr(model, "input_names_", ()))
    if isinstance(model, SPCATV):
        return Results(model, estimator_state(model, {}), selection=selection)
    # as the model folder of an ImageSPCATV would describe it
    state = estimator_state(model.estimator_, {})
    state = replace(
        state,
        parameters={**model.get_params(deep=False), **state.parameters},
        inputs={**state.inputs, "images": [asdict(file) for file in model.input_files_]},
        versions=current_versions(*IMAGE_PACKAGES),
    )
    return Results(model, state, selection=selection)


def _matrix(source: Any, model: Any, data: Any, confounds: Any) -> Any:
    """Return the matrix that the model takes, of an array, a Cohort, or images."""
    if isinstance(source, SPCATVCV):
        return source._new_samples(data, confounds)
    if isinstance(model, SPCATV):
        return np.asarray(data)
    if hasattr(data, "preparation") and hasattr(data, "X"):
        return np.asarray(data.X)
    return np.asarray(model.preparation_.read(data, confounds))


def _names(model: Any, names: Sequence[str] | None, n_samples: int) -> tuple[str, ...]:
    known = getattr(model, "input_names_", ()) if names is None else names
    if len(known) == n_samples:
        return tuple(str(name) for name in known)
    if names is not None:
        raise ReportError(f"{len(names)} names are given, but the data have {n_samples} samples")
    return tuple(f"sample {number}" for number in range(1, n_samples + 1))


def _column(given: Any, default: str, scores: Scores | None) -> Column:
    """Return a named column with one value per sample; a Series whose index has names is matched by it."""
    name = str(getattr(given, "name", None) or default)
    if scores is None:
        raise ReportError(
            f"{name} is given, but there are no scores to show it with: give the data, or a results folder "
            f"with {MIXING}"
        )
    values = list(given.values if isinstance(given, Column) else given)
    index = getattr(given, "index", None)
    if index is not None and not callable(index) and (ids := index_columns(index)):  # lists have a method
        rows = tuple(zip(*ids.values(), strict=True))
        try:
            match = match_rows(Table(Path(name), tuple(ids), rows), scores.names, partial=True)
        except TableError as error:
            raise ReportError(str(error)) from error
        match.warn_if_guessed()
        values = match.values(values)
    if len(values) != len(scores.values):
        raise ReportError(f"{name} has {len(values)} values, but there are {len(scores.values)} samples")
    return Column(name, values)


def _numeric(column: Column) -> Column:
    """Return a column as numbers, NaN where a value is missing."""
    try:
        numbers = [np.nan if value in ("", "n/a", None) else float(value) for value in column.values]
    except (TypeError, ValueError):
        numbers = []
    if not np.isfinite(numbers).any():
        raise ReportError(f"{column.name} must hold numbers; use it as groups if it holds labels")
    return Column(column.name, numbers)


def _repeat(source: Any, found: Results) -> str:
    """Return the command that repeats the fit, or Python code if there was no command."""
    if found.config is not None and found.config_file is not None:
        command = "fit" if found.selection is None else "select"
        config = shlex.quote(str(found.config_file))
        return f"spca-tv {command} --config {config} --output ANOTHER_FOLDER"
    model = source if hasattr(source, "get_params") else found.model
    inner = getattr(model, "estimator", None)  # of an XarraySPCATV
    names = ", ".join(type(each).__name__ for each in (inner, model) if each is not None)
    version = found.saved.versions.get("spca-tv", "")
    return f"from spcatv import {names}  # spca-tv {version}\n{fmt.python_call(model)}.fit(...)"


@dataclass(frozen=True, eq=False)
class Variance:
    """Shares of the total variance, one value per component."""

    own: FloatArray  # explained by each component, shape (K,)
    # added by its scores to those of earlier components, if scores are correlated, shape (K,)
    adjusted: FloatArray | None = None
    cumulative: FloatArray | None = None  # what the first 1, ..., K components explain together, shape (K,)
    # the most that any 1, ..., K components can explain: that of PCA, shape (K,)
    ceiling: FloatArray | None = None

    @property
    def together(self) -> FloatArray:
        """Share that the first 1, ..., K components explain together."""
        return np.cumsum(self.own) if self.cumulative is None else self.cumulative


def is_joint(model: Any) -> bool:
    """Return whether all components were fitted at once, with uncorrelated scores."""
    return model.mixing_ is not None


def variance_of(model: Any, scores: FloatArray | None, ceiling: FloatArray | None) -> Variance:
    """Collect the shares of the variance, from the scores of the training samples (n_samples, K)."""
    own = np.asarray(model.explained_variance_ratio_, dtype=np.float64)
    if is_joint(model):  # explained variances add up
        return Variance(own, cumulative=np.cumsum(own), ceiling=ceiling)
    if scores is None or len(scores) < 2 or not own.any():
        return Variance(own, ceiling=ceiling)
    largest = int(np.argmax(own))
    total = float(model.explained_variance_[largest]) / own[largest]
    adjusted = adjusted_explained_variance(scores) / total
    components = np.asarray(model.components_, dtype=np.float64)
    # products of the samples with every loading, from their scores: deflation gives
    # t_k = x v_k - sum_{i < k} t_i (v_i'v_k) (docs/method.md section 5.2), and projection T V V' = X V'
    overlap = components @ components.T
    if model.transform_method != "projection":
        overlap = np.triu(overlap, 1) + np.eye(len(components))
    # every vector of an orthonormal basis of the loadings is a combination of them, so no data are needed
    weights = np.linalg.lstsq(components.T, orthonormal_basis(components).T, rcond=None)[0]
    squares = np.square(np.asarray(scores, dtype=np.float64) @ overlap @ weights).sum(axis=0)
    return Variance(own, adjusted, np.cumsum(squares) / (total * (len(scores) - 1)), ceiling)
