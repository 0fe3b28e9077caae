"""Thread pool for compiled kernels, which waits and works without the interpreter.

A shared kernel ``f(number, n_threads, *arguments)`` does one share of some work; `run_shares` runs all of its
shares at the same time. Starting a share through the interpreter takes tens of microseconds per thread, which
is longer than most shares take: the threads of the pool spin in compiled code until there is work. Shares may
also wait for each other (`meet`, `arrive`, `wait_for`).

All shares run the same machine code, also if there is only one, so the bits do not depend on `n_threads`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from spcatv._util.threads import CORES, threads_for, users_of_cores
from spcatv.kernels.compiled import CAREFUL_MATH, FAST_MATH, OPTIONS, compiled, inlined_kernel, kernel
from spcatv.kernels.simd import address

Marks = npt.NDArray[np.int64]

# Entries of an array from one mark to the next: two cache lines, so that writers do not disturb each other.
APART = 16
# Reads of a mark before the thread gives way to other threads.
SPINS = 2000
# After `SPINS` reads without work a thread gives way this many times, naps this many times (in microseconds)
# and falls asleep.
YIELDS, NAPS, NAP_MICROSECONDS = 200, 200 if os.name == "posix" else 0, 50
# Functions of the operating system: give way to other threads, and sleep for some microseconds.
_give_way = types.ExternalFunction("SwitchToThread" if os.name == "nt" else "sched_yield", types.int32())
_nap = types.ExternalFunction("usleep", types.int32(types.uint32))
# Largest number of threads of the pool.
MOST_THREADS = 256
# Give a thread at least this many entries of a vector.
THREAD_ENTRIES = 1 << 17

# Share number that stands for all shares.
ALL = -1
# Cells of a board: address of the share, address of its arguments, number of threads, and whether threads
# must stay awake.
FUNCTION, ARGUMENTS, N_THREADS, STAY_AWAKE = 0, 1, 2, 8
# Cells of a thread, counted from `APART` times its number: shares requested, shares done, and 1 if awake.
REQUESTED, DONE, AWAKE = 0, 8, 9


@intrinsic
def set_mark(typing_context: Any, marks: Any, index: Any, value: Any) -> Any:
    """``marks[index] = value``; a thread that reads it also sees everything written before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(marks, types.intp, types.int64), codegen


@intrinsic
def get_mark(typing_context: Any, marks: Any, index: Any) -> Any:
    """``marks[index]``, read again at every call."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = address(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "seq_cst", 8, typ=ir.IntType(64))

    return types.int64(marks, types.intp), codegen


def make_marks(n_threads: int) -> Marks:
    """Return two marks for every thread, all 0."""
    return np.zeros(2 * n_threads * APART, dtype=np.int64)


@inlined_kernel
def arrive(marks: Any, number: int, mark: int) -> None:
    """Set a mark; marks only rise."""
    set_mark(marks, number * APART, mark)


@inlined_kernel
def _wait_at(cells: Any, index: int, value: int) -> None:
    """Wait until a cell has risen to a value."""
    spins = 0
    while get_mark(cells, index) < value:
        spins += 1
        if spins > SPINS:
            _give_way()


@inlined_kernel
def wait_for(marks: Any, number: int, mark: int) -> None:
    """Wait until a mark is high enough."""
    _wait_at(marks, number * APART, mark)


@inlined_kernel
def meet(marks: Any, number: int, n_threads: int, mark: int) -> None:
    """Wait until all threads have reached a mark."""
    arrive(marks, number, mark)
    for other in range(n_threads):
        wait_for(marks, other, mark)


@intrinsic
def _this_kernel(typing_context: Any) -> Any:
    """Addresses of a function ``void share(arguments*, number, n_threads)`` and of its first argument.

    It calls the kernel around this call with another number, and otherwise with its present arguments.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        this = builder.function
        # addresses of the result and of an error, number, n_threads; the rest is packed
        n_first = 4
        place = cgutils.alloca_once_value(builder, cgutils.pack_struct(builder, this.args[n_first:]))
        share = ir.Function(builder.module, _share_type(), builder.module.get_unique_name("share"))
        share.linkage = "internal"
        inside = ir.IRBuilder(share.append_basic_block())
        packed = inside.load(inside.bitcast(share.args[0], place.type))
        unpacked = cgutils.unpack_tuple(inside, packed)
        empty = [cgutils.alloca_once(inside, argument.type.pointee, zfill=True) for argument in this.args[:2]]
        # not inlined: so there is only one compiled copy of a kernel
        inside.call(
            this, [*empty, *share.args[1:], *unpacked], cconv=this.calling_convention, attrs=("noinline",)
        )
        inside.ret_void()
        word = ir.IntType(64)
        addresses = [builder.ptrtoint(share, word), builder.ptrtoint(place, word)]
        return context.make_tuple(builder, signature.return_type, addresses)

    return types.UniTuple(types.int64, 2)(), codegen


def _share_type() -> Any:
    return ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(64)])


