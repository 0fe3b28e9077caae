"""A fitted SPCATV as a `SavedModel`, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np

from spcatv._util.types import Array
from spcatv._util.warn import warn_user
from spcatv.decomposition import ComponentDiagnostics
from spcatv.estimator.parameters import check_parameters
from spcatv.model import ModelError, SavedModel, pack, structure_from_state, structure_state, unpack
from spcatv.model.records import NUMBER, TEXTS, read_record, read_value, write_record
from spcatv.model.schema import ARRAYS, DIAGNOSTICS, FITTED, OPTIONAL_ARRAYS
from spcatv.problem.penalties import PENALTY_CLASSES
from spcatv.structure import Structure

Arrays = dict[str, Array]
Estimator = TypeVar("Estimator")

WEIGHTS = ("l1", "l2", "tv")
# Parameters of one computer, which are no part of a model.
NOT_SAVED = ("device",)
# Replace solvers and penalties that a folder cannot keep.
DEFAULT_SOLVER = "auto"
DEFAULT_PENALTY = "tv"


def estimator_state(estimator: Any, *, inputs: Mapping[str, Any] | None = None) -> SavedModel:
    """Describe a fitted SPCATV by JSON and arrays; `inputs` say what it was fitted to.

    Instead of a function given as `structure`, the result holds the structure that the function made. A
    function given as `solver` and a penalty of a class of your own cannot be kept: the defaults "auto" and
    "tv" replace them, with a warning.
    """
    check_parameters(estimator)
    arrays: Arrays = {name: np.asarray(getattr(estimator, f"{name}_")) for name in ARRAYS}
    optional = {name: getattr(estimator, f"{name}_") for name in OPTIONAL_ARRAYS}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    structure, structure_arrays = structure_state(estimator.structure_)
    arrays |= structure_arrays
    fitted = write_record(FITTED, estimator, suffix="_")
    fitted["structure"] = structure
    fitted["diagnostics"] = [write_record(DIAGNOSTICS, record) for record in estimator.diagnostics_]
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in"] = TEXTS.write(estimator.feature_names_in_)
    parameters: dict[str, Any] = {}
    for name, value in estimator.get_params(deep=False).items():
        if name in NOT_SAVED:
            continue
        parameters[name], of_parameter = _pack_parameter(name, value, estimator.structure_)
        arrays |= of_parameter
    described = {"structure": {"kind": structure["kind"], "sha256": _arrays_sha256(structure_arrays)}}
    return SavedModel(
        kind="SPCATV",
        parameters=parameters,
        fitted=fitted,
        arrays=arrays,
        inputs=described | dict(inputs or {}),
    )


def restore_estimator(make: Callable[..., Estimator], saved: SavedModel) -> Estimator:
    """Make the fitted estimator that `estimator_state` has described, with the same numbers to the last bit.

    `make` is SPCATV or a subclass with the same parameters; the type and shape of every entry are checked.
    """
    fitted, arrays = saved.fitted, saved.arrays
    with saved.naming_source():
        structure = structure_from_state(fitted.get("structure"), arrays)
        given = {name: _unpack_parameter(each, arrays, structure) for name, each in saved.parameters.items()}
        try:
            estimator = make(**given)
            check_parameters(estimator)
        except (TypeError, ValueError) as error:
            raise ModelError(f"the parameters of the model are not valid: {error}") from error
        for name, value in _read_fitted(fitted, arrays, structure).items():
            setattr(estimator, name, value)
        if (given.get("global_signal") is None) != ("global_loading" not in arrays):
            raise ModelError("a model has an array 'global_loading' if, and only if, global_signal is set")
    return estimator


def _read_fitted(
    fitted: Mapping[str, Any], arrays: Mapping[str, Array], structure: Structure
) -> dict[str, Any]:
    """The fitted attributes of an estimator, all checked."""
    numbers = read_record(FITTED, {name: fitted.get(name) for name in FITTED}, "the fitted model")
    found = {f"{name}_": value for name, value in numbers.items()}
    found |= {f"{name}_": np.asarray(numbers[name]) for name in WEIGHTS if isinstance(numbers[name], tuple)}
    found |= {f"{name}_": arrays.get(name) for name in (*ARRAYS, *OPTIONAL_ARRAYS)}
    found["structure_"] = structure
    found["diagnostics_"] = _read_diagnostics(fitted.get("diagnostics"))
    if "feature_names_in" in fitted:
        names = read_value(TEXTS, fitted["feature_names_in"], "feature_names_in")
        found["feature_names_in_"] = np.asarray(names, dtype=object)
    _check_shapes(found)
    return found


def _pack_parameter(name: str, value: Any, structure: Structure) -> tuple[Any, Arrays]:
    is_function = callable(value) and not isinstance(value, (Structure, type))
    if name == "structure" and (value is structure or is_function):
        return {"type": "fitted structure"}, {}
    if name == "solver" and is_function:
        return {"type": "function", **_replaced(name, value, DEFAULT_SOLVER)}, {}
    if name == "penalty" and not isinstance(value, str):
        return _pack_penalty(value), {}
    return pack(value, f"parameters.{name}")


def _pack_penalty(penalty: Any) -> dict[str, Any]:
    """Keep a penalty of the package by its name and its numbers."""
    name = type(penalty).__name__
    if PENALTY_CLASSES.get(name) is type(penalty):
        return {"type": "penalty", "name": name, "numbers": asdict(penalty)}
    return {"type": "penalty", **_replaced("penalty", penalty, DEFAULT_PENALTY)}


def _read_penalty(state: Mapping[str, Any]) -> Any:
    if "replaced_by" in state:
        return DEFAULT_PENALTY
    name, numbers = state.get("name"), state.get("numbers")
    if not isinstance(name, str) or name not in PENALTY_CLASSES or not isinstance(numbers, dict):
        raise ModelError(f"unknown penalty {name!r:.60}; known are {', '.join(PENALTY_CLASSES)}")
    given = {key: read_value(NUMBER, value, f"{key} of the penalty") for key, value in numbers.items()}
    try:
        return PENALTY_CLASSES[name](**given)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the penalty {name} of the model is not valid: {error}") from error


def _replaced(name: str, value: Any, default: str) -> dict[str, str]:
    """Warn that a folder cannot keep this value of a parameter, and record its name."""
    kind = value if hasattr(value, "__qualname__") else type(value)
    was = f"{kind.__module__}.{kind.__qualname__}"
    warn_user(
        f"a model folder cannot keep the {name} {was}: loadings, scores and certificates are those of the "
        f"fit, but the loaded model has {name}={default!r}",
        UserWarning,
    )
    return {"replaced_by": default, "was": was}


def _unpack_parameter(state: Any, arrays: Mapping[str, Array], structure: Structure) -> Any:
    kind = state.get("type") if isinstance(state, dict) else None
    if kind == "fitted structure":
        return structure
    if kind == "function":
        return DEFAULT_SOLVER
    if kind == "penalty":
        return _read_penalty(state)
    return unpack(state, arrays)


def _arrays_sha256(arrays: Mapping[str, Array]) -> str:
    """SHA-256 of names, types, shapes and contents."""
    hasher = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        hasher.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()


def _read_diagnostics(states: Any) -> tuple[ComponentDiagnostics, ...]:
    if not isinstance(states, list):
        raise ModelError("the diagnostics of the model must be a list with one entry per component")
    return tuple(
        ComponentDiagnostics(**read_record(DIAGNOSTICS, state, f"the diagnostics of component {k + 1}"))
        for k, state in enumerate(states)
    )


def _check_shapes(found: Mapping[str, Any]) -> None:
    """Compare everything that has a length with the number of components K and of features P."""
    lengths = {"K": len(found["diagnostics_"]), "P": found["n_features_in_"]}
    present = {name: letters for name, letters in OPTIONAL_ARRAYS.items() if found[f"{name}_"] is not None}
    for name, letters in {**ARRAYS, **present}.items():
        array, expected = found[f"{name}_"], tuple(lengths[letter] for letter in letters)
        if array is None or array.dtype.kind != "f":
            raise ModelError(f"the model has no array {name!r} of floating point numbers")
        if array.shape != expected:
            raise ModelError(f"the array {name!r} has the shape {array.shape}, not {expected}")
    for name in WEIGHTS:
        if np.shape(found[f"{name}_"]) not in ((), (lengths["K"],)):
            raise ModelError(f"{name} of the model must be one number, or one number per component")
    counts = {"its structure": found["structure_"].n_features}
    if "feature_names_in_" in found:
        counts["its list of names"] = len(found["feature_names_in_"])
    for what, count in counts.items():
        if count != lengths["P"]:
            raise ModelError(f"the model has {lengths['P']} features, but {what} has {count}")
