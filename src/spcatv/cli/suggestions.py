"""Mistyped commands and options: the error says what was probably meant, also across commands."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NoReturn

from spcatv._util.tables import TABLE_SUFFIXES
from spcatv.cli.kinds import table_column

# Words that are less alike than this (0 to 1) are not suggested.
ALIKE = 0.6
# What to add to messages of argparse.
ADVICE = {
    "argument --surface: expected 2 arguments": ", the left and the right surface; for images of one "
    "hemisphere alone write - for the other one: --surface lh.pial -, or --surface - rh.pial"
}
# What an option takes that needs a table and one of its columns.
TABLE_AND_COLUMN = ("TSV", "COLUMN")
COLUMN = table_column("TSV:COLUMN", TABLE_SUFFIXES)
# An option of another command must be more alike than one of the own by this much.
PREFERENCE = 0.1


class Parser(argparse.ArgumentParser):
    """A parser, of the whole command line or of a command, that knows all commands.

    `commands` are the parsers of all commands by name; `build_parser` sets it in all of them.
    """

    commands: Mapping[str, argparse.ArgumentParser] = {}

    @property
    def own_command(self) -> str | None:
        """The command that this parser reads; None for the whole command line."""
        return next((name for name, parser in self.commands.items() if parser is self), None)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an unknown command or option ends the program with a suggestion."""
        words = list(sys.argv[1:] if args is None else args)
        self._refuse_unknown_options(words if self.own_command else _before_command(words))
        if self.own_command is None:
            self._refuse_unknown_command(words)
        else:
            self._refuse_repeated_options(words)
        return super().parse_known_args(self._with_columns_apart(words), namespace)

    def _with_columns_apart(self, words: Sequence[str]) -> list[str]:
        """Words in which an option that takes a table and a column may be given ``table.tsv:column``."""
        apart: list[str] = []
        for option, word in zip(["", *words], words, strict=False):
            action = self._option_string_actions.get(option)
            is_pair = action is not None and action.metavar == TABLE_AND_COLUMN
            try:
                apart += map(str, COLUMN.read(word)) if is_pair else [word]
            except ValueError as error:  # as argparse does for other options
                self.error(f"argument {option}: {error}")
        return apart

    def error(self, message: str) -> NoReturn:
        """End the program with a message, and with advice where there is some."""
        super().error(message + ADVICE.get(message, ""))

    def _refuse_unknown_options(self, words: Sequence[str]) -> None:
        if {"-h", "--help", "--version"} & set(words):
            return
        unknown = [option for option in _long_options(words) if not self._knows(option)]
        if unknown:
            hints = [name + _hint(name, self.own_command, self.commands) for name in dict.fromkeys(unknown)]
            self.error(f"unrecognized arguments: {', '.join(hints)}")

    def _knows(self, option: str) -> bool:
        known = self._option_string_actions
        return option in known or (self.allow_abbrev and any(name.startswith(option) for name in known))

    def _refuse_repeated_options(self, words: Sequence[str]) -> None:
        """End the program if an option with several values is given twice, which looks like a longer list."""
        known = self._option_string_actions
        seen: set[argparse.Action] = set()
        for option in _long_options(words):
            name = (
                option if option in known else next((name for name in known if name.startswith(option)), "")
            )
            action = known.get(name)
            if action in seen:
                self.error(
                    f"argument {name}: given twice, and the last would replace the first; give it once"
                )
            if action is not None and action.nargs not in (None, 0):
                seen.add(action)

    def _refuse_unknown_command(self, words: Sequence[str]) -> None:
        word = next((word for word in words if not word.startswith("-")), None)
        if word is not None and word not in self.commands:
            near = closest(word, self.commands)
            meant = f"did you mean {near}? The commands are" if near else "choose one of"
            self.error(f"invalid choice: {word!r}; {meant} {', '.join(self.commands)}")


def _long_options(words: Sequence[str]) -> list[str]:
    """The long options among words, without values; as in argparse, a word with a space is none."""
    until = takewhile(lambda word: word != "--", words)
    return [word.split("=")[0] for word in until if word.startswith("--") and " " not in word]


def _before_command(words: Sequence[str]) -> Sequence[str]:
    """The words before the first that is not an option."""
    return list(takewhile(lambda word: word.startswith("-"), words))


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like a word; None if none is alike."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=ALIKE)
    return near[0] if near else None


def options_of_parser(parser: argparse.ArgumentParser) -> tuple[str, ...]:
    """The long options of a command."""
    return tuple(name for name in parser._option_string_actions if name.startswith("--"))


def _hint(option: str, command: str | None, commands: Mapping[str, argparse.ArgumentParser]) -> str:
    """What to say after an unknown option: whose it is, or what it is like."""
    owners = [name for name, parser in commands.items() if option in options_of_parser(parser)]
    if owners:
        where = f"an option of spca-tv {' and '.join(owners)}"
        return f" ({where})" if command else f" ({where}, and comes after the command)"
    best, best_command, best_score = "", "", ALIKE
    for name, parser in commands.items():
        near = closest(option[2:], (known[2:] for known in options_of_parser(parser)))
        if near is not None:
            score = difflib.SequenceMatcher(None, option[2:], near).ratio() + PREFERENCE * (name == command)
            if score > best_score:
                best, best_command, best_score = near, name, score
    if not best:
        return ""
    return f" (did you mean --{best}{'' if best_command == command else f' of spca-tv {best_command}'}?)"
