"""The methods of the paper behind one small interface: ``method.fit(X, structure) -> Fitted``.

A method knows its name, its setting and how to fit; what it returns knows its loadings and how to
reconstruct rows. The same code judges all methods by these two, never by their own scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

N_COMPONENTS = 3
# Relative gap of the many fits that select the weights; the final fit uses SPCATV's own tolerance.
SELECTION_TOL = 1e-4


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a method has found.

    Attributes
    ----------
    components : ndarray of shape (K, P)
        Loadings of unit norm; zeros where there is none.
    reconstruct : callable
        Maps rows (n, P) to their reconstructions (n, P).
    chosen : dict
        The weights, if the method has chosen them itself.
    notes : dict
        What else is known of the fit, one value per component.
    """

    components: np.ndarray
    reconstruct: Callable[[np.ndarray], np.ndarray]
    chosen: dict[str, float] = field(default_factory=dict)
    notes: dict[str, list[Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Method:
    """A method with its setting.

    Attributes
    ----------
    key : str
        Name in file names and on the command line.
    label : str
        Name in tables and figures.
    setting : mapping
        Parameters; a stored result is valid for these only.
    function : callable
        ``function(X, structure, setting)`` returns a `Fitted`.
    """

    key: str
    label: str
    setting: Mapping[str, Any]
    function: Callable[[np.ndarray, Any, Mapping[str, Any]], Fitted]

    def fit(self, X: np.ndarray, structure: Any) -> Fitted:
        """Fit the rows of X; the structure is anything that `spcatv.SPCATV` takes."""
        return self.function(X, structure, self.setting)


def fit_spcatv(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """This package; with ``tv_ratio=0`` or ``smoothness=0`` it is elastic-net PCA."""
    from spcatv import SPCATV

    model = SPCATV(**{"n_components": N_COMPONENTS, **setting}, structure=structure)
    with warnings.catch_warnings(action="ignore"):  # components that are zero show in the scores
        model.fit(X)
    return of_spcatv(model)


def fit_selected(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """This package with the weights that `SPCATVCV` chooses on the rows of X, and structured starts.

    The many fits of the selection start from singular vectors; only the final fit compares starts. What
    `SPCATVCV` alone is told is the entry ``search`` of the setting.
    """
    from spcatv import SPCATV
    from spcatv.selection import SPCATVCV

    own = dict(setting)
    search = SPCATVCV(N_COMPONENTS, structure=structure, tol=SELECTION_TOL, **own.pop("search"), **own)
    with warnings.catch_warnings(action="ignore"):
        search.fit(X)
        chosen = dict(search.best_params_)
        final = {"alpha": None, "init": "structured"} | chosen | own
        model = SPCATV(N_COMPONENTS, structure=structure, **final).fit(X)
    return of_spcatv(model, {name: float(value) for name, value in chosen.items()})


def of_spcatv(model: Any, chosen: dict[str, float] | None = None) -> Fitted:
    """A fitted SPCATV as a `Fitted`."""
    return Fitted(
        components=np.asarray(model.components_),
        reconstruct=lambda rows: model.inverse_transform(model.transform(rows)),
        chosen=chosen or {},
        notes={
            name: [getattr(record, name, None) for record in model.diagnostics_]
            for name in ("relative_gap", "jump", "smoothness")
        },
    )


def fit_sparse_pca(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """scikit-learn's SparsePCA, or MiniBatchSparsePCA, which knows no structure.

    ``mini_batch`` and ``center`` are options of this function, the others those of scikit-learn. Rows are
    reconstructed by least squares on the loadings, after subtraction of the training mean if `center`.
    """
    from sklearn.decomposition import MiniBatchSparsePCA, SparsePCA

    own = dict(setting)
    center = own.pop("center")
    kind = MiniBatchSparsePCA if own.pop("mini_batch") else SparsePCA
    model = kind(N_COMPONENTS, random_state=0, **own)
    with warnings.catch_warnings(action="ignore"):  # its defaults decide when it stops
        model.fit(X)
    mean = X.mean(axis=0, dtype=np.float64) if center else np.zeros(X.shape[1])
    return of_loadings(model.components_, mean)


def of_loadings(components: np.ndarray, mean: np.ndarray) -> Fitted:
    """Loadings of any length as a `Fitted`: rows minus `mean` are reconstructed by least squares."""
    loadings = np.asarray(components, dtype=np.float64)
    lengths = np.linalg.norm(loadings, axis=1, keepdims=True)
    loadings = loadings / np.where(lengths > 0, lengths, 1.0)
    inverse = np.linalg.pinv(loadings)
    return Fitted(loadings, lambda rows: ((rows - mean) @ inverse) @ loadings + mean)


# The authors' setting: half of alpha to total variation, the rest in equal parts to l1 and l2.
AUTHORS: dict[str, Any] = {
    "alpha": 0.01,
    "l1_ratio": 0.25,
    "tv_ratio": 0.5,
    "penalty_units": "absolute",
    # columns are standardised over all rows: centring the training rows again would only add noise
    "center": False,
}

SPARSE: dict[str, Any] = {"alpha": None, "sparsity": 0.9, "smoothness": 1.0, "center": False}

SIMULATION_METHODS: tuple[Method, ...] = (
    Method(
        "sparse-pca",
        "Sparse PCA",
        {"alpha": 1.0, "method": "cd", "center": False, "mini_batch": False},
        fit_sparse_pca,
    ),
    Method("elastic-net", "ElasticNet PCA", {**AUTHORS, "l1_ratio": 0.5, "tv_ratio": 0.0}, fit_spcatv),
    Method("graphnet", "GraphNet PCA", {**AUTHORS, "penalty": "graphnet"}, fit_spcatv),
    Method("spca-tv-authors", "SPCA-TV, authors' setting", AUTHORS, fit_spcatv),
    Method(
        "spca-tv-starts",
        "SPCA-TV, authors' setting, structured starts",
        {**AUTHORS, "init": "structured"},
        fit_spcatv,
    ),
    Method("spca-tv-sparse", "SPCA-TV, 90 % zeros", {**SPARSE, "method": "deflation"}, fit_spcatv),
    Method("spca-tv-joint", "SPCA-TV, 90 % zeros, joint", {**SPARSE, "method": "joint"}, fit_spcatv),
    Method(
        "spca-tv-selected",
        "SPCA-TV, alpha and ratios as selected",
        {"center": False, "search": {"alpha": "grid", "rule": "paper"}},
        fit_selected,
    ),
    Method(
        "spca-tv-sparse-selected",
        "SPCA-TV, sparsity and smoothness as selected",
        {"center": False, "method": "deflation", "search": {}},
        fit_selected,
    ),
    Method(
        "spca-tv-joint-selected",
        "SPCA-TV, sparsity and smoothness as selected, joint",
        {"center": False, "method": "joint", "search": {}},
        fit_selected,
    ),
)
