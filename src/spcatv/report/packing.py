"""Arrays for the browser: quantised, compressed and written as text, so that a page can hold them."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from spcatv._util.types import Array

FINEST = 32767  # the largest int16


def packed(array: Array) -> str:
    """The bytes of an array, little-endian and in C order, compressed (zlib) and in base64."""
    plain = np.ascontiguousarray(array)
    plain = plain.astype(plain.dtype.newbyteorder("<"), copy=False)
    return base64.b64encode(zlib.compress(plain.tobytes(), 9)).decode("ascii")


def packed_steps(array: Array) -> str:
    """Integers as the steps from each one to the next, which compress far better where they run on."""
    values = np.ascontiguousarray(array, dtype=np.int32).ravel()
    return packed(np.diff(values, prepend=np.int32(0)).astype(np.int32))


def packed_map(values: npt.ArrayLike) -> dict[str, Any]:
    """A map as multiples of a step: zeros stay zeros, and what is not zero does not become zero.

    Returns
    -------
    dict
        ``step``, and ``values``: packed int16, at most half a step from the truth where that is above half
        a step.
    """
    exact = np.asarray(values, dtype=np.float64)
    largest = float(np.abs(exact).max(initial=0.0))
    step = largest / FINEST if largest > 0 else 1.0
    whole = np.round(exact / step)
    whole = np.where((whole == 0) & (exact != 0), np.sign(exact), whole)
    return {"step": step, "values": packed(whole.astype(np.int16))}
