"""Parser of the command line: types of values, options that are declared once, and suggestions.

The type of an option turns a word of the command line, or of a configuration file, into a value.
"""

from __future__ import annotations

import argparse
import difflib
import math
import re
import sys
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from spcatv._util.parameters import SIZE
from spcatv._util.tables import TABLE_SUFFIXES

ValueType = Callable[[str], Any]
TABLE_AND_COLUMN = ("TSV", "COLUMN")


class InputError(ValueError):
    """Unusable input of the user: the command line ends with exit code 2 and this message."""

    exit_code = 2


def is_wrong_input(error: BaseException) -> bool:
    """Return whether an error, also of the library, is one of the input."""
    return getattr(error, "exit_code", 1) == 2


def flag(name: str) -> str:
    """Return an option as it is written on the command line."""
    return "--" + name.replace("_", "-")


@contextmanager
def input_errors(*errors: type[Exception], prefix: str = "") -> Iterator[None]:
    """Turn `errors` into an `InputError` with the same message, after a prefix."""
    try:
        yield
    except errors as error:
        raise InputError(f"{prefix}{error}") from error


def check_output_file(file: Path | None, *, overwrite: bool, example: str) -> Path:
    """Return the output file, or refuse one that cannot be written; `example` is a name for it."""
    if file is None:
        raise InputError(f"no output file: name one with --output, such as --output {example}")
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
    return file


def integer(*, at_least: int = 1, word: str = "", or_all: bool = False) -> ValueType:
    """Type of integers; `word` is taken as well and stays a string, and with `or_all` -1 for every core."""
    wanted = f"{f'{word} or ' if word else ''}an integer >= {at_least}"
    wanted += ", or -1 for one per core" if or_all else ""

    def read(text: str) -> int | str:
        if word and text == word:
            return text
        try:
            value = int(text)
        except ValueError:
            value = at_least - 1
        if value < at_least and not (or_all and value == -1):
            raise ArgumentTypeError(f"must be {wanted}, got {text!r}")
        return value

    return read


def number(text: str, hint: str = "") -> float:
    """Return a finite number; `hint` is advice for those who give "auto" or a list."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        more = f": {hint}" if hint and (text == "auto" or "," in text) else ""
        raise ArgumentTypeError(f"must be a finite number, got {text!r}{more}")
    return value


def share(text: str, hint: str = "") -> float:
    """Return a share of zeros, at least 0 and below 1."""
    in_percent = text.endswith("%")
    value = number(text.removesuffix("%"), hint)
    if in_percent or not 0 <= value < 1:
        meant = f"; did you mean {value / 100:g}?" if 0 <= value < 100 and (in_percent or value > 1) else ""
        raise ArgumentTypeError(f"must be at least 0 and below 1, got {text}{meant}")
    return value


def shares(text: str, hint: str = "") -> float | tuple[float, ...]:
    """Return one share of zeros, or with commas one per component."""
    if re.fullmatch(r"0,[1-9]\d*", text):
        raise ArgumentTypeError(
            f"must be at least 0 and below 1, got {text}; did you mean {text.replace(',', '.')}?"
        )
    values = tuple(share(word.strip(), hint) for word in text.split(","))
    return values if len(values) > 1 else values[0]


def plain_text(text: str) -> str:
    """Return a text that is not empty."""
    if not text.strip():
        raise ArgumentTypeError(f"must be a text that is not empty, got {text!r}")
    return text


def path(text: str) -> Path:
    """Return a path that is not empty."""
    if not text.strip():
        raise ArgumentTypeError(f"must be a path, got {text!r}")
    return Path(text)


def path_or(*names: str) -> ValueType:
    """Type of paths, or of one of a few words that stay strings."""
    return lambda text: text if text in names else path(text)


def size(text: str) -> str:
    """Return an amount of memory, in the words of `SPCATV(memory_limit=...)`."""
    if not SIZE.fullmatch(text):
        raise ArgumentTypeError(f"must be a size such as 4GB, 500MB or 1.5GiB, got {text!r}")
    return text


@dataclass(frozen=True)
class CommaList:
    """Type of lists: separated by commas on the command line, an array in a configuration file."""

    item: ValueType

    def __call__(self, text: str) -> tuple[Any, ...]:
        """Return the items of a list."""
        return tuple(self.item(word.strip()) for word in text.split(","))


class TableColumn(NamedTuple):
    """Column of a table; the table is None if it is left to the command to find it."""

    table: Path | None
    name: str

    def __str__(self) -> str:
        return self.name if self.table is None else f"{self.table}:{self.name}"


def column(text: str) -> TableColumn:
    """Return a column, given as ``file.tsv:column`` or ``column``; names of columns may contain colons."""
    before, colon, after = plain_text(text).rpartition(":")
    if colon and before.lower().endswith(TABLE_SUFFIXES):
        return TableColumn(path(before), plain_text(after))
    return TableColumn(None, text)


@dataclass(frozen=True)
class Values:
    """Type of one or more words after an option; with `only_one`, more are refused with this message."""

    item: ValueType
    word: str = ""  # stays a string if it is given alone
    only_one: str = ""

    def __call__(self, texts: Sequence[str]) -> Any:
        """Return the values of the words."""
        if list(texts) == [self.word]:
            return self.word
        if self.only_one and len(texts) > 1:
            raise ArgumentTypeError(self.only_one)
        values = tuple(map(self.item, texts))
        return values[0] if self.only_one else values

    def takes(self, text: str) -> bool:
        """Return whether a word is meant as a value: it can be read, or is a number out of range."""
        try:
            return text == self.word or self([text]) is not None
        except ArgumentTypeError:
            return re.fullmatch(r"[-+.,\de]+", text) is not None


@dataclass(frozen=True)
class Option:
    """An option of a command, as its configuration files need it."""

    action: argparse.Action
    kind: Any  # type of the value, tuple of choices, or `bool`
    group: str  # heading in the help and in the configuration file
    default: Any
    recorded: bool  # whether the configuration of a run records the value

    def check(self, value: Any) -> Any:
        """Return the value of an option that a configuration file gives, or raise an ArgumentTypeError."""
        if self.kind in (bool, int):
            if type(value) is not self.kind:
                wanted = "true or false" if self.kind is bool else "an integer"
                raise ArgumentTypeError(f"must be {wanted}, got {value!r}")
            return value
        texts = list(map(_word, value)) if isinstance(value, list) else [_word(value)]
        if not texts:
            raise ArgumentTypeError("must be a list that is not empty, got []")
        if isinstance(self.kind, Values):
            return self.kind(texts)
        if isinstance(self.kind, CommaList):
            return self.kind(",".join(texts))
        if self.action.nargs == 2 and len(texts) != 2:
            raise ArgumentTypeError(f"must hold 2 values, got {len(texts)}")
        if self.action.nargs is None and len(texts) > 1:
            raise ArgumentTypeError(f"must be one value, got {value!r}")
        read = partial(_choice, choices=self.kind) if isinstance(self.kind, tuple) else self.kind
        values = tuple(map(read, texts))
        return values if self.action.nargs == 2 else values[0]


def _word(value: Any) -> str:
    """Return a value of a configuration file as a word of the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str | int | float):
        raise ArgumentTypeError(f"must be a text, a number, true or false, or a list of these, got {value!r}")
    return str(value)


