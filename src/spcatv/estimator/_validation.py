"""Checks of the parameters of estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import Any, cast

import numpy as np

from spcatv._util import parameters as allowed
from spcatv._util.parameters import FIT, PENALISED_PARAMETERS, TARGET_PARAMETERS, Init
from spcatv._util.types import FloatArray
from spcatv.data import checked_memory_limit
from spcatv.problem import PENALTIES, StructuredPenalty

# Parameters that are one of a few words, or None.
CHOICES: dict[str, tuple[str | None, ...]] = {
    "penalty_units": allowed.UNITS,
    "method": allowed.METHODS,
    "transform_method": allowed.TRANSFORMS,
    "global_signal": (None, *allowed.GLOBAL_SIGNALS),
    "refit": (None, *allowed.REFITS),
    "device": allowed.DEVICES,
}
# Largest difference of shares of zeros that counts as rounding.
SHARE_ROUNDING = 1e-12
# Smallest relative gap that float64 can distinguish from zero.
SMALLEST_TOL = 1e-14


def check_parameters(estimator: Any) -> None:
    """Raise a ValueError or TypeError for the first parameter that is wrong."""
    if isinstance(estimator.n_components, str) and estimator.n_components == "auto":
        raise ValueError(
            "n_components must be an integer >= 1, got 'auto': spcatv.selection.count_components(estimator, "
            "X).choice.n_components is the number that held-out samples support, which `spca-tv fit "
            "--n-components auto` uses"
        )
    for name in TARGET_PARAMETERS:
        value = getattr(estimator, name)
        if isinstance(value, str) and value == "auto":
            raise ValueError(
                f"{name} must be a number, got 'auto': spcatv.SPCATVCV, or `spca-tv select`, chooses "
                "sparsity and smoothness by cross-validation"
            )
    for name in ("n_components", "max_iter", "n_init"):
        checked_count(getattr(estimator, name), name)
    n_components = int(estimator.n_components)
    for share in _per_component("sparsity", estimator.sparsity, n_components):
        _check_number("sparsity", share)
        if not 0 <= share < 1:
            meant = f"; did you mean {share / 100:g}?" if 1 < share < 100 else ""
            raise ValueError(
                f"sparsity is a share of zeros, at least 0 and below 1; got {estimator.sparsity!r}{meant}"
            )
    for name in ("smoothness", "l1_ratio", "tv_ratio"):
        _check_number(name, getattr(estimator, name), negative=False)
    if estimator.alpha is not None:
        _check_alpha(estimator)
    l1_ratio, tv_ratio = estimator.l1_ratio, estimator.tv_ratio
    if l1_ratio + tv_ratio >= 1:
        raise ValueError(
            f"l1_ratio + tv_ratio must be below 1, got {l1_ratio} + {tv_ratio} = {l1_ratio + tv_ratio:g}: "
            "the rest goes to the l2 penalty, without which the problem is unbounded"
        )
    _check_number("tol", estimator.tol)
    if not SMALLEST_TOL <= estimator.tol < 1:
        raise ValueError(
            f"tol must lie between {SMALLEST_TOL:g} and 1 (it is a relative gap, and float64 has no digits "
            f"for smaller ones), got {estimator.tol}"
        )
    for name in ("positive", "center"):
        check_switch(name, getattr(estimator, name))
    if not isinstance(estimator.verbose, Integral) or estimator.verbose < 0:
        raise ValueError(f"verbose must be 0, 1 or 2, got {estimator.verbose!r}")
    if fits_jointly(estimator):
        _check_joint(estimator)
    for name, choices in CHOICES.items():
        check_choice(name, getattr(estimator, name), choices)
    if not isinstance(estimator.penalty, StructuredPenalty):
        check_choice("penalty", estimator.penalty, PENALTIES)
    if not callable(estimator.solver):
        check_choice("solver", estimator.solver, allowed.SOLVER_NAMES)
    if estimator.dtype is not None and estimator.dtype not in map(np.dtype, allowed.DTYPES):
        raise ValueError(f"dtype must be None, {' or '.join(allowed.DTYPES)}, got {estimator.dtype!r}")
    checked_memory_limit(estimator.memory_limit)


def fits_jointly(estimator: Any) -> bool:
    """Return whether all components are fitted at once: by default, unless alpha is given."""
    return estimator.method == "joint" or (estimator.method == "auto" and estimator.alpha is None)


def _check_joint(estimator: Any) -> None:
    """Refuse parameters that only a deflation has."""
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
    """Return the parameters without `alpha` and its ratios, or without sparsity and smoothness, if unused."""
    unused = PENALISED_PARAMETERS if parameters.get("alpha") is None else TARGET_PARAMETERS
    return {name: value for name, value in parameters.items() if name not in unused}


def check_switch(name: str, value: Any) -> None:
    """Raise a TypeError unless a parameter is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")


