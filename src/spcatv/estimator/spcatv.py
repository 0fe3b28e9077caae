"""`SPCATV`, the scikit-learn estimator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from spcatv._util.devices import to_host
from spcatv._util.parameters import FitParameters, StructureParameter
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.decomposition import deflation_scores
from spcatv.estimator._fit import (
    centred_data,
    centring_attributes,
    centring_of,
    checked_data,
    fit_data,
    store_fit,
)
from spcatv.estimator._persistence import ModelFolderMixin, estimator_state, restore_estimator
from spcatv.estimator._validation import check_parameters
from spcatv.estimator._warnings import warn_about, warn_before_fit
from spcatv.estimator.components_mixin import ComponentsMixin, FittedAttributes
from spcatv.model import SavedModel
from spcatv.progress import current_listener, printing
from spcatv.progress.callbacks import CallbackSupportMixin, fit_task, with_callbacks
from spcatv.structure import as_structure


# the fields are the parameters: scikit-learn reads the signature that they make
@dataclass(eq=False, repr=False)
class SPCATV(
    CallbackSupportMixin,
    ComponentsMixin,
    ModelFolderMixin,
    TransformerMixin,
    BaseEstimator,
    FitParameters,
    StructureParameter,
    FittedAttributes,
):
    """Sparse PCA whose components are a few coherent regions: l1 + l2 + total variation.

    Every component minimises (docs/method.md section 1.2) ::

        f(u, v) = -(1/N) u'Xv + l2 ||v||_2^2 + l1 ||v||_1 + tv * sum_g ||A_g v||_2,   ||u|| <= 1

    where A takes differences between neighbours. By default all components are fitted at once, and their
    scores u are uncorrelated (section 8). Every loading vector comes with a certificate: an upper bound on
    its distance to the best one for its scores.

    There are two ways to set the weights. By default `sparsity` and `smoothness` state how sparse and how
    smooth the components should be, and each component gets the weights that make it so (section 7). If
    `alpha` is given, all weights are fixed in advance (`alpha`, `l1_ratio`, `tv_ratio`): the penalised model
    of the paper, with the paper's algorithm, which finds one component after the other.

    Parameters
    ----------
    n_components : int, default=3
        Number of components K.
    structure : Structure, shape, mask, (coords, triangles), sparse matrix, callable or None, default=None
        What "neighbour" means; anything that `spcatv.structure.as_structure` takes. ``None``: no
        structured penalty (elastic-net PCA).
    sparsity : float or sequence of float of length n_components, default=0.7
        Share of the loadings that are exactly zero, at least 0 and below 1: one number for all components, or
        one per component. Where a region enters or leaves a loading as a whole, the closest share is taken.
    smoothness : float, default=1.0
        Weight of the structured penalty in units of each component's own contrast, the standard deviation of
        the entries of its map ``X'u / N`` (a quadratic penalty such as "graphnet" has no unit). 0 is
        elastic-net PCA; larger values give fewer and larger regions.
    alpha : float, sequence of float of length n_components, or None, default=None
        ``None``: components of the wanted `sparsity` and `smoothness`. A number > 0, or one per component:
        the strength of all penalties together in the penalised model; `sparsity` and `smoothness` must
        then keep their defaults.
    l1_ratio : float, default=0.25
        With `alpha`: its share that goes to the l1 norm.
    tv_ratio : float, default=0.5
        With `alpha`: its share that goes to the structured penalty. What is left,
        ``1 - l1_ratio - tv_ratio > 0``, goes to the l2 norm.
    penalty_units : {"relative", "absolute"}, default="relative"
        With `alpha`. "relative": alpha counts in units of ``max_j ||X_j||_2 / N`` over the centred features,
        the value at which the l1 norm alone empties all components, so that one setting means the same on any
        data. On standardised features the relative l1 weight, ``alpha * l1_ratio``, is a correlation: without
        a structured penalty, exactly the features whose correlation with the scores exceeds it in magnitude
        are not zero. "absolute": alpha is the weight in the objective.
    penalty : {"tv", "graphnet"} or StructuredPenalty, default="tv"
        Structured penalty ``sum_g ||A_g v||_2`` or ``||A v||_2^2``, or an object such as
        `spcatv.problem.HuberTV`.
    positive : bool, default=False
        Whether loadings are kept non-negative.
    center : bool, default=True
        Whether the means of the features are subtracted (implicitly: X is not copied).
    global_signal : {None, "regress"}, default=None
        "regress" takes out the mean over features of every sample: each centred column is replaced by its
        residual of a regression on that mean (docs/method.md section 1.4). The coefficients are those of the
        training samples; new samples are treated in the same way. X is not copied.
    tol : float, default=1e-6
        Duality gap to reach, relative to the scale of each loading problem.
    max_iter : int, default=500
        Most alternations of scores and loadings per component; with many samples, between two passes that
        widen the sketch of X (docs/method.md section 4.4).
    solver : {"auto", "pdhg", "dual", "conesta", "fista"} or callable, default="auto"
        Loading solver, see `spcatv.solvers.solve`.
    n_init : int, default=1
        Starts compared for every component; the lowest penalised objective wins.
    method : {"auto", "joint", "deflation"}, default="auto"
        "joint": all components at once, with uncorrelated scores (docs/method.md section 8). "deflation": one
        after the other, as in the paper. "auto": joint, unless `alpha` is given.
    refit : {None, "support"}, default=None
        With a deflation. "support": unshrunk loadings. On the support of each penalised loading, the loading
        that explains most of the variance that the components before it leave (docs/method.md section 5.5).
        Certificates, objectives and weights are those of the penalised loadings.
    transform_method : {"auto", "projection"}, default="auto"
        "auto": the scores of the fit: uncorrelated for the training samples of a joint fit, of successive
        deflation otherwise. "projection": least squares on all loadings at once.
    init : {"auto", "svd", "structured", "random"}, or array of shape (n_components, n_features) or \