def _choice(text: str, choices: Sequence[str]) -> str:
    if text in choices:
        return text
    near = difflib.get_close_matches(text, choices, n=1)
    meant = f"did you mean {near[0]}? The choices are" if near else "choose one of"
    raise ArgumentTypeError(f"invalid choice: {text!r}; {meant} {', '.join(choices)}")


class Once(argparse.Action):
    """Action of an option with several words, which is refused when it is given again."""

    kind: Any = None

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        """Store the values; of `Values`, words after them are images."""
        if hasattr(namespace, self.dest):
            message = "given twice, and the last would replace the first; give it once"
            raise argparse.ArgumentError(self, message)
        if not isinstance(self.kind, Values):
            setattr(namespace, self.dest, tuple(values))
            return
        mine = list(takewhile(self.kind.takes, values)) or values[:1]
        try:
            setattr(namespace, self.dest, self.kind(mine))
        except ArgumentTypeError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        namespace.more_images = [*getattr(namespace, "more_images", ()), *values[len(mine) :]]


class Parser(argparse.ArgumentParser):
    """Parser of the whole command line, or of one command, that suggests what was meant."""

    def __init__(self, *args: Any, usual: Sequence[str] = (), **kwargs: Any) -> None:
        kwargs["formatter_class"] = _HelpFormatter
        super().__init__(*args, **kwargs)
        self.options: dict[str, Option] = {}
        self.usual = usual  # names of the options that `--help` shows, where `--help-all` shows all
        self.commands: Mapping[str, Parser] = {}  # all commands by name
        self.set_defaults(options=self.options)

    def in_group(self, title: str) -> Callable[..., None]:
        """Return a function that declares options under a heading."""
        return partial(self._add_option, self.add_argument_group(title))

    def _add_option(
        self,
        group: argparse._ArgumentGroup,
        names: str,
        kind: Any,
        help: str,
        default: Any = None,
        *,
        recorded: bool = True,
    ) -> None:
        """Declare an option.

        `names` are its flags and the placeholder of its value, as in ``-o --output DIR``; two placeholders
        stand for two words. `kind` is the type of the value, a tuple of choices, `bool`, or `int` for a flag
        that is counted. An option that is not given has no value; `default` is what the command uses.
        """
        flags = [name for name in names.split() if name.startswith("-")]
        placeholders = names.split()[len(flags) :]
        details: dict[str, Any] = {"metavar": placeholders[0] if placeholders else None}
        if kind is bool:
            details = {"action": argparse.BooleanOptionalAction}
        elif kind is int:
            details = {"action": "count"}
        elif isinstance(kind, tuple):
            details |= {"choices": kind, "metavar": "|".join(kind)}
        elif isinstance(kind, Values):
            details |= {"action": Once, "nargs": "+"}
        elif len(placeholders) == 2:
            details = {"action": Once, "nargs": 2, "type": kind, "metavar": tuple(placeholders)}
        else:
            details |= {"type": kind}
        if default is not None and default is not False:
            help += f" (default: {_shown(default)})"
        help = help.replace("%", "%%")
        action = group.add_argument(*flags, default=argparse.SUPPRESS, help=help, **details)
        if isinstance(action, Once):
            action.kind = kind
        self.options[action.dest] = Option(action, kind, group.title or "", default, recorded)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; unknown words end the program with a suggestion."""
        texts = list(sys.argv[1:] if args is None else args)
        first = texts[0].split("=")[0] if texts else ""
        is_command = self in self.commands.values()
        if not is_command and first.startswith("--") and first not in self._option_string_actions:
            self.error(f"unrecognized arguments: {first} (options come after the command)")
        parsed, unknown = super().parse_known_args(self._with_columns_apart(texts), namespace)
        if hasattr(parsed, "images") and not any(text.startswith("-") for text in unknown):
            parsed.images, unknown = [*parsed.images, *unknown], []  # images after an option
        if unknown:
            self.error(f"unrecognized arguments: {', '.join(self._suggestions(unknown))}")
        return parsed, unknown

    def _suggestions(self, unknown: Sequence[str]) -> list[str]:
        """Return unknown options with what was probably meant, or unknown words if there are no options."""
        others: dict[str, str] = {}  # the first command that has the option
        for at, parser in reversed(list(self.commands.items())):
            others |= dict.fromkeys(parser._option_string_actions, at)
        known = {**others, **dict.fromkeys(self._option_string_actions, "")}
        hints = []
        for option in [text.split("=")[0] for text in unknown if text.startswith("--")]:
            near = difflib.get_close_matches(option, known, n=1)
            hint = ""
            for name in near:
                where = f" of spca-tv {known[name]}" if known[name] else ""
                hint = f" (an option{where})" if name == option else f" (did you mean {name}{where}?)"
            hints.append(option + hint)
        return hints or list(unknown)

    def _with_columns_apart(self, texts: Sequence[str]) -> list[str]:
        """Split ``table.tsv:column`` after an option that takes the table and the column as two words."""
        apart: list[str] = []
        for option, text in zip(["", *texts], texts, strict=False):
            action = self._option_string_actions.get(option)
            try:
                pair = column(text) if action and action.metavar == TABLE_AND_COLUMN else None
            except ArgumentTypeError as error:
                self.error(f"argument {option}: {error}")
            apart += [str(pair.table), pair.name] if pair and pair.table else [text]
        return apart

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is not among the choices, with the one that was probably meant."""
        if action.choices is not None:
            try:
                _choice(str(value), list(action.choices))
            except ArgumentTypeError as error:
                raise argparse.ArgumentError(action, str(error)) from error

    def error(self, message: str) -> NoReturn:
        """End the program with a message, and with advice for a missing hemisphere."""
        if message == "argument --surface: expected 2 arguments":
            message += (
                ", the left and the right surface; for images of one hemisphere alone write - for the other "
                "one: --surface lh.pial -, or --surface - rh.pial"
            )
        super().error(message)


class ShortHelp(argparse._HelpAction):
    """Action of `--help` where `--help-all` shows more."""

    def __call__(self, parser: Any, *args: Any, **kwargs: Any) -> None:
        """Print the help of the usual options, and end the program."""
        formatter = parser._get_formatter()
        formatter.add_usage(parser.usage, [], [])
        formatter.add_text(parser.description)
        formatter.start_section("the usual options (--help-all shows all options)")
        formatter.add_arguments(parser._get_positional_actions())
        formatter.add_arguments(parser.options[name].action for name in parser.usual)
        formatter.end_section()
        formatter.add_text(parser.epilog)
        parser._print_message(formatter.format_help(), sys.stdout)
        parser.exit()


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Help with room for long options, and without the ellipses of options with several values."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["max_help_position"] = 31
        super().__init__(*args, **kwargs)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        filled = argparse.HelpFormatter._fill_text(self, text, width, indent)
        return super()._fill_text(text, width, indent) if "\n" in text else filled

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        return (
            f"{action.metavar}..." if action.nargs == "+" else super()._format_args(action, default_metavar)
        )


def _shown(default: Any) -> str:
    if isinstance(default, tuple):
        return " ".join(map(_shown, default))
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f"{default:g}" if isinstance(default, float) else str(default)
