"""Warnings that point to the user's line, however deep in the packages they arise."""

from __future__ import annotations

import sys
import warnings

PACKAGES = ("spcatv", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the innermost frame that is neither this package's nor scikit-learn's."""
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in PACKAGES:
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
