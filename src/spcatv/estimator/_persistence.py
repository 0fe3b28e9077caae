"""Fitted SPCATV as a `SavedModel`, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from spcatv._util.types import Array
from spcatv._util.warn import warn_user
from spcatv.decomposition import ComponentDiagnostics
from spcatv.estimator._validation import check_parameters
from spcatv.estimator.verdicts import Reproducibility
from spcatv.model import ModelError, SavedModel, checked, pack, recordable, unpack
from spcatv.problem.penalties import PENALTY_CLASSES
from spcatv.structure import Structure

Arrays = dict[str, Array]
Estimator = TypeVar("Estimator")
recordable(ComponentDiagnostics)

# What a fit finds: attributes of the estimator without the underscore at the end, and their types.
NUMBERS: dict[str, Any] = {
    **dict.fromkeys(("l1", "l2", "tv"), float | tuple[float, ...]),
    **dict.fromkeys(("n_iter", "n_features_in"), int),
}
# The same for arrays of floating point numbers, with their shapes for K components and P features.
ARRAYS: Mapping[str, str] = {
    "components": "KP",
    "patterns": "KP",
    "mean": "P",
    "singular_values": "K",
    "explained_variance": "K",
    "explained_variance_ratio": "K",
}
# The same for arrays that a model has only with some parameters.
OPTIONAL_ARRAYS: Mapping[str, str] = {"global_loading": "P", "mixing": "KK"}
# Parameters of one computer, which are no part of a model.
NOT_SAVED = ("device",)
# Parameter `structure` if it is the structure of the fit, which is not written twice.
FITTED_STRUCTURE = {"type": "fitted structure"}
# Defaults that replace functions and objects of users' classes, which a folder cannot keep.
REPLACEMENTS = {"solver": "auto", "penalty": "tv", "random_state": None}


def estimator_state(estimator: Any, *, inputs: Mapping[str, Any] | None = None) -> SavedModel:
    """Describe a fitted SPCATV by JSON and arrays; `inputs` describe what it was fitted to.

    Instead of a function given as `structure`, the result holds the structure that the function made. A
    function given as `solver`, a penalty of a class of your own and a RandomState cannot be kept: the
    defaults replace them, with a warning.
    """
    check_parameters(estimator)
    found = {name: getattr(estimator, f"{name}_") for name in (*ARRAYS, *OPTIONAL_ARRAYS)}
    arrays: Arrays = {name: np.asarray(array) for name, array in found.items() if array is not None}
    structure, of_structure = pack(estimator.structure_, "structure")
    fitted: dict[str, Any] = {
        **{name: np.asarray(getattr(estimator, f"{name}_")).tolist() for name in NUMBERS},
        "structure": structure,
        "diagnostics": pack(list(estimator.diagnostics_), "diagnostics")[0],
    }
    if estimator.reproducibility_ is not None:
        fitted["reproducibility"] = pack(list(estimator.reproducibility_), "reproducibility")[0]
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in"] = [str(name) for name in estimator.feature_names_in_]
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name not in NOT_SAVED:
            parameters[name], of_parameter = _pack_parameter(name, value, estimator.structure_)
            arrays |= of_parameter
    described = {"type": structure["type"], "sha256": _arrays_sha256(of_structure)}
    return SavedModel(
        kind="SPCATV",
        parameters=parameters,
        fitted=fitted,
        arrays=arrays | of_structure,
        inputs={"structure": described, **(inputs or {})},
    )


def restore_estimator(make: Callable[..., Estimator], saved: SavedModel) -> Estimator:
    """Make the fitted estimator that `estimator_state` has described, with the same numbers to the last bit.

    `make` is SPCATV or a subclass with the same parameters; the type and shape of every entry are checked.
    """
    with saved.naming_source():
        structure = checked(unpack(saved.fitted.get("structure"), saved.arrays), Structure, "the structure")
        given = {
            name: structure if packed == FITTED_STRUCTURE else _unpack_parameter(packed, saved.arrays)
            for name, packed in saved.parameters.items()
        }
        try:
            estimator = make(**given)
            check_parameters(estimator)
        except (TypeError, ValueError) as error:
            raise ModelError(f"the parameters of the model are not valid: {error}") from error
        for name, value in _read_fitted(saved, structure).items():
            setattr(estimator, f"{name}_", value)
        if (given.get("global_signal") is None) != ("global_loading" not in saved.arrays):
            raise ModelError("a model has an array 'global_loading' if, and only if, global_signal is set")
    return estimator


def _read_fitted(saved: SavedModel, structure: Structure) -> dict[str, Any]:
    """Return the fitted attributes of an estimator, all checked."""
    fitted = saved.fitted
    found: dict[str, Any] = {name: checked(fitted.get(name), hint, name) for name, hint in NUMBERS.items()}
    found |= {name: np.asarray(value) for name, value in found.items() if isinstance(value, tuple)}
    found |= {name: saved.arrays.get(name) for name in (*ARRAYS, *OPTIONAL_ARRAYS)}
    found["structure"] = structure
    records = unpack(fitted.get("diagnostics"), saved.arrays)
    found["diagnostics"] = checked(records, tuple[ComponentDiagnostics, ...], "diagnostics")
    found["reproducibility"] = None
    if "reproducibility" in fitted:
        verdicts = unpack(fitted["reproducibility"], saved.arrays)
        found["reproducibility"] = checked(verdicts, tuple[Reproducibility, ...], "reproducibility")
    if "feature_names_in" in fitted:
        names = checked(fitted["feature_names_in"], tuple[str, ...], "feature_names_in")
        found["feature_names_in"] = np.asarray(names, dtype=object)
    _check_shapes(found)
    return found


def _pack_parameter(name: str, value: Any, structure: Structure) -> tuple[Any, Arrays]:
    is_function = callable(value) and not isinstance(value, (Structure, type))
    if name == "structure" and (value is structure or is_function):
        return FITTED_STRUCTURE, {}
    is_own_penalty = name == "penalty" and type(value) not in (str, *PENALTY_CLASSES.values())
    is_generator = name == "random_state" and isinstance(value, np.random.RandomState)
    if is_own_penalty or is_generator or (name == "solver" and is_function):
        return {"type": "replaced", **_replaced(name, value)}, {}
    return pack(value, f"parameters.{name}")


def _replaced(name: str, value: Any) -> dict[str, Any]:
    """Warn that a folder cannot keep this value of a parameter, and record its name."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    was, by = f"{kind.__module__}.{kind.__qualname__}", REPLACEMENTS[name]
    warn_user(
        f"a model folder cannot keep the {name} {was}: loadings, scores and certificates are those of the "
        f"fit, but the loaded model has {name}={by!r}",
        UserWarning,
    )
    return {"by": by, "was": was}


