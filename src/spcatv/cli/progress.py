"""What a person sees while a command works: a live line on a terminal, log lines, or nothing.

All displays are `spcatv.decomposition.ProgressMonitor`s that also hear about files being read.
"""

from __future__ import annotations

import logging
import math
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from spcatv._util.types import FloatArray
from spcatv.decomposition import ComponentDiagnostics

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress


logger = logging.getLogger("spcatv.cli")


def share_done(relative_gap: float, tol: float) -> float:
    """How far a component is, judged by its gap: 0 at a gap of 1 (the loading zero), 1 at `tol`.

    The gap shrinks by a steady factor from one alternation to the next, roughly, so that its logarithm
    is what goes like time.
    """
    if relative_gap <= tol:
        return 1.0
    return min(1.0, max(0.0, math.log(min(relative_gap, 1.0)) / math.log(tol)))


class Display:
    """Shows nothing; the others show something.

    Parameters
    ----------
    n_components : int
        Components that will be fitted.
    tol : float
        Relative gap that ends one.
    """

    def __init__(self, n_components: int, tol: float) -> None:
        self.n_components, self.tol = n_components, tol

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def file_read(self, number: int, total: int, name: str) -> None:
        """Hear that file `number` (from 1) of `total` has been read."""

    def stage_begins(self, title: str, total: int | None = None) -> None:
        """Hear that a new stage of the work begins, of `total` steps where that is known."""

    def stage_moves(self, note: str) -> None:
        """Hear that another step of the stage is done."""

    def component_begins(self, number: int) -> None:
        """Hear that component `number` (from 0) begins."""

    def alternation_ended(self, number: int, objective: float, relative_gap: float) -> bool:
        """Hear of an alternation, and never ask to stop."""
        return False

    def component_ended(self, number: int, diagnostics: ComponentDiagnostics, components: FloatArray) -> bool:
        """Hear of a finished component, and never ask to stop."""
        return False


class LogDisplay(Display):
    """Logs files and components as information, alternations for debugging."""

    _component = 0

    def file_read(self, number: int, total: int, name: str) -> None:
        """Log the file."""
        logger.info("read %d of %d: %s", number, total, name)

    def stage_begins(self, title: str, total: int | None = None) -> None:
        """Log the stage."""
        logger.info("%s", title if total is None else f"{title}: {total} chains of fits")

    def stage_moves(self, note: str) -> None:
        """Log the step."""
        logger.info("%s", note)

    def component_begins(self, number: int) -> None:
        """Remember the component."""
        self._component = number + 1

    def alternation_ended(self, number: int, objective: float, relative_gap: float) -> bool:
        """Log the alternation's figures."""
        logger.debug(
            "component %d of %d, alternation %d: objective %.8g, relative gap %.2e",
            self._component,
            self.n_components,
            number,
            objective,
            relative_gap,
        )
        return False

    def component_ended(self, number: int, diagnostics: ComponentDiagnostics, components: FloatArray) -> bool:
        """Log the component's figures."""
        logger.info(
            "component %d of %d: objective %.8g, certified relative gap %.2e, %d alternations, %.1f %% "
            "zeros, %.2f s",
            number + 1,
            self.n_components,
            diagnostics.objective,
            diagnostics.relative_gap,
            diagnostics.n_alternations,
            100 * diagnostics.sparsity,
            diagnostics.seconds,
        )
        return False


class LiveDisplay(Display):
    """A line that moves, on a terminal: component, alternation, objective, gap, time left.

    Parameters
    ----------
    n_components, tol
        As for `Display`.
    console : rich.console.Console
        Where to draw; the line is wiped at the end.
    """

    def __init__(self, n_components: int, tol: float, console: Console) -> None:
        super().__init__(n_components, tol)
        self._bar = _bar(console)
        self._task = self._bar.add_task("Reading", total=None, note="")
        self._started = 0.0
        self._current, self._share = 0, 0.0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def file_read(self, number: int, total: int, name: str) -> None:
        """Move the bar of the files."""
        self._bar.update(self._task, completed=number, total=total, note=f"file {number}/{total}")

    def stage_begins(self, title: str, total: int | None = None) -> None:
        """Start a new bar, one that only moves to and fro where the number of steps is not known."""
        self._bar.remove_task(self._task)
        self._task = self._bar.add_task(title, total=total, note="")

    def stage_moves(self, note: str) -> None:
        """Move the bar by a step."""
        self._bar.update(self._task, advance=1, note=note)

    def component_begins(self, number: int) -> None:
        """Start the clock with the first component."""
        if number == 0:
            self._started = time.perf_counter()
        self._current, self._share = number, 0.0
        self._show(f"component {number + 1}/{self.n_components}")

    def alternation_ended(self, number: int, objective: float, relative_gap: float) -> bool:
        """Show the alternation's figures."""
        # restarts begin with a large gap again; a bar that goes back would tell people nothing
        self._share = max(self._share, share_done(relative_gap, self.tol))
        self._show(
            f"component {self._current + 1}/{self.n_components}  alternation {number}  "
            f"objective {objective:.6g}  gap {relative_gap:.1e}{self._left()}"
        )
        return False

    def component_ended(self, number: int, diagnostics: ComponentDiagnostics, components: FloatArray) -> bool:
        """Fill the component's part of the bar."""
        self._share = 1.0
        self._show(
            f"component {number + 1}/{self.n_components}  done after {diagnostics.n_alternations} "
            f"alternations  objective {diagnostics.objective:.6g}  gap {diagnostics.relative_gap:.1e}"
            f"{self._left()}"
        )
        return False

    def _show(self, note: str) -> None:
        self._bar.update(
            self._task,
            description="Fitting",
            completed=self._current + self._share,
            total=self.n_components,
            note=note,
        )

    def _left(self) -> str:
        done = (self._current + self._share) / self.n_components
        if done <= 0 or done >= 1:
            return ""
        left = (time.perf_counter() - self._started) * (1 - done) / done
        return f"  about {_duration(left)} left"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{max(1, round(seconds))} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _bar(console: Console) -> Progress:
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def choose_display(n_components: int, tol: float, *, quiet: bool, verbose: int) -> Display:
    """The display for this run: log lines if asked for, a live line on a terminal, else nothing."""
    if quiet:
        return Display(n_components, tol)
    if verbose:
        return LogDisplay(n_components, tol)
    if not sys.stderr.isatty():
        return Display(n_components, tol)
    try:
        from rich.console import Console
    except ImportError:
        # the line is a comfort of the extra `images`: without it the work goes on all the same
        return Display(n_components, tol)
    return LiveDisplay(n_components, tol, Console(stderr=True))


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print warnings as one line each, as the program's own, every one of them once."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"spca-tv: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("once")
        # files that other packages leave open are nothing that a person at a terminal can act on
        warnings.simplefilter("ignore", ResourceWarning)
        warnings.showwarning = show
        yield


def set_up_log(verbose: int) -> None:
    """Send the package's log to the terminal: with 1 what happens, with 2 every alternation."""
    if not verbose:
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    package = logging.getLogger("spcatv")
    package.handlers = [handler]
    package.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
