"""Assertion of the checks that also works under ``python -O``."""

from __future__ import annotations

import numpy as np


def require(condition: bool | np.bool_, message: str) -> None:
    """Raise an AssertionError unless the condition holds."""
    if not condition:
        raise AssertionError(message)
