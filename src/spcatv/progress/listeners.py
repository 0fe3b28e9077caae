"""Listeners: passed as arguments, or set for a ``with`` block; and the listener that prints."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from spcatv.progress.bars import NotebookBar, in_notebook
from spcatv.progress.events import (
    AlternationEnded,
    ComponentEnded,
    ComponentStarted,
    Event,
    FileRead,
    Message,
    StageAdvanced,
    StageStarted,
)


class Listener(Protocol):
    """Object that receives events, and may stop some of the work.

    Examples
    --------
    >>> from spcatv.progress import Message, current_listener, listening
    >>> class Collector:
    ...     def __init__(self):
    ...         self.texts = []
    ...     def hear(self, event):
    ...         self.texts.append(event.text if isinstance(event, Message) else type(event).__name__)
    ...         return False  # do not stop
    >>> collector = Collector()
    >>> with listening(collector):
    ...     current_listener().hear(Message("half done"))
    False
    >>> collector.texts
    ['half done']
    """

    def hear(self, event: Event, /) -> bool:
        """Receive an event; return True to stop.

        After an `AlternationEnded` the component, or all those of a joint fit, then stay as they are; after a
        `ComponentEnded` a deflation fits no more components. The answer to other events is ignored.
        """


@dataclass(frozen=True)
class Together:
    """Several listeners as one: all of them receive every event, and any may stop."""

    listeners: tuple[Listener, ...]

    def hear(self, event: Event, /) -> bool:
        """Send the event to all listeners; return whether one of them stops."""
        return any([listener.hear(event) for listener in self.listeners])  # noqa: C419 (all receive it)


@dataclass(frozen=True)
class _MessagesOnly:
    listener: Listener

    def hear(self, event: Event, /) -> bool:
        if isinstance(event, Message):
            self.listener.hear(event)
        return False


SILENT: Listener = Together(())
"""Listener that ignores all events and never stops."""

_current: ContextVar[Listener] = ContextVar("spcatv_listener", default=SILENT)


def current_listener() -> Listener:
    """Return the listeners of the surrounding ``with`` blocks as one, to be used in other threads as well."""
    return _current.get()


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Let `listener` receive all events inside a ``with`` block.

    It receives those of its own thread only. In nested blocks all listeners do, the outermost first.

    Parameters
    ----------
    listener : Listener
        Its method `hear` gets every event.

    Returns
    -------
    context manager
        For a ``with`` block.

    Examples
    --------
    >>> import numpy as np
    >>> from spcatv import SPCATV
    >>> from spcatv.progress import ComponentEnded, listening
    >>> class StopAfterTheFirst:
    ...     def hear(self, event):
    ...         return isinstance(event, ComponentEnded)  # True requests a stop
    >>> with listening(StopAfterTheFirst()):
    ...     model = SPCATV(3, method="deflation").fit(np.random.default_rng(0).standard_normal((20, 30)))
    >>> model.components_.shape
    (1, 30)
    """
    outer = _current.get()
    return _using(listener if outer is SILENT else Together((outer, listener)))


def messages_only() -> AbstractContextManager[None]:
    """Pass nothing but messages to the listeners of surrounding blocks inside a ``with`` block."""
    outer = _current.get()
    return _using(SILENT if outer is SILENT else _MessagesOnly(outer))


@contextmanager
def _using(listener: Listener) -> Iterator[None]:
    token = _current.set(listener)
    try:
        yield
    finally:
        _current.reset(token)


_print_now = partial(print, flush=True)


class Printer:
    """Listener that prints messages; with `verbose` files, stages and components, above 1 alternations.

    `write` prints a line, by default flushed, so that it shows while the work goes on, also through a pipe.
    """

    def __init__(self, prefix: str, verbose: int, write: Callable[[str], Any] = _print_now) -> None:
        self._prefix, self._verbose, self._write = prefix, verbose, write
        self._component, self._started = "", 0.0

    def hear(self, event: Event, /) -> bool:
        """Print a line about an event."""
        for line in self._text(event).splitlines():
            self._write(f"{self._prefix}{line}")
        return False

    def _text(self, event: Event) -> str:
        match event:
            case Message(text):
                return text
            case StageStarted(title, total, unit) if self._verbose:
                return title if total is None else f"{title}: {total} {unit}"
            case StageAdvanced(note) if self._verbose:
                return note
            case FileRead(number, total, name) if self._verbose:
                return f"image {number}/{total}: {name}"
            case ComponentStarted(number, n_components):
                self._component, self._started = f"component {number}/{n_components}", time.perf_counter()
            case AlternationEnded(number, objective, gap) if self._verbose > 1:
                figures = f"objective {objective:.8g}, relative gap {gap:.2e}"
                seconds = time.perf_counter() - self._started
                return f"{self._component}, alternation {number}: {figures}, {seconds:.2f} s"
            case ComponentEnded(number, _, found) if self._verbose:
                return f"{self._component} {found}\n{found.global_remark(number)}"
        return ""


def printing(name: str, verbose: int, most: int = 2) -> AbstractContextManager[None]:
    """Show progress inside a ``with`` block: a bar in a notebook, otherwise lines that begin with `name`.

    `verbose` is that of the estimator: without it nothing is shown, and above 1 there are lines in notebooks,
    too. They have the details of `most` at most.
    """
    if not verbose:
        return nullcontext()
    if verbose == 1 and in_notebook():
        return listening(NotebookBar(name))
    return listening(Printer(f"[{name}] ", min(verbose, most)))