def _unpack_parameter(state: Any, arrays: Mapping[str, Array]) -> Any:
    if isinstance(state, dict) and state.get("type") == "replaced":
        return state.get("by")
    return unpack(state, arrays)


def _arrays_sha256(arrays: Mapping[str, Array]) -> str:
    """Return the SHA-256 of names, types, shapes and contents."""
    hasher = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        hasher.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()


def _check_shapes(found: Mapping[str, Any]) -> None:
    """Compare everything that has a length with the number of components K and of features P."""
    lengths = {"K": len(found["diagnostics"]), "P": found["n_features_in"]}
    present = {name: letters for name, letters in OPTIONAL_ARRAYS.items() if found[name] is not None}
    for name, letters in {**ARRAYS, **present}.items():
        array, expected = found[name], tuple(lengths[letter] for letter in letters)
        if array is None or array.dtype.kind != "f":
            raise ModelError(f"the model has no array {name!r} of floating point numbers")
        if array.shape != expected:
            raise ModelError(f"the array {name!r} has the shape {array.shape}, not {expected}")
    for name in ("l1", "l2", "tv"):
        if np.shape(found[name]) not in ((), (lengths["K"],)):
            raise ModelError(f"{name} of the model must be one number, or one number per component")
    counts = {"its structure": found["structure"].n_features}
    if "feature_names_in" in found:
        counts["its list of names"] = len(found["feature_names_in"])
    for what, count in counts.items():
        if count != lengths["P"]:
            raise ModelError(f"the model has {lengths['P']} features, but {what} has {count}")
