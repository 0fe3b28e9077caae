"""Methods of every estimator with components: names, summary, stability, pictures and pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from spcatv._util.naming import component_names
from spcatv._util.types import Array, FloatArray
from spcatv.decomposition import ComponentDiagnostics
from spcatv.estimator.verdicts import Reproducibility, verdict_lines
from spcatv.progress import printing
from spcatv.structure import Structure
from spcatv.structure.regions import connected_regions

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from spcatv.report import Report

# Columns of `ComponentsMixin.summary`, with the formats of their values in a notebook.
COLUMNS = {
    "variance": "{:.1%}",
    "zeros": "{:.1%}",
    "regions": "{}",
    "relative_gap": "{:.1e}",
    "pattern": "{}",
    "outline": "{}",
}


class FittedAttributes:
    """Types of the fitted attributes, for type checkers."""

    components_: FloatArray
    patterns_: FloatArray
    mixing_: FloatArray | None
    mean_: FloatArray
    global_loading_: FloatArray | None
    singular_values_: FloatArray
    explained_variance_: FloatArray
    explained_variance_ratio_: FloatArray
    l1_: float | FloatArray
    l2_: float | FloatArray
    tv_: float | FloatArray
    structure_: Structure
    n_iter_: int
    diagnostics_: tuple[ComponentDiagnostics, ...]
    reproducibility_: tuple[Reproducibility, ...] | None
    n_features_in_: int


class ComponentsMixin:
    """Methods of every estimator with components."""

    verbose: int = 0

    def _model(self) -> Any:
        """Return the estimator that has the fitted attributes as arrays."""
        return getattr(self, "best_estimator_", self)

    def _stability_inputs(self, X: Any, options: dict[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Return the fitted SPCATV, its data matrix, and options of `spcatv.stability.split_halves`."""
        return self, X, options

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the scores, as in every table: ``component_1``, ``component_2``, ...

        Parameters
        ----------
        input_features : None
            Ignored: the names of the features do not matter.

        Returns
        -------
        ndarray of str objects of shape (n_components,)
            One name per component, also of the columns after ``set_output(transform="pandas")``.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> SPCATV(2).fit([[1.0, 2.0, 0.0], [3.0, 5.0, 1.0], [2.0, 1.0, 7.0]]).get_feature_names_out()
        array(['component_1', 'component_2'], dtype=object)
        """
        check_is_fitted(self)
        return np.asarray(component_names(len(self._model().components_)), dtype=object)

    def check_stability(
        self, X: Any, n_splits: int = 10, *, random_state: Any = 0, n_jobs: int | None = None, **options: Any
    ) -> Self:
        """Check which components random halves of the samples confirm, and keep the verdicts.

        They are kept as ``reproducibility_`` until the next fit, also by ``save``, and shown by `repr`,
        `summary` and `generate_report` (docs/stable.md).

        Parameters
        ----------
        X : array-like or images
            Data that the model was fitted to.
        n_splits : int, default=10
            Splits into random halves; each costs two fits of half of the samples.
        random_state : int, RandomState instance or None, default=0
            For the splits.
        n_jobs : int or None, default=None
            Workers, as in joblib.
        **options
            As for `spcatv.stability.split_halves`: ``groups`` of samples that stay in one half,
            ``confounds``, or ``checkpoint``. Images also have ``exclude``. By default, images of one person
            stay together, and samples of a DataArray with dates in one year, if there are six years.

        Returns
        -------
        self
            With `reproducibility_`, one `spcatv.stability.Reproducibility` per component.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv import SPCATV
        >>> X = np.random.default_rng(0).standard_normal((30, 100))
        >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
        >>> SPCATV(1, structure=(100,), sparsity=0.8).fit(X).check_stability(X, n_splits=4)
        SPCATV(n_components=1, sparsity=0.8, structure=(100,))
        Component 1: pattern confirmed (4 of 4 splits), outline certain.
        """
        from spcatv.stability import split_halves  # imported here: it stands on this module

        check_is_fitted(self)
        with printing(type(self).__name__, self.verbose, 1):
            estimator, matrix, own = self._stability_inputs(X, options)
            halves = split_halves(
                estimator, matrix, n_splits=n_splits, random_state=random_state, n_jobs=n_jobs, **own
            )
        for kept in (estimator, self._model()):
            kept.reproducibility_ = halves.reproducibility
        return self

    def summary(self) -> DataFrame:
        """Return a table with one row per component; needs pandas.

        Returns
        -------
        DataFrame
            Columns: the share of the variance that the component explains, the share of its loadings that
            are exactly zero, its connected regions (missing if features have no neighbours), its relative
            duality gap, and the verdicts of `check_stability` on its pattern and outline.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.datasets import make_dots
        >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
        >>> model = SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)
        >>> list(model.summary().columns)
        ['variance', 'zeros', 'regions', 'relative_gap', 'pattern', 'outline']
        """
        check_is_fitted(self)
        try:
            from pandas import DataFrame, Index
        except ImportError as error:
            raise ImportError("summary() returns a pandas DataFrame: pip install pandas") from error
        rows = _rows(self._model())
        index = Index(range(1, len(rows) + 1), name="component")
        return DataFrame(rows, index=index).astype({"regions": "Int64", "relative_gap": float})

    def plot_components(self, **options: Any) -> Figure:
        """Draw the maps of the components; needs the extra "report".

        Parameters
        ----------
        **options
            As for `spcatv.report.plot_components`: ``components`` or ``background``.

        Returns
        -------
        matplotlib Figure
            Save it with ``figure.savefig("components.png")``.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.datasets import make_dots
        >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
        >>> model = SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)
        >>> model.plot_components().savefig("components.png")
        """
        from spcatv.report import plot_components  # the extra is imported only when it is needed

        check_is_fitted(self)
        return plot_components(self._model(), **options)

    def generate_report(self, **options: Any) -> Report:
        """Make a page about the fitted model that a browser shows without any network.

        Needs the extra "report".

        Parameters
        ----------
        **options
            As for `spcatv.report.generate_report`, such as ``title`` or ``data``.

        Returns
        -------
        Report
            With ``save_as_html(path)`` and ``open_in_browser()``.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.datasets import make_dots
        >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
        >>> model = SPCATV(2, structure=dots.shape, sparsity=0.8).fit(dots.X)
        >>> report = model.generate_report(title="Dots", data=dots.X)
        >>> report.save_as_html("dots.html").name
        'dots.html'
        """
        from spcatv.report import generate_report

        return generate_report(self, **options)

    def explore(self, X: Any, **options: Any) -> Report:
        """Fit a grid of sparsity and smoothness, and show all settings on one page with sliders.

        Needs the extra "report". The model need not be fitted, and is not changed.

        Parameters
        ----------
        X : array-like or images
            Data, as for `fit`.
        **options
            As for `spcatv.report.explore`, such as ``sparsity``, ``smoothness`` or ``n_jobs``.

        Returns
        -------
        Report
            With ``save_as_html(path)`` and ``open_in_browser()``.

        Examples
        --------
        >>> from spcatv import SPCATV
        >>> from spcatv.datasets import make_dots
        >>> dots = make_dots(n_samples=40, size=14, snr=2.0, random_state=0)
        >>> page = SPCATV(2, structure=dots.shape).explore(dots.X, sparsity=[0.7, 0.9], smoothness=[1.0])
        >>> page.save_as_html("explorer.html").name
        'explorer.html'
        """
        from spcatv.report import explore

        return explore(self, X, **options)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """Return the parameters, and the verdicts if the stability was checked."""
        text = super().__repr__(N_CHAR_MAX)  # type: ignore[call-arg]  # of BaseEstimator
        records = self._model().reproducibility_ if hasattr(self, "components_") else None
        return "\n".join([text, *verdict_lines(records or ())])

    def _html_repr(self) -> str:
        """Return scikit-learn's box of parameters, and below it a table with a thumbnail per component."""
        box = str(estimator_html_repr(self))
        return box + _html_table(self._model()) if hasattr(self, "components_") else box


