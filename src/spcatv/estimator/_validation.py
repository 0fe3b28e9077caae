"""Checks of the estimators' parameters: every message says what is wrong and what would be right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from spcatv._util import parameters as allowed
from spcatv._util.parameters import FIT, PENALISED_PARAMETERS, TARGET_PARAMETERS, Init
from spcatv._util.types import FloatArray
from spcatv.data import checked_memory_limit
from spcatv.problem import PENALTIES, StructuredPenalty

# A share of zeros must leave at least so much; what is left is rounded to whole features.
HALF_A_FEATURE = 0.5
ROUNDING = 1e-12
# The smallest relative gap that float64 can tell from zero.
SMALLEST_TOL = 1e-14


def check_parameters(estimator: Any) -> None:
    """Raise a ValueError or TypeError for the first parameter that is wrong."""
    if isinstance(estimator.n_components, str) and estimator.n_components == "auto":
        raise ValueError(
            "n_components must be an integer >= 1, got 'auto': spcatv.selection.count_components(estimator, "
            "X).choice.n_components is the number that held-out samples ask for, which `spca-tv fit "
            "--n-components auto` uses"
        )
    for name in TARGET_PARAMETERS:
        if isinstance(getattr(estimator, name), str) and getattr(estimator, name) == "auto":
            raise ValueError(
                f"{name} must be a number, got 'auto': spcatv.SPCATVCV, or `spca-tv select`, chooses "
                "sparsity and smoothness by cross-validation"
            )
    for name in ("n_components", "max_iter", "n_init"):
        _check_count(name, getattr(estimator, name))
    _check_sparsity(estimator.sparsity, int(estimator.n_components))
    _check_weight("smoothness", estimator.smoothness)
    if estimator.alpha is not None:
        _check_alpha(estimator.alpha, int(estimator.n_components))
        _check_default_target(estimator.sparsity, estimator.smoothness)
    _check_ratios(estimator.l1_ratio, estimator.tv_ratio)
    _check_real("tol", estimator.tol)
    if not SMALLEST_TOL <= estimator.tol < 1:
        raise ValueError(
            f"tol must lie between {SMALLEST_TOL:g} and 1 (it is a relative gap, and float64 has no digits "
            f"for smaller ones), got {estimator.tol}"
        )
    for name in ("positive", "center"):
        check_switch(name, getattr(estimator, name))
    if not isinstance(estimator.verbose, Integral) or estimator.verbose < 0:
        raise ValueError(f"verbose must be 0, 1 or 2, got {estimator.verbose!r}")
    check_choice("penalty_units", estimator.penalty_units, allowed.UNITS)
    if not isinstance(estimator.penalty, StructuredPenalty):
        check_choice("penalty", estimator.penalty, PENALTIES)
    check_choice("method", estimator.method, allowed.METHODS)
    if fits_jointly(estimator):
        _check_joint(estimator)
    check_choice("transform_method", estimator.transform_method, allowed.TRANSFORMS)
    for name, choices in (("global_signal", allowed.GLOBAL_SIGNALS), ("refit", allowed.REFITS)):
        check_choice(name, getattr(estimator, name), (None, *choices))
    if not callable(estimator.solver):
        check_choice("solver", estimator.solver, allowed.SOLVER_NAMES)
    if estimator.dtype is not None and _dtype_name(estimator.dtype) not in allowed.DTYPES:
        raise ValueError(f"dtype must be None, {' or '.join(allowed.DTYPES)}, got {estimator.dtype!r}")
    checked_memory_limit(estimator.memory_limit)
    check_choice("device", estimator.device, allowed.DEVICES)


def fits_jointly(estimator: Any) -> bool:
    """Whether all components are fitted at once: by default, unless alpha is given."""
    return estimator.method == "joint" or (estimator.method == "auto" and estimator.alpha is None)


def _check_joint(estimator: Any) -> None:
    """Refuse what only a deflation has."""
    if estimator.refit is not None:
        raise ValueError(
            "refit belongs to method='deflation': the loadings of a joint fit of a wanted sparsity are not "
            "shrunk; set refit=None"
        )
    if estimator.n_init > 1:
        raise ValueError(
            f"n_init={estimator.n_init} belongs to method='deflation': a joint fit has one start; set it to 1"
        )


def parameters_in_use(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator, without those of the way to set the weights that it does not use."""
    unused = PENALISED_PARAMETERS if parameters.get("alpha") is None else TARGET_PARAMETERS
    return {name: value for name, value in parameters.items() if name not in unused}


def _dtype_name(dtype: Any) -> str:
    try:
        return np.dtype(dtype).name
    except TypeError:
        return "unknown"


