"""Values of options: from the command line, a configuration file (TOML) or the defaults; and their record.

A key of the file is the long name of an option (``n_components`` or ``n-components``); ``images`` holds the
positional arguments of the command line. Relative paths start at the folder of the file.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shlex
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spcatv._util.atomic_files import read_text
from spcatv._util.parameters import TARGET_PARAMETERS
from spcatv._version import __version__
from spcatv.cli.app import BIDS, BIDS_FILTERS, PENALISED, RUN
from spcatv.cli.inputs import SampleFiles
from spcatv.cli.parser import CommaList, InputError, Option, TableColumn, flag

Options = argparse.Namespace
OptionTable = Mapping[str, Option]
# Options that exclude the options of all other ways, and options that belong to this way.
Way = tuple[Sequence[str], Sequence[str]]
INPUTS: tuple[Way, ...] = ((("images",), ()), (("array",), ()), (("bids",), tuple(BIDS_FILTERS)))


def effective_options(arguments: argparse.Namespace) -> Options:
    """Return the value of every option: of the command line, else of the file, else the default.

    ``images`` are the positional arguments; ``command`` is the name of the command. An InputError says that
    two options that exclude each other are given in one place.
    """
    table: OptionTable = arguments.options
    defaults = {name: option.default for name, option in table.items()}
    given = {name: value for name, value in vars(arguments).items() if name in table}
    if not hasattr(arguments, "images"):
        return Options(**{**defaults, **given}, command=arguments.command)
    images = [*arguments.images, *getattr(arguments, "more_images", ())]
    given |= {"images": images} if images else {}
    file = given.get("config")
    configured = {} if file is None else read_config(file, table, arguments.command)
    configured = _without_rivals(configured, given, INPUTS)
    values = {**configured, **given}
    if "alpha" in table:
        penalised = [name for name, option in table.items() if option.group == PENALISED]
        values = {**_without_rivals(configured, given, ((TARGET_PARAMETERS, ()), (penalised, ()))), **given}
        found = [name for name in penalised if name in values]
        if found and "alpha" not in values:
            usual = " and ".join(map(flag, TARGET_PARAMETERS))
            raise InputError(f"{flag(found[0])} goes with --alpha; without it, use {usual}")
        values |= dict.fromkeys(TARGET_PARAMETERS if found else penalised)
    options = Options(**{**defaults, "images": [], **values}, command=arguments.command)
    if options.bids is None:
        refuse(options, table, BIDS, "--bids")
    return options


def _without_rivals(
    configured: Mapping[str, Any], given: Mapping[str, Any], ways: Sequence[Way]
) -> dict[str, Any]:
    """Drop the values of a file that belong to another way than the command line; refuse two ways at once."""
    for values in (given, configured):
        used = [next((name for name in names if name in values), None) for names, _ in ways]
        both = ["images" if name == "images" else flag(name) for name in used if name is not None]
        if len(both) > 1:
            raise InputError(f"give either {both[0]} or {both[1]}, not both")
    chosen = [way for way in ways if any(name in given for name in way[0])]
    others = {name for way in ways if chosen and way not in chosen for names in way for name in names}
    return {name: value for name, value in configured.items() if name not in others}


def replaced(options: Options, **changes: Any) -> Options:
    """Return the options with some other values."""
    return Options(**{**vars(options), **changes})


def refuse(options: Options, table: OptionTable, heading: str, needed: str) -> None:
    """Refuse the options under a heading, which have no effect without another one."""
    for name, option in table.items():
        if option.group == heading and getattr(options, name) != option.default:
            raise InputError(f"{flag(name)} can only be used with {needed}")


def parse_toml(text: str, file: Path) -> dict[str, Any]:
    """Return the values in a TOML text; an InputError names its file."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not valid TOML: {error}") from error