def checked_count(value: Any, name: str) -> int:
    """Return a number of fits, settings or components as an int; refuse anything else, and less than 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer >= 1, got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1, got {value}")
    return int(value)


def _check_number(name: str, value: Any, *, negative: bool = True) -> None:
    """Refuse anything but a finite number, and one below 0 unless it may be `negative`."""
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)):
        several = value == "grid" if isinstance(value, str) else isinstance(value, (list, tuple, np.ndarray))
        hint = "; spcatv.SPCATVCV compares several values" if several else ""
        raise TypeError(f"{name} must be a finite number, got {value!r}{hint}")
    if value < 0 and not negative:
        raise ValueError(f"{name} must not be negative, got {value}")


def _check_alpha(estimator: Any) -> None:
    """Refuse anything but one positive number, or one per component; and sparsity or smoothness beside it."""
    for value in _per_component("alpha", estimator.alpha, int(estimator.n_components)):
        _check_number("alpha", value, negative=False)
        if value == 0:
            raise ValueError(
                "alpha must be above 0: without any l2 penalty a loading has no length; for plain PCA take a "
                "tiny alpha such as 1e-8, or scikit-learn's PCA"
            )
    sparsity, smoothness = estimator.sparsity, estimator.smoothness
    if np.ndim(sparsity) > 0 or sparsity != FIT.sparsity or smoothness != FIT.smoothness:
        raise ValueError(
            f"alpha sets the weights, and sparsity={sparsity!r}, smoothness={smoothness!r} would be ignored; "
            "give either alpha, or sparsity and smoothness with alpha=None"
        )


def _per_component(name: str, value: Any, n_components: int) -> Sequence[Any]:
    """Return the numbers of a parameter that is one number, or one per component."""
    if np.ndim(value) == 0:
        return (value,)
    if np.ndim(value) > 1 or len(value) != n_components:
        raise ValueError(
            f"{name} must be one number, or one for each of the {n_components} components; got {value!r}"
        )
    return list(value)


def check_some_left(sparsity: FloatArray, n_features: int) -> None:
    """Refuse a share of zeros that leaves less than half a feature: after rounding, none."""
    largest = 1 - 0.5 / n_features
    for share in sparsity:
        if share > largest + SHARE_ROUNDING:
            decimals = len(str(n_features))
            most = np.floor((largest + SHARE_ROUNDING) * 10**decimals) / 10**decimals
            raise ValueError(
                f"sparsity={share:.{decimals + 3}g} leaves no feature that is not zero "
                f"(n_features={n_features}); ask for at most {most:.{decimals}f}"
            )


def check_choice(name: str, value: Any, choices: tuple[str | None, ...]) -> None:
    """Raise a ValueError unless a parameter is one of a few words, or None where that is one of them."""
    if not (value is None or isinstance(value, str)) or value not in choices:
        raise ValueError(f"unknown {name} {value!r}; choose one of {', '.join(map(repr, choices))}")


def checked_init(init: Any, n_components: int, shape: tuple[int, int]) -> Init | FloatArray:
    """Return a name of `init`, or finite loadings (K, P), or finite scores (N, K) as rows (K, N)."""
    if isinstance(init, str):
        check_choice("init", init, allowed.INITS)
        return cast(Init, init)
    n_samples, n_features = shape
    given = np.asarray(init)
    is_loadings = given.shape == (n_components, n_features)
    if given.dtype.kind not in "fiub" or not (is_loadings or given.shape == (n_samples, n_components)):
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
    """Return the wanted share of zeros of every component, shape (K,)."""
    return np.broadcast_to(np.asarray(estimator.sparsity, dtype=np.float64), (int(estimator.n_components),))