def check_switch(name: str, value: Any) -> None:
    """Raise a TypeError unless a parameter is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def checked_count(value: Any, name: str) -> int:
    """A number of fits or settings, at least 1."""
    if isinstance(value, bool) or int(value) != value or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
    return int(value)


def _check_count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer >= 1, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")


def _check_real(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        several = value == "grid" if isinstance(value, str) else isinstance(value, (list, tuple, np.ndarray))
        hint = "; spcatv.SPCATVCV compares several values" if several else ""
        raise TypeError(f"{name} must be a finite number, got {value!r}{hint}")


def _check_alpha(alpha: Any, n_components: int) -> None:
    """One positive number, or one per component."""
    for value in _per_component("alpha", alpha, n_components):
        _check_weight("alpha", value)
        if value == 0:
            raise ValueError(
                "alpha must be above 0: without any l2 penalty a loading has no length; for plain PCA take a "
                "tiny alpha such as 1e-8, or scikit-learn's PCA"
            )


def _check_default_target(sparsity: Any, smoothness: Any) -> None:
    """With alpha, a wanted sparsity or smoothness would be ignored."""
    if np.ndim(sparsity) > 0 or sparsity != FIT.sparsity or smoothness != FIT.smoothness:
        raise ValueError(
            f"alpha sets the weights, and sparsity={sparsity!r}, smoothness={smoothness!r} would be ignored; "
            "give either alpha, or sparsity and smoothness with alpha=None"
        )


def _check_sparsity(sparsity: Any, n_components: int) -> None:
    """A share of zeros, or one per component."""
    for share in _per_component("sparsity", sparsity, n_components):
        _check_real("sparsity", share)
        if not 0 <= share < 1:
            raise ValueError(f"sparsity is a share of zeros, at least 0 and below 1; got {sparsity!r}")


def _per_component(name: str, value: Any, n_components: int) -> Sequence[Any]:
    """The numbers of a parameter that is one number, or one per component."""
    if np.ndim(value) == 0:
        return (value,)
    if np.ndim(value) > 1 or len(value) != n_components:
        raise ValueError(
            f"{name} must be one number, or one for each of the {n_components} components; got {value!r}"
        )
    return list(value)


def check_some_left(sparsity: FloatArray, n_features: int) -> None:
    """Raise a ValueError for a share of zeros that leaves less than half a feature: after rounding, none."""
    largest = 1 - HALF_A_FEATURE / n_features
    for share in sparsity:
        if share > largest + ROUNDING:
            decimals = len(str(n_features))
            allowed = np.floor((largest + ROUNDING) * 10**decimals) / 10**decimals
            raise ValueError(
                f"sparsity={share:.{decimals + 3}g} leaves no feature that is not zero "
                f"(n_features={n_features}); ask for at most {allowed:.{decimals}f}"
            )


def _check_weight(name: str, value: Any) -> None:
    _check_real(name, value)
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value}")


def _check_ratios(l1_ratio: Any, tv_ratio: Any) -> None:
    _check_weight("l1_ratio", l1_ratio)
    _check_weight("tv_ratio", tv_ratio)
    if l1_ratio + tv_ratio >= 1:
        raise ValueError(
            f"l1_ratio + tv_ratio must be below 1, got {l1_ratio} + {tv_ratio} = {l1_ratio + tv_ratio:g}: "
            "what is left goes to the l2 penalty, without which the problem is unbounded"
        )


def check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    """Raise a ValueError unless a parameter is one of a few words, or None where that is one of them."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"unknown {name} {value!r}; choose one of {', '.join(map(repr, choices))}")


def checked_init(init: Any, n_components: int, shape: tuple[int, int]) -> Init | FloatArray:
    """Return a name of `init`, or finite loadings (K, P), or finite scores (N, K) as rows (K, N)."""
    if isinstance(init, str):
        check_choice("init", init, allowed.INITS)
        return next(name for name in allowed.INITS if name == init)
    n_samples, n_features = shape
    given = np.asarray(init)
    is_loadings, is_scores = (
        given.shape == (n_components, n_features),
        given.shape == (n_samples, n_components),
    )
    if given.dtype.kind not in "fiub" or not (is_loadings or is_scores):
        raise ValueError(
            f"init must be one of {', '.join(map(repr, allowed.INITS))}, loadings of shape "
            f"({n_components}, {n_features}) or scores of shape ({n_samples}, {n_components}); got "
            f"{type(init).__name__} of shape {given.shape}"
        )
    given = given.astype(np.float64)
    if not np.isfinite(given).all():
        raise ValueError("the array given as init holds NaN or infinite entries")
    return given if is_loadings else np.ascontiguousarray(given.T)


def sparsities(estimator: Any) -> FloatArray:
    """The share of zeros that every component is asked for."""
    return np.broadcast_to(np.asarray(estimator.sparsity, dtype=np.float64), (int(estimator.n_components),))
