"""Methods of the paper and of the comparisons behind one interface: ``method.fit(X, structure) -> Fitted``.

A method has a name, a setting and a function; a `Fitted` has loadings and reconstructs rows. The same code
judges all methods by these two, never by their own scores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from spcatv.data.diffusion import diffuse, step_matrix
from spcatv.decomposition.starts import varimax
from spcatv.structure import Structure

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
    """Fit this package; with ``tv_ratio=0`` or ``smoothness=0`` it is elastic-net PCA."""
    from spcatv import SPCATV

    model = SPCATV(**{"n_components": N_COMPONENTS, **setting}, structure=structure)
    with warnings.catch_warnings(action="ignore"):  # components that are zero show in the scores
        model.fit(X)
    return of_spcatv(model)


def fit_selected(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """Fit with the weights that `SPCATVCV` chooses on the rows of X, and structured starts.

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
    """Convert a fitted SPCATV."""
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
    """Convert loadings of any length: rows minus `mean` are reconstructed by least squares."""
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


# How close the share of zeros must come to the target, and how many fits this may take.
ZEROS_TOL = 0.01
MOST_FITS = 14
# Factor from one strength to the next, until the target lies between two of them.
STRIDE = 3.0
# An interpolated strength is at least this far from both ends, on the scale of the logarithm.
SMALLEST_PART = 0.15
# Width of the image that a matrix is shown to nilearn as: NIfTI images have at most 32,767 voxels in a row.
WIDTH = 256
# The width of the Gaussian that stands for smoothing by hand, in voxels or edges of a mesh.
SIGMA = 2.0


