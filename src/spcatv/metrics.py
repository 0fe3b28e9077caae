"""How good a decomposition is: error, stability, recovery (docs/method.md section 6.1).

Loadings are given one a row, as in ``components_``. All functions take plain arrays, whatever the
method that made them, so that methods are compared by the same yardstick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array, BoolArray, FloatArray, IntArray

_BLOCK_ENTRIES = 1 << 20  # entries handled at once, so that no temporary is as large as X
_DEPENDENT = 1e-7  # a unit loading closer than this to the span of those before it adds nothing of its own


class Match(NamedTuple):
    """Which estimated component goes with which reference component; made by `match_components`.

    Attributes
    ----------
    order : ndarray of int of shape (n_reference,)
        ``estimated[order[k]]`` is the partner of ``reference[k]``.
    sign : ndarray of shape (n_reference,)
        +1 or -1, such that ``sign[k] * estimated[order[k]]`` points the same way as its partner.
    correlation : ndarray of shape (n_reference,)
        Absolute correlation of the partners, from 0 to 1.
    """

    order: IntArray
    sign: FloatArray
    correlation: FloatArray


def threshold_loadings(loadings: npt.ArrayLike, norm_fraction: float = 0.99) -> FloatArray:
    """Set to zero the small entries that add next to nothing to a loading's norm.

    Keeps the smallest number of largest entries, in absolute value, such that
    ``||kept||_2 >= norm_fraction * ||v||_2``, and the entries that tie with the smallest one kept:
    a flat region is kept or dropped as a whole.

    Parameters
    ----------
    loadings : array-like of shape (n_components, n_features) or (n_features,)
        One loading vector a row.
    norm_fraction : float, default=0.99
        Share of the l2 norm to keep, above 0 and at most 1.

    Returns
    -------
    ndarray of the shape of `loadings`
        A copy; a row of zeros stays zeros.
    """
    if not 0 < norm_fraction <= 1:
        raise ValueError(f"norm_fraction must be above 0 and at most 1, got {norm_fraction}")
    rows = _as_rows(loadings, "loadings")
    magnitude = np.abs(rows)
    # every row by its largest entry first: squares of very small loadings must not vanish
    peak = magnitude.max(axis=1, keepdims=True)
    magnitude /= np.where(peak > 0, peak, 1.0)
    descending = np.sort(magnitude, axis=1)[:, ::-1]
    energy = np.cumsum(descending**2, axis=1)
    # the sum itself is the last partial sum, so that a fraction of 1 is reached and not just missed
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
    """Dice index of two supports, ``2 |S1 & S2| / (|S1| + |S2|)``, whatever the signs.

    Parameters
    ----------
    first, second : array-like of shape (n_components, n_features) or (n_features,)
        Loadings (or masks), row against row; the support of a row is where it is not zero.
    norm_fraction : float, default=None
        If given, both go through `threshold_loadings` first; the paper takes 0.99.
    empty : float, default=0.0
        Value where both supports are empty, for which the index is 0 / 0. Zero, so that a component
        that the penalty killed everywhere does not count as perfectly reproducible.
    signed : bool, default=False
        Whether a feature counts as shared only if both loadings have the same sign there. The sign of a
        whole component is arbitrary: align it first (`match_components` gives it).
    corrected : bool, default=False
        Whether what supports of these sizes share by chance is taken out, ``(D - E) / (1 - E)`` with
        ``E = 2 (|S1| |S2| / P) / (|S1| + |S2|)``: 0 for supports that have nothing to do with each other,
        however large they are, 1 for equal ones, and 0 where both are full, of which nothing can be said.

    Returns
    -------
    ndarray of shape (n_components,), or a number for two vectors
        From 0 (disjoint; corrected: as by chance) to 1 (equal).
    """
    one, other = np.asarray(first), np.asarray(second)
    if one.shape != other.shape:
        raise ValueError(f"both loadings must have one shape, got {one.shape} and {other.shape}")
    parts = np.stack([_supports(one, norm_fraction, signed), _supports(other, norm_fraction, signed)])
    sizes = parts.sum(axis=-1)
    index = _dice_ratio(parts.all(axis=0).sum(axis=(1, 2)), sizes.sum(axis=(0, 2)), empty)
    if corrected:
        index = _without_chance(index, sizes[0], sizes[1], parts.shape[-1])
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
    """Stability: Dice index of matched supports, for every pair of fits.

    Parameters
    ----------
    loadings : sequence of n_fits arrays of shape (n_components, n_features)
        Loadings of the same model fitted to different folds or data sets; at least two.
    reference : array-like of shape (n_reference, n_features), default=None
        What every fit is matched to (`match_components`) before the supports are compared: the
        truth, or a fit to all data. ``None`` takes the first fit.
    norm_fraction : float or None, default=0.99
        Passed through `threshold_loadings`; ``None`` compares the supports as they are.
    empty, signed, corrected
        As in `dice`; the signs of matched components are aligned with the reference.

    Returns
    -------
    ndarray of shape (n_fits * (n_fits - 1) / 2, n_reference)
        One row a pair, in the order (0, 1), (0, 2), ..., (1, 2), ...; one column a component.
    """
    fits = [_as_rows(fit, f"loadings[{index}]") for index, fit in enumerate(loadings)]
    if len(fits) < 2:
        raise ValueError(f"stability needs the loadings of at least two fits, got {len(fits)}")
    base = fits[0] if reference is None else _as_rows(reference, "reference")
    matched = []
    for fit in fits:
        match = match_components(base, fit)
        matched.append(_supports(match.sign[:, None] * fit[match.order], norm_fraction, signed))
    # counts are exact in float32 below 2^24 features, and its matrix product is the faster one
    counting = np.float32 if base.shape[1] < 1 << 24 else np.float64
    first, second = np.triu_indices(len(fits), k=1)
    columns = []
    for parts in zip(*matched, strict=True):
        sizes = np.stack([part.sum(axis=1) for part in parts])
        ones: Array = np.stack([part.ravel() for part in parts]).astype(counting)
        overlap = (ones @ ones.T)[first, second]
        column = _dice_ratio(overlap, (sizes[first] + sizes[second]).sum(axis=1), empty)
        columns.append(
            _without_chance(column, sizes[first], sizes[second], base.shape[1]) if corrected else column
        )
    return np.column_stack(columns)


def match_components(reference: npt.ArrayLike, estimated: npt.ArrayLike) -> Match:
    """Pair components one to one so that the sum of absolute correlations is largest.

    The correlation is Pearson's, over features; it is 0 with a constant (or all-zero) loading. The
    assignment is solved exactly (Hungarian method).

    Parameters
    ----------
    reference : array-like of shape (n_reference, n_features)
        Components to find partners for.
    estimated : array-like of shape (n_estimated, n_features)
        Candidates, at least as many; those without a partner are left out.

    Returns
    -------
    Match
        ``order``, ``sign`` and ``correlation``, one entry a reference component.
    """
    # imported here: scipy.optimize costs more to import than the rest of this module
    from scipy.optimize import linear_sum_assignment

    wanted, found = _as_rows(reference, "reference"), _as_rows(estimated, "estimated")
    if wanted.shape[1] != found.shape[1]:
        raise ValueError(
            f"reference has {wanted.shape[1]} features but estimated has {found.shape[1]}; they must agree"
        )
    if found.shape[0] < wanted.shape[0]:
        raise ValueError(
            f"{wanted.shape[0]} reference components cannot all find a partner among "
            f"{found.shape[0]} estimated ones; give at least {wanted.shape[0]}"
        )
    correlation = _standardize_rows(wanted) @ _standardize_rows(found).T / wanted.shape[1]
    rows, order = linear_sum_assignment(-np.abs(correlation))
    partners = correlation[rows, order]
    return Match(
        order=np.asarray(order, dtype=np.intp),
        sign=np.where(partners < 0, -1.0, 1.0),
        correlation=np.minimum(np.abs(partners), 1.0),
    )


def loading_mse(true: npt.ArrayLike, estimated: npt.ArrayLike, *, match: bool = True) -> FloatArray:
    """Mean squared error between standardised absolute loadings, one value a true component.

    With ``z(v) = (|v| - mean |v|) / std |v|`` over the P features, the error of a pair is
    ``1/P ||z(true) - z(estimated)||^2 = 2 (1 - correlation of |true| and |estimated|)``: 0 for the
    truth at any scale and sign, 2 for a loading that has nothing to do with it. A loading of
    constant magnitude, zeros included, has no z-score: it counts as z = 0, and gets 1 against a
    true loading that varies.

    Parameters
    ----------
    true : array-like of shape (n_true, n_features)
        True loadings.
    estimated : array-like of shape (n_estimated, n_features)
        Estimated loadings.
    match : bool, default=True
        Whether `match_components` pairs them first; otherwise row k goes with row k.

    Returns
    -------
    ndarray of shape (n_true,)
        The figure of the paper is its mean.
    """
    wanted, found = _as_rows(true, "true"), _as_rows(estimated, "estimated")
    if match:
        found = found[match_components(wanted, found).order]
    elif wanted.shape != found.shape:
        raise ValueError(
            f"without matching, both must have one shape; true has {wanted.shape}, estimated {found.shape}"
        )
    difference = _standardize_rows(np.abs(wanted)) - _standardize_rows(np.abs(found))
    return np.asarray(np.mean(difference**2, axis=1))


def reconstruction_error(X: npt.ArrayLike, reconstruction: npt.ArrayLike) -> float:
    """Frobenius norm ``||X - reconstruction||_F``, summed in float64.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data, best rows that the model has not seen.
    reconstruction : array-like of shape (n_samples, n_features)
        What the model makes of them, ``inverse_transform(transform(X))``.

    Returns
    -------
    float
    """
    data, model = np.asarray(X), np.asarray(reconstruction)
    if data.ndim != 2 or data.shape != model.shape:
        raise ValueError(
            f"X and its reconstruction must be matrices of one shape, got {data.shape} and {model.shape}"
        )
    step = max(1, _BLOCK_ENTRIES // max(1, data.shape[1]))
    total = 0.0
    for start in range(0, data.shape[0], step):
        rows = slice(start, start + step)
        residual = np.subtract(data[rows], model[rows], dtype=np.float64).ravel()
        total += float(residual @ residual)
    return float(np.sqrt(total))


def adjusted_explained_variance(scores: npt.ArrayLike) -> FloatArray:
    """Variance that each component adds to those before it (Zou, Hastie and Tibshirani, 2006).

    Sparse components have correlated scores, and the sum of their variances counts the shared part
    twice. With the QR decomposition ``T - mean = Q R`` of the scores, component k adds
    ``R_kk^2 / (n_samples - 1)``: what is left of it after regression on the components before it.
    Uncorrelated scores, as those of PCA, keep their own variance.

    Parameters
    ----------
    scores : array-like of shape (n_samples, n_components)
        Scores that belong to loadings of unit norm; at least two rows.

    Returns
    -------
    ndarray of shape (n_components,)
        In the units of the data squared; a component that repeats the ones before it adds 0.
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
    """Share of the data that the first 1, 2, ..., K loadings span: cumulative R^2 (Shen and Huang, 2008).

    ``R^2_k = ||X P_k||_F^2 / ||X||_F^2`` with P_k the orthogonal projection onto the first k loadings,
    for X less `mean`. Correlated loadings are not counted twice, and PCA's loadings of the same X give the
    largest values there are.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data, of the fit or held out.
    components : array-like of shape (n_components, n_features)
        Loadings of any length; a row of zeros, or one that the rows before it span, adds nothing.
    mean : array-like of shape (n_features,), default=None
        Subtracted from every row: ``mean_`` of the model. ``None``: the means of these rows.

    Returns
    -------
    ndarray of shape (n_components,)
        Never decreasing, from 0 to 1; zeros for data without variance.
    """
    data, loadings = np.asarray(X), _as_rows(components, "components")
    if data.ndim != 2 or data.shape[1] != loadings.shape[1]:
        raise ValueError(
            f"X must be a matrix with a column a feature: it has shape {data.shape}, and the components have "
            f"{loadings.shape[1]} features"
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
    """Gram-Schmidt: rows 1 to k of the result span what rows 1 to k of `loadings` do.

    Parameters
    ----------
    loadings : array-like of shape (n_components, n_features)

    Returns
    -------
    ndarray of shape (n_components, n_features)
        Orthonormal rows, but zeros where a loading is zero or in the span of those before it.
    """
    rows = _as_rows(loadings, "loadings")
    basis = np.zeros_like(rows)
    for number, row in enumerate(rows):
        length = np.linalg.norm(row)
        if length == 0:
            continue
        rest = row / length
        # twice is enough (Kahan): the first pass leaves rounding errors in the span, the second none
        for _ in range(2):
            rest = rest - basis[:number].T @ (basis[:number] @ rest)
        left = np.linalg.norm(rest)
        if left > _DEPENDENT:
            basis[number] = rest / left
    return basis


def _as_rows(loadings: npt.ArrayLike, name: str) -> FloatArray:
    """Check loadings and give them two dimensions: one vector a row."""
    array = np.asarray(loadings, dtype=np.float64)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must be a vector or a matrix of loadings in rows, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite entries; loadings must be finite")
    return np.atleast_2d(array)


def _supports(loadings: npt.ArrayLike, norm_fraction: float | None, signed: bool) -> BoolArray:
    """Where the rows are not zero, after the threshold if there is one; shape (rows, parts, features).

    One part, or two if the signs count: where a row is positive, and where it is negative.
    """
    rows = _as_rows(loadings, "loadings")
    kept = rows if norm_fraction is None else threshold_loadings(rows, norm_fraction)
    return np.stack([kept > 0, kept < 0], axis=1) if signed else (kept != 0)[:, None]


def _dice_ratio(both: Array, sizes: Array, empty: float) -> FloatArray:
    """``2 both / sizes`` with `empty` where sizes is 0."""
    return np.where(sizes > 0, 2.0 * both / np.maximum(sizes, 1), empty)


def _without_chance(index: FloatArray, first: Array, second: Array, n_features: int) -> FloatArray:
    """Take out of Dice indices what parts of these sizes, shape (n, parts), share by chance."""
    total = (first + second).sum(axis=1)
    by_chance = _dice_ratio((first.astype(np.float64) * second).sum(axis=1) / n_features, total, 0.0)
    room = 1.0 - by_chance
    return np.where(room > 0, (index - by_chance) / np.where(room > 0, room, 1.0), 0.0)


def _standardize_rows(rows: FloatArray) -> FloatArray:
    """Bring every row to mean 0 and standard deviation 1; a constant row becomes zeros."""
    lowest = rows.min(axis=1, keepdims=True)
    spread = rows.max(axis=1, keepdims=True) - lowest
    # the spread, not the standard deviation, tells a constant row: rounding leaves the latter above 0
    scaled = (rows - lowest) / np.where(spread > 0, spread, 1.0)
    centred = scaled - scaled.mean(axis=1, keepdims=True)
    deviation = np.sqrt(np.mean(centred**2, axis=1, keepdims=True))
    return np.where(spread > 0, centred / np.where(deviation > 0, deviation, 1.0), 0.0)
