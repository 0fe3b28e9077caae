"""Who hears the events: listeners passed as arguments, and those of the surrounding ``with`` blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from spcatv.progress.events import Event, Message


class Listener(Protocol):
    """Hears events, and may stop some of the work.

    Examples
    --------
    >>> from spcatv.progress import Message, listening, say
    >>> class Collector:
    ...     def __init__(self):
    ...         self.texts = []
    ...     def hear(self, event):
    ...         self.texts.append(event.text if isinstance(event, Message) else type(event).__name__)
    ...         return False  # do not stop
    >>> collector = Collector()
    >>> with listening(collector):
    ...     say("half done")
    >>> collector.texts
    ['half done']
    """

    def hear(self, event: Event, /) -> bool:
        """Take note of an event; True asks to stop.

        After an `AlternationEnded` the component, or all those of a joint fit, then stay as they are; after a
        `ComponentEnded` a deflation fits no more components. The answer to other events is ignored.
        """


@dataclass(frozen=True)
class _Together:
    listeners: tuple[Listener, ...]

    def hear(self, event: Event, /) -> bool:
        return any([listener.hear(event) for listener in self.listeners])  # noqa: C419 (all must hear)


@dataclass(frozen=True)
class _MessagesOnly:
    listener: Listener

    def hear(self, event: Event, /) -> bool:
        if isinstance(event, Message):
            self.listener.hear(event)
        return False


SILENT: Listener = _Together(())
"""Hears everything, says nothing and never stops."""

_current: ContextVar[tuple[Listener, ...]] = ContextVar("spcatv_listeners", default=())


def together(*several: Listener) -> Listener:
    """Several listeners as one: all of them hear, and any may stop."""
    return _Together(several)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Let `listener` hear all events inside a ``with`` block.

    It hears those of its own thread only. In nested blocks all listeners hear, the outermost first.

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
    ...         return isinstance(event, ComponentEnded)  # True asks to stop
    >>> with listening(StopAfterTheFirst()):
    ...     model = SPCATV(3, method="deflation").fit(np.random.default_rng(0).standard_normal((20, 30)))
    >>> model.components_.shape
    (1, 30)
    """
    return _heard_by((*_current.get(), listener))


def silence() -> AbstractContextManager[None]:
    """Let no listener of a surrounding block hear the events inside a ``with`` block."""
    return _heard_by(())


def messages_only() -> AbstractContextManager[None]:
    """Let the listeners of surrounding blocks hear nothing but messages inside a ``with`` block."""
    return _heard_by(tuple(_MessagesOnly(listener) for listener in _current.get()))


@contextmanager
def _heard_by(listeners: tuple[Listener, ...]) -> Iterator[None]:
    token = _current.set(listeners)
    try:
        yield
    finally:
        _current.reset(token)


def listeners() -> tuple[Listener, ...]:
    """The listeners of the surrounding ``with`` blocks."""
    return _current.get()


def tell(event: Event) -> bool:
    """Tell an event to the listeners of the surrounding ``with`` blocks; True if one of them asks to stop."""
    return together(*listeners()).hear(event)


def say(text: str) -> None:
    """Tell a `Message` to the listeners of the surrounding ``with`` blocks."""
    tell(Message(text))
