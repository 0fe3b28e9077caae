"""Threads: the number that a computation may use, and a pool that works on its shares.

The order of summation never depends on the number of threads, so every number of threads gives the same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeVar, cast

from joblib import cpu_count
from joblib.parallel import get_active_backend
from threadpoolctl import ThreadpoolController

T = TypeVar("T")

# Key of the call that uses several cores (`users_of_cores`).
CORES = "cores"
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
        library.set_num_threads(n_threads)


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
    """Return the numbers of threads that the environment asks for."""
    # OMP_NUM_THREADS may be a list, one number per level of nested threads
    texts = (environment.get(name, "").split(",")[0].strip() for name in VARIABLES)
    return [int(text) for text in texts if text.isdecimal() and int(text) > 0]


# Read once, as OpenMP does: Dask changes the environment of a process that starts workers.
_asked_at_start = _asked_for(os.environ)


def _is_one_of_many() -> bool:
    """Return whether this thread is one of several workers that have one core each."""
    if "distributed" in sys.modules and _is_dask_worker():
        return True
    nested = (getattr(get_active_backend()[0], "nesting_level", 0) or 0) > 0
    # the environment limits the threads of joblib's worker processes
    told = threading.current_thread() is threading.main_thread() and bool(_asked_at_start)
    return nested and not told


def _is_dask_worker() -> bool:
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


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


class _Team:
    """Pool of daemon threads that wait for work."""

    def __init__(self) -> None:
        self.users: dict[str, object] = {}  # the call that uses the cores, under `CORES`
        self._inboxes: list[SimpleQueue[Any]] = []

    def inboxes(self, count: int) -> list[SimpleQueue[Any]]:
        """Return the inboxes of `count` threads, which are started when they are first needed."""
        while len(self._inboxes) < count:
            inbox: SimpleQueue[Any] = SimpleQueue()
            threading.Thread(target=_serve, args=(inbox,), name="spcatv", daemon=True).start()
            self._inboxes.append(inbox)
        return self._inboxes[:count]


def _serve(inbox: SimpleQueue[Any]) -> None:
    while True:
        _report_to(*inbox.get())


def _report_to(
    outbox: SimpleQueue[BaseException | None], work: Callable[[], None], stop: Callable[[], None]
) -> None:
    try:
        work()
    except BaseException as error:  # raised again where the work comes from
        stop()
        outbox.put(error)
    else:
        outbox.put(None)


_team = _Team()


def users_of_cores() -> dict[str, object]:
    """Return the dict with the call that uses several cores, under `CORES`; other calls use one.

    A call enters itself with ``setdefault``, and checks in a ``finally`` whether it is entered. Ctrl-C is
    raised after calls of functions only: it can come neither between the ``finally`` and the ``del`` nor
    leave an entry of a call that has ended, as it can a lock.
    """
    return _team.users


def _new_team() -> None:
    global _team
    _team = _Team()


def wait_for_at_fork(lock: Any) -> None:
    """Make forks wait until no other thread holds a lock, which the child could never release."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


if hasattr(os, "register_at_fork"):
    # a fork has no threads but the one that called it
    os.register_at_fork(after_in_child=_new_team)
wait_for_at_fork(_lock)


def share_work(share: Callable[[int, int], None], n_threads: int, stop: Callable[[], None]) -> None:
    """Call ``share(0, n), ..., share(n - 1, n)`` at the same time, the first of them on this thread.

    The number n is `n_threads`, or 1 if the pool works for another thread: then the cores are busy.
    All shares have begun before one may have to wait for another, and all have ended when this returns.
    `stop` is called when a share has failed or was interrupted: it lets the others end early.
    """
    team, call = _team, object()
    users = team.users
    try:
        if n_threads == 1 or users.setdefault(CORES, call) is not call:
            share(0, 1)
        else:
            _share_work(share, team.inboxes(n_threads - 1), stop)
    finally:
        if CORES in users and users[CORES] is call:
            del users[CORES]


def _share_work(
    share: Callable[[int, int], None], inboxes: list[SimpleQueue[Any]], stop: Callable[[], None]
) -> None:
    outbox: SimpleQueue[BaseException | None] = SimpleQueue()
    n_threads = len(inboxes) + 1
    work = [(outbox, partial(share, number, n_threads), stop) for number in range(1, n_threads)]
    # one call extends each list, so that an interruption leaves them correct
    sent: list[None] = []
    results: list[BaseException | None] = []
    errors: list[BaseException] = []
    try:
        sent.extend(map(SimpleQueue.put, inboxes, work))
        share(0, n_threads)
    except BaseException as error:
        errors.append(error)
    while True:
        try:
            if errors:
                stop()
            while len(results) < len(sent):
                results.extend(islice(iter(outbox.get, stop), len(sent) - len(results)))
            break
        except KeyboardInterrupt as error:  # the others still use the arrays of the caller
            errors.append(error)
    errors += [error for error in results if error is not None]
    if errors:
        raise errors[0]


def in_order(make: Callable[[int], T], take: Callable[[T], None], n_items: int, n_threads: int) -> None:
    """Call ``take(make(0)), take(make(1)), ...`` with items made at the same time and taken in order.

    At most `n_threads` items are there at a time. `make` releases the GIL, as products of NumPy do. The error
    of an item that cannot be made is raised when it is its turn: all items before it have been taken.
    """
    line = _Line(n_items)

    def share(_number: int, _n_threads: int) -> None:
        while (number := line.next_number()) is not None:
            try:
                made, failed = make(number), None
            except Exception as error:  # raised in turn: an earlier item may fail as well
                made, failed = None, error
            if not line.wait_for_turn(number):
                return
            if failed is not None:
                raise failed
            take(cast(T, made))
            del made  # free it before the next one is made
            line.end_turn()

    share_work(share, n_threads, line.close)


class _Line:
    """Numbers that threads draw in order, and the turn of each."""

    def __init__(self, n_numbers: int) -> None:
        self._drawn, self._turn, self._end = 0, 0, n_numbers
        self._closed = False
        self._lock = threading.Lock()
        # Every number that waits has an event of its own: to wake all of them at every turn would take longer
        # than most items do.
        self._waiting: dict[int, threading.Event] = {}

    def next_number(self) -> int | None:
        """Return the next number, from 0 on; None if there are no more."""
        with self._lock:
            self._drawn += 1
            return None if self._closed or self._drawn > self._end else self._drawn - 1

    def wait_for_turn(self, number: int) -> bool:
        """Wait until it is the turn of a number; False if the line was closed."""
        with self._lock:
            if self._closed or self._turn == number:
                return not self._closed
            event = self._waiting[number] = threading.Event()
        event.wait()
        return not self._closed

    def end_turn(self) -> None:
        """Let the next number have its turn."""
        with self._lock:
            self._turn += 1
            event = self._waiting.pop(self._turn, None)
        if event is not None:
            event.set()

    def close(self) -> None:
        """End all waiting."""
        with self._lock:
            self._closed = True
            events = list(self._waiting.values())
        for event in events:
            event.set()
