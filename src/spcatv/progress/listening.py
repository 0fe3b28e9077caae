"""Who hears the events: listeners passed as arguments, and those of the surrounding ``with`` blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

from spcatv.progress.events import Event, Message


class Listener(Protocol):
    """Hears events, and may stop some of the work."""

    def hear(self, event: Event, /) -> bool:
        """Take note of an event; True asks to stop.

        After an `AlternationEnded` the component then stays as it is, after a `ComponentEnded` no more
        components are fitted. The answer to other events is ignored.
        """


@dataclass(frozen=True)
class _Together:
    listeners: tuple[Listener, ...]

    def hear(self, event: Event, /) -> bool:
        return any([listener.hear(event) for listener in self.listeners])  # noqa: C419 (all must hear)


SILENT: Listener = _Together(())
"""Hears everything, says nothing and never stops."""

_current: ContextVar[tuple[Listener, ...]] = ContextVar("spcatv_listeners", default=())


def together(*several: Listener) -> Listener:
    """Several listeners as one: all of them hear, and any may stop."""
    return _Together(several)


def listening(listener: Listener) -> AbstractContextManager[None]:
    """Let `listener` hear all events inside a ``with`` block.

    It hears those of its own thread only. In nested blocks all listeners hear, the outermost first.
    """
    return _heard_by((*_current.get(), listener))


def silence() -> AbstractContextManager[None]:
    """Let no listener of a surrounding block hear the events inside a ``with`` block."""
    return _heard_by(())


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
