"""Watching fits from outside: whoever runs an estimator can look on, without being one of its parameters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from spcatv.decomposition import ProgressMonitor

_watchers: ContextVar[tuple[ProgressMonitor, ...]] = ContextVar("spcatv_watchers", default=())


@contextmanager
def watched_by(monitor: ProgressMonitor) -> Iterator[None]:
    """Tell `monitor` of every component and alternation of the fits inside a ``with`` block.

    The block's own thread alone is watched. Of nested blocks all monitors are told.

    Parameters
    ----------
    monitor : ProgressMonitor
        What is told; where it answers True, the fit stops.
    """
    token = _watchers.set((*_watchers.get(), monitor))
    try:
        yield
    finally:
        _watchers.reset(token)


def watchers() -> tuple[ProgressMonitor, ...]:
    """The monitors that watch the fit that runs now."""
    return _watchers.get()
