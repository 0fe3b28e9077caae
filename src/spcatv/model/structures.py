"""Structures as JSON and arrays, and back.

A structure is stored as its recipe (a mask, a list of edges, ...) rather than its operator, so that the
loaded structure gets the same memory layout in the solvers. A structure of a class that this package does
not know is stored as its operator and groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from spcatv._util.types import Array
from spcatv.model.folder import ModelError
from spcatv.model.records import BOOLEAN, read_value
from spcatv.structure import ConcatStructure, EdgeStructure, GridStructure, Structure, from_matrix

State = dict[str, Any]


def structure_state(structure: Structure, name: str = "structure") -> tuple[State, dict[str, Array]]:
    """Describe a structure by JSON and arrays, whose names begin with `name`.

    The JSON holds the kind ("grid", "edges", "concat" or "matrix"), its numbers, and the names of the arrays.
    """
    # a subclass may have another operator
    if type(structure) is GridStructure:
        return _grid_state(structure, name)
    if type(structure) is EdgeStructure:
        return _edge_state(structure, name)
    if type(structure) is ConcatStructure:
        return _concat_state(structure, name)
    return _matrix_state(structure, name)


def structure_from_state(state: Any, arrays: Mapping[str, Array]) -> Structure:
    """Create the structure that `structure_state` has described; every entry is checked."""
    kind = state.get("kind") if isinstance(state, dict) else None
    if not isinstance(kind, str) or kind not in READERS:
        raise ModelError(f"unknown kind of structure {kind!r}; known are {', '.join(map(repr, READERS))}")
    try:
        return READERS[kind](state, arrays)
    except ModelError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(f"the structure of kind {kind!r} is not valid: {error}") from error


def named_array(state: State, field: str, arrays: Mapping[str, Array], kinds: str, ndim: int | None) -> Array:
    """The array named by ``state[field]``, if it has one of the dtype kinds and `ndim` dimensions."""
    name = state.get(field)
    if not isinstance(name, str) or name not in arrays:
        raise ModelError(f"{field!r} names the array {name!r}, which does not exist")
    array = arrays[name]
    if array.dtype.kind not in kinds or (ndim is not None and array.ndim != ndim):
        raise ModelError(f"{field!r} cannot be the array {name!r}: {array.dtype} of shape {array.shape}")
    return array


def _flag(value: Any, field: str) -> bool:
    return bool(read_value(BOOLEAN, value, f"{field!r} of a structure"))


def _count(value: Any, field: str) -> int:
    if type(value) is not int or not 1 <= value < 2**62:
        raise ModelError(f"{field!r} of a structure must be an integer >= 1, got {value!r}")
    return value


def _grid_state(structure: GridStructure, name: str) -> tuple[State, dict[str, Array]]:
    labels = f"{name}.labels"
    state = {
        "kind": "grid",
        "labels": labels,
        "axis_weights": [float(weight) for weight in structure.axis_weights],
        "isotropic": bool(structure.isotropic),
        "periodic": [bool(flag) for flag in structure.periodic],
    }
    return state, {labels: structure.labels}


def _read_grid(state: State, arrays: Mapping[str, Array]) -> GridStructure:
    labels = named_array(state, "labels", arrays, "i", None)
    if labels.ndim == 0 or labels.size == 0 or labels.min() < 0 or labels.max() == 0:
        raise ModelError("the labels of a grid must be >= 0, and at least one must be above 0")
    weights = _per_axis(state, "axis_weights", labels.ndim)
    if not all(type(weight) is float and 0 < weight < np.inf for weight in weights):
        raise ModelError(f"'axis_weights' of a grid must be positive numbers, got {weights!r}")
    periodic = [_flag(flag, "periodic") for flag in _per_axis(state, "periodic", labels.ndim)]
    return GridStructure(
        labels=labels,
        axis_weights=tuple(weights),
        isotropic=_flag(state.get("isotropic"), "isotropic"),
        periodic=tuple(periodic),
    )


def _per_axis(state: State, field: str, n_axes: int) -> list[Any]:
    values = state.get(field)
    if not isinstance(values, list) or len(values) != n_axes:
        raise ModelError(f"{field!r} of a grid must hold one value per axis ({n_axes}), got {values!r:.60}")
    return values


def _edge_state(structure: EdgeStructure, name: str) -> tuple[State, dict[str, Array]]:
    fields = ("tail", "head", "weight")
    state: State = {"kind": "edges", "n_features": int(structure.n_features)}
    state |= {field: f"{name}.{field}" for field in fields}
    state["isotropic"] = bool(structure.isotropic)
    return state, {f"{name}.{field}": getattr(structure, field) for field in fields}


def _read_edges(state: State, arrays: Mapping[str, Array]) -> EdgeStructure:
    return EdgeStructure(
        feature_count=_count(state.get("n_features"), "n_features"),
        tail=named_array(state, "tail", arrays, "i", 1),
        head=named_array(state, "head", arrays, "i", 1),
        weight=named_array(state, "weight", arrays, "f", 1),
        isotropic=_flag(state.get("isotropic"), "isotropic"),
    )


def _concat_state(structure: ConcatStructure, name: str) -> tuple[State, dict[str, Array]]:
    described = [structure_state(part, f"{name}.{number}") for number, part in enumerate(structure.parts)]
    arrays = {key: array for _, of_part in described for key, array in of_part.items()}
    return {"kind": "concat", "parts": [state for state, _ in described]}, arrays


def _read_concat(state: State, arrays: Mapping[str, Array]) -> ConcatStructure:
    parts = state.get("parts")
    if not isinstance(parts, list) or not parts:
        raise ModelError("'parts' of a structure must be a list of structures")
    return ConcatStructure(tuple(structure_from_state(part, arrays) for part in parts))


def _matrix_state(structure: Structure, name: str) -> tuple[State, dict[str, Array]]:
    matrix = structure.matrix
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    arrays["group_ptr"] = structure.group_ptr
    state: State = {"kind": "matrix", "n_features": int(structure.n_features)}
    state |= {field: f"{name}.{field}" for field in arrays}
    return state, {f"{name}.{field}": np.asarray(array) for field, array in arrays.items()}


def _read_matrix(state: State, arrays: Mapping[str, Array]) -> Structure:
    indptr = named_array(state, "indptr", arrays, "i", 1)
    matrix = checked_csr(
        named_array(state, "data", arrays, "f", 1),
        named_array(state, "indices", arrays, "i", 1),
        indptr,
        (len(indptr) - 1, _count(state.get("n_features"), "n_features")),
    )
    return from_matrix(matrix, named_array(state, "group_ptr", arrays, "i", 1))


def checked_csr(data: Array, indices: Array, indptr: Array, shape: tuple[int, int]) -> sp.csr_array:
    """Build a CSR matrix whose indices are all in range: SciPy's products do not check them."""
    if len(indptr) == 0:
        raise ModelError("the row pointer of a sparse matrix is empty")
    matrix = sp.csr_array((data, indices, indptr), shape=shape)
    matrix.check_format(full_check=True)
    return matrix


READERS: dict[str, Callable[[State, Mapping[str, Array]], Structure]] = {
    "grid": _read_grid,
    "edges": _read_edges,
    "concat": _read_concat,
    "matrix": _read_matrix,
}
