"""Values as JSON and arrays, and back: the one format of model folders and checkpoints.

Numbers, strings, booleans, None and lists are JSON as they are. Everything else is an object with a "type".
Unpacking creates the types listed here and registered classes (`recordable`) and no others: no name in a file
is ever imported or called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

from spcatv._util.devices import on_gpu, to_host
from spcatv._util.types import Array
from spcatv.problem.penalties import PENALTY_CLASSES
from spcatv.structure import ConcatStructure, EdgeStructure, GridStructure, Structure, from_matrix

Arrays = Mapping[str, Array]
Packed = tuple[Any, dict[str, Array]]
Class = TypeVar("Class", bound=type)

PLAIN = (type(None), bool, int, float, str)
# Lists and objects inside each other in a description that is read.
MOST_LEVELS = 60


class ModelError(ValueError):
    """Error of a model folder that cannot be written, replaced or read, with a message of one line.

    Examples
    --------
    >>> from spcatv import SPCATV
    >>> from spcatv.model import ModelError
    >>> try:
    ...     SPCATV.load("no-such-folder")
    ... except ModelError as error:
    ...     print(error)
    there is no folder no-such-folder
    """

    exit_code = 2  # of the command line


_RECORDABLE: dict[str, type] = {}


def recordable(kind: Class) -> Class:
    """Register a dataclass, so that its instances can be packed, field by field, under its name."""
    _RECORDABLE[kind.__name__] = kind
    return kind


for _kind in (GridStructure, EdgeStructure, ConcatStructure, *PENALTY_CLASSES.values()):
    recordable(_kind)


def pack(value: Any, name: str) -> Packed:
    """Describe a value by JSON and arrays, whose names begin with `name`, such as "parameters.init"."""
    arrays: dict[str, Array] = {}
    return _pack(value, name, arrays), arrays


def _pack(value: Any, name: str, arrays: dict[str, Array]) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind not in "biuf":
        value = value.item()
    if isinstance(value, PLAIN) and not isinstance(value, np.generic):
        return value
    if isinstance(value, list):
        return [_pack(item, f"{name}.{number}", arrays) for number, item in enumerate(value)]
    described = _described(value)
    if described is not None:
        kind, entries = described
        return {"type": kind, **{key: _pack(own, f"{name}.{key}", arrays) for key, own in entries.items()}}
    if on_gpu(value) or hasattr(value, "__array__"):
        arrays[name] = np.asarray(to_host(value))
        return {"type": "array", "array": name}
    raise ModelError(f"{name} is a {type(value).__name__}, which cannot be saved")


def _described(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the "type" and the other entries of a value; None if no class in `FORMS` fits."""
    if _RECORDABLE.get(type(value).__name__) is type(value):
        kind: Any = type(value)
        fields_of = {name: (getattr(value, name), hint) for name, hint in _field_types(kind).items()}
        # annotations turn lists into tuples again
        return type(value).__name__, {
            name: list(item) if isinstance(item, tuple) and get_origin(hint) is tuple else item
            for name, (item, hint) in fields_of.items()
        }
    for form, (classes, entries, _) in FORMS.items():
        if isinstance(value, classes):
            return form, entries(value)
    return None


def unpack(state: Any, arrays: Arrays, levels: int = MOST_LEVELS) -> Any:
    """Create the value that `pack` has described; every entry is checked."""
    if levels == 0:
        raise ModelError(f"a value is nested more than {MOST_LEVELS} levels deep")
    if isinstance(state, list):
        return [unpack(item, arrays, levels - 1) for item in state]
    if not isinstance(state, dict):
        return state
    kind = state.get("type")
    if kind == "array":
        name = state.get("array")
        if not isinstance(name, str) or name not in arrays:
            raise ModelError(f"a value names the array {name!r:.60}, which does not exist")
        return arrays[name]
    if not isinstance(kind, str) or not (kind in FORMS or kind in _RECORDABLE):
        raise ModelError(f"unknown type of value {kind!r:.60}")
    entries = {name: unpack(item, arrays, levels - 1) for name, item in state.items() if name != "type"}
    try:
        return FORMS[kind][2](**entries) if kind in FORMS else _read_record(_RECORDABLE[kind], entries)
    except ModelError:
        raise
    except (ValueError, TypeError, OverflowError) as error:
        raise ModelError(f"a value of type {kind!r} is not valid: {error}") from error


def _read_record(kind: type, entries: Mapping[str, Any]) -> Any:
    types = _field_types(kind)
    if set(entries) != set(types):
        raise ModelError(f"a {kind.__name__} must have exactly the entries {', '.join(types)}")
    given = {name: checked(entries[name], hint, name) for name, hint in types.items()}
    if kind is GridStructure:
        _check_grid(**given)
    return kind(**given)


