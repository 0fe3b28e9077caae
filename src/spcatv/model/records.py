"""Records as JSON, by a table of their fields.

A table maps the name of each field to its type. Writing takes these fields from any object; reading checks
that the JSON has these fields, no others, and that each has its type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spcatv.model.folder import ModelError


@dataclass(frozen=True)
class FieldType:
    """How a field is written and read."""

    description: str  # what the JSON must be, for error messages
    write: Callable[[Any], Any]  # turns the value of an attribute into JSON
    read: Callable[[Any], Any]  # turns JSON into the value; raises TypeError if the JSON is something else


Table = Mapping[str, FieldType]


def write_record(table: Table, record: Any, *, suffix: str = "") -> dict[str, Any]:
    """Describe an object by JSON, one entry per field of the table; `suffix` ends the names of attributes."""
    return {name: kind.write(getattr(record, f"{name}{suffix}")) for name, kind in table.items()}


def read_record(table: Table, state: Any, what: str) -> dict[str, Any]:
    """Read what `write_record` has written, without trusting it; `what` names the record in messages."""
    if not isinstance(state, dict) or set(state) != set(table):
        raise ModelError(f"{what} must have exactly the entries {', '.join(table)}")
    return {name: read_value(kind, state[name], f"{name} of {what}") for name, kind in table.items()}


def read_value(kind: FieldType, value: Any, what: str) -> Any:
    """Read one value of the given type; `what` names it in error messages."""
    try:
        return kind.read(value)
    except (TypeError, OverflowError) as error:
        raise ModelError(f"{what} must be {kind.description}, got {value!r:.60}") from error


def _of_type(*expected: type) -> Callable[[Any], Any]:
    """Pass values of exactly these types; True is not an integer here."""

    def read(value: Any) -> Any:
        if type(value) not in expected:
            raise TypeError
        return value

    return read


def _list_of(kind: FieldType, description: str) -> FieldType:
    def write(values: Any) -> list[Any]:
        return [kind.write(value) for value in values]

    def read(values: Any) -> tuple[Any, ...]:
        return tuple(kind.read(value) for value in _of_type(list)(values))

    return FieldType(description, write, read)


def _or_null(kind: FieldType) -> FieldType:
    def optional(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: None if value is None else convert(value)

    return FieldType(f"{kind.description} or null", optional(kind.write), optional(kind.read))


NUMBER = FieldType("a number", float, lambda value: float(_of_type(int, float)(value)))
INTEGER = FieldType("an integer", int, _of_type(int))
BOOLEAN = FieldType("true or false", bool, _of_type(bool))
TEXT = FieldType("a string", str, _of_type(str))
NUMBERS = _list_of(NUMBER, "a list of numbers")
TEXTS = _list_of(TEXT, "a list of strings")
NUMBER_OR_NULL = _or_null(NUMBER)
INTEGER_OR_NULL = _or_null(INTEGER)
# One number for all components, or one number per component.
NUMBER_OR_NUMBERS = FieldType(
    "a number or a list of numbers",
    lambda value: NUMBERS.write(value) if hasattr(value, "__len__") else float(value),
    lambda value: NUMBERS.read(value) if isinstance(value, list) else NUMBER.read(value),
)
