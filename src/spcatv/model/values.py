"""Values of parameters as JSON and arrays, and back.

Numbers, strings, booleans, None and lists of these are written as JSON directly. Everything else is an
object with a "type": arrays, tuples, dtypes, paths, sparse matrices, structures, and the state of a random
generator. Reading creates these types and no others: no name in a file is ever looked up and called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from spcatv._util.types import Array
from spcatv.model.folder import ModelError
from spcatv.model.structures import checked_csr, named_array, structure_from_state, structure_state
from spcatv.structure import Structure

Packed = tuple[Any, dict[str, Array]]

SPARSE_FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
ORDINARY_TYPES = (bool, int, float)
KEY_LENGTH = 624  # of the Mersenne Twister


def pack(value: Any, name: str) -> Packed:
    """Describe a value of a type that `unpack` can create by JSON and arrays.

    `name` begins the names of its arrays, such as "parameters.init". NumPy scalars become Python numbers.
    """
    if isinstance(value, np.generic) and value.dtype.kind in "biufU":
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value, {}
    if isinstance(value, (list, tuple)):
        return _pack_items(value, name)
    if isinstance(value, Structure):
        state, arrays = structure_state(value, name)
        return {"type": "structure", "structure": state}, arrays
    if sp.issparse(value):
        return _pack_sparse(value, name)
    if isinstance(value, np.random.RandomState):
        return _pack_random_state(value, name)
    if isinstance(value, np.dtype) or (
        isinstance(value, type) and (issubclass(value, np.generic) or value in ORDINARY_TYPES)
    ):
        return {"type": "dtype", "name": np.dtype(value).name}, {}
    if isinstance(value, Path):
        return {"type": "path", "path": str(value)}, {}
    if hasattr(value, "__array__"):
        return {"type": "array", "array": name}, {name: np.asarray(value)}
    raise ModelError(f"{name} is a {type(value).__name__}, which cannot be kept in a model folder")


def unpack(state: Any, arrays: Mapping[str, Array]) -> Any:
    """Create the value that `pack` has described; every entry is checked."""
    if isinstance(state, list):
        return [unpack(item, arrays) for item in state]
    if not isinstance(state, dict):
        return state
    kind = state.get("type")
    if not isinstance(kind, str) or kind not in READERS:
        raise ModelError(f"unknown type of value {kind!r}; known are {', '.join(map(repr, READERS))}")
    try:
        return READERS[kind](state, arrays)
    except ModelError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(f"a value of type {kind!r} is not valid: {error}") from error


def _pack_items(value: list[Any] | tuple[Any, ...], name: str) -> Packed:
    packed = [pack(item, f"{name}.{number}") for number, item in enumerate(value)]
    items = [state for state, _ in packed]
    arrays = {key: array for _, of_item in packed for key, array in of_item.items()}
    return ({"type": "tuple", "items": items} if isinstance(value, tuple) else items), arrays


def _read_tuple(state: dict[str, Any], arrays: Mapping[str, Array]) -> tuple[Any, ...]:
    items = state.get("items")
    if not isinstance(items, list):
        raise ModelError("'items' of a tuple must be a list")
    return tuple(unpack(item, arrays) for item in items)


def _pack_sparse(value: Any, name: str) -> Packed:
    matrix = sp.csr_array(value)
    arrays = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    state: dict[str, Any] = {
        "type": "sparse",
        "format": value.format,
        "is_array": isinstance(value, sp.sparray),
        "shape": [int(n) for n in value.shape],
    }
    state |= {field: f"{name}.{field}" for field in arrays}
    return state, {f"{name}.{field}": np.asarray(array) for field, array in arrays.items()}


def _read_sparse(state: dict[str, Any], arrays: Mapping[str, Array]) -> Any:
    shape, layout = state.get("shape"), state.get("format")
    if not isinstance(shape, list) or len(shape) != 2 or not all(type(n) is int for n in shape):
        raise ModelError(f"'shape' of a sparse matrix must be two integers, got {shape!r}")
    if layout not in SPARSE_FORMATS:
        raise ModelError(f"unknown format {layout!r} of a sparse matrix")
    matrix = checked_csr(
        named_array(state, "data", arrays, "biuf", 1),
        named_array(state, "indices", arrays, "i", 1),
        named_array(state, "indptr", arrays, "i", 1),
        (shape[0], shape[1]),
    )
    return (matrix if state.get("is_array") is True else sp.csr_matrix(matrix)).asformat(layout)


def _read_dtype(state: dict[str, Any], arrays: Mapping[str, Array]) -> np.dtype[Any]:
    name = state.get("name")
    if name not in np.sctypeDict or not isinstance(name, str):
        raise ModelError(f"unknown dtype {name!r}")
    return np.dtype(name)


def _pack_random_state(value: np.random.RandomState, name: str) -> Packed:
    inside = value.get_state(legacy=False)
    if not isinstance(inside, dict) or inside["bit_generator"] != "MT19937":
        raise ModelError(f"{name} is a RandomState that is not a Mersenne Twister; use an int instead")
    state = {
        "type": "RandomState",
        "key": f"{name}.key",
        "position": int(inside["state"]["pos"]),
        # normal numbers are drawn in pairs: the second of a pair, if it has not been used yet
        "waiting": float(inside["gauss"]) if inside["has_gauss"] else None,
    }
    return state, {f"{name}.key": np.asarray(inside["state"]["key"])}


def _read_random_state(state: dict[str, Any], arrays: Mapping[str, Array]) -> np.random.RandomState:
    key = named_array(state, "key", arrays, "u", 1)
    position, waiting = state.get("position"), state.get("waiting")
    # NumPy does not check: a position outside the key would read other memory
    if key.dtype != np.uint32 or len(key) != KEY_LENGTH:
        raise ModelError(f"the key of a random generator must be {KEY_LENGTH} integers of 32 bits")
    if type(position) is not int or not 0 <= position <= KEY_LENGTH:
        raise ModelError(
            f"the position of a random generator must be between 0 and {KEY_LENGTH}, got {position!r}"
        )
    if not isinstance(waiting, (float, type(None))):
        raise ModelError(f"'waiting' of a random generator must be a number or null, got {waiting!r}")
    made = np.random.RandomState(0)
    made.set_state(("MT19937", key, position, int(waiting is not None), waiting or 0.0))
    return made


READERS: dict[str, Callable[[dict[str, Any], Mapping[str, Array]], Any]] = {
    "tuple": _read_tuple,
    "array": lambda state, arrays: named_array(state, "array", arrays, "biuf", None),
    "sparse": _read_sparse,
    "structure": lambda state, arrays: structure_from_state(state.get("structure"), arrays),
    "dtype": _read_dtype,
    "path": lambda state, arrays: Path(str(state.get("path"))),
    "RandomState": _read_random_state,
}
