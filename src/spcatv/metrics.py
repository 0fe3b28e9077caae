"""Quality of a decomposition: error, stability, recovery (docs/method.md section 6.1).

Loadings are matrices with one row per component, as in ``components_``. All functions take plain arrays, so
that the loadings of any method can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray

_BLOCK_ENTRIES = 1 << 20  # entries processed at once, so that no temporary array is as large as X
_DEPENDENT = 1e-7  # a unit loading closer than this to the span of the previous ones counts as dependent


class Match(NamedTuple):
    """Estimated components matched to reference components, as returned by `match_components`.

    Attributes
    ----------
    order : ndarray of int of shape (n_reference,)
        ``estimated[order[k]]`` is matched to ``reference[k]``.
    sign : ndarray of shape (n_reference,)
        +1 or -1: the cosine of ``sign[k] * estimated[order[k]]`` and ``reference[k]`` is not negative.
    cosine : ndarray of shape (n_reference,)
        Absolute cosine of the matched components, from 0 to 1.

    Examples
    --------
    >>> from spcatv.metrics import match_components
    >>> match = match_components([[1, 0, 0]], [[0, 1, 0], [-2, 0, 0]])
    >>> match.order, match.sign, match.cosine.round(6)
    (array([1]), array([-1.]), array([1.]))
    """

    order: IntArray
    sign: FloatArray
    cosine: FloatArray


def threshold_loadings(loadings: npt.ArrayLike, norm_fraction: float = 0.99) -> FloatArray:
    """Set the small entries that contribute almost nothing to a loading's norm to zero.

    Keeps as few of the largest entries, in absolute value, as are needed for
    ``||kept||_2 >= norm_fraction * ||v||_2``. Entries that tie with the smallest kept one are kept too, so
    that a flat region is kept or dropped as a whole.

    Parameters
    ----------
    loadings : array-like of shape (n_components, n_features) or (n_features,)
        One loading vector per row.
    norm_fraction : float, default=0.99
        Fraction of the l2 norm to keep, above 0 and at most 1.

    Returns
    -------
    ndarray of the shape of `loadings`
        A copy; a row of zeros stays a row of zeros.

    Examples
    --------
    >>> from spcatv.metrics import threshold_loadings
    >>> threshold_loadings([3.0, -4.0, 0.1], norm_fraction=0.99)
    array([ 3., -4.,  0.])
    """
    if not 0 < norm_fraction <= 1:
        raise ValueError(f"norm_fraction must be above 0 and at most 1, got {norm_fraction}")
    rows = _as_rows(loadings, "loadings")
    magnitude = np.abs(rows)
    # divide every row by its largest entry, so that squares of tiny loadings do not underflow
    peak = magnitude.max(axis=1, keepdims=True)
    magnitude /= np.where(peak > 0, peak, 1.0)
    descending = np.sort(magnitude, axis=1)[:, ::-1]
    energy = np.cumsum(descending**2, axis=1)
    # compare with the last partial sum, so that a fraction of 1 is reached despite rounding
    enough = energy >= norm_fraction**2 * energy[:, -1:]
    cut = np.take_along_axis(descending, enough.argmax(axis=1)[:, None], axis=1)
    return np.where(magnitude >= cut, rows, 0.0).reshape(np.shape(loadings))


def dice(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    norm_fraction: float | None = None,
    empty: float = 0.0,
    signed: bool = False,
    corrected: bool = False,
) -> FloatArray | np.float64:
    """Dice index of two supports, ``2 |S1 & S2| / (|S1| + |S2|)``.

    Parameters
    ----------
    first, second : array-like of shape (n_components, n_features) or (n_features,)
        Loadings (or masks), compared row by row; the support of a row is where it is not zero.
    norm_fraction : float, default=None
        If given, `threshold_loadings` is applied to both first; the paper uses 0.99.
    empty : float, default=0.0
        Value where both supports are empty and the index would be 0 / 0. With the default, a component
        that the penalty sets to zero in every fit does not count as perfectly reproducible.
    signed : bool, default=False
        Whether a feature counts as shared only if both loadings have the same sign there. The sign of a
        whole component is arbitrary: align the signs first, with those that `match_components` returns.
    corrected : bool, default=False
        Whether to correct for the overlap expected by chance: ``(D - E) / (1 - E)`` with
        ``E = 2 (|S1| |S2| / P) / (|S1| + |S2|)``. The corrected index is 0 on average for unrelated supports
        of any size and 1 for equal ones; it is set to 0 where both supports contain all features.

    Returns
    -------
    ndarray of shape (n_components,), or a number for two vectors
        From 0 (disjoint) to 1 (equal); a corrected index is negative for less overlap than by chance.

    Examples
    --------
    >>> from spcatv.metrics import dice
    >>> float(dice([1, 1, 0, 0], [0, 1, 1, 0]))
    0.5
    >>> dice([[1, 2, 0], [0, 0, 3]], [[5, 1, 0], [1, 0, 0]])  # row by row
    array([1., 0.])
    >>> float(dice([1, -1, 0], [1, 1, 0], signed=True))
    0.5
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape:
        raise ValueError(f"both loadings must have the same shape, got {one.shape} and {other.shape}")
    parts = np.stack([_supports(one, norm_fraction, signed), _supports(other, norm_fraction, signed)])
    overlap, sizes = parts.all(axis=0).sum(axis=(1, 2)), parts.sum(axis=-1)
    index = _dice_index(overlap, sizes[0], sizes[1], empty, parts.shape[-1] if corrected else None)
    return index if one.ndim == 2 else np.float64(index[0])


