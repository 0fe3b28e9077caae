"""Threads of the linear algebra libraries: one, while a fit runs."""

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
    # looking for the loaded libraries takes milliseconds: once is enough
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread inside a ``with`` block.

    Sums over threads are rounded differently for every number of threads; with one, a fit gives
    the same bits everywhere and does not oversubscribe the cores under joblib. The limit belongs to the
    process: of several fits in threads the first sets it and the last one takes it back.
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