def _rows(model: Any) -> list[dict[str, Any]]:
    """Return the figures and verdicts of every component of a fitted model."""
    structure, checked = model.structure_, model.reproducibility_
    rows = []
    for k, record in enumerate(model.diagnostics_):
        verdicts = ("not checked", "") if checked is None else (checked[k].verdict, checked[k].outline)
        pattern, outline = ("empty", "") if record.is_empty else verdicts
        regions = len(connected_regions(structure, model.components_[k])) if structure.n_rows else None
        gap = None if record.is_empty else record.relative_gap
        share = float(model.explained_variance_ratio_[k])
        values = (share, float(record.sparsity), regions, gap, pattern, outline)
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _html_table(model: Any) -> str:
    """Return a table with one row per component, with thumbnails if matplotlib is there."""
    try:
        from spcatv.report import thumbnails

        uris = thumbnails(model)
        picture = '<img src="{}" alt="Map of component {}" style="width: 12em">'
        pictures = [picture.format(uri, k) for k, uri in enumerate(uris, start=1)]
    except ImportError:
        pictures = [""] * len(model.diagnostics_)
    lines = []
    for k, (row, picture) in enumerate(zip(_rows(model), pictures, strict=True), start=1):
        cells = ("" if row[name] is None else text.format(row[name]) for name, text in COLUMNS.items())
        lines.append("".join(f"<td>{cell}</td>" for cell in (k, picture, *cells)))
    names = (name.replace("_", " ").capitalize() for name in ("component", "map", *COLUMNS))
    head = "".join(f"<th>{name}</th>" for name in names)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    style = "border-collapse: separate; border-spacing: 1em 0.2em"
    table = f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="overflow-x: auto">{table}</div>'