(n_samples, n_components), default="auto"
        Starting point. A joint fit starts from the leading singular vectors of X diffused on the structure
        ("auto", "structured") or of X itself ("svd"), rotated by varimax. A deflation starts from the leading
        singular vectors of X ("auto", "svd"); "structured" also tries the leading singular vectors of X
        diffused on the structure, and the means of X around its most coherent places. Both may start from
        random scores, from given loadings such as ``components_`` of another fit, or from given scores.
    dtype : {None, "float32", "float64"}, default=None
        Precision of the fit; ``None`` keeps X's own.
    memory_limit : int, str or None, default=None
        Bytes, or text such as "2 GB", that the blocks of X and the vectors of a fit may take together, in
        each process. It sets the sizes of blocks of an X that is read block by block, and is an error if it
        is too small for one of them. An X that is an array in memory is not counted.
    device : {"cpu", "cuda"}, default="cpu"
        Where the fit runs. "cuda": on an NVIDIA GPU, with CuPy (docs/gpu.md). X is copied there, unless it
        is there already; one that is larger than the GPU's memory travels there block by block.
    random_state : int, RandomState instance or None, default=None
        For random starts; nothing else is random.
    verbose : int, default=0
        1: one line per component, 2: also one line per alternation.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        Unit loading vectors, the entry of largest magnitude positive; all zeros where the data have no
        variance left, or where the penalised model has no other solution. The components of a joint fit are
        ordered by explained variance, unless `sparsity` has one value per component.
    patterns_ : ndarray of shape (n_components, n_features)
        What varies with each score: the change of every feature when the score rises by one standard
        deviation, ``X'u / sqrt(N - 1)``. Patterns are dense; loadings tell which features make the score.
    mixing_ : ndarray of shape (n_components, n_components) or None
        Matrix C of the scores ``X V' C`` of a joint fit; None for a deflation.
    mean_ : ndarray of shape (n_features,)
        Means of the features (zeros if not centred).
    global_loading_ : ndarray of shape (n_features,) or None
        Coefficients of the features on the global signal, mean 1; None unless `global_signal` takes it out.
    singular_values_ : ndarray of shape (n_components,)
        Norms of the scores of the training samples.
    explained_variance_ : ndarray of shape (n_components,)
        Variance that each score explains in a joint fit, or that each component removes from the data in a
        deflation: ``singular_values_**2 / (N - 1)``. The sum is at most that of PCA. In float64, because
        float32 has no room for squares of large numbers.
    explained_variance_ratio_ : ndarray of shape (n_components,)
        The same as a share of the total variance, without that of a global signal that was taken out.
    l1_, l2_, tv_ : float, or ndarray of shape (n_components,)
        Absolute weights used; numbers if `alpha` is one, else one per component.
    structure_ : Structure
        The structure used.
    n_iter_ : int
        Alternations of the component that took most.
    diagnostics_ : tuple of ComponentDiagnostics
        One record per component: objective, certificate, iterations, seconds, sparsity.
    reproducibility_ : tuple of spcatv.stability.Reproducibility, or None
        Verdicts of `check_stability` on every component; None before it.
    n_features_in_ : int
        Number of features of X.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X has names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> X = np.random.default_rng(0).standard_normal((30, 100))
    >>> X[:, 20:40] += 3 * np.random.default_rng(1).standard_normal((30, 1))
    >>> model = SPCATV(n_components=1, structure=(100,), sparsity=0.8).fit(X)
    >>> np.flatnonzero(model.components_[0])[[0, -1]]
    array([20, 39])
    >>> scores = model.transform(X)
    >>> scores.shape, model.inverse_transform(scores).shape, model.score(X) < 0
    ((30, 1), (30, 100), True)
    >>> bool((model.inverse_transform([[0.0]]) == model.mean_).all())
    True
    >>> folder = model.save("model")
    >>> sorted(file.name for file in folder.iterdir())
    ['arrays.npz', 'model.json']
    >>> bool((SPCATV.load(folder).transform(X) == scores).all())
    True
    """

    _kind = "SPCATV"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    if TYPE_CHECKING:  # scikit-learn has no types

        def fit_transform(self, X: Any, y: Any = None) -> FloatArray:
            """Fit X and return its scores."""

    @with_callbacks
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the components of X.

        Parameters
        ----------
        X : array-like, Dask array, array in a file or on a GPU, or Data, of shape (n_samples, n_features)
            Training data, at least two samples; float32 and float64 in C order are used without a copy.
            Memory maps, HDF5 datasets and Zarr arrays are read block by block. The workers that hold the
            blocks of a Dask array do the products with them (docs/large-data.md).
        y : None
            Ignored.

        Returns
        -------
        self : SPCATV
            Fitted.
        """
        check_parameters(self)
        with printing("SPCATV", int(self.verbose)):
            return self._fit(X)

    def _fit(self, X: Any) -> Self:
        data = checked_data(self, X, reset=True, min_samples=2)
        structure = as_structure(self.structure, n_features=data.shape[1])
        centred = centred_data(self, data)
        warn_before_fit(self, data, structure)

        def attributes(components: FloatArray, mixing: FloatArray | None) -> dict[str, Any]:
            return {
                "components_": to_host(components).astype(data.dtype),
                "mixing_": mixing,
                **centring_attributes(centred),
                "n_features_in_": data.shape[1],
            }

        with one_blas_thread(), fit_task(self, X, attributes):
            rng = check_random_state(self.random_state)
            found = fit_data(self, centred, structure, rng=rng, listener=current_listener())
            store_fit(self, centred, structure, found)
            warn_about(self)
        return self

    def transform(self, X: Any) -> FloatArray:
        """Return the scores of the samples of X; the scores of one sample do not depend on other samples.

        Parameters
        ----------
        X : array-like, Dask array, array in a file, or Data, of shape (n_samples, n_features)
            Data.

        Returns
        -------
        ndarray of shape (n_samples, n_components)
            Scores.
        """
        check_is_fitted(self)
        check_parameters(self)
        data = checked_data(self, X, reset=False)
        components = self.components_.astype(np.float64)
        centring = centring_of(self)
        products, _ = data.each_block(lambda _, block: (centring.apply(block) @ components.T, None))
        if self.transform_method == "projection":
            scores = np.linalg.lstsq(components @ components.T, products.T, rcond=None)[0].T
        elif self.mixing_ is not None:
            scores = products @ self.mixing_
        else:
            scores = deflation_scores(products, components)
        if not np.abs(scores).max(initial=0.0) <= np.finfo(data.dtype).max:
            raise ValueError(
                f"scores of up to {np.abs(scores).max():.3g} are beyond {data.dtype}; give X as float64, or "
                "divide it by a constant before the fit"
            )
        return np.asarray(scores.astype(data.dtype))

    def inverse_transform(self, X: Any) -> FloatArray:
        """Return samples with the given scores, ``T D V + mean``, without a global signal that was taken out.

        For a joint fit, D makes the result the projection of a sample onto the loadings; otherwise it is the
        identity.

        Parameters
        ----------
        X : array-like or Dask array of shape (n_samples, n_components)
            Scores T.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            A Dask array of the same chunks of samples if the scores are one: it is computed where it is used.
        """
        check_is_fitted(self)
        is_dask = hasattr(X, "__dask_graph__")
        scores: Any = X if is_dask else np.asarray(X)
        if scores.ndim != 2 or scores.shape[1] != len(self.components_):
            raise ValueError(
                f"scores must have shape (n_samples, {len(self.components_)}), one column per component; got "
                f"{scores.shape}"
            )
        if scores.dtype.kind not in "fiub":
            raise ValueError(f"scores must be real numbers, got an array of {scores.dtype}")
        if not is_dask and not np.isfinite(scores).all():
            raise ValueError("scores must be finite; some are NaN or infinite")
        if is_dask:
            scores = scores.rechunk({1: -1})
            chunks = scores.chunks[0], self.mean_.shape
            meta = np.empty((0, 0), np.result_type(scores.dtype, self.components_.dtype))
            return scores.map_blocks(np.matmul, self._decoder(), chunks=chunks, meta=meta) + self.mean_
        return np.asarray(scores @ self._decoder() + self.mean_)

    def _decoder(self) -> FloatArray:
        """Return the rows ``D V`` (K, P) that samples are composed of, weighted by their scores."""
        components = self.components_
        if self.mixing_ is None or self.transform_method == "projection":
            return components
        wide = components.astype(np.float64)
        return np.asarray(np.linalg.pinv(wide @ wide.T @ self.mixing_) @ wide).astype(components.dtype)

    def score(self, X: Any, y: Any = None) -> float:
        """Return minus the mean over the samples of X of the squared reconstruction error.

        Parameters
        ----------
        X : array-like, Dask array, array in a file, or Data, of shape (n_samples, n_features)
            Data.
        y : None
            Ignored.

        Returns
        -------
        float
            ``-(1/n) ||X - inverse_transform(transform(X))||_F^2``: higher is better. With
            ``global_signal="regress"`` X are the samples without their global signal.
        """
        check_is_fitted(self)
        data = checked_data(self, X, reset=False)
        scores = np.asarray(self.transform(data), dtype=np.float64)  # `set_output` may ask for a DataFrame
        centring, rows = centring_of(self), self._decoder().astype(np.float64)

        def squared_error(samples: Any, block: FloatArray) -> tuple[None, float]:
            return None, float(np.square(centring.apply(block) - scores[samples] @ rows).sum())

        _, total = data.each_block(squared_error)
        return -float(total) / data.shape[0]

    def _saved(self, inputs: Mapping[str, Any]) -> SavedModel:
        return estimator_state(self, inputs)

    @classmethod
    def _restored(cls, saved: SavedModel) -> Self:
        return restore_estimator(cls, saved)