def fit_dictionary(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """Nilearn's DictLearning: sparse maps over a dense dictionary of scores, started from CanICA."""
    from nilearn.decomposition import DictLearning

    return _fit_nilearn(DictLearning, X, {"reduction_ratio": 1.0, **setting})


def fit_canica(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """Nilearn's CanICA with dense maps: independent components of the space of the principal ones."""
    from nilearn.decomposition import CanICA

    return _fit_nilearn(CanICA, X, {"threshold": None, **setting})


def _fit_nilearn(kind: Any, X: np.ndarray, setting: Mapping[str, Any]) -> Fitted:
    """Fit images whose voxels are the columns of X; nothing is smoothed, so their order does not matter."""
    import nibabel

    n_rows, n_features = X.shape
    shape = (-(-n_features // WIDTH), WIDTH, 1)
    voxels = np.zeros((shape[0] * WIDTH, n_rows), dtype=np.float32)
    voxels[:n_features] = X.T
    inside = (np.arange(shape[0] * WIDTH) < n_features).astype(np.uint8)
    mask = nibabel.Nifti1Image(inside.reshape(shape), np.eye(4))
    images = nibabel.Nifti1Image(voxels.reshape(*shape, n_rows), np.eye(4))
    model = kind(
        n_components=N_COMPONENTS,
        mask=mask,
        smoothing_fwhm=None,
        standardize=False,
        detrend=False,
        random_state=0,
        **setting,
    )
    maps = np.zeros((N_COMPONENTS, n_features))
    with warnings.catch_warnings(action="ignore"):
        try:
            maps = model.fit(images).components_
        except ValueError as error:  # this is how DictLearning says that alpha leaves no map
            if "No component found" not in str(error):
                raise
    return of_loadings(maps, X.mean(axis=0, dtype=np.float64))


def fit_pca(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
    """Principal components: dense."""
    from sklearn.decomposition import PCA

    model = PCA(N_COMPONENTS, svd_solver="arpack", random_state=0, **setting).fit(X)
    return of_loadings(model.components_, X.mean(axis=0, dtype=np.float64))


def smoothed(X: np.ndarray, structure: Structure, sigma: float = SIGMA) -> np.ndarray:
    """Rows of X diffused on the graph of the structure; on a grid, by a Gaussian of width `sigma`."""
    norm = structure.norm_squared()
    if norm == 0:
        return X
    laplacian = structure.matrix.T @ structure.matrix
    # exp(-t L) of a grid with unit steps is a Gaussian of variance 2 t; edges of other lengths count as steps
    step = laplacian.diagonal().mean() / _mean_degree(laplacian)
    time_in_units = 0.5 * sigma**2 / step * norm
    return np.asarray(diffuse(step_matrix(structure), X.T, time_in_units).T)


def _mean_degree(laplacian: Any) -> float:
    """Neighbours of a feature, on average."""
    return laplacian.nnz / laplacian.shape[0] - 1


def fit_rotated(X: np.ndarray, structure: Structure, setting: Mapping[str, Any]) -> Fitted:
    """Principal components of the smoothed rows, rotated by varimax: dense."""
    smooth = smoothed(X, structure)
    smooth = smooth - smooth.mean(axis=0)
    _, vectors = np.linalg.eigh(smooth @ smooth.T)
    maps = vectors[:, ::-1][:, :N_COMPONENTS].T @ smooth
    return of_loadings(varimax(maps).T @ maps, X.mean(axis=0, dtype=np.float64))


def cut_to_zeros(fit: Callable[[np.ndarray, Any, Mapping[str, Any]], Fitted]):
    """Return a function that sets the share ``zeros`` of the smallest entries of each component to 0."""

    def function(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
        own = dict(setting)
        wanted = own.pop("zeros")
        dense = fit(X, structure, own).components
        order = np.argsort(np.abs(dense), axis=1, kind="stable")
        cut = dense.copy()
        np.put_along_axis(cut, order[:, : round(wanted * dense.shape[1])], 0.0, axis=1)
        return of_loadings(cut, X.mean(axis=0, dtype=np.float64))

    return function


def with_zeros(fit: Callable[[np.ndarray, Any, Mapping[str, Any]], Fitted]):
    """Return a function that chooses ``alpha`` for the share ``zeros`` in all components together.

    The search starts at ``near``, such as the alpha of other rows.
    """

    def function(X: np.ndarray, structure: Any, setting: Mapping[str, Any]) -> Fitted:
        own = dict(setting)
        wanted, first = own.pop("zeros"), own.pop("near", 1.0)
        fits: dict[float, Fitted] = {}

        def share_of_zeros(alpha: float) -> float:
            fits[alpha] = fit(X, structure, {**own, "alpha": alpha})
            return float((fits[alpha].components == 0).mean())

        alpha = alpha_for_zeros(share_of_zeros, first, wanted)
        return Fitted(
            fits[alpha].components, fits[alpha].reconstruct, {"alpha": alpha, "n_fits": float(len(fits))}
        )

    return function


def alpha_for_zeros(share_of_zeros: Callable[[float], float], first_alpha: float, wanted: float) -> float:
    """Return the strength whose share of zeros is closest to the target, among those tried.

    It is raised or lowered by a factor until the target lies between two strengths, then interpolated.
    """
    tried: dict[float, float] = {}
    alpha = first_alpha
    for _ in range(MOST_FITS):
        tried[alpha] = share_of_zeros(alpha)
        if abs(tried[alpha] - wanted) <= ZEROS_TOL:
            break
        low = max((a for a, share in tried.items() if share < wanted), default=None)
        high = min((a for a, share in tried.items() if share >= wanted), default=None)
        if low is None or high is None:
            alpha = STRIDE * low if low is not None else min(tried) / STRIDE
        else:
            part = (wanted - tried[low]) / (tried[high] - tried[low])
            alpha = float(low * (high / low) ** np.clip(part, SMALLEST_PART, 1 - SMALLEST_PART))
    return min(tried, key=lambda a: abs(tried[a] - wanted))


def spcatv_at(zeros: float, smoothness: float = 1.0, method: str = "deflation") -> Method:
    """Return SPCA-TV with the share `zeros` in every component; the study on real data is about deflation."""
    setting = {"alpha": None, "sparsity": zeros, "smoothness": smoothness, "method": method}
    return Method("spca-tv", "SPCA-TV", setting, fit_spcatv)


def rotated_at(zeros: float) -> Method:
    """Return the method without this package: smooth, rotate principal components, threshold."""
    label = "Smoothed, rotated PCA, thresholded"
    return Method("rotated-cut", label, {"zeros": zeros}, cut_to_zeros(fit_rotated))


def all_methods(zeros: float) -> tuple[Method, ...]:
    """Every method that can have a share of zeros; SPCA-TV comes last."""
    sparse_pca = {"zeros": zeros, "center": True, "mini_batch": True, "method": "cd"}
    elastic_net = spcatv_at(zeros, 0.0).setting
    return (
        Method("pca-cut", "Thresholded PCA", {"zeros": zeros}, cut_to_zeros(fit_pca)),
        rotated_at(zeros),
        Method("canica-cut", "Thresholded CanICA (nilearn)", {"zeros": zeros}, cut_to_zeros(fit_canica)),
        Method("sparse-pca", "Sparse PCA (mini-batch)", sparse_pca, with_zeros(fit_sparse_pca)),
        Method("dictionary", "DictLearning (nilearn)", {"zeros": zeros}, with_zeros(fit_dictionary)),
        Method("elastic-net", "ElasticNet PCA", elastic_net, fit_spcatv),
        spcatv_at(zeros),
    )
