"""Kernels on several threads: one call from Python, whose shares run at the same time without the GIL.

A kernel ``f(number, n_threads, board, *arguments)`` does one share of some work. Called with the number `ALL`
it has all shares run (`this_kernel`, `run_shares`): threads that wait for work outside the interpreter take
one each. To start a share through the interpreter takes tens of microseconds per thread, one thread after the
other, which is longer than most shares are.

All shares run the same machine code, the only one of a single thread as well: the bits are the same.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from spcatv._util.threads import CORES, threads_for, users_of_cores
from spcatv.kernels.compiled import inlined_kernel, kernel
from spcatv.kernels.meeting import APART, SPINS, Marks, get_mark, let_others_run, set_mark

# The number of a share that stands for all of them.
ALL = -1
# A board is an array of marks. Its first cells tell the share to run, where its arguments are, and on how
# many threads it runs; threads do not fall asleep while one cell is 1.
FUNCTION, ARGUMENTS, N_THREADS, STAY_AWAKE = 0, 1, 2, 8
# Cells of a thread, counted from `APART` times its number: how much it was asked for, how much of it is done,
# and whether the thread is awake.
ASKED, DONE, AWAKE = 0, 8, 9
# An idle thread looks `SPINS` times, lets others run so many times, naps so many times, and falls asleep.
YIELDS, NAPS, NAP_MICROSECONDS = 200, 200 if os.name == "posix" else 0, 50
# The largest team.
MOST_THREADS = 256
# Entries of vectors that are worth a thread.
THREAD_ENTRIES = 1 << 17


@intrinsic
def this_kernel(typing_context: Any) -> Any:
    """Addresses of a function ``void share(arguments*, number, n_threads)`` and of its first argument.

    It calls the kernel that this stands in, with another number and otherwise the arguments that it has now.
    """

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        this = builder.function
        # where a value is returned to, where an error is, number, n_threads; the rest is packed
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
    """Call a share by the addresses of `this_kernel`."""

    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        share = builder.inttoptr(values[0], _share_type().as_pointer())
        builder.call(share, [builder.inttoptr(values[1], ir.IntType(8).as_pointer()), *values[2:]])
        return context.get_dummy_value()

    return types.void(*[types.int64] * 4), codegen


@intrinsic
def _nap(typing_context: Any, microseconds: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        nap_type = ir.FunctionType(ir.IntType(32), [ir.IntType(32)])
        nap = cgutils.get_or_insert_function(builder.module, nap_type, "usleep")
        builder.call(nap, [builder.trunc(values[0], ir.IntType(32))])
        return context.get_dummy_value()

    return types.void(types.int64), codegen


@inlined_kernel
def run_shares(addresses: Any, n_threads: int, board: Any) -> None:
    """Run all shares of a kernel, the first on this thread; the addresses are those of `this_kernel`."""
    share, place = addresses
    if n_threads > 1:
        board[FUNCTION], board[ARGUMENTS], board[N_THREADS] = share, place, n_threads
    for number in range(1, n_threads):
        set_mark(board, number * APART + ASKED, board[number * APART + ASKED] + 1)
    _call(share, place, 0, n_threads)
    for number in range(1, n_threads):
        spins = 0
        while get_mark(board, number * APART + DONE) != board[number * APART + ASKED]:
            spins += 1
            if spins > SPINS:
                let_others_run()


@kernel
def _serve(board: Any, number: int) -> None:
    """Run the shares that a thread is asked for, until there have been none for a while."""
    own = number * APART
    set_mark(board, own + AWAKE, 1)
    done = board[own + DONE]
    idle = 0
    while True:
        asked = get_mark(board, own + ASKED)
        if asked != done:
            _call(board[FUNCTION], board[ARGUMENTS], number, board[N_THREADS])
            done = asked
            set_mark(board, own + DONE, done)
            idle = 0
            continue
        idle += 1
        if idle > SPINS + YIELDS + NAPS:
            # In this order, and the other way round in `_call_up`: either this thread sees that it must stay
            # awake, or it is seen asleep.
            set_mark(board, own + AWAKE, 0)
            if get_mark(board, STAY_AWAKE) == 0:
                return
            set_mark(board, own + AWAKE, 1)
            idle = SPINS
        elif idle > SPINS + YIELDS:
            _nap(NAP_MICROSECONDS)
        elif idle > SPINS:
            let_others_run()


@kernel
def _call_up(board: Any, n_threads: int) -> int:
    """Keep threads awake; how many of them are asleep."""
    set_mark(board, STAY_AWAKE, 1)
    n_asleep = 0
    for number in range(1, n_threads):
        n_asleep += get_mark(board, number * APART + AWAKE) == 0
    return n_asleep


class _Crew:
    """Threads that run shares; they are daemons, and never keep a process alive."""

    def __init__(self) -> None:
        self.board: Marks = np.zeros((MOST_THREADS + 1) * APART, dtype=np.int64)
        self._doors: list[SimpleQueue[bool]] = []

    def call_up(self, n_threads: int) -> None:
        """Wake the threads of a team, or start them; they stay awake until `STAY_AWAKE` is 0."""
        if _call_up(self.board, n_threads) == 0:
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


_crew = _Crew()


def _new_crew() -> None:
    global _crew
    _crew = _Crew()


if hasattr(os, "register_at_fork"):
    # a fork has no threads but the one that called it
    os.register_at_fork(after_in_child=_new_crew)


def on_team(function: Callable[..., None], arguments: tuple[Any, ...], n_threads: int) -> None:
    """Run all shares of a kernel, ``function(number, n, board, *arguments)``.

    The number n is `n_threads`, or 1 where another thread of this process has the cores.
    """
    users, call, crew = users_of_cores(), object(), _crew
    try:
        if n_threads == 1 or users.setdefault(CORES, call) is not call:
            n_threads = 1
        else:
            n_threads = min(n_threads, MOST_THREADS)
            crew.call_up(n_threads)
        function(ALL, n_threads, crew.board, *arguments)
    finally:
        if CORES in users and users[CORES] is call:
            crew.board[STAY_AWAKE] = 0
            del users[CORES]


def on_ranges(
    function: Callable[..., None], arguments: tuple[Any, ...], n_entries: int, *, cut: int = 1
) -> None:
    """`on_team` with as many threads as are worth it for entries of vectors; see `own_range`."""
    n_parts = -(-n_entries // cut)
    on_team(function, arguments, min(threads_for(n_entries, THREAD_ENTRIES), max(n_parts, 1)))


@inlined_kernel
def own_parts(number: int, n_threads: int, n_parts: int) -> tuple[int, int]:
    """The parts that a thread works on, of all that there are: the first, and the one behind the last."""
    return number * n_parts // n_threads, (number + 1) * n_parts // n_threads


@inlined_kernel
def own_range(number: int, n_threads: int, n_entries: int, cut: int) -> tuple[int, int]:
    """The entries that a thread works on, cut at multiples of `cut`: first, and the one behind the last."""
    first, last = own_parts(number, n_threads, -(-n_entries // cut))
    return cut * first, min(cut * last, n_entries)
