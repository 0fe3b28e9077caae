"""What a user may give: kinds of values, read on the command line or checked in a configuration file."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class InputError(ValueError):
    """What the user gave cannot be used: the command line ends with exit code 2 and this message."""

    exit_code = 2


# said to those who name columns without a table: their confounds would stay in the images
COLUMNS_OF_WHAT = "--confounds-columns names columns of a table: give the table with --confounds TSV"


@contextmanager
def input_errors(*errors: type[Exception]) -> Iterator[None]:
    """Turn `errors` into an `InputError` with the same message."""
    try:
        yield
    except errors as error:
        raise InputError(str(error)) from error


def check_output_file(file: Path, *, overwrite: bool, example: str) -> None:
    """Refuse an output file that cannot be written, before any work; `example` is a name for it."""
    if file.is_dir():
        raise InputError(f"the output {file} is a folder; name a file, such as {file / example}")
    if file.exists() and not overwrite:
        raise InputError(
            f"the output {file} already exists; name another with --output, or replace it with --overwrite"
        )
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
    except OSError as error:
        raise InputError(f"cannot write {file} ({error.strerror}); choose another with --output") from error


@dataclass(frozen=True)
class Kind:
    """A kind of value."""

    read: Callable[[str], Any]  # turns a string of the command line into a value, or raises ValueError
    # turns a value of a TOML file into the same; raises a ValueError that says what would be right
    check: Callable[[Any], Any]
    metavar: str | None  # placeholder in the help; ``None`` for a switch, which takes no value
    choices: tuple[str, ...] = ()  # all values, if they can be listed


def _is_number(value: Any, types: type | tuple[type, ...]) -> bool:
    return isinstance(value, types) and not isinstance(value, bool)  # true in TOML is not a number


def _checked(kind: str, accept: Callable[[Any], bool], convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not accept(value):
            raise ValueError(f"must be {kind}, got {value!r}")
        return convert(value)

    return check


def _read_with(check: Callable[[Any], Any], parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = parse(text)
        except ValueError:
            value = text
        return check(value)

    return read


def integer(metavar: str = "N", *, at_least: int = 1) -> Kind:
    """An integer not below `at_least`."""
    check = _checked(f"an integer >= {at_least}", lambda v: _is_number(v, int) and v >= at_least, int)
    return Kind(_read_with(check, int), check, metavar)


def workers(metavar: str = "N") -> Kind:
    """A number of workers: an integer above 0, or -1 for one per core."""
    check = _checked(
        "an integer >= 1, or -1 for one per core", lambda v: _is_number(v, int) and (v >= 1 or v == -1), int
    )
    return Kind(_read_with(check, int), check, metavar)


def number(metavar: str = "X", *, auto: str = "") -> Kind:
    """A finite number; `auto` tells those who ask for "auto" what to do instead."""
    finite = _checked("a finite number", lambda v: _is_number(v, (int, float)) and math.isfinite(v), float)

    def check(value: Any) -> Any:
        if auto and value == "auto":
            raise ValueError(f"must be a finite number, got 'auto': {auto}")
        return finite(value)

    return Kind(_read_with(check, float), check, metavar)


def switch() -> Kind:
    """True or false."""
    check = _checked("true or false", lambda v: isinstance(v, bool), bool)
    return Kind(check, check, None)


def choice(*choices: str) -> Kind:
    """One of a few words."""
    check = _checked(f"one of {', '.join(choices)}", lambda v: isinstance(v, str) and v in choices, str)
    return Kind(check, check, "{" + ",".join(choices) + "}", choices)


def text(metavar: str) -> Kind:
    """Any text that is not empty."""
    check = _checked("a text that is not empty", lambda v: isinstance(v, str) and bool(v.strip()), str)
    return Kind(check, check, metavar)


def size() -> Kind:
    """An amount of memory, in the words of `SPCATV(memory_limit=...)`."""
    written = re.compile(r"\s*(\d+\.?\d*|\.\d+)\s*([kmgt]?(i?b)?)\s*", re.IGNORECASE)
    check = _checked(
        "a size such as 4GB, 500MB or 1.5GiB",
        lambda v: isinstance(v, str) and bool(written.fullmatch(v)),
        str,
    )
    return Kind(check, check, "SIZE")


def path(metavar: str = "FILE") -> Kind:
    """A file or folder."""
    check = _checked("a path", lambda v: isinstance(v, str) and bool(v.strip()), Path)
    return Kind(check, check, metavar)


def path_or(*words: str, metavar: str = "FILE") -> Kind:
    """A file, or one of a few words that stay strings."""
    file = path(metavar)

    def check(value: Any) -> Path | str:
        return value if value in words else file.check(value)

    return Kind(check, check, metavar)


def several(item: Kind, metavar: str) -> Kind:
    """A list: separated by commas on the command line, an array in TOML."""

    def check(values: Any) -> tuple[Any, ...]:
        # one value is a list of one: fit and select then read each other's configurations
        listed = values if isinstance(values, list | tuple) else (values,)
        if not listed:
            raise ValueError(f"must be a list that is not empty, got {values!r}")
        return tuple(item.check(value) for value in listed)

    def read(words: str) -> tuple[Any, ...]:
        return tuple(item.read(word.strip()) for word in words.split(","))

    return Kind(read, check, metavar)


def one_or_several(item: Kind, metavar: str) -> Kind:
    """One value, which is not put into a list, or a list of values."""
    many = several(item, metavar)

    def check(value: Any) -> Any:
        return many.check(value) if isinstance(value, list | tuple) else item.check(value)

    def read(words: str) -> Any:
        return many.read(words) if "," in words else item.read(words)

    return Kind(read, check, metavar)


def word_or(word: str, item: Kind) -> Kind:
    """One word that stays a string, or anything else that `item` takes."""

    def checked(value: Any, convert: Callable[[Any], Any]) -> Any:
        try:
            return value if value == word else convert(value)
        except ValueError as error:
            raise ValueError(str(error).replace("must be ", f"must be {word} or ", 1)) from error

    return Kind(lambda text: checked(text, item.read), lambda value: checked(value, item.check), item.metavar)


def table_column(metavar: str, suffixes: tuple[str, ...]) -> Kind:
    """A column, with the table that it belongs to (``file.tsv:column``) or without (``column``).

    The value is a pair (path, name), or a tuple with the name alone. The part before the last colon is a
    table if it ends like one, so column names may contain colons.
    """
    name, file = text(metavar), path(metavar)

    def check(value: Any) -> tuple[Any, ...]:
        if isinstance(value, list | tuple) and len(value) == 2:
            return (file.check(value[0]), name.check(value[1]))
        before, colon, after = name.check(value).rpartition(":")
        if colon and before.lower().endswith(suffixes):
            return (file.check(before), name.check(after))
        return (value,)

    return Kind(check, check, metavar)