def _check_grid(
    labels: Array, axis_weights: tuple[float, ...], isotropic: bool, periodic: tuple[bool, ...]
) -> None:
    if labels.ndim == 0 or labels.size == 0 or labels.min() < 0 or labels.max() == 0:
        raise ModelError("the labels of a grid must be >= 0, and at least one must be above 0")
    if not len(axis_weights) == len(periodic) == labels.ndim:
        raise ModelError("'axis_weights' and 'periodic' of a grid must hold one value per axis")
    if not all(0 < weight < np.inf for weight in axis_weights):
        raise ModelError(f"'axis_weights' of a grid must be positive numbers, got {axis_weights!r:.60}")


def _sparse_entries(value: Any) -> dict[str, Any]:
    matrix = sp.csr_array(value)
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    return {"shape": [int(n) for n in value.shape], **parts}


def _read_sparse(shape: list[int], data: Any, indices: Any, indptr: Any) -> Any:
    n_rows, n_columns = shape
    matrix = sp.csr_array((data, indices, indptr), shape=(n_rows, n_columns))
    matrix.check_format(full_check=True)  # products do not check the indices
    return matrix


def _read_structure(matrix: Any, group_ptr: Any) -> Structure:
    if not sp.issparse(matrix):
        raise ModelError("the operator of a structure must be a sparse matrix")
    return from_matrix(matrix, group_ptr)


def _dtype_entries(value: Any) -> dict[str, Any]:
    dtype = np.dtype(value)
    if dtype.kind not in "biuf":
        raise ModelError(f"{value} is not the type of plain numbers")
    return {"name": dtype.name}


def _read_dtype(name: Any) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in np.sctypeDict:
        raise ModelError(f"unknown dtype {name!r:.60}")
    return np.dtype(name)


# The "type" of values that are no records: their classes, their other entries, and how these make a value.
FORMS: dict[str, tuple[Any, Callable[[Any], dict[str, Any]], Callable[..., Any]]] = {
    "tuple": (
        tuple,
        lambda value: {"items": list(value)},
        lambda items: tuple(checked(items, list[Any], "items")),
    ),
    "dict": (
        dict,
        lambda value: {"items": [list(pair) for pair in value.items()]},
        lambda items: dict(checked(items, list[Any], "items")),
    ),
    "scalar": (
        np.generic,
        lambda value: {"dtype": value.dtype.name, "value": value.item()},
        lambda dtype, value: _read_dtype(dtype).type(value),
    ),
    # a structure of any other class is its operator and groups
    "structure": (
        Structure,
        lambda value: {"matrix": value.matrix, "group_ptr": value.group_ptr},
        _read_structure,
    ),
    "sparse": ((sp.sparray, sp.spmatrix), _sparse_entries, _read_sparse),
    "dtype": ((np.dtype, type), _dtype_entries, _read_dtype),
    "path": (Path, lambda value: {"path": str(value)}, lambda path: Path(checked(path, str, "path"))),
}


@cache
def _field_types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def checked(value: Any, hint: Any, what: str) -> Any:
    """Return a value if it is of an annotated type, or raise a ModelError that begins with `what`.

    A list stands for a tuple, and an integer for a float.
    """
    try:
        return _as_type(value, hint)
    except (TypeError, ValueError, OverflowError) as error:
        expected = hint.__name__ if isinstance(hint, type) else hint
        raise ModelError(f"{what} must be of type {expected}, got {value!r:.60}") from error


def _as_type(value: Any, hint: Any) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin in (Union, UnionType):
        return _as_one_of(value, arguments)
    if origin is tuple and isinstance(value, (list, tuple)):
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(_as_type(item, kind) for item, kind in zip(value, kinds, strict=True))
    if hint in (int, float):
        if isinstance(value, (bool, np.bool_)) or not isinstance(value, Real if hint is float else Integral):
            raise TypeError
        return value if hasattr(value, "dtype") else hint(value)
    if not isinstance(value, (bool, np.bool_) if hint is bool else origin or hint):
        raise TypeError
    if isinstance(value, np.ndarray) and origin is np.ndarray:
        kind = get_args(arguments[-1])[0]
        if kind is not Any and not np.issubdtype(value.dtype, get_origin(kind) or kind):
            raise TypeError
    return value


def _as_one_of(value: Any, hints: tuple[Any, ...]) -> Any:
    for hint in hints:
        try:
            return _as_type(value, hint)
        except TypeError:
            continue
    raise TypeError
