"""Fit of checked data with the parameters of an estimator, shared by SPCATV, paths, folds and resamples."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from spcatv._util.types import FloatArray
from spcatv.data import (
    BlockedData,
    CentredData,
    Centring,
    Data,
    StoredData,
    as_data,
    gpu_array_data,
    in_blocks,
    lies_on_gpu,
    on_device,
)
from spcatv.data.operator import ORDINARY
from spcatv.data.protocol import float_dtype
from spcatv.decomposition import (
    Component,
    Decomposition,
    JointFit,
    JointStart,
    LoadingPenalty,
    Plan,
    SparsityTarget,
    WarmStart,
    Weights,
    decompose,
    prepare,
)
from spcatv.estimator._validation import check_some_left, checked_init, fits_jointly, sparsities
from spcatv.kernels.vectors import all_finite
from spcatv.model import recordable
from spcatv.model.checkpoint import Stage, current_checkpoint
from spcatv.problem import TotalVariation, as_penalty
from spcatv.progress import SILENT, Listener
from spcatv.progress.compilation import announce_compilation
from spcatv.structure import Structure

for kind in (Component, JointFit, JointStart, Weights):
    recordable(kind)
announce_compilation()


def checked_data(estimator: Any, X: Any, *, reset: bool, min_samples: int = 1) -> Data:
    """Return X as checked data: finite, with at least `min_samples` samples and the features of the fit.

    In a fit (`reset`) the estimator gets ``n_features_in_`` and, where X has them, ``feature_names_in_``. Its
    `dtype` sets the precision, where None keeps that of X; its `memory_limit` sets the size of blocks.

    Arrays in memory that are not float32 or float64 in C order are copied, once. Dask arrays, HDF5 datasets,
    Zarr arrays and memory maps are read block by block, and searched for NaN when the statistics of their
    columns are computed. Memory maps that fit into memory are used where they lie, and other stored arrays
    of a single block are read once.
    """
    if np.ma.is_masked(X):
        raise ValueError(
            f"{np.count_nonzero(np.ma.getmask(X))} entries of X are masked, and would be read as if they "
            "were not; fill them, for instance with the means of their features, or leave out their samples "
            "or features"
        )
    if lies_on_gpu(X):
        if estimator.device == "cpu":
            raise ValueError(
                f'X is a {type(X).__module__}.{type(X).__qualname__} on a GPU; set device="cuda", or copy X '
                "to the memory of the machine first"
            )
        X = gpu_array_data(X, estimator.dtype)
    if not isinstance(X, (Data, np.ndarray)) or isinstance(X, np.memmap):
        blocks = in_blocks(X, estimator.dtype, estimator.memory_limit, int(estimator.n_components))
        in_memory = blocks.in_memory(X) if isinstance(blocks, StoredData) else None
        X = next(known for known in (in_memory, blocks, X) if known is not None)
    if isinstance(X, Data):
        _check_size(estimator, X, reset=reset, min_samples=min_samples)
        return X
    _check_kind(X)
    dtype = [np.float64, np.float32] if estimator.dtype is None else np.dtype(estimator.dtype)
    if estimator.dtype is None and isinstance(X, np.ndarray):
        dtype = float_dtype(X.dtype)  # scikit-learn would make float64 of float32 in other byte order
    checks = {"reset": reset, "dtype": dtype, "order": "C", "ensure_min_samples": min_samples}
    array = validate_data(estimator, X, ensure_all_finite=False, **checks)
    # and would leave the columns of a table in other byte order as they are
    array = array.astype(float_dtype(array.dtype), copy=False)
    if not all_finite(array):
        raise ValueError(_not_finite(array))
    # return X itself if possible: its identity shows that it has been sent to workers before
    same = type(X) in (np.ndarray, np.memmap) and X.dtype == array.dtype and np.may_share_memory(X, array)
    return as_data(X if same else array)


def _check_kind(X: Any) -> None:
    """Refuse text and more than two dimensions, with a remedy that scikit-learn does not name."""
    if isinstance(X, str):
        raise ValueError(f"X must be an array, got the text {X!r:.80}; read the file first, as np.load does")
    shape = getattr(X, "shape", ())
    if len(shape) > 2:
        raise ValueError(
            f"X must have two dimensions, one row per sample, got shape {tuple(shape)}; if the first axis "
            f"counts samples, give X.reshape(len(X), -1) with structure={tuple(shape[1:])}"
        )


def _not_finite(array: FloatArray) -> str:
    """Return a message that counts the values that are NaN or infinite, and locates the first one."""
    wrong = np.argwhere(~np.isfinite(array))
    what = "NaN" if np.isnan(array).any() else "infinity"
    return (
        f"Input X contains {what}: {len(wrong):,} of {array.size:,} values, the first in sample "
        f"{wrong[0][0]}, feature {wrong[0][1]} (counted from 0); fill them, or leave out such samples "
        "or features"
    )


def _check_size(estimator: Any, data: Data, *, reset: bool, min_samples: int) -> None:
    """Refuse too few samples, and another number of features than that of the fit."""
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


def centred_data(estimator: Any, data: Data) -> CentredData:
    """Return data on the device of the estimator, centred and without global signal if these are set."""
    data = on_device(data, estimator.device, int(estimator.n_components))
    centred = CentredData(data, bool(estimator.center))
    removes_signal = estimator.global_signal is not None
    if isinstance(data, BlockedData) and not removes_signal:
        # the first pass of the sketch computes the statistics, too; numbers beyond its range are found below
        with np.errstate(all="ignore"), suppress(ValueError, np.linalg.LinAlgError):
            prepare(centred, _plan(estimator, centred, keep_warm_start=False), int(estimator.n_components))
    scaled, penalty = centred.at_ordinary_scale(), as_penalty(estimator.penalty)
    # with the fixed weights of other penalties, X in another unit is another problem
    if isinstance(penalty, TotalVariation) or (estimator.alpha is None and not penalty.quadratic):
        centred = scaled
    return centred.without_global_signal() if removes_signal else centred


def centring_attributes(data: CentredData) -> dict[str, Any]:
    """Return the fitted attributes that describe the centring."""
    centring, dtype = data.centring, data.data.dtype
    loading = centring.global_loading
    return {
        "mean_": centring.mean.astype(dtype),
        "global_loading_": None if loading is None else loading.astype(dtype),
    }


def centring_of(estimator: Any) -> Centring:
    """Return the centring of a fitted estimator, in float64."""
    loading = estimator.global_loading_
    return Centring(
        estimator.mean_.astype(np.float64), None if loading is None else loading.astype(np.float64)
    )


def alpha_unit(estimator: Any, data: CentredData) -> float:
    """Return the weight of alpha = 1, in units of the data: ``max_j ||X_j||_2 / N``, or 1 if it is absolute.

    1 for data without any variance.
    """
    if estimator.penalty_units == "absolute":
        return 1.0 / data.unit
    return data.largest_column_norm / data.shape[0] or 1.0


def _requests(
    estimator: Any, data: CentredData, structure: Structure
) -> list[LoadingPenalty] | list[SparsityTarget]:
    """Return the request for every component: a share of zeros, or absolute weights if alpha is given."""
    penalty, positive = estimator.penalty, bool(estimator.positive)
    if estimator.alpha is None:
        smoothness, shares = float(estimator.smoothness), sparsities(estimator).tolist()
        return [SparsityTarget(structure, share, smoothness, penalty, positive) for share in shares]
    l1_ratio, tv_ratio = float(estimator.l1_ratio), float(estimator.tv_ratio)
    alphas = np.broadcast_to(np.asarray(estimator.alpha, np.float64), (int(estimator.n_components),))
    return [
        LoadingPenalty(
            structure,
            Weights(l1=alpha * l1_ratio, l2=alpha * (1.0 - l1_ratio - tv_ratio), tv=alpha * tv_ratio),
            penalty,
            positive,
        )
        for alpha in (alpha_unit(estimator, data) * alphas).tolist()
    ]


def _plan(estimator: Any, data: CentredData, *, keep_warm_start: bool) -> Plan:
    """Return the parameters of the decomposition, in the precision of the data."""
    return Plan(
        tol=float(estimator.tol),
        max_iter=int(estimator.max_iter),
        method=estimator.solver,
        dtype=data.data.dtype,
        init=checked_init(estimator.init, estimator.n_components, data.shape),
        n_init=int(estimator.n_init),
        joint=fits_jointly(estimator),
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
    listener: Listener = SILENT,
) -> Decomposition:
    """Fit checked data with the valid parameters of an estimator, which is not changed.

    The numbers are in the unit of the data. Random starts come from `rng`. With `keep_warm_start`, fits with
    other weights can start from this one. `warm_start` and `listener` are passed to
    `spcatv.decomposition.decompose`.
    """
    if estimator.alpha is None:
        check_some_left(sparsities(estimator), structure.n_features)
    if data.is_empty:
        raise ValueError(
            'global_signal="regress" leaves nothing to fit: every feature is a multiple of the mean over '
            f"features ({data.shape[1]} features); set global_signal=None"
        )
    plan = _plan(estimator, data, keep_warm_start=keep_warm_start)
    prepare(data, plan, int(estimator.n_components))
    requests = _requests(estimator, data, structure)
    # data that could not be scaled: squares of very large or small numbers exceed the range of float32
    low, high = ORDINARY[data.data.dtype]
    if not low < data.largest_column_norm < high:
        plan = replace(plan, dtype=np.float64)
    return decompose(
        data,
        requests,
        plan,
        rng=rng,
        warm_start=warm_start,
        listener=listener,
        journal=_journal(estimator, data, structure, rng),
    )


def _journal(
    estimator: Any, data: CentredData, structure: Structure, rng: np.random.RandomState
) -> Stage | None:
    """Return the stage of the current checkpoint that keeps the components of a fit; None without one."""
    checkpoint = current_checkpoint()
    if checkpoint is None:
        return None
    others = {"structure": None, "random_state": None if estimator.random_state is None else rng}
    about = {"estimator": with_parameters(estimator, others), "X": data.data, "structure": structure}
    return checkpoint.stage("components", about)


def store_fit(estimator: Any, data: CentredData, structure: Structure, decomposition: Decomposition) -> None:
    """Set the fitted attributes of an estimator."""
    dtype, freedom = data.data.dtype, data.shape[0] - 1
    squares, total = decomposition.singular_values**2, data.squared_norm()
    share = squares / total if total > 0 else 0 * squares
    result = decomposition.in_units(data.unit)
    weights_differ = estimator.alpha is None or np.ndim(estimator.alpha) > 0
    for name in ("l1", "l2", "tv"):
        weights = np.array([getattr(own, name) for own in result.weights])
        setattr(estimator, f"{name}_", weights if weights_differ else float(weights[0]))
    vars(estimator).update(
        components_=result.components.astype(dtype),
        **centring_attributes(data),
        # float32 has no room for the variances of large numbers
        singular_values_=result.singular_values,
        explained_variance_=result.singular_values**2 / freedom,
        explained_variance_ratio_=share.astype(dtype),
        structure_=structure,
        reproducibility_=None,
        diagnostics_=result.diagnostics,
        patterns_=(result.patterns / np.sqrt(freedom)).astype(dtype),
        mixing_=result.mixing,
        n_iter_=max(1, *(record.n_alternations for record in result.diagnostics)),
    )


def with_parameters(estimator: Any, parameters: Mapping[str, Any]) -> Any:
    """Return a copy of an estimator with some other parameters; much cheaper than a clone."""
    # a clone would read the signature and copy every parameter, once per fit of a path
    copied = copy(estimator)
    for name, value in parameters.items():
        setattr(copied, name, value)
    return copied
