"""Limit the linear algebra libraries to one thread while a fit runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_limits: list[Any] = []
_n_inside = 0


@cache
def _controller() -> ThreadpoolController:
    # finding the loaded libraries takes milliseconds, so it is done once
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a ``with`` block.

    Sums are rounded differently for every number of threads. With one thread, a fit gives the same bits
    everywhere, and joblib does not oversubscribe the cores. The limit applies to the whole process: when
    several threads fit at the same time, the first fit sets the limit and the last one removes it.
    """
    global _n_inside
    with _lock:
        if _n_inside == 0:
            _limits.append(_controller().limit(limits=1, user_api="blas"))
        _n_inside += 1
    try:
        yield
    finally:
        with _lock:
            _n_inside -= 1
            if _n_inside == 0:
                _limits.pop().restore_original_limits()
