"""Warnings that point to the user's own code, however deep in the package they are raised."""

from __future__ import annotations

import sys
import warnings

PACKAGES = ("spcatv", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the innermost frame outside this package, scikit-learn and joblib."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in PACKAGES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
