"""Setting of the penalty, gaps to reach, and size of a run: shared by all sections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The penalty of all measurements, unless a section says otherwise.
SETTING: dict[str, Any] = {"alpha": 0.1, "l1_ratio": 0.25, "tv_ratio": 0.5, "penalty_units": "absolute"}
TOL = 1e-6
# Relative gaps that the loading solvers race to; ratios are those of GAP.
GAPS = (1e-3, 1e-4, 1e-5, 1e-6)
GAP = 1e-5


def weights(alpha: float) -> tuple[float, float, float]:
    """Return l1, l2 and tv for this alpha and the ratios of the setting."""
    l1, tv = SETTING["l1_ratio"] * alpha, SETTING["tv_ratio"] * alpha
    return l1, alpha - l1 - tv, tv


@dataclass(frozen=True)
class Options:
    """Amount of work.

    Attributes
    ----------
    scratch : Path
        Folder for data that workers read; it is removed at the end.
    quick : bool
        A minute for the suite: few data sets, small files, no slow peers.
    repeats : int
        Rounds of interleaved measurements; the minimum counts.
    disk : float
        Gigabytes of the file of the section `disk`.
    """

    scratch: Path
    quick: bool = False
    repeats: int = 3
    disk: float = 5.0

    @property
    def limit(self) -> float:
        """Seconds that one run of a slow peer may take."""
        return 2.0 if self.quick else 60.0
