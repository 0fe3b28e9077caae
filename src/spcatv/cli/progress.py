"""What a person sees while a command works: a live line on a terminal, log lines, or nothing.

All displays are listeners (`spcatv.progress`).
"""

from __future__ import annotations

import logging
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from spcatv.cli.saying import complain, printable
from spcatv.cli.time_left import TimeLeft
from spcatv.progress import (
    AlternationEnded,
    ComponentEnded,
    ComponentStarted,
    Event,
    FileRead,
    Message,
    StageAdvanced,
    StageStarted,
)

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


logger = logging.getLogger("spcatv.cli")


def share_done(relative_gap: float, tol: float) -> float:
    """How far a component is, judged by its gap: 0 at a gap of 1 (the zero loading), 1 at `tol`.

    The gap shrinks by a roughly constant factor per alternation, so its logarithm is linear in time.
    """
    if relative_gap <= tol:
        return 1.0
    return min(1.0, max(0.0, math.log(min(relative_gap, 1.0)) / math.log(tol)))


class Display:
    """Shows nothing; the base of the displays that show something."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def hear(self, event: Event, /) -> bool:
        """Show an event, and never ask to stop."""
        return False


class NoteDisplay(Display):
    """Prints messages only."""

    def hear(self, event: Event, /) -> bool:
        """Print the text of a message."""
        if isinstance(event, Message):
            complain("note", event.text)
        return False


class LogDisplay(Display):
    """Logs files, stages and components as information, and alternations for debugging.

    Inside it, the log of the package goes to the terminal: what happens, or (`verbose` above 1) every
    alternation as well. Afterwards the log is as it was: whoever calls `main` from Python may have one.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter, verbose: int = 1) -> None:
        self._component = ""
        self._left = TimeLeft(clock)
        self._package = logging.getLogger("spcatv")
        self._level, self._level_before = logging.DEBUG if verbose > 1 else logging.INFO, logging.NOTSET

    def __enter__(self) -> Self:
        self._handler = logging.StreamHandler(sys.stderr)
        self._handler.setFormatter(_PrintableFormatter("%(asctime)s %(message)s", "%H:%M:%S"))
        self._package.addHandler(self._handler)
        self._level_before = self._package.level
        self._package.setLevel(self._level)
        return self

    def __exit__(self, *error: object) -> None:
        self._package.removeHandler(self._handler)
        self._package.setLevel(self._level_before)

    def hear(self, event: Event, /) -> bool:
        """Log an event."""
        match event:
            case FileRead():
                logger.info("read %d of %d: %s", event.number, event.total, event.name)
            case StageStarted(title, None):
                self._left.begin(None)
                logger.info("%s", title)
            case StageStarted(title, total, unit, at_once):
                self._left.begin(total, at_once)
                logger.info("%s: %d %s", title, total, unit)
            case StageAdvanced(note):
                self._left.steps_done()
                logger.info("%s", ", ".join(filter(None, (note, str(self._left)))))
            case Message(text):
                logger.info("%s", text)
            case ComponentStarted():
                self._component = f"component {event.number} of {event.n_components}"
            case AlternationEnded():
                logger.debug(
                    "%s, alternation %d: objective %.8g, relative gap %.2e",
                    self._component,
                    event.number,
                    event.objective,
                    event.relative_gap,
                )
            case ComponentEnded(diagnostics=found) if found.is_dead:
                logger.info("%s is dead: its loading is zero, %.2f s", self._component, found.seconds)
            case ComponentEnded(diagnostics=found):
                logger.info(
                    "%s: objective %.8g, certified relative gap %.2e, %d alternations, %.1f %% zeros, %.2f s",
                    self._component,
                    found.objective,
                    found.relative_gap,
                    found.n_alternations,
                    100 * found.sparsity,
                    found.seconds,
                )
        return False


class LiveDisplay(Display):
    """A moving line on a terminal, wiped at the end: what is done, how much of how much, time left."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.perf_counter) -> None:
        self._left = TimeLeft(clock)
        self._bar = _bar(console, self._left)
        self._task = self._bar.add_task("Reading", total=None, note="")
        self._component = ComponentStarted(1, 1, tol=1.0)
        self._share = 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def hear(self, event: Event, /) -> bool:
        """Redraw the line."""
        match event:
            case Message(text):
                self._bar.console.print(f"spca-tv: note: {printable(text)}", markup=False, highlight=False)
            case FileRead(number, total):
                self._left.steps_done(number, total)
                self._bar.update(self._task, completed=number, total=total, note=f"file {number}/{total}")
            case StageStarted(title, total, unit, at_once):
                self._begin(title, total, "" if total is None else f"0 of {total} {unit}", at_once)
            case StageAdvanced(note):
                self._left.steps_done()
                self._bar.update(self._task, advance=1, note=printable(note))
            case ComponentStarted():
                if event.number == 1:
                    self._begin("Fitting", event.n_components, "", 1)
                self._component, self._share = event, 0.0
                self._show("")
            case AlternationEnded(number, objective, gap):
                # each start begins with a large gap again, but the bar must not go back
                self._share = max(self._share, share_done(gap, self._component.tol))
                self._show(f"  alternation {number}  objective {objective:.6g}  gap {gap:.1e}")
            case ComponentEnded(diagnostics=found):
                self._share = 1.0
                self._show(
                    f"  done after {found.n_alternations} alternations  objective {found.objective:.6g}  "
                    f"gap {found.relative_gap:.1e}"
                )
        return False

    def _begin(self, title: str, total: int | None, note: str, at_once: int) -> None:
        # a bar without a total only moves to and fro
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(title, total=total, note=note)
        self._left.begin(total, at_once)

    def _show(self, figures: str) -> None:
        number, n_components = self._component.number, self._component.n_components
        done = number - 1 + self._share
        self._left.share_done(done / n_components)
        note = f"component {number}/{n_components}{figures}"
        self._bar.update(self._task, completed=done, total=n_components, note=note)


def _bar(console: Console, left: TimeLeft) -> Progress:
    from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
    from rich.progress import TimeElapsedColumn as Elapsed
    from rich.text import Text

    class Left(ProgressColumn):
        """The time left, again at every refresh: it counts down between two steps."""

        def render(self, task: Task) -> Text:
            return Text(str(left))

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        Left(),
        Elapsed(),
        console=console,
        transient=True,
        # what is printed appears above the bar, but goes to the terminal only if it was meant for it
        redirect_stdout=sys.stdout.isatty(),
    )


def choose_display(*, quiet: bool, verbose: int) -> Display:
    """The display for this run: log lines if asked for, a live line on a terminal, else messages only."""
    if quiet:
        return Display()
    if verbose:
        return LogDisplay(verbose=verbose)
    if not sys.stderr.isatty():
        return NoteDisplay()
    try:
        from rich.console import Console
    except ImportError:  # the live line is an optional comfort of the extra `images`
        return NoteDisplay()
    return LiveDisplay(Console(stderr=True))


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


class _PrintableFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return printable(super().format(record))
