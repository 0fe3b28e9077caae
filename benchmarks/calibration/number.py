"""Number of components: how often `count_components` is exact, and how often it finds some in noise.

Two sets in three have 1 to 3 factors, the third is noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.calibration.simulations import simulate, simulate_noise
from benchmarks.tables import markdown
from spcatv import SPCATV
from spcatv.selection import count_components
from spcatv.selection.components import OUTSTANDING

CASES = 360
STRENGTHS = (3.0, 10.0, 30.0, 100.0)
# The constant of the rule, beside others.
FACTORS = (1.05, 1.1, OUTSTANDING, 1.2, 1.3)


def measure(seed: int) -> list[dict[str, Any]]:
    if seed % 3 == 2:
        data = simulate_noise(seed // 3 + 5 * (seed // 1000))
    else:
        data = simulate(seed + 9000 + seed // 9, strength=STRENGTHS[seed % 4])
    found = count_components(SPCATV(structure=data.structure), data.X)
    return [{"about": data.about, "share": found.share.tolist(), "limit": found.limit.tolist()}]


def summary(rows: list[dict[str, Any]]) -> str:
    true = np.array([row["about"]["K"] for row in rows])
    strength = np.array([row["about"].get("c", 0.0) for row in rows])
    smooth = np.array([row["about"]["noise"] not in ("white", "heavy", "sd 0") for row in rows])
    noise = true == 0
    lines = []
    for factor in FACTORS:
        found = np.array([_count(row, factor / OUTSTANDING) for row in rows])
        exact = [np.mean(found[strength == value] == true[strength == value]) for value in STRENGTHS]
        shares = [np.mean(found[~noise] == true[~noise]), *exact, np.mean(found[~noise] > true[~noise])]
        shares += [np.mean(found[noise & kind] == 0) for kind in (~smooth, smooth)]
        lines.append([f"{factor:g}", *(f"{share:.0%}" for share in shares)])
    head = ["factor", "exact", *(f"c = {value:g}" for value in STRENGTHS)]
    return markdown([*head, "too many", "none in white or heavy noise", "none in smooth noise"], lines)


def _count(row: dict[str, Any], factor: float) -> int:
    stands_out = np.array(row["share"]) > factor * np.array(row["limit"])
    return int(np.max(np.flatnonzero(stands_out) + 1, initial=0))