def read_config(file: Path, table: OptionTable, command: str) -> dict[str, Any]:
    """Read and check a TOML file with options of a command; an InputError names the file and the key."""
    values: dict[str, Any] = {}
    for key, value in parse_toml(read_text(file, "configuration", InputError), file).items():
        name = key.replace("-", "_")
        if name in values:
            raise InputError(f"{file}: {name} is given twice, with a hyphen and with an underscore")
        if name != "images" and name not in table:
            near = difflib.get_close_matches(name, [*table, "images"], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the keys are images, {', '.join(table)}"
            raise InputError(f"{file}: {key!r} is not an option of spca-tv {command}{hint}")
        try:
            values[name] = _images(value) if name == "images" else table[name].check(value)
        except argparse.ArgumentTypeError as error:
            raise InputError(f"{file}: {key} {error}") from error
    return {name: _anchored(value, file.resolve().parent) for name, value in values.items()}


def _images(value: Any) -> list[str | tuple[str, ...]]:
    listed = value if isinstance(value, list) else [value]
    pairs = [tuple(item) if isinstance(item, list) else (item,) for item in listed]
    if not pairs or not all(len(pair) in (1, 2) and all(isinstance(s, str) for s in pair) for pair in pairs):
        wanted = "paths, or pairs of a left and a right path"
        raise argparse.ArgumentTypeError(f"must hold {wanted}, got {value!r}")
    return [pair if len(pair) == 2 else pair[0] for pair in pairs]


def _anchored(value: Any, folder: Path) -> Any:
    """Let relative paths start at `folder`; strings in lists are images."""
    match value:
        case Path():
            return folder / value.expanduser()
        case TableColumn(table, name):
            return TableColumn(table if table is None else _anchored(table, folder), name)
        case tuple():
            return tuple(_anchored(item, folder) for item in value)
        case list():
            return [
                os.path.join(folder, os.path.expanduser(item))
                if isinstance(item, str)
                else tuple(os.path.join(folder, name) for name in item)
                for item in value
            ]
    return value


def config_text(
    options: Options, table: OptionTable, files: Sequence[SampleFiles] | None, *, name: str
) -> str:
    """Return the effective configuration as TOML; a run with it repeats this one.

    It holds every recorded option that has a value, with absolute paths, and the `files` of every sample
    (None for an array). `name` is the name of the file, for its header.
    """
    lines = [
        f"# The options of this run of spca-tv {__version__}; options that are missing were not given.",
        "# To repeat it:",
        f"#     spca-tv {options.command} --config {name} --output ANOTHER_FOLDER",
    ]
    if files is not None:
        lines += ["", "images = ["]
        lines += [f"    {_toml_value(sample[0] if len(sample) == 1 else sample)}," for sample in files]
        lines += ["]"]
    group = ""
    for key, option in table.items():
        value = getattr(options, key)
        if value is None or not option.recorded:
            continue
        if option.group != group:
            group = option.group
            lines += ["", f"# {group}"]
        per_component = key == "sparsity" and options.command == "fit" and isinstance(value, tuple)
        lines.append(f"{key} = {_toml_value(','.join(map(repr, value)) if per_component else value)}")
    return "\n".join(lines) + "\n"


def command_line(options: Options, table: OptionTable, command: str, changes: Mapping[str, Any]) -> str:
    """Return the words of a command with the values of `options`, other than its defaults, for a shell.

    `table` holds the options of the command. Values in `changes` replace others: None leaves an option out,
    and anything else is written even if it is the default.
    """
    words = ["spca-tv", command]
    if options.array is None and options.bids is None:
        for source in options.images:
            words += [source] if isinstance(source, str) else source
    for name, option in table.items():
        value = changes.get(name, getattr(options, name, None))
        is_kept = option.recorded or option.group != RUN
        if value is None or not is_kept or (name not in changes and value == option.default):
            continue
        if option.kind is bool:
            words.append(flag(name) if value else flag(f"no_{name}"))
            continue
        per_component = name == "sparsity" and isinstance(value, tuple)
        if isinstance(option.kind, CommaList) or per_component:
            value = ",".join(map(str, value))
        texts = value if isinstance(value, tuple) and not isinstance(value, TableColumn) else (value,)
        words += [flag(name), *(f"{text:g}" if isinstance(text, float) else str(text) for text in texts)]
    return shlex.join(words)


def _toml_value(value: Any) -> str:
    match value:
        case Path():
            return _toml_text(os.path.abspath(value))
        case TableColumn(table, name):
            return _toml_text(str(TableColumn(None if table is None else Path(os.path.abspath(table)), name)))
        case str():
            return _toml_text(value)
        case bool():
            return "true" if value else "false"
        case tuple():
            return f"[{', '.join(map(_toml_value, value))}]"
    return repr(value)  # TOML and Python write integers and finite floats alike


def _toml_text(text: str) -> str:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(f"the name {text!r} is not valid Unicode; rename the file") from error
    # TOML uses the escapes of JSON, except for one control character that JSON does not escape
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
