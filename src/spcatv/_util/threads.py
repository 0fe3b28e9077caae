"""Threads: the number that a computation may use, and a pool that works on its shares.

The order of summation never depends on the number of threads, so every number of threads gives the same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import cache
from itertools import islice
from typing import Any, TypeVar

from joblib import cpu_count
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# Key of the call that uses several cores (`users_of_cores`).
CORES = "cores"
MOST_WORKERS = 1024
# Environment variables that limit threads; joblib sets both for its worker processes.
VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")

_lock = threading.Lock()
_limits: list[tuple[Any, int]] = []  # BLAS libraries, and their threads outside of all blocks
_inside: set[object] = set()  # one for every `one_blas_thread` block that runs
# threads of the libraries before `one_blas_thread` limited them
_limit_outside = 0


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
    global _limit_outside
    block = object()
    try:
        with _lock:
            if not _limits:
                _limit_outside = _library_limit()
                libraries = _controller().select(user_api="blas").lib_controllers
                _limits[:] = [(library, library.num_threads) for library in libraries]
            if not _inside:
                _set_limits([1] * len(_limits))
            _inside.add(block)
        yield
    finally:
        with _lock:
            _inside.discard(block)
            if not _inside:
                _set_limits([n_threads for _, n_threads in _limits])
                _limits.clear()


def _set_limits(limits: list[int]) -> None:
    for (library, _), n_threads in zip(_limits, limits, strict=True):
        # threadpoolctl 3.8 lets only one thread set the limit of OpenBLAS, and ignores all others
        let_go = getattr(library, "clear_controlling_thread", lambda force: None)
        let_go(force=True)
        library.set_num_threads(n_threads)
        let_go(force=True)


def _library_limit() -> int:
    """Return the smallest number of threads to which a linear algebra or OpenMP library is limited."""
    return min((int(library["num_threads"]) for library in _controller().info()), default=sys.maxsize)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else sys.maxsize
    return min(allowed, _cores_of_the_machine())


@cache
def _cores_of_the_machine() -> int:
    # with the share of a container, which is read from files
    return int(cpu_count())


def _asked_for(environment: Mapping[str, str]) -> list[int]:
    """Return the numbers of threads in the variables of the environment."""
    # OMP_NUM_THREADS may be a list, one number per level of nested threads
    texts = (environment.get(name, "").split(",")[0].strip() for name in VARIABLES)
    return [int(text) for text in texts if text.isdecimal() and int(text) > 0]


# Read once, as OpenMP does: Dask changes the environment of a process that starts workers.
_asked_at_start = _asked_for(os.environ)


def _is_one_of_many() -> bool:
    """Return whether this thread is one of several workers that have one core each."""
    if "distributed" in sys.modules:
        from distributed import get_worker

        with suppress(ValueError):  # this is no worker
            get_worker()
            return True
    nested = (getattr(get_active_backend()[0], "nesting_level", 0) or 0) > 0
    # the environment limits the threads of joblib's worker processes
    told = threading.current_thread() is threading.main_thread() and bool(_asked_at_start)
    return nested and not told


def most_threads() -> int:
    """Return the number of threads that a computation may use now.

    It is the smallest of: the cores that this process may use, `VARIABLES` at its start, and the limits that
    `threadpoolctl` has set. Workers of joblib and Dask use one, unless joblib grants more to a process.
    """
    if _is_one_of_many():
        return 1
    libraries = _limit_outside if _limits else _library_limit()
    return max(1, min([_cores(), libraries, *_asked_at_start]))


def threads_for(work: float, least: float) -> int:
    """Return the number of threads for some work, of which each thread gets at least `least`."""
    return 1 if work < 2 * least else min(most_threads(), int(work / least))


# the call that uses several cores, under `CORES`
_users: dict[str, object] = {}
# Workers are started when they are first needed, up to the number of items that are made at the same time.
_workers = ThreadPoolExecutor(MOST_WORKERS, "spcatv")


def users_of_cores() -> dict[str, object]:
    """Return the dict with the call that uses several cores, under `CORES`; other calls use one.

    A call enters itself with ``setdefault``, and checks in a ``finally`` whether it is entered. Ctrl-C is
    raised after calls of functions only: it can come neither between the ``finally`` and the ``del`` nor
    leave an entry of a call that has ended, as it can a lock.
    """
    return _users


def _start_again() -> None:
    global _workers
    _workers = ThreadPoolExecutor(MOST_WORKERS, "spcatv")
    _users.clear()


def wait_for_at_fork(lock: Any) -> None:
    """Make forks wait until no other thread holds a lock, which the child could never release."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


if hasattr(os, "register_at_fork"):
    # a fork has no threads but the one that called it
    os.register_at_fork(after_in_child=_start_again)
wait_for_at_fork(_lock)


def in_order(make: Callable[[int], T], take: Callable[[T], None], n_items: int, n_threads: int) -> None:
    """Call ``take(make(0)), take(make(1)), ...`` with items made at the same time and taken in order.

    At most `n_threads` items are there at a time, or one if another call uses the cores. `make` releases the
    GIL, as products of NumPy do. The error of an item that cannot be made is raised when it is its turn: all
    items before it have been taken.
    """
    call = object()
    numbers = iter(range(n_items))
    made: deque[Future[T]] = deque()

    def start(count: int) -> None:
        for number in islice(numbers, count):  # with the listeners of this thread
            made.append(_workers.submit(copy_context().run, make, number))

    try:
        if n_threads == 1 or _users.setdefault(CORES, call) is not call:
            for number in numbers:
                take(make(number))
            return
        start(n_threads)
        while made:
            take(made.popleft().result())
            start(1)
    finally:
        try:
            for item in made:
                item.cancel()
            wait(made)
        finally:
            if CORES in _users and _users[CORES] is call:
                del _users[CORES]
