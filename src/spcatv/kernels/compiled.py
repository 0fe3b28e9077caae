"""How kernels are compiled: one set of options for all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Reassociation and contraction let the loops use vector units; NaN and infinity are refused before
# a kernel runs (and looked for after it), so the compiler may assume there are none.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}


# The judge of all solvers must see a NaN where there is one.
CAREFUL_MATH = {"reassoc", "contract", "nsz"}


def careful_kernel(function: F) -> F:
    """Compile a function that must not take NaN or infinity for granted to be absent."""
    compiled: F = njit(cache=True, nogil=True, fastmath=CAREFUL_MATH, error_model="numpy")(function)
    return compiled


def kernel(function: F) -> F:
    """Compile a function of arrays and scalars: cached on disk, without the GIL, single-threaded."""
    compiled: F = njit(cache=True, nogil=True, fastmath=FAST_MATH, error_model="numpy")(function)
    return compiled
