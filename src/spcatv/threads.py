"""Threads of the linear algebra libraries: one, while a fit runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


@cache
def _controller() -> ThreadpoolController:
    # looking for the loaded libraries takes milliseconds: once is enough
    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread inside a ``with`` block.

    Sums over threads are rounded differently for every number of threads; with one, a fit gives
    the same bits everywhere and does not oversubscribe the cores under joblib.
    """
    limit: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limit
