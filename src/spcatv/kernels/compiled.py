"""Compilation of kernels: one set of options for all, and a cache on disk that survives damage."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.compiler_lock import global_compiler_lock

from spcatv._util.threads import wait_for_at_fork
from spcatv._util.types import Array
from spcatv._util.warn import warn_user

F = TypeVar("F", bound=Callable[..., Any])

# Reassociation and contraction let loops use vector units. NaN and infinity are refused before a
# kernel runs, and checked for afterwards, so the compiler may assume that there are none.
FAST_MATH = {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}
# The gap of a solver must be NaN where its input is.
CAREFUL_MATH = {"reassoc", "contract", "nsz"}
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
REMEDY = (
    "set NUMBA_CACHE_DIR to a folder of your own. Processes run the code that they find "
    "there, so nobody else must be able to write to it"
)
wait_for_at_fork(global_compiler_lock)


def kernel(function: F) -> F:
    """Compile a function of arrays and scalars: cached on disk, without the GIL, single-threaded."""
    return cast(F, compiled(function, FAST_MATH, cached_as=function))


def careful_kernel(function: F) -> F:
    """Compile a function that may meet NaN or infinity."""
    return cast(F, compiled(function, CAREFUL_MATH, cached_as=function))


def inlined_kernel(function: F) -> F:
    """Compile a function that becomes part of every kernel that calls it.

    A call between two compiled kernels would go to the copy of the callee that this process has loaded first:
    one that was compiled alone, or one that was compiled with a caller, which may add in another order.
    """
    # These functions own no arrays. Without `_nrt=False` each call would count references to its arguments,
    # in memory that all threads share: they would wait for each other. They must not
    # return arrays to other kernels.
    return njit(forceinline=True, fastmath=FAST_MATH, _nrt=False, **OPTIONS)(function)


def read_only(array: Array) -> Array:
    """Return a read-only view.

    Numba compiles a kernel again for read-only arrays, such as memory maps: arrays that a kernel only reads
    are always passed like this.
    """
    view = array.view()
    view.flags.writeable = False
    return view


class _KernelCache(FunctionCache):
    """Numba's cache on disk. Damage and a full disk cost time, but end no run."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a compiled kernel; None, and an empty index, if the files are damaged."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # damaged bytes may stand for anything
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled kernel; warn if that fails."""
        try:
            super().save_overload(sig, data)
        except Exception as error:  # also an index that is damaged and cannot be replaced
            why = (isinstance(error, OSError) and error.strerror) or error
            warn_user(
                f"compiled kernels cannot be kept in {self.cache_path} ({why}); {REMEDY}", RuntimeWarning
            )


def compiled(function: Callable[..., Any], fast_math: set[str], *, cached_as: Callable[..., Any]) -> Any:
    """Compile a function; the name and the code of `cached_as` identify it in the cache."""
    dispatcher: Any = njit(fastmath=fast_math, **OPTIONS)(function)
    try:
        dispatcher._cache = _KernelCache(cached_as)
    except RuntimeError as error:
        if "no locator available" not in str(error):
            raise
        # neither the folder of the package nor the home folder can be written
        warnings.warn(
            "compiled kernels cannot be kept between processes, because no folder for them is writable; "
            f"{REMEDY}",
            RuntimeWarning,
            stacklevel=3,
        )
    return dispatcher
