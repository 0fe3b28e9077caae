"""A fitted SPCATV as a `SavedModel`, and back."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeVar

import numpy as np

from spcatv._util.types import Array
from spcatv._util.warn import warn_user
from spcatv.decomposition import ComponentDiagnostics
from spcatv.decomposition.alternation import Component
from spcatv.decomposition.refinement import Refinement
from spcatv.estimator.parameters import check_parameters
from spcatv.model.files import SavedModel
from spcatv.model.folder import ModelError
from spcatv.model.structures import State, named_array, structure_from_state, structure_state
from spcatv.model.values import pack, unpack
from spcatv.structure import Structure

Arrays = dict[str, Array]
Estimator = TypeVar("Estimator")
Record = TypeVar("Record", ComponentDiagnostics, Component, Refinement)

# Fitted attributes that are arrays, with their shape in components K and features P, and those that are
# numbers; the names in the folder have no underscore at the end.
ARRAYS: dict[str, str] = {
    "components": "KP",
    "mean": "P",
    "singular_values": "K",
    "explained_variance": "K",
    "explained_variance_ratio": "K",
}
# The same for what only some models have: one alpha a component, if they were fitted so.
OPTIONAL_ARRAYS: dict[str, str] = {"component_alphas": "K"}
NUMBERS: dict[str, type] = {"l1": float, "l2": float, "tv": float, "n_iter": int, "n_features_in": int}

# What a parameter that is a function becomes; the certificate does not depend on the solver.
DEFAULT_SOLVER = "auto"


def estimator_state(estimator: Any, *, inputs: Mapping[str, Any] | None = None) -> SavedModel:
    """Describe a fitted SPCATV by JSON and arrays.

    Parameters
    ----------
    estimator : SPCATV
        Fitted, with valid parameters.
    inputs : mapping, default=None
        JSON: what it was fitted to.

    Returns
    -------
    SavedModel
        Of kind "SPCATV". A function given as `structure` is kept by the structure that it made; a
        function given as `solver` cannot be kept: a warning says that "auto" takes its place.
    """
    check_parameters(estimator)
    kept = [*ARRAYS, *(name for name in OPTIONAL_ARRAYS if hasattr(estimator, f"{name}_"))]
    arrays: Arrays = {name: np.asarray(getattr(estimator, f"{name}_")) for name in kept}
    structure, structure_arrays = structure_state(estimator.structure_)
    arrays |= structure_arrays
    parameters: State = {}
    for name, value in estimator.get_params(deep=False).items():
        parameters[name], of_parameter = _pack_parameter(name, value, estimator.structure_)
        arrays |= of_parameter
    fitted: State = {name: kind(getattr(estimator, f"{name}_")) for name, kind in NUMBERS.items()}
    fitted["structure"] = structure
    fitted["diagnostics"] = [_record_state(record) for record in estimator.diagnostics_]
    fitted["refinement"], of_refinement = _refinement_state(estimator.refinement_)
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names_in"] = [str(name) for name in estimator.feature_names_in_]
    described = {"structure": {"kind": structure["kind"], "sha256": _arrays_sha256(structure_arrays)}}
    return SavedModel(
        kind="SPCATV",
        parameters=parameters,
        fitted=fitted,
        arrays=arrays | of_refinement,
        inputs=described | dict(inputs or {}),
    )


def restore_estimator(make: Callable[..., Estimator], saved: SavedModel) -> Estimator:
    """Make the fitted estimator that `estimator_state` has described.

    Parameters
    ----------
    make : type
        SPCATV, or a subclass with the same parameters.
    saved : SavedModel
        From `spcatv.model.read_model`; entries are checked for type and shape.

    Returns
    -------
    SPCATV
        Fitted: with the same numbers, bit for bit.
    """
    fitted, arrays = saved.fitted, saved.arrays
    structure = structure_from_state(fitted.get("structure"), arrays)
    given = {name: _unpack_parameter(value, arrays, structure) for name, value in saved.parameters.items()}
    try:
        estimator = make(**given)
        check_parameters(estimator)
    except (TypeError, ValueError) as error:
        raise ModelError(f"the parameters of the model are not valid: {error}") from error
    found = {f"{name}_": _typed(fitted.get(name), kind.__name__, name) for name, kind in NUMBERS.items()}
    found |= {f"{name}_": arrays.get(name) for name in ARRAYS}
    found |= {f"{name}_": arrays[name] for name in OPTIONAL_ARRAYS if name in arrays}
    found["structure_"] = structure
    found["diagnostics_"] = tuple(_read_records(ComponentDiagnostics, fitted.get("diagnostics"), arrays))
    found["refinement_"] = _read_refinement(fitted.get("refinement"), arrays)
    if "feature_names_in" in fitted:
        names = _typed(fitted["feature_names_in"], "names", "feature_names_in")
        found["feature_names_in_"] = np.asarray(names, dtype=object)
    _check_shapes(found)
    for name, value in found.items():
        setattr(estimator, name, value)
    return estimator


def _pack_parameter(name: str, value: Any, structure: Structure) -> tuple[Any, Arrays]:
    is_function = callable(value) and not isinstance(value, (Structure, type))
    if name == "structure" and (value is structure or is_function):
        return {"type": "fitted structure"}, {}
    if name == "solver" and is_function:
        was = f"{getattr(value, '__module__', '?')}.{getattr(value, '__qualname__', type(value).__name__)}"
        warn_user(
            f"the solver {was} is a function, which a model folder cannot keep: {DEFAULT_SOLVER!r} takes its "
            "place in the folder (loadings, scores and certificates are those of the fit)",
            UserWarning,
        )
        return {"type": "function", "replaced_by": DEFAULT_SOLVER, "was": was}, {}
    return pack(value, f"parameters.{name}")


def _unpack_parameter(state: Any, arrays: Mapping[str, Array], structure: Structure) -> Any:
    kind = state.get("type") if isinstance(state, dict) else None
    if kind == "fitted structure":
        return structure
    if kind == "function":
        return DEFAULT_SOLVER
    return unpack(state, arrays)


def _arrays_sha256(arrays: Mapping[str, Array]) -> str:
    """SHA-256 over names, types, shapes and contents."""
    hasher = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        hasher.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()


def _refinement_state(refinement: Refinement | None) -> tuple[State | None, Arrays]:
    if refinement is None:
        return None, {}
    state = _record_state(refinement)
    arrays: Arrays = {}
    state["components"] = []
    for number, component in enumerate(refinement.components):
        of_component = _record_state(component)
        for field in fields(component):
            value = getattr(component, field.name)
            if isinstance(value, np.ndarray):
                of_component[field.name] = f"refinement.{number}.{field.name}"
                arrays[of_component[field.name]] = value
        state["components"].append(of_component)
    return state, arrays


def _read_refinement(state: Any, arrays: Mapping[str, Array]) -> Refinement | None:
    if state is None:
        return None
    components = state.get("components") if isinstance(state, dict) else None
    made = tuple(_read_records(Component, components, arrays))
    return _read_record(Refinement, state, arrays, components=made)


def _record_state(record: ComponentDiagnostics | Component | Refinement) -> State:
    """The fields of a record that are plain values, each as its type is declared."""
    state: State = {}
    for field in fields(record):
        if field.type in PLAIN:
            state[field.name] = PLAIN[str(field.type)](getattr(record, field.name))
    return state


def _read_records(kind: type[Record], states: Any, arrays: Mapping[str, Array]) -> list[Record]:
    if not isinstance(states, list):
        raise ModelError(f"the model has no list of {kind.__name__}")
    return [_read_record(kind, state, arrays) for state in states]


def _read_record(kind: type[Record], state: Any, arrays: Mapping[str, Array], **given: Any) -> Record:
    names = {field.name for field in fields(kind)}
    if not isinstance(state, dict) or set(state) != names:
        raise ModelError(f"a {kind.__name__} of the model must have the entries {', '.join(sorted(names))}")
    for field in fields(kind):
        if field.name in given:
            continue
        if field.type in PLAIN:
            where = f"{field.name} of a {kind.__name__}"
            given[field.name] = _typed(state[field.name], str(field.type), where)
        else:
            given[field.name] = named_array(state, field.name, arrays, "f", 1)
    return kind(**given)


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in values]


# How a declared type is written.
PLAIN: dict[str, Callable[[Any], Any]] = {
    "float": float,
    "int": int,
    "bool": bool,
    "tuple[float, ...]": _numbers,
}


def _typed(value: Any, declared: str, name: str) -> Any:
    """The value, if it is of the declared type; lists of numbers come back as tuples."""
    if declared == "float" and type(value) in (float, int):
        return float(value)
    if declared in ("int", "bool") and type(value).__name__ == declared:
        return value
    if declared == "tuple[float, ...]" and isinstance(value, list):
        return tuple(_typed(item, "float", name) for item in value)
    if declared == "names" and isinstance(value, list) and all(isinstance(item, str) for item in value):
        return value
    raise ModelError(f"{name} must be of type {declared}, got {value!r:.60}")


def _check_shapes(found: Mapping[str, Any]) -> None:
    """Compare everything that has a length with the number of components K and of features P."""
    letters_of = ARRAYS | {name: text for name, text in OPTIONAL_ARRAYS.items() if f"{name}_" in found}
    for name in letters_of:
        array = found[f"{name}_"]
        if array is None or array.dtype.kind != "f":
            raise ModelError(f"the model has no array {name!r} of floating point numbers")
    lengths = {"K": len(found["diagnostics_"]), "P": found["n_features_in_"]}
    for name, letters in letters_of.items():
        expected = tuple(lengths[letter] for letter in letters)
        if found[f"{name}_"].shape != expected:
            raise ModelError(f"the array {name!r} has the shape {found[f'{name}_'].shape}, not {expected}")
    counts = {"its structure": found["structure_"].n_features}
    if "feature_names_in_" in found:
        counts["its list of names"] = len(found["feature_names_in_"])
    refinement = found["refinement_"]
    if refinement is not None:
        counts |= {f"refined component {k + 1}": len(c.v) for k, c in enumerate(refinement.components)}
        if len(refinement.components) != lengths["K"]:
            raise ModelError(
                f"{len(refinement.components)} of {lengths['K']} components of the model are refined"
            )
    for what, count in counts.items():
        if count != lengths["P"]:
            raise ModelError(f"the model has {lengths['P']} features, but {what} has {count}")
