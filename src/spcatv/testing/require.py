"""An assertion for the checkers, which also run where assert statements do not."""

from __future__ import annotations

import numpy as np


def require(condition: bool | np.bool_, message: str) -> None:
    """Raise an AssertionError unless the condition holds; unlike ``assert``, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)