def pairwise_dice(
    loadings: Sequence[npt.ArrayLike],
    *,
    reference: npt.ArrayLike | None = None,
    norm_fraction: float | None = 0.99,
    empty: float = 0.0,
    signed: bool = False,
    corrected: bool = False,
) -> FloatArray:
    """Stability: Dice index of matched supports for every pair of fits.

    Parameters
    ----------
    loadings : sequence of n_fits arrays of shape (n_components, n_features)
        Loadings of the same model fitted to different folds or data sets; at least two fits.
    reference : array-like of shape (n_reference, n_features), default=None
        Loadings to which every fit is matched (`match_components`) before the supports are compared,
        such as the truth or a fit to all data. ``None``: the first fit.
    norm_fraction : float or None, default=0.99
        Passed to `threshold_loadings`; ``None`` compares the supports as they are.
    empty, signed, corrected
        As in `dice`; the signs of matched components are aligned with the reference.

    Returns
    -------
    ndarray of shape (n_fits * (n_fits - 1) / 2, n_reference)
        One row per pair, in the order (0, 1), (0, 2), ..., (1, 2), ...; one column per component.

    Examples
    --------
    >>> from spcatv.metrics import pairwise_dice
    >>> first = [[1, 1, 0, 0, 0], [0, 0, 1, 1, 0]]
    >>> second = [[0, 0, -1, -1, 0], [1, 1, 0, 0, 0]]  # in another order, one of them with another sign
    >>> third = [[1, 0, 0, 0, 0], [0, 0, 1, 1, 0]]
    >>> pairwise_dice([first, second, third]).round(2)  # the pairs (0, 1), (0, 2) and (1, 2)
    array([[1.  , 1.  ],
           [0.67, 1.  ],
           [0.67, 1.  ]])
    """
    fits = [_as_rows(fit, f"loadings[{index}]") for index, fit in enumerate(loadings)]
    if len(fits) < 2:
        raise ValueError(f"stability needs the loadings of at least two fits, got {len(fits)}")
    base = fits[0] if reference is None else _as_rows(reference, "reference")
    matched = []
    for fit in fits:
        match = match_components(base, fit)
        matched.append(_supports(match.sign[:, None] * fit[match.order], norm_fraction, signed))
    # float32 counts exactly up to 2^24 features, and its matrix product is faster
    counting = np.float32 if base.shape[1] < 1 << 24 else np.float64
    n_features = base.shape[1] if corrected else None
    first, second = np.triu_indices(len(fits), k=1)
    columns = []
    for parts in map(np.stack, zip(*matched, strict=True)):
        sizes = parts.sum(axis=-1)
        ones: Array = parts.reshape(len(fits), -1).astype(counting)
        overlap = (ones @ ones.T)[first, second]
        columns.append(_dice_index(overlap, sizes[first], sizes[second], empty, n_features))
    return np.column_stack(columns)


