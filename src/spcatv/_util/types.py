"""Names for the array types in signatures."""

from __future__ import annotations

from typing import Any

import numpy as np

# Spelt out: the annotations of records are checked, and NumPy 2.5 makes NDArray an opaque alias.
Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]
FloatArray = np.ndarray[tuple[Any, ...], np.dtype[np.floating[Any]]]
IntArray = np.ndarray[tuple[Any, ...], np.dtype[np.integer[Any]]]
BoolArray = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
