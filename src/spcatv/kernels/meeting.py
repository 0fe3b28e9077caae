"""How kernels on several threads wait for each other without the interpreter.

Every thread of a team has a mark in a shared array: how far it has come. A thread sets its own mark and waits
until that of another is high enough. It spins for a moment, since the other is about to arrive, and then lets
other threads have the core. All threads of the team must be running (`spcatv.kernels.team`).
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from spcatv.kernels.compiled import inlined_kernel

Marks = npt.NDArray[np.int64]

# Entries of the array between two marks: each has a cache line of its own, and the next one, too.
APART = 16
# Looks at a mark before other threads get the core.
SPINS = 2000
# The system's function that lets other threads have the core.
YIELD = "SwitchToThread" if os.name == "nt" else "sched_yield"


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    return cgutils.gep(builder, make_array(array_type)(context, builder, array).data, index)


@intrinsic
def set_mark(typing_context: Any, marks: Any, index: Any, value: Any) -> Any:
    """``marks[index] = value``; whoever sees it sees everything that was written before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments[:2])
        builder.store_atomic(arguments[2], pointer, "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(marks, types.intp, types.int64), codegen


@intrinsic
def get_mark(typing_context: Any, marks: Any, index: Any) -> Any:
    """``marks[index]``, read anew, and after everything that this thread has set before."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *arguments)
        return builder.load_atomic(pointer, "seq_cst", 8, typ=ir.IntType(64))

    return types.int64(marks, types.intp), codegen


@intrinsic
def let_others_run(typing_context: Any) -> Any:
    """Let other threads have the core, if there are any."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        function_type = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, function_type, YIELD), [])
        return context.get_dummy_value()

    return types.void(), codegen


def make_marks(n_threads: int) -> Marks:
    """Two marks for every thread, all 0."""
    return np.zeros(2 * n_threads * APART, dtype=np.int64)


@inlined_kernel
def arrive(marks: Any, number: int, mark: int) -> None:
    """Set a mark; marks only rise."""
    set_mark(marks, number * APART, mark)


@inlined_kernel
def wait_for(marks: Any, number: int, mark: int) -> None:
    """Wait until mark `number` is high enough."""
    spins = 0
    while get_mark(marks, number * APART) < mark:
        spins += 1
        if spins > SPINS:
            let_others_run()


@inlined_kernel
def meet(marks: Any, number: int, n_threads: int, mark: int) -> None:
    """Wait until all threads have reached a mark."""
    arrive(marks, number, mark)
    for other in range(n_threads):
        wait_for(marks, other, mark)