def match_components(reference: npt.ArrayLike, estimated: npt.ArrayLike) -> Match:
    """Match components one to one so that the sum of their absolute cosines is maximal.

    The cosine is ``|v . w| / (||v|| ||w||)``, and 0 for a loading of zeros. Means are not subtracted: the
    correlation of two one-signed loadings without a common feature would be -1 if they cover all features.
    The assignment is solved exactly (Hungarian method).

    Parameters
    ----------
    reference : array-like of shape (n_reference, n_features)
        Components to find a match for.
    estimated : array-like of shape (n_estimated, n_features)
        Candidates, at least as many as reference components; those without a match are left out.

    Returns
    -------
    Match
        ``order``, ``sign`` and ``cosine``, with one entry per reference component.

    Examples
    --------
    >>> from spcatv.metrics import match_components
    >>> reference = [[1, 1, 0, 0], [0, 0, 1, 0]]
    >>> estimated = [[0, 0, -2, 0], [0, 0, 0, 1], [3, 2, 0, 0]]
    >>> match = match_components(reference, estimated)
    >>> match.order, match.sign
    (array([2, 0]), array([ 1., -1.]))
    >>> match.cosine.round(2)
    array([0.98, 1.  ])
    """
    # imported here because scipy.optimize takes longer to import than the rest of this module
    from scipy.optimize import linear_sum_assignment

    wanted, found = _as_rows(reference, "reference"), _as_rows(estimated, "estimated")
    if wanted.shape[1] != found.shape[1]:
        raise ValueError(
            f"reference has {wanted.shape[1]} features but estimated has {found.shape[1]}; they must agree"
        )
    if found.shape[0] < wanted.shape[0]:
        raise ValueError(
            f"{wanted.shape[0]} reference components cannot all be matched to {found.shape[0]} estimated "
            f"components; give at least {wanted.shape[0]}"
        )
    cosines = _unit_rows(wanted) @ _unit_rows(found).T
    rows, order = linear_sum_assignment(-np.abs(cosines))
    partners = cosines[rows, order]
    return Match(
        order=np.asarray(order, dtype=np.intp),
        sign=np.where(partners < 0, -1.0, 1.0),
        cosine=np.minimum(np.abs(partners), 1.0),
    )


def loading_mse(true: npt.ArrayLike, estimated: npt.ArrayLike, *, match: bool = True) -> FloatArray:
    """Mean squared error between standardised absolute loadings, one value per true component.

    With ``z(v) = (|v| - mean |v|) / std |v|`` over the P features, the error of a pair is
    ``1/P ||z(true) - z(estimated)||^2 = 2 (1 - correlation of |true| and |estimated|)``: 0 for the
    truth at any scale and sign, and 2 on average for an unrelated loading. A loading of constant
    magnitude, such as all zeros, has no z-score: it counts as z = 0, and its error against a true loading
    that varies is 1.

    Parameters
    ----------
    true : array-like of shape (n_true, n_features)
        True loadings.
    estimated : array-like of shape (n_estimated, n_features)
        Estimated loadings.
    match : bool, default=True
        Whether to match the components first (`match_components`); otherwise row k is compared with row k.

    Returns
    -------
    ndarray of shape (n_true,)
        The paper reports the mean.

    Examples
    --------
    >>> from spcatv.metrics import loading_mse
    >>> loading_mse([[1, 1, 0, 0]], [[-3, -3, 0, 0]]).round(6)  # neither scale nor sign matters
    array([0.])
    >>> loading_mse([[1, 1, 0, 0]], [[0, 1, 1, 0]]).round(6)
    array([2.])
    """
    wanted, found = _as_rows(true, "true"), _as_rows(estimated, "estimated")
    if match:
        found = found[match_components(wanted, found).order]
    elif wanted.shape != found.shape:
        raise ValueError(
            f"without matching, both must have the same shape; true has {wanted.shape}, estimated has "
            f"{found.shape}"
        )
    difference = _standardize_rows(np.abs(wanted)) - _standardize_rows(np.abs(found))
    return np.asarray(np.mean(difference**2, axis=1))


