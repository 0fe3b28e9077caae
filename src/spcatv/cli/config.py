"""Configuration files (TOML): reading and checking options, and writing the effective ones.

A key is the long name of an option (``n_components`` or ``n-components``); ``images`` holds the positional
arguments of the command line. Relative paths start at the folder of the file.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spcatv._util.files import read_text
from spcatv._version import __version__
from spcatv.cli.inputs import SampleFiles
from spcatv.cli.kinds import InputError
from spcatv.cli.option_table import GRID_OPTIONS, OPTIONS, Option
from spcatv.cli.options import CommonOptions, options_of
from spcatv.cli.suggestions import closest

# Bytes of a configuration, and dots in a key, beyond which something is wrong.
LARGEST_CONFIG = 2**25
MOST_DOTS = 50
# what cannot be part of a key with dots
NO_KEY = re.compile(r"""[^\w"'. \t-]""")
# options that do not change the results
VERBOSITY = ("quiet", "verbose")


def read_config(file: Path, kind: type[CommonOptions]) -> dict[str, Any]:
    """Read and check a TOML file with the options of a command, `FitOptions` or `SelectOptions`.

    Returns the values by the names of the options, and ``images`` as a list of strings and pairs of strings;
    paths no longer depend on the folder of the file. An InputError names the file and the key.
    """
    values: dict[str, Any] = {}
    options = options_of(kind)
    for written, value in _upgraded(_parsed(file)).items():
        name = written.replace("-", "_")
        if name in values:
            raise InputError(f"{file}: {name} is given twice, with a hyphen and with an underscore")
        try:
            values[name] = _checked(name, value, options)
        except ValueError as error:
            for_select = isinstance(value, list) and name in GRID_OPTIONS
            remark = " (values to choose from are for spca-tv select)" if for_select else ""
            raise InputError(f"{file}: {written} {error}{remark}") from error
        except KeyError as error:
            if name in OPTIONS:
                raise InputError(f"{file}: {written} is not an option of spca-tv {kind.command}") from error
            raise InputError(f"{file}: unknown key {written!r}{_closest(name, options)}") from error
    return {name: _anchored(value, file.resolve().parent) for name, value in values.items()}


def _parsed(file: Path) -> dict[str, Any]:
    text = read_text(file, "configuration", InputError, largest=LARGEST_CONFIG)
    # keys of many parts take the parser a time and memory that grow with their square
    if any(part.count(".") > MOST_DOTS for part in NO_KEY.split(text)):
        raise InputError(f"{file}: a key has more than {MOST_DOTS} dots; options have none")
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except RecursionError as error:
        raise InputError(f"{file} is not valid TOML: it is nested too deeply") from error
    except ValueError as error:  # of TOML, or of a number of thousands of digits
        raise InputError(f"{file} is not valid TOML: {error}") from error


def _upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """Translate a configuration from before joint fits: its run fitted one component after the other."""
    if values.get("refine") is not False:
        return values
    gone = (("refine", False), ("transform_method", "deflation"))
    return {key: value for key, value in values.items() if (key, value) not in gone} | {"method": "deflation"}


def _closest(name: str, options: Mapping[str, Option]) -> str:
    known = [*options, "images", *VERBOSITY]
    near = closest(name, known)
    return f"; did you mean {near!r}?" if near else f"; the keys are {', '.join(known)}"


def _checked(name: str, value: Any, options: Mapping[str, Option]) -> Any:
    if name == "images":
        return _checked_images(value)
    if name in VERBOSITY:
        if not isinstance(value, int):  # true and false are integers
            raise ValueError(f"must be true or false, got {value!r}")
        return value
    option = options[name]
    checked = option.kind.check(value)
    if isinstance(option.n_values, int) and len(checked) != option.n_values:
        raise ValueError(f"must hold {option.n_values} values, got {len(checked)}")
    return checked


def _checked_images(value: Any) -> list[str | tuple[str, ...]]:
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or not values:
        raise ValueError(f"must be a path or a list of paths, got {value!r}")
    images: list[str | tuple[str, ...]] = []
    for item in values:
        pair = isinstance(item, list) and len(item) == 2 and all(isinstance(name, str) for name in item)
        if not (isinstance(item, str) or pair):
            raise ValueError(f"must hold paths, or pairs of a left and a right path, got {item!r}")
        images.append(item if isinstance(item, str) else tuple(item))
    return images


def _anchored(value: Any, folder: Path) -> Any:
    """Let relative paths, also in nested lists, start at `folder`."""
    if isinstance(value, Path):
        return folder / value.expanduser()
    if isinstance(value, tuple):
        return tuple(_anchored(item, folder) for item in value)
    if isinstance(value, list):  # only `images` is a list; other values are tuples
        return [
            tuple(os.path.join(folder, name) for name in item)
            if isinstance(item, tuple)
            else os.path.join(folder, os.path.expanduser(item))
            for item in value
        ]
    return value


def config_text(options: CommonOptions, files: Sequence[SampleFiles] | None, *, name: str) -> str:
    """The effective configuration as TOML; a run with it repeats this one.

    Holds every option that has a value, with absolute paths, and the `files` of every sample (None for an
    array). `name` is the file's own name, for its header.
    """
    lines = [
        f"# The options of this run of spca-tv {__version__}; those that are missing were left to the data.",
        "# To repeat it:",
        f"#     spca-tv {options.command} --config {name} --output ANOTHER_FOLDER",
    ]
    if files is not None:
        lines += ["", "images = ["]
        lines += [f"    {_toml_value(sample[0] if len(sample) == 1 else sample)}," for sample in files]
        lines += ["]"]
    group = ""
    for key, option in options_of(type(options)).items():
        value = getattr(options, key)
        if value is None or not option.kept:
            continue
        if option.group != group:
            group = option.group
            lines += ["", f"# {group}"]
        lines.append(f"{key} = {_toml_value(value)}")
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, Path):
        return _toml_text(os.path.abspath(value))
    if isinstance(value, str):
        return _toml_text(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml_value, value))}]"
    return repr(value)  # TOML and Python write integers and finite floats alike


def _toml_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the name {text!r} is not valid Unicode; rename the file") from error
    # TOML uses the escapes of JSON, except for one control character that JSON does not escape
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
