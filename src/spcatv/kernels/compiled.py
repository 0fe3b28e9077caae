"""How kernels are compiled: one set of options for all."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

# Reassociation and contraction let loops use vector units. NaN and infinity are refused before a
# kernel runs (and looked for afterwards), so the compiler may assume that there are none.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}


# The judge of all solvers must see a NaN where there is one.
CAREFUL_MATH = {"reassoc", "contract", "nsz"}


def careful_kernel(function: F) -> F:
    """Compile a function that may meet NaN or infinity."""
    return _compile(function, CAREFUL_MATH)


def _compile(function: F, fast_math: set[str]) -> F:
    options: dict[str, Any] = {"nogil": True, "fastmath": fast_math, "error_model": "numpy"}
    try:
        compiled: F = njit(cache=True, **options)(function)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        # neither the folder of the package nor the home folder can be written
        warnings.warn(
            "compiled kernels cannot be kept between processes, because no folder for them is writable; "
            "set NUMBA_CACHE_DIR to one that is",
            RuntimeWarning,
            stacklevel=2,
        )
        compiled = njit(**options)(function)
    return compiled


def kernel(function: F) -> F:
    """Compile a function of arrays and scalars: cached on disk, without the GIL, single-threaded."""
    return _compile(function, FAST_MATH)
