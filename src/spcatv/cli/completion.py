"""`spca-tv completion`: scripts with which bash, zsh and fish complete commands, options and values.

All three are made from the parser, and know what it knows.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from dataclasses import dataclass

from spcatv.cli.parser import build_parser

# Placeholders of the help that stand for files and folders.
FILES = frozenset({"FILE", "DIR", "TSV", "LH", "RH", "IMAGES", "MODEL", "ATLAS"})


@dataclass(frozen=True)
class Choice:
    """An option, or a positional argument, as a shell needs it."""

    names: tuple[str, ...]  # such as --verbose and -v; empty for a positional argument
    help: str  # first part of the help, without placeholders
    takes_value: bool
    values: tuple[str, ...]  # all values, if they can be listed
    takes_file: bool


@dataclass(frozen=True)
class Command:
    """A command and what may follow it."""

    name: str
    help: str
    choices: tuple[Choice, ...]

    @property
    def options(self) -> list[Choice]:
        """The options."""
        return [choice for choice in self.choices if choice.names]

    @property
    def words(self) -> list[str]:
        """All spellings of the options."""
        return [name for option in self.options for name in option.names]


def run(arguments: argparse.Namespace) -> None:
    """Print the script."""
    print({"bash": bash, "zsh": zsh, "fish": fish}[arguments.shell](*describe()), end="")


def describe() -> tuple[Command, list[Command]]:
    """The whole command line without its commands, and the commands."""
    parser = build_parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    texts = {action.dest: action.help or "" for action in commands._choices_actions}
    whole = Command("", "", tuple(_choice(action) for action in parser._actions if action is not commands))
    own = {name: tuple(map(_choice, command._actions)) for name, command in commands.choices.items()}
    return whole, [Command(name, texts[name], choices) for name, choices in own.items()]


def _choice(action: argparse.Action) -> Choice:
    metavars = (action.metavar,) if isinstance(action.metavar, str) else action.metavar or ()
    return Choice(
        names=tuple(action.option_strings),
        help=re.split(r"[;(]", (action.help or "").replace("%%", "%"))[0].strip(),
        takes_value=action.nargs != 0,
        values=tuple(map(str, action.choices or ())),
        takes_file=bool(FILES & set(metavars)),
    )


def bash(whole: Command, commands: list[Command]) -> str:
    """A function for `complete -F`; what it leaves open, bash completes with file names."""
    values = [
        _bash_case(f"{command.name}:{name}", option.values)
        for command in commands
        for option in command.options
        for name in option.names
        if option.values
    ]
    options = [_bash_case(command.name, command.words) for command in commands]
    positional = [
        _bash_case(command.name, choice.values)
        for command in commands
        for choice in command.choices
        if choice.values and not choice.names
    ]
    names = [command.name for command in commands]
    return "\n".join(
        [
            "# bash completion of spca-tv",
            "_spca_tv() {",
            '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
            '    local command="" words="" word',
            '    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            f'        case "$word" in {"|".join(names)}) command="$word"; break ;; esac',
            "    done",
            '    case "$command:$previous" in',
            *values,
            '        *) case "$current" in',
            '            -*) case "$command" in',
            *options,
            _bash_case("*", whole.words),
            "            esac ;;",
            '            *) case "$command" in',
            *positional,
            _bash_case('""', names),
            "            esac ;;",
            "        esac ;;",
            "    esac",
            '    COMPREPLY=($(compgen -W "$words" -- "$current"))',
            "}",
            "complete -o bashdefault -o default -F _spca_tv spca-tv",
            "",
        ]
    )


def _bash_case(pattern: str, words: Iterable[str]) -> str:
    return f"                {pattern}) words={_quoted(' '.join(words))} ;;"


def zsh(whole: Command, commands: list[Command]) -> str:
    """A completion function for a folder of $fpath, which also works when it is sourced."""
    listed = [f"        {_quoted(f'{command.name}:{command.help}')}" for command in commands]
    lines = [
        "#compdef spca-tv",
        "_spca_tv() {",
        "    local context state state_descr line",
        "    local -a commands",
        "    typeset -A opt_args",
        "    commands=(",
        *listed,
        "    )",
        "    _arguments -C \\",
        *(f"        {_zsh_spec(name, option)} \\" for option in whole.options for name in option.names),
        "        '1:command:->command' '*::argument:->argument'",
        '    case "$state" in',
        "        command) _describe command commands ;;",
        '        argument) case "$words[1]" in',
    ]
    for command in commands:
        specs = [_zsh_spec(name, option) for option in command.options for name in option.names]
        positional = [choice for choice in command.choices if not choice.names]
        specs += [_quoted(f"*:argument:{_zsh_values(choice)}") for choice in positional]
        lines.append(f"            {command.name}) _arguments \\")
        lines += [*(f"                {spec} \\" for spec in specs), "                ;;"]
    start = 'if [ "$funcstack[1]" = "_spca-tv" ]; then _spca_tv "$@"; else compdef _spca_tv spca-tv; fi'
    return "\n".join([*lines, "        esac ;;", "    esac", "}", start, ""])


def _zsh_spec(name: str, option: Choice) -> str:
    text = re.sub(r"([\[\]:\\])", r"\\\1", option.help)
    return _quoted(f"*{name}[{text}]" + (f":value:{_zsh_values(option)}" if option.takes_value else ""))


def _zsh_values(choice: Choice) -> str:
    if choice.values:
        return f"({' '.join(choice.values)})"
    return "_files" if choice.takes_file else " "


def fish(whole: Command, commands: list[Command]) -> str:
    """One `complete` line per command and option."""
    lines = ["# fish completion of spca-tv", "complete -c spca-tv -n __fish_use_subcommand -f"]
    lines += [_fish_option("__fish_use_subcommand", option) for option in whole.options]
    for command in commands:
        lines.append(
            f"complete -c spca-tv -n __fish_use_subcommand -a {command.name} -d {_fish_text(command.help)}"
        )
    for command in commands:
        condition = _fish_text(f"__fish_seen_subcommand_from {command.name}")
        lines += [_fish_option(condition, option) for option in command.options]
        lines += [
            f"complete -c spca-tv -n {condition} -f -a {_fish_text(' '.join(choice.values))}"
            for choice in command.choices
            if choice.values and not choice.names
        ]
    return "\n".join([*lines, ""])


def _fish_option(condition: str, option: Choice) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    value = ""
    if option.values:
        value = f" -x -a {_fish_text(' '.join(option.values))}"
    elif option.takes_value:
        value = " -r" if option.takes_file else " -x"
    return f"complete -c spca-tv -n {condition} {' '.join(names)}{value} -d {_fish_text(option.help)}"


def _quoted(text: str) -> str:
    """In single quotes, as bash and zsh read them."""
    return "'" + text.replace("'", "'\\''") + "'"


def _fish_text(text: str) -> str:
    """In single quotes, as fish reads them."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
