"""Setting of the penalty, gaps to reach, and size of a run: shared by all sections."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

# The penalty of all measurements, unless a section says otherwise.
SETTING: dict[str, Any] = {"alpha": 0.1, "l1_ratio": 0.25, "tv_ratio": 0.5, "penalty_units": "absolute"}
# Parameters of fits to a share of zeros, beside SETTING.
ZEROS: dict[str, Any] = {"alpha": None, "penalty_units": "relative"}
# The fits of the sections about size.
FITS: dict[str, dict[str, Any]] = {
    "90 % zeros, joint": ZEROS | {"sparsity": 0.9, "method": "joint"},
    "90 % zeros, deflation": ZEROS | {"sparsity": 0.9, "method": "deflation"},
    "alpha 0.1, deflation": {"penalty_units": "relative"},
}
TOL = 1e-6
N_COMPONENTS = 3


@dataclass(frozen=True)
class Options:
    """Amount of work."""

    scratch: Path  # folder for data that workers read; it is removed at the end
    quick: bool = False  # few data sets, small files, no slow peers
    repeats: int = 3  # rounds of interleaved measurements; the minimum counts
    disk: float = 5.0  # gigabytes of the file of the section `disk`

    @property
    def limit(self) -> float:
        """Seconds that one run of a slow peer may take."""
        return 2.0 if self.quick else 60.0