@intrinsic
def _call(typing_context: Any, function: Any, arguments: Any, number: Any, n_threads: Any) -> Any:
    """Call a share by the addresses of `_this_kernel`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        share = builder.inttoptr(values[0], _share_type().as_pointer())
        builder.call(share, [builder.inttoptr(values[1], ir.IntType(8).as_pointer()), *values[2:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@inlined_kernel
def _run_all(addresses: Any, n_threads: int, board: Any) -> None:
    """Run all shares of a kernel, the first on this thread; the addresses are those of `_this_kernel`."""
    share, place = addresses
    if n_threads > 1:
        board[FUNCTION], board[ARGUMENTS], board[N_THREADS] = share, place, n_threads
    for number in range(1, n_threads):
        set_mark(board, number * APART + REQUESTED, board[number * APART + REQUESTED] + 1)
    _call(share, place, 0, n_threads)
    for number in range(1, n_threads):
        _wait_at(board, number * APART + DONE, board[number * APART + REQUESTED])


def _shared(function: Callable[..., None], fast_math: set[str]) -> Any:
    share = njit(forceinline=True, fastmath=fast_math, **OPTIONS)(function)

    def run(number: int, n_threads: int, board: Any, *arguments: Any) -> None:
        if number == ALL:
            _run_all(_this_kernel(), n_threads, board)
        else:
            share(number, n_threads, *arguments)

    return compiled(run, fast_math, cached_as=function)


def shared_kernel(function: Callable[..., None]) -> Any:
    """Compile ``function(number, n_threads, *arguments)``, which does one share, for `run_shares`."""
    return _shared(function, FAST_MATH)


def careful_shared_kernel(function: Callable[..., None]) -> Any:
    """Compile a shared kernel that may meet NaN or infinity."""
    return _shared(function, CAREFUL_MATH)


@kernel
def _serve(board: Any, number: int) -> None:
    """Run the requested shares of a thread until there have been none for a while."""
    own = number * APART
    set_mark(board, own + AWAKE, 1)
    done = board[own + DONE]
    idle = 0
    while True:
        requested = get_mark(board, own + REQUESTED)
        if requested != done:
            _call(board[FUNCTION], board[ARGUMENTS], number, board[N_THREADS])
            done = requested
            set_mark(board, own + DONE, done)
            idle = 0
            continue
        idle += 1
        if idle > SPINS + YIELDS + NAPS:
            # In this order, and the other way round in `_keep_awake`: either this thread sees that it must
            # stay awake, or it is seen asleep.
            set_mark(board, own + AWAKE, 0)
            if get_mark(board, STAY_AWAKE) == 0:
                return
            set_mark(board, own + AWAKE, 1)
            idle = SPINS
        elif idle > SPINS + YIELDS:
            _nap(NAP_MICROSECONDS)
        elif idle > SPINS:
            _give_way()


@kernel
def _keep_awake(board: Any, n_threads: int) -> int:
    """Keep threads awake, and return how many of them are asleep."""
    set_mark(board, STAY_AWAKE, 1)
    n_asleep = 0
    for number in range(1, n_threads):
        n_asleep += get_mark(board, number * APART + AWAKE) == 0
    return n_asleep


class _Pool:
    """Daemon threads that run shares; they never keep a process alive."""

    def __init__(self) -> None:
        self.board: Marks = np.zeros((MOST_THREADS + 1) * APART, dtype=np.int64)
        self._doors: list[SimpleQueue[bool]] = []

    def wake(self, n_threads: int) -> None:
        """Start or wake threads; they stay awake until `STAY_AWAKE` is 0."""
        if _keep_awake(self.board, n_threads) == 0:
            return
        for number in range(1, n_threads):
            if number > len(self._doors):
                door: SimpleQueue[bool] = SimpleQueue()
                threading.Thread(target=self._work, args=(number, door), name="spcatv", daemon=True).start()
                self._doors.append(door)
            if self.board[number * APART + AWAKE] == 0:
                self._doors[number - 1].put(True)

    def _work(self, number: int, door: SimpleQueue[bool]) -> None:
        while door.get():
            _serve(self.board, number)


_pool = _Pool()


def _new_pool() -> None:
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    # a fork has no threads but the one that called it
    os.register_at_fork(after_in_child=_new_pool)


def run_shares(function: Callable[..., None], arguments: tuple[Any, ...], n_threads: int) -> None:
    """Run all shares of a shared kernel, ``function(number, n, *arguments)``, at the same time.

    The number n is `n_threads`, or 1 where another thread of this process uses the cores.
    """
    users, call, pool = users_of_cores(), object(), _pool
    try:
        if n_threads == 1 or users.setdefault(CORES, call) is not call:
            n_threads = 1
        else:
            n_threads = min(n_threads, MOST_THREADS)
            pool.wake(n_threads)
        function(ALL, n_threads, pool.board, *arguments)
    finally:
        if CORES in users and users[CORES] is call:
            pool.board[STAY_AWAKE] = 0
            del users[CORES]


def run_on_ranges(
    function: Callable[..., None], arguments: tuple[Any, ...], n_entries: int, *, cut: int = 1
) -> None:
    """`run_shares` on as many threads as entries of a vector are worth; see `own_range`."""
    n_parts = -(-n_entries // cut)
    run_shares(function, arguments, min(threads_for(n_entries, THREAD_ENTRIES), max(n_parts, 1)))


@inlined_kernel
def own_parts(number: int, n_threads: int, n_parts: int) -> tuple[int, int]:
    """Return the first part of a thread, and the one behind its last."""
    return number * n_parts // n_threads, (number + 1) * n_parts // n_threads


@inlined_kernel
def own_range(number: int, n_threads: int, n_entries: int, cut: int) -> tuple[int, int]:
    """Return the first entry of a thread and the one behind its last, cut at multiples of `cut`."""
    first, last = own_parts(number, n_threads, -(-n_entries // cut))
    return cut * first, min(cut * last, n_entries)