def reconstruction_error(X: npt.ArrayLike, reconstruction: npt.ArrayLike) -> float:
    """Frobenius norm ``||X - reconstruction||_F``, summed in float64.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data, preferably samples that the model was not fitted to.
    reconstruction : array-like of shape (n_samples, n_features)
        Their reconstruction by the model, ``inverse_transform(transform(X))``.

    Returns
    -------
    float
        In the units of X; 0 for a perfect reconstruction.

    Examples
    --------
    >>> from spcatv.metrics import reconstruction_error
    >>> reconstruction_error([[3, 4], [0, 0]], [[0, 0], [0, 0]])
    5.0
    """
    data, found = np.asarray(X), np.asarray(reconstruction)
    if data.ndim != 2 or data.shape != found.shape:
        raise ValueError(
            f"X and its reconstruction must be matrices of the same shape, got {data.shape} and {found.shape}"
        )
    step = max(1, _BLOCK_ENTRIES // max(1, data.shape[1]))
    total = 0.0
    for start in range(0, data.shape[0], step):
        rows = slice(start, start + step)
        residual = np.subtract(data[rows], found[rows], dtype=np.float64).ravel()
        total += float(residual @ residual)
    return float(np.sqrt(total))


def adjusted_explained_variance(scores: npt.ArrayLike) -> FloatArray:
    """Variance that each component adds to the previous ones (Zou, Hastie and Tibshirani, 2006).

    Sparse components have correlated scores, and the sum of their variances counts the shared part
    twice. With the QR decomposition ``T - mean = Q R`` of the scores, component k adds
    ``R_kk^2 / (n_samples - 1)``: the variance that is left after regression on the previous components.
    Uncorrelated scores, such as those of PCA, keep their variance.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_components)
        Scores of loadings of unit norm; at least two samples.

    Returns
    -------
    ndarray of shape (n_components,)
        In squared units of the data; a component that repeats previous ones adds 0.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.metrics import adjusted_explained_variance
    >>> scores = np.array([[1, 2], [-1, -2], [1, 2], [-1, -2]])  # the second column repeats the first
    >>> adjusted_explained_variance(scores).round(3)
    array([1.333, 0.   ])
    """
    matrix = np.array(scores, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] == 0:
        raise ValueError(
            f"scores must be a matrix of at least two rows and one column, got shape {matrix.shape}"
        )
    matrix -= matrix.mean(axis=0)
    diagonal = np.diagonal(np.linalg.qr(matrix, mode="r"))
    adjusted = np.zeros(matrix.shape[1])
    adjusted[: diagonal.size] = diagonal**2 / (matrix.shape[0] - 1)
    return adjusted


def cumulative_explained_variance(
    X: npt.ArrayLike, components: npt.ArrayLike, *, mean: npt.ArrayLike | None = None
) -> FloatArray:
    """Share of variance explained by the first 1, 2, ..., K loadings: cumulative R^2 (Shen and Huang, 2008).

    ``R^2_k = ||X P_k||_F^2 / ||X||_F^2`` for X minus `mean`, where P_k is the orthogonal projection onto
    the first k loadings. Correlated loadings are not counted twice, and the loadings of PCA on the same X
    give the largest possible values.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Training or held-out data.
    components : array-like of shape (n_components, n_features)
        Loadings of any norm; a row of zeros, or one in the span of the previous rows, adds nothing.
    mean : array-like of shape (n_features,), default=None
        Subtracted from every sample, such as ``mean_`` of the model. ``None``: the mean of X.

    Returns
    -------
    ndarray of shape (n_components,)
        Between 0 and 1, never decreasing; zeros for data without variance.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv.metrics import cumulative_explained_variance
    >>> X = np.array([[3, 1, 0], [-3, 1, 0], [3, -1, 0], [-3, -1, 0]])
    >>> cumulative_explained_variance(X, [[1, 0, 0], [2, 0, 0], [0, 1, 0]]).round(6)
    array([0.9, 0.9, 1. ])
    """
    data, loadings = np.asarray(X), _as_rows(components, "components")
    if data.ndim != 2 or data.shape[1] != loadings.shape[1]:
        raise ValueError(
            f"X must be a matrix with one column per feature: it has shape {data.shape}, and the components "
            f"have {loadings.shape[1]} features"
        )
    centre = data.mean(axis=0, dtype=np.float64) if mean is None else np.asarray(mean, dtype=np.float64)
    basis = orthonormal_basis(loadings)
    total, explained = 0.0, np.zeros(len(basis))
    step = max(1, _BLOCK_ENTRIES // max(1, data.shape[1]))
    for start in range(0, data.shape[0], step):
        rows = data[start : start + step] - centre
        total += float(np.einsum("ij,ij->", rows, rows))
        explained += np.square(rows @ basis.T).sum(axis=0)
    return np.cumsum(explained) / total if total > 0 else np.zeros(len(basis))


def orthonormal_basis(loadings: npt.ArrayLike) -> FloatArray:
    """Gram-Schmidt: for every k, the first k rows of the result span the first k rows of `loadings`.

    Parameters
    ----------
    loadings : array-like of shape (n_components, n_features)
        One loading vector per row.

    Returns
    -------
    ndarray of shape (n_components, n_features)
        Orthonormal rows; zeros where a loading is zero or in the span of the previous ones.

    Examples
    --------
    >>> from spcatv.metrics import orthonormal_basis
    >>> orthonormal_basis([[3, 4], [3, 4], [0, 1]]).round(6)
    array([[ 0.6,  0.8],
           [ 0. ,  0. ],
           [-0.8,  0.6]])
    """
    rows = _as_rows(loadings, "loadings")
    basis = np.zeros_like(rows)
    for number, row in enumerate(rows):
        length = np.linalg.norm(row)
        if length == 0:
            continue
        rest = row / length
        # "twice is enough" (Kahan): the second pass removes the rounding errors of the first
        for _ in range(2):
            rest = rest - basis[:number].T @ (basis[:number] @ rest)
        left = np.linalg.norm(rest)
        if left > _DEPENDENT:
            basis[number] = rest / left
    return basis


def _as_rows(loadings: npt.ArrayLike, name: str) -> FloatArray:
    """Check loadings and return them as a matrix with one vector per row."""
    array = np.asarray(loadings, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must be a vector or a matrix with one row per loading, got {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite entries; loadings must be finite")
    return np.atleast_2d(array)


def _supports(loadings: npt.ArrayLike, norm_fraction: float | None, signed: bool) -> BoolArray:
    """Return where the rows are not zero after thresholding, shape (n_components, n_parts, n_features).

    There is one part, or two if `signed`: where a row is positive, and where it is negative.
    """
    rows = _as_rows(loadings, "loadings")
    kept = rows if norm_fraction is None else threshold_loadings(rows, norm_fraction)
    return np.stack([kept > 0, kept < 0], axis=1) if signed else (kept != 0)[:, None]


def _dice_index(
    overlap: Array, first: IntArray, second: IntArray, empty: float, n_features: int | None
) -> FloatArray:
    """Return Dice indices of supports of two sizes, shape (n, n_parts), that share `overlap` features (n,).

    With `n_features`, they are corrected for the overlap expected by chance.
    """
    total = (first + second).sum(axis=1)
    index = np.where(total > 0, 2.0 * overlap / np.maximum(total, 1), empty)
    if n_features is None:
        return index
    by_chance = 2.0 * (1.0 * first * second).sum(axis=1) / n_features / np.maximum(total, 1)
    room = 1.0 - by_chance
    return np.divide(index - by_chance, room, out=np.zeros_like(index), where=room > 0)


def _unit_rows(rows: FloatArray) -> FloatArray:
    """Scale every row to unit norm; a row of zeros stays one."""
    # divide by the largest entry first, so that squares of tiny loadings do not underflow
    peak = np.abs(rows).max(axis=1, keepdims=True)
    scaled = rows / np.where(peak > 0, peak, 1.0)
    return scaled / np.maximum(np.linalg.norm(scaled, axis=1, keepdims=True), 1.0)


def _standardize_rows(rows: FloatArray) -> FloatArray:
    """Scale every row to mean 0 and standard deviation 1; a constant row becomes zeros."""
    # subtract the lowest entry first, which makes a constant row exactly zero
    scaled = _unit_rows(rows - rows.min(axis=1, keepdims=True))
    return np.sqrt(rows.shape[1]) * _unit_rows(scaled - scaled.mean(axis=1, keepdims=True))
