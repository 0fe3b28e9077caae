"""Number of components that stand out of noise as smooth as the data (docs/method.md section 6.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import checked_adjustment, on_device
from spcatv.data.diffusion import diffused_gram
from spcatv.data.outliers import outweighing
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data
from spcatv.selection.path import checked_template

# Largest variance of an independent feature of a smooth Gaussian field in three dimensions, as a multiple of
# the mean: ``2 ** 1.5``.
LARGEST_VARIANCE = 2.83
# A component stands out if its share of the remaining variance is this multiple of that of such noise.
OUTSTANDING = 1.15
# Time of the diffusion, in units of ``1 / ||A||^2``: a Gaussian of about one pixel or voxel.
LIGHT_DIFFUSION_TIME = 5.0
# Most samples to use, evenly spaced, and most components to count by default.
MOST_SAMPLES, MOST_COMPONENTS = 300, 10


@dataclass(frozen=True, eq=False)
class ComponentCount:
    """Components that stand out of noise.

    Attributes
    ----------
    share : ndarray of shape (max_components,)
        Variance of every principal component of the lightly smoothed samples, as a share of the variance that
        the components before it leave.
    limit : ndarray of shape (max_components,)
        Share that noise as smooth as these data reaches by chance; NaN if one sample makes most of the
        component, which then does not count.
    n_independent : ndarray of shape (max_components,)
        Effective number of independent features of what the components before leave.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.selection import ComponentCount
    >>> count = ComponentCount(
    ...     share=np.array([0.5, 0.3, 0.06]), limit=np.full(3, 0.1), n_independent=np.full(3, 80.0)
    ... )
    >>> count.n_outstanding, count.n_components
    (2, 2)
    >>> count.reason
    'The first 2 components stand out: component 3 has 6.0% of the remaining variance, and noise as smooth \
as these data reaches 10.0%.'
    """

    share: FloatArray
    limit: FloatArray
    n_independent: FloatArray

    @property
    def n_outstanding(self) -> int:
        """Number of the last component that stands out, 0 in noise: those before it have more variance."""
        return int(np.max(np.flatnonzero(self.share > self.limit) + 1, initial=0))

    @property
    def n_components(self) -> int:
        """Number of components to keep, at least 1."""
        return max(1, self.n_outstanding)

    @property
    def reason(self) -> str:
        """The choice in words."""
        found = self.n_outstanding
        which = "The first component stands" if found == 1 else f"The first {found} components stand"
        if found == len(self.share):
            return f"{which} out. There may be more: look at a larger number."
        share, limit = self.share[found], self.limit[found]
        noise = f"noise as smooth as these data reaches {limit:.1%}"
        why = "one sample makes most of it" if np.isnan(limit) else noise
        compared = f"component {found + 1} has {share:.1%} of the remaining variance, and {why}"
        if found == 0:
            return f"No component stands out: {compared}. One is kept; trust it only if halves confirm it."
        return f"{which} out: {compared}."


def count_components(
    estimator: SPCATV,
    X: Any,
    *,
    max_components: int | None = None,
    standardize: bool = False,
    confounds: Any = None,
) -> ComponentCount:
    """Count the components that stand out of noise.

    A component stands out if its share of the variance that the components before leave is larger than noise
    as smooth as these data reaches by chance (docs/method.md section 6.5). X is diffused on the structure by
    about one pixel for this.

    Parameters
    ----------
    estimator : SPCATV
        The structure, and how samples are centred; it is not changed.
    X : array-like of shape (n_samples, n_features)
        Data. At most 300 samples, evenly spaced, are used.
    max_components : int, default=None
        Most components to count: by default 10, or a third of the samples if that is less.
    standardize, confounds
        As in `SPCATVCV`.

    Returns
    -------
    ComponentCount
        Shares, limits, the number to keep and the reason.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.selection import count_components
    >>> rng = np.random.default_rng(0)
    >>> X = 0.3 * rng.standard_normal((40, 60))
    >>> X[:, 10:20] += rng.standard_normal((40, 1))
    >>> X[:, 35:50] += rng.standard_normal((40, 1))
    >>> count_components(SPCATV(structure=(60,)), X).n_components
    2
    """
    template, data, structure = checked_template(clone(estimator).set_params(n_components=1), X)
    n_samples = data.shape[0]
    chosen = np.linspace(0, n_samples - 1, min(n_samples, MOST_SAMPLES)).round().astype(int)
    most = max(1, min(max_components or MOST_COMPONENTS, len(chosen) // 3, data.shape[1]))
    with one_blas_thread():
        on = on_device(data, template.device, most)
        (adjusted,) = checked_adjustment(standardize, confounds, n_samples).adjusted(on, chosen)
        gram = diffused_gram(centred_data(template, adjusted), structure, LIGHT_DIFFUSION_TIME)
        return _compare_with_noise(gram, most)


def _compare_with_noise(gram: FloatArray, most: int) -> ComponentCount:
    """Compare the `most` leading eigenvalues of a Gram matrix (N, N) with those of noise."""
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    left = np.cumsum(values[::-1])[::-1]
    independent = _independent_features(values, vectors, most)
    share = np.divide(values[:most], left[:most], out=np.zeros(most), where=left[:most] > 0)
    n_left = len(gram) - 1 - np.arange(most)
    crowding = independent / n_left
    largest = (LARGEST_VARIANCE + 2 * np.sqrt(crowding) + crowding) / independent
    # upper bound: the squares of all shares of noise add up to 1 / D, and sampling adds 1 / (N - k)
    limit = OUTSTANDING * np.minimum(largest, np.sqrt(1 / independent + 1 / n_left))
    limit[[outweighing(vectors[:, k]) is not None for k in range(most)]] = np.nan
    return ComponentCount(share, limit, independent)


def _independent_features(values: FloatArray, vectors: FloatArray, most: int) -> FloatArray:
    """Return the effective numbers of independent features of what 0, 1, ..., most - 1 components leave.

    Of N independent samples with the covariance C, ``(mean_i g_ii)^2 / mean_{i != j} g_ij^2`` estimates
    ``tr(C)^2 / tr(C^2)`` without bias from N, for the Gram matrix g with these eigenvalues and eigenvectors.
    """
    n_samples = len(values)

    def tails(terms: FloatArray) -> FloatArray:
        """Return sums over all components but the first 0, 1, ..., most."""
        return np.cumsum(terms[..., ::-1], axis=-1)[..., ::-1][..., : most + 1]

    diagonals = tails(np.square(vectors) * values)
    products = tails(np.square(values)) - np.square(diagonals).sum(axis=0)
    squares = np.square(tails(values)) * (1 - 1 / n_samples)
    numbers = np.divide(squares, products, out=np.ones(most + 1), where=products > 0)
    # a strong component lowers the number; take the largest one of this and all later components
    return np.maximum.accumulate(np.maximum(numbers, 1.0)[::-1])[::-1][:most]
