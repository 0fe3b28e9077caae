"""From parameters and data to a fit: what SPCATV, paths, folds and resamples share.

`fit_data` is a pure function: it reads the parameters of an estimator, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from spcatv._util.types import FloatArray
from spcatv._util.warn import warn_user
from spcatv.data import (
    CentredData,
    Centring,
    Data,
    GlobalSignalRemoved,
    StoredData,
    as_data,
    gpu_array_data,
    in_blocks,
    lies_on_gpu,
    on_device,
)
from spcatv.data.scale import ORDINARY
from spcatv.decomposition import (
    Component,
    ComponentDiagnostics,
    Decomposition,
    LoadingPenalty,
    Plan,
    SparsityTarget,
    WarmStart,
    Weights,
    decompose,
    prepare,
)
from spcatv.decomposition.target import LEAST_SMOOTHNESS
from spcatv.estimator.parameters import ROUNDING, check_some_left, checked_init
from spcatv.kernels.vectors import all_finite
from spcatv.model.checkpoint import Stage, current_checkpoint
from spcatv.model.encoding import recordable
from spcatv.problem import TotalVariation, as_penalty
from spcatv.progress import SILENT, Listener
from spcatv.structure import Structure

# Largest norms of columns between which squares fit into a precision, for data that cannot be scaled.
ORDINARY_SQUARES = {np.dtype(np.float32): (1e-16, 1e16), np.dtype(np.float64): ORDINARY[np.dtype(np.float64)]}
# A share of zeros this close to the wanted one needs no remark.
SPARSITY_SLACK = 0.01
# Nor do so many features of small data, if they are no larger a share than this.
FEW_FEATURES, FEW_SHARE = 5, 0.05
# A component of the penalised model with a smaller share of zeros than this is hardly sparse.
DENSE = 0.05
# A relative l1 weight from here on should leave zeros.
NOTABLE_L1 = 0.03
# Share of the variance that is rounding.
UNEXPLAINED = 1e-5
for kind in (Component, Weights):
    recordable(kind)
# Why a component is dead although variance is left.
NOTHING_LEFT = "the penalty leaves no loading"


class SparsityWarning(UserWarning):
    """Some components have more or fewer zeros than was asked for.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.estimator import SparsityWarning
    >>> warnings.filterwarnings("ignore", category=SparsityWarning)
    """


class NullComponentWarning(UserWarning):
    """Some components are dead: the penalty kills them, or the data have no more to explain.

    Examples
    --------
    >>> import warnings
    >>> from spcatv import SPCATV
    >>> from spcatv.estimator import NullComponentWarning
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", NullComponentWarning)
    ...     model = SPCATV(1, alpha=100.0).fit([[1.0, 2.0], [3.0, 5.0], [2.0, 1.0]])  # far too strong
    >>> [warning.category.__name__ for warning in caught], model.components_
    (['NullComponentWarning'], array([[0., 0.]]))
    """


class ComponentCountWarning(UserWarning):
    """More components are asked for than the data have dimensions.

    Examples
    --------
    >>> import warnings
    >>> from spcatv.estimator import ComponentCountWarning
    >>> warnings.filterwarnings("error", category=ComponentCountWarning)
    """


@dataclass(frozen=True, eq=False)
class Fit:
    """Components of some data, and what an estimator needs to describe them."""

    decomposition: Decomposition  # the components
    structure: Structure  # on the features
    # what was subtracted from the samples: means of the columns, and the global signal if asked for
    centring: Centring
    # what the numbers of the decomposition are multiples of: a power of two, 1 at an ordinary scale
    unit: float
    squared_norm: float  # ``||X||_F^2`` after that, in this unit
    n_samples: int  # N
    dtype: np.dtype[Any]  # precision of the data

    @property
    def components(self) -> FloatArray:
        """Unit loading vectors, shape (K, P), float64."""
        return self.decomposition.components

    def attributes(self, *, weights_differ: bool) -> dict[str, Any]:
        """The fitted attributes of an estimator.

        ``l1_``, ``l2_`` and ``tv_`` are numbers, or arrays of shape (K,) where the weights differ.
        """
        dtype = self.dtype
        squares = self.decomposition.singular_values**2
        share = squares / self.squared_norm if self.squared_norm > 0 else 0 * squares
        result = self.decomposition.in_units(self.unit)
        weights = {
            f"{name}_": np.array([getattr(own, name) for own in result.weights])
            if weights_differ
            else getattr(result.weights[0], name)
            for name in ("l1", "l2", "tv")
        }
        return {
            "components_": result.components.astype(dtype),
            **centring_attributes(self.centring, dtype),
            # float32 has no room for the variances of large numbers
            "singular_values_": result.singular_values,
            "explained_variance_": result.singular_values**2 / (self.n_samples - 1),
            "explained_variance_ratio_": share.astype(dtype),
            **weights,
            "structure_": self.structure,
            "diagnostics_": result.diagnostics,
            "refinement_": result.refinement,
            "n_iter_": max(1, *(record.n_alternations for record in result.diagnostics)),
        }


def checked_data(estimator: Any, X: Any, *, reset: bool, min_samples: int = 1) -> Data:
    """X as checked data: finite numbers, at least `min_samples` samples, the features that were seen in fit.

    In a fit (`reset`) the estimator gets ``n_features_in_`` and, where X has them, ``feature_names_in_``. Its
    `dtype` sets the precision, where None keeps that of X; its `memory_limit` sets the size of blocks.

    Arrays in memory that are not float32 or float64 in C order are copied, once. Dask arrays, HDF5 datasets,
    Zarr arrays and memory maps are read block by block, and looked through for NaN when their columns'
    statistics are computed. Memory maps that fit into memory are used where they lie, and other stored arrays
    of a single block are read once.
    """
    if np.ma.is_masked(X):
        raise ValueError(
            f"{np.count_nonzero(np.ma.getmask(X))} entries of X are masked, and would be read as if they "
            "were not; fill them, for instance with the means of their columns, or leave out their samples "
            "or features"
        )
    if lies_on_gpu(X):
        if estimator.device == "cpu":
            raise ValueError(
                f'X is a {type(X).__module__}.{type(X).__qualname__} on a GPU; set device="cuda", or copy X '
                "to the memory of the machine first"
            )
        X = gpu_array_data(X, estimator.dtype)
    if isinstance(X, Data):
        return _checked_again(estimator, X, reset=reset, min_samples=min_samples)
    if not isinstance(X, np.ndarray) or isinstance(X, np.memmap):
        data = in_blocks(X, estimator.dtype, estimator.memory_limit, int(estimator.n_components))
        in_memory = data.in_memory(X) if isinstance(data, StoredData) else None
        if data is not None and in_memory is None:
            return _checked_again(estimator, data, reset=reset, min_samples=min_samples)
        X = X if in_memory is None else in_memory
    dtype = [np.float64, np.float32] if estimator.dtype is None else np.dtype(estimator.dtype)
    checks = {"reset": reset, "dtype": dtype, "order": "C", "ensure_min_samples": min_samples}
    array = validate_data(estimator, X, ensure_all_finite=False, **checks)
    if not all_finite(array):  # scikit-learn has the words for it
        validate_data(estimator, X, **checks)
    # X itself where it serves as it is: what was sent to workers before is recognised by its identity
    same = type(X) in (np.ndarray, np.memmap) and X.dtype == array.dtype and np.may_share_memory(X, array)
    return as_data(X if same else array)


def _checked_again(estimator: Any, data: Data, *, reset: bool, min_samples: int) -> Data:
    n_samples, n_features = data.shape
    if n_samples < min_samples or n_features < 1:
        raise ValueError(
            f"X has {n_samples} samples and {n_features} features; at least {min_samples} and 1 are needed"
        )
    if reset:
        estimator.n_features_in_ = n_features
    elif n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input"
        )
    return data


def centred_data(estimator: Any, data: Data) -> CentredData:
    """The data as an estimator asks for: on its device, centred or not, with or without global signal."""
    kind = CentredData if estimator.global_signal is None else GlobalSignalRemoved
    data = on_device(data, estimator.device, int(estimator.n_components))
    centred = kind(data, bool(estimator.center))
    if hasattr(data, "first_look"):
        # the first pass of the sketch tells the statistics, too; numbers beyond its range are found below
        with np.errstate(all="ignore"), suppress(ValueError, np.linalg.LinAlgError):
            prepare(centred, _plan(estimator, centred, keep_warm_start=False), int(estimator.n_components))
    scaled = centred.at_ordinary_scale()
    if scaled is centred or isinstance(as_penalty(estimator.penalty), TotalVariation):
        return scaled
    # other penalties are not homogeneous: X in another unit is another problem
    low, high = ORDINARY_SQUARES[data.dtype]
    if not low < centred.largest_column_norm < high:
        raise ValueError(
            f"the largest norm of a column of X is {centred.largest_column_norm:.3g}; with the penalty "
            f"{estimator.penalty!r} and {data.dtype} it must lie between {low:g} and {high:g}: multiply X "
            'by a constant, or take penalty="tv"'
        )
    return centred


def centring_attributes(centring: Centring, dtype: np.dtype[Any]) -> dict[str, Any]:
    """The fitted attributes of an estimator that say what is subtracted from samples."""
    loading = centring.global_loading
    return {
        "mean_": centring.mean.astype(dtype),
        "global_loading_": None if loading is None else loading.astype(dtype),
    }


def centring_of(estimator: Any) -> Centring:
    """What a fitted estimator subtracts from samples, in float64."""
    loading = estimator.global_loading_
    return Centring(
        estimator.mean_.astype(np.float64), None if loading is None else loading.astype(np.float64)
    )


def alpha_unit(estimator: Any, data: CentredData) -> float:
    """What alpha = 1 stands for in the objective: ``max_j ||X_j||_2 / N``, or 1 if the penalty is absolute.

    In units of the data. Data without any variance have nothing to scale by, nor anything to fit: 1.
    """
    if estimator.penalty_units == "absolute":
        return 1.0 / data.unit
    return data.largest_column_norm / data.shape[0] or 1.0


def penalty_weights(estimator: Any, data: CentredData) -> tuple[Weights, ...]:
    """Absolute weights of every component, from alpha (one for all, or one per component) and the ratios."""
    l1_ratio, tv_ratio = float(estimator.l1_ratio), float(estimator.tv_ratio)
    absolute = alpha_unit(estimator, data) * np.broadcast_to(
        np.asarray(estimator.alpha, dtype=np.float64), (int(estimator.n_components),)
    )
    return tuple(
        Weights(l1=alpha * l1_ratio, l2=alpha * (1.0 - l1_ratio - tv_ratio), tv=alpha * tv_ratio)
        for alpha in absolute.tolist()
    )


def _requests(
    estimator: Any, data: CentredData, structure: Structure
) -> list[LoadingPenalty] | list[SparsityTarget]:
    """What every component is asked for: a share of zeros, or weights if alpha is given."""
    penalty, positive = estimator.penalty, bool(estimator.positive)
    if estimator.alpha is not None:
        weights = penalty_weights(estimator, data)
        return [LoadingPenalty(structure, own, penalty, positive) for own in weights]
    smoothness, shares = float(estimator.smoothness), _sparsities(estimator).tolist()
    return [SparsityTarget(structure, share, smoothness, penalty, positive) for share in shares]


def _sparsities(estimator: Any) -> FloatArray:
    """The share of zeros that every component is asked for."""
    return np.broadcast_to(np.asarray(estimator.sparsity, dtype=np.float64), (int(estimator.n_components),))


def _plan(estimator: Any, data: CentredData, *, keep_warm_start: bool) -> Plan:
    """How to fit, in the precision of the data."""
    return Plan(
        tol=float(estimator.tol),
        max_iter=int(estimator.max_iter),
        method=estimator.solver,
        dtype=data.data.dtype,
        init=checked_init(estimator.init, estimator.n_components, data.shape[1]),
        n_init=int(estimator.n_init),
        refine=bool(estimator.refine),
        refit=estimator.refit is not None,
        keep_warm_start=keep_warm_start,
    )


def fit_data(
    estimator: Any,
    data: CentredData,
    structure: Structure,
    *,
    rng: np.random.RandomState,
    keep_warm_start: bool = False,
    warm_start: WarmStart | None = None,
    found: Decomposition | None = None,
    listener: Listener = SILENT,
) -> Fit:
    """Fit checked data with the valid parameters of an estimator, which is not changed.

    Random starts come from `rng`. With `keep_warm_start`, fits with other weights can start from this one.
    `warm_start`, `found` and `listener` are those of `spcatv.decomposition.decompose`.
    """
    if estimator.alpha is None:
        check_some_left(_sparsities(estimator), structure.n_features)
    if isinstance(data, GlobalSignalRemoved) and data.is_empty:
        raise ValueError(
            'global_signal="regress" leaves nothing to fit: every feature is a multiple of the mean over '
            f"features ({data.shape[1]} features); set global_signal=None"
        )
    plan = _plan(estimator, data, keep_warm_start=keep_warm_start)
    prepare(data, plan, int(estimator.n_components))
    requests = _requests(estimator, data, structure)
    # squares of very large or small numbers leave float32; data that could be scaled were
    low, high = ORDINARY[data.data.dtype]
    if not low < data.largest_column_norm < high:
        plan = replace(plan, dtype=np.float64)
    result = decompose(
        data,
        requests,
        plan,
        rng=rng,
        warm_start=warm_start,
        found=found,
        listener=listener,
        journal=_journal(estimator, data, structure, rng),
    )
    return Fit(
        decomposition=result,
        structure=structure,
        centring=data.centring.in_units(data.unit),
        unit=data.unit,
        squared_norm=data.squared_norm(),
        n_samples=data.shape[0],
        dtype=data.data.dtype,
    )


def _journal(
    estimator: Any, data: CentredData, structure: Structure, rng: np.random.RandomState
) -> Stage | None:
    """Where the checkpoint around the caller keeps the components of a fit; None without a checkpoint."""
    checkpoint = current_checkpoint()
    if checkpoint is None:
        return None
    others = {"structure": None, "random_state": None if estimator.random_state is None else rng}
    about = {"estimator": with_parameters(estimator, others), "X": data.data, "structure": structure}
    return checkpoint.stage("components", about)


def store_fit(estimator: Any, fit: Fit) -> None:
    """Set the fitted attributes of an estimator."""
    for name, value in fit.attributes(
        weights_differ=estimator.alpha is None or np.ndim(estimator.alpha) > 0
    ).items():
        setattr(estimator, name, value)


def with_parameters(estimator: Any, parameters: Mapping[str, Any]) -> Any:
    """A copy of an estimator with some other parameters; much cheaper than a clone."""
    # a clone would read the signature and copy every parameter, once per fit of a path
    copied = copy(estimator)
    for name, value in parameters.items():
        setattr(copied, name, value)
    return copied


def warn_of_count(estimator: Any, shape: tuple[int, int]) -> None:
    """Warn before a fit of more components than N x P data can have: at most min(N, P), or N - 1 centred."""
    n_samples, n_features = shape
    most = min(n_samples - bool(estimator.center), n_features)
    if estimator.n_components > most:
        explain = "1 component" if most == 1 else f"{most} components"
        warn_user(
            f"n_components={estimator.n_components} is more than the rank of the data, which is {most} at "
            f"most ({n_samples} samples{', centred' if estimator.center else ''}, {n_features} features): "
            f"{explain} can explain all of the variance. Further ones divide it anew, or are dead.",
            ComponentCountWarning,
        )


def warn_about(estimator: Any) -> None:
    """Warn of components of a fitted estimator that have not converged, are zero, or are not sparse."""
    missed = [
        f"component {k + 1}: relative gap {record.relative_gap:.2e} after {record.n_alternations}"
        for k, record in enumerate(estimator.diagnostics_)
        if not record.converged and not record.is_dead
    ]
    if missed:
        warn_user(
            f"tol={estimator.tol:g} was not reached ({'; '.join(missed)} alternations); the loadings are "
            f"certified to these gaps only. Raise max_iter (now {estimator.max_iter}) or tol.",
            ConvergenceWarning,
        )
    if estimator.alpha is None:
        _warn_of_zeros(estimator)
    else:
        _warn_of_dense(estimator)
    _warn_of_null(estimator)


def dead_components(estimator: Any) -> dict[int, str]:
    """The dead components of a fitted estimator: from their numbers, counted from 0, to why they are dead."""
    explained = np.cumsum(estimator.explained_variance_ratio_)
    return {
        k: "no variance is left" if k > 0 and explained[k - 1] >= 1 - UNEXPLAINED else NOTHING_LEFT
        for k, record in enumerate(estimator.diagnostics_)
        if record.is_dead
    }


def _warn_of_null(estimator: Any) -> None:
    """Warn of dead components, say why, and what to do."""
    n_components, null = len(estimator.diagnostics_), [str(k + 1) for k in dead_components(estimator)]
    if null:
        why = _why_null(estimator, n_live=n_components - len(null))
        warn_user(
            f"{len(null)} of {n_components} components are dead (number {', '.join(null)}): {why}",
            NullComponentWarning,
        )


def _why_null(estimator: Any, n_live: int) -> str:
    if n_live > 0 and estimator.explained_variance_ratio_.sum() >= 1 - UNEXPLAINED:
        explain = "1 component explains" if n_live == 1 else f"{n_live} components explain"
        return (
            f"the data have rank {n_live} at most, because {explain} all of the variance. Lower n_components "
            f"(now {estimator.n_components}) to {n_live}."
        )
    if estimator.alpha is None and n_live == 0:
        return "the data do not vary."
    if estimator.alpha is None:
        return "no loading was found, although variance is left. Lower sparsity or smoothness."
    weights = ", ".join(
        f"{name}={np.array2string(np.asarray(getattr(estimator, f'{name}_')), precision=3)}"
        for name in ("l1", "l2", "tv")
    )
    return (
        f"the penalties ({weights}) leave nothing from the starts tried, or the data have no variance left. "
        f"Lower alpha (now {estimator.alpha}, {estimator.penalty_units}) or n_components"
        f"{_remedy_for_jumps(estimator)}."
    )


def _warn_of_dense(estimator: Any) -> None:
    """Warn of components of the penalised model that are dense although the l1 weight is not small.

    Only relative weights tell: on standardised columns that of the l1 norm is a threshold on correlations.
    """
    l1 = np.broadcast_to(estimator.alpha, len(estimator.diagnostics_)) * estimator.l1_ratio
    dense = [
        f"component {k + 1}: {record.sparsity:.1%} zeros"
        for k, record in enumerate(estimator.diagnostics_)
        if record.n_nonzero > 0 and record.sparsity < DENSE and l1[k] >= NOTABLE_L1
    ]
    remedy = _remedy_for_jumps(estimator)
    if dense and remedy and estimator.penalty_units == "relative":
        warn_user(f"hardly any loading is zero ({'; '.join(dense)}){remedy}.", SparsityWarning)


def _remedy_for_jumps(estimator: Any) -> str:
    """What to do where total variation makes a component dense or zero; empty if it is weaker than l1."""
    if estimator.tv_ratio <= estimator.l1_ratio or estimator.structure_.n_rows == 0:
        return ""
    return (
        f"; with tv_ratio={estimator.tv_ratio:g} above l1_ratio={estimator.l1_ratio:g}, total variation "
        "flattens wide components, which jump from dense to zero as alpha grows: take a smaller tv_ratio, or "
        "ask for a share of zeros instead (sparsity=0.7 with alpha=None)"
    )


def _warn_of_zeros(estimator: Any) -> None:
    """Warn of components whose share of zeros is not the one asked for, say why, and what to do."""
    n_features = estimator.components_.shape[1]
    # on small data a plateau of a few features is no news
    few = min(FEW_FEATURES / n_features, FEW_SHARE)
    slack = max(SPARSITY_SLACK, few, 1.0 / n_features) + ROUNDING
    wanted = _sparsities(estimator)
    missed = [
        (k, record)
        for k, record in enumerate(estimator.diagnostics_)
        if record.n_nonzero > 0 and abs(record.sparsity - wanted[k]) > slack
    ]
    if missed:
        shares = "; ".join(
            f"component {k + 1}: {record.sparsity:.1%} instead of {wanted[k]:.1%}" for k, record in missed
        )
        why = _why_not_as_asked(estimator, [record for _, record in missed])
        warn_user(f"the share of zeros is not the one asked for ({shares}): {why}", SparsityWarning)


def _why_not_as_asked(estimator: Any, records: list[ComponentDiagnostics]) -> str:
    """Why these components have other shares of zeros than were asked for, and what to do."""
    if estimator.smoothness == 0 or estimator.structure_.n_rows == 0:
        return (
            "features that are copies of each other are zero together, and constant ones always are. This "
            "is the closest share; drop such features, or ask for another sparsity."
        )
    used = min(record.smoothness or 0.0 for record in records)
    if used <= LEAST_SMOOTHNESS * estimator.smoothness:
        at_least = (
            f"even with the smoothness lowered from {estimator.smoothness:g} to {used:.2g}, many features"
        )
        if any(record.is_global for record in records) and estimator.global_signal is None:
            return (
                f"{at_least} have the same loading to within tol={estimator.tol:g}, because nearly all of "
                'them rise and fall together. global_signal="regress" (--regress-global) takes out what they '
                "share; a lower tol tells loadings apart that are closer to each other."
            )
        return (
            f"{at_least} have the same loading. Features may be constant, copies of each other, or in so "
            "different units that a few outweigh all others: drop them or scale them to the same variance, "
            "or ask for another sparsity."
        )
    lowered = f", lowered to {used:.2g} already" if used < estimator.smoothness else ""
    return (
        "regions enter and leave a smooth loading as a whole, and this is the closest share found. A lower "
        f"smoothness (now {estimator.smoothness:g}{lowered}) or another sparsity avoids such jumps."
    )
