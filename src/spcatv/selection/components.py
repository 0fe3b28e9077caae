"""Number of components: the leading variances of lightly smoothed samples beside those of noise as smooth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone

from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray
from spcatv.data import as_data, checked_adjustment, on_device
from spcatv.data.diffusion import diffused_gram
from spcatv.data.outliers import outweighing
from spcatv.estimator import SPCATV
from spcatv.estimator._fit import centred_data
from spcatv.selection.path import checked_template

# The largest variance of an independent feature of a smooth Gaussian field in three dimensions, ``2 ** 1.5``
# times the mean.
LARGEST_VARIANCE = 2.83
# A component stands out if its share of the remaining variance is this many times what such noise reaches.
OUTSTANDING = 1.15
# Time of the diffusion, in units of ``1 / ||A||^2``: a Gaussian of about one pixel or voxel.
LIGHT_DIFFUSION_TIME = 5.0
# Samples that are looked at, evenly spaced.
MOST_SAMPLES = 300
MOST_COMPONENTS = 10


@dataclass(frozen=True, eq=False)
class ComponentCount:
    """Components that stand out of noise (docs/method.md section 6.5).

    Attributes
    ----------
    share : ndarray of shape (max_components,)
        Variance of every principal component of the lightly smoothed samples, as a share of the variance that
        the components before it leave.
    limit : ndarray of shape (max_components,)
        Share that noise as smooth as these data reaches by chance; NaN for a component that does not count,
        because one sample makes most of it.
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
        """The choice in words.

        Examples
        --------
        >>> import numpy as np
        >>> from spcatv.selection import ComponentCount
        >>> ComponentCount(np.array([0.3, 0.04]), np.full(2, 0.1), np.full(2, 80.0)).reason
        'The first component stands out: component 2 has 4.0% of the remaining variance, and noise as smooth \
as these data reaches 10.0%.'
        """
        found, most = self.n_outstanding, len(self.share)
        if found == most:
            noun = "component stands" if most == 1 else f"{most} components stand"
            return f"All of the first {noun} out. There may be more: look at a larger number."
        compared = f"component {found + 1} has {self.share[found]:.1%} of the remaining variance, and " + (
            "one sample makes most of it"
            if np.isnan(self.limit[found])
            else f"noise as smooth as these data reaches {self.limit[found]:.1%}"
        )
        if found == 0:
            return f"No component stands out: {compared}. One is kept; trust it only if halves confirm it."
        which = "The first component stands" if found == 1 else f"The first {found} components stand"
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

    With the eigenvalues ``w_1 >= w_2 >= ...`` of ``X W X'``, X diffused on the structure by about one pixel,
    component k stands out if ``w_k / (w_k + w_{k+1} + ...) > 1.15 (2.83 + 2 sqrt(c) + c) / D`` with
    ``c = D / (N - k)``, or, where that is less, ``1.15 sqrt(1 / D + 1 / (N - k))``, and no sample makes most
    of its variance. D is the effective number of independent features of what the components before leave,
    ``(mean_i g_ii)^2 / mean_{i != j} g_ij^2`` for the Gram matrix g of this residual. The components before
    one that stands out have more variance, and count too.

    Parameters
    ----------
    estimator : SPCATV
        The structure, and how samples are centred; sparsity and smoothness do not matter. It is not changed.
    X : array-like of shape (n_samples, n_features)
        Data. At most 300 samples, evenly spaced, are looked at.
    max_components : int, default=None
        The largest number to look at: 10, or a third of the samples if these are fewer.
    standardize : bool, default=False
        Whether every feature is divided by its standard deviation.
    confounds : array-like of shape (n_samples, n_confounds), default=None
        Numbers that are regressed out of every feature.

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
        on = on_device(as_data(data), template.device, most)
        (adjusted,) = checked_adjustment(standardize, confounds, n_samples).adjusted(on, chosen)
        gram = diffused_gram(centred_data(template, adjusted), structure, LIGHT_DIFFUSION_TIME)
    return _compare_with_noise(gram, most)


def _compare_with_noise(gram: FloatArray, most: int) -> ComponentCount:
    """Compare the `most` leading eigenvalues of a Gram matrix (N, N) with those of noise."""
    n_samples = len(gram)
    values, vectors = np.linalg.eigh(gram)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    left = np.cumsum(values[::-1])[::-1]
    # what a component that is still there hides shows after it: the largest number from here on counts
    numbers = [_independent_features(values[k:], vectors[:, k:]) for k in range(most + 1)]
    independent = np.maximum.accumulate(numbers[::-1])[::-1][:most]
    share = np.divide(values[:most], left[:most], out=np.zeros(most), where=left[:most] > 0)
    n_left = n_samples - 1 - np.arange(most)
    crowding = independent / n_left
    largest = (LARGEST_VARIANCE + 2 * np.sqrt(crowding) + crowding) / independent
    # squares of all shares of noise add up to 1 / D, and sampling adds one in N - k: none can be larger
    limit = OUTSTANDING * np.minimum(largest, np.sqrt(1 / independent + 1 / n_left))
    limit[[outweighing(vectors[:, k]) is not None for k in range(most)]] = np.nan
    return ComponentCount(share, limit, independent)


def _independent_features(values: FloatArray, vectors: FloatArray) -> float:
    """Return the effective number of independent features for a Gram matrix given by its eigenvectors.

    For N independent samples with the covariance C it estimates ``tr(C)^2 / tr(C^2)``, whatever N is.
    """
    gram = (vectors * values) @ vectors.T
    n_samples, trace = len(gram), float(values.sum())
    products = float(np.square(gram).sum() - np.square(np.diag(gram)).sum())
    if products <= 0 or trace <= 0:
        return 1.0
    return max(1.0, (trace / n_samples) ** 2 * n_samples * (n_samples - 1) / products)
