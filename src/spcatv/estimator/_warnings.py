"""Warnings of a fit: about its parameters and the neighbours before, and about the components after it."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from spcatv._util.naming import some_of
from spcatv._util.parameters import FIT, SEARCH
from spcatv._util.threads import one_blas_thread
from spcatv._util.types import FloatArray, IntArray
from spcatv._util.warn import warn_user
from spcatv.data import ArrayData, Data
from spcatv.decomposition import ComponentDiagnostics
from spcatv.decomposition.weights import LEAST_SMOOTHNESS
from spcatv.estimator._validation import SHARE_ROUNDING, fits_jointly, sparsities
from spcatv.structure import Structure
from spcatv.structure.regions import neighbour_pairs

# Warn about a share of zeros that differs from the wanted one by more than this.
SPARSITY_SLACK = 0.05
# Warn about components of the penalised model with a smaller share of zeros than this, if the relative l1
# weight is at least this large.
DENSE, NOTABLE_L1 = 0.05, 0.03
# Warn if smoothness times the weight of an edge exceeds this: a fit takes some fifty times the iterations.
STRONG_EDGE = 100.0
# Largest share of the variance that counts as rounding.
UNEXPLAINED = 1e-5
# Most samples and pairs of features in the check of neighbours, and the seed that chooses them.
MOST_SAMPLES, MOST_PAIRS, SEED = 150, 2500, 0
# Fewest samples and pairs that are checked.
FEWEST_SAMPLES, FEWEST_PAIRS = 5, 50
# Features vary together if the mean of their squared correlations exceeds that of white noise by this many
# standard errors.
BEYOND_NOISE = 6.0
# Most features follow their mean if the median of their squared correlations with it is this multiple of 1/N.
FOLLOWED = 4.0
# Treat a feature as constant if removing what all features share leaves less than this share of it.
FLAT = 1e-6
# Warn if the mean signed square of the correlations of neighbours exceeds that of random pairs by less than
# this multiple of the excess of the mean square of random pairs over white noise.
NOTABLE = 0.5


class SparsityWarning(UserWarning):
    """Some components have more or fewer zeros than wanted.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.estimator import SparsityWarning
    >>> warnings.filterwarnings("ignore", category=SparsityWarning)
    """


class EmptyComponentWarning(UserWarning):
    """Some components are empty: the penalty leaves no loading, or the data have no variance left.

    Examples
    --------
    >>> import warnings
    >>> from spcatv import SPCATV
    >>> from spcatv.estimator import EmptyComponentWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", EmptyComponentWarning)
    ...     model = SPCATV(1, alpha=100.0).fit([[1.0, 2.0], [3.0, 5.0], [2.0, 1.0]])  # far too strong
    >>> [warning.category.__name__ for warning in caught], model.components_
    (['EmptyComponentWarning'], array([[0., 0.]]))
    """


class ComponentCountWarning(UserWarning):
    """The data have fewer dimensions than `n_components`.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.estimator import ComponentCountWarning
    >>> warnings.filterwarnings("error", category=ComponentCountWarning)
    """


class NeighbourWarning(UserWarning):
    """Neighbours vary together hardly more than other features: the columns may be in another order.

    Examples
    --------
    >>> import warnings
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.estimator import NeighbourWarning
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((50, 2)) @ np.repeat(np.eye(2), 50, axis=1) + rng.standard_normal((50, 100))
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", NeighbourWarning)
    ...     _ = SPCATV(2, structure=(100,)).fit(X)
    ...     _ = SPCATV(2, structure=(100,)).fit(X[:, rng.permutation(100)])  # columns in another order
    >>> [warning.category.__name__ for warning in caught]
    ['NeighbourWarning']
    """


def warn_before_fit(estimator: Any, data: Data, structure: Structure) -> None:
    """Warn of too many components, and of smoothing without effect, too strong, or of unlike neighbours."""
    _warn_of_count(estimator, data.shape)
    warn_of_weights(estimator, structure)
    with one_blas_thread():  # other threads would wait for more work beside the fit
        _warn_of_neighbours(estimator, data, structure)


def _warn_of_count(estimator: Any, shape: tuple[int, int]) -> None:
    """Warn of more components than N x P data can have: at most min(N, P), or N - 1 centred."""
    n_samples, n_features = shape
    most = min(n_samples - bool(estimator.center), n_features)
    if estimator.n_components > most:
        explain = "1 component" if most == 1 else f"{most} components"
        warn_user(
            f"n_components={estimator.n_components} is more than the rank of the data, which is {most} at "
            f"most ({n_samples} samples{', centred' if estimator.center else ''}, {n_features} features): "
            f"{explain} can explain all of the variance. Further ones re-split this variance or are empty: "
            f"lower n_components to {most}.",
            ComponentCountWarning,
        )


def warn_of_weights(estimator: Any, structure: Structure) -> None:
    """Warn of a smoothness that has no effect, or is so strong that steps must be very short."""
    wanted = tuple(np.atleast_1d(estimator.smoothness).tolist())
    if structure.n_rows == 0 and any(wanted) and wanted not in ((FIT.smoothness,), SEARCH.smoothness):
        warn_user(
            f"smoothness ({', '.join(f'{value:g}' for value in wanted)}) has no effect, because no features "
            "are neighbours: give a structure, such as the shape of the field, or a smoothness of 0",
            UserWarning,
        )
    weights = np.asarray(getattr(structure, "weight", ()))
    strength = np.max(estimator.smoothness) * weights.max(initial=0.0)
    if estimator.alpha is None and strength > STRONG_EDGE:
        warn_user(
            f"smoothness ({np.max(estimator.smoothness):g}) times the largest weight of an edge "
            f"({weights.max():.3g}; median {np.median(weights):.3g}) is above {STRONG_EDGE:g}, and a fit may "
            "take minutes instead of seconds: divide all weights by a typical one, and lower those that are "
            "still far above the others",
            UserWarning,
        )


def warn_about(*models: Any) -> None:
    """Warn of components that have not converged, are not as sparse as asked for, or are empty.

    `models` are the fitted estimators of one call; a warning of each kind describes the first that needs it.
    """
    for category, remark in (
        (ConvergenceWarning, _not_converged),
        (SparsityWarning, _other_zeros),
        (EmptyComponentWarning, _empty),
    ):
        found = [text for model in models if (text := remark(model))]
        if found:
            others = f" The same holds for {len(found) - 1} more of {len(models)} fits."
            warn_user(f"{found[0]}{others if len(found) > 1 else ''}", category)


def _not_converged(estimator: Any) -> str:
    missed = [
        f"component {k + 1}: relative gap {record.relative_gap:.2e} after {record.n_alternations}"
        for k, record in enumerate(estimator.diagnostics_)
        if not record.converged and not record.is_empty
    ]
    if not missed:
        return ""
    # a wanted sparsity may have no fixed point: the support then oscillates between two solutions
    turns = " If the support oscillates, only another sparsity or smoothness helps."
    return (
        f"tol={estimator.tol:g} was not reached ({'; '.join(missed)} alternations); the loadings are "
        f"certified to these gaps only. Raise max_iter (now {estimator.max_iter}) or tol."
        f"{turns if estimator.alpha is None else ''}"
    )


def empty_components(estimator: Any) -> dict[int, str]:
    """Return the empty components of a fitted estimator, counted from 0, and why they are empty."""
    explained = np.cumsum([0.0, *estimator.explained_variance_ratio_])  # by the components before
    return {
        k: "no variance is left" if explained[k] >= 1 - UNEXPLAINED else "the penalty leaves no loading"
        for k, record in enumerate(estimator.diagnostics_)
        if record.is_empty
    }


def _empty(estimator: Any) -> str:
    """Return a message about empty components, with the cause and the remedy."""
    n_components, empty = len(estimator.diagnostics_), [str(k + 1) for k in empty_components(estimator)]
    if not empty:
        return ""
    what = f"{len(empty)} of {n_components} components are empty (number {some_of(empty)}): "
    n_nonempty = n_components - len(empty)
    if n_nonempty > 0 and estimator.explained_variance_ratio_.sum() >= 1 - UNEXPLAINED:
        explain = "1 component explains" if n_nonempty == 1 else f"{n_nonempty} components explain"
        return (
            f"{what}the data have rank {n_nonempty} at most, because {explain} all of the variance. Lower "
            f"n_components (now {estimator.n_components}) to {n_nonempty}."
        )
    if estimator.alpha is None and n_nonempty == 0:
        return f"{what}the data do not vary."
    if estimator.alpha is None:
        return f"{what}no loading was found, although variance is left. Lower sparsity or smoothness."
    weights = ", ".join(
        f"{name}={np.array2string(np.asarray(getattr(estimator, f'{name}_')), precision=3)}"
        for name in ("l1", "l2", "tv")
    )
    return (
        f"{what}the penalties ({weights}) leave nothing from the starts tried, or the data have no variance "
        f"left. Lower alpha (now {estimator.alpha}, {estimator.penalty_units}) or n_components"
        f"{_remedy_for_jumps(estimator)}."
    )


def _dense(estimator: Any) -> str:
    """Name components of the penalised model that are dense although the l1 weight is not small.

    Only weights in relative units are checked, whose l1 weight is a threshold on correlations.
    """
    l1 = np.broadcast_to(estimator.alpha, len(estimator.diagnostics_)) * estimator.l1_ratio
    dense = [
        f"component {k + 1}: {record.sparsity:.1%} zeros"
        for k, record in enumerate(estimator.diagnostics_)
        if record.n_nonzero > 0 and record.sparsity < DENSE and l1[k] >= NOTABLE_L1
    ]
    remedy = _remedy_for_jumps(estimator)
    if not dense or not remedy or estimator.penalty_units != "relative":
        return ""
    return f"hardly any loading is zero ({some_of(dense)}){remedy}."


def _remedy_for_jumps(estimator: Any) -> str:
    """Return the remedy where total variation makes components dense or zero; empty if it is weaker."""
    if estimator.tv_ratio <= estimator.l1_ratio or estimator.structure_.n_rows == 0:
        return ""
    return (
        f"; with tv_ratio={estimator.tv_ratio:g} above l1_ratio={estimator.l1_ratio:g}, total variation "
        "flattens wide components, which jump from dense to zero as alpha grows: take a smaller tv_ratio, or "
        "ask for a share of zeros instead (sparsity=0.7 with alpha=None)"
    )


def _other_zeros(estimator: Any) -> str:
    """Return a message about components with another share of zeros than wanted, with cause and remedy."""
    if estimator.alpha is not None:
        return _dense(estimator)
    slack = max(SPARSITY_SLACK, 1.0 / estimator.components_.shape[1]) + SHARE_ROUNDING
    wanted = sparsities(estimator)
    # a smoothed map that is flat elsewhere has more zeros, and nothing is wrong
    smooths = estimator.smoothness > 0 and estimator.structure_.n_rows > 0
    missed = {
        k: record
        for k, record in enumerate(estimator.diagnostics_)
        if record.n_nonzero > 0
        and abs(record.sparsity - wanted[k]) > slack
        and not (smooths and record.sparsity > wanted[k] and record.jump == 0)
    }
    if not missed:
        return ""
    shares = [
        f"component {k + 1}: {own.sparsity:.1%} instead of {wanted[k]:.1%}" for k, own in missed.items()
    ]
    why = _why_not_as_asked(estimator, list(missed.values()))
    return f"the share of zeros is not the one asked for ({some_of(shares)}): {why}"


def _why_not_as_asked(estimator: Any, records: list[ComponentDiagnostics]) -> str:
    """Return the cause of other shares of zeros than wanted, and the remedy."""
    if estimator.smoothness == 0 or estimator.structure_.n_rows == 0:
        return (
            "features that are copies of each other are zero together, and constant ones always are. This "
            "is the closest share; drop such features, or ask for another sparsity."
        )
    used = min(record.smoothness or 0.0 for record in records)
    least = used <= LEAST_SMOOTHNESS * estimator.smoothness
    even = f"even with the smoothness lowered from {estimator.smoothness:g} to {used:.2g}, " if least else ""
    if (least or fits_jointly(estimator)) and any(record.is_global for record in records):
        remedy = (
            'global_signal="regress" takes out what they share; a' if estimator.global_signal is None else "A"
        )
        return (
            f"{even}many features have the same loading to within tol={estimator.tol:g}, because nearly all "
            f"of them rise and fall together. {remedy} lower tol tells loadings apart that are closer to "
            "each other."
        )
    if least:
        return (
            f"{even}many features have the same loading. Features may be constant, copies of each other, or "
            "in so different units that a few outweigh all others: drop them or scale them to the same "
            "variance, or ask for another sparsity."
        )
    lowered = f", lowered to {used:.2g} already" if used < estimator.smoothness else ""
    return (
        "regions enter and leave a smooth loading as a whole, and this is the closest share found. A lower "
        f"smoothness (now {estimator.smoothness:g}{lowered}) or another sparsity avoids such jumps."
    )


def _warn_of_neighbours(estimator: Any, data: Data, structure: Structure) -> None:
    """Warn if neighbours vary together hardly more than random pairs of features, although features do.

    Then X and the structure have their features in different orders, or neighbours do not belong together,
    and smoothing removes the signal. A signal that all features share is removed first. Only arrays in memory
    are checked, because single features of other data are slow to read.
    """
    remedy = "smoothness" if estimator.alpha is None else "tv_ratio"
    smooths = np.any(np.asarray(getattr(estimator, remedy), dtype=np.float64) > 0)
    if not smooths or not isinstance(data, ArrayData) or data.shape[0] < FEWEST_SAMPLES:
        return
    rng = np.random.default_rng(SEED)
    n_samples = min(len(data.samples), MOST_SAMPLES)
    samples = data.samples[np.sort(rng.choice(len(data.samples), n_samples, replace=False))]
    random = _random_pairs(structure.n_features, rng)
    kinds = neighbour_pairs(structure, MOST_PAIRS, rng)
    pairs = [random, *kinds.values()]
    features, places = np.unique(np.concatenate(pairs), return_inverse=True)
    pairs = np.split(places.reshape(-1, 2), np.cumsum([len(own) for own in pairs])[:-1])
    rows = _unit_rows(data.array[samples[:, None], features].T.astype(np.float64, order="C"))
    shared = _shared_part(rows, pairs[0].ravel())
    strangers, *found = (_correlations(rows, shared, own) for own in pairs)
    if len(strangers) < FEWEST_PAIRS:
        return
    # mean and deviation of squared cosines of random vectors, orthogonal to a constant and what is shared
    freedom = n_samples - 2
    noise, deviation = 1 / freedom, np.sqrt(2 / (freedom * (freedom + 2)))
    beyond = np.square(strangers).mean() - noise
    if beyond < BEYOND_NOISE * deviation / np.sqrt(len(strangers)):
        return
    known = {kind: own for kind, own in zip(kinds, found, strict=True) if len(own) >= FEWEST_PAIRS}
    least = _signed_square(strangers) + NOTABLE * beyond
    unlike = {kind: own for kind, own in known.items() if _signed_square(own) < least}
    if unlike:
        where = "" if len(unlike) == len(known) else f" {' and '.join(unlike)}"
        means = f"{np.concatenate(list(unlike.values())).mean():.2f} against {strangers.mean():.2f}"
        warn_user(
            f"neighbours{where} vary together hardly more than features taken at random (mean correlation "
            f"{means}, without what all features share). Smoothing makes neighbours alike, and takes away "
            "what sets them apart: look whether the columns of X are in the order of the structure. If they "
            f"are, {remedy}=0 leaves neighbours alone.",
            NeighbourWarning,
        )


def _random_pairs(n_features: int, rng: np.random.Generator) -> IntArray:
    """Return pairs of different features, shape (MOST_PAIRS, 2), if there are two."""
    first = rng.integers(n_features, size=MOST_PAIRS)
    step = rng.integers(1, max(n_features, 2), size=MOST_PAIRS)
    return np.stack([first, (first + step) % n_features], axis=1)


def _unit_rows(rows: FloatArray) -> FloatArray:
    """Return rows of mean 0 and unit length; those that hardly vary are zero."""
    largest = np.abs(rows).max(axis=1, keepdims=True)
    # squares of very large or small numbers overflow or vanish
    rows = rows / np.where(largest > 0, largest, 1.0)
    rows -= rows.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > FLAT**2)


def _shared_part(rows: FloatArray, places: IntArray) -> FloatArray:
    """Return the cosine of every row with the mean of those at these places, if most of them follow it.

    This mean makes random pairs as alike as neighbours. One that few features follow is a local signal: then,
    all cosines are zero.
    """
    mean = (np.bincount(places, minlength=len(rows)) / len(places)) @ rows
    cosines = rows @ mean / (float(np.linalg.norm(mean)) or 1.0)
    follows = np.median(np.square(cosines[places])) > FOLLOWED / rows.shape[1]
    return cosines if follows else np.zeros_like(cosines)


def _correlations(rows: FloatArray, shared: FloatArray, pairs: IntArray) -> FloatArray:
    """Return the correlations of the pairs of rows (n, 2) that vary, without what all rows share."""
    left = np.einsum("pn,pn->p", rows, rows) - np.square(shared)
    first, second = pairs[(left[pairs] > FLAT**2).all(axis=1)].T
    inner = np.einsum("pn,pn->p", rows[first], rows[second]) - shared[first] * shared[second]
    return np.asarray(inner / np.sqrt(left[first] * left[second]))


def _signed_square(correlations: FloatArray) -> float:
    """Return the mean of the squares, each with the sign of its correlation."""
    return float(np.mean(correlations * np.abs(correlations)))
