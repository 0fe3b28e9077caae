"""The arguments of argparse, with their help, made from the table of options."""

from __future__ import annotations

import argparse
from dataclasses import fields
from itertools import takewhile
from typing import Any

from spcatv.cli.kinds import Kind
from spcatv.cli.option_table import HEADINGS, RUN, Option
from spcatv.cli.options import CommonOptions, flag, options_of


def add_arguments(parser: argparse.ArgumentParser, kind: type[CommonOptions]) -> argparse._ArgumentGroup:
    """Declare every option of a command, without a value unless it is given; returns the last group."""
    defaults = {item.name: item.default for item in fields(kind)}
    options = options_of(kind)
    used = {option.group for option in options.values()}
    groups = {name: parser.add_argument_group(title) for name, title in HEADINGS.items() if name in used}
    for name, option in options.items():
        add_argument(groups[option.group], name, option, defaults[name])
    return groups[RUN]


def add_argument(group: argparse._ArgumentGroup, name: str, option: Option, default: Any = None) -> None:
    """Declare an option by its name in the table; `default` is only shown."""
    kind, shown = option.kind, option.help.replace("%", "%%")
    details: dict[str, Any] = {"metavar": kind.metavar}
    if kind.metavar is None:
        details = {"action": argparse.BooleanOptionalAction}
    elif option.n_values == "+":
        details |= {"nargs": "+", "action": _Numbers, "kind": kind}
    elif option.n_values is not None:
        # separate arguments, so that a shell completes file names
        details = {"nargs": option.n_values, "metavar": tuple(kind.metavar.split())}
    else:
        details |= {"type": argument_type(kind), "choices": kind.choices or None}
    if default is not None:
        shown += f" (default: {_shown(default)})"
    group.add_argument(flag(name), default=argparse.SUPPRESS, help=shown, **details)


class _Numbers(argparse.Action):
    """Takes the numbers that follow an option; words after them are images."""

    def __init__(self, *args: Any, kind: Kind, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._kind = kind

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, *_: Any
    ) -> None:
        numbers = list(takewhile(self._reads, values)) or values[:1]
        try:
            setattr(namespace, self.dest, self._kind.read(",".join(numbers)))
        except ValueError as error:
            raise argparse.ArgumentError(self, str(error)) from error
        namespace.more_images = [*getattr(namespace, "more_images", ()), *values[len(numbers) :]]

    def _reads(self, word: str) -> bool:
        try:
            self._kind.read(word)
        except ValueError:
            return False
        return True


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, tuple):
        return ",".join(map(_shown, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


def argument_type(kind: Kind) -> Any:
    """A kind as a type of argparse, which shows what is wrong with a value in the words of the kind."""

    def read(text: str) -> Any:
        try:
            return kind.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return read


def add_verbosity(parser: argparse._ActionsContainer) -> None:
    """Declare the options --quiet and --verbose."""
    parser.add_argument("--quiet", action="store_true", help="print nothing when all goes well")
    parser.add_argument(
        "--verbose",
        "-v",
        action="count",
        default=0,
        help="log what happens; twice: every alternation as well",
    )
