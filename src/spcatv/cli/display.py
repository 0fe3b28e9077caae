"""Output of the command line: lines, warnings, errors, and progress on a terminal or in a log."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from spcatv import progress
from spcatv.cli.app import build_parser
from spcatv.cli.parser import flag

if TYPE_CHECKING:
    from rich.console import Console

# Control characters, which begin escape sequences; marks that turn the direction of text; and bytes of file
# names that are no text.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Parameters of Python whose options have other names.
_OTHER_NAMES = {"random_state": "--seed", "memory_limit": "--memory"}
_OTHER_WAYS = {
    "global_signal=[\"']regress[\"']": "--regress-global",
    r"cv=KFold\(\d+, shuffle=True, random_state=0\)": "--shuffle",
    r"cv=KFold\(\d+\)": "--no-shuffle",
    r"surface=\(left, right\)": "--surface LH RH",
    r"surface=\{'left': \.\.\.\}": "--surface lh.pial -",
    r"surface=\{'right': \.\.\.\}": "--surface - rh.pial",
    "surface='fsaverage5'": "--template fsaverage5",
    "number of splits n_splits=": "number of folds --cv ",  # a message of scikit-learn
}


def printable(text: str) -> str:
    """Return the text with everything that would move the cursor or colour the terminal written out."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def safe_print(text: str, file: TextIO | None = None) -> None:
    """Print lines without delay, to the standard output unless `file` is given."""
    print(printable(text), file=sys.stdout if file is None else file, flush=True)


def complain(kind: str, text: str) -> None:
    """Print an error, a warning or a note on one line, with options in place of Python's parameters."""
    safe_print(f"spca-tv: {kind}: {in_options(' '.join(text.split()))}", sys.stderr)


@cache
def _flags() -> dict[str, str]:
    """Return the option of every parameter that has one."""
    commands = build_parser().commands
    names = {**commands["select"].options, **commands["fit"].options}
    return {name: flag(name) for name in names} | _OTHER_NAMES


def in_options(text: str) -> str:
    """Return a message of the library with options in place of parameters: ``n_init=3`` is ``--n-init 3``."""
    flags = _flags()
    for way, words in _OTHER_WAYS.items():
        text = re.sub(way, words, text)
    name = rf"(?<![\w/.\"'=-])({'|'.join(sorted(flags, key=len, reverse=True))})"

    def option(found: re.Match[str]) -> str:
        value = found[2].strip("\"'")
        if value in ("True", "False"):
            return flags[found[1]].replace("--", "--no-" if value == "False" else "--", 1)
        return f"{flags[found[1]]} {value}".rstrip()

    text = re.sub(rf"""{name}=("[^"]*"|'[^']*'|[^\s,;:)]*)""", option, text)

    def in_prose(found: re.Match[str]) -> str:
        """Translate a name that is no English word, or one that begins the message."""
        is_name = "_" in found[1] or (found.start() == 0 and found.string[found.end() :].startswith(" must"))
        return flags[found[1]] if is_name else found[1]

    return re.sub(rf"{name}(?![\w/=]|\.\w)", in_prose, text)


def show_page(file: Path) -> None:
    """Open a page in the browser; on a machine without one, print what to do."""
    import webbrowser  # imported here: it would slow down every command

    if not webbrowser.open(file.resolve().as_uri()):
        complain("note", f"no browser starts here; copy {file} to a machine with one, and open it there")


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print each warning once, on one line, in the style of the program."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        complain("warning", str(message))

    with warnings.catch_warnings():
        warnings.simplefilter("once")
        # a person at a terminal can do nothing about files that other packages leave open
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = show
        yield


@contextmanager
def show_progress(quiet: bool, verbose: int) -> Iterator[progress.Listener]:
    """Show warnings, and progress: as a log with `verbose`, as a bar on a terminal, else messages alone."""
    with show_warnings(), ExitStack() as stack:
        console = None if quiet or verbose else _terminal()
        listener: progress.Listener
        if quiet:
            listener = progress.Printer("", 0, lambda line: None)
        elif verbose:
            listener = progress.Printer("", verbose, _log)
        elif console is not None:
            listener = stack.enter_context(LiveDisplay(console))
        else:
            listener = progress.Printer("", 0, partial(complain, "note"))
        stack.enter_context(progress.listening(listener))
        yield listener


def _terminal() -> Console | None:
    """Return the terminal, if there is one and rich, an optional comfort of the extra `images`."""
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
    except ImportError:
        return None
    return Console(stderr=True)


def _log(line: str) -> None:
    safe_print(f"{datetime.now():%H:%M:%S} {in_options(line)}", sys.stderr)


class LiveDisplay(progress.ProgressBar):
    """Progress bar on a terminal, removed at the end: what is done, of how much, and the time left."""

    def __init__(self, console: Console) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        super().__init__()
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(compact=True, elapsed_when_finished=True),
            console=console,
            transient=True,
            # what is printed appears above the bar, but goes to the terminal only if it was meant for it
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._bar.add_task("Reading", total=None, note="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def show_message(self, text: str) -> None:
        """Print a message above the bar."""
        note = printable(f"spca-tv: note: {in_options(text)}")
        self._bar.console.print(note, markup=False, highlight=False, soft_wrap=True)

    def draw(self, title: str, note: str, done: float, total: int | None) -> None:
        """Redraw the line; a bar without a total only moves to and fro."""
        if title != self._bar.tasks[0].description:
            self._bar.remove_task(self._task)
            self._task = self._bar.add_task(title, total=total, note="")
        self._bar.update(self._task, completed=done, total=total, note=printable(note))
