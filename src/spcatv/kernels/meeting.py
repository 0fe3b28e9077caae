"""How kernels on several threads wait for each other without the interpreter.

Every thread of a team has a mark in a shared array: how far it has come. A thread sets its own mark and waits
until that of another is high enough. It spins for a moment, since the other is about to arrive, and then lets
other threads have the core. All threads of the team must be running (`spcatv._util.threads.together`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from spcatv._util.threads import threads_for, together
from spcatv.kernels.compiled import kernel

Marks = npt.NDArray[np.int64]
Part = tuple[int, int]  # what a thread works on: the first of it, and the one behind the last
Team = tuple[int, int, Marks]  # number of a thread, how many there are, and their marks

# Entries of the array between two marks: each has a cache line of its own, and the next one, too.
APART = 16
# Entries of vectors that are worth a thread.
THREAD_ENTRIES = 1 << 17
# Looks at a mark before other threads get the core.
SPINS = 2000
# The system's function that lets other threads have the core.
YIELD = "SwitchToThread" if os.name == "nt" else "sched_yield"


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    return cgutils.gep(builder, make_array(array_type)(context, builder, array).data, index)


@intrinsic
def _set_mark(typing_context: Any, marks: Any, index: Any, value: Any) -> Any:
    """``marks[index] = value``; whoever sees it sees everything that was written before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], pointer, "release", 8)
        return context.get_dummy_value()

    return types.void(marks, types.intp, types.int64), codegen


@intrinsic
def _get_mark(typing_context: Any, marks: Any, index: Any) -> Any:
    """``marks[index]``, read anew."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "acquire", 8, typ=ir.IntType(64))

    return types.int64(marks, types.intp), codegen


@intrinsic
def _let_others_run(typing_context: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function_type = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, YIELD), [])
        return context.get_dummy_value()

    return types.void(), codegen


@kernel
def arrive(marks: Any, number: int, mark: int) -> None:
    """Set a mark; marks only rise."""
    _set_mark(marks, (number + 1) * APART, mark)


@kernel
def wait_for(marks: Any, number: int, mark: int) -> bool:
    """Wait until mark `number` is high enough; False if the work has been called off."""
    spins = 0
    while _get_mark(marks, (number + 1) * APART) < mark:
        if _get_mark(marks, 0) != 0:
            return False
        spins += 1
        if spins > SPINS:
            _let_others_run()
    return True


@kernel
def meet(marks: Any, number: int, n_threads: int, mark: int) -> bool:
    """Wait until all threads have reached a mark; False if the work has been called off."""
    arrive(marks, number, mark)
    all_here = True
    for other in range(n_threads):
        all_here = all_here and wait_for(marks, other, mark)
    return all_here


def work_together(share: Callable[[int, int, Marks], None], n_threads: int) -> None:
    """Call ``share(number, n, marks)`` for all of n threads, whose kernels may wait for each other.

    There are two marks for every thread, all 0 at first.
    """
    marks = np.zeros((2 * n_threads + 1) * APART, dtype=np.int64)

    def stop() -> None:
        marks[0] = 1

    together(lambda number, n: share(number, n, marks), n_threads, stop)


def bounds(number: int, n_threads: int, n_parts: int) -> tuple[int, int]:
    """The parts that a thread works on, of all that there are."""
    return number * n_parts // n_threads, (number + 1) * n_parts // n_threads


def on_ranges(share: Callable[[int, int], None], n_entries: int, *, cut: int = 1) -> None:
    """Call ``share(first, last)`` on every thread, for entries of which none depends on another.

    The ranges are cut at multiples of `cut` entries.
    """
    n_parts = -(-n_entries // cut)

    def own(number: int, n_threads: int, _marks: Marks) -> None:
        first, last = bounds(number, n_threads, n_parts)
        share(cut * first, min(cut * last, n_entries))

    work_together(own, min(threads_for(n_entries, THREAD_ENTRIES), max(n_parts, 1)))
