"""Warnings that point to the user's own code, however deep in the package they are raised."""

from __future__ import annotations

import sys
import warnings

PACKAGES = ("spcatv", "sklearn", "joblib")


def warn_user(message: str, category: type[Warning]) -> None:
    """Issue a warning at the innermost frame outside this package, scikit-learn and joblib.

    The many fits of a search of scikit-learn, such as GridSearchCV, do not warn: the refit does.
    """
    level = 1
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in PACKAGES:
        if frame.f_code.co_name == "_fit_and_score" and frame.f_locals.get("candidate_progress") is not None:
            return
        frame = frame.f_back
        level += 1
    warnings.warn(message, category, stacklevel=level + 1)
